-- How many agents the agents of a channel have started since a person last wrote there.

ALTER TABLE channels ADD COLUMN agent_starts INTEGER NOT NULL DEFAULT 0;

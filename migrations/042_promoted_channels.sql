-- Channels that were made of a person's conversation with one agent: its name.

ALTER TABLE channels ADD COLUMN promoted_from TEXT;

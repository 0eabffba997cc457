-- Agents that were started only to take a seat in a channel, and on whose account; members that
-- leave at the end of their turn.

-- What an agent returns to once it has no seat: the wanted state before it was started for one.
-- NULL: it was not started for a channel.
ALTER TABLE agents ADD COLUMN rests TEXT CHECK (rests IN ('running', 'stopped'));
-- The agent that had it started, or the first in a row of agents that started one another.
ALTER TABLE agents ADD COLUMN started_by TEXT;
ALTER TABLE agents ADD COLUMN started_ms INTEGER;
CREATE INDEX agents_started_by ON agents (started_by, started_ms) WHERE started_by IS NOT NULL;

-- It leaves when the turn that runs has ended, so that its last words are still posted.
ALTER TABLE channel_members ADD COLUMN is_leaving INTEGER NOT NULL DEFAULT 0
    CHECK (is_leaving IN (0, 1));

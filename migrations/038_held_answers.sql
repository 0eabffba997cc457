-- Answers of agents that may hold what somebody typed in their terminals: a person looks first.

ALTER TABLE turns ADD COLUMN is_mixed INTEGER NOT NULL DEFAULT 0 CHECK (is_mixed IN (0, 1));
-- NULL: it is not kept back.
ALTER TABLE turns ADD COLUMN held TEXT CHECK (held IN ('waiting', 'posted', 'private'));
-- The line in its channel that tells of it.
ALTER TABLE turns ADD COLUMN held_sequence INTEGER;
ALTER TABLE turns ADD COLUMN held_by TEXT;
ALTER TABLE turns ADD COLUMN decided_ms INTEGER;

CREATE INDEX turns_held ON turns (ended_ms) WHERE held = 'waiting';

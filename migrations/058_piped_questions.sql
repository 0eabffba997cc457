-- Whether the question came from another program, by `ask -`: the person did not type it, and what it
-- names is not what the person asked for.
ALTER TABLE chat_runs ADD COLUMN piped INTEGER NOT NULL DEFAULT 0 CHECK (piped IN (0, 1));

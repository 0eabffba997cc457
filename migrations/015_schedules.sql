-- What the script does by itself: jobs that it asked for, and when its schedules come due.

-- How many jobs of the script led to this one: a handler that enqueues the job which calls it again
-- must end somewhere. 0 for what a person or a schedule asked for.
ALTER TABLE agent_jobs ADD COLUMN depth INTEGER NOT NULL DEFAULT 0;

-- One row for each schedule of the script. `next_ms` is moved in the transaction that accepts the
-- schedule's jobs: no time is served twice.
CREATE TABLE schedules (
    name       TEXT PRIMARY KEY,
    -- What the script says of its time; another text starts anew.
    timing     TEXT NOT NULL,
    -- The time that was planned, and the same with its jitter.
    planned_ms INTEGER NOT NULL,
    next_ms    INTEGER NOT NULL,
    -- The last time that was served, and what came of it.
    last_ms    INTEGER,
    last_job   TEXT,
    last_error TEXT
) STRICT;

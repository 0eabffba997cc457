-- What became different in the repository while a job ran, and what a person decided about it.
-- One row a job at which something was noticed; the states of files are in the JSON.

CREATE TABLE job_changes (
    job_id       TEXT PRIMARY KEY REFERENCES agent_jobs (id),
    state        TEXT NOT NULL CHECK (state IN ('open', 'restored', 'kept', 'expired')),
    decided_by   TEXT,
    decided_ms   INTEGER,
    created_ms   INTEGER NOT NULL,
    changes_json TEXT NOT NULL,
    CHECK ((state = 'open') = (decided_ms IS NULL))
) STRICT;
CREATE INDEX job_changes_open ON job_changes (created_ms, job_id) WHERE state = 'open';

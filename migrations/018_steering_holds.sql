-- Files that steer agents, changed while a job ran: no agent starts until somebody has decided.
CREATE TABLE steering_holds (
    job_id     TEXT PRIMARY KEY REFERENCES agent_jobs (id),
    since_ms   INTEGER NOT NULL,
    files_json TEXT NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX steering_holds_since ON steering_holds (since_ms, job_id);

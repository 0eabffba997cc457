-- What was spent each day, engines whose provider takes no more, and how far the script was told.

ALTER TABLE agent_jobs ADD COLUMN engine TEXT;
ALTER TABLE agent_jobs ADD COLUMN retry_at_ms INTEGER;
-- To find the first job of each person, when somebody's jobs have to wait.
CREATE INDEX jobs_claim_person ON agent_jobs (kind, requested_by, priority DESC, seq)
    WHERE status = 'queued' AND ready = 1;

-- Sums of settled jobs that had been started; `day` counts days since 1970-01-01 in UTC.
CREATE TABLE usage_days (
    day           INTEGER NOT NULL,
    kind          TEXT NOT NULL,
    person        TEXT NOT NULL,
    engine        TEXT NOT NULL,
    jobs          INTEGER NOT NULL,
    succeeded     INTEGER NOT NULL,
    failed        INTEGER NOT NULL,
    timed_out     INTEGER NOT NULL,
    cancelled     INTEGER NOT NULL,
    rate_limited  INTEGER NOT NULL,
    input_tokens  INTEGER NOT NULL,
    cached_tokens INTEGER NOT NULL,
    output_tokens INTEGER NOT NULL,
    cost_micros   INTEGER NOT NULL,
    agent_ms      INTEGER NOT NULL,
    PRIMARY KEY (day, kind, person, engine)
) STRICT, WITHOUT ROWID;

-- The jobs of before; which engine ran them was not written down.
INSERT INTO usage_days
SELECT completed_ms / 86400000, kind, requested_by, '', COUNT(*),
       SUM(status = 'succeeded'), SUM(status = 'failed'), SUM(status = 'timed_out'),
       SUM(status = 'cancelled'), 0,
       SUM(CAST(COALESCE(json_extract(usage_json, '$.input_tokens'), 0)
           + COALESCE(json_extract(usage_json, '$.cache_creation_input_tokens'), 0) AS INTEGER)),
       SUM(CAST(COALESCE(json_extract(usage_json, '$.cache_read_input_tokens'), 0) AS INTEGER)),
       SUM(CAST(COALESCE(json_extract(usage_json, '$.output_tokens'), 0) AS INTEGER)),
       SUM(CAST(ROUND(COALESCE(cost_usd, 0) * 1000000) AS INTEGER)),
       SUM(MAX(completed_ms - started_ms, 0))
FROM agent_jobs
WHERE completed_ms IS NOT NULL AND started_ms IS NOT NULL
GROUP BY 1, 2, 3;

CREATE TABLE engine_holds (
    engine   TEXT PRIMARY KEY,
    since_ms INTEGER NOT NULL,
    until_ms INTEGER NOT NULL,
    is_said  INTEGER NOT NULL CHECK (is_said IN (0, 1)),
    strikes  INTEGER NOT NULL,
    job_id   TEXT NOT NULL
) STRICT, WITHOUT ROWID;

-- The last event that the script's handlers were told of. What happened before this table is not
-- told to them.
CREATE TABLE handlers_told (
    one      INTEGER PRIMARY KEY CHECK (one = 1),
    event_id INTEGER NOT NULL
) STRICT;
INSERT INTO handlers_told (one, event_id)
VALUES (1, COALESCE((SELECT seq FROM sqlite_sequence WHERE name = 'events'), 0));

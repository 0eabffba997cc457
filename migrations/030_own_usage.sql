-- What private jobs have spent is summed up for itself: nobody but their owner sees it.

CREATE TABLE usage_days_new (
    day           INTEGER NOT NULL,
    kind          TEXT NOT NULL,
    person        TEXT NOT NULL,
    engine        TEXT NOT NULL,
    is_private    INTEGER NOT NULL CHECK (is_private IN (0, 1)),
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
    PRIMARY KEY (day, kind, person, engine, is_private)
) STRICT, WITHOUT ROWID;
INSERT INTO usage_days_new
SELECT day, kind, person, engine, 0, jobs, succeeded, failed, timed_out, cancelled, rate_limited,
       input_tokens, cached_tokens, output_tokens, cost_micros, agent_ms
FROM usage_days;
DROP TABLE usage_days;
ALTER TABLE usage_days_new RENAME TO usage_days;

-- An engine may be held for one person only, whose own subscription takes no more ('' in
-- `person_id` is everybody); which private job met the limit is nobody's affair.

CREATE TABLE engine_holds_new (
    engine    TEXT NOT NULL,
    person_id TEXT NOT NULL DEFAULT '',
    since_ms  INTEGER NOT NULL,
    until_ms  INTEGER NOT NULL,
    is_said   INTEGER NOT NULL CHECK (is_said IN (0, 1)),
    strikes   INTEGER NOT NULL,
    job_id    TEXT,
    PRIMARY KEY (engine, person_id)
) STRICT, WITHOUT ROWID;
INSERT INTO engine_holds_new (engine, since_ms, until_ms, is_said, strikes, job_id)
SELECT engine, since_ms, until_ms, is_said, strikes, job_id FROM engine_holds;
DROP TABLE engine_holds;
ALTER TABLE engine_holds_new RENAME TO engine_holds;

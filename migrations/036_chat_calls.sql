-- What the assistant's runs did: one row for each call of a tool, with its exact arguments.

CREATE TABLE chat_calls (
    id            TEXT PRIMARY KEY,
    run_id        TEXT NOT NULL REFERENCES chat_runs (job_id) ON DELETE CASCADE,
    step          INTEGER NOT NULL,
    -- Its place among the calls of the run, from 1.
    place         INTEGER NOT NULL,
    -- The name that the runtime gave it.
    call_ref      TEXT NOT NULL,
    tool          TEXT NOT NULL,
    args_json     TEXT NOT NULL,
    args_digest   TEXT NOT NULL,
    state         TEXT NOT NULL CHECK (state IN ('ready', 'waiting', 'running', 'done',
        'declined', 'expired', 'void', 'cancelled', 'unknown')),
    -- Why a person is asked, if one is.
    asks          TEXT,
    approval_id   TEXT UNIQUE REFERENCES approvals (id),
    -- What it changes, and what stood and will stand there; of a move both ends.
    target        TEXT,
    before_digest TEXT,
    after_digest  TEXT,
    target_to     TEXT,
    ok            INTEGER CHECK (ok IN (0, 1)),
    summary       TEXT,
    result_text   TEXT,
    undone_ms     INTEGER,
    created_ms    INTEGER NOT NULL,
    started_ms    INTEGER,
    ended_ms      INTEGER,
    UNIQUE (run_id, call_ref),
    UNIQUE (run_id, place),
    CHECK ((approval_id IS NULL) = (asks IS NULL)),
    CHECK ((target IS NULL) = (before_digest IS NULL)),
    CHECK ((ok IS NULL) = (state IN ('ready', 'waiting', 'running', 'cancelled', 'unknown'))),
    CHECK (undone_ms IS NULL OR target IS NOT NULL)
) STRICT, WITHOUT ROWID;
-- What a person was asked about, and what is made, never changes.
CREATE TRIGGER chat_calls_stay BEFORE UPDATE OF id, run_id, step, place, call_ref, tool, args_json,
    args_digest, asks, approval_id, target, before_digest, after_digest, target_to, created_ms
    ON chat_calls
BEGIN
    SELECT RAISE(ABORT, 'a call never changes');
END;

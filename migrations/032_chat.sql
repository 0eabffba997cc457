-- Conversations of people with the assistant: trees of messages that never change, and one row for
-- each run of a model, which is a job.

CREATE TABLE chat_sessions (
    id          TEXT PRIMARY KEY,
    person_id   TEXT NOT NULL REFERENCES persons (id),
    title       TEXT NOT NULL,
    title_by    TEXT NOT NULL DEFAULT 'auto' CHECK (title_by IN ('auto', 'person')),
    -- The newest message of the branch that is shown.
    head_id     TEXT,
    is_pinned   INTEGER NOT NULL DEFAULT 0 CHECK (is_pinned IN (0, 1)),
    messages    INTEGER NOT NULL DEFAULT 0,
    tokens_in   INTEGER NOT NULL DEFAULT 0,
    tokens_out  INTEGER NOT NULL DEFAULT 0,
    cost_micros INTEGER NOT NULL DEFAULT 0,
    created_ms  INTEGER NOT NULL,
    touched_ms  INTEGER NOT NULL,
    archived_ms INTEGER
) STRICT, WITHOUT ROWID;
CREATE INDEX chat_sessions_of_person ON chat_sessions (person_id, touched_ms, id);

CREATE TABLE chat_messages (
    seq              INTEGER PRIMARY KEY AUTOINCREMENT,
    id               TEXT NOT NULL UNIQUE,
    session_id       TEXT NOT NULL REFERENCES chat_sessions (id) ON DELETE CASCADE,
    parent_id        TEXT REFERENCES chat_messages (id) ON DELETE CASCADE,
    role             TEXT NOT NULL CHECK (role IN ('user', 'assistant', 'tools')),
    run_id           TEXT REFERENCES agent_jobs (id),
    step             INTEGER,
    state            TEXT NOT NULL CHECK (state IN ('whole', 'stopped', 'interrupted', 'failed')),
    body             TEXT NOT NULL,
    native_json      TEXT,
    provider         TEXT,
    model            TEXT,
    attachments_json TEXT NOT NULL DEFAULT '[]',
    created_ms       INTEGER NOT NULL,
    CHECK ((run_id IS NULL) = (step IS NULL))
) STRICT;
CREATE UNIQUE INDEX chat_messages_of_run ON chat_messages (run_id, step, role)
    WHERE run_id IS NOT NULL;
CREATE INDEX chat_messages_of_session ON chat_messages (session_id, seq);
CREATE INDEX chat_messages_of_parent ON chat_messages (parent_id, seq);
CREATE INDEX chat_messages_first ON chat_messages (session_id, seq) WHERE parent_id IS NULL;
CREATE TRIGGER chat_messages_stay BEFORE UPDATE ON chat_messages
BEGIN
    SELECT RAISE(ABORT, 'a message never changes');
END;
CREATE TRIGGER chat_messages_of_one_session BEFORE INSERT ON chat_messages
WHEN NEW.parent_id IS NOT NULL AND NOT EXISTS (
    SELECT 1 FROM chat_messages WHERE id = NEW.parent_id AND session_id = NEW.session_id)
BEGIN
    SELECT RAISE(ABORT, 'the parent is a message of another conversation');
END;

CREATE TABLE chat_runs (
    job_id      TEXT PRIMARY KEY REFERENCES agent_jobs (id),
    session_id  TEXT NOT NULL REFERENCES chat_sessions (id) ON DELETE CASCADE,
    question_id TEXT NOT NULL REFERENCES chat_messages (id) ON DELETE CASCADE,
    asked_mode  TEXT,
    mode        TEXT NOT NULL,
    fell_back   INTEGER NOT NULL DEFAULT 0 CHECK (fell_back IN (0, 1)),
    action      TEXT,
    dry_run     INTEGER NOT NULL DEFAULT 0 CHECK (dry_run IN (0, 1)),
    policy_json TEXT NOT NULL DEFAULT '{}',
    steps       INTEGER NOT NULL DEFAULT 0,
    tool_calls  INTEGER NOT NULL DEFAULT 0,
    ended       TEXT CHECK (ended IN
        ('ok', 'stopped', 'timeout', 'limit', 'error', 'interrupted')),
    error_code  TEXT,
    error_text  TEXT,
    artefact    TEXT,
    created_ms  INTEGER NOT NULL,
    ended_ms    INTEGER,
    CHECK ((ended IS NULL) = (ended_ms IS NULL))
) STRICT, WITHOUT ROWID;
CREATE INDEX chat_runs_of_session ON chat_runs (session_id, job_id);
-- A conversation has one answer at a time.
CREATE UNIQUE INDEX chat_runs_open ON chat_runs (session_id) WHERE ended IS NULL;
CREATE INDEX chat_runs_of_question ON chat_runs (question_id);

-- Of each person what they chose for themselves.
CREATE TABLE chat_settings (
    person_id  TEXT PRIMARY KEY REFERENCES persons (id),
    mode       TEXT,
    flags_json TEXT NOT NULL DEFAULT '{}',
    changed_ms INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- Which session of a runtime stands at which message of a conversation.
CREATE TABLE chat_refs (
    session_id  TEXT NOT NULL REFERENCES chat_sessions (id) ON DELETE CASCADE,
    mode        TEXT NOT NULL,
    runtime_ref TEXT NOT NULL,
    at_message  TEXT NOT NULL,
    PRIMARY KEY (session_id, mode)
) STRICT, WITHOUT ROWID;

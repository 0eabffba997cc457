-- Questions to a person: each waits without a process until it is decided, withdrawn or expired.

CREATE TABLE approvals (
    id           TEXT PRIMARY KEY,
    channel      TEXT NOT NULL,
    sort         TEXT NOT NULL CHECK (sort IN ('request', 'permission', 'call')),
    -- The only person who sees it.
    private_to   TEXT REFERENCES persons (id),
    title        TEXT NOT NULL,
    payload_json TEXT NOT NULL,
    schema_json  TEXT,
    requester    TEXT NOT NULL,
    from_class   TEXT CHECK (from_class IN ('agent', 'instance', 'topic', 'person', 'channel')),
    from_name    TEXT CHECK (from_name NOT LIKE '%:%'),
    job_id       TEXT REFERENCES agent_jobs (id),
    -- The first leg of the job that asked.
    root_id      TEXT REFERENCES agent_jobs (id),
    state        TEXT NOT NULL DEFAULT 'pending' CHECK (state IN
        ('pending', 'approved', 'amended', 'rejected', 'withdrawn', 'expired')),
    version      INTEGER NOT NULL DEFAULT 1,
    -- The payload as it was approved, if it was changed.
    changed_json TEXT,
    note         TEXT,
    decided_by   TEXT,
    decided_ms   INTEGER,
    expires_ms   INTEGER,
    -- SHA-256 of the call that a permission is for, and when that was used.
    call_digest  TEXT,
    used_ms      INTEGER,
    created_ms   INTEGER NOT NULL,
    CHECK ((state = 'pending') = (decided_ms IS NULL)),
    CHECK ((state = 'pending') = (decided_by IS NULL)),
    CHECK ((state = 'amended') = (changed_json IS NOT NULL)),
    CHECK ((from_class IS NULL) = (from_name IS NULL)),
    CHECK ((job_id IS NULL) = (root_id IS NULL))
) STRICT, WITHOUT ROWID;
CREATE INDEX approvals_by_state ON approvals (state, id);
CREATE INDEX approvals_by_root ON approvals (root_id, id) WHERE root_id IS NOT NULL;
CREATE INDEX approvals_by_requester ON approvals (requester) WHERE state = 'pending';
CREATE INDEX approvals_due ON approvals (expires_ms)
    WHERE state = 'pending' AND expires_ms IS NOT NULL;
CREATE TRIGGER approvals_stay BEFORE UPDATE OF id, channel, sort, private_to, title, payload_json,
    schema_json, requester, from_class, from_name, job_id, root_id, state, version, changed_json,
    note, decided_by, decided_ms, expires_ms, call_digest, created_ms ON approvals
WHEN OLD.state <> 'pending'
BEGIN
    SELECT RAISE(ABORT, 'a decided approval never changes');
END;
CREATE TRIGGER approvals_are_kept BEFORE DELETE ON approvals WHEN OLD.sort <> 'call'
BEGIN
    SELECT RAISE(ABORT, 'an approval is never removed');
END;

CREATE TABLE approval_events (
    approval_id TEXT NOT NULL REFERENCES approvals (id) ON DELETE CASCADE,
    version     INTEGER NOT NULL,
    event       TEXT NOT NULL CHECK (event IN
        ('created', 'approved', 'amended', 'rejected', 'withdrawn', 'expired')),
    actor       TEXT NOT NULL,
    at_ms       INTEGER NOT NULL,
    data_json   TEXT NOT NULL DEFAULT '{}',
    PRIMARY KEY (approval_id, version)
) STRICT, WITHOUT ROWID;
CREATE TRIGGER approval_events_stay BEFORE UPDATE ON approval_events
BEGIN
    SELECT RAISE(ABORT, 'the history of an approval never changes');
END;
CREATE TRIGGER approval_events_are_kept BEFORE DELETE ON approval_events
WHEN (SELECT sort FROM approvals WHERE id = OLD.approval_id) <> 'call'
BEGIN
    SELECT RAISE(ABORT, 'the history of an approval is kept');
END;

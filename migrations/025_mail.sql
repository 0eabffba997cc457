-- Messages between addresses, and what became of each for its recipient. Tables hold the class of an
-- address and its bare name, never a prefix.

CREATE TABLE messages (
    seq         INTEGER PRIMARY KEY AUTOINCREMENT,
    id          TEXT NOT NULL UNIQUE,
    sort        TEXT NOT NULL CHECK (sort IN ('message', 'reply', 'failure', 'notice')),
    sender      TEXT NOT NULL,
    from_class  TEXT CHECK (from_class IN ('agent', 'instance', 'topic', 'person', 'channel')),
    from_name   TEXT CHECK (from_name NOT LIKE '%:%'),
    to_class    TEXT NOT NULL CHECK (to_class IN ('agent', 'instance', 'topic', 'person', 'channel')),
    to_name     TEXT NOT NULL CHECK (to_name NOT LIKE '%:%'),
    payload     TEXT NOT NULL,
    category    TEXT,
    in_reply_to TEXT REFERENCES messages (id),
    reply_class TEXT CHECK (reply_class IN ('agent', 'instance', 'topic', 'person', 'channel')),
    reply_name  TEXT CHECK (reply_name NOT LIKE '%:%'),
    thread      TEXT NOT NULL,
    depth       INTEGER NOT NULL DEFAULT 0,
    -- The job that sent it.
    job_id      TEXT REFERENCES agent_jobs (id),
    approval_id TEXT UNIQUE,
    created_ms  INTEGER NOT NULL,
    CHECK ((from_class IS NULL) = (from_name IS NULL)),
    CHECK ((reply_class IS NULL) = (reply_name IS NULL))
) STRICT;
CREATE INDEX messages_by_recipient ON messages (to_class, to_name, seq);
CREATE INDEX messages_by_sender ON messages (from_class, from_name, seq) WHERE from_class IS NOT NULL;
CREATE INDEX messages_by_thread ON messages (thread, seq);
CREATE INDEX messages_by_job ON messages (job_id, created_ms) WHERE job_id IS NOT NULL;
CREATE INDEX messages_by_reply ON messages (in_reply_to, seq) WHERE in_reply_to IS NOT NULL;
CREATE TRIGGER messages_stay BEFORE UPDATE ON messages
BEGIN
    SELECT RAISE(ABORT, 'a message never changes');
END;

CREATE TABLE deliveries (
    seq           INTEGER PRIMARY KEY AUTOINCREMENT,
    message_id    TEXT NOT NULL REFERENCES messages (id) ON DELETE CASCADE,
    to_class      TEXT NOT NULL CHECK (to_class IN ('agent', 'instance', 'topic', 'person')),
    to_name       TEXT NOT NULL CHECK (to_name NOT LIKE '%:%'),
    state         TEXT NOT NULL CHECK (state IN
        ('queued', 'claimed', 'sent', 'confirmed', 'unconfirmed', 'expired', 'dropped')),
    wakes         INTEGER NOT NULL DEFAULT 1 CHECK (wakes IN (0, 1)),
    room          INTEGER,
    attempt       INTEGER NOT NULL DEFAULT 0,
    block_id      TEXT,
    is_head       INTEGER NOT NULL DEFAULT 1 CHECK (is_head IN (0, 1)),
    -- The job that it was given to, or that it started.
    job_id        TEXT REFERENCES agent_jobs (id),
    not_before_ms INTEGER,
    proof         TEXT,
    reason        TEXT,
    repeats       INTEGER REFERENCES deliveries (seq),
    claimed_ms    INTEGER,
    sent_ms       INTEGER,
    ended_ms      INTEGER,
    CHECK ((state IN ('queued', 'claimed', 'sent')) = (ended_ms IS NULL))
) STRICT;
CREATE UNIQUE INDEX deliveries_once ON deliveries (message_id, to_class, to_name)
    WHERE repeats IS NULL;
CREATE UNIQUE INDEX deliveries_open ON deliveries (to_class, to_name)
    WHERE state IN ('claimed', 'sent') AND is_head = 1 AND to_class <> 'person';
CREATE INDEX deliveries_queued ON deliveries (to_class, to_name, seq) WHERE state = 'queued';
CREATE INDEX deliveries_of_recipient ON deliveries (to_class, to_name, seq);
CREATE INDEX deliveries_of_message ON deliveries (message_id, seq);
CREATE INDEX deliveries_by_state ON deliveries (state, ended_ms);

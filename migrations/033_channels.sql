-- Channels of people and agents, what is said in them, and the turns of agents.

CREATE TABLE channels (
    number         INTEGER PRIMARY KEY AUTOINCREMENT,
    id             TEXT NOT NULL UNIQUE,
    slug           TEXT NOT NULL UNIQUE,
    name           TEXT NOT NULL,
    folded         TEXT NOT NULL,
    type           TEXT NOT NULL,
    about          TEXT,
    -- NULL: that of its type.
    intent         TEXT,
    created_by     TEXT NOT NULL,
    status         TEXT NOT NULL CHECK (status IN ('pending', 'active', 'complete', 'archived')),
    created_ms     INTEGER NOT NULL,
    active_ms      INTEGER,
    completed_ms   INTEGER,
    completed_by   TEXT,
    archived_ms    INTEGER,
    last_sequence  INTEGER NOT NULL DEFAULT 0,
    last_ms        INTEGER NOT NULL,
    -- Messages of agents since a person spoke.
    agent_messages INTEGER NOT NULL DEFAULT 0,
    -- Chains of causes that began before this message count no more.
    guard_from     INTEGER NOT NULL DEFAULT 0,
    paused_ms      INTEGER,
    pause_reason   TEXT CHECK (pause_reason IN
        ('hops', 'no_person', 'cycle', 'rate', 'budget', 'person')),
    budget_json    TEXT,
    turns          INTEGER NOT NULL DEFAULT 0,
    tokens         INTEGER NOT NULL DEFAULT 0,
    cost_usd       REAL NOT NULL DEFAULT 0,
    warned_ms      INTEGER,
    CHECK (status <> 'active' OR active_ms IS NOT NULL),
    CHECK ((status IN ('complete', 'archived')) = (completed_ms IS NOT NULL)),
    CHECK ((status = 'archived') = (archived_ms IS NOT NULL)),
    CHECK (paused_ms IS NULL OR status = 'active'),
    CHECK ((paused_ms IS NULL) = (pause_reason IS NULL))
) STRICT;
CREATE INDEX channels_by_status ON channels (status, last_ms);
CREATE UNIQUE INDEX channels_open_name ON channels (folded) WHERE status IN ('pending', 'active');

CREATE TABLE channel_members (
    channel      INTEGER NOT NULL REFERENCES channels (number),
    -- `persona:NAME` or `person:ID`.
    member       TEXT NOT NULL,
    handle       TEXT NOT NULL,
    persona_type TEXT NOT NULL CHECK (persona_type IN
        ('agent_internal', 'agent_external', 'person_internal', 'person_external')),
    -- The agent that hears and speaks for it.
    agent        TEXT REFERENCES agents (name) ON DELETE SET NULL,
    is_chair     INTEGER NOT NULL DEFAULT 0 CHECK (is_chair IN (0, 1)),
    status       TEXT NOT NULL CHECK (status IN ('active', 'muted', 'left')),
    by           TEXT NOT NULL,
    joined_ms    INTEGER NOT NULL,
    left_ms      INTEGER,
    joined_seq   INTEGER NOT NULL,
    -- What its agent has heard, and what the person has read.
    seen_seq     INTEGER NOT NULL,
    read_seq     INTEGER NOT NULL,
    changed_ms   INTEGER NOT NULL,
    PRIMARY KEY (channel, member),
    CHECK (status <> 'left' OR (agent IS NULL AND is_chair = 0 AND left_ms IS NOT NULL)),
    CHECK (agent IS NULL OR persona_type = 'agent_internal')
) STRICT;
CREATE UNIQUE INDEX channel_members_handle ON channel_members (channel, handle);
CREATE UNIQUE INDEX channel_members_chair ON channel_members (channel) WHERE is_chair = 1;
CREATE UNIQUE INDEX channel_members_seat ON channel_members (agent)
    WHERE status = 'active' AND agent IS NOT NULL;
CREATE INDEX channel_members_of ON channel_members (member, status);

CREATE TABLE channel_messages (
    message_id       TEXT PRIMARY KEY REFERENCES messages (id),
    channel          INTEGER NOT NULL REFERENCES channels (number),
    sequence         INTEGER NOT NULL,
    type             TEXT NOT NULL CHECK (type IN
        ('message', 'system', 'delegation', 'escalation')),
    -- `persona:NAME`, `person:ID`, `script` or `system`; and its handle, if it is a member.
    author           TEXT NOT NULL,
    handle           TEXT,
    agent            TEXT,
    turn_id          TEXT,
    is_answer        INTEGER NOT NULL DEFAULT 0 CHECK (is_answer IN (0, 1)),
    answers_sequence INTEGER,
    cause_id         TEXT,
    -- The first message of the chain of causes, and how many steps it is away.
    root             TEXT NOT NULL,
    hop              INTEGER NOT NULL,
    created_ms       INTEGER NOT NULL
) STRICT;
CREATE UNIQUE INDEX channel_messages_sequence ON channel_messages (channel, sequence);
CREATE UNIQUE INDEX channel_messages_answer ON channel_messages (turn_id) WHERE is_answer = 1;
CREATE INDEX channel_messages_root ON channel_messages (root, author);
CREATE INDEX channel_messages_time ON channel_messages (channel, created_ms);
CREATE TRIGGER channel_messages_stay BEFORE UPDATE ON channel_messages
BEGIN
    SELECT RAISE(ABORT, 'a message of a channel never changes');
END;
CREATE TRIGGER channel_messages_kept BEFORE DELETE ON channel_messages
BEGIN
    SELECT RAISE(ABORT, 'a message of a channel is never deleted');
END;

CREATE TABLE mentions (
    member   TEXT NOT NULL,
    channel  INTEGER NOT NULL REFERENCES channels (number),
    sequence INTEGER NOT NULL,
    PRIMARY KEY (member, channel, sequence)
) STRICT, WITHOUT ROWID;

CREATE TABLE turns (
    id            TEXT PRIMARY KEY,
    agent         TEXT NOT NULL,
    job_id        TEXT NOT NULL REFERENCES agent_jobs (id),
    block_id      TEXT,
    channel       INTEGER REFERENCES channels (number),
    cause         TEXT NOT NULL CHECK (cause IN ('block', 'typed', 'engine')),
    -- The newest waking message of its block.
    cause_message TEXT REFERENCES messages (id) ON DELETE SET NULL,
    state         TEXT NOT NULL CHECK (state IN
        ('running', 'answered', 'silent', 'interrupted', 'failed', 'lost')),
    answer        TEXT,
    reason        TEXT,
    started_ms    INTEGER NOT NULL,
    ended_ms      INTEGER,
    tokens        INTEGER,
    cost_usd      REAL,
    CHECK ((state = 'running') = (ended_ms IS NULL))
) STRICT;
CREATE UNIQUE INDEX turns_running ON turns (agent) WHERE state = 'running';
CREATE UNIQUE INDEX turns_of_block ON turns (block_id) WHERE state <> 'lost';
CREATE INDEX turns_by_block ON turns (block_id, started_ms) WHERE block_id IS NOT NULL;
CREATE INDEX turns_of_agent ON turns (agent, started_ms);
CREATE INDEX turns_of_channel ON turns (channel, started_ms) WHERE channel IS NOT NULL;

CREATE INDEX deliveries_of_room ON deliveries (room, to_name, seq) WHERE room IS NOT NULL;

-- Agents that live on: each start of one is a job. What was given to one, and is not over yet, is
-- its block: at most one, kept so that it can be given again under the same name.

CREATE TABLE agents (
    name          TEXT PRIMARY KEY CHECK (name NOT LIKE '%:%' AND name NOT LIKE '%/%'),
    number        INTEGER NOT NULL UNIQUE,
    persona       TEXT,
    -- The declaration whose kind it starts: `robbo-2` starts `@robbo`.
    declared      TEXT NOT NULL,
    wanted        TEXT NOT NULL CHECK (wanted IN ('running', 'stopped')),
    state         TEXT NOT NULL CHECK (state IN
        ('stopped', 'starting', 'idle', 'busy', 'blocked', 'failed')),
    -- Who gets what is sent to this one.
    heir          TEXT REFERENCES agents (name),
    -- Its last start.
    job_id        TEXT REFERENCES agent_jobs (id),
    session_ref   TEXT,
    config_digest TEXT NOT NULL,
    -- When its last starts ended unasked, as a list of times.
    ends_json     TEXT NOT NULL DEFAULT '[]',
    not_before_ms INTEGER,
    -- What it was last seen doing, and when.
    fact          TEXT,
    fact_ms       INTEGER,
    reason        TEXT,
    changed_ms    INTEGER NOT NULL,
    CHECK (heir IS NULL OR heir <> name)
) STRICT;

CREATE TABLE blocks (
    agent    TEXT PRIMARY KEY REFERENCES agents (name) ON DELETE CASCADE,
    id       TEXT NOT NULL UNIQUE,
    room     INTEGER,
    text     TEXT NOT NULL,
    -- The start to which it was last written.
    job_id   TEXT NOT NULL REFERENCES agent_jobs (id),
    made_ms  INTEGER NOT NULL,
    -- When its turn began: from then on it has arrived.
    begun_ms INTEGER
) STRICT;

CREATE INDEX deliveries_of_block ON deliveries (block_id) WHERE block_id IS NOT NULL;

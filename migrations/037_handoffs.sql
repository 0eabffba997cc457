-- Handovers: an agent leaves in the middle, and writes down what its successor has to know.

CREATE TABLE handoffs (
    id         TEXT PRIMARY KEY,
    persona    TEXT NOT NULL,
    agent      TEXT NOT NULL REFERENCES agents (name),
    state      TEXT NOT NULL CHECK (state IN ('asked', 'written', 'seated', 'failed')),
    reason     TEXT,
    -- With what its file begins; the rest of the name is the agent's own summary and number.
    stamp      TEXT NOT NULL,
    file       TEXT,
    note       TEXT,
    -- Whether the agent goes on once its seats are given to the successor.
    keeps      INTEGER NOT NULL CHECK (keeps IN (0, 1)),
    -- The message that asks for it.
    message_id TEXT NOT NULL REFERENCES messages (id) ON DELETE CASCADE,
    asked_by   TEXT NOT NULL,
    asked_ms   INTEGER NOT NULL,
    written_ms INTEGER,
    successor  TEXT REFERENCES agents (name),
    -- The message that tells the successor to read it.
    read_id    TEXT REFERENCES messages (id) ON DELETE SET NULL,
    ended_ms   INTEGER,
    CHECK ((state IN ('seated', 'failed')) = (ended_ms IS NOT NULL)),
    CHECK (state NOT IN ('written', 'seated') OR (file IS NOT NULL AND written_ms IS NOT NULL))
) STRICT;
CREATE UNIQUE INDEX handoffs_open ON handoffs (agent) WHERE state IN ('asked', 'written');
CREATE UNIQUE INDEX handoffs_stamp ON handoffs (persona, stamp);
CREATE INDEX handoffs_of_agent ON handoffs (agent, asked_ms);

CREATE INDEX channel_members_agent ON channel_members (agent) WHERE agent IS NOT NULL;

-- Which agent was told to read which file: it may read that one.
CREATE TABLE handoff_reads (
    persona TEXT NOT NULL,
    file    TEXT NOT NULL,
    agent   TEXT NOT NULL REFERENCES agents (name),
    by      TEXT NOT NULL,
    at_ms   INTEGER NOT NULL,
    PRIMARY KEY (agent, file, persona)
) STRICT, WITHOUT ROWID;
CREATE INDEX handoff_reads_of_file ON handoff_reads (persona, file);

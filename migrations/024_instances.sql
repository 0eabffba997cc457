-- migrate:no-tx
-- Jobs that messages start: instances of an inbox, their later legs, agents that live on, monitors,
-- and jobs that only one person sees. Which inputs a kind has is the script's affair: the checks by
-- the names of two kinds are gone.

PRAGMA foreign_keys = OFF;
BEGIN IMMEDIATE;
CREATE TABLE agent_jobs_new (
    seq              INTEGER PRIMARY KEY AUTOINCREMENT,
    id               TEXT NOT NULL UNIQUE,
    kind             TEXT NOT NULL,
    lane_key         TEXT,
    lane_slot        INTEGER,
    status           TEXT NOT NULL CHECK (status IN
        ('queued', 'running', 'parked', 'succeeded', 'failed', 'timed_out', 'cancelled')),
    reason           TEXT,
    source_path      TEXT,
    topic_id         TEXT REFERENCES topics (id),
    persona_name     TEXT,
    inputs_json      TEXT NOT NULL,
    grants_json      TEXT NOT NULL,
    requested_by     TEXT NOT NULL,
    priority         INTEGER NOT NULL DEFAULT 0,
    not_before_ms    INTEGER,
    ready            INTEGER NOT NULL DEFAULT 0 CHECK (ready IN (-1, 0, 1)),
    created_ms       INTEGER NOT NULL,
    started_ms       INTEGER,
    ending_ms        INTEGER,
    completed_ms     INTEGER,
    exit_code        INTEGER,
    signal           INTEGER,
    error_tail       TEXT,
    summary          TEXT,
    result_json      TEXT,
    warnings_json    TEXT NOT NULL DEFAULT '[]',
    cancelled_by     TEXT,
    session_ref      TEXT,
    usage_json       TEXT,
    cost_usd         REAL,
    config_digest    TEXT NOT NULL,
    token_hash       TEXT,
    retry_of         TEXT REFERENCES agent_jobs (id),
    host             TEXT NOT NULL DEFAULT 'local',
    guard_pid        INTEGER,
    guard_start      INTEGER,
    boot_id          TEXT,
    files_removed_ms INTEGER,
    engine           TEXT,
    retry_at_ms      INTEGER,
    depth            INTEGER NOT NULL DEFAULT 0,
    -- The first leg of an instance; NULL: the job itself.
    root_id          TEXT REFERENCES agent_jobs (id),
    -- The leg that this one goes on from.
    resumes          TEXT REFERENCES agent_jobs (id),
    -- The only person who sees it.
    owner            TEXT REFERENCES persons (id),
    pool             TEXT NOT NULL DEFAULT 'work' CHECK (pool IN ('work', 'live', 'monitor', 'chat')),
    phase            TEXT CHECK (phase IN ('prepare', 'run', 'cleanup')),
    on_server_loss   TEXT NOT NULL DEFAULT 'kill' CHECK (on_server_loss IN ('kill', 'keep')),
    -- The message that started it.
    message_id       TEXT,
    -- The agent that lives in it.
    agent            TEXT,
    monitor_of       TEXT REFERENCES agent_jobs (id),
    -- The approval that it waits for once its process has ended.
    waits_for        TEXT,
    verdict          TEXT CHECK (verdict IN ('ok', 'error')),
    -- What of a live job's usage is counted already.
    counted_json     TEXT,
    CHECK ((status IN ('queued', 'running')) = (completed_ms IS NULL)),
    CHECK (status <> 'succeeded' OR error_tail IS NULL),
    CHECK (status <> 'running' OR started_ms IS NOT NULL),
    CHECK (status <> 'parked' OR waits_for IS NOT NULL),
    CHECK ((pool = 'live') = (agent IS NOT NULL))
) STRICT;
INSERT INTO agent_jobs_new (seq, id, kind, lane_key, lane_slot, status, reason, source_path,
        topic_id, persona_name, inputs_json, grants_json, requested_by, priority, not_before_ms,
        ready, created_ms, started_ms, ending_ms, completed_ms, exit_code, signal, error_tail,
        summary, result_json, warnings_json, cancelled_by, session_ref, usage_json, cost_usd,
        config_digest, token_hash, retry_of, host, guard_pid, guard_start, boot_id,
        files_removed_ms, engine, retry_at_ms, depth)
    SELECT seq, id, kind, lane_key, lane_slot, status, reason, source_path,
        topic_id, persona_name, inputs_json, grants_json, requested_by, priority, not_before_ms,
        ready, created_ms, started_ms, ending_ms, completed_ms, exit_code, signal, error_tail,
        summary, result_json, warnings_json, cancelled_by, session_ref, usage_json, cost_usd,
        config_digest, token_hash, retry_of, host, guard_pid, guard_start, boot_id,
        files_removed_ms, engine, retry_at_ms, depth
    FROM agent_jobs;
DROP TABLE agent_jobs;
ALTER TABLE agent_jobs_new RENAME TO agent_jobs;

CREATE UNIQUE INDEX jobs_lane_slot ON agent_jobs (lane_key, lane_slot) WHERE status = 'running';
CREATE UNIQUE INDEX jobs_token ON agent_jobs (token_hash) WHERE token_hash IS NOT NULL;
CREATE INDEX jobs_claim ON agent_jobs (kind, priority DESC, seq) WHERE status = 'queued' AND ready = 1;
CREATE INDEX jobs_waiting ON agent_jobs (lane_key, priority DESC, seq)
    WHERE status = 'queued' AND ready >= 0;
CREATE INDEX jobs_ready ON agent_jobs (lane_key) WHERE status = 'queued' AND ready = 1;
CREATE INDEX jobs_deferred ON agent_jobs (not_before_ms) WHERE status = 'queued' AND ready = -1;
CREATE INDEX jobs_queued_lane ON agent_jobs (lane_key) WHERE status = 'queued';
CREATE INDEX jobs_running ON agent_jobs (kind) WHERE status = 'running';
CREATE INDEX jobs_by_status ON agent_jobs (status, seq);
CREATE INDEX jobs_by_source ON agent_jobs (source_path, seq) WHERE source_path IS NOT NULL;
CREATE INDEX jobs_by_kind ON agent_jobs (kind, seq);
CREATE INDEX jobs_by_topic ON agent_jobs (topic_id, seq) WHERE topic_id IS NOT NULL;
CREATE INDEX jobs_by_retry ON agent_jobs (retry_of) WHERE retry_of IS NOT NULL;
CREATE INDEX jobs_claim_person ON agent_jobs (kind, requested_by, priority DESC, seq)
    WHERE status = 'queued' AND ready = 1;
CREATE INDEX jobs_by_kind_status ON agent_jobs (kind, status, seq);
CREATE INDEX jobs_by_source_status ON agent_jobs (source_path, status, seq)
    WHERE source_path IS NOT NULL;
CREATE INDEX jobs_by_source_kind ON agent_jobs (source_path, kind, status, seq)
    WHERE source_path IS NOT NULL;
CREATE INDEX jobs_of_script ON agent_jobs (created_ms)
    WHERE requested_by = 'script' AND retry_of IS NULL;

CREATE UNIQUE INDEX jobs_agent ON agent_jobs (agent)
    WHERE agent IS NOT NULL AND status IN ('queued', 'running');
CREATE UNIQUE INDEX jobs_monitor ON agent_jobs (monitor_of)
    WHERE monitor_of IS NOT NULL AND status IN ('queued', 'running');
CREATE UNIQUE INDEX jobs_resumes ON agent_jobs (resumes) WHERE resumes IS NOT NULL;
CREATE INDEX jobs_by_root ON agent_jobs (root_id, seq) WHERE root_id IS NOT NULL;
CREATE INDEX jobs_by_message ON agent_jobs (message_id, seq) WHERE message_id IS NOT NULL;
CREATE INDEX jobs_running_pool ON agent_jobs (pool) WHERE status = 'running';
CREATE INDEX jobs_parked ON agent_jobs (waits_for) WHERE status = 'parked';
CREATE INDEX jobs_by_owner ON agent_jobs (owner, seq) WHERE owner IS NOT NULL;
PRAGMA foreign_key_check;
PRAGMA user_version = 24;
COMMIT;
PRAGMA foreign_keys = ON;

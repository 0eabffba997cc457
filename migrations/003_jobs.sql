-- Jobs: one row is one execution of a kind.
--
-- `ready` of a queued row: 1 = may be claimed now, 0 = waits for its lane, -1 = waits for its time.
-- It is kept by the transactions that enqueue and settle, so that a claim never scans a busy lane.

CREATE TABLE agent_jobs (
    seq           INTEGER PRIMARY KEY AUTOINCREMENT,
    id            TEXT NOT NULL UNIQUE,
    kind          TEXT NOT NULL,
    lane_key      TEXT,
    lane_slot     INTEGER,
    status        TEXT NOT NULL CHECK (status IN
        ('queued', 'running', 'succeeded', 'failed', 'timed_out', 'cancelled')),
    reason        TEXT,
    source_path   TEXT,
    topic_id      TEXT REFERENCES topics (id),
    persona_name  TEXT,
    inputs_json   TEXT NOT NULL,
    grants_json   TEXT NOT NULL,
    requested_by  TEXT NOT NULL,
    priority      INTEGER NOT NULL DEFAULT 0,
    not_before_ms INTEGER,
    ready         INTEGER NOT NULL DEFAULT 0 CHECK (ready IN (-1, 0, 1)),
    created_ms    INTEGER NOT NULL,
    started_ms    INTEGER,
    ending_ms     INTEGER,
    completed_ms  INTEGER,
    exit_code     INTEGER,
    signal        INTEGER,
    error_tail    TEXT,
    summary       TEXT,
    result_json   TEXT,
    warnings_json TEXT NOT NULL DEFAULT '[]',
    cancelled_by  TEXT,
    session_ref   TEXT,
    usage_json    TEXT,
    cost_usd      REAL,
    config_digest TEXT NOT NULL,
    token_hash    TEXT,
    retry_of      TEXT REFERENCES agent_jobs (id),
    host          TEXT NOT NULL DEFAULT 'local',
    guard_pid     INTEGER,
    guard_start   INTEGER,
    boot_id       TEXT,
    CHECK ((status IN ('queued', 'running')) = (completed_ms IS NULL)),
    CHECK (status <> 'succeeded' OR error_tail IS NULL),
    CHECK (status <> 'running' OR started_ms IS NOT NULL),
    CHECK (kind <> 'incorporate' OR (topic_id IS NOT NULL AND persona_name IS NULL)),
    CHECK (kind <> 'perspective' OR (persona_name IS NOT NULL AND topic_id IS NULL))
) STRICT;
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

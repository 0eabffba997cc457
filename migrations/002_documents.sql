-- Topics, their anchors, and the proposals that settle them.

CREATE TABLE topics (
    id          TEXT PRIMARY KEY,
    source_path TEXT NOT NULL,
    is_global   INTEGER NOT NULL CHECK (is_global IN (0, 1)),
    title       TEXT,
    status      TEXT NOT NULL CHECK (status IN ('open', 'incorporated', 'discarded')),
    created_by  TEXT NOT NULL,
    created_ms  INTEGER NOT NULL,
    closed_ms   INTEGER,
    CHECK ((status = 'open') = (closed_ms IS NULL))
) STRICT, WITHOUT ROWID;
CREATE INDEX topics_by_source ON topics (source_path, status, id);
CREATE INDEX topics_by_status ON topics (status, id);

CREATE TABLE topic_messages (
    id          TEXT PRIMARY KEY,
    topic_id    TEXT NOT NULL REFERENCES topics (id),
    sequence    INTEGER NOT NULL CHECK (sequence > 0),
    author      TEXT NOT NULL,
    body        TEXT NOT NULL,
    proposal_id TEXT,
    created_ms  INTEGER NOT NULL,
    UNIQUE (topic_id, sequence),
    FOREIGN KEY (proposal_id, topic_id) REFERENCES incorporation_proposals (id, topic_id)
) STRICT;
CREATE INDEX topic_messages_proposal ON topic_messages (proposal_id) WHERE proposal_id IS NOT NULL;

-- origin_*: what the person pointed at, never changed (a trigger says so). The rest is the present
-- baseline, which moves with every commit. Offsets are bytes into the named blob.
CREATE TABLE anchors (
    topic_id          TEXT PRIMARY KEY REFERENCES topics (id),
    origin_blob       TEXT NOT NULL,
    origin_start      INTEGER NOT NULL,
    origin_end        INTEGER NOT NULL,
    origin_quote      TEXT NOT NULL,
    quote             TEXT NOT NULL,
    prefix            TEXT NOT NULL,
    suffix            TEXT NOT NULL,
    heading_path_json TEXT NOT NULL,
    block_kind        TEXT NOT NULL,
    CHECK (0 <= origin_start AND origin_start < origin_end)
) STRICT, WITHOUT ROWID;
CREATE TRIGGER anchors_origin_is_immutable
BEFORE UPDATE OF origin_blob, origin_start, origin_end, origin_quote ON anchors
BEGIN
    SELECT RAISE(ABORT, 'the origin of an anchor never changes');
END;

CREATE TABLE placements (
    topic_id   TEXT NOT NULL REFERENCES topics (id),
    blob       TEXT NOT NULL,
    state      TEXT NOT NULL CHECK (state IN
        ('exact', 'shifted', 'edited', 'moved', 'rewritten', 'ambiguous', 'orphaned')),
    start      INTEGER,
    end        INTEGER,
    confidence REAL NOT NULL CHECK (confidence BETWEEN 0.0 AND 1.0),
    method     TEXT NOT NULL,
    decided_by TEXT NOT NULL,
    decided_ms INTEGER NOT NULL,
    PRIMARY KEY (topic_id, blob),
    CHECK ((start IS NULL) = (end IS NULL)),
    CHECK (start IS NULL OR (0 <= start AND start < end)),
    CHECK (state NOT IN ('exact', 'shifted', 'edited', 'moved', 'rewritten') OR start IS NOT NULL)
) STRICT, WITHOUT ROWID;

-- A complete proposed text. proposed_by IS NULL means that the Agent of job_id wrote it.
-- The text is the last column: reading the others must not walk through megabytes of it.
CREATE TABLE incorporation_proposals (
    id              TEXT PRIMARY KEY,
    topic_id        TEXT NOT NULL REFERENCES topics (id),
    revision_number INTEGER NOT NULL CHECK (revision_number > 0),
    job_id          TEXT REFERENCES agent_jobs (id),
    proposed_by     TEXT REFERENCES persons (id),
    source_path     TEXT NOT NULL,
    base_source_sha TEXT NOT NULL,
    proposed_sha    TEXT NOT NULL,
    text_digest     TEXT NOT NULL,
    summary         TEXT,
    status          TEXT NOT NULL CHECK (status IN
        ('open', 'superseded', 'approved', 'rejected', 'stale', 'void')),
    decided_by      TEXT,
    decided_ms      INTEGER,
    reason          TEXT,
    created_ms      INTEGER NOT NULL,
    proposed_source TEXT NOT NULL,
    CHECK (proposed_by IS NOT NULL OR job_id IS NOT NULL),
    UNIQUE (topic_id, revision_number),
    UNIQUE (id, topic_id)
) STRICT;
CREATE INDEX proposals_by_job ON incorporation_proposals (job_id) WHERE job_id IS NOT NULL;
CREATE INDEX proposals_by_status ON incorporation_proposals (status, id);
CREATE INDEX proposals_by_text ON incorporation_proposals (proposed_sha, status);
CREATE INDEX proposals_by_source ON incorporation_proposals (source_path, status, id);

-- The journal of approvals. At most one attempt per branch is under way.
CREATE TABLE incorporation_attempts (
    id          TEXT PRIMARY KEY,
    proposal_id TEXT NOT NULL,
    topic_id    TEXT NOT NULL,
    approver    TEXT NOT NULL,
    text_digest TEXT NOT NULL,
    base_commit TEXT NOT NULL,
    branch      TEXT NOT NULL,
    commit_sha  TEXT NOT NULL,
    state       TEXT NOT NULL CHECK (state IN ('prepared', 'committed', 'dropped')),
    note        TEXT,
    started_ms  INTEGER NOT NULL,
    ended_ms    INTEGER,
    CHECK ((state = 'prepared') = (ended_ms IS NULL)),
    FOREIGN KEY (proposal_id, topic_id) REFERENCES incorporation_proposals (id, topic_id)
) STRICT;
CREATE UNIQUE INDEX attempts_one_per_branch ON incorporation_attempts (branch)
    WHERE state = 'prepared';
CREATE INDEX attempts_by_proposal ON incorporation_attempts (proposal_id, topic_id);
CREATE INDEX attempts_by_commit ON incorporation_attempts (commit_sha);
CREATE INDEX attempts_by_topic ON incorporation_attempts (topic_id);

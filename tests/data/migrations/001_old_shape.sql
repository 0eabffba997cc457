-- The shape that the oldest release had: proposed_by is NOT NULL and refers to users.
CREATE TABLE users (id TEXT PRIMARY KEY, name TEXT NOT NULL);
CREATE TABLE topics (
    id TEXT PRIMARY KEY, incorporated_proposal TEXT REFERENCES incorporation_proposals (id)
);
CREATE TABLE incorporation_proposals (
    id TEXT PRIMARY KEY,
    topic_id TEXT NOT NULL REFERENCES topics (id),
    revision_number INTEGER NOT NULL,
    proposed_source TEXT NOT NULL,
    base_source_sha TEXT NOT NULL,
    proposed_by TEXT NOT NULL REFERENCES users (id),
    created_at INTEGER NOT NULL
);
CREATE UNIQUE INDEX proposals_by_revision ON incorporation_proposals (topic_id, revision_number);
CREATE UNIQUE INDEX proposals_id_topic ON incorporation_proposals (id, topic_id);
CREATE TABLE incorporation_attempts (
    id TEXT PRIMARY KEY,
    proposal_id TEXT NOT NULL,
    topic_id TEXT NOT NULL,
    FOREIGN KEY (proposal_id, topic_id) REFERENCES incorporation_proposals (id, topic_id)
);

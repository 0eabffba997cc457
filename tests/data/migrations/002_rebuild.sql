-- migrate:no-tx
-- SQLite cannot drop NOT NULL: the table is rebuilt, with foreign keys off, which they can only be
-- outside of a transaction.
PRAGMA foreign_keys = OFF;
BEGIN IMMEDIATE;
CREATE TABLE incorporation_proposals_new (
    id TEXT PRIMARY KEY,
    topic_id TEXT NOT NULL REFERENCES topics (id),
    revision_number INTEGER NOT NULL,
    proposed_source TEXT NOT NULL,
    base_source_sha TEXT NOT NULL,
    proposed_by TEXT REFERENCES users (id),
    created_at INTEGER NOT NULL
);
INSERT INTO incorporation_proposals_new SELECT * FROM incorporation_proposals;
DROP TABLE incorporation_proposals;
ALTER TABLE incorporation_proposals_new RENAME TO incorporation_proposals;
CREATE UNIQUE INDEX proposals_by_revision ON incorporation_proposals (topic_id, revision_number);
CREATE UNIQUE INDEX proposals_id_topic ON incorporation_proposals (id, topic_id);
PRAGMA foreign_key_check;
PRAGMA user_version = 2;
COMMIT;
PRAGMA foreign_keys = ON;

-- What a reviewer decides beside yes and no: where a revision comes from, which further Topics it
-- settles, what of a newer Source stands against it, and which job does it again.

-- A revision that was made from an earlier one. `made_by` is the person who edited or asked, or
-- `system` for a merge.
CREATE TABLE proposal_origins (
    proposal_id TEXT PRIMARY KEY REFERENCES incorporation_proposals (id),
    how         TEXT NOT NULL CHECK (how IN ('reworked', 'edited', 'merged')),
    from_id     TEXT NOT NULL REFERENCES incorporation_proposals (id),
    made_by     TEXT NOT NULL,
    CHECK (proposal_id <> from_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX proposal_origins_by_from ON proposal_origins (from_id);

-- Topics that a proposal settles beside its own.
CREATE TABLE proposal_topics (
    proposal_id TEXT NOT NULL REFERENCES incorporation_proposals (id),
    topic_id    TEXT NOT NULL REFERENCES topics (id),
    PRIMARY KEY (proposal_id, topic_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX proposal_topics_by_topic ON proposal_topics (topic_id);

-- A proposal that cannot be merged with the version `current_sha` of its Source.
CREATE TABLE proposal_conflicts (
    proposal_id TEXT PRIMARY KEY REFERENCES incorporation_proposals (id),
    current_sha TEXT NOT NULL,
    found_ms    INTEGER NOT NULL,
    hunks_json  TEXT NOT NULL
) STRICT, WITHOUT ROWID;

-- A job that was asked to do a proposal again; the comment is a message of the Topic.
CREATE TABLE proposal_reworks (
    job_id      TEXT PRIMARY KEY REFERENCES agent_jobs (id),
    proposal_id TEXT NOT NULL REFERENCES incorporation_proposals (id),
    message_id  TEXT NOT NULL REFERENCES topic_messages (id),
    asked_by    TEXT NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX proposal_reworks_by_proposal ON proposal_reworks (proposal_id, job_id);

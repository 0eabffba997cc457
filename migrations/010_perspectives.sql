-- Sources as personas see them. A view belongs to the job that made it; it counts (`is_ready`) once
-- that job has succeeded, and then there is one for each version of Source and persona.

CREATE TABLE perspectives (
    job_id      TEXT PRIMARY KEY REFERENCES agent_jobs (id),
    source_path TEXT NOT NULL,
    persona     TEXT NOT NULL,
    source_sha  TEXT NOT NULL,
    persona_sha TEXT NOT NULL,
    is_ready    INTEGER NOT NULL CHECK (is_ready IN (0, 1)),
    text_digest TEXT NOT NULL,
    bytes       INTEGER NOT NULL,
    created_ms  INTEGER NOT NULL,
    body        TEXT NOT NULL
) STRICT;
CREATE UNIQUE INDEX perspectives_of_versions
    ON perspectives (source_path, persona, source_sha, persona_sha) WHERE is_ready = 1;
CREATE INDEX perspectives_by_source ON perspectives (source_path, persona, created_ms)
    WHERE is_ready = 1;
CREATE INDEX perspectives_by_age ON perspectives (created_ms) WHERE is_ready = 1;

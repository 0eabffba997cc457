-- Files that a person has uploaded for the assistant and not sent yet. What is sent stands with its
-- message (`attachments_json`); what is not goes after a day.

CREATE TABLE chat_uploads (
    path       TEXT NOT NULL,
    person_id  TEXT NOT NULL REFERENCES persons (id),
    name       TEXT NOT NULL,
    kind       TEXT NOT NULL CHECK (kind IN ('text', 'image/png', 'image/jpeg', 'image/webp')),
    bytes      INTEGER NOT NULL,
    digest     TEXT NOT NULL,
    created_ms INTEGER NOT NULL,
    PRIMARY KEY (person_id, path)
) STRICT, WITHOUT ROWID;
CREATE INDEX chat_uploads_by_age ON chat_uploads (created_ms);

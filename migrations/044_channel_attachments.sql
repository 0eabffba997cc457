-- Files that people attach to messages of channels. Their contents are in the database, so that
-- backups include them; they have a table of their own, so that lists never read them.

CREATE TABLE channel_attachments (
    number     INTEGER PRIMARY KEY AUTOINCREMENT,
    channel    INTEGER NOT NULL REFERENCES channels (number),
    -- NULL until it is sent; an upload that is never sent is removed after a day.
    message_id TEXT REFERENCES messages (id),
    person_id  TEXT NOT NULL REFERENCES persons (id),
    name       TEXT NOT NULL,
    kind       TEXT NOT NULL CHECK (kind IN
        ('text', 'image/png', 'image/jpeg', 'image/webp', 'image/gif', 'binary')),
    bytes      INTEGER NOT NULL CHECK (bytes > 0),
    digest     TEXT NOT NULL,
    created_ms INTEGER NOT NULL
) STRICT;
CREATE INDEX channel_attachments_sent ON channel_attachments (message_id, number)
    WHERE message_id IS NOT NULL;
CREATE INDEX channel_attachments_unsent ON channel_attachments (person_id, created_ms)
    WHERE message_id IS NULL;
CREATE INDEX channel_attachments_by_age ON channel_attachments (created_ms)
    WHERE message_id IS NULL;
CREATE TRIGGER channel_attachments_stay BEFORE UPDATE ON channel_attachments
WHEN OLD.message_id IS NOT NULL
BEGIN
    SELECT RAISE(ABORT, 'an attachment that was sent never changes');
END;
CREATE TRIGGER channel_attachments_kept BEFORE DELETE ON channel_attachments
WHEN OLD.message_id IS NOT NULL
BEGIN
    SELECT RAISE(ABORT, 'an attachment that was sent is never deleted');
END;

CREATE TABLE channel_attachment_contents (
    number  INTEGER PRIMARY KEY REFERENCES channel_attachments (number) ON DELETE CASCADE,
    content BLOB NOT NULL
) STRICT;

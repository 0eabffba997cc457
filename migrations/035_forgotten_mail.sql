-- What a message said is given up long after it has arrived; that it was sent stays.

DROP TRIGGER messages_stay;
ALTER TABLE messages ADD COLUMN forgotten_ms INTEGER;
CREATE INDEX messages_old ON messages (created_ms)
    WHERE forgotten_ms IS NULL AND to_class <> 'topic' AND to_class <> 'channel';
CREATE TRIGGER messages_stay BEFORE UPDATE OF seq, id, sort, sender, from_class, from_name, to_class,
    to_name, category, in_reply_to, reply_class, reply_name, thread, depth, job_id, approval_id,
    created_ms ON messages
BEGIN
    SELECT RAISE(ABORT, 'a message never changes');
END;
CREATE TRIGGER messages_are_forgotten_once BEFORE UPDATE OF payload, forgotten_ms ON messages
WHEN OLD.forgotten_ms IS NOT NULL OR NEW.forgotten_ms IS NULL OR NEW.payload <> 'null'
BEGIN
    SELECT RAISE(ABORT, 'what a message says never changes');
END;

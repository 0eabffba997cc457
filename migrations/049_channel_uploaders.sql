-- Agents attach files, too: an attachment is a person's or an agent's.

ALTER TABLE channel_attachments ALTER COLUMN person_id DROP NOT NULL;
ALTER TABLE channel_attachments ADD COLUMN agent TEXT REFERENCES agents (name)
    CHECK ((agent IS NULL) <> (person_id IS NULL));
CREATE INDEX channel_attachments_by_uploader ON channel_attachments (agent, person_id, created_ms);

-- What agents escalated to the chair, found without reading a conversation.
CREATE INDEX channel_messages_escalations ON channel_messages (channel, sequence)
    WHERE type = 'escalation';

-- An answer of the assistant that waits for its person gives back its place among the running ones.
-- 0: it works. 1: it waits for its person. 2: its person has answered, and it waits for a place.

ALTER TABLE agent_jobs ADD COLUMN asks INTEGER NOT NULL DEFAULT 0 CHECK (asks IN (0, 1, 2));

-- Pinned conversations stand first in the list.
CREATE INDEX chat_sessions_order ON chat_sessions (person_id, is_pinned, touched_ms, id);

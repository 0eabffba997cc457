-- Whether words of deleted conversations may still be in the index. A deletion only marks its rows
-- there; a running server then merges the index, which leaves the words out. Conversations may have
-- been deleted before this migration.

ALTER TABLE search_chat_state ADD COLUMN has_gone INTEGER NOT NULL DEFAULT 1 CHECK (has_gone IN (0, 1));

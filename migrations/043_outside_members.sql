-- Members of channels from outside: they have tokens for that alone, and do nothing else.

ALTER TABLE persons ADD COLUMN is_external INTEGER NOT NULL DEFAULT 0 CHECK (is_external IN (0, 1));
-- Whoever made the token of somebody from outside: it ends with that account.
ALTER TABLE tokens ADD COLUMN made_by TEXT REFERENCES persons (id);
-- Whether what they say wakes agents.
ALTER TABLE channels ADD COLUMN outside_wakes INTEGER NOT NULL DEFAULT 0
    CHECK (outside_wakes IN (0, 1));

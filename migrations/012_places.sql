-- What was last seen of the repository, placements in texts that are not committed, and the texts of
-- which git has no copy that it must keep.

-- One row: the commit that was checked out when it was last looked, and when that was.
CREATE TABLE repository_seen (
    one     INTEGER PRIMARY KEY CHECK (one = 1),
    head    TEXT,
    seen_ms INTEGER NOT NULL
) STRICT;

-- The Sources that differed from that commit, with the version of the working tree; none is one that
-- is gone or cannot be read. A Source without a row was as committed.
CREATE TABLE sources_dirty (
    source_path TEXT PRIMARY KEY,
    blob        TEXT
) STRICT, WITHOUT ROWID;

-- A placement in a text that is not committed is shown, and is no baseline for later versions.
ALTER TABLE placements ADD COLUMN is_working INTEGER NOT NULL DEFAULT 0 CHECK (is_working IN (0, 1));

-- Texts that a person pointed at before they were committed. The text is the last column: reading
-- the others must not walk through megabytes of it.
CREATE TABLE source_texts (
    source_path TEXT NOT NULL,
    blob        TEXT NOT NULL,
    kept_ms     INTEGER NOT NULL,
    bytes       INTEGER NOT NULL CHECK (bytes >= 0),
    text        TEXT NOT NULL,
    PRIMARY KEY (source_path, blob)
) STRICT;

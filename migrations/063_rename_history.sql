-- Every rename of a name: one that is handed on again and again means another Source each time.
CREATE TABLE renames (
    from_path TEXT NOT NULL,
    at_ms     INTEGER NOT NULL,
    to_path   TEXT NOT NULL,
    PRIMARY KEY (from_path, at_ms)
) STRICT, WITHOUT ROWID;

INSERT INTO renames (from_path, at_ms, to_path)
    SELECT from_path, at_ms, to_path FROM source_renames;

DROP TABLE source_renames;

ALTER TABLE renames RENAME TO source_renames;

-- What Sources that were renamed are called: where somebody who asks by an old name finds them.
CREATE TABLE source_renames (
    from_path TEXT PRIMARY KEY,
    at_ms     INTEGER NOT NULL,
    to_path   TEXT NOT NULL
) STRICT, WITHOUT ROWID;

-- The last rename of each name that was told so far.
INSERT OR REPLACE INTO source_renames (from_path, at_ms, to_path)
    SELECT json_extract(data_json, '$.from'), at_ms, json_extract(data_json, '$.path')
    FROM events WHERE kind = 'source_renamed' ORDER BY id;

-- What the script's handlers have heard last of a document, according to the database that a restore
-- replaced: the change is seen again, and not told again.
CREATE TABLE sources_told (
    path TEXT PRIMARY KEY,
    -- The document's content then; NULL: it was gone.
    blob TEXT
) STRICT, WITHOUT ROWID;

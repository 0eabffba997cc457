-- What the script's handlers heard of before a restore, according to the database that was
-- replaced: it is seen again, and not told again.
DROP TABLE sources_told;

-- The repository as it was when they heard of it, until the first look after the restore.
CREATE TABLE repository_told (
    one       INTEGER PRIMARY KEY CHECK (one = 1),
    told_json TEXT NOT NULL
) STRICT;

-- Events of what that look has seen again.
CREATE TABLE events_told (
    event_id INTEGER PRIMARY KEY
) STRICT;

-- Jobs of whose end they heard: it is recorded again by the start that settles them.
CREATE TABLE ends_told (
    job_id TEXT PRIMARY KEY
) STRICT, WITHOUT ROWID;

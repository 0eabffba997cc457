-- Earlier names of kinds (`was`): what runs, or was spent, under one counts toward the caps of the
-- kind's name of now. A name that a kind has again is none.
CREATE TABLE kind_names (
    was TEXT NOT NULL PRIMARY KEY,
    name TEXT NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX kind_names_by_name ON kind_names (name);

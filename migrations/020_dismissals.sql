-- Failed jobs that a person does not want to see on their first page any more.
CREATE TABLE dismissals (
    person_id    TEXT NOT NULL REFERENCES persons (id),
    job_id       TEXT NOT NULL,
    dismissed_ms INTEGER NOT NULL,
    PRIMARY KEY (person_id, job_id)
) STRICT, WITHOUT ROWID;

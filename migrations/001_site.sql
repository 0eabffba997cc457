-- The site itself, its event log, and the people who use it.

CREATE TABLE site (
    one        INTEGER PRIMARY KEY CHECK (one = 1),
    epoch      TEXT NOT NULL,
    created_ms INTEGER NOT NULL
) STRICT;

CREATE TABLE idempotency (
    actor       TEXT NOT NULL,
    key         TEXT NOT NULL,
    route       TEXT NOT NULL,
    body_digest TEXT NOT NULL,
    result_json TEXT NOT NULL,
    created_ms  INTEGER NOT NULL,
    PRIMARY KEY (actor, key)
) STRICT, WITHOUT ROWID;
CREATE INDEX idempotency_created ON idempotency (created_ms);

-- One row per change of state. AUTOINCREMENT: a number is never used twice, also after pruning,
-- because clients resume by it.
CREATE TABLE events (
    id        INTEGER PRIMARY KEY AUTOINCREMENT,
    at_ms     INTEGER NOT NULL,
    kind      TEXT NOT NULL,
    subject   TEXT NOT NULL,
    actor     TEXT NOT NULL,
    scope     TEXT NOT NULL,
    audit     INTEGER NOT NULL CHECK (audit IN (0, 1)),
    data_json TEXT NOT NULL
) STRICT;
CREATE INDEX events_prune ON events (at_ms) WHERE audit = 0;

CREATE TABLE persons (
    id            TEXT PRIMARY KEY,
    name          TEXT NOT NULL UNIQUE,
    display_name  TEXT NOT NULL,
    email         TEXT,
    role          TEXT NOT NULL CHECK (role IN ('admin', 'member', 'viewer')),
    password_hash TEXT,
    created_ms    INTEGER NOT NULL,
    disabled_ms   INTEGER
) STRICT, WITHOUT ROWID;

CREATE TABLE tokens (
    id           TEXT PRIMARY KEY,
    person_id    TEXT NOT NULL REFERENCES persons (id),
    name         TEXT NOT NULL,
    hash         TEXT NOT NULL UNIQUE,
    scopes_json  TEXT NOT NULL,
    created_ms   INTEGER NOT NULL,
    last_used_ms INTEGER,
    expires_ms   INTEGER,
    revoked_ms   INTEGER
) STRICT, WITHOUT ROWID;
CREATE INDEX tokens_person ON tokens (person_id);

-- Sessions of browsers. Only the digest of the cookie is kept.
CREATE TABLE logins (
    hash         TEXT PRIMARY KEY,
    person_id    TEXT NOT NULL REFERENCES persons (id),
    created_ms   INTEGER NOT NULL,
    last_seen_ms INTEGER NOT NULL,
    expires_ms   INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX logins_person ON logins (person_id);
CREATE INDEX logins_expires ON logins (expires_ms);

-- What is searched: the words of Sources, of Topics (with their first message) and of messages.
--
-- All tables whose names begin with `search_` are made from others and from the repository, and
-- can be made again: nothing of them is saved from a damaged database. The words are written
-- folded, without the texts: snippets are made from the texts themselves. Nothing is filled in
-- here: a running server does that, a little at a time.

-- How far the rows of before this table are taken in; `~` is greater than every id.
CREATE TABLE search_state (
    one            INTEGER PRIMARY KEY CHECK (one = 1),
    fold_version   INTEGER NOT NULL,
    is_damaged     INTEGER NOT NULL CHECK (is_damaged IN (0, 1)),
    topics_after   TEXT NOT NULL,
    messages_after TEXT NOT NULL
) STRICT;
INSERT INTO search_state VALUES (1, 0, 1, '', '');

-- `blob` is the version that is taken in; empty while only some of its parts are.
CREATE TABLE search_sources (
    id   INTEGER PRIMARY KEY,
    path TEXT NOT NULL UNIQUE,
    blob TEXT NOT NULL
) STRICT;
-- A long Source is taken in by several parts: `start` and `bytes` are where in it one is.
CREATE TABLE search_parts (
    id        INTEGER PRIMARY KEY,
    source_id INTEGER NOT NULL REFERENCES search_sources (id),
    path      TEXT NOT NULL,
    start     INTEGER NOT NULL,
    bytes     INTEGER NOT NULL,
    line      INTEGER NOT NULL
) STRICT;
CREATE INDEX search_parts_source ON search_parts (source_id);
CREATE TABLE search_topics (
    id       INTEGER PRIMARY KEY,
    topic_id TEXT NOT NULL UNIQUE,
    path     TEXT NOT NULL,
    author   TEXT NOT NULL
) STRICT;
CREATE TABLE search_messages (
    id         INTEGER PRIMARY KEY,
    message_id TEXT NOT NULL UNIQUE,
    topic_id   TEXT NOT NULL,
    path       TEXT NOT NULL,
    author     TEXT NOT NULL
) STRICT;

CREATE VIRTUAL TABLE search_source_words USING fts5 (
    path, body, content = '', contentless_delete = 1, tokenize = 'ascii', prefix = '2');
CREATE VIRTUAL TABLE search_topic_words USING fts5 (
    title, body, content = '', contentless_delete = 1, tokenize = 'ascii', prefix = '2');
CREATE VIRTUAL TABLE search_message_words USING fts5 (
    body, content = '', contentless_delete = 1, tokenize = 'ascii', prefix = '2');

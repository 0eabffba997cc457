-- The words of conversations. The row of a message has its number (`chat_messages.seq`); the title
-- stands with the first message of its conversation. A mark says whose it is, so that the index
-- finds nothing of anybody else. What there was before is taken in by a running server.

CREATE VIRTUAL TABLE search_chat_words USING fts5 (
    title, body, marks, content = '', contentless_delete = 1, tokenize = 'ascii', prefix = '2 3');

-- Up to which message those of before are taken in.
CREATE TABLE search_chat_state (
    one       INTEGER PRIMARY KEY CHECK (one = 1),
    after_seq INTEGER NOT NULL
) STRICT;
INSERT INTO search_chat_state VALUES (1, 0);

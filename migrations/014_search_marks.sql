-- What a search is restricted to (folder, path, author, state of the Topic) stands in the index
-- beside the words, so that a common word under a filter that little passes is found without
-- looking at every row that holds the word. Beginnings of three letters have an index of their own.
-- What is there is made anew by a running server.

DROP TABLE search_source_words;
DROP TABLE search_topic_words;
DROP TABLE search_message_words;
CREATE VIRTUAL TABLE search_source_words USING fts5 (
    path, body, marks, content = '', contentless_delete = 1, tokenize = 'ascii', prefix = '2 3');
CREATE VIRTUAL TABLE search_topic_words USING fts5 (
    title, body, marks, content = '', contentless_delete = 1, tokenize = 'ascii', prefix = '2 3');
CREATE VIRTUAL TABLE search_message_words USING fts5 (
    body, marks, content = '', contentless_delete = 1, tokenize = 'ascii', prefix = '2 3');
UPDATE search_state SET is_damaged = 1 WHERE one = 1;

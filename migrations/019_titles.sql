-- What a document calls itself is kept beside its words: by its title it is listed, and found first.
-- What is there is made anew by a running server.

ALTER TABLE search_sources ADD COLUMN title TEXT NOT NULL DEFAULT '';
-- The words of the title, folded; of the file's name if it has none.
ALTER TABLE search_sources ADD COLUMN title_words TEXT NOT NULL DEFAULT '';
CREATE INDEX search_sources_title ON search_sources (title_words);
UPDATE search_state SET is_damaged = 1 WHERE one = 1;

-- Which run of the server wrote last: every start writes its own word, which stands in the log of
-- the database until that is worked in. A database that does not know the word of the last run has
-- lost its log.

ALTER TABLE site ADD COLUMN life TEXT;

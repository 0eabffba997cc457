-- How many transactions of the writer changed something in this life of the database.
ALTER TABLE site ADD COLUMN commits INTEGER NOT NULL DEFAULT 0;

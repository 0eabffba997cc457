-- What is kept for a while only, and what a file says of itself.

-- 'WBDB': file(1) and `restore` know the database of a site by it.
PRAGMA application_id = 1463960642;

-- Since when the folder of a job (its prompt, its log) is gone; the row stays.
ALTER TABLE agent_jobs ADD COLUMN files_removed_ms INTEGER;

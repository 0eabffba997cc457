-- Up to which byte of its output a running job's spending is counted already, according to a
-- database that a restore replaced; the largest number if the job had ended there.
ALTER TABLE agent_jobs ADD COLUMN counted_until INTEGER;

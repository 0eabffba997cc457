-- When a server first found that the guard of a running job does not answer; NULL: it does. When a
-- person asked for the immediate end of a job's processes.
ALTER TABLE agent_jobs ADD COLUMN unanswered_ms INTEGER;
ALTER TABLE agent_jobs ADD COLUMN killed_ms INTEGER;

-- The SHA-256 of the state of the repository before a job's agent began. The state itself lies in the
-- job's folder, where an agent can remove or replace it. NULL: nobody watches the job, or no longer.
ALTER TABLE agent_jobs ADD COLUMN before_digest TEXT;

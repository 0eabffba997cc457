-- The engine that an agent's session belongs to: another one begins its own. Before, it was that of
-- the last start.
ALTER TABLE agents ADD COLUMN session_engine TEXT;
UPDATE agents SET session_engine = (SELECT engine FROM agent_jobs WHERE id = agents.job_id)
WHERE session_ref IS NOT NULL;

-- The monitors of an instance, one for each of its runs, are shown with it after they have ended.

CREATE INDEX jobs_by_monitored ON agent_jobs (monitor_of, seq) WHERE monitor_of IS NOT NULL;

-- Instances are listed by their first legs.
CREATE INDEX jobs_instances ON agent_jobs (seq) WHERE message_id IS NOT NULL AND root_id IS NULL;

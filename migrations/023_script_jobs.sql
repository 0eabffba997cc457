-- How many jobs the handlers of the script have asked for lately.
CREATE INDEX jobs_of_script ON agent_jobs (created_ms)
    WHERE requested_by = 'script' AND retry_of IS NULL;

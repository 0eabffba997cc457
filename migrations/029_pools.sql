-- A claim looks at the jobs of each pool for itself: a pool that is full keeps no other one waiting.

DROP INDEX jobs_claim;
CREATE INDEX jobs_claim ON agent_jobs (pool, kind, priority DESC, seq)
    WHERE status = 'queued' AND ready = 1;
DROP INDEX jobs_claim_person;
CREATE INDEX jobs_claim_person ON agent_jobs (pool, kind, requested_by, priority DESC, seq)
    WHERE status = 'queued' AND ready = 1;

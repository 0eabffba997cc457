-- Lists of jobs under two or three filters at once, newest first, each served by one index: without
-- them a rare combination walks through all jobs that have the more common half of it.

CREATE INDEX jobs_by_kind_status ON agent_jobs (kind, status, seq);
CREATE INDEX jobs_by_source_status ON agent_jobs (source_path, status, seq)
    WHERE source_path IS NOT NULL;
CREATE INDEX jobs_by_source_kind ON agent_jobs (source_path, kind, status, seq)
    WHERE source_path IS NOT NULL;

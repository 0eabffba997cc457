-- Why a waiting job does not start: its kind no longer accepts its inputs. Such a row has
-- `ready` = -1, whatever `not_before_ms` says. NULL: it fits, or nobody has found out yet.
ALTER TABLE agent_jobs ADD COLUMN unfit TEXT;
CREATE INDEX jobs_unfit ON agent_jobs (seq) WHERE status = 'queued' AND unfit IS NOT NULL;

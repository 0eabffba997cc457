-- Permissions: what was asked before is found by the digest of the call.

-- When whoever asks stopped waiting for the decision.
ALTER TABLE approvals ADD COLUMN left_ms INTEGER;
CREATE INDEX approvals_by_call ON approvals (call_digest, id) WHERE call_digest IS NOT NULL;

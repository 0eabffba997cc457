-- What a run did stands in a file of its person's vault, too; and a call whose question expired can
-- be made later, once, under an approval of its own.

-- Whether its settlement found something to be recorded; `artefact` is where it stands: nothing
-- while it is due, and empty if there is nothing.
ALTER TABLE chat_runs ADD COLUMN is_recorded INTEGER NOT NULL DEFAULT 0 CHECK (is_recorded IN (0, 1));
-- Counts what has changed of it since.
ALTER TABLE chat_runs ADD COLUMN record_version INTEGER NOT NULL DEFAULT 0;
-- The digests of what was written there: of what stands there, and of what is about to.
ALTER TABLE chat_runs ADD COLUMN record_digests TEXT NOT NULL DEFAULT '';
UPDATE chat_runs SET artefact = '' WHERE ended IS NOT NULL;
CREATE INDEX chat_runs_unrecorded ON chat_runs (ended_ms, job_id)
    WHERE artefact IS NULL AND ended_ms IS NOT NULL;

ALTER TABLE chat_calls ADD COLUMN again_approval_id TEXT REFERENCES approvals (id);
CREATE UNIQUE INDEX chat_calls_by_again ON chat_calls (again_approval_id)
    WHERE again_approval_id IS NOT NULL;
CREATE INDEX chat_calls_again ON chat_calls (id)
    WHERE state = 'running' AND again_approval_id IS NOT NULL;
CREATE TRIGGER chat_calls_again_once BEFORE UPDATE OF again_approval_id ON chat_calls
WHEN OLD.again_approval_id IS NOT NULL
BEGIN
    SELECT RAISE(ABORT, 'a call is made again once');
END;

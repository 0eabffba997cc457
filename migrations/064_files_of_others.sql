-- The files of vaults that hold text of others. What an answer wrote after it had read some is read
-- by later conversations, which must know that.
CREATE TABLE chat_files_of_others (
    person_id TEXT NOT NULL REFERENCES persons (id),
    path      TEXT NOT NULL,
    -- Of what was written: the file is known by it wherever it was moved or copied to.
    digest    TEXT NOT NULL,
    PRIMARY KEY (person_id, path, digest)
) STRICT, WITHOUT ROWID;

-- Whether the call read such a file.
ALTER TABLE chat_calls ADD COLUMN of_others INTEGER NOT NULL DEFAULT 0 CHECK (of_others IN (0, 1));

-- Of conversations of before: what was written after the first text of others in them.
INSERT OR IGNORE INTO chat_files_of_others (person_id, path, digest)
    WITH reading (session_id, since_ms) AS (
        SELECT session_id, MIN(at_ms) FROM (
            SELECT session_id, created_ms AS at_ms FROM chat_runs WHERE piped = 1
            UNION ALL
            SELECT session_id, chat_calls.created_ms FROM chat_calls
                JOIN chat_runs ON chat_runs.job_id = run_id
                WHERE tool IN ('web_fetch', 'linkedin_read_comments', 'read_source', 'list_topics')
                    OR (tool IN ('read_file', 'search_files')
                        AND json_extract(args_json, '$.path') GLOB 'agent/uploads*'))
        GROUP BY session_id)
    SELECT person_id, COALESCE(target_to, target), after_digest
    FROM reading
        JOIN chat_sessions ON chat_sessions.id = reading.session_id
        JOIN chat_runs ON chat_runs.session_id = reading.session_id
        JOIN chat_calls ON chat_calls.run_id = chat_runs.job_id
    WHERE target IS NOT NULL AND started_ms IS NOT NULL AND tool <> 'delete_file'
        AND chat_calls.created_ms >= since_ms
    UNION
    SELECT person_id, target_to, after_digest
    FROM chat_calls
        JOIN chat_runs ON chat_runs.job_id = run_id
        JOIN chat_sessions ON chat_sessions.id = chat_runs.session_id
    WHERE target GLOB 'agent/uploads/*' AND target_to IS NOT NULL AND started_ms IS NOT NULL;

-- Folders of their own in which agents work: worktrees that the server makes, and what a hook of the
-- script makes. One row for each first leg of an instance.

CREATE TABLE workspaces (
    root_job     TEXT PRIMARY KEY REFERENCES agent_jobs (id),
    sort         TEXT NOT NULL CHECK (sort IN ('worktree', 'folder')),
    path         TEXT NOT NULL,
    -- The folder of the repository that a worktree belongs to.
    repo         TEXT,
    base_commit  TEXT,
    state        TEXT NOT NULL CHECK (state IN ('making', 'ready', 'cleaning', 'gone', 'failed')),
    -- The hook that runs afterwards: program, arguments, environment, folder, clock.
    cleanup_json TEXT,
    -- The ref that holds what was not committed anywhere else.
    kept_ref     TEXT,
    host         TEXT NOT NULL DEFAULT 'local',
    made_ms      INTEGER NOT NULL,
    ended_ms     INTEGER,
    -- How often a cleanup began; each has a folder of that number.
    tries        INTEGER NOT NULL DEFAULT 0,
    note         TEXT,
    CHECK ((state IN ('gone', 'failed')) = (ended_ms IS NOT NULL)),
    CHECK (sort <> 'worktree' OR repo IS NOT NULL)
) STRICT;
CREATE UNIQUE INDEX workspaces_path ON workspaces (path) WHERE state <> 'gone';
CREATE INDEX workspaces_open ON workspaces (state, ended_ms) WHERE state <> 'gone';
CREATE INDEX workspaces_by_time ON workspaces (made_ms);

-- When the agent was started: what was lost before may be repeated.
ALTER TABLE agent_jobs ADD COLUMN run_ms INTEGER;

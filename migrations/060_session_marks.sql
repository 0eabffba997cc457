-- What tells an engine from another one of the same name: its type, protocol, output and program.
-- Sessions belong to that one. It is unknown for those of before.
ALTER TABLE agent_jobs ADD COLUMN engine_mark TEXT;
ALTER TABLE agents ADD COLUMN session_mark TEXT;

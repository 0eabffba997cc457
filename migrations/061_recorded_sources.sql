-- The names of the inputs that were documents when the job was asked for: a rename is followed in
-- them, whatever the script declares by then. NULL: none, or asked for before this was recorded.
ALTER TABLE agent_jobs ADD COLUMN sources_json TEXT;
-- Marks of engines were made of their program with its options: none of those counts any more.
UPDATE agent_jobs SET engine_mark = NULL WHERE engine_mark IS NOT NULL;
UPDATE agents SET session_mark = NULL WHERE session_mark IS NOT NULL;

-- Inputs of more than 64 KiB stand beside the jobs: a list would have to read all of them to find
-- out that it leaves them out.
CREATE TABLE agent_job_inputs (
    job_id      TEXT PRIMARY KEY REFERENCES agent_jobs (id) ON DELETE CASCADE,
    inputs_json TEXT NOT NULL
) STRICT;

INSERT INTO agent_job_inputs (job_id, inputs_json)
    SELECT id, inputs_json FROM agent_jobs WHERE octet_length(inputs_json) > 65536;
UPDATE agent_jobs SET inputs_json = '{}'
    WHERE id IN (SELECT job_id FROM agent_job_inputs);

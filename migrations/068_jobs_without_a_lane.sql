-- A waiting job that lost its lane as the first one there was never found again.
UPDATE agent_jobs SET ready = 1 WHERE status = 'queued' AND lane_key IS NULL AND ready = 0;

-- Nothing looks for messages by it any more.
DROP INDEX messages_of_script;

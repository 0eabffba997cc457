-- Messages that handlers of the script have sent within an hour are counted.

CREATE INDEX messages_of_script ON messages (created_ms) WHERE sender = 'script';

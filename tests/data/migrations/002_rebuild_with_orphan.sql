-- migrate:no-tx
PRAGMA foreign_keys = OFF;
BEGIN IMMEDIATE;
DELETE FROM topics;
PRAGMA foreign_key_check;
PRAGMA user_version = 2;
COMMIT;
PRAGMA foreign_keys = ON;

-- When a member was last muted or unmuted, and the time before that: a minute holds two changes.
ALTER TABLE channel_members ADD COLUMN muted_ms INTEGER;
ALTER TABLE channel_members ADD COLUMN muted_before_ms INTEGER;

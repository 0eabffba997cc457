-- What a Source was called before.
CREATE INDEX source_renames_to ON source_renames (to_path, at_ms);

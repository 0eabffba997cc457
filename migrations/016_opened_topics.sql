-- Which Topics a job has opened.
CREATE INDEX topics_by_author ON topics (created_by, id);

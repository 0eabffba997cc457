-- Jobs that handlers of the script start are counted in memory.

DROP INDEX jobs_of_script;

-- wiki-browser.lua: the whole site in one file. `wiki-browser check` says what is wrong with it.
local wb = require "wb"
wb.api(1)

-- The site ------------------------------------------------------------------------------------
wb.site {
  root    = @ROOT@,                     -- folder of a git repository that holds the sources
  data    = "./data",                -- database, socket, job folders; ignored by git
  listen  = "127.0.0.1:7180",        -- port 0 picks a free one (see data/server.json)
  sources = { @SOURCES@ }, -- tracked files that are documents, and with ! those that are not
}

wb.identity {                        -- author of every commit that an agent's text ends in
  author_name  = @AUTHOR_NAME@,
  author_email = @AUTHOR_EMAIL@,
}

wb.limits {
  jobs  = 1,                         -- agents running at once
  grace = "5s",                      -- what an agent has to end in when it is stopped
  daily = @DAILY@, -- all jobs on a day (UTC); also tokens
}

-- How agents are run --------------------------------------------------------------------------
wb.engine "suggestions" { type = "builtin" }   -- applies ```suggestion blocks; needs no model
@CLAUDE@
-- What they do --------------------------------------------------------------------------------
wb.kind "incorporate" {
  about    = "Edit a document to resolve a Topic",
@INCORPORATE@  lane     = "source_path",          -- one running job per value
@BUSY@  produces = "proposal",             -- exit 0 without one is a failure
  inputs   = {
    topic_id        = wb.input.topic(),
    source_path     = wb.input.source { from = "topic_id" },
    base_source_sha = wb.input.blob   { from = "source_path" },
  },
@PROMPT@}
@OTHERS@
-- What happens around it ----------------------------------------------------------------------
wb.on("job_finished", function(event)
  if event.job.status == "failed" then
    wb.log.warn("%s %s: %s", event.job.kind, event.job.id, event.job.reason)
  end
end)

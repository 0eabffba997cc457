-- Tests of the script, with a fake agent and a fake clock. `wiki-browser test` runs them.
local t = require "wb.test"

t.test("a topic is settled by a proposal", function()
  t.source("guide.md", "# Guide\n\nThe old words.\n")
  local topic = t.topic { source_path = "guide.md", quote = "old words", body = "Say it simpler" }
  local job = t.run("incorporate", { topic_id = topic }, { proposal = "# Guide\n\nNew words.\n" })
  t.eq(job.status, "succeeded")
  t.eq(job.source_path, "guide.md")
end)

t.test("an agent that proposes nothing has failed", function()
  t.source("guide.md", "# Guide\n\nThe old words.\n")
  local topic = t.topic { source_path = "guide.md" }
  local job = t.run("incorporate", { topic_id = topic }, { exit = 0 })
  t.has(job, { status = "failed", reason = "no_result" })
end)

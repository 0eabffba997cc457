-- Tests of kind "perspective", with a fake agent and a fake clock. `wiki-browser test` runs them.
local t = require "wb.test"

local inputs = { source_path = "guide.md", persona_name = "plain-reader" }

t.test("a page is shown to a reader", function()
  local job = t.run("perspective", inputs, { view = "# In plain words\n" })
  t.eq(job.status, "succeeded")
  t.eq(job.view, "# In plain words\n")
end)

t.test("the agent is told both versions", function()
  local job = t.run("perspective", inputs, function(told)
    t.contains(told.prompt, told.inputs.source_sha)
    t.contains(told.prompt, told.inputs.persona_sha)
    return { view = "# In plain words\n" }
  end)
  t.eq(job.status, "succeeded")
end)

t.test("an agent that runs out of time has failed, and its view does not count", function()
  local job = t.run("perspective", inputs, { takes = "1h", view = "# Too late\n" })
  t.has(job, { status = "timed_out", reason = "wall_timeout" })
  t.eq(job.view, nil)
end)

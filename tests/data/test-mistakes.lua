-- A file of tests with mistakes that an editor must find, by `wiki-browser types`.
local t = require "wb.test"

t.test("mistakes", function()
  t.rendr("links", {}) -- finds undefined-field
  t.advance(3600) -- finds param-type-mismatch
  local job = t.run("links", {}, { result = {} })
  t.eq(job.statu, "succeeded") -- finds undefined-field
  t.eq(job.effects.job, {}) -- finds undefined-field
  t.run("links", {}, { exit = "one" }) -- finds param-type-mismatch
  t.topic {} -- finds param-type-mismatch
  t.topic { source_path = 5 } -- finds assign-type-mismatch
end)

t.test("no function") -- finds missing-parameter

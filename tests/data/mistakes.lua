-- A script with mistakes that an editor must find, by `wiki-browser types`: each on its line.
local wb = require "wb"
wb.api(2) -- finds param-type-mismatch
wb.site { root = true } -- finds assign-type-mismatch
wb.identity { author_name = "A" } -- finds missing-fields
wb.limits { jobs = "many" } -- finds assign-type-mismatch
wb.engine "e" { type = "proces", command = { "cat" } } -- finds assign-type-mismatch
wb.engine "f" { type = "process", command = "cat" } -- finds assign-type-mismatch
wb.kind "k" { about = "a", engine = "e" } -- finds missing-fields
wb.kind "l" { about = "a", engine = "e", timeout = 5 } -- finds assign-type-mismatch
wb.kind "m" { about = "a", engine = "e", timeout = "5m", inputs = { a = "topic" } } -- finds assign-type-mismatch
wb.kind "n" {
  about = "a", engine = "e", timeout = "5m",
  prompt = function(job)
    return job.job_id + 1 -- finds return-type-mismatch
  end,
}
wb.knid "o" { about = "a" } -- finds undefined-field
wb.kind "p" { about = "a", engine = "e", timeout = "5m", produces = "propsal" } -- finds assign-type-mismatch
wb.on("job_finishd", function() end) -- finds param-type-mismatch
wb.on("job_finished", function(event)
  wb.log.info("%s", event.job.exit_cod) -- finds undefined-field
  wb.log.info("%s", event.data.retry) -- finds undefined-field
end)
wb.log.fatal("x") -- finds undefined-field
print(wb.input.topc()) -- finds undefined-field
wb.kind "q" { about = "a", engine = "e", timeout = "5m", retry = "5m" } -- finds assign-type-mismatch
wb.kind "r" {
  about = "a", engine = "e", timeout = "5m",
  verify = function(job)
    return job.produced.txt -- finds undefined-field
  end,
}
wb.schedule "s" { every = "1h" } -- finds missing-fields
wb.schedule "t" { every = "1h", missed = "never", enqueue = { kind = "k" } } -- finds assign-type-mismatch
wb.schedule "u" {
  every = "1h",
  enqueue = function(time)
    wb.log.info(time.plannd) -- finds undefined-field
    wb.enqueue { kind = "k", priority = "high" } -- finds assign-type-mismatch
    wb.log.info(wb.date.add(time.planned, 7)) -- finds param-type-mismatch
  end,
}
wb.enqeue { kind = "k" } -- finds undefined-field
wb.on("script_failed", function(event)
  wb.log.info("%s", event.data.mesage) -- finds undefined-field
end)
wb.engine "g" { type = "process", command = { "cat" }, env = { A = 1 } } -- finds assign-type-mismatch

//! Events while a fake agent works: reloads, other people's commits, other jobs.

use super::{Desk, all_pass};

/// Kinds whose checks, prompts and repetitions tell which script they are of.
const SCRIPT: &str = r#"
local wb = require "wb"
wb.api(1)
wb.identity { author_name = "A", author_email = "a@b" }
wb.limits { jobs = 2 }
wb.engine "e" { type = "process", command = { "no-such-program" }, prompt = "stdin" }
wb.kind "word" { about = "a", engine = "e", timeout = "5m", produces = "result",
  inputs = { word = wb.input.line() }, prompt = "first {{word}}",
  verify = function() return "the first script" end,
  retry = function(job) return job.attempt < 2 end }
wb.kind "long" { about = "a", engine = "e", timeout = "20m", idle = "2m", prompt = "x" }
wb.kind "change" { about = "a", engine = "e", timeout = "5m", produces = "proposal",
  inputs = { topic_id = wb.input.topic(), page = wb.input.source { from = "topic_id" },
    sha = wb.input.blob { from = "page" } }, prompt = "{{page}} {{sha}} {{topic_id}}" }
wb.on("job_started", function(event) wb.log.info("started %s", event.job.kind) end)
wb.on("config_reloaded", function(event) wb.log.info("the first hears of it") end)
"#;

#[track_caller]
fn passes(body: &str) {
    let desk = Desk::new(SCRIPT);
    desk.tests("a", &format!("{HEAD}t.test(\"x\", function()\n{body}\nend)\n"));
    all_pass(&desk.run());
}

const HEAD: &str = r#"
local wb = require "wb"
local script = wb.file "wiki-browser.lua"
local function without(name)
  return (script:gsub('wb.kind "' .. name .. '".-\nwb', "wb", 1))
end
local function said(effects)
  local texts = {}
  for place, line in ipairs(effects.log) do texts[place] = line.text end
  return texts
end
"#;

#[test]
fn a_job_ends_under_the_script_that_it_began_with() {
    passes(
        r##"
        t.enqueue("word", { word = "b" })
        t.enqueue("long", nil, { not_before = "1h" })
        local seen
        local job = t.run("word", { word = "a" }, function(job)
          if job.attempt == 1 then
            t.eq(job.prompt, "first a")
            local other = script:gsub("first", "second")
            seen = t.reload { script = other }
            t.eq(t.render("word", { word = "c" }), "second c")
          else
            t.eq(job.prompt, "second a")
          end
          return { result = 1 }
        end)
        t.has(seen, { generation = 2, changes = { 'kind "word" changed' } })
        t.eq(said(seen), { "the second hears of it" })
        t.matches(job.attempts[1].error_tail, "the first script$")
        t.matches(job.error_tail, "the second script$")
        local other = t.next { result = 1 }
        t.eq(other.attempts[1].prompt, "second b")
        t.matches(other.error_tail, "the second script$")"##,
    );
}

#[test]
fn a_kind_that_goes_away_stays_for_the_job_that_runs() {
    passes(
        r##"
        t.source("a.md", "# A\n")
        local topic = t.topic { source_path = "a.md" }
        t.enqueue("change", { topic_id = t.topic { source_path = "b.md" } })
        local reloaded
        t.next(function(job)
          t.eq(job.source_path, "b.md")
          t.enqueue("change", { topic_id = topic })
          t.fails(function() t.reload { script = without "change" } end, "1 job of kind \"change\"")
          reloaded = t.reload { script = without "change", drop = true }
          t.fails(function() t.render("change", { topic_id = topic }) end, "no kind")
          t.fails(function() t.run("change", { topic_id = topic }) end, "no kind")
          return { proposal = "# Better\n" }
        end)
        t.eq(reloaded.removed_kinds, { { what = 'kind "change"', waiting = 1 } })
        t.has(t.proposals(), { { status = "open", text = "# Better\n", source_path = "b.md" } })
        t.eq(t.approve(t.proposals()[1]).proposal.status, "approved")
        t.eq(t.next(), nil)"##,
    );
}

#[test]
fn a_wrong_script_changes_nothing_for_the_job_that_runs() {
    passes(
        r##"
        local job = t.run("word", { word = "a" }, function(job)
          t.fails(function() t.reload { script = "wb.kind" } end, "generation 1 stays active")
          return { result = 1 }
        end)
        t.eq(#job.attempts, 2)
        t.matches(job.error_tail, "the first script$")"##,
    );
}

#[test]
fn what_others_commit_meanwhile_is_noticed_as_on_a_server() {
    passes(
        r##"
        local text = "# A\n\nFirst line.\n\nLast line.\n"
        t.source("a.md", text)
        local function change(theirs, own)
          local topic = t.topic { source_path = "a.md" }
          return t.run("change", { topic_id = topic }, function()
            t.commit { ["a.md"] = theirs }
            return { proposal = own }
          end)
        end
        local job = change((text:gsub("First", "1st")), (text:gsub("Last", "Final")))
        t.eq(job.status, "succeeded")
        t.fails(function() t.approve(job) end, "it was merged with what is there now")
        local merged = t.proposals()[1]
        t.eq(merged.text, "# A\n\n1st line.\n\nFinal line.\n")
        t.approve(merged)
        -- The same line: nobody can merge that.
        local job = change("# A\n\nNo line.\n", "# A\n\nOne line.\n")
        t.fails(function() t.approve(job) end, "a.md")
        t.eq(t.proposals()[1].has_conflict, true)"##,
    );
}

#[test]
fn jobs_run_beside_each_other_as_far_as_the_limits_allow() {
    passes(
        r##"
        local inner
        local outer = t.run("long", nil, function()
          t.fire("topic_created", { source_path = "a.md" })
          inner = t.run("word", { word = "a" }, { { result = 1 }, { result = 2 } })
          t.run("long", nil, function()
            t.fails(function() t.run("long") end, "is waiting")
          end)
        end)
        t.eq(inner.attempt, 2)
        t.eq(outer.status, "succeeded")
        t.eq(wb.date.seconds(outer.completed_at) - wb.date.seconds(outer.started_at), 3)
        t.contains(said(outer.effects), "started long")
        t.has(t.next(), { kind = "long", status = "succeeded" })"##,
    );
}

#[test]
fn that_a_job_has_started_is_heard_before_its_agent_works() {
    passes(
        r##"
        local counted = script .. [[
          wb.on("job_started", function(event)
            if event.job.kind == "word" then wb.enqueue { kind = "long" } end
          end)]]
        t.reload { script = counted }
        t.run("word", { word = "a" }, function(job)
          t.has(t.jobs(), { { kind = "long", requested_by = "script" } })
          return { result = 1 }
        end)"##,
    );
}

#[test]
fn time_that_passes_meanwhile_is_time_of_the_job() {
    passes(
        r##"
        local seconds = function(job)
          return wb.date.seconds(job.completed_at) - wb.date.seconds(job.started_at)
        end
        t.eq(seconds(t.run("long", nil, function() t.advance "10m" end)), 600)
        local job = t.run("long", nil, function() t.advance "10m" return { takes = "12m" } end)
        t.eq(seconds(job), 720)
        local job = t.run("long", nil, function() t.advance "10m" return { takes = "21m" } end)
        t.has(job, { status = "timed_out", reason = "wall_timeout" })
        t.eq(seconds(job), 1200)
        local job = t.run("long", nil, function() t.advance "10m" return { timeout = "idle" } end)
        t.has(job, { status = "timed_out", reason = "idle_timeout" })
        t.eq(seconds(job), 720)
        local job = t.run("long", nil, function() t.advance "19m" return { timeout = "idle" } end)
        t.has(job, { status = "timed_out", reason = "wall_timeout" })
        t.run("long", nil, function()
          t.fails(function() t.advance "21m" end, "would be over by then")
          t.advance "5m"
          t.run("long", nil, function()
            t.fails(function() t.advance "16m" end, "would be over by then")
          end)
        end)"##,
    );
}

#[test]
fn a_job_that_is_called_off_meanwhile_hands_nothing_in() {
    passes(
        r##"
        t.source("a.md", "# A\n")
        local topic = t.topic { source_path = "a.md" }
        local first = t.run("change", { topic_id = topic }, { proposal = "# B\n" })
        local asked = { replace_proposals = true }
        local job = t.run("change", { topic_id = topic }, function()
          t.approve(first)
          return { proposal = "# C\n" }
        end, asked)
        t.has(job, { status = "cancelled", cancelled_by = first and job.cancelled_by })
        t.eq(#t.proposals(), 1)"##,
    );
}

#[test]
fn a_function_that_fails_ends_the_test_and_not_what_comes_after() {
    let desk = Desk::new(SCRIPT);
    desk.tests(
        "a",
        r#"
        local wb = require "wb"
        local script = wb.file "wiki-browser.lua"
        t.test("fails", function()
          t.run("long", nil, function()
            t.reload { script = "local wb = require 'wb'\nwb.kid {}" }
          end)
        end)
        t.test("goes on", function()
          t.fails(function() t.run("long", nil, function() error("oh") end) end, "oh")
          local job = t.run("long", nil, function() return { exit = 4 } end)
          t.eq(job.exit_code, 4)
        end)
        t.test("recurses", function()
          t.reload { script = (script:gsub("jobs = 2", "jobs = 1000")) }
          local function again() return t.run("long", nil, again) and {} end
          again()
        end)
        t.test("recurses without a job", function()
          local function again() t.fails(again) end
          again()
        end)
        t.test("too late", function()
          t.run("long", nil, function() t.site { now = "2026-03-01T02:00:00Z" } end)
        end)"#,
    );
    let summary = desk.run();
    let told = |place: usize| {
        let run: &wiki_browser::flows::lab::TestRun = &summary.tests[place];
        run.ran.failure.as_ref().map(|it| it.finding.to_string()).unwrap_or_default()
    };
    assert!(told(0).contains("generation 1 stays active"), "{}", told(0));
    assert!(told(0).contains("--> tests/a.lua:7:"), "{}", told(0));
    assert_eq!(told(1), "");
    assert!(told(2).contains("overflow") && told(2).contains("tests/a.lua:"), "{}", told(2));
    assert_eq!(told(3), "");
    assert!(told(4).contains("t.site must come first"), "{}", told(4));
}

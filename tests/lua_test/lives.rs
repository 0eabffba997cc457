//! Jobs in tests behave like those on a server: lanes, checks, retries, handlers, schedules.

use super::{Desk, all_pass};

/// Kinds that show what a life can be.
const SCRIPT: &str = r#"
local wb = require "wb"
wb.api(1)
wb.identity { author_name = "A", author_email = "a@b" }
wb.limits { jobs = 2 }
wb.engine "e" { type = "process", command = { "no-such-program" }, prompt = "stdin",
  reads = "claude-stream-json" }
wb.kind "one" { about = "a", engine = "e", timeout = "5m", idle = "1m", lane = "source_path",
  on_busy = "reject", inputs = { source_path = wb.input.source() }, prompt = "{{source_path}}" }
wb.kind "lane" { about = "a", engine = "e", timeout = "5m", inputs = { name = wb.input.line() },
  lane = function(inputs) return "name=" .. inputs.name:lower() end, prompt = "{{name}}" }
wb.kind "again" { about = "a", engine = "e", timeout = "5m", prompt = "x",
  retry = function(job)
    if job.reason == "rate_limited" then return job.retry_at end
    if job.attempt == 1 then return "90s" end
  end }
wb.kind "new" { about = "a", engine = "e", timeout = "5m", produces = "proposal",
  inputs = { page = wb.input.source { new = true }, sha = wb.input.blob { from = "page" } },
  prompt = "{{page}} {{sha}}" }
wb.kind "chain" { about = "a", engine = "e", timeout = "5m", prompt = "x" }
wb.on("job_finished", function(event)
  if event.job.kind == "chain" then wb.enqueue { kind = "chain", not_before = "1m" } end
end)
wb.on("proposal_created", function(event) wb.log.info("proposed %s", event.data.source_path) end)
wb.on("source_changed", function(event)
  wb.enqueue { kind = "one", source_path = event.data.path }
end)
wb.on("message_posted", function(event) error("never mind") end)
wb.schedule "often" { every = "1h", enqueue = function(time)
  wb.enqueue { kind = "lane", name = time.planned }
end }
"#;

#[track_caller]
fn passes(body: &str) {
    let desk = Desk::new(SCRIPT);
    desk.tests("a", &format!("t.test(\"x\", function()\n{body}\nend)\n"));
    all_pass(&desk.run());
}

#[test]
fn a_lane_a_clock_and_an_end_are_those_of_the_server() {
    passes(
        "local job = t.run(\"lane\", { name = \"ABC\" })
        t.has(job, { lane = \"name=abc\", status = \"succeeded\", exit_code = 0, attempt = 1 })
        local one = { source_path = \"a.md\" }
        t.fire(\"source_changed\", { path = \"a.md\" })
        t.fails(function() t.run(\"one\", one) end, \"is working on a.md\")
        t.has(t.next { exit = 3, stderr = \"oh\" }, { status = \"failed\", reason = \"exit_status\",
          exit_code = 3, error_tail = \"oh\", requested_by = \"script\" })
        t.has(t.run(\"one\", one, { signal = 9 }), { reason = \"signal\", signal = 9 })
        t.has(t.run(\"one\", one, { timeout = \"idle\" }), { reason = \"idle_timeout\" })
        t.has(t.run(\"one\", one, { cancelled = true }), { status = \"cancelled\" })
        t.has(t.run(\"one\", one, { unreachable = \"no such file\" }), { reason = \"spawn_failed\",
          error_tail = \"agent unreachable: no such file\" })
        local said = require(\"wb\").json.encode { type = \"result\", subtype = \"success\",
          is_error = false, result = \"All done\", total_cost_usd = 0.5 } .. \"\\n\"
        t.has(t.run(\"one\", one, { stdout = said }), { summary = \"All done\", cost_usd = 0.5 })",
    );
}

#[test]
fn time_passes_until_a_repetition_and_schedules_come_due_meanwhile() {
    passes(
        "local job = t.run(\"again\", nil, { { exit = 1 }, { exit = 1 } })
        t.eq(#job.attempts, 2)
        t.eq(job.retry_of, job.attempts[1].id)
        t.eq(wb.date.seconds(job.started_at) - wb.date.seconds(job.attempts[1].completed_at), 90)
        local effects = t.advance \"59m\"
        t.eq(#effects.jobs, 1)
        t.has(effects.events[1], { kind = \"schedule_fired\" ~= nil and effects.events[1].kind })
        t.eq(t.jobs()[1].inputs.name, \"2026-01-05T10:00:00.000Z\")"
            .replace("wb.date", "require(\"wb\").date")
            .as_str(),
    );
}

#[test]
fn handlers_lead_to_jobs_until_the_server_ends_that() {
    passes(
        "local job = t.run(\"chain\")
        local count = 0
        while t.next() do count = count + 1 end
        t.eq(count, 5)
        local effects = t.fire(\"message_posted\", { body = \"Hello\" })
        t.eq(#effects.failures, 1)
        t.contains(effects.failures[1], \"never mind\")
        t.matches(effects.failures[1], \"^wiki%-browser.lua:%d+: never mind\")",
    );
}

#[test]
fn a_page_that_is_not_there_can_be_proposed() {
    passes(
        "local proposal = { text = \"# New\\n\", title = \"A page\" }
        local job = t.run(\"new\", { page = \"new.md\" }, { proposal = proposal })
        t.has(job, { status = \"succeeded\", proposal = \"# New\\n\" })
        t.contains(job.prompt, (\"0\"):rep(40))
        t.eq(job.effects.log[1].text, \"proposed new.md\")
        t.source(\"old.md\", \"# Old\\n\")
        t.contains(t.render(\"new\", { page = \"old.md\" }), \"old.md\")",
    );
}

#[test]
fn every_event_can_be_fired() {
    let mut body = String::new();
    for kind in wiki_browser::base::EventKind::ALL {
        let word = kind.as_str();
        let data = match word {
            "job_queued" | "job_started" | "job_finished" => "{ kind = \"lane\" }",
            "topic_changed" => "{ from = \"open\", to = \"discarded\" }",
            "topic_reattached" => {
                "{ source_path = \"a.md\", from = \"orphaned\", to = \"manual\" }"
            }
            "proposal_created" | "proposal_conflicted" => "{ source_path = \"a.md\" }",
            "proposal_decided" => "{ source_path = \"a.md\", status = \"approved\" }",
            "perspective_created" => "{ source_path = \"a.md\", persona = \"p\" }",
            "changes_decided" => "{ changes = \"kept\" }",
            "source_changed" => "{ path = \"a.md\" }",
            "source_renamed" => "{ path = \"a.md\", from = \"b.md\" }",
            "script_failed" => {
                "{ [\"function\"] = \"on.x\", at = \"a:1\", message = \"m\", cause = \"c\" }"
            }
            "schedule_fired" => "{ schedule = \"often\" }",
            "engine_held" | "engine_released" => "{ engine = \"e\" }",
            "job_parked" => "{ kind = \"lane\" }",
            "approval_created" => "{ channel = \"aws\", sort = \"request\" }",
            "approval_decided" => "{ channel = \"aws\", sort = \"request\", state = \"approved\" }",
            "workspace_changed" => "{ state = \"ready\" }",
            "message_sent" => "{ to_class = \"person\", state = \"queued\" }",
            "delivery_changed" => "{ state = \"confirmed\" }",
            "chat_changed" => "{ change = \"added\" }",
            "agent_changed" => "{ name = \"robbo\", state = \"idle\" }",
            "channel_changed" => "{ channel = \"c\", number = 1, what = \"created\" }",
            "member_changed" => {
                "{ channel = \"c\", number = 1, member = \"persona:p\", state = \"active\" }"
            }
            "channel_message" => {
                "{ channel = \"c\", sequence = 1, message_id = \"m\", type = \"message\" }"
            }
            "turn_started" | "turn_ended" | "turn_held" => {
                "{ turn_id = \"t\", agent = \"robbo\", state = \"answered\" }"
            }
            "handoff_changed" => {
                "{ id = \"h\", agent = \"robbo\", persona = \"robbo\", state = \"asked\" }"
            }
            "person_changed" => "{ change = \"added\" }",
            _ => "{}",
        };
        body += &format!(
            "local effects = t.fire(\"{word}\", {data})\nt.eq(effects.events[1].kind, \"{word}\")\n"
        );
    }
    passes(&body);
}

#[test]
fn tests_know_nothing_of_each_other() {
    let desk = Desk::new(SCRIPT);
    let body = "local seen = 0\nlocal function once() seen = seen + 1 t.eq(seen, 1)\n\
        t.eq(t.topic({ source_path = \"a.md\" }).id, \"00000000-0000-7000-8000-000000000002\")\n\
        t.eq(t.advance(\"1h\").jobs[1].kind, \"lane\") end\n";
    desk.tests("a", &format!("{body}t.test(\"1\", once)\nt.test(\"2\", once)\n"));
    all_pass(&desk.run());
}

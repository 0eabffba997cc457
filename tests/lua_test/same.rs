//! A fake agent has the same effects as a real one: the same jobs on a server and in a test.

use serde_json::{Value, json};
use wiki_browser::flows::lab::{Suite, Summary, find};

use super::all_pass;
use crate::support::Bench;

/// A kind's fields, what its real agent does, and what its fake one.
const AGENTS: [(&str, &str, &str, &str); 7] = [
    ("fails", "", "echo oh >&2; exit 3", "{ exit = 3, stderr = \"oh\\n\" }"),
    ("killed", "", "kill -KILL $$", "{ signal = 9 }"),
    ("silent", ", produces = \"result\"", "exit 0", "{}"),
    (
        "refused",
        ", produces = \"result\", \
         verify = function(job) return job.produced.value.n > 1 or \"few\" end",
        "echo '{\"n\": 1}' > \"$OUT/few\"; \"$wb_agent\" finish --result \"$OUT/few\"",
        "{ result = { n = 1 } }",
    ),
    (
        "good",
        ", produces = \"result\", lane = function(inputs) return \"w=\" .. inputs.word end",
        "echo '{\"n\": 2}' > \"$OUT/good\"; \"$wb_agent\" finish --result \"$OUT/good\"",
        "{ result = { n = 2 } }",
    ),
    ("slow", "", "exec sleep 60", "{ timeout = \"wall\" }"),
    ("repeated", ", retry = function(job) return job.attempt < 2 end", "exit 1", "{ exit = 1 }"),
];

const FIELDS: [&str; 12] = [
    "kind",
    "status",
    "reason",
    "error_tail",
    "exit_code",
    "signal",
    "lane",
    "inputs",
    "result",
    "priority",
    "requested_by_is_script",
    "has_retry",
];

/// Returns of a job what does not differ from site to site.
fn compared(job: &Value) -> Value {
    let mut job = job.clone();
    job["requested_by_is_script"] = json!(job["requested_by"] == "script");
    job["has_retry"] = json!(!job["retry_of"].is_null());
    FIELDS
        .iter()
        .map(|it| ((*it).to_owned(), job[it].clone()))
        .collect::<serde_json::Map<_, _>>()
        .into()
}

#[test]
fn a_job_with_a_fake_agent_ends_as_on_a_server() {
    let bench = Bench::new();
    let mut tests = String::from("local t = require \"wb.test\"\nlocal wb = require \"wb\"\n");
    for (name, fields, real, fake) in AGENTS {
        let timeout = if name == "slow" { "500ms" } else { "20s" };
        bench.word_kind(name, &format!("timeout = \"{timeout}\"{fields}"), real);
        tests += &format!(
            "t.test(\"{name}\", function()\n  \
             local job = t.run(\"{name}\", {{ word = \"x\" }}, {fake})\n  \
             job.attempts, job.effects, job.prompt = nil, nil, nil\n  \
             print(wb.json.encode(job))\nend)\n"
        );
    }
    bench.write_script();
    std::fs::create_dir(bench.top.join("tests")).unwrap();
    bench.write("tests/same.lua", &tests);
    let script = bench.top.join("wiki-browser.lua");
    let files = find(&script, &[]).unwrap();
    let played = Suite { script, files, filter: None }.run(&Suite::scratch().unwrap(), &mut |_| {});
    all_pass(&played);
    let server = bench.serve();
    for ((name, ..), run) in AGENTS.iter().zip(&played.tests) {
        let mut job = bench.ended(&bench.job(name, json!({"word": "x"})));
        if *name == "repeated" {
            let again = || bench.show(job["id"].as_str().unwrap())["retried_as"][0].clone();
            let again = crate::support::wait_for("it is repeated", || {
                Some(again()).filter(Value::is_string)
            });
            job = bench.ended(again.as_str().unwrap());
        }
        let said = &run.ran.said.last().unwrap().text;
        let fake: Value = serde_json::from_str(said).unwrap_or_else(|_| panic!("{said}"));
        assert_eq!(compared(&fake), compared(&job), "{name}");
    }
    server.stop();
}

/// Handlers that write down what they are told, but for ids.
const TELLS: &str = r#"
for _, name in ipairs { "proposal_created", "proposal_decided", "proposal_conflicted",
  "source_changed", "topic_changed" } do
  wb.on(name, function(event)
    local data = event.data
    wb.log.warn("EV %s", wb.json.encode { name, data.status or "", data.path or data.source_path
      or "", data.revision_number or 0, data.to or "", data.blob or "", data.commit ~= nil })
  end)
end
"#;

/// What a person and somebody with an editor do, in a test.
const PLAYED: &str = r##"
local t = require "wb.test"
t.test("x", function()
  local text = "# Guide\n\nThe first line.\n\nThe second line.\n"
  t.source("guide.md", text)
  local best = text:gsub("first", "best")
  local function propose(quote, proposal)
    local topic = t.topic { source_path = "guide.md", quote = quote, body = "Say it better." }
    return t.run("better", { topic_id = topic }, { proposal = proposal })
  end
  local commit = t.approve(propose("The first line.", best)).commit
  local message = commit.message:gsub("tester", "ada")
  print("COMMIT " .. require("wb").json.encode { commit.author .. "\n" .. message })
  propose("The best line.", (best:gsub("best", "finest")))
  t.commit { ["guide.md"] = best:gsub("second line", "second line by hand") }
  t.reject(t.proposals()[1], "No.")
end)
"##;

/// Returns what handlers have written down, in its order.
fn told<'a>(lines: impl IntoIterator<Item = &'a str>) -> Vec<Value> {
    let told = lines.into_iter().filter_map(|line| {
        let (_, rest) = line.split_once("EV ")?;
        serde_json::Deserializer::from_str(rest).into_iter::<Value>().next()?.ok()
    });
    told.collect()
}

/// Returns a commit's message without the ids of its Topics.
fn without_ids(message: &str) -> String {
    let line = |it: &str| if it.starts_with("Topic: ") { "Topic: …" } else { it }.to_owned();
    message.trim().lines().map(line).collect::<Vec<_>>().join("\n")
}

/// Runs a file of tests of the bench's script, all of which must pass.
fn play(bench: &Bench, tests: &str) -> Summary {
    std::fs::create_dir(bench.top.join("tests")).unwrap();
    bench.write("tests/same.lua", tests);
    let script = bench.top.join("wiki-browser.lua");
    let files = find(&script, &[]).unwrap();
    let suite = Suite { script, files, filter: None };
    let played = suite.run(&Suite::scratch().unwrap(), &mut |_| {});
    all_pass(&played);
    played
}

#[test]
fn what_people_do_leads_to_what_it_leads_to_on_a_server() {
    let bench = Bench::new();
    let agent = "sed -e 's/The best line/The finest line/' -e 's/The first line/The best line/' \
        \"$root/$path\" | propose";
    bench.topic_kind("better", "timeout = \"20s\", produces = \"proposal\"", agent);
    bench.lua(TELLS);
    bench.write_script();
    let played = play(&bench, PLAYED);
    let said = &played.tests[0].ran.said;
    let expected = told(said.iter().map(|it| it.text.as_str()));
    let commit = said.iter().find_map(|it| it.text.strip_prefix("COMMIT ")).unwrap();
    let commit: Vec<String> = serde_json::from_str(commit).unwrap();

    let server = bench.serve();
    let one = bench.topic("guide.md", "The first line.", "Say it better.");
    bench.send(&bench.approval(&bench.proposal("better", &one))).ok();
    let real = bench.git(&["log", "-1", "--format=%an <%ae>%n%B"]);
    assert_eq!(without_ids(&commit[0]), without_ids(&real));
    let two = bench.topic("guide.md", "The best line.", "Say it better.");
    bench.proposal("better", &two);
    let text = bench.read("guide.md").replace("second line", "second line by hand");
    // The edit is not to be seen before its commit: it would be told without one.
    server.signal("STOP");
    bench.write("guide.md", text);
    bench.git(&["commit", "-qam", "by hand"]);
    server.signal("CONT");
    let merged = crate::support::wait_for("it is merged", || {
        let open = bench.get("/api/proposals?status=open").ok();
        let it = &open["items"][0];
        (it["revision_number"] == 2).then(|| it["id"].as_str().unwrap().to_owned())
    });
    bench.post(&format!("/api/proposals/{merged}/reject"), json!({"reason": "No."})).ok();
    let real = || told(server.log().lines());
    crate::support::until("the handlers are told", || real().len() >= expected.len());
    let real = told(server.log().lines());
    assert_eq!(real, expected, "{real:#?}\nin a test: {expected:#?}");
    server.stop();
}

/// A real agent that ends when it is told to.
const WAITS: &str = "echo x > \"$OUT/ready.$word\"
while [ ! -e \"$OUT/go\" ]; do sleep 0.02; done
echo '{\"n\": 1}' > \"$OUT/$job\"; \"$wb_agent\" finish --result \"$OUT/$job\"";

/// The same that proposes.
const BETTER: &str = "echo x > \"$OUT/ready.better\"
while [ ! -e \"$OUT/go\" ]; do sleep 0.02; done
sed -e 's/The first line/The best line/' \"$root/$path\" | propose";

/// A reload while two jobs run and two wait, in a test.
const RELOADED: &str = r##"
local t = require "wb.test"
local wb = require "wb"
local script = wb.file "wiki-browser.lua"
t.test("x", function()
  local text = "# Guide\n\nThe first line.\n\nThe second line.\n"
  t.source("guide.md", text)
  local topic = t.topic { source_path = "guide.md", quote = "The first line." }
  local tell = function(name, job)
    print(name .. " " .. wb.json.encode { kind = job.kind, status = job.status,
      reason = job.reason, error_tail = job.error_tail, lane = job.lane, result = job.result,
      proposal = job.proposal })
  end
  local waits
  local better = t.run("better", { topic_id = topic }, function()
    waits = t.run("waits", { word = "a" }, function(job)
      if job.attempt == 1 then
        t.enqueue("waits", { word = "b" })
        t.enqueue("better", { topic_id = topic })
        local other = script:gsub("the first script", "the second script")
        other = other:gsub('wb.kind "better"', 'wb.kind "other"')
        local reloaded = t.reload { script = other, drop = true }
        print("RELOADED " .. wb.json.encode { reloaded.changes, reloaded.removed_kinds,
          reloaded.generation })
      end
      return { result = { n = 1 } }
    end)
    return { proposal = (text:gsub("The first line", "The best line")) }
  end)
  tell("BETTER", better)
  tell("A1", waits.attempts[1])
  tell("A2", waits)
  local b = t.next { result = { n = 1 } }
  tell("B1", b.attempts[1])
  tell("B2", b)
  t.eq(t.next(), nil)
end)
"##;

#[test]
fn a_reload_while_jobs_run_leads_to_what_it_leads_to_on_a_server() {
    let bench = Bench::new();
    bench.limits("jobs = 2, grace = \"1s\"");
    let fields = "timeout = \"40s\", produces = \"result\", retry = function(job) return \
        job.attempt < 2 end, verify = function() return \"the first script\" end";
    bench.word_kind("waits", fields, WAITS);
    bench.topic_kind("better", "timeout = \"40s\", produces = \"proposal\"", BETTER);
    bench.write_script();
    let played = play(&bench, RELOADED);
    let said = &played.tests[0].ran.said;
    let fake = |name: &str| -> Value {
        let line = said.iter().find_map(|it| it.text.strip_prefix(&format!("{name} ")));
        serde_json::from_str(line.unwrap_or_else(|| panic!("{name}"))).unwrap()
    };

    let server = bench.serve();
    let topic = bench.topic("guide.md", "The first line.", "Say it better.");
    let better = bench.job_on("better", &topic);
    let a = bench.job("waits", json!({"word": "a"}));
    bench.wait_left("ready.better");
    bench.wait_left("ready.a");
    let b = bench.job("waits", json!({"word": "b"}));
    let gone = bench.job_on("better", &topic);
    bench.edit(|lua| {
        let lua = lua.replace("the first script", "the second script");
        lua.replace("wb.kind \"better\"", "wb.kind \"other\"")
    });
    bench.write_script();
    let reloaded = bench.post("/api/config/reload", json!({"drop": true})).ok();
    assert_eq!(bench.show(&gone)["status"], "cancelled");
    std::fs::write(bench.out.join("go"), "").unwrap();
    let again = |id: &str| {
        let asked = || bench.show(id)["retried_as"][0].as_str().map(str::to_owned);
        crate::support::wait_for("it is repeated", asked)
    };
    let (a2, b2) = (again(&a), again(&b));
    for (name, id) in [("BETTER", better), ("A1", a), ("A2", a2), ("B1", b), ("B2", b2)] {
        let mut job = bench.ended(&id);
        if let Some(id) = job["proposal_id"].as_str() {
            job["proposal"] = bench.get(&format!("/api/proposals/{id}")).ok()["text"].clone();
        }
        let mut fake = fake(name);
        for (field, value) in fake.as_object_mut().unwrap() {
            assert_eq!(*value, job[field], "{name}: {field}\n{job:#}");
        }
        assert!(fake["status"].is_string());
    }
    let told = crate::script::events(&bench, "config_reloaded").remove(0);
    assert_eq!(fake("RELOADED"), json!([told["changes"], told["removed_kinds"], 2]));
    assert_eq!(reloaded["generation"], 2);
    server.stop();
}

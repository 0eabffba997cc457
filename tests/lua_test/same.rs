//! A fake agent leads to what a real one leads to: the same jobs on a server and in a test.

use serde_json::{Value, json};
use wiki_browser::flows::lab::{Suite, find};

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

//! The lanes of waiting and running jobs under another script.

use serde_json::{Value, json};

use crate::support::Bench;

/// Whatever said it before: a function, another input, or nothing.
#[test]
fn waiting_jobs_have_the_lane_of_the_active_script() {
    let bench = Bench::new();
    let by_input = "lane = \"source_path\",";
    bench.engine("slow", "until [ -e \"$OUT/go\" ]; do sleep 0.05; done");
    bench.lua(&format!(
        "wb.kind \"slow\" {{ about = \"A test\", engine = \"slow\", timeout = \"20s\", {by_input}\n\
         prompt = \"{{{{word}}}}\", inputs = {{ source_path = wb.input.source(),\n\
         word = wb.input.line() }} }}\n"
    ));
    let good = bench.declared();
    let function = "lane = function(i) return \"page=\" .. i.source_path end,";
    let mut server = bench.serve();
    let ask = |word: &str, at: &str| {
        bench.job("slow", json!({"source_path": "guide.md", "word": word, "not_before": at}))
    };
    let waits = ask("x", "2099-01-01T00:00:00Z");
    let other = ask("y", "2099-01-01T00:00:00Z");
    let goes = |script: String| {
        bench.edit(|_| script);
        bench.write_script();
        assert_eq!(bench.json(&["reload"])["ok"], true);
    };
    let lanes = || [&waits, &other].map(|it| bench.show(it)["lane"].clone());
    for (lane, expected) in [
        (by_input, [json!("source_path=guide.md"), json!("source_path=guide.md")]),
        (function, [json!("page=guide.md"), json!("page=guide.md")]),
        ("lane = \"word\",", [json!("word=x"), json!("word=y")]),
        ("", [Value::Null, Value::Null]),
    ] {
        goes(good.replace(by_input, lane));
        assert_eq!(lanes(), expected);
        goes(good.clone());
        assert_eq!(lanes(), [json!("source_path=guide.md"), json!("source_path=guide.md")]);
        // And at a start.
        server.stop();
        bench.edit(|_| good.replace(by_input, lane));
        server = bench.serve();
        assert_eq!(lanes(), expected);
    }
    // Who is asked for under it waits for others as before.
    goes(good);
    let [first, second] =
        ["a", "b"].map(|word| bench.job("slow", json!({"source_path": "guide.md", "word": word})));
    assert_eq!(bench.show(&second)["waiting"]["code"], "lane_busy");
    std::fs::write(bench.out.join("go"), "").unwrap();
    for job in [first, second] {
        assert_eq!(bench.ended(&job)["status"], "succeeded");
    }
    server.stop();
}

/// Who reloads is told of jobs that the new function cannot place.
#[test]
fn a_lane_that_cannot_be_asked_again_is_said_at_the_reload() {
    let bench = Bench::new();
    bench.engine("slow", "exit 0");
    bench.lua(
        "local teams = { red = \"r\", blue = \"b\" }\n\
         wb.kind \"slow\" { about = \"A test\", engine = \"slow\", timeout = \"20s\",\n\
         prompt = \"{{name}}\", inputs = { name = wb.input.choice {\n\
         choices = { \"red\", \"blue\" } } },\n\
         lane = function(i) return \"team=\" .. teams[i.name] end }\n",
    );
    let server = bench.serve();
    let waits = ["red", "blue", "blue"]
        .map(|name| bench.job("slow", json!({"name": name, "not_before": "2099-01-01T00:00:00Z"})));
    bench.edit(|text| text.replace(", blue = \"b\"", "").replace("= \"r\"", "= \"x\""));
    bench.write_script();
    let said = bench.json(&["reload"]);
    let warnings = said["warnings"].to_string();
    assert!(said["ok"] == true && warnings.contains("the lanes of 2 jobs stay"), "{said:#}");
    assert!(warnings.contains("wiki-browser.lua:"), "{said:#}");
    let lanes = waits.map(|it| bench.show(&it)["lane"].clone());
    assert_eq!(lanes, [json!("team=x"), json!("team=b"), json!("team=b")]);
    server.stop();
}

/// Lua divides to `3.0`, and some write it so in JSON: it is the same issue.
#[test]
fn a_number_has_one_lane_however_it_is_written() {
    let bench = Bench::new();
    bench.engine("slow", "until [ -e \"$OUT/go\" ]; do sleep 0.05; done");
    bench.lua(
        "wb.kind \"slow\" { about = \"A test\", engine = \"slow\", timeout = \"20s\",\n\
         lane = \"issue\",\n\
         prompt = \"{{issue}}\", inputs = { issue = wb.input.number() }, priority = 10 / 2 }\n",
    );
    let server = bench.serve();
    let [first, second, other] =
        [json!(3), json!(3.0), json!(3.5)].map(|it| bench.job("slow", json!({"issue": it})));
    let shown = bench.show(&second);
    assert_eq!((&shown["lane"], &shown["priority"]), (&json!("issue=3"), &json!(5)));
    assert_eq!(shown["inputs"]["issue"].to_string(), "3");
    assert_eq!(shown["waiting"]["job_id"], first);
    assert_eq!(bench.show(&other)["lane"], "issue=3.5");
    std::fs::write(bench.out.join("go"), "").unwrap();
    for job in [first, second, other] {
        assert_eq!(bench.ended(&job)["status"], "succeeded");
    }
    server.stop();
}

/// A job that runs without a lane gets that of the active script: the next one waits for it.
#[test]
fn running_jobs_enter_the_lane_that_a_reload_gives_to_their_kind() {
    let bench = Bench::new();
    let by_input = "lane = \"source_path\",";
    bench.engine("slow", "until [ -e \"$OUT/go\" ]; do sleep 0.05; done");
    bench.lua(&format!(
        "wb.kind \"slow\" {{ about = \"A test\", engine = \"slow\", timeout = \"20s\", {by_input}\n\
         prompt = \"{{{{source_path}}}}\", inputs = {{ source_path = wb.input.source() }} }}\n"
    ));
    let good = bench.declared();
    bench.edit(|text| text.replace(by_input, ""));
    let server = bench.serve();
    let ask = || bench.job("slow", json!({"source_path": "guide.md"}));
    let run = [ask(), ask()];
    for job in &run {
        assert_eq!(bench.wait_status(job, "running")["lane"], Value::Null);
    }
    bench.edit(|_| good.clone());
    bench.write_script();
    assert_eq!(bench.json(&["reload"])["ok"], true);
    for job in &run {
        assert_eq!(bench.show(job)["lane"], "source_path=guide.md");
    }
    let next = ask();
    let waits = bench.show(&next)["waiting"].clone();
    assert_eq!(waits["code"], "lane_busy", "{waits}");
    std::fs::write(bench.out.join("go"), "").unwrap();
    for job in run.iter().chain([&next]) {
        assert_eq!(bench.ended(job)["status"], "succeeded");
    }
    let shown = bench.show(&next);
    for job in &run {
        let ended = bench.show(job)["completed_at"].as_str().unwrap().to_owned();
        assert!(shown["started_at"].as_str().unwrap() >= ended.as_str(), "{shown}");
    }
    server.stop();
}

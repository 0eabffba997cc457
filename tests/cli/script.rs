//! `wiki-browser check` and `render`.

use std::fs;

use serde_json::Value;

use super::init::{git, repository};
use super::wiki_browser;
use crate::support::Bench;

#[test]
fn a_wrong_script_exits_1_and_is_told_with_its_lines() {
    let folder = tempfile::tempdir().unwrap();
    let script = "local wb = require \"wb\"\nwb.api(1)\n\
        wb.site { rooot = \".\", data = \"./data\" }\n\
        wb.identity { author_name = \"A\", author_email = \"a@b.c\" }\n";
    fs::write(folder.path().join("wiki-browser.lua"), script).unwrap();
    let assert = wiki_browser(folder.path()).arg("check").assert().code(1);
    let text = String::from_utf8_lossy(&assert.get_output().stdout).into_owned();
    assert!(text.contains("--> wiki-browser.lua:3:"), "{text}");
    let assert = wiki_browser(folder.path()).args(["check", "--json"]).assert().code(1);
    let value: Value = serde_json::from_slice(&assert.get_output().stdout).unwrap();
    assert_eq!(value["ok"], false);
    let errors = value["errors"].as_array().unwrap();
    let error = errors.iter().find(|it| it["code"] == "unknown-field").unwrap();
    assert_eq!(error["at"]["line"], 3);
    let args = ["check", "--field", "ok"];
    wiki_browser(folder.path()).args(args).assert().code(1).stdout("false\n");
    wiki_browser(folder.path()).args(["render", "incorporate"]).assert().code(1);
}

#[test]
fn without_a_script_there_is_nothing_to_check() {
    let folder = tempfile::tempdir().unwrap();
    for args in [&["check"][..], &["check", "--config", "none.lua"], &["render", "incorporate"]] {
        wiki_browser(folder.path()).args(args).assert().code(4);
    }
}

#[test]
fn a_prompt_is_rendered_without_a_server() {
    let folder = repository();
    let path = folder.path();
    wiki_browser(path).args(["init", "--engine", "claude"]).assert().success();
    fs::write(path.join("guide.md"), "# Guide\n").unwrap();
    git(path, &["add", "guide.md"]);
    let id = "018bcfe5-6800-7000-8000-000000000000";
    let topic = format!("topic_id={id}");
    let args = ["render", "incorporate", &topic, "source_path=guide.md"];
    let assert = wiki_browser(path).args(args).assert().success();
    let text = String::from_utf8_lossy(&assert.get_output().stdout).into_owned();
    let blob = git(path, &["hash-object", "guide.md"]);
    assert!(text.contains(&format!("Base source SHA: {blob}")), "{text}");
    assert!(
        text.contains(&format!("Topic ID:        {id}\nSource path:     guide.md\n")),
        "{text}"
    );
    assert!(text.contains("/wb-agent\n"), "{text}");
    for (args, code) in [
        (&["render", "incorporate", &topic][..], 2),
        (&["render", "incorporate", "topic_id=7f3a", "source_path=guide.md"], 2),
        (&["render", "incorporate", &topic, "source_path=none.md"], 4),
        (&["render", "incorporate", &topic, &topic], 2),
        (&["render", "nothing"], 2),
        (&["render", "incorporate", "color=red"], 2),
    ] {
        wiki_browser(path).args(args).assert().code(code);
    }
}

const PERSPECTIVE: &str = r#"
wb.kind "perspective" {
  about = "View", engine = "process", timeout = "1m", lane = "source_path",
  inputs = {
    source_path  = wb.input.source(),
    persona_name = wb.input.persona(),
    source_sha   = wb.input.blob { from = "source_path" },
    persona_sha  = wb.input.hash { from = "persona_name" },
    tone         = wb.input.choice { choices = { "dry", "warm" }, default = "dry" },
  },
  prompt = "{{persona_name}} {{persona_sha}} {{source_path}} {{source_sha}} {{tone}}\n",
}
wb.engine "process" { type = "process", command = { "/bin/cat" }, prompt = "stdin" }
"#;

#[test]
fn the_prompt_of_a_perspective_names_the_versions_of_source_and_persona() {
    let folder = repository();
    let path = folder.path();
    wiki_browser(path).args(["init", "--engine", "suggestions"]).assert().success();
    let script = fs::read_to_string(path.join("wiki-browser.lua")).unwrap();
    fs::write(path.join("wiki-browser.lua"), script + PERSPECTIVE).unwrap();
    fs::write(path.join("guide.md"), "# Guide\n").unwrap();
    fs::write(path.join("agents/critic.md"), "---\nname: critic\n---\nBe strict.\n").unwrap();
    git(path, &["add", "guide.md"]);
    let args = ["render", "perspective", "source_path=guide.md", "persona_name=critic"];
    let assert = wiki_browser(path).args(args).assert().success();
    let hash = |name: &str| git(path, &["hash-object", name]).trim().to_owned();
    let wanted = format!("critic {} guide.md {} dry\n", hash("agents/critic.md"), hash("guide.md"));
    assert_eq!(String::from_utf8_lossy(&assert.get_output().stdout), wanted);
    for (persona, code) in [("nobody", 4), ("../critic", 2), ("", 2)] {
        let persona = format!("persona_name={persona}");
        let args = ["render", "perspective", "source_path=guide.md", &persona];
        wiki_browser(path).args(args).assert().code(code);
    }
    // A prompt that no job would be given is not rendered.
    let sha = format!("source_sha={}", "a".repeat(40));
    for wrong in ["tone=loud", &sha] {
        wiki_browser(path).args(args).arg(wrong).assert().code(2);
    }
    let tone = wiki_browser(path).args(args).arg("tone=warm").assert().success();
    assert!(String::from_utf8_lossy(&tone.get_output().stdout).ends_with(" warm\n"));
}

#[test]
fn a_running_server_knows_the_source_of_a_topic() {
    let bench = Bench::new();
    bench.topic_kind("works", "timeout = \"20s\"", "exit 0");
    let server = bench.serve();
    let topic = bench.topic("docs/deep.md", "Far below.", "Why?");
    let short = format!("topic_id={}", &topic.id[28..]);
    let prompt = super::desk::said(&bench, &["render", "works", &short]);
    assert!(prompt.contains(&format!("topic={}\npath=docs/deep.md\n", topic.id)), "{prompt}");
    let value = bench.json(&["render", "works", &short]);
    assert_eq!((&value["prompt"], &value["kind"]), (&prompt.into(), &"works".into()));
    let refused = super::desk::refused;
    refused(&bench, &["render", "works", "topic_id=ffff0000"], 4, "not_found");
    let other = ["render", "works", &short, "source_path=guide.md"];
    refused(&bench, &other, 2, "input_mismatch");
    refused(&bench, &["render", "nothing"], 2, "unknown_kind");
    refused(&bench, &["render", "works"], 2, "missing_input");
    refused(&bench, &["render", "works", "color=red"], 2, "unknown_input");
    let assert = wiki_browser(bench.top.as_std_path()).arg("check").assert().success();
    assert!(String::from_utf8_lossy(&assert.get_output().stdout).contains("is valid: kinds works"));
    server.stop();
    // Without a server the whole id and the source are given.
    refused(&bench, &["render", "works", &short, "source_path=docs/deep.md"], 2, "invalid");
    let whole = format!("topic_id={}", topic.id);
    refused(&bench, &["render", "works", &whole], 2, "missing_input");
    let args = ["render", "works", &whole, "source_path=docs/deep.md"];
    assert_eq!(super::desk::said(&bench, &args), prompt_of(&bench, &args));
}

fn prompt_of(bench: &Bench, args: &[&str]) -> String {
    bench.json(args)["prompt"].as_str().unwrap().to_owned()
}

#[test]
fn functions_are_called_with_made_up_values_and_what_fails_is_named() {
    let folder = repository();
    let path = folder.path();
    wiki_browser(path).args(["init", "--engine", "claude"]).assert().success();
    let script = fs::read_to_string(path.join("wiki-browser.lua")).unwrap();
    let first = script.lines().count();
    let kinds = "
wb.kind \"sums\" {
  about = \"Adds\", engine = \"claude\", produces = \"result\",
  inputs = { tone = wb.input.text(), note = wb.input.line { required = false } },
  timeout = \"5m\", lane = function(inputs) return \"note=\" .. inputs.note end,
  prompt = function(job)
    return (\"%d words\"):format(job.tone)
  end,
}
wb.kind \"blank\" {
  about = \"Says nil\", engine = \"claude\", produces = \"result\", timeout = \"5m\",
  prompt = function(job) return \"Name: \" .. tostring(({})[job.kind]) end,
}
wb.kind \"strict\" {
  about = \"Judges\", engine = \"claude\", produces = \"result\",
  timeout = \"5m\", inputs = { tone = wb.input.text() },
  prompt = function(job)
    if job.tone ~= \"dry\" then error(\"a tone that is not known\") end
    return job.tone
  end,
}
wb.kind \"right\" {
  about = \"Reads its inputs\", engine = \"claude\", produces = \"result\", timeout = \"5m\",
  inputs = {
    n = wb.input.number { default = 3 }, deep = wb.input.flag { default = false },
    tone = wb.input.line { required = false }, since = wb.input.line(),
    data = wb.input.text { required = false, default = \"[]\" }, many = wb.input.line(),
  },
  lane = function(inputs) return inputs.n > 2 and \"size=big\" or \"size=small\" end,
  prompt = function(job)
    local year = job.since:match(\"^%d+\")
    local ok, why = pcall(wb.json.decode, job.many .. \"}\")
    return year .. wb.date.format(job.since, \"%Y\") .. (job.deep and \"deep\" or \"flat\")
      .. (job.tone or \"plain\") .. (tonumber(job.many) + 1) .. (ok and \"\" or \" \" .. why)
  end,
}
wb.kind \"fills\" {
  about = \"Returns a template\", engine = \"claude\", produces = \"result\", timeout = \"5m\",
  prompt = function(job) return \"Look in {{root}}\" end,
}
wb.inbox \"orders/place\" {
  about = \"Places orders\", engine = \"claude\", schema = \"schemas/order.json\",
  prompt = function(job)
    local order = wb.json.decode(job.payload)
    return job.banner .. order.team .. order.lines[1].sku .. (order.count + 1)
  end,
}
wb.inbox \"orders/any\" {
  about = \"Takes anything\", engine = \"claude\",
  prompt = function(job) return job.banner .. wb.json.decode(job.payload).team end,
}
";
    fs::write(path.join("wiki-browser.lua"), format!("{script}{kinds}")).unwrap();
    fs::create_dir_all(path.join("schemas")).unwrap();
    let schema = r#"{"type": "object", "properties": {
        "team": {"enum": ["a", "b"]}, "count": {"type": "integer"},
        "lines": {"items": {"properties": {"sku": {"type": "string"}}}, "type": "array"}}}"#;
    fs::write(path.join("schemas/order.json"), schema).unwrap();
    let assert = wiki_browser(path).args(["check", "--json"]).assert().success();
    let value: Value = serde_json::from_slice(&assert.get_output().stdout).unwrap();
    let warnings = value["warnings"].as_array().unwrap();
    let of = |code: &str| {
        let found = warnings.iter().filter(|it| it["code"] == code);
        let line = |it: &Value| it["at"]["line"].as_u64().unwrap() as usize - first;
        found.map(|it| (line(it), it["message"].as_str().unwrap().to_owned())).collect::<Vec<_>>()
    };
    let failed = of("function-failed");
    assert!(failed.iter().any(|it| it.0 == 7 && it.1.contains("number expected")), "{value}");
    assert!(failed.iter().any(|it| it.0 == 5 && it.1.contains("a nil value")), "{value}");
    assert_eq!(failed.len(), 2, "{value}");
    let unfilled = of("prompt-unfilled");
    assert!(unfilled[0].1.contains("returns {{root}}") && unfilled.len() == 1, "{value}");
    let args = ["render", "right", "since=2026-01-02T03:04:05Z", "many=4"];
    let assert = wiki_browser(path).args(args).assert().success();
    let said = String::from_utf8_lossy(&assert.get_output().stdout).into_owned();
    assert!(said.starts_with("20262026flatplain5 wiki-browser.lua:"), "{said}");
    assert_eq!(of("prompt-nil").iter().map(|it| it.0).collect::<Vec<_>>(), [12], "{value}");
}

//! Every error in a script is found, at its place.

use std::time::Duration;

use crate::script::tests::{Site, brief, check};
use crate::script::{EngineBody, EnvValue, InputType, OnBusy};

const ENGINE: &str =
    "wb.engine \"e\" { type = \"process\", command = { \"x\" }, prompt = \"stdin\" }\n";

fn kind(fields: &str) -> String {
    format!(
        "{ENGINE}wb.kind \"k\" {{ about = \"a\", engine = \"e\", timeout = \"5m\", prompt = 'p',\n\
         {fields}\n}}\n"
    )
}

#[test]
fn ten_errors_in_one_run_give_ten_findings_at_their_places() {
    let rest = r#"wb.site { rot = ".", listen = 7180 }
wb.limits { jobs = 0, grace = 5 }
wb.engine "e" { type = "proces" }
wb.kind "k" {
  about = "a",
  engine = "f",
  timout = "5m",
  inputs = {
    topic_id = wb.input.topic { form = "x" },
    source_path = wb.input.source { from = "topic" },
  },
  prompt = [[
Topic: {{topic_id}}
Path:  {{source_pth}}
]],
}
wb.kind "half"
wb.on("job_finishd", function() end)
"#;
    let text = check(
        rest,
        &[
            "4:11 unknown-field",
            "4:31 wrong-type",
            "5:20 out-of-range",
            "5:31 bad-duration",
            "6:24 unknown-word",
            "9:12 unknown-engine",
            "10:3 unknown-field",
            "12:33 unknown-field",
            "13:44 unknown-input",
            "17:8 unknown-name",
            "20:1 half-finished",
            "21:7 unknown-event",
        ],
    );
    for part in [
        "kind \"k\" has no field `timout`",
        "10 |   timout = \"5m\",\n   |   ^^^^^^ did you mean `timeout`?",
        "did you mean `root`?",
        "did you mean `process`?",
        "did you mean `source_path`?",
        "did you mean `job_finished`?",
        "a duration needs a unit: write \"5s\" or \"5m\"",
        "input \"topic_id\" of kind \"k\" has no field `form`",
    ] {
        assert!(text.contains(part), "{part}\n{text}");
    }
}

#[test]
fn the_report_ends_with_a_count() {
    let text = Site::with_head("wb.sitte {}\nwb.kidn \"x\" { about = 1 }\n").load().unwrap_err();
    let text = text.to_string();
    assert!(text.ends_with("\n\n2 errors"), "{text}");
    assert!(text.contains("4 | wb.sitte {}\n  |    ^^^^^ did you mean `site`?"), "{text}");
    assert!(text.contains("wb has no function `kidn`"), "{text}");
}

#[test]
fn names_that_do_not_exist_are_found() {
    check("local x = jbo\nprnt(\"a\")\n", &["4:11 undefined-global", "5:1 undefined-global"]);
    check("y = 1\nlocal z = y\n", &["4:1 global-assignment"]);
    check("print = 1\n", &["4:1 global-assignment"]);
    check("wb.kind = 1\n", &["4:4 assignment"]);
    check("local i = wb.input.topik()\n", &["4:20 unknown-function"]);
    check("wb.log.warm(\"x\")\n", &["4:8 unknown-function"]);
    let text = check("wb.auth { }\n", &["4:4 not-built-yet"]);
    assert!(text.contains("loopback only"), "{text}");
    let text = check("local x = prnt\n", &["4:11 undefined-global"]);
    assert!(text.contains("did you mean `print`?"), "{text}");
}

#[test]
fn a_runtime_error_ends_the_evaluation_but_not_the_report() {
    check(
        "wb.site { rot = 1 }\nlocal x = nil + 1\nwb.limits { jbs = 1 }\n",
        &["4:11 unknown-field", "5:1 runtime"],
    );
    check("error({ code = 5 })\n", &["runtime"]);
    let text = check("error(\"a\\nerror[x]: b\")\n", &["4:1 runtime"]);
    assert!(text.starts_with("error[runtime]: a\\nerror[x]: b\n"), "{text}");
    let text = check("local x = {\n  a = 1\n", &["4:11 syntax"]);
    assert!(text.contains("write `}`"), "{text}");
}

#[test]
fn a_thing_is_declared_once_and_whole() {
    let text = check(&format!("{ENGINE}\n{ENGINE}"), &["6:1 duplicate"]);
    assert!(text.contains("first declared at wiki-browser.lua:4"), "{text}");
    check("wb.site {}\nwb.site {}\n", &["5:1 duplicate"]);
    check("local k = wb.kind \"x\"\n", &["4:11 half-finished"]);
    let site = "wb.site {\n  root = \".\",\n  root = \"..\",\n}\n";
    let text = check(site, &["6:3 duplicate-field"]);
    assert!(text.contains("first set at wiki-browser.lua:5"), "{text}");
    check("wb.kind { about = 1 }\n", &["4:1 no-name"]);
    check("wb.kind(\"k\", {})\n", &["4:1 no-name"]);
    check("wb.site \"x\"\n", &["4:1 wrong-type"]);
    check("wb:site { root = \"..\" }\n", &["4:1 wrong-call"]);
    check("wb.site()\n", &["4:1 wrong-call"]);
    check("local i = wb.input:line {}\n", &["4:1 wrong-call"]);
    check("wb:on(\"job_finished\", function() end)\n", &["4:4 wrong-type"]);
    check("wb:kind \"k\" {}\n", &["4:1 no-name"]);
    check("wb.engine \"E x\" { type = \"builtin\" }\n", &["4:1 bad-name", "4:1 unknown-engine"]);
}

#[test]
fn the_api_comes_first_and_is_this_one() {
    let brief_of = |text: &str| brief(&Site::new(text).errors());
    let identity = "wb.identity { author_name = \"A\", author_email = \"a@x\" }\n";
    let text = format!("local wb = require \"wb\"\n{identity}");
    assert_eq!(brief_of(&text), ["2:1 api-first"]);
    let text = format!("local wb = require \"wb\"\nwb.api(2)\n{identity}");
    let errors = Site::new(&text).errors();
    assert_eq!(brief(&errors), ["2:1 api-version"]);
    assert!(errors[0].message.contains("api 2") && errors[0].message.contains("api 1"));
    assert_eq!(brief_of(""), ["1:1 empty"]);
}

#[test]
fn an_identity_that_git_cannot_write_is_refused() {
    let brief_of = |identity: &str| {
        brief(&Site::new(&format!("local wb = require \"wb\"\nwb.api(1)\n{identity}")).errors())
    };
    assert_eq!(brief_of("wb.site {}"), ["1:1 missing-declaration"]);
    assert_eq!(brief_of("wb.identity {}"), ["3:1 missing-field", "3:1 missing-field"]);
    for (name, code) in [
        ("\"\"", "bad-text"),
        ("\" \"", "bad-text"),
        ("\"a\\nb\"", "bad-text"),
        ("\"a<b\"", "bad-identity"),
        ("\"a>\"", "bad-identity"),
        ("\".,\"", "bad-identity"),
        ("5", "wrong-type"),
        ("nil", "nil-field"),
    ] {
        let text = format!("wb.identity {{ author_email = \"a@x\", author_name = {name} }}");
        let errors = Site::new(&format!("local wb = require \"wb\"\nwb.api(1)\n{text}")).errors();
        assert_eq!(errors.len(), 1, "{name}");
        assert_eq!(errors[0].code, code, "{name}");
    }
}

#[test]
fn a_site_listens_on_loopback_only() {
    let text = check("wb.site { listen = \"0.0.0.0:80\" }\n", &["4:20 not-loopback"]);
    assert!(text.contains("other addresses are not supported"), "{text}");
    check("wb.site { listen = \"localhost:80\" }\n", &["4:20 bad-address"]);
    check("wb.site { sources = { \"a[\" } }\n", &["4:23 bad-glob"]);
    check("wb.site { sources = {} }\n", &["4:21 bad-text"]);
    check("wb.site { public_hosts = { \"http://x\" } }\n", &["4:28 bad-host"]);
    check("wb.site { data = \".\" }\n", &["4:18 bad-path"]);
}

#[test]
fn an_engine_is_whole() {
    let engine = |fields: &str| format!("wb.engine \"e\" {{ {fields} }}\n");
    check(&engine("type = \"process\""), &["4:1 missing-field", "4:1 missing-field"]);
    let process = "type = \"process\", prompt = \"stdin\", ";
    check(&engine(&format!("{process} command = {{}}")), &["4:64 bad-text"]);
    check(&engine(&format!("{process} command = {{ 1 }}")), &["4:66 wrong-type"]);
    let whole = format!("{process} command = {{ \"x\" }}, ");
    let text = check(&engine(&format!("{whole} reads = \"codex\"")), &["4:82 unknown-word"]);
    assert!(text.contains("codex-jsonl"), "{text}");
    check(&engine(&format!("{whole} env = {{ WB_TOKEN = \"x\" }}")), &["4:82 bad-name"]);
    check(&engine(&format!("{whole} env = {{ [\"a b\"] = \"x\" }}")), &["4:82 bad-name"]);
    check("wb.engine \"other\" { type = \"builtin\" }\n", &["4:1 unknown-engine"]);
    check(
        "wb.engine \"suggestions\" { type = \"builtin\", command = { \"x\" } }\n",
        &["4:45 unknown-field"],
    );
}

#[test]
fn inputs_follow_only_from_what_they_can_follow_from() {
    let inputs = |text: &str| kind(&format!("inputs = {{\n{text}\n}}"));
    check(&inputs("a = wb.input.blob()"), &["7:1 missing-field"]);
    check(&inputs("a = wb.input.hash {}"), &["7:1 missing-field"]);
    check(&inputs("t = wb.input.topic(), a = wb.input.blob { from = \"t\" }"), &["7:50 bad-from"]);
    check(&inputs("s = wb.input.source(), a = wb.input.hash { from = \"s\" }"), &["7:51 bad-from"]);
    check(&inputs("a = wb.input.line { from = \"b\" }"), &["7:21 unknown-field"]);
    check(&inputs("a = wb.input.source { from = \"a\" }"), &["7:30 bad-from", "7:30 cycle"]);
    check(&inputs("a = 5"), &["7:5 wrong-type"]);
    check(&inputs("A = wb.input.line()"), &["7:1 bad-name"]);
    check(&inputs("job_id = wb.input.line()"), &["7:1 bad-name"]);
    check(&inputs("a = wb.input.choice {}"), &["7:1 missing-field"]);
    check(&inputs("a = wb.input.choice { choices = { \"x\", \"x\" } }"), &["7:33 bad-choices"]);
    check(&inputs("a = wb.input.number { min = 2, max = 1 }"), &["7:29 out-of-range"]);
    check(&inputs("a = wb.input.number { min = 2, default = 1 }"), &["7:42 bad-default"]);
}

#[test]
fn a_kind_refers_to_what_is_there() {
    check(&kind("lane = \"x\""), &["6:8 unknown-input"]);
    check(&kind("lane = \"a\", inputs = { a = wb.input.text() }"), &["6:8 bad-lane"]);
    let optional = "lane = \"a\", inputs = { a = wb.input.line { required = false } }";
    check(&kind(optional), &["6:8 bad-lane"]);
    let always = "lane = \"a\", inputs = { a = wb.input.line { default = \"x\" } }";
    Site::with_head(&kind(always)).loaded();
    check(&kind("skill = \"skills/none\""), &["6:9 missing-skill"]);
    let text = check(&kind("skill = \"skills/x/SKILL.md\""), &["6:9 missing-skill"]);
    assert!(text.contains("write \"skills/x\""), "{text}");
    check(&kind("skill = \"../x\""), &["6:9 bad-path"]);
    check(&kind("skill = \"/x\""), &["6:9 bad-path"]);
    check(&kind("max_running = 0"), &["6:15 out-of-range"]);
    check(&kind("produces = \"proposal\""), &["6:1 broken-rule"]);
    let text = check(&kind("on_server_loss = \"stay\""), &["6:18 unknown-word"]);
    assert!(text.contains("keep"), "{text}");
    let site = Site::with_head(&kind("skill = \"skills/s\""));
    assert_eq!(site.loaded().config.kinds["k"].skill.as_ref().unwrap().name, "s");
    site.write("skills/s/SKILL.md", "---\nname: other\n---\n");
    assert_eq!(brief(&site.errors()), ["6:9 bad-skill"]);
}

#[test]
fn the_two_kinds_of_the_database_keep_its_rules() {
    let kind = |name: &str, fields: &str| {
        format!(
            "{ENGINE}wb.kind \"{name}\" {{ about = \"a\", engine = \"e\", timeout = \"5m\", \
             prompt = \"p\", {fields} }}\n"
        )
    };
    let count = |text: &str| Site::with_head(text).load().map_or_else(|it| it.errors.len(), |_| 0);
    let topic = "inputs = { topic_id = wb.input.topic(), \
        path = wb.input.source { from = \"topic_id\" }, \
        base = wb.input.blob { from = \"path\" } }, produces = \"proposal\"";
    assert_eq!(count(&kind("incorporate", topic)), 0);
    let no_version = topic.replace("base = wb.input.blob { from = \"path\" }", "");
    assert_eq!(count(&kind("other", &no_version)), 1);
    let message = "inputs = { a = wb.input.line() }, produces = \"message\"";
    assert_eq!(count(&kind("other", message)), 1);
    assert_eq!(count(&kind("other", "inputs = { priority = wb.input.line() }")), 1);
    assert_eq!(count(&kind("incorporate", "")), 2);
    assert_eq!(count(&kind("incorporate", &topic.replace("topic_id", "t"))), 1);
    let persona = "inputs = { persona_name = wb.input.persona() }";
    assert_eq!(count(&kind("perspective", persona)), 0);
    assert_eq!(count(&kind("perspective", "")), 1);
    assert_eq!(count(&kind("perspective", topic)), 2);
    let new = "inputs = { path = wb.input.source { new = true }, \
        base = wb.input.blob { from = \"path\" } }, produces = \"proposal\"";
    assert_eq!(count(&kind("other", new)), 0);
    assert_eq!(count(&kind("other", &new.replace("proposal", "result"))), 1);
    assert_eq!(count(&kind("perspective", new)), 2);
    let optional = new.replace("new = true", "required = false");
    assert_eq!(count(&kind("other", &optional)), 2);
    let loose = new.replace("path =", "t = wb.input.topic { required = false }, path =");
    assert_eq!(count(&kind("other", &loose)), 1);
    let derived = topic.replace("from = \"topic_id\" }", "from = \"topic_id\", new = true }");
    assert_eq!(count(&kind("other", &derived)), 1);
    let view = "inputs = { path = wb.input.source(), base = wb.input.blob { from = \"path\" }, \
        who = wb.input.persona(), sha = wb.input.hash { from = \"who\" } }, \
        produces = \"perspective\"";
    assert_eq!(count(&kind("other", view)), 0);
    assert_eq!(
        count(&kind("other", &view.replace("sha = wb.input.hash { from = \"who\" }", ""))),
        1
    );
    assert_eq!(
        count(&kind("other", &view.replace("base = wb.input.blob { from = \"path\" },", ""))),
        1
    );
}

#[test]
fn a_template_has_only_known_names() {
    let template = |prompt: &str| {
        format!(
            "{ENGINE}wb.kind \"k\" {{ about = \"a\", engine = \"e\", timeout = \"5m\",\n\
             prompt = {prompt} }}\n"
        )
    };
    check(&template("\"{{job_id}} {{jb_id}}\""), &["6:22 unknown-name"]);
    check(&template("\"{{ job_id }}\""), &["6:11 bad-template"]);
    let text = check(&template("\"{{API_KEY}}\""), &["6:11 bad-template"]);
    assert!(text.contains("in small letters"), "{text}");
    check(&template("\"{{skill}}\""), &["6:11 unknown-name"]);
    check(&template("\"\""), &["6:10 bad-text"]);
    check(&template("nil"), &["5:1 missing-field"]);
    check(&template("\"a\\n{{x}}\""), &["6:10 unknown-name"]);
}

#[test]
fn a_right_script_is_plain_data_with_defaults() {
    let rest = r#"
local e = wb.engine "e" {
  type = "process", command = { "x" }, prompt = "argument", reads = "claude-stream-json",
}
local shared = { lane_input = wb.input.line { about = "x" } }
wb.kind "k" {
  about = "a", engine = e, timeout = "5m", prompt = "{{s}} {{b}} {{t}}", lane = "t",
  inputs = {
    b = wb.input.blob { from = "s" }, s = wb.input.source { from = "t" }, t = wb.input.topic(),
    n = wb.input.number { default = 5 }, f = wb.input.flag { default = false },
  },
}
wb.kind "j" { about = "a", engine = "e2", timeout = "1s", prompt = "p", inputs = shared }
wb.engine "e2" { type = "process", command = { "y" }, prompt = "stdin", env = { A = "1" } }
wb.limits { lanes = { t = 2, other = 1 } }
"#;
    let loaded = Site::with_head(rest).loaded();
    let config = &loaded.config;
    let kind = &config.kinds["k"];
    let names: Vec<&str> = kind.inputs.iter().map(|input| input.name.as_str()).collect();
    assert_eq!(names, ["t", "s", "b", "n", "f"]);
    assert_eq!(kind.input("n").unwrap().default.as_deref(), Some("5"));
    assert_eq!(kind.input("b").unwrap().ty, InputType::Blob);
    assert!(kind.input("t").unwrap().required && !kind.input("f").unwrap().required);
    assert_eq!((kind.start, kind.idle), (Some(secs(30)), Some(secs(180))));
    assert_eq!((kind.linger, kind.on_busy, kind.max_running), (secs(10), OnBusy::Queue, None));
    let other = &config.kinds["j"];
    assert_eq!((other.start, other.idle, other.timeout), (None, None, secs(1)));
    assert_eq!((config.limits.jobs, config.limits.grace), (1, secs(5)));
    assert_eq!((config.limits.agents, config.chat.running, config.chat.running_person), (8, 16, 4));
    assert_eq!(config.limits.lanes["t"], 2);
    assert!(config.site.root.is_absolute() && config.site.data.ends_with("data"));
    assert_eq!(config.site.sources, ["**/*.md"]);
    let EngineBody::Process { env, .. } = &config.engines["e2"].body else { panic!("no process") };
    assert_eq!(env["A"], EnvValue::Text("1".to_owned()));
    assert_eq!(
        brief(&loaded.warnings),
        [
            "13:5 unused-input",
            "13:42 unused-input",
            "16:73 unused-input",
            "18:23 shadowed",
            "18:30 unused"
        ]
    );
    serde_json::to_string(&**config).unwrap();
}

fn secs(count: u64) -> Duration {
    Duration::from_secs(count)
}

#[test]
fn what_is_hardly_meant_is_a_warning() {
    let rest = "wb.engine \"e\" { type = \"process\", prompt = \"stdin\",\n\
                command = { \"x\", \"--dangerously-skip-permissions\" } }\n";
    let loaded = Site::with_head(rest).loaded();
    assert_eq!(brief(&loaded.warnings), ["4:1 unused", "4:1 skips-permissions"]);
    assert!(loaded.config.engines["e"].unasked().is_some());
}

#[test]
fn a_script_may_have_several_files_below_its_folder() {
    let site = Site::with_head("require \"parts.kinds\"\nrequire \"parts.kinds\"\n");
    site.write(
        "parts/kinds.lua",
        &format!("local wb = require \"wb\"\n{ENGINE}wb.kind \"k\" {{ abut = 1 }}\nreturn 5\n"),
    );
    let errors = site.errors();
    assert!(errors.iter().all(|it| it.at.as_ref().unwrap().file.as_str() == "parts/kinds.lua"));
    assert_eq!(errors.iter().filter(|it| it.code == "unknown-field").count(), 1);
    site.write("parts/kinds.lua", ENGINE.replace("wb.", "require(\"wb\").").as_str());
    let first = site.loaded().config.digest.clone();
    assert_eq!(site.loaded().config.files.len(), 2);
    assert_eq!(site.loaded().config.digest, first);
    site.write("parts/kinds.lua", &format!("local wb = require \"wb\"\n{ENGINE}"));
    assert_ne!(site.loaded().config.digest, first);
}

#[test]
fn require_stays_in_the_folder() {
    let bad = "4:9 bad-module";
    let missing = "4:9 missing-module";
    for (name, expected) in [
        ("../x", bad),
        ("/etc/passwd", bad),
        ("a/b", bad),
        ("parts.link", missing),
        ("linked.x", missing),
        ("none", missing),
        ("", bad),
        ("a..b", bad),
    ] {
        let site = Site::with_head(&format!("require \"{name}\"\n"));
        site.write("real/x.lua", "return 1");
        site.write("parts/y.lua", "return 1");
        std::os::unix::fs::symlink(
            site.path().join("real/x.lua"),
            site.path().join("parts/link.lua"),
        )
        .unwrap();
        std::os::unix::fs::symlink(site.path().join("real"), site.path().join("linked")).unwrap();
        assert_eq!(brief(&site.errors()), [expected], "{name}");
    }
    let site = Site::with_head("require \"a\"\n");
    site.write("a.lua", "require \"b\"");
    site.write("b.lua", "require \"a\"");
    let errors = site.errors();
    assert!(errors[0].message.contains("requires itself"), "{}", errors[0]);
    check("require \"wiki-browser\"\n", &["4:9 require-cycle"]);
}

#[test]
fn what_people_write_by_habit_is_told_with_what_to_type() {
    let kind = |fields: &str| {
        format!(
            "wb.engine \"e\" {{ type = \"process\", command = {{ \"true\" }},\n\
             prompt = \"stdin\" }}\nwb.kind \"k\" {{ about = \"a\", engine = \"e\", {fields} }}\n"
        )
    };
    for (lines, expected) in [
        ("wb.site { root = \"~/wiki\" }\n".to_owned(), "nobody puts a folder in place of `~`"),
        (kind("timeout = 180000, prompt = \"x\""), "write \"3m\""),
        (kind("timeout = \"5m\", prompt = \"{{ x }}\""), "or {{{{ for {{ itself"),
        ("require \"wiki-browser\"\n".to_owned(), "write require \"wb\""),
        (
            "wb.engine \"c\" { type = \"process\", command = { \"claude -p\" },\n\
             prompt = \"stdin\" }\n"
                .to_owned(),
            "write { \"claude\", \"-p\" }",
        ),
        (
            kind("timeout = \"5m\", prompt = \"x\"")
                + "wb.schedule \"s\" { every = \"1h\", enqueue = { kind = \"k\", inputs = {} } }\n",
            "write the inputs beside it",
        ),
        ("local t = (\"x\"):rep(1e9)\n".to_owned(), "wiki-browser.lua:4:"),
        (
            "local t = {}\nwhile true do\n  t[#t + 1] = (\"x\"):rep(1e5 + #t)\nend\n".to_owned(),
            "wiki-browser.lua:6:",
        ),
    ] {
        let report = Site::with_head(&lines).load().expect_err(&lines).to_string();
        assert!(report.contains(expected), "{lines}: {report}");
    }
    let input = "inputs = { word = wb.input.line() }, verify = function() return true end";
    let site =
        Site::with_head(&kind(&format!("timeout = \"5m\", prompt = \"a {{word}}\", {input}")));
    let warnings = site.loaded().warnings;
    assert!(warnings.iter().any(|it| it.note.as_deref() == Some("write {{word}}")), "{warnings:?}");
    let site = Site::with_head(
        "wb.engine \"e\" { type = \"process\", command = { \"true\" }, prompt = \"stdin\",
           env = { ANTHROPIC_API_KEY = \"sk-ant-api03-0123456789\" } }\n",
    );
    let found = site.loaded().warnings;
    assert!(found.iter().any(|it| it.code == "secret-literal"), "{found:?}");
}

//! New kinds of work: a block of the script and a skill folder, without any Rust. One program is
//! the agent of all of them: it runs the skill's shell block.

use serde_json::{Value, json};

use super::{persona, view};
use crate::support::{Bench, Call};

/// Reads the name of the skill and the parameter block from the prompt, and runs the skill.
const AGENT: &str = r#"
prompt=$(cat)
skill=$(printf '%s\n' "$prompt" | sed -n 's/^Use the \(.*\) skill\.$/\1/p')
eval "$(printf '%s\n' "$prompt" | grep '^[a-z_]*=')"
eval "$(sed -n '/^```sh$/,/^```$/p' "$BASE/wiki/skills/$skill/SKILL.md" | sed '1d;$d')"
"#;

/// Adds a kind: its inputs in Lua, and what its skill does.
pub(super) fn kind(bench: &Bench, name: &str, fields: &str, inputs: &[(&str, &str)], skill: &str) {
    let folder = bench.top.join("skills").join(name);
    std::fs::create_dir_all(&folder).unwrap();
    let text =
        format!("---\nname: {name}\ndescription: A test\n---\n# {name}\n\n```sh\n{skill}\n```\n");
    std::fs::write(folder.join("SKILL.md"), text).unwrap();
    let declared: Vec<String> = inputs.iter().map(|(it, lua)| format!("{it} = {lua},")).collect();
    let shown: Vec<String> = inputs.iter().map(|(it, _)| format!("{it}='{{{{{it}}}}}'")).collect();
    bench.lua(&format!(
        "wb.kind \"{name}\" {{\n about = \"Does {name}\", engine = \"agent\", timeout = \"30s\",\n \
         skill = \"skills/{name}\", {fields},\n inputs = {{ {} }},\n prompt = [[\nUse the \
         {{{{skill}}}} skill.\n\n{}\nroot='{{{{root}}}}'\nwb_agent='{{{{wb_agent}}}}'\n]],\n}}\n",
        declared.join(" "),
        shown.join("\n")
    ));
}

const TOPIC: (&str, &str) = ("topic", "wb.input.topic()");
pub(super) const BASE: (&str, &str) = ("base", "wb.input.blob { from = \"path\" }");
pub(super) const NEW: (&str, &str) = ("path", "wb.input.source { new = true }");

/// A skill that writes a new document.
const WRITES: &str = "printf '# %s\\n' \"$word\" | \"$wb_agent\" insert-proposal \
    --source-path \"$path\" --base-sha \"$base\" --title \"About $word\" --summary \"Wrote $word\"";

pub(super) fn bench() -> Bench {
    let bench = Bench::new();
    bench.raw_engine("agent", AGENT);
    bench
}

pub(super) fn writes(bench: &Bench) {
    let inputs = [NEW, BASE, ("word", "wb.input.line()")];
    kind(bench, "writes", "produces = \"proposal\", lane = \"path\"", &inputs, WRITES);
}

/// Runs a job of the kind `writes`, which must succeed; returns its proposal.
#[track_caller]
pub(super) fn written(bench: &Bench, path: &str, word: &str) -> Value {
    let job = bench.ended(&bench.job("writes", json!({"path": path, "word": word})));
    assert_eq!(job["status"], "succeeded", "{job:#}");
    let id = job["proposal_id"].as_str().unwrap();
    bench.get(&format!("/api/proposals/{id}")).ok()
}

#[test]
fn a_kind_of_each_sort_is_a_block_of_the_script_and_a_skill() {
    let bench = bench();
    let answers = "\"$wb_agent\" get-topic --id \"$topic\" | grep -q Why || exit 4\n\
        echo 'Because.' | \"$wb_agent\" post-message --topic-id \"$topic\"";
    kind(&bench, "answers", "produces = \"message\"", &[TOPIC], answers);
    let counts = "printf '{\"lines\":%s}' \"$(wc -l < \"$root/$path\")\" | \
        \"$wb_agent\" finish --result - --summary \"Counted for $word\"";
    let inputs = [
        ("path", "wb.input.source()"),
        ("word", "wb.input.choice { choices = { \"all\", \"some\" }, default = \"all\" }"),
    ];
    kind(&bench, "counts", "produces = \"result\"", &inputs, counts);
    let sees = "\"$wb_agent\" get-persona --source-path \"$path\" --name \"$who\" > /dev/null || \
        exit\necho \"# For $who\" | \"$wb_agent\" put-perspective --source-path \"$path\" \
        --persona \"$who\" --source-sha \"$base\" --persona-sha \"$who_sha\"";
    let inputs = [
        ("path", "wb.input.source()"),
        BASE,
        ("who", "wb.input.persona()"),
        ("who_sha", "wb.input.hash { from = \"who\" }"),
    ];
    kind(&bench, "sees", "produces = \"perspective\"", &inputs, sees);
    writes(&bench);
    persona(&bench, "critic", "", "Be strict.");
    assert_eq!(bench.cli(&["check"]).0, 4, "the script is not written yet");
    let server = bench.serve();
    let (code, told, _) = bench.cli(&["check"]);
    assert!(code == 0 && told.contains("answers, counts, sees, writes"), "{told}");

    let topic = bench.topic("guide.md", "The first line.", "Why?");
    let job = bench.ended(&bench.job("answers", json!({"topic": topic.id})));
    assert_eq!(job["status"], "succeeded", "{job:#}");
    let shown = bench.get(&format!("/api/topics/{}", topic.id)).ok();
    assert_eq!(shown["messages"][1]["body"], "Because.\n");
    assert_eq!(shown["messages"][1]["author"], format!("job:{}", job["id"].as_str().unwrap()));

    let job = bench.ended(&bench.job("counts", json!({"path": "guide.md"})));
    assert_eq!((&job["result"], &job["status"]), (&json!({"lines": 5}), &json!("succeeded")));
    assert_eq!(job["summary"], "Counted for all");
    let said = crate::cli::desk::said(&bench, &["job", "show", job["id"].as_str().unwrap()]);
    assert!(said.contains("result      {\"lines\":5}"), "{said}");
    let bad = json!({"kind": "counts", "path": "guide.md", "word": "none"});
    assert_eq!(bench.post("/api/agent/jobs", bad).refusal(), (400, "bad_input"));

    let body = json!({"source_path": "guide.md", "persona": "critic"});
    let asked = bench.post("/api/perspectives/request", body).ok();
    let job = bench.ended(asked["job_id"].as_str().unwrap());
    assert_eq!((&job["status"], &job["kind"]), (&json!("succeeded"), &json!("sees")), "{job:#}");
    assert_eq!(view(&bench, "guide.md", "critic")["body"], "# For critic\n");

    let shown = written(&bench, "new/folder/page.md", "rain");
    assert_eq!(bench.send(&bench.approval(&shown)).status, 200);
    assert_eq!(bench.read("new/folder/page.md"), "# rain\n");
    server.stop();
}

/// What docs/kinds.md tells people to write is what the script takes.
#[test]
fn the_kinds_of_the_document_are_fine() {
    let bench = bench();
    let document = include_str!("../../docs/kinds.md");
    let blocks: Vec<&str> =
        document.split("```lua\n").skip(1).map(|it| it.split("```").next().unwrap()).collect();
    assert_eq!(blocks.len(), 3);
    bench.engine("claude", "exit 1");
    bench.lua(&blocks.join("\n"));
    for name in ["answer", "links", "page"] {
        let folder = bench.top.join("skills").join(name);
        std::fs::create_dir_all(&folder).unwrap();
        let text = format!("---\nname: {name}\ndescription: A test\n---\n# It\n");
        std::fs::write(folder.join("SKILL.md"), text).unwrap();
    }
    let shown = document.split("```markdown\n").nth(1).unwrap().split("```").next().unwrap();
    std::fs::create_dir_all(bench.top.join("agents")).unwrap();
    bench.write("agents/operator.md", shown);
    bench.write_script();
    let (code, told, err) = bench.cli(&["check"]);
    assert!(code == 0 && told.contains("kinds answer, links, page"), "{told}{err}");
}

#[test]
fn a_new_document_is_proposed_in_a_topic_of_its_own_and_made_by_the_approval() {
    let bench = bench();
    writes(&bench);
    let server = bench.serve();
    let shown = written(&bench, "new/folder/page.md", "rain");
    assert_eq!(shown["base_text"], "");
    assert_eq!(shown["proposal"]["base_source_sha"], "0".repeat(40));
    assert_eq!(
        shown["approvable"],
        json!({"ok": true, "code": null, "message": null, "hint": null})
    );
    assert!(shown["diff"].as_str().unwrap().contains("+# rain"), "{shown:#}");
    let topic = &shown["topic"];
    assert_eq!((&topic["is_global"], &topic["title"]), (&json!(true), &json!("About rain")));
    let job = bench.show(shown["proposal"]["job_id"].as_str().unwrap());
    assert_eq!((&job["topic_id"], &job["warnings"]), (&topic["id"], &json!([])));
    assert!(!bench.top.join("new").exists());
    let listed = bench.get("/api/sources").ok();
    assert!(!listed.to_string().contains("page.md"));
    let page = bench.get(&format!("/proposals/{}", shown["proposal"]["id"].as_str().unwrap()));
    assert_eq!(page.status, 200);
    assert_eq!(bench.get(&format!("/topics/{}", topic["id"].as_str().unwrap())).status, 200);

    let commit = bench.send(&bench.approval(&shown)).ok()["commit"].as_str().unwrap().to_owned();
    assert_eq!(bench.read("new/folder/page.md"), "# rain\n");
    // The folders of agents and skills were there before, untracked.
    assert_eq!(bench.status(), "?? skills/");
    assert_eq!(
        bench.git(&["ls-tree", "HEAD", "new/folder/page.md"]).split(' ').next(),
        Some("100644")
    );
    let changed = bench.git(&["show", "--stat=200", "--format=%an%n%B", &commit]);
    assert!(changed.starts_with("Test Agent\nWrote rain\n"), "{changed}");
    for trailer in ["Approved-by: ", &format!("Topic: {}", topic["id"].as_str().unwrap())] {
        assert!(changed.contains(trailer), "{trailer}: {changed}");
    }
    assert!(changed.contains("1 file changed"), "{changed}");
    bench.git(&["fsck", "--strict"]);
    let source = bench.get("/api/source?path=new/folder/page.md").ok();
    assert_eq!(
        (&source["state"], &source["blob"]),
        (&json!("clean"), &shown["proposal"]["proposed_sha"])
    );
    let topic = bench.get(&format!("/api/topics/{}", topic["id"].as_str().unwrap())).ok();
    assert_eq!(topic["topic"]["status"], "incorporated");

    // The same kind on what exists now: an ordinary change, again in a Topic of its own.
    let shown = written(&bench, "new/folder/page.md", "snow");
    assert_eq!(shown["base_text"], "# rain\n");
    assert_eq!(bench.send(&bench.approval(&shown)).status, 200);
    assert_eq!(bench.read("new/folder/page.md"), "# snow\n");
    server.stop();
}

/// Fails with `WB_WITHOUT=new_source`.
#[test]
fn a_document_is_not_made_where_something_is() {
    let bench = bench();
    writes(&bench);
    std::os::unix::fs::symlink("/tmp", bench.top.join("way")).unwrap();
    bench.write("loose.md", "not tracked");
    bench.write("caf\u{e9}.md", "not tracked");
    std::fs::create_dir(bench.top.join("empty")).unwrap();
    bench.write(".gitignore", "data/\nwiki-browser.lua\nskills/\nway\nloose.md\nhidden/\n");
    bench.git(&["commit", "-qam", "ignore"]);
    let server = bench.serve();
    for (path, status, code) in [
        ("../x.md", 400, "bad_path"),
        ("/etc/x.md", 400, "bad_path"),
        (".git/x.md", 400, "bad_path"),
        ("a/.hidden.md", 400, "bad_path"),
        ("new.txt", 404, "not_a_source"),
        ("loose.md", 409, "source_exists"),
        ("way/x.md", 400, "path_is_link"),
        ("guide.md/x.md", 400, "not_a_file"),
        ("docs", 404, "not_a_source"),
        ("Guide.md", 409, "case_clash"),
        ("DOCS/x.md", 409, "case_clash"),
        ("hidden/x.md", 409, "source_ignored"),
        // What git does not track, and folders, stand there as well.
        ("LOOSE.md", 409, "case_clash"),
        ("Empty/x.md", 409, "case_clash"),
        ("cafe\u{301}.md", 409, "case_clash"),
    ] {
        let body = json!({"kind": "writes", "path": path, "word": "x"});
        let asked = bench.post("/api/agent/jobs", body);
        assert_eq!(asked.refusal(), (status, code), "{path}");
    }
    // What appears between the proposal and its approval is not touched.
    type Appears = fn(&Bench);
    let cases: [(&str, Appears, &str); 4] = [
        ("b/one.md", |it| it.write("b/one.md", "theirs"), "source_exists"),
        (
            "b/two.md",
            |it| {
                it.write("b/two.md", "theirs");
                it.git(&["add", "-f", "b/two.md"]);
                it.git(&["commit", "-qm", "two"]);
            },
            "source_exists",
        ),
        (
            "b/three.md",
            |it| {
                it.write("b/THREE.md", "theirs");
                it.git(&["add", "b/THREE.md"]);
                it.git(&["commit", "-qm", "three"]);
            },
            "case_clash",
        ),
        ("b/four.md", |it| std::fs::create_dir(it.top.join("b/four.md")).unwrap(), "source_exists"),
    ];
    for (path, appears, code) in cases {
        let shown = written(&bench, path, "ours");
        std::fs::create_dir_all(bench.top.join("b")).unwrap();
        appears(&bench);
        let (head, status) = (bench.commits(), bench.status());
        assert_eq!(bench.send(&bench.approval(&shown)).refusal(), (409, code), "{path}");
        assert_eq!((bench.commits(), bench.status()), (head, status), "{path}");
        assert_eq!(bench.proposal_status(&shown), "open");
        let theirs = std::fs::read_to_string(bench.top.join(path)).unwrap_or("theirs".to_owned());
        assert_eq!(theirs, "theirs", "{path}");
    }
    server.stop();
}

#[test]
fn a_job_proposes_for_its_own_source_and_leaves_nothing_if_it_fails() {
    let bench = bench();
    writes(&bench);
    let lends = "printf '%s\\n' \"$WB_TOKEN\" > \"$OUT/token\"\n\
        printf '%s\\n' \"$base\" > \"$OUT/base\"\nuntil [ -e \"$OUT/go\" ]; do sleep 0.02; done\n\
        kill -9 $$";
    kind(&bench, "lends", "produces = \"proposal\"", &[NEW, BASE], lends);
    let server = bench.serve();
    let job = bench.job("lends", json!({"path": "new.md"}));
    let base = bench.wait_left("base");
    let token = bench.left("token");
    let send = |body: Value| bench.send(&Call::post("/api/proposals", body).token(&token));
    let body = |path: &str, base: &str, text: &str| -> Value {
        json!({"source_path": path, "base_source_sha": base, "text": text, "title": "T"})
    };
    let long = "x".repeat(401);
    for (sent, status, code) in [
        (body("other.md", &base, "x"), 403, "not_granted"),
        (body("guide.md", &base, "x"), 403, "not_granted"),
        (body("new.md", &"a".repeat(40), "x"), 409, "wrong_base"),
        (body("new.md", &base, " "), 400, "empty_text"),
        (body("new.md", &base, "a\0"), 400, "not_text"),
        (
            json!({"source_path": "new.md", "base_source_sha": base, "text": "x", "title": long}),
            413,
            "too_large",
        ),
    ] {
        assert_eq!(send(sent.clone()).refusal(), (status, code), "{sent}");
    }
    assert_eq!(bench.json(&["topic", "list"])["items"], json!([]));
    // Two proposals of one job are revisions in one Topic.
    let first = send(body("new.md", &base, "# One\n")).ok();
    let second = send(body("new.md", &base, "# Two\n")).ok();
    assert_eq!(first["topic_id"], second["topic_id"]);
    assert_eq!(second["revision_number"], 2);
    let id = second["proposal_id"].as_str().unwrap();
    let shown = bench.get(&format!("/api/proposals/{id}")).ok();
    assert_eq!(bench.send(&bench.approval(&shown)).refusal(), (409, "job_running"));
    std::fs::write(bench.out.join("go"), "").unwrap();
    assert_eq!(bench.ended(&job)["status"], "failed");
    let topic = bench.get(&format!("/api/topics/{}", first["topic_id"].as_str().unwrap())).ok();
    assert_eq!(topic["topic"]["status"], "discarded");
    assert_eq!(topic["proposals"][1]["status"], "void");
    assert_eq!(send(body("new.md", &base, "# Late\n")).refusal(), (409, "job_ended"));
    server.stop();
}

/// Fails with `WB_WITHOUT=approval_recovery`.
#[test]
fn g19_after_a_crash_there_is_one_commit_with_the_new_document_or_nothing() {
    let bench = bench();
    writes(&bench);
    for (number, point) in [
        "approve_built",
        "approve_prepared",
        "create_spare",
        "approve_file",
        "approve_tree",
        "approve_ref",
        "approve_committed",
    ]
    .into_iter()
    .enumerate()
    {
        let path = format!("made{number}/page.md");
        let mut server = bench.serve_with(&[("WB_CRASH_AT", point)]);
        let shown = written(&bench, &path, point);
        let before = bench.commits().len();
        assert!(bench.approval(&shown).try_socket(&bench.socket()).is_none(), "{point}");
        assert!(!server.wait().0.success());
        drop(server);
        let server = bench.serve();
        let status = bench.proposal_status(&shown);
        let made = bench.commits().len() - before;
        let is_there = bench.top.join(&path).exists();
        match status.as_str() {
            "approved" => assert!(made == 1 && is_there, "{point}: {made} {is_there}"),
            "open" => {
                assert!(made == 0 && !is_there, "{point}: {made} {is_there}");
                assert_eq!(bench.send(&bench.approval(&shown)).status, 200, "{point}");
            }
            other => panic!("{point}: {other}"),
        }
        assert_eq!(bench.read(&path), format!("# {point}\n"));
        assert_eq!(bench.status(), "?? skills/", "{point}");
        server.stop();
    }
}

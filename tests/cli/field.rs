//! `--field`: one value of a response; a path that no response has is refused before anything is
//! done.

use serde_json::Value;

use super::{envelope, wiki_browser};
use crate::support::Bench;

/// The commands that do something; `ID` stands for what they are to be done with.
const DOING: [&str; 32] = [
    "job create echoes word=x",
    "job create echoes word=x --wait",
    "job cancel ID",
    "job retry ID",
    "job retry ID --wait",
    "job restore ID",
    "job keep ID",
    "job follow ID",
    "topic create --source guide.md --global --body Hello",
    "topic message ID --body Hello",
    "topic reattach ID --quote Guide",
    "topic discard ID",
    "topic reopen ID",
    "proposal approve ID --yes",
    "proposal reject ID --reason No",
    "proposal rework ID --reason No",
    "proposal edit ID",
    "perspective request guide.md newcomer",
    "perspective request guide.md newcomer --wait",
    "engine release echoes",
    "reload",
    "person add bo",
    "person disable bo",
    "person role bo admin",
    "person edit bo --email bo@example.org",
    "person link bo",
    "token create ci",
    "token revoke ci",
    "backup",
    "cleanup",
    "login",
    "types",
];

/// Returns what a command that should not do anything could have changed.
fn state(bench: &Bench) -> String {
    let lists =
        ["/api/agent/jobs", "/api/topics", "/api/proposals", "/api/persons", "/api/backups"];
    let mut state: Vec<String> = lists.iter().map(|it| bench.get(it).ok().to_string()).collect();
    let tokens = bench.get("/api/tokens").ok()["items"].as_array().unwrap().len();
    state.push(format!("{tokens} {} {}", bench.commits().len(), bench.status()));
    state.push(bench.get("/api/config").ok()["script"]["generation"].to_string());
    let names = bench.top.read_dir_utf8().unwrap();
    let mut names: Vec<String> = names.map(|it| it.unwrap().file_name().to_owned()).collect();
    names.sort();
    state.push(names.join(" "));
    state.join("\n")
}

#[test]
fn a_field_that_no_answer_has_is_refused_before_anything_is_done() {
    let bench = Bench::new();
    bench.word_kind("echoes", "timeout = \"20s\"", "exit 0");
    let fields = "timeout = \"20s\", produces = \"proposal\"";
    bench.topic_kind("better", fields, "sed -e 's/first/best/' \"$root/$path\" | propose");
    let server = bench.serve();
    let topic = bench.topic("guide.md", "The first line.", "Say it better.");
    let proposal = bench.proposal("better", &topic);
    let job = bench.ended(&bench.job("echoes", serde_json::json!({})));
    let before = state(&bench);
    for command in DOING {
        let id = match command.split(' ').next() {
            Some("topic") => &topic.id,
            Some("proposal") => proposal["proposal"]["id"].as_str().unwrap(),
            _ => job["id"].as_str().unwrap(),
        };
        let args: Vec<&str> =
            command.split(' ').map(|it| if it == "ID" { id } else { it }).collect();
        let (code, out, err) = bench.cli(&[&args[..], &["--field", "nope"]].concat());
        assert_eq!((code, out.as_str()), (2, ""), "{command}: {err}");
        assert!(err.contains("the answer has no field `nope`\nhint: "), "{command}: {err}");
    }
    assert_eq!(state(&bench), before);
    // What was probably meant, and what is right.
    let (_, _, err) = bench.cli(&["job", "create", "echoes", "--wait", "--field", "job_id"]);
    assert!(err.contains("did you mean `id`?"), "{err}");
    let (_, _, err) = bench.cli(&["proposal", "list", "--field", "items.0.stauts"]);
    assert!(err.contains("did you mean `status`?"), "{err}");
    assert_eq!(state(&bench), before);
    // A new job has its id as all that is made has, and by the name of old.
    for field in ["id", "job_id"] {
        let (code, out, err) = bench.cli(&["job", "create", "echoes", "--field", field]);
        assert_eq!((code, out.trim().len()), (0, 36), "{err}");
    }
    server.stop();
}

/// A debug build looks itself whether an answer has fields that `--field` would refuse.
#[test]
fn every_field_of_an_answer_can_be_asked_for() {
    let bench = Bench::new();
    bench.word_kind("echoes", "timeout = \"20s\"", "exit 0");
    let fields = "timeout = \"20s\", produces = \"proposal\"";
    bench.topic_kind("better", fields, "sed -e 's/first/best/' \"$root/$path\" | propose");
    let touch = format!("echo more >> {}", bench.top.join("notes.md"));
    bench.word_kind("edits", "timeout = \"20s\"", &touch);
    let server = bench.serve();
    let done = |line: &str| bench.json(&line.split(' ').collect::<Vec<_>>());
    let id = |it: &Value| it["id"].as_str().unwrap().to_owned();
    let ended = id(&done("job create echoes word=x --wait"));
    done(&format!("job follow {ended}"));
    let again = done(&format!("job retry {ended} --not-before 1h"));
    done(&format!("job cancel {}", again["job_id"].as_str().unwrap()));
    let edits = id(&done("job create edits --wait"));
    done(&format!("job restore {edits} --dry-run"));
    done(&format!("job restore {edits}"));
    done(&format!("job keep {}", id(&done("job create edits --wait"))));
    let topic = id(&done("topic create --source guide.md --quote first --body Better"));
    done("topic create --source guide.md --global --body Hello");
    done(&format!("topic message {topic} --body Hello"));
    done(&format!("topic reattach {topic} --quote second"));
    done(&format!("topic discard {topic}"));
    done(&format!("topic reopen {topic}"));
    let proposed = || {
        let job = done(&format!("job create better topic_id={topic} --wait"));
        job["proposal_id"].as_str().unwrap().to_owned()
    };
    let also_open = done(&format!("job create better topic_id={topic} --not-before 1h"));
    assert_eq!(also_open["also_open"]["topic_count"], 1);
    done(&format!("job cancel {}", also_open["job_id"].as_str().unwrap()));
    done(&format!("proposal reject {} --reason No", proposed()));
    let second = proposed();
    let rework = done(&format!("proposal rework {second} --reason No"));
    bench.ended(rework["job_id"].as_str().unwrap());
    let open = bench.get("/api/proposals?status=open").ok()["items"][0].clone();
    done(&format!("proposal approve {} --yes", id(&open)));
    done("reload");
    bench.write("wiki-browser.lua", "wrong(");
    let (code, out, _) = bench.cli(&["reload", "--json"]);
    assert_eq!((code, out.contains("\"ok\": false")), (1, true), "{out}");
    bench.write_script();
    for line in ["person add bo", "person disable bo", "person enable bo", "person link bo"] {
        done(line);
    }
    done("person role bo viewer");
    done("token create ci");
    done("token revoke ci");
    for line in ["backup", "cleanup", "cleanup --dry-run", "login", "types", "new persona reader"] {
        done(line);
    }
    done("new kind answer --produces message --engine better");
    server.stop();
}

#[test]
fn a_new_site_is_not_made_for_a_field_that_its_answer_has_not() {
    let folder = tempfile::tempdir().unwrap();
    crate::support::git(camino::Utf8Path::from_path(folder.path()).unwrap(), &["init", "-q"]);
    let args = ["init", "--field", "folders"];
    let output = wiki_browser(folder.path()).args(args).assert().code(2).get_output().clone();
    let told = String::from_utf8(output.stderr).unwrap();
    assert!(told.contains("did you mean `folder`?"), "{told}");
    assert_eq!(folder.path().read_dir().unwrap().count(), 1);
    wiki_browser(folder.path()).args(["init", "--json"]).assert().success();
    // An error of another sort stays an envelope with --json.
    let output = wiki_browser(folder.path()).args(["init", "--json"]).assert().code(5);
    assert!(envelope(&output.get_output().stderr)["code"].is_string());
}

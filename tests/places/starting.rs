//! Jobs that start, or run, while the names of their documents are handed on.

use camino::Utf8PathBuf;
use serde_json::{Value, json};

use super::{events, ready};
use crate::perspectives::{MAKES, perspective_kind};
use crate::support::{Answer, Bench, Call, Server, shell, until};

/// Declares a kind on a document whose job leaves what it was told.
fn declare(bench: &Bench) {
    bench.engine("reads", "echo \"$path $base\" > \"$OUT/$job\"");
    bench.lua(
        "wb.kind \"reads\" { about = \"A test\", engine = \"reads\", timeout = \"20s\",\n\
         lane = \"path\", prompt = \"job={{job_id}}\\npath={{path}}\\nbase={{base}}\\n\",\n\
         inputs = { path = wb.input.source(), base = wb.input.blob { from = \"path\" } } }\n",
    );
}

/// Declares a kind whose job lends its token.
fn lend(bench: &Bench, kind: &str, fields: &str) {
    let lends = "printf '%s\\n' \"$WB_TOKEN\" > \"$OUT/token.$job\"\n\
                 until [ -e \"$OUT/end\" ]; do sleep 0.02; done";
    bench.engine(kind, lends);
    bench.lua(&format!(
        "wb.kind \"{kind}\" {{ about = \"A test\", engine = \"{kind}\", timeout = \"10m\",\n\
         produces = \"topic\", prompt = \"job={{{{job_id}}}}\\n\", {fields} }}\n"
    ));
}

/// Starts such a job; returns it with its token.
fn lent(bench: &Bench, kind: &str, inputs: Value) -> (String, String) {
    let job = bench.job(kind, inputs);
    let token = bench.wait_left(&format!("token.{job}"));
    (job, token)
}

fn open(bench: &Bench, token: &str, path: &str, selection: Option<Value>) -> Answer {
    let mut body = json!({"source_path": path, "body": "Look at this"});
    match selection {
        Some(selection) => body["selection"] = selection,
        None => body["global"] = json!(true),
    }
    bench.send(&Call::post("/api/topics", body).token(token))
}

/// Gives documents other names in one commit, and waits until that was seen.
fn handed(bench: &Bench, moves: &[(&str, &str)]) {
    for (from, to) in moves {
        bench.git(&["mv", from, to]);
    }
    bench.git(&["commit", "-q", "-m", "other names"]);
    seen(bench);
}

fn seen(bench: &Bench) {
    let head = bench.git(&["rev-parse", "HEAD"]);
    until("it is seen", || events(bench, "source_renamed").iter().any(|it| it["commit"] == *head));
}

const SWAP: &[(&str, &str)] =
    &[("guide.md", "x.md"), ("notes.md", "guide.md"), ("x.md", "notes.md")];

#[test]
fn a_running_job_opens_topics_on_its_own_document() {
    let bench = Bench::new();
    lend(&bench, "reviews", "inputs = { path = wb.input.source() }");
    let server = bench.serve();
    ready(&bench);
    let (job, token) = lent(&bench, "reviews", json!({"path": "guide.md"}));
    let on = |answer: Answer| answer.ok()["source_path"].as_str().unwrap().to_owned();
    let quote = |quote: &str| Some(json!({"quote": quote}));
    assert_eq!(on(open(&bench, &token, "guide.md", None)), "guide.md");
    handed(&bench, SWAP);
    assert_eq!(on(open(&bench, &token, "guide.md", None)), "notes.md");
    assert_eq!(on(open(&bench, &token, "guide.md", quote("The second line."))), "notes.md");
    let listed = Call::get("/api/agent/open-topics?source_path=guide.md").token(&token);
    let listed = bench.send(&listed).ok();
    assert_eq!(listed.as_array().unwrap().len(), 3, "{listed:#}");
    // Only the version tells that it means the other one.
    let other = open(&bench, &token, "guide.md", quote("Keep this."));
    assert_eq!(other.refusal(), (400, "quote_not_found"));
    let blob = bench.git(&["hash-object", "guide.md"]);
    let named = json!({"quote": "Keep this.", "blob": blob});
    assert_eq!(on(open(&bench, &token, "guide.md", Some(named))), "guide.md");
    // It knows one name, whatever it is by now.
    handed(&bench, &[("notes.md", "c.md")]);
    assert_eq!(on(open(&bench, &token, "guide.md", None)), "c.md");
    assert_eq!(open(&bench, &token, "c.md", None).refusal(), (403, "not_granted"));
    bench.git(&["rm", "-q", "c.md"]);
    bench.git(&["commit", "-q", "-m", "no more"]);
    handed(&bench, &[("guide.md", "c.md")]);
    assert_eq!(open(&bench, &token, "guide.md", None).refusal(), (409, "source_gone"));
    std::fs::write(bench.out.join("end"), "").unwrap();
    assert_eq!(bench.ended(&job)["status"], "succeeded");
    server.stop();
}

/// It may have read a name before that was handed on, or after.
#[test]
fn a_running_job_on_the_whole_site_opens_no_topic_on_the_wrong_document() {
    let bench = Bench::new();
    lend(&bench, "roams", "sees = \"site\", inputs = {}");
    let server = bench.serve();
    ready(&bench);
    let (job, token) = lent(&bench, "roams", json!({}));
    handed(&bench, SWAP);
    assert_eq!(open(&bench, &token, "guide.md", None).refusal(), (409, "source_gone"));
    let blob = bench.git(&["hash-object", "guide.md"]);
    let named = json!({"quote": "Keep this.", "blob": blob});
    open(&bench, &token, "guide.md", Some(named)).ok();
    handed(&bench, &[("docs/deep.md", "docs/new.md")]);
    for name in ["docs/deep.md", "docs/new.md"] {
        let opened = open(&bench, &token, name, None).ok();
        assert_eq!(opened["source_path"], "docs/new.md");
    }
    std::fs::write(bench.out.join("end"), "").unwrap();
    assert_eq!(bench.ended(&job)["status"], "succeeded");
    server.stop();
}

/// Starts a server that stops at these steps while its gate is there, and waits until it has
/// claimed a job on `guide.md`.
#[cfg(feature = "faults")]
fn claimed(bench: &Bench, steps: &str) -> (Server, Utf8PathBuf, String) {
    declare(bench);
    let gate = bench.base.join("gate");
    let server = bench.serve_with(&[("WB_FAIL_AT", steps), ("WB_CRASH_WHEN", gate.as_str())]);
    ready(bench);
    std::fs::write(&gate, "").unwrap();
    let job = bench.job("reads", json!({"path": "guide.md"}));
    until("it is claimed", || std::fs::read_to_string(&gate).unwrap() == "after_claim");
    (server, gate, job)
}

/// Between the claim of a job and the versions of its documents, with or without a look.
#[test]
#[cfg(feature = "faults")]
fn a_job_that_starts_while_names_are_handed_on_works_on_its_own_document() {
    for is_seen in [true, false] {
        let bench = Bench::new();
        let guide = bench.git(&["hash-object", "guide.md"]);
        let steps = if is_seen { "after_claim" } else { "after_claim,before_look" };
        let (server, gate, job) = claimed(&bench, steps);
        bench.git(&["mv", "guide.md", "old.md"]);
        bench.git(&["mv", "notes.md", "guide.md"]);
        bench.git(&["commit", "-q", "-m", "handed on"]);
        if is_seen {
            seen(&bench);
        }
        std::fs::remove_file(&gate).unwrap();
        assert_eq!(bench.ended(&job)["lane"], "path=old.md");
        assert_eq!(bench.left(&job).trim(), format!("old.md {guide}"), "{is_seen}");
        server.stop();
    }
}

#[test]
#[cfg(feature = "faults")]
fn a_job_whose_document_goes_while_it_starts_never_works_on_another_one() {
    let bench = Bench::new();
    let (server, gate, job) = claimed(&bench, "after_claim");
    bench.git(&["rm", "-q", "guide.md"]);
    bench.git(&["commit", "-q", "-m", "no more"]);
    handed(&bench, &[("notes.md", "guide.md")]);
    std::fs::remove_file(&gate).unwrap();
    bench.wait_status(&job, "queued");
    assert_eq!(bench.show(&job)["waiting"]["code"], "kind_changed");
    assert!(!bench.out.join(&job).exists());
    server.stop();
}

#[test]
#[cfg(feature = "faults")]
fn a_job_that_starts_while_the_repository_cannot_be_read_waits_until_it_can() {
    let bench = Bench::new();
    let (server, gate, job) = claimed(&bench, "after_claim");
    let other = bench.job("reads", json!({"path": "notes.md"}));
    let config = bench.read(".git/config");
    bench.write(".git/config", format!("{config}[core\n"));
    std::fs::remove_file(&gate).unwrap();
    for job in [&job, &other] {
        until("it waits", || bench.show(job)["waiting"]["code"] == "unseen");
    }
    bench.write(".git/config", config);
    for job in [&job, &other] {
        assert_eq!(bench.ended(job)["status"], "succeeded");
    }
    server.stop();
}

#[test]
fn a_look_that_cannot_tell_what_was_renamed_is_repeated() {
    let bench = Bench::new();
    let (bin, broken) = (bench.base.join("bin"), bench.base.join("broken"));
    std::fs::create_dir(&bin).unwrap();
    let program = format!(
        "#!/bin/sh\ncase \" $* \" in *--find-renames=*) [ -e '{broken}' ] && exit 128;; esac\n\
         exec /usr/bin/git \"$@\"\n"
    );
    std::fs::write(bin.join("git"), program).unwrap();
    shell(&format!("chmod +x '{bin}/git'"));
    let path = format!("{bin}:/usr/local/bin:/usr/bin:/bin");
    let server = bench.serve_with(&[("PATH", &path)]);
    ready(&bench);
    let topic = bench.topic("guide.md", "The second line.", "x");
    std::fs::write(&broken, "").unwrap();
    bench.git(&["mv", "guide.md", "old.md"]);
    bench.git(&["commit", "-q", "-m", "a better name"]);
    until("a look fails", || server.log().contains("the repository cannot be read"));
    std::fs::remove_file(&broken).unwrap();
    seen(&bench);
    let shown = bench.get(&format!("/api/topics/{}", topic.id)).ok();
    assert_eq!(shown["topic"]["source_path"], "old.md");
    server.stop();
}

/// Right after the commit that renames its document.
#[test]
fn a_job_is_repeated_under_a_name_that_was_not_seen_yet() {
    let bench = Bench::new();
    declare(&bench);
    let server = bench.serve();
    ready(&bench);
    let job = bench.job("reads", json!({"path": "guide.md"}));
    bench.ended(&job);
    bench.git(&["mv", "guide.md", "c.md"]);
    bench.git(&["commit", "-q", "-m", "a better name"]);
    let again = bench.post(&format!("/api/agent/jobs/{job}/retry"), json!({})).ok();
    let again = bench.ended(again["job_id"].as_str().unwrap());
    assert_eq!((&again["status"], &again["inputs"]["path"]), (&json!("succeeded"), &json!("c.md")));
    server.stop();
}

/// Right after the commit that hands its name on.
#[test]
fn a_view_is_of_the_document_that_has_the_name() {
    let bench = Bench::new();
    perspective_kind(&bench, MAKES);
    let server = bench.serve();
    ready(&bench);
    bench.git(&["mv", "guide.md", "old.md"]);
    bench.git(&["mv", "notes.md", "guide.md"]);
    bench.git(&["commit", "-q", "-m", "handed on"]);
    let body = json!({"source_path": "guide.md", "persona": "critic"});
    let asked = bench.post("/api/perspectives/request", body).ok();
    let job = bench.ended(asked["job_id"].as_str().unwrap());
    assert_eq!((&job["status"], &job["source_path"]), (&json!("succeeded"), &json!("guide.md")));
    server.stop();
}

/// A branch that is left while an approval looks at the repository once more.
#[test]
#[cfg(feature = "faults")]
fn an_approval_commits_to_no_branch_that_was_left() {
    let bench = Bench::new();
    let propose = "sed 's/first/1st/' \"$root/guide.md\" | propose";
    bench.topic_kind("rewrite", "produces = \"proposal\", timeout = \"20s\"", propose);
    let gate = bench.base.join("gate");
    let env = [("WB_FAIL_AT", "approve_looked"), ("WB_CRASH_WHEN", gate.as_str())];
    let server = bench.serve_with(&env);
    let topic = bench.topic("guide.md", "The first line.", "x");
    let approval = bench.approval(&bench.proposal("rewrite", &topic));
    bench.git(&["branch", "other"]);
    let before = bench.git(&["rev-parse", "main"]);
    std::fs::write(&gate, "").unwrap();
    let socket = bench.socket();
    let asked = std::thread::spawn(move || approval.try_socket(&socket).unwrap());
    until("it has looked", || std::fs::read_to_string(&gate).unwrap() == "approve_looked");
    bench.git(&["symbolic-ref", "HEAD", "refs/heads/other"]);
    std::fs::remove_file(&gate).unwrap();
    assert_eq!(asked.join().unwrap().refusal(), (409, "stale_base"));
    assert_eq!(bench.git(&["rev-parse", "main"]), before);
    assert_eq!(bench.status(), "");
    server.stop();
}

//! The globs of the site are edited while jobs and proposals wait.

use serde_json::{Value, json};

use crate::perspectives::persona;
use crate::support::{Bench, Server};

const FIELDS: &str = "timeout = \"20s\", produces = \"proposal\"";
const AGENT: &str = "sed 's/first/better/' \"$root/$path\" | propose";
const NARROW: (&str, &str) = ("\"**/*.md\"", "\"notes.md\"");

/// A site where a job on a document waits for its time, and a proposal for its approval; returns
/// the job and the proposal.
fn waiting(bench: &Bench) -> (Server, String, Value) {
    bench.topic_kind("better", FIELDS, AGENT);
    bench.engine("edit", "echo \"$path\" >> \"$OUT/done\"");
    bench.lua(
        "wb.kind \"edit\" { about = \"A test\", engine = \"edit\", timeout = \"20s\",\n\
         inputs = { source_path = wb.input.source() }, prompt = \"path={{source_path}}\" }\n",
    );
    let server = bench.serve();
    let topic = bench.topic("guide.md", "first", "Better?");
    let shown = bench.proposal("better", &topic);
    let later = json!({"source_path": "guide.md", "not_before": "2099-01-01T00:00:00Z"});
    let job = bench.job("edit", later);
    (server, job, shown)
}

/// Writes the script with fewer documents, or with all of them again.
fn rewrite(bench: &Bench, (from, to): (&str, &str)) {
    let script = bench.read("wiki-browser.lua");
    assert!(script.contains(from), "{script}");
    bench.write("wiki-browser.lua", script.replace(from, to));
}

/// Starts a server with the script as it is.
fn restart(bench: &Bench, server: Server) -> Server {
    server.stop();
    Server::spawn(bench, &[]).ready()
}

#[test]
fn jobs_on_documents_that_a_start_no_longer_finds_named_wait_until_they_are() {
    let bench = Bench::new();
    let (server, job, shown) = waiting(&bench);
    rewrite(&bench, NARROW);
    let (code, out, err) = bench.cli(&["reload"]);
    let said = format!("{out}{err}");
    assert_eq!(code, 1, "{said}");
    for words in [
        "1 job of kind \"edit\" waits: `sources` of wb.site does not name guide.md",
        "keep `sources` until these jobs have ended",
        "after a restart, 1 open proposal cannot be approved: `sources` of wb.site no longer \
         names guide.md",
    ] {
        assert!(said.contains(words), "{words}: {said}");
    }
    let why = "`sources` of wb.site does not name guide.md";
    assert!(bench.cli(&["doctor"]).1.contains(why));
    // A start refuses no script.
    let server = restart(&bench, server);
    let shows = |status: &str, code: &str| {
        let it = bench.show(&job);
        assert_eq!((&it["status"], &it["waiting"]["code"]), (&json!(status), &json!(code)));
        it["waiting"]["message"].as_str().unwrap().to_owned()
    };
    let waiting = shows("queued", "kind_changed");
    let way_back = "change that back and restart the server";
    assert!(waiting.contains(why) && waiting.contains(way_back), "{waiting}");
    assert!(bench.cli(&["doctor"]).1.contains(why));
    let refused = bench.send(&bench.approval(&shown));
    assert_eq!(refused.refusal(), (409, "source_gone"));
    let hint = refused.body["error"]["hint"].as_str().unwrap();
    assert!(hint.contains("`sources` no longer names it"), "{hint}");
    // They waited before, and another edit of their kind does not let them go.
    rewrite(&bench, ("\"A test\", engine = \"edit\"", "\"Another\", engine = \"edit\""));
    rewrite(
        &bench,
        ("wb.input.source() }", "wb.input.source(), n = wb.input.line { default = \"\" } }"),
    );
    assert_eq!(bench.json(&["reload"])["ok"], true);
    shows("queued", "kind_changed");
    rewrite(&bench, (NARROW.1, NARROW.0));
    let server = restart(&bench, server);
    shows("queued", "not_before");
    bench.send(&bench.approval(&shown)).ok();
    server.stop();
}

#[test]
fn jobs_whose_persona_is_gone_wait_until_it_is_back() {
    let bench = Bench::new();
    bench.engine("look", "echo \"$who\" >> \"$OUT/done\"");
    bench.lua(
        "wb.kind \"look\" { about = \"A test\", engine = \"look\", timeout = \"20s\",\n\
         inputs = { who = wb.input.persona() }, prompt = \"who={{who}}\" }\n",
    );
    persona(&bench, "busy", "about: x", "You are busy.");
    let server = bench.serve();
    let job = bench.job("look", json!({"who": "busy", "not_before": "2099-01-01T00:00:00Z"}));
    let (file, away) = (bench.top.join("agents/busy.md"), bench.out.join("busy.md"));
    std::fs::rename(&file, &away).unwrap();
    let (code, out, err) = bench.cli(&["reload"]);
    let said = format!("{out}{err}");
    let why = "there is no persona busy any more";
    assert_eq!((code, said.contains(&format!("waits: {why}"))), (1, true), "{said}");
    assert!(bench.cli(&["doctor"]).1.contains(why));
    let server = restart(&bench, server);
    let code = || bench.show(&job)["waiting"]["code"].clone();
    assert_eq!(code(), "kind_changed");
    assert!(server.log().contains(why) && bench.cli(&["status"]).1.contains(why));
    assert!(bench.json(&["reload"])["warnings"].to_string().contains(why));
    assert_eq!(code(), "kind_changed");
    std::fs::rename(&away, &file).unwrap();
    assert_eq!(bench.json(&["reload"])["ok"], true);
    assert_eq!(code(), "not_before");
    std::fs::remove_file(&file).unwrap();
    assert_eq!(bench.json(&["reload", "--drop"])["ok"], true);
    assert_eq!(bench.show(&job)["status"], "cancelled");
    server.stop();
}

#[test]
fn a_reload_with_fewer_documents_drops_their_jobs_only_on_request() {
    let bench = Bench::new();
    let (server, job, _) = waiting(&bench);
    rewrite(&bench, NARROW);
    let dry = bench.post("/api/config/reload", json!({"dry_run": true})).ok();
    assert_eq!((&dry["ok"], &dry["lost"][0]["jobs"]), (&json!(false), &json!(1)), "{dry:#}");
    assert_eq!(bench.json(&["reload", "--drop"])["ok"], true);
    assert_eq!(bench.show(&job)["status"], "cancelled");
    server.stop();
}

/// Its start would refuse it; a persona is no part of the script, but is asked for with it.
#[test]
fn jobs_wait_for_a_persona_that_is_broken_or_no_longer_for_their_document() {
    let bench = Bench::new();
    bench.engine("look", "echo \"$who\" >> \"$OUT/done\"");
    bench.lua(
        "wb.kind \"look\" { about = \"A test\", engine = \"look\", timeout = \"20s\",\n\
         inputs = { path = wb.input.source(), who = wb.input.persona() },\n\
         prompt = \"path={{path}}\\nwho={{who}}\" }\n",
    );
    let good = || persona(&bench, "busy", "about: x", "You are busy.");
    good();
    let mut server = bench.serve();
    let later = "2099-01-01T00:00:00Z";
    let job = bench.job("look", json!({"path": "guide.md", "who": "busy", "not_before": later}));
    let code = || bench.show(&job)["waiting"]["code"].clone();
    for (front, why) in [
        ("paths: [\"docs/**\"]", "the persona busy is not for guide.md"),
        ("abou: x", "a persona has no field `abou`"),
    ] {
        persona(&bench, "busy", front, "You are busy.");
        let (refused, out, err) = bench.cli(&["reload"]);
        assert_eq!((refused, format!("{out}{err}").contains(why)), (1, true), "{out}{err}");
        let doctor = bench.cli(&["doctor"]).1;
        assert!(doctor.contains("can no longer run it") && doctor.contains(why), "{doctor}");
        server = restart(&bench, server);
        assert_eq!(code(), "kind_changed", "{front}");
        assert!(server.log().contains(why) && bench.cli(&["status"]).1.contains(why), "{front}");
        good();
        assert_eq!(bench.json(&["reload"])["ok"], true);
        assert_eq!(code(), "not_before", "{front}");
    }
    server.stop();
}

#[test]
fn jobs_on_new_documents_wait_until_their_kind_takes_new_ones_again() {
    let bench = Bench::new();
    bench.engine("edit", "echo \"$path\" >> \"$OUT/done\"");
    bench.lua(
        "wb.kind \"edit\" { about = \"A test\", engine = \"edit\", timeout = \"20s\",\n\
         produces = \"proposal\", prompt = \"path={{source_path}}\\nbase={{base}}\",\n\
         inputs = { source_path = wb.input.source { new = true },\n\
         base = wb.input.blob { from = \"source_path\" } } }\n",
    );
    let mut server = bench.serve();
    bench.wait_indexed();
    let wait = |path: &str| {
        bench.job("edit", json!({"source_path": path, "not_before": "2099-01-01T00:00:00Z"}))
    };
    let (new, there) = (wait("later.md"), wait("guide.md"));
    let code = |job: &str| bench.show(job)["waiting"]["code"].clone();
    let change = ("wb.input.source { new = true }", "wb.input.source()");
    rewrite(&bench, change);
    let (refused, out, err) = bench.cli(&["reload"]);
    let said = format!("{out}{err}");
    let why = "later.md is not there, and `source_path` takes no new document";
    let words = format!("1 job of kind \"edit\" waits: {why}");
    assert_eq!((refused, said.contains(&words)), (1, true), "{said}");
    assert!(said.contains("keep `new = true` until these jobs have ended"), "{said}");
    assert!(bench.cli(&["doctor"]).1.contains(why));
    server = restart(&bench, server);
    assert!(server.log().contains(why), "{}", server.log());
    assert_eq!([&new, &there].map(|it| code(it)), ["kind_changed", "not_before"]);
    // Another edit does not let it go.
    rewrite(&bench, ("\"A test\", engine = \"edit\"", "\"Another\", engine = \"edit\""));
    assert_eq!(bench.json(&["reload"])["ok"], true);
    assert_eq!(code(&new), "kind_changed");
    rewrite(&bench, (change.1, change.0));
    assert_eq!(bench.json(&["reload"])["ok"], true);
    assert_eq!(code(&new), "not_before");
    server.stop();
}

//! Perspectives on the real server: generated once, stored by version, stale after a change; and
//! kinds that are only a script block and a skill folder.

mod again;
mod hostile;
mod kinds;

use std::collections::HashSet;
use std::path::Path;

use rusqlite::{Connection, OpenFlags};
use serde_json::{Value, json};

use crate::pages::Browser;
use crate::support::{Bench, Call, until};

/// What stands before every agent of these tests: it hands in what it reads as the job's view.
const VIEW: &str = r#"view() {
"$wb_agent" put-perspective --source-path "$path" --persona "$persona" \
  --source-sha "$source_sha" --persona-sha "$persona_sha"
}
"#;
/// An agent that reads the persona and writes the view of the Source.
pub(crate) const MAKES: &str = r##"
"$wb_agent" get-persona --source-path "$path" --name "$persona" > "$OUT/persona.$job" || exit
{ echo "# As $persona sees it"; cat "$root/$path"; } | view
"##;

/// Declares the kind `perspective` with a shell script as its agent, and a persona `critic`.
pub(crate) fn perspective_kind(bench: &Bench, agent: &str) {
    bench.engine("views", &format!("{VIEW}{agent}"));
    bench.lua(include_str!("../data/perspective.lua"));
    persona(bench, "critic", "about: Reads closely", "Be strict.");
}

/// Writes a persona.
pub(crate) fn persona(bench: &Bench, name: &str, front: &str, body: &str) {
    std::fs::create_dir_all(bench.top.join("agents")).unwrap();
    bench.write(&format!("agents/{name}.md"), format!("---\nname: {name}\n{front}\n---\n{body}\n"));
}

fn asked(bench: &Bench, path: &str, persona: &str) -> Value {
    let body = json!({"source_path": path, "persona": persona});
    bench.post("/api/perspectives/request", body).ok()
}

/// Asks for a view and waits for the job that makes it.
#[track_caller]
pub(crate) fn made(bench: &Bench, path: &str, persona: &str) -> Value {
    let asked = asked(bench, path, persona);
    let job = bench.ended(asked["job_id"].as_str().unwrap());
    assert_eq!(job["status"], "succeeded", "{job:#}");
    job
}

/// Asks for the same view several times at the same moment; returns the jobs that were told.
fn asked_at_once(bench: &Bench, path: &str, times: usize) -> HashSet<Value> {
    let body = json!({"source_path": path, "persona": "critic"});
    let call = Call::post("/api/perspectives/request", body).token(&bench.operator());
    let socket = bench.socket();
    let ask = || call.try_socket(&socket).unwrap().ok()["job_id"].clone();
    std::thread::scope(|scope| {
        let asking: Vec<_> = (0..times).map(|_| scope.spawn(ask)).collect();
        asking.into_iter().map(|it| it.join().unwrap()).collect()
    })
}

fn view(bench: &Bench, path: &str, persona: &str) -> Value {
    bench.get(&format!("/api/perspective?source_path={path}&persona={persona}")).ok()
}

/// Returns persona, state and what has changed of each view of a Source.
fn states(bench: &Bench, path: &str) -> Vec<(String, String, Value)> {
    let listed = bench.get(&format!("/api/perspectives?source_path={path}")).ok();
    let word = |it: &Value| it.as_str().unwrap().to_owned();
    let rows = listed["items"].as_array().unwrap().iter();
    rows.map(|it| (word(&it["persona"]), word(&it["state"]), it["changed"].clone())).collect()
}

fn stored(bench: &Bench) -> i64 {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY;
    let connection = Connection::open_with_flags(bench.data.join("wiki.db"), flags).unwrap();
    connection.query_row("SELECT COUNT(*) FROM perspectives", [], |row| row.get(0)).unwrap()
}

/// Fails with `WB_WITHOUT=one_view`.
#[test]
fn a_view_is_made_once_and_kept_for_its_versions() {
    let bench = Bench::new();
    let waits = "until [ -e \"$OUT/go\" ]; do sleep 0.02; done";
    perspective_kind(&bench, &format!("{waits}\n{MAKES}"));
    persona(&bench, "deep", "paths: [\"docs/**\"]", "Read deeply.");
    let server = bench.serve();
    let row = |state: &str, changed: Value| vec![("critic".to_owned(), state.to_owned(), changed)];
    assert_eq!(states(&bench, "guide.md"), row("none", json!([])));
    assert_eq!(states(&bench, "docs/deep.md").len(), 2);

    // However often and at whatever moment it is asked for: one job.
    let first = asked(&bench, "guide.md", "critic");
    assert_eq!((&first["is_new"], &first["perspective"]["state"]), (&json!(true), &json!("none")));
    assert_eq!(first["perspective"]["making"], first["job_id"]);
    assert_eq!(asked_at_once(&bench, "guide.md", 8), [first["job_id"].clone()].into());
    std::fs::write(bench.out.join("go"), "").unwrap();
    let job = bench.ended(first["job_id"].as_str().unwrap());
    assert_eq!(job["status"], "succeeded", "{job:#}");
    let read: Value =
        serde_json::from_str(&bench.left(&format!("persona.{}", job["id"].as_str().unwrap())))
            .unwrap();
    assert_eq!((&read["body"], &read["about"]), (&json!("Be strict.\n"), &json!("Reads closely")));
    let text = "# As critic sees it\n# Guide\n\nThe first line.\n\nThe second line.\n";
    let shown = view(&bench, "guide.md", "critic");
    assert_eq!((&shown["body"], &shown["state"]), (&json!(text), &json!("fresh")));
    assert_eq!((&shown["job_id"], &shown["persona_sha"]), (&job["id"], &read["sha"]));
    let kept = asked(&bench, "guide.md", "critic");
    assert_eq!((&kept["job_id"], &kept["perspective"]["state"]), (&json!(null), &json!("fresh")));

    // The Source changes, without a commit; what there is stays readable until there is a new one.
    bench.write("guide.md", "# Guide\n\nAnother line.\n");
    assert_eq!(states(&bench, "guide.md"), row("stale", json!(["source"])));
    assert_eq!(view(&bench, "guide.md", "critic")["body"], text);
    let jobs = asked_at_once(&bench, "guide.md", 8);
    assert_eq!(jobs.len(), 1, "{jobs:?}");
    assert_eq!(bench.ended(jobs.iter().next().unwrap().as_str().unwrap())["status"], "succeeded");
    assert_eq!(states(&bench, "guide.md"), row("fresh", json!([])));
    // The persona changes, too.
    persona(&bench, "critic", "", "Be kind.");
    assert_eq!(states(&bench, "guide.md"), row("stale", json!(["persona"])));
    // What was there before comes back, and its view with it.
    persona(&bench, "critic", "about: Reads closely", "Be strict.");
    bench.git(&["checkout", "-q", "guide.md"]);
    assert_eq!(view(&bench, "guide.md", "critic")["job_id"], job["id"]);
    assert_eq!(states(&bench, "guide.md"), row("fresh", json!([])));
    std::fs::remove_file(bench.top.join("agents/critic.md")).unwrap();
    assert_eq!(states(&bench, "guide.md"), row("stale", json!(["source", "persona_gone"])));
    server.stop();
}

#[test]
fn the_operator_lists_reads_and_asks() {
    let bench = Bench::new();
    perspective_kind(&bench, MAKES);
    persona(&bench, "deep", "paths: [\"docs/**\"]\nabout: \"Down: there\"", "Read deeply.");
    bench.write("agents/bro ken.md", "x");
    let server = bench.serve();
    let said = |args: &[&str]| crate::cli::desk::said(&bench, args);
    let refused = |args: &[&str], exit, code| crate::cli::desk::refused(&bench, args, exit, code);
    let listed = said(&["persona", "list"]);
    for words in ["critic", "Reads closely", "docs/**", "Down: there", "broken"] {
        assert!(listed.contains(words), "{words}: {listed}");
    }
    assert!(!said(&["persona", "list", "--source", "guide.md"]).contains("deep"));
    assert_eq!(said(&["persona", "show", "deep"]), "Read deeply.\n");
    refused(&["persona", "show", "../deep"], 2, "bad_input");
    refused(&["persona", "show", "nobody"], 4, "no_persona");
    // What is broken is told with its place, and stands in nobody's way.
    let (code, told, _) = bench.cli(&["check"]);
    assert_eq!(code, 1);
    assert!(told.contains("error[bad-persona]") && told.contains("bro ken"), "{told}");
    bench.write("agents/broken.md", "---\nname: broken\ntools: all\n---\nx\n");
    std::fs::remove_file(bench.top.join("agents/bro ken.md")).unwrap();
    let (code, told, _) = bench.cli(&["check"]);
    assert!(code == 1 && told.contains("--> agents/broken.md:3:1"), "{told}");
    std::fs::remove_file(bench.top.join("agents/broken.md")).unwrap();
    assert_eq!(bench.cli(&["check"]).0, 0);

    refused(&["perspective", "show", "guide.md", "critic"], 4, "no_perspective");
    refused(&["perspective", "request", "guide.md", "deep"], 2, "not_for_source");
    refused(&["perspective", "request", "none.md", "critic"], 4, "source_gone");
    refused(
        &["perspective", "request", "guide.md", "critic", "--kind", "other"],
        2,
        "no_perspective_kind",
    );
    refused(
        &["job", "create", "perspective", "source_path=guide.md", "persona_name=deep"],
        2,
        "not_for_source",
    );
    let (code, _, err) = bench.cli(&["perspective", "request", "guide.md", "critic", "--wait"]);
    assert_eq!(code, 0, "{err}");
    assert!(said(&["perspective", "show", "guide.md", "critic"]).starts_with("# As critic"));
    let listed = said(&["perspective", "list", "guide.md"]);
    assert!(listed.contains("critic") && listed.contains("fresh"), "{listed}");
    assert_eq!(said(&["perspective", "request", "guide.md", "critic"]), "");
    server.stop();
}

#[test]
fn where_no_kind_makes_views_nothing_is_offered() {
    let bench = Bench::new();
    persona(&bench, "critic", "about: Reads closely", "Be strict.");
    let server = bench.serve();
    let none = bench.get("/api/perspectives?source_path=guide.md").ok();
    assert_eq!(none, json!({"items": [], "next": null, "kinds": []}));
    server.stop();
    perspective_kind(&bench, MAKES);
    let server = bench.serve();
    let some = bench.get("/api/perspectives?source_path=guide.md").ok();
    assert_eq!(
        (&some["items"][0]["state"], &some["kinds"]),
        (&json!("none"), &json!(["perspective"]))
    );
    server.stop();
}

#[test]
fn a_document_has_a_page_for_each_view() {
    let bench = Bench::new();
    let hostile = "<script>alert(1)</script> [x](javascript:alert(1)) ' onclick='x \u{202e}";
    std::fs::write(bench.base.join("text"), hostile).unwrap();
    perspective_kind(&bench, "cat \"$BASE/text\" | view");
    persona(&bench, "deep", "paths: [\"docs/**\"]", "Read deeply.");
    let server = bench.serve();
    let browser = Browser::signed_in(&bench, &server);
    let page = browser.page("/d/guide.md");
    assert!(page.contains("href=\"/d/guide.md?view=critic\""), "{page}");
    assert!(page.contains("Not generated") && !page.contains("view=deep"), "{page}");
    let page = browser.page("/d/guide.md?view=critic");
    assert!(page.contains("This view hasn’t been generated yet."), "{page}");
    let key = page.split("name=\"key\" value=\"").nth(1).unwrap().split('"').next().unwrap();
    let fields = [("key", key), ("source_path", "guide.md"), ("persona", "critic")];
    let seen = browser.submit("/perspectives", &fields);
    assert_eq!(seen.status, 303, "{}", seen.html);
    let job = seen.header("location").unwrap().rsplit('/').next().unwrap().to_owned();
    // Sent twice it counts once.
    let seen = browser.submit("/perspectives", &fields);
    assert!(seen.header("location").unwrap().ends_with(&job));
    assert_eq!(bench.ended(&job)["status"], "succeeded");
    let page = browser.page("/d/guide.md?view=critic");
    assert!(page.contains("&#60;script&#62;") || page.contains("&lt;script"), "{page}");
    for bad in ["<script>", "' onclick='x"] {
        assert!(!page.contains(bad), "{bad}: {page}");
    }
    assert!(page.contains("data-code=\"U+202E\""), "{page}");
    bench.write("guide.md", "# Guide\n\nAnother line.\n");
    let page = browser.page("/d/guide.md?view=critic");
    assert!(page.contains("The document has changed since this was generated."), "{page}");
    assert_eq!(browser.get("/d/guide.md?view=deep").status, 400);
    assert_eq!(browser.get("/d/guide.md?view=..%2Fx").status, 400);
    assert_eq!(browser.get("/d/guide.md?view=nobody").status, 404);
    server.stop();
}

/// Returns a statement that makes the views of some versions a month old.
fn aged(bench: &Bench, condition: &str) {
    bench.sql(&format!("UPDATE perspectives SET created_ms = 1000 WHERE {condition}"));
}

#[test]
fn views_that_no_version_needs_are_dropped() {
    let bench = Bench::new();
    perspective_kind(&bench, MAKES);
    let server = bench.serve();
    let old = made(&bench, "guide.md", "critic");
    bench.write("guide.md", "# Guide\n\nAnother line.\n");
    bench.git(&["commit", "-qam", "another"]);
    let new = made(&bench, "guide.md", "critic");
    assert_eq!(stored(&bench), 2);
    server.stop();
    // The first is old and of no present version: the server drops it as it starts.
    aged(&bench, &format!("job_id = '{}'", old["id"].as_str().unwrap()));
    aged(&bench, &format!("job_id = '{}'", new["id"].as_str().unwrap()));
    let server = bench.serve();
    until("one is dropped", || stored(&bench) == 1);
    assert_eq!(view(&bench, "guide.md", "critic")["job_id"], new["id"]);
    // The newest stays as long as its Source and its persona are there, stale or not.
    persona(&bench, "critic", "", "Be kind.");
    let dry = bench.post("/api/cleanup", json!({"dry_run": true})).ok();
    assert_eq!(dry["perspectives"], 0, "{dry}");
    std::fs::remove_file(bench.top.join("agents/critic.md")).unwrap();
    let dry = bench.post("/api/cleanup", json!({"dry_run": true})).ok();
    assert_eq!((&dry["perspectives"], stored(&bench)), (&json!(1), 1));
    let done = bench.json(&["cleanup"]);
    assert_eq!((&done["perspectives"], stored(&bench)), (&json!(1), 0));
    assert!(!Path::new(bench.top.as_str()).join("agents/critic.md").exists());
    server.stop();
}

//! A renamed Source: waiting and running jobs, personas' views, and requests by the old name.

use serde_json::{Value, json};

use super::{events, ready};
use crate::pages::Browser;
use crate::perspectives::{MAKES, made, perspective_kind};
use crate::support::{Bench, Topic, until};

/// Reads the Source, waits for a word, and proposes.
const SLOW: &str = "sed \"s/first/$job/\" \"$root/$path\" > \"$OUT/$job.md\" || exit 3
until [ -e \"$OUT/go\" ]; do sleep 0.05; done; propose < \"$OUT/$job.md\"";

fn rename(bench: &Bench, from: &str, to: &str) {
    bench.git(&["mv", from, to]);
    bench.git(&["commit", "-q", "-m", "a better name"]);
    let is_told = |it: &Value| it["from"] == from && it["path"] == to;
    until(&format!("{from} is {to}"), || events(bench, "source_renamed").iter().any(is_told));
}

/// Declares a kind whose job runs until it is let go, one at a time in a lane.
fn declare_slow(bench: &Bench, lane: &str) {
    let fields = format!("produces = \"proposal\", timeout = \"10m\", lane = {lane}");
    bench.topic_kind("slow", &fields, SLOW);
}

/// Returns a job that runs on the guide, and a Topic for another one.
fn running(bench: &Bench) -> (String, Topic) {
    let [first, second] =
        ["The first line.", "The second line."].map(|it| bench.topic("guide.md", it, "x"));
    let runs = bench.job_on("slow", &first);
    bench.wait_left(&format!("{runs}.md"));
    (runs, second)
}

#[test]
fn jobs_of_a_renamed_source_go_on_under_its_new_name() {
    let bench = Bench::new();
    declare_slow(&bench, "\"source_path\"");
    let server = bench.serve();
    ready(&bench);
    let (runs, other) = running(&bench);
    let waits = bench.job_on("slow", &other);
    assert_eq!(bench.show(&waits)["status"], "queued");
    rename(&bench, "guide.md", "handbook.md");
    let shown = bench.show(&waits);
    assert_eq!(shown["source_path"], "handbook.md");
    assert_eq!(shown["inputs"]["source_path"], "handbook.md");
    assert_eq!(shown["lane"], "source_path=handbook.md");
    assert_eq!(shown["status"], "queued", "who runs holds the lane under its new name, too");
    assert_eq!(bench.show(&runs)["inputs"]["source_path"], "guide.md", "as it was told");
    bench.json(&["reload"]);
    assert_eq!(bench.show(&runs)["lane"], "source_path=handbook.md");
    assert_eq!(bench.show(&waits)["waiting"]["code"], "lane_busy");
    std::fs::write(bench.out.join("go"), "").unwrap();
    for job in [runs.as_str(), &waits] {
        let ended = bench.ended(job);
        assert_eq!(ended["status"], "succeeded", "{ended:#}");
        let id = ended["proposal_id"].as_str().unwrap();
        let made = bench.get(&format!("/api/proposals/{id}")).ok();
        assert_eq!(made["proposal"]["source_path"], "handbook.md");
    }
    // A job of before the rename that is repeated takes the new name.
    let again = bench.post(&format!("/api/agent/jobs/{runs}/retry"), json!({})).ok();
    let again = again["job_id"].as_str().unwrap().to_owned();
    let again = bench.ended(&again);
    assert_eq!(
        (&again["status"], &again["source_path"]),
        (&json!("succeeded"), &json!("handbook.md"))
    );
    server.stop();
}

/// Whatever the script declares meanwhile, an input is a Source that was one when it was asked for.
#[test]
fn jobs_that_wait_for_their_kind_go_with_a_renamed_source() {
    let bench = Bench::new();
    declare_slow(&bench, "\"source_path\"");
    let base = "base_source_sha =";
    let more = format!("other = wb.input.source {{ required = false }},\n    {base}");
    bench.edit(|lua| lua.replace(base, &more));
    let good = bench.declared();
    let server = bench.serve();
    ready(&bench);
    let (_, other) = running(&bench);
    let waits = bench.job("slow", json!({"topic_id": other.id, "other": "notes.md"}));
    server.stop();
    let told =
        |job: &Value| [&job["inputs"]["source_path"], &job["inputs"]["other"]].map(|it| it.clone());
    for (change, code, pair, expected) in [
        (("wb.kind \"slow\"", "wb.kind \"new\""), "kind_gone", ("guide.md", "one.md"), "notes.md"),
        (("other = wb", "another = wb"), "kind_changed", ("notes.md", "asked.md"), "asked.md"),
    ] {
        bench.edit(|_| good.replace(change.0, change.1));
        let server = bench.serve();
        assert_eq!(bench.show(&waits)["waiting"]["code"], code);
        rename(&bench, pair.0, pair.1);
        let shown = bench.show(&waits);
        assert_eq!(told(&shown), ["one.md", expected]);
        assert_eq!(shown["lane"], "source_path=one.md");
        server.stop();
    }
    let server = bench.serve();
    bench.edit(|_| good);
    bench.write_script();
    let warnings = bench.json(&["reload"])["warnings"].to_string();
    assert!(!warnings.contains("waits"), "{warnings}");
    assert!(bench.cli(&["doctor"]).1.contains("the script accepts all of them"));
    std::fs::write(bench.out.join("go"), "").unwrap();
    let ended = bench.ended(&waits);
    assert_eq!((&ended["status"], &ended["source_path"]), (&json!("succeeded"), &json!("one.md")));
    assert_eq!(told(&ended), ["one.md", "asked.md"]);
    server.stop();
}

/// The lane of a function is asked for again, also for who runs.
#[test]
fn a_function_says_the_lane_of_a_renamed_source_again() {
    let bench = Bench::new();
    let lane = "function(i)\n\
        if i.source_path == \"broken.md\" then error(\"no\") end\n\
        return \"page=\" .. i.source_path .. \"/de\" end";
    declare_slow(&bench, lane);
    let server = bench.serve();
    ready(&bench);
    let (runs, other) = running(&bench);
    let waits = bench.job_on("slow", &other);
    rename(&bench, "guide.md", "handbook.md");
    let later = bench.job_on("slow", &bench.topic("handbook.md", "The first line.", "y"));
    for job in [&runs, &waits, &later] {
        assert_eq!(bench.show(job)["lane"], "page=handbook.md/de");
    }
    for job in [&waits, &later] {
        assert_eq!(bench.show(job)["waiting"]["code"], "lane_busy");
    }
    // What fails leaves it as it is, and the job moves all the same.
    rename(&bench, "handbook.md", "broken.md");
    let shown = bench.show(&waits);
    let expected = (&json!("page=handbook.md/de"), &json!("broken.md"));
    assert_eq!((&shown["lane"], &shown["inputs"]["source_path"]), expected);
    assert!(server.log().contains("stays after a rename"), "{}", server.log());
    server.stop();
}

/// Nobody could ask it while its kind was gone; and an edited one is another one.
#[test]
fn a_function_says_the_lanes_again_under_another_script() {
    let bench = Bench::new();
    let lane = "function(i) return \"page=\" .. i.source_path .. \"/de\" end";
    declare_slow(&bench, lane);
    let good = bench.declared();
    let server = bench.serve();
    ready(&bench);
    let topic = bench.topic("guide.md", "The first line.", "x");
    let later = json!({"topic_id": topic.id, "not_before": "2099-01-01T00:00:00Z"});
    let job = bench.job("slow", later);
    let shows = |kind: &str, lane: &str| {
        let shown = bench.show(&job);
        assert_eq!((&shown["kind"], &shown["lane"]), (&json!(kind), &json!(lane)));
    };
    let reload = |script: String| {
        bench.edit(|_| script);
        bench.write_script();
        assert_eq!(bench.json(&["reload"])["ok"], true);
    };
    let renamed_without = |from: &str, to: &str| {
        bench.edit(|_| good.replace("wb.kind \"slow\"", "wb.kind \"new\""));
        let server = bench.serve();
        rename(&bench, from, to);
        assert_eq!(bench.show(&job)["source_path"], to);
        server
    };
    server.stop();
    let server = renamed_without("guide.md", "one.md");
    reload(good.clone());
    shows("slow", "page=one.md/de");
    server.stop();
    let server = renamed_without("one.md", "two.md");
    let late = good.replace("wb.kind \"slow\" {", "wb.kind \"late\" {\n  was = \"slow\",");
    reload(late.clone());
    shows("late", "page=two.md/de");
    reload(late.replace("/de", "/fr"));
    shows("late", "page=two.md/fr");
    server.stop();
    bench.edit(|_| late.replace("page=", "leaf="));
    let server = bench.serve();
    shows("late", "leaf=two.md/de");
    // Who waits behind it waits in the same lane.
    let after = bench.job_on("late", &bench.topic("two.md", "The first line.", "y"));
    shows("late", bench.show(&after)["lane"].as_str().unwrap());
    // What fails leaves it as it is.
    reload(late.replace("return", "error(\"no\") return"));
    shows("late", "leaf=two.md/de");
    assert!(server.log().contains("stays after a reload"), "{}", server.log());
    server.stop();
}

/// Names that are handed on in one look: each Topic, and each job that waits, moves once.
#[test]
fn names_that_are_handed_on_are_followed_by_all_of_them() {
    let bench = Bench::new();
    declare_slow(&bench, "\"source_path\"");
    let server = bench.serve();
    ready(&bench);
    let wait = |path: &str, quote: &str| {
        let topic = bench.topic(path, quote, "x").id;
        let given = json!({"topic_id": topic, "not_before": "2099-01-01T00:00:00Z"});
        (topic, bench.job("slow", given))
    };
    let all = [wait("guide.md", "The first line."), wait("notes.md", "Keep this.")];
    server.stop();
    let go = |moves: &[(&str, &str)], edit: &str, commits: bool, expected: [&str; 2]| {
        for (from, to) in moves {
            bench.git(&["mv", from, to]);
            if commits {
                bench.git(&["commit", "-q", "-m", "a better name"]);
            }
        }
        if !edit.is_empty() {
            for path in expected {
                bench.write(path, bench.read(path) + edit);
            }
            bench.git(&["add", "-A"]);
        }
        if !commits || !edit.is_empty() {
            bench.git(&["commit", "-q", "-a", "-m", "better names"]);
        }
        let head = bench.git(&["rev-parse", "HEAD"]);
        let server = bench.serve();
        let is_told =
            || events(&bench, "source_renamed").iter().filter(|it| it["commit"] == *head).count();
        until(&format!("they are {expected:?}"), || is_told() == 2);
        for ((topic, job), path) in all.iter().zip(expected) {
            let shown = bench.get(&format!("/api/topics/{topic}")).ok();
            assert_eq!(shown["topic"]["source_path"], path);
            let shown = bench.show(job);
            let lane = json!(format!("source_path={path}"));
            assert_eq!((&shown["inputs"]["source_path"], &shown["lane"]), (&json!(path), &lane));
        }
        server.stop();
    };
    let chain = [("notes.md", "third.md"), ("guide.md", "notes.md")];
    go(&chain, "", true, ["notes.md", "third.md"]);
    // Changed, too: only the commits tell.
    let chain = [("third.md", "fourth.md"), ("notes.md", "third.md")];
    go(&chain, "\nOne more line.\n", true, ["third.md", "fourth.md"]);
    let circle = [("third.md", "x.md"), ("fourth.md", "third.md"), ("x.md", "fourth.md")];
    go(&circle, "", false, ["fourth.md", "third.md"]);
}

#[test]
fn views_go_with_a_renamed_source_and_stay_fresh() {
    let bench = Bench::new();
    perspective_kind(&bench, MAKES);
    let server = bench.serve();
    ready(&bench);
    let job = made(&bench, "guide.md", "critic");
    rename(&bench, "guide.md", "handbook.md");
    let view = bench.get("/api/perspective?source_path=handbook.md&persona=critic").ok();
    assert_eq!((&view["state"], &view["job_id"]), (&json!("fresh"), &job["id"]));
    let gone = bench.get("/api/perspective?source_path=guide.md&persona=critic");
    assert_eq!(gone.status, 404);
    let hint = gone.body["error"]["hint"].as_str().unwrap().to_owned();
    assert!(hint.contains("handbook.md"), "{hint}");
    server.stop();
}

#[test]
fn who_asks_by_an_old_name_is_told_the_new_one() {
    let bench = Bench::new();
    let server = bench.serve();
    ready(&bench);
    // Nothing hangs on it, and still it is known.
    rename(&bench, "guide.md", "one.md");
    rename(&bench, "one.md", "docs/two words.md");
    let global = json!({"source_path": "guide.md", "global": true, "body": "x"});
    let answers = [
        bench.get("/api/source?path=guide.md"),
        bench.get("/api/source?path=one.md"),
        bench.post("/api/topics", global),
    ];
    for answer in answers {
        assert_eq!(answer.status, 404);
        let error = answer.body["error"].clone();
        assert_eq!(error["hint"], "ask for docs/two words.md", "{error}");
    }
    let (code, _, said) = bench.cli(&["source", "show", "guide.md"]);
    assert_eq!((code, said.contains("docs/two words.md")), (4, true), "{said}");
    let browser = Browser::signed_in(&bench, &server);
    let page = browser.get("/d/guide.md");
    assert_eq!(page.status, 404);
    assert!(page.html.contains("docs/two words.md"), "{}", page.html);
    let way = "href=\"/d/docs/two%20words.md\">Open it under its new name";
    assert!(page.html.contains(way), "{}", page.html);
    // History goes on across the names, and is there for the old one.
    let history = bench.get("/api/source/history?path=docs/two%20words.md").ok();
    assert_eq!(history["items"].as_array().unwrap().len(), 3, "{history:#}");
    // A name that is there again is not explained away.
    bench.write("guide.md", "# Another\n");
    bench.git(&["add", "guide.md"]);
    bench.git(&["commit", "-q", "-m", "another one"]);
    assert_eq!(bench.get("/api/source?path=guide.md").status, 200);
    // And what is gone at last has no new name.
    bench.git(&["rm", "-q", "docs/two words.md", "guide.md"]);
    bench.git(&["commit", "-q", "-m", "no more"]);
    let gone = bench.get("/api/source?path=one.md");
    assert_eq!(gone.status, 404);
    assert!(!gone.body["error"]["hint"].as_str().unwrap_or("").contains("renamed"));
    server.stop();
}

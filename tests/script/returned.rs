//! A kind that was gone at the start is back, and some jobs that waited for it do not fit it.

use serde_json::{Value, json};

use crate::perspectives::persona;
use crate::support::Bench;

const NUMBER: &str = "n = wb.input.number { default = 5 }";

/// Declares a kind whose job has a document, a persona and a number.
fn declare(bench: &Bench) {
    bench.engine("look", "echo \"$who\" >> \"$OUT/done\"");
    bench.lua(&format!(
        "wb.kind \"look\" {{ about = \"A test\", engine = \"look\", timeout = \"20s\",\n\
         produces = \"proposal\", prompt = \"path={{{{path}}}} {{{{base}}}}\\nwho={{{{who}}}}\",\n\
         inputs = {{ path = wb.input.source {{ new = true }},\n\
         base = wb.input.blob {{ from = \"path\" }}, who = wb.input.persona(), {NUMBER} }} }}\n"
    ));
    persona(bench, "busy", "about: x", "You are busy.");
    persona(bench, "calm", "about: x", "You are calm.");
}

fn wait(bench: &Bench, path: &str, who: &str, n: i64) -> String {
    let later = "2099-01-01T00:00:00Z";
    bench.job("look", json!({"path": path, "who": who, "n": n, "not_before": later}))
}

fn codes(bench: &Bench, jobs: &[String]) -> Vec<Value> {
    jobs.iter().map(|it| bench.show(it)["waiting"]["code"].clone()).collect()
}

/// They are held as at a start, whatever does not fit, and the others go on.
#[test]
fn a_kind_that_is_back_has_the_jobs_that_fit_it() {
    let bench = Bench::new();
    declare(&bench);
    let good = bench.declared();
    let server = bench.serve();
    bench.wait_indexed();
    let jobs = [
        wait(&bench, "guide.md", "calm", 5),
        wait(&bench, "guide.md", "busy", 5),
        wait(&bench, "guide.md", "calm", 3),
        wait(&bench, "later.md", "calm", 5),
    ];
    server.stop();
    let edited = good.replace("default = 5", "min = 4, default = 5").replace("new = true", "");
    let named = |name: &str| edited.replace("wb.kind \"look\" {", &format!("wb.kind {name}"));
    let starts_without = || {
        persona(&bench, "busy", "paths: [\"docs/**\"]", "You are busy.");
        bench.edit(|_| named("\"other\" {"));
        let server = bench.serve();
        assert_eq!(codes(&bench, &jobs), ["kind_gone"; 4]);
        server
    };
    let judged = ["not_before", "kind_changed", "kind_changed", "kind_changed"];
    let server = starts_without();
    let reload = |script: &str| {
        bench.edit(|_| script.to_owned());
        bench.write_script();
        let dry = bench.json(&["reload", "--dry-run"]);
        assert_eq!((&dry["ok"], &dry["lost"]), (&json!(true), &json!([])), "{dry:#}");
        bench.json(&["reload"])["warnings"].to_string()
    };
    let told = reload(&edited);
    assert_eq!(codes(&bench, &jobs), judged);
    assert!(told.contains("3 jobs wait because kind \\\"look\\\" can no longer run"), "{told}");
    persona(&bench, "busy", "about: x", "You are busy.");
    reload(&good);
    assert_eq!(codes(&bench, &jobs), ["not_before"; 4]);
    server.stop();
    // The same for a kind that was there and takes them over.
    let server = starts_without();
    reload(&named("\"other\" { was = \"look\","));
    assert_eq!(codes(&bench, &jobs), judged);
    server.stop();
}

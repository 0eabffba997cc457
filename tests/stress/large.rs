//! A repository with very many files: listing, work and approvals.

use std::fs;

use crate::support::Bench;

const FILES: usize = 100_000;

#[test]
#[ignore = "long: 100,000 files; its shorter sibling is git::sources::many_sources_are_listed"]
fn a_hundred_thousand_files_are_listed_worked_on_and_approved() {
    let bench = Bench::new();
    for folder in 0..FILES / 1_000 {
        let folder = bench.top.join(format!("many/d{folder}"));
        fs::create_dir_all(&folder).unwrap();
        for number in 0..1_000 {
            fs::write(folder.join(format!("n{number}.md")), "The only line.\n").unwrap();
        }
    }
    bench.git(&["add", "-A"]);
    bench.git(&["commit", "-q", "-m", "many"]);
    bench.topic_kind(
        "incorporate",
        "timeout = \"20s\", lane = \"source_path\", produces = \"proposal\"",
        "{ cat \"$root/$path\"; echo 'One more.'; } | propose",
    );
    let server = bench.serve();
    // Page by page, each once.
    let (mut seen, mut after) = (0, String::new());
    loop {
        let page = bench.get(&format!("/api/sources?query=many/&limit=200{after}")).ok();
        seen += page["items"].as_array().unwrap().len();
        match page["next"].as_str() {
            Some(next) => after = format!("&after={next}"),
            None => break,
        }
        // The last page is far away; what is asked of each page is the same.
        if seen >= 2_000 {
            break;
        }
    }
    assert!(seen >= 2_000, "{seen}");
    let path = "many/d99/n999.md";
    let topic = bench.topic(path, "The only line.", "More.");
    let shown = bench.proposal("incorporate", &topic);
    let approved = bench.send(&bench.approval(&shown)).ok();
    assert!(approved["commit"].is_string(), "{approved:#}");
    assert_eq!(bench.read(path), "The only line.\nOne more.\n");
    assert_eq!(bench.status(), "");
    server.stop();
}

//! G31: what an agent changes in the repository without being asked to is noticed and named.

use serde_json::json;

use crate::support::Bench;

const FIELDS: &str = "timeout = \"20s\"";

/// Fails with `WB_WITHOUT=watch`.
#[test]
fn g31_what_an_agent_changes_unasked_is_named() {
    let bench = Bench::new();
    let cases = [
        ("edits", "echo more >> \"$root/guide.md\"", "touched_tree: guide.md"),
        ("stages", "cd \"$root\" && echo x >> guide.md && git add guide.md", "touched_tree: guide"),
        ("commits", "cd \"$root\" && git commit -q --allow-empty -m unasked", "moved_head: HEAD"),
        ("switches", "cd \"$root\" && git checkout -q -b elsewhere", "moved_head: refs/heads/els"),
        ("resets", "cd \"$root\" && git reset -q --hard HEAD", "touched_tree: guide.md"),
        ("behaves", "cat \"$root/guide.md\" > /dev/null", ""),
    ];
    for (kind, agent, _) in &cases {
        let own = "export GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@b.c GIT_COMMITTER_NAME=a \
                   GIT_COMMITTER_EMAIL=a@b.c root='";
        let agent = format!("{own}{}'\n{agent}\n", bench.top);
        bench.word_kind(kind, FIELDS, &agent);
    }
    let server = bench.serve();
    let (branch, text) = (bench.git(&["branch", "--show-current"]), bench.read("guide.md"));
    for (kind, _, want) in &cases {
        if *kind == "resets" {
            bench.write("guide.md", "the user's own work\n");
        }
        let ended = bench.ended(&bench.job(kind, json!({"word": "x"})));
        assert_eq!(ended["status"], "succeeded", "{kind}: the result counts all the same");
        let warnings: Vec<&str> =
            ended["warnings"].as_array().unwrap().iter().filter_map(|it| it.as_str()).collect();
        match *want {
            "" => assert!(warnings.is_empty(), "{kind}: {warnings:?}"),
            want => assert!(warnings.iter().any(|it| it.starts_with(want)), "{kind}: {warnings:?}"),
        }
        bench.git(&["reset", "-q", "--hard"]);
        bench.git(&["checkout", "-q", &branch]);
        assert_eq!(bench.read("guide.md"), text);
    }
    server.stop();
}

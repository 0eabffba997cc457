//! A server that does not run as root, also if the tests do.

use std::os::unix::fs::MetadataExt as _;

use serde_json::json;

use crate::support::{Bench, Server};

/// Nobody's, and nobody else's either.
const UID: u32 = 61_234;
const PROPOSE: &str = "sed 's/The first line/The best line/' \"$root/$path\" | propose";

#[test]
fn a_server_of_another_user_than_root_does_all_of_it() {
    let bench = Bench::new();
    if bench.base.metadata().unwrap().uid() != 0 {
        // Then all other tests are this one.
        return;
    }
    bench.topic_kind("better", "timeout = \"20s\", produces = \"proposal\"", PROPOSE);
    // Three that would stay: in a session of its own, deaf, and orphaned.
    let stray = "id -u; setsid sleep 1000 & (trap '' INT TERM; exec sleep 1000) & \
                 (setsid sleep 1000 &); [ \"$word\" = end ] || sleep 1000";
    bench.word_kind("stray", "timeout = \"20s\"", stray);
    bench.write_script();
    let server = Server::spawn_as(&bench, UID).ready();
    let topic = bench.topic("guide.md", "The first line.", "Say it better.");
    let shown = bench.proposal("better", &topic);
    bench.send(&bench.approval(&shown)).ok();
    // Root's look may not write the index anew.
    let options = ["--no-optional-locks", "-c", "safe.directory=*"];
    let git = |args: &[&str]| bench.git(&[&options, args].concat());
    assert_eq!(git(&["cat-file", "blob", "HEAD:guide.md"]), bench.read("guide.md").trim_end());
    assert_eq!(git(&["status", "--porcelain"]), "");
    for path in [bench.top.join("guide.md"), bench.top.join(".git/index"), bench.data.join("jobs")]
    {
        assert_eq!(path.metadata().unwrap().uid(), UID, "{path}");
    }
    let ended = bench.job("stray", json!({"word": "end"}));
    assert_eq!(bench.ended(&ended)["status"], "succeeded");
    let log = bench.get(&format!("/api/agent/jobs/{ended}/log?stream=stdout")).ok();
    assert_eq!(log["text"], format!("{UID}\n"));
    bench.quiet();
    let stopped = bench.job("stray", json!({"word": "stay"}));
    bench.wait_status(&stopped, "running");
    bench.post(&format!("/api/agent/jobs/{stopped}/cancel"), json!({})).ok();
    assert_eq!(bench.ended(&stopped)["status"], "cancelled");
    bench.quiet();
    server.stop();
}

//! `verify`: the script's own check of a job's result. It can only refuse.

use serde_json::json;

use crate::support::Bench;

/// A check that does what the word of the job says.
const VERIFY: &str = "verify = function(job)
    if job.produced.value.say == \"boom\" then error(\"broken check\") end
    if job.produced.value.say == \"no\" then return \"it says no\" end
    if job.produced.value.say == \"odd\" then return { 1 } end
    if job.produced.value.say == \"mute\" then return \" \" end
    return job.produced.value.say ~= \"false\"
end";

#[test]
fn g07_a_check_can_refuse_a_result_and_never_replace_it() {
    let bench = Bench::new();
    let agent = "[ \"$word\" = nothing ] && exit 0\n\
        echo \"{\\\"say\\\": \\\"$word\\\"}\" > \"$OUT/result\"\n\
        \"$wb_agent\" finish --result - < \"$OUT/result\"";
    let fields = format!("timeout = \"20s\", produces = \"result\", {VERIFY}");
    bench.word_kind("judged", &fields, agent);
    let server = bench.serve();
    for (word, status, reason, tail) in [
        ("yes", "succeeded", None, ""),
        ("no", "failed", Some("verify_failed"), "it says no"),
        ("false", "failed", Some("verify_failed"), "refused the result"),
        ("mute", "failed", Some("verify_failed"), "refused the result"),
        ("boom", "failed", Some("verify_failed"), "broken check"),
        ("odd", "failed", Some("verify_failed"), "neither a reason nor true or false"),
        // Nothing was left: the check is not even asked, and says nothing for it.
        ("nothing", "failed", Some("no_result"), "produced no result"),
    ] {
        let job = bench.ended(&bench.job("judged", json!({"word": word})));
        assert_eq!(job["status"], status, "{job:#}");
        assert_eq!(job["reason"].as_str(), reason, "{job:#}");
        let shown = job["error_tail"].as_str().unwrap_or_default();
        assert!(shown.contains(tail), "{word}: {shown}");
        if reason == Some("verify_failed") {
            assert!(shown.starts_with("wiki-browser.lua:"), "{word}: {shown}");
            assert!(job["message"].as_str().unwrap().contains("script's check"), "{job:#}");
        }
    }
    server.stop();
}

#[test]
fn a_proposal_that_the_check_refuses_cannot_be_approved() {
    let bench = Bench::new();
    let agent = "sed 's/second/third/' \"$root/$path\" > \"$OUT/new\"; propose < \"$OUT/new\"";
    let fields = "timeout = \"20s\", produces = \"proposal\", verify = function(job)
        return not job.produced.text:find(\"third\") or \"it says third\"
    end";
    bench.topic_kind("proposes", fields, agent);
    let server = bench.serve();
    let topic = bench.topic("guide.md", "second", "Make it the third.");
    let job = bench.ended(&bench.job_on("proposes", &topic));
    assert_eq!(job["reason"], "verify_failed", "{job:#}");
    let id = job["proposal_id"].as_str().unwrap();
    let shown = bench.get(&format!("/api/proposals/{id}")).ok();
    assert_ne!(bench.send(&bench.approval(&shown)).status, 200, "{shown:#}");
    assert_eq!(bench.commits().len(), 1);
    server.stop();
}

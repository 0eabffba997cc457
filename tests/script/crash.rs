//! A server that is killed between a function and its effects: nothing is lost or done twice.

use serde_json::json;

use crate::script::{all_ended, events, jobs};
use crate::support::Bench;

/// A site whose handler asks for one job for each one that has ended.
fn site() -> Bench {
    let bench = Bench::new();
    bench.word_kind("echoes", "timeout = \"20s\"", "exit 0");
    bench.word_kind("follows", "timeout = \"20s\"", "exit 0");
    bench.lua(
        "wb.on(\"job_finished\", function(event)
           if event.job.kind == \"echoes\" then
             wb.enqueue { kind = \"follows\", word = event.job.id }
           end
         end)\n",
    );
    bench
}

#[test]
fn g02_a_handler_that_a_crash_cut_off_is_told_again_and_makes_one_job() {
    for point in ["after_handler", "after_effects"] {
        let bench = site();
        let mut server = bench.serve_with(&[("WB_CRASH_AT", point)]);
        let job = bench.job("echoes", json!({}));
        // It aborts in the middle of what it does.
        assert!(!server.wait().0.success(), "{point}");
        drop(server);
        let server = bench.serve();
        let followed = all_ended(&bench, "follows", 1).remove(0);
        assert_eq!(followed["inputs"]["word"].as_str(), Some(&*job), "{point}");
        server.stop();
        // A third life has nothing left to tell.
        let server = bench.serve();
        bench.ended(&bench.job("echoes", json!({})));
        all_ended(&bench, "follows", 2);
        assert_eq!(jobs(&bench, "follows").len(), 2, "{point}");
        server.stop();
        assert_eq!(events(&bench, "script_failed").len(), 0, "{point}");
    }
}

//! What functions read in vain is told, and nothing else is.

use crate::script::tests::Site;

/// Returns the warnings of a script with these lines: what is wrong, and what to type.
fn warnings(lines: &str) -> Vec<String> {
    let site = Site::with_head(lines);
    let loaded = site.loaded();
    let found = loaded.warnings.iter().filter(|it| it.code == "unknown-read");
    found.map(|it| format!("{}: {}", it.message, it.note.as_deref().unwrap_or(""))).collect()
}

#[test]
fn a_read_in_vain_is_told_with_what_to_type() {
    for (body, expected) in [
        ("if e.kind == \"count\" then end", "is its name, job_finished: write e.job.kind"),
        ("print(e.status)", "an event job_finished has no `status`: write e.job.status"),
        ("print('x'..e.data.reson)", "has no `reson`: did you mean `reason`?"),
        ("print(e.job.topic)", "`e.job` of an event job_finished has no `topic`: did you mean"),
        ("print(e.data.exit_code)", "has no `exit_code`: write e.job.exit_code"),
        ("print(e.dta.id)", "has no `dta`: did you mean `data`?"),
        ("for i = 1, 2 do if i then repeat print(e.x) until i end end", "has no `x`"),
    ] {
        let found = warnings(&format!("wb.on(\"job_finished\", function(e) {body} end)\n"));
        assert!(found.len() == 1 && found[0].contains(expected), "{body}: {found:?}");
    }
}

#[test]
fn what_is_not_plain_is_left_alone() {
    for lines in [
        "wb.on(\"job_finished\", function(e) print(e.job.inputs.x, e.job.result.y, e.at) end)",
        "wb.on(\"job_finished\", function(e) if e.kind == \"job_finished\" then end end)",
        "wb.on(\"job_finished\", function(e) local e = { x = 1 } print(e.x) end)",
        "wb.on(\"job_finished\", function(e) e = e.data print(e.job_id) end)",
        "wb.on(\"job_finished\", function(e) pcall(function(e) print(e.x) end) end)",
        "wb.on(\"job_finished\", function(e) e.mine = 1 local t = { e = { x = 1 } } t.e.x = 2 end)",
        "local function f(e) print(e.data.topic_id, e.data.retry_at, e.data.message_id) end\n\
         wb.on(\"job_finished\", f) wb.on(\"message_posted\", f)",
        "wb.on(\"job_finished\", function() end) wb.on(\"job_queued\", function(e) end)",
        "wb.on(\"job_finished\", print)",
        "local f = function(a, e) print(e.x) end\nwb.on(\"job_finished\", function(e) f(1, e) end)",
    ] {
        assert_eq!(warnings(&format!("{lines}\n")), Vec::<String>::new(), "{lines}");
    }
}

#[test]
fn what_checks_and_repeats_jobs_is_looked_at_too() {
    let kind = "wb.engine \"e\" { type = \"process\", command = { \"true\" }, prompt = \
        \"stdin\" }\nwb.kind \"k\" { about = \"a\", engine = \"e\", timeout = \"5m\", prompt = \
        \"x\", produces = \"result\", inputs = {},\nverify = function(job) return \
        job.produced.txt == job.message end, retry = function(job) return job.atempt < 2 end }";
    let found = warnings(&format!("{kind}\n"));
    let expected = ["has no `txt`: did you mean `text`?", "`message`", "mean `attempt`?"];
    assert_eq!(found.len(), expected.len(), "{found:?}");
    for (one, expected) in found.iter().zip(expected) {
        assert!(one.contains(expected), "{one}");
    }
}

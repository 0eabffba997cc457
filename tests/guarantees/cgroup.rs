//! G8: what a cgroup adds, where available: it finds processes that nothing else links to a job.
//!
//! Where none can be had, the same jobs run without, and `doctor` says why; that is tested then.

use std::time::Instant;

use camino::Utf8PathBuf;
use serde_json::json;
use wiki_browser::process::Cgroups;

use crate::support::zoo::{GRACE, assert_gone, assert_still, zoo, zoo_kind};
use crate::support::{Bench, Patience, beats, marked, processes_of, shell, until, within};

/// Returns the cgroups of a site's jobs; nothing where there can be none.
fn cgroups(bench: &Bench) -> Option<Vec<Utf8PathBuf>> {
    let place = Cgroups::open(&bench.data).ok()?;
    let entries = place.folder().unwrap().read_dir_utf8().unwrap().flatten();
    let jobs = bench.data.join("jobs").read_dir_utf8().unwrap().flatten();
    let jobs: Vec<String> = jobs.map(|it| it.file_name().to_owned()).collect();
    let is_ours = |it: &Utf8PathBuf| jobs.iter().any(|job| it.as_str().ends_with(job.as_str()));
    Some(entries.map(|it| it.into_path()).filter(is_ours).collect())
}

/// Whether a cgroup could be made here, by another way than the program's own.
fn machine_has_cgroups() -> bool {
    let own = std::fs::read_to_string("/proc/self/cgroup").unwrap();
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").unwrap();
    let mount = mounts.lines().find(|it| it.contains(" - cgroup2 "));
    let own = own.lines().find_map(|it| it.strip_prefix("0::/"));
    let (Some(mount), Some(own)) = (mount, own) else { return false };
    let trial = Utf8PathBuf::from(mount.split(' ').nth(4).unwrap()).join(own);
    let trial = trial.join(format!("wiki-browser-test-{}", std::process::id()));
    std::fs::create_dir(&trial).is_ok_and(|()| std::fs::remove_dir(&trial).is_ok())
}

#[track_caller]
fn assert_removed(bench: &Bench) {
    if let Some(left) = cgroups(bench) {
        assert_eq!(left, Vec::<Utf8PathBuf>::new());
    }
}

/// Every end with the cgroup, and with kernels that cannot kill one but freeze it.
#[test]
fn g08_a_job_is_ended_by_its_cgroup_which_is_removed_then() {
    for absent in ["nothing", "cgroup_kill"] {
        let bench = zoo("timeout = \"60s\"", "deaf");
        let server = bench.serve_with(&[("WB_ABSENT", absent)]);
        let job = bench.job("zoo", json!({}));
        bench.wait_left("ready");
        if let Some(made) = cgroups(&bench) {
            assert_eq!(made.len(), 1, "{made:?}");
            let inside = std::fs::read_to_string(made[0].join("cgroup.procs")).unwrap();
            assert!(inside.lines().count() > 16, "the whole zoo is in it: {inside}");
            let guard = bench.alive().into_iter().find(|it| it.1.contains(" __guard ")).unwrap();
            assert!(!inside.lines().any(|it| it == guard.0.to_string()), "the guard is not");
        }
        let since = Instant::now();
        bench.post(&format!("/api/agent/jobs/{job}/cancel"), json!({})).ok();
        let row = bench.ended(&job);
        assert_eq!((&row["status"], &row["warnings"]), (&json!("cancelled"), &json!([])));
        assert_gone(&bench, &job, since);
        assert_removed(&bench);
        server.stop();
    }
}

/// Server and guard killed together: those without the mark have lost all that proved whose they
/// are, but their cgroup. Fails with `WB_WITHOUT=cgroup` where there are cgroups.
#[test]
fn g08_what_outlived_server_and_guard_is_ended_by_the_next_server() {
    for absent in ["nothing", "cgroup_kill"] {
        outlived(absent);
    }
}

fn outlived(absent: &str) {
    let bench = zoo("timeout = \"60s\"", "both");
    let mut server = bench.serve_with(&[]);
    let job = bench.job("zoo", json!({}));
    bench.wait_left("ready");
    // The agent kills its guard first, and then the server.
    server.wait();
    until("the guard is dead", || bench.alive().iter().all(|it| !it.1.contains(" __guard ")));
    let is_beating = |name: &str| {
        let at = beats(&bench.out)[name];
        within(Patience::MAX, || beats(&bench.out)[name] > at)
    };
    assert!(is_beating("hb.clean_env") && is_beating("hb.session"), "without a server they live");
    let since = Instant::now();
    let server = bench.serve_with(&[("WB_ABSENT", absent)]);
    assert_eq!(bench.ended(&job)["reason"], "server_restarted");
    if machine_has_cgroups() {
        assert_gone(&bench, &job, since + GRACE);
        assert_removed(&bench);
    } else {
        assert_eq!(marked(&job), Vec::<i32>::new(), "those with the mark are found without");
        for (pid, _) in processes_of(&bench.base.join("zoo")) {
            shell(&format!("kill -KILL {pid}"));
        }
    }
    server.stop();
}

/// What a job left that is over in the database: a cgroup in which somebody still lives.
#[test]
fn g08_a_cgroup_that_a_crashed_server_left_is_ended_at_the_next_start() {
    let bench = Bench::new();
    zoo_kind(&bench, "zoo", "timeout = \"60s\"", "both", &["clean_env"]);
    let mut server = bench.serve();
    let job = bench.job("zoo", json!({}));
    bench.wait_left("ready");
    server.wait();
    let over = format!(
        "UPDATE agent_jobs SET status = 'failed', reason = 'internal', completed_ms = 1,
         ending_ms = 1 WHERE id = '{job}'"
    );
    bench.sql(&over);
    let has_cgroups = Cgroups::open(&bench.data).is_ok();
    let server = bench.serve();
    assert_eq!(bench.show(&job)["status"], "failed");
    if has_cgroups {
        assert_still(&bench.out);
        assert_removed(&bench);
    } else {
        for (pid, _) in processes_of(&bench.base.join("zoo")) {
            shell(&format!("kill -KILL {pid}"));
        }
    }
    server.stop();
}

/// An agent may make cgroups in its own, and go there.
#[test]
fn g08_cgroups_within_the_job_s_are_ended_and_removed_too() {
    let bench = Bench::new();
    let agent = "own=$(sed -n 's/^0:://p' /proc/self/cgroup)\n\
        at=$(sed -n 's/.* \\([^ ]*\\) [^-]*- cgroup2 .*/\\1/p' /proc/self/mountinfo | head -1)\n\
        case $own in *$job*) mkdir -p \"$at$own/a/b\" && echo $$ > \"$at$own/a/b/cgroup.procs\";;\
        esac\n\
        trap '' INT TERM HUP\n(env -i setsid sleep 60 &)\necho ready > \"$OUT/ready\"\n\
        while :; do sleep 0.1; done";
    bench.word_kind("nests", "timeout = \"60s\"", agent);
    let server = bench.serve();
    let job = bench.job("nests", json!({}));
    bench.wait_left("ready");
    bench.post(&format!("/api/agent/jobs/{job}/cancel"), json!({})).ok();
    assert_eq!(bench.ended(&job)["status"], "cancelled");
    assert_removed(&bench);
    server.stop();
}

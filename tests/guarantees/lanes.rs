//! G3: one live process tree per job, and never more in a lane than its capacity.

use serde_json::json;

use crate::support::{Bench, Call, Server, until};

/// Holds the lane's and the job's witness with everything that it starts; a part of it hides in a
/// session of its own without the mark and is deaf, so that only KILL ends it.
const AGENT: &str = "
exec 8>>\"$OUT/job.$job\" 9>>\"$OUT/lane.$word\"
flock -n 8 || echo \"job $job runs twice\" >> \"$OUT/overlap\"
flock -n 9 || echo \"lane $word holds two\" >> \"$OUT/overlap\"
echo \"$job\" >> \"$OUT/started\"
(trap '' INT TERM HUP; exec env -i PATH=/usr/bin:/bin setsid sh -c '
  i=0; while [ $((i+=1)) -lt 1000 ]; do sleep 0.02; done' ) &
sleep 0.3
exit 0";

fn started(bench: &Bench) -> usize {
    bench.left("started").lines().count()
}

/// Fails with `WB_WITHOUT=recovery_lock`.
#[test]
fn g03_a_crash_loop_never_lets_two_trees_into_a_lane() {
    let bench = Bench::new();
    bench.word_kind("hold", "timeout = \"20s\", lane = \"word\"", AGENT);
    let mut server: Server = bench.serve();
    let mut jobs = Vec::new();
    for number in 0..16 {
        let word = ["left", "right"][number % 2];
        jobs.push(bench.job("hold", json!({"word": word})));
    }
    for _ in 0..5 {
        let before = started(&bench);
        until("two more have started", || started(&bench) >= before + 2);
        server.kill();
        server = bench.serve();
    }
    for job in &jobs {
        bench.ended(job);
    }
    assert_eq!(bench.left("overlap"), "");
    let mut ran: Vec<String> = bench.left("started").lines().map(str::to_owned).collect();
    ran.sort();
    let count = ran.len();
    ran.dedup();
    assert_eq!(ran.len(), count, "a job was started twice");
    server.stop();
}

/// The same without a crash: four slots for all, one for each lane, three for the wide one.
#[test]
fn g03_a_lane_holds_what_it_may_hold() {
    let bench = Bench::new();
    bench.limits("jobs = 4, grace = \"1s\", lanes = { word = 2 }");
    // Two slots of a lane are two witnesses: the third tree finds neither.
    let agent = "
exec 8>>\"$OUT/slot1.$word\" 9>>\"$OUT/slot2.$word\"
flock -n 8 || flock -n 9 || echo \"lane $word holds three\" >> \"$OUT/overlap\"
sleep 0.05";
    bench.word_kind("hold", "timeout = \"20s\", lane = \"word\"", agent);
    let server = bench.serve();
    let word = |number: usize| {
        let word = ["left", "right"][number % 2];
        json!({"word": word})
    };
    let jobs: Vec<String> = (0..16).map(|it| bench.job("hold", word(it))).collect();
    for job in &jobs {
        assert_eq!(bench.ended(job)["status"], "succeeded");
    }
    assert_eq!(bench.left("overlap"), "");
    server.stop();
}

/// The lanes of the script in force count when a disabled person's waiting job leaves its lane.
#[test]
fn g03_a_wider_lane_stays_wide_when_a_person_is_disabled() {
    let bench = Bench::new();
    bench.limits("jobs = 2, grace = \"1s\", lanes = { word = 1 }");
    let agent = "echo ready > \"$OUT/ready.$job\"
while [ ! -e \"$OUT/go.$job\" ]; do sleep 0.05; done";
    bench.word_kind("hold", "timeout = \"40s\", lane = \"word\"", agent);
    let server = bench.serve();
    let hold = |word: &str| bench.job("hold", json!({"word": word}));
    let (first, other) = (hold("left"), hold("right"));
    for job in [&first, &other] {
        bench.wait_left(&format!("ready.{job}"));
    }
    bench.limits("jobs = 2, grace = \"1s\", lanes = { word = 2 }");
    bench.write_script();
    assert_eq!(bench.post("/api/config/reload", json!({})).ok()["ok"], true);
    let second = hold("left");
    bench.post("/api/persons", json!({"name": "kim", "role": "member"})).ok();
    let body = json!({"name": "t", "scopes": ["read", "write"], "person": "kim"});
    let token = bench.post("/api/tokens", body).ok()["token"].as_str().unwrap().to_owned();
    let body = json!({"kind": "hold", "word": "left"});
    let of_kim = bench.send(&Call::post("/api/agent/jobs", body).token(&token)).ok();
    bench.post("/api/persons/kim/disable", json!({})).ok();
    assert_eq!(bench.show(of_kim["job_id"].as_str().unwrap())["status"], "cancelled");
    let let_go = |job: &str| std::fs::write(bench.out.join(format!("go.{job}")), "").unwrap();
    let_go(&other);
    bench.wait_left(&format!("ready.{second}"));
    assert_eq!(bench.show(&first)["status"], "running");
    let_go(&first);
    let_go(&second);
    for job in [&first, &second] {
        assert_eq!(bench.ended(job)["status"], "succeeded");
    }
    server.stop();
}

//! G32: nobody becomes the operator by lacking a token.

use camino::Utf8PathBuf;
use serde_json::{Value, json};
use wiki_browser::http::{ROUTES, Verb, Who};

use crate::support::{Bench, Call, shell};

/// Runs inside of an agent, started by its script; does nothing otherwise. Sends every decision
/// with a token (none if it is empty) and writes `PATH STATUS CODE` lines into a file.
#[test]
fn g32_the_one_that_asks() {
    let Ok(file) = std::env::var("TEST_DECISIONS_FILE") else { return };
    let base = Utf8PathBuf::from(std::env::var("TEST_DECISIONS_BASE").unwrap());
    let token = std::env::var("TEST_DECISIONS_TOKEN").unwrap_or_default();
    let mut lines = String::new();
    for line in std::fs::read_to_string(base.join("decisions")).unwrap().lines() {
        let (target, body) = line.split_once(' ').unwrap();
        let call = Call::post(target, serde_json::from_str(body).unwrap());
        let call = if token.is_empty() { call } else { call.token(&token) };
        let answer = call.try_socket(&base.join("wiki/data/wb.sock")).unwrap();
        lines += &format!("{target} {} {}\n", answer.status, answer.code());
    }
    std::fs::write(format!("{file}.part"), lines).unwrap();
    std::fs::rename(format!("{file}.part"), file).unwrap();
}

/// Declares the agents and what they ask for; the ids come from a server that runs already.
fn decisions(bench: &Bench, proposal: &Value, topic: &str) {
    let it = &proposal["proposal"];
    let mut lines = String::new();
    let of_people = [Who::Decide, Who::Session, Who::Admin];
    for route in ROUTES.iter().filter(|it| it.verb == Verb::Post && of_people.contains(&it.who)) {
        let id = match route.path {
            path if path.contains("proposals") => it["id"].as_str().unwrap(),
            path if path.contains("jobs") => it["job_id"].as_str().unwrap(),
            _ => topic,
        };
        let body = match route.path {
            path if path.ends_with("/approve") => json!({
                "text_digest": it["text_digest"], "base_source_sha": it["base_source_sha"],
            }),
            path if path.ends_with("/reject") => json!({"reason": "because"}),
            _ => json!({}),
        };
        let path = route.path.replace("{id}", id).replace("{name}", "ada");
        lines += &format!("{path} {body}\n");
    }
    assert!(lines.lines().count() >= 13, "{lines}");
    std::fs::write(bench.base.join("decisions"), lines).unwrap();
    let exe = std::env::current_exe().unwrap();
    let decide = format!(
        "export TEST_DECISIONS_TOKEN=$1 TEST_DECISIONS_FILE=$2 TEST_DECISIONS_BASE=$BASE\n\
         exec '{}' --exact guarantees::decisions::g32_the_one_that_asks > /dev/null\n",
        exe.display()
    );
    std::fs::write(bench.base.join("decide.sh"), decide).unwrap();
}

fn all_are(bench: &Bench, file: &str, want: &[(&str, &str)]) {
    bench.wait_left(file);
    let text = bench.left(file);
    for line in text.lines() {
        let words: Vec<&str> = line.split(' ').collect();
        let got = (words[1], *words.get(2).unwrap_or(&""));
        // A page's form is refused by a page, which has no code.
        let is_page = !words[0].starts_with("/api/");
        let is_wanted = |it: &(&str, &str)| it.0 == got.0 && (is_page || it.1 == got.1);
        assert!(want.iter().any(is_wanted), "{file}: {line}");
    }
    let asked = std::fs::read_to_string(bench.base.join("decisions")).unwrap();
    assert_eq!(text.lines().count(), asked.lines().count(), "{text}");
}

/// A terminal that was there before the server, in which an agent runs commands; it ends with the
/// test.
struct Terminal {
    socket: Utf8PathBuf,
}

impl Terminal {
    fn start(bench: &Bench) -> Terminal {
        let socket = bench.base.join("tmux");
        // A clean environment: nothing tells it from the terminal of a person.
        shell(&format!(
            "env -i PATH=/usr/bin:/bin HOME='{}' OUT='{}' BASE='{}' \
             tmux -S '{socket}' -f /dev/null new-session -d -s mine -x 80 -y 24 'exec cat'",
            bench.base, bench.out, bench.base
        ));
        Terminal { socket }
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        // It is this test's own, by its own socket.
        shell(&format!("tmux -S '{}' kill-server || true", self.socket));
    }
}

/// Work that is handed to a terminal which was there before is outside of the job: it has neither
/// mark nor ancestry. Nor has it a token, and so it is nobody.
#[test]
fn g32_an_agent_in_a_foreign_terminal_is_nobody() {
    let bench = Bench::new();
    let terminal = Terminal::start(&bench);
    bench.topic_kind(
        "propose",
        "timeout = \"20s\", produces = \"proposal\"",
        "printf 'new\\n' | propose",
    );
    let inside = |token: &str, file: &str| {
        format!(
            "tmux -S \"$BASE/tmux\" new-window -d \
             \"exec sh '$BASE/decide.sh' '{token}' '$OUT/{file}'\"; \
             until [ -e \"$OUT/{file}\" ]; do sleep 0.02; done\n"
        )
    };
    let agent = inside("", "terminal") + &inside("$WB_TOKEN", "terminal-own");
    bench.topic_kind("terminal", "timeout = \"25s\"", &agent);
    let server = bench.serve();
    let topic = bench.topic("guide.md", "The first line.", "Say it better.");
    let proposal = bench.proposal("propose", &topic);
    decisions(&bench, &proposal, &topic.id);
    let job = bench.ended(&bench.job_on("terminal", &topic));
    assert_eq!(job["status"], "succeeded", "{job:#}");
    all_are(&bench, "terminal", &[("401", "unauthenticated")]);
    all_are(&bench, "terminal-own", &[("403", "agent_forbidden")]);
    assert_eq!(bench.proposal_status(&proposal), "open");
    assert_eq!(bench.commits().len(), 1);
    drop(terminal);
    server.stop();
}

/// Another site's mark says nothing here: who works in an agent of another site, with the token of
/// this one, is the operator. (`wb-agent` and `wiki-browser` send what they are given.)
#[test]
fn g32_the_mark_of_another_site_takes_nothing_from_its_operator() {
    let bench = Bench::new();
    let server = bench.serve();
    let mark = "WB_JOB_ID=018bcfe5-6800-7000-8000-000000000000";
    let status = shell(&format!(
        "cd '{}' && env -i PATH=/usr/bin:/bin {mark} '{}' status --json",
        bench.top,
        env!("CARGO_BIN_EXE_wiki-browser")
    ));
    assert!(serde_json::from_str::<Value>(&status).is_ok(), "{status}");
    server.stop();
}

/// The last two fail with `WB_WITHOUT=agent_peer`.
#[test]
fn g32_no_agent_decides_whatever_it_sends() {
    let bench = Bench::new();
    let fields = "timeout = \"30s\"";
    bench.topic_kind(
        "propose",
        "timeout = \"20s\", produces = \"proposal\"",
        "printf 'new\\n' | propose",
    );
    let decide = "sh \"$BASE/decide.sh\"";
    let operator = "\"$(cat \"$BASE/wiki/data/operator.token\")\"";
    // Without its token, with its own, with a cleared environment, with the operator's; and each of
    // the last two again by a process that got away by killing its guard.
    let clean = "env -i PATH=/usr/bin:/bin BASE=\"$BASE\" OUT=\"$OUT\"";
    let calls = format!(
        "{decide} '' \"$OUT/none\"\n{decide} \"$WB_TOKEN\" \"$OUT/own\"\n\
         {clean} {decide} '' \"$OUT/clean\"\n\
         {decide} {operator} \"$OUT/operator\"\n\
         {clean} {decide} {operator} \"$OUT/clean-operator\"\nexit 0"
    );
    bench.topic_kind("decide", fields, &calls);
    let orphan = format!(
        "{clean} setsid sh -c 'trap \"\" INT TERM HUP; \n\
         : > \"$OUT/deaf\"; (while kill -0 '$PPID' 2>/dev/null; do :; done\n\
         {decide} \"\" \"$OUT/orphan\"\n{decide} \"$(cat \"$BASE/wiki/data/operator.token\")\" \
         \"$OUT/orphan-operator\") &' &\n\
         until [ -e \"$OUT/deaf\" ]; do :; done; kill -KILL $PPID; sleep 30"
    );
    bench.topic_kind("orphan", fields, &orphan);
    bench.limits("jobs = 4, grace = \"1m\"");
    let server = bench.serve();
    let topic = bench.topic("guide.md", "The first line.", "Say it better.");
    let proposal = bench.proposal("propose", &topic);
    decisions(&bench, &proposal, &topic.id);
    let job = bench.ended(&bench.job_on("decide", &topic));
    assert_eq!(job["status"], "succeeded", "{job:#}");
    let lost = bench.job_on("orphan", &topic);
    all_are(&bench, "none", &[("401", "unauthenticated")]);
    all_are(&bench, "own", &[("403", "agent_forbidden")]);
    all_are(&bench, "clean", &[("401", "unauthenticated")]);
    all_are(&bench, "orphan", &[("401", "unauthenticated")]);
    for file in ["operator", "clean-operator", "orphan-operator"] {
        all_are(&bench, file, &[("403", "agent_peer")]);
    }
    assert_eq!(bench.ended(&lost)["reason"], "guard_lost");
    assert_eq!(bench.proposal_status(&proposal), "open");
    assert_eq!(bench.commits().len(), 1);
    let now = bench.get(&format!("/api/topics/{}", topic.id)).ok();
    assert_eq!(now["topic"]["status"], "open");
    server.stop();
}

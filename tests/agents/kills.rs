//! Whatever of an agent in a terminal is killed, at whatever moment: each message is read once or
//! is shown as one of which nobody knows, and nothing is left of what was there.

use serde_json::{Value, json};

use crate::agents::terminal::{Tmux, declare, heard, job_of, kill_process};
use crate::agents::{answer, ask, control, delivery, is_unproven, send, show, wait_state};
use crate::support::{Bench, Server, marked, until};

/// When something is killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Moment {
    /// The message is written down as sent, and nothing of it is typed.
    BeforePaste,
    /// The agent has read it, and nothing has told so.
    BeforeProof,
    MidTurn,
    BetweenTurns,
}

const MOMENTS: [Moment; 4] =
    [Moment::BeforePaste, Moment::BeforeProof, Moment::MidTurn, Moment::BetweenTurns];

/// As long as the program waits for a proof by itself.
const PROVEN: &str = "";
/// A shorter wait, for what is never proven.
const UNPROVEN: &str = "proof_wait = \"6s\",";

/// A site with one agent in a terminal, brought to a moment.
struct Scene {
    /// The first to end: what it logged is in the bench's folder.
    server: Option<Server>,
    bench: Bench,
    tmux: Tmux,
    job: String,
    message: String,
    moment: Moment,
}

impl Scene {
    fn at(moment: Moment, (fields, wait): (&str, &str)) -> Option<Scene> {
        let bench = Bench::new();
        let tmux = Tmux::of(&bench)?;
        let fields = format!("autostart = \"always\", {fields}");
        declare(&bench, "robbo", (&fields, wait));
        let held = bench.out.join("held");
        let env = [("WB_FAIL_AT", "text_claimed"), ("WB_CRASH_WHEN", held.as_str())];
        let server = bench.serve_with(&env);
        wait_state(&bench, "robbo", "idle");
        let told = ask(&bench, "robbo", json!("first"));
        assert_eq!(told["reply"], "again first", "{moment:?}: {told:#}");
        let text = match moment {
            Moment::BeforePaste => "held",
            Moment::BeforeProof => "slow",
            Moment::MidTurn => "wait",
            Moment::BetweenTurns => "second",
        };
        if moment == Moment::BeforePaste {
            std::fs::write(&held, "").unwrap();
        }
        let message = send(&bench, "robbo", json!(text));
        match moment {
            // Sent is not enough: an agent that ends before its typist has looked at its line has
            // nothing typed, and the next start is given the text anew.
            Moment::BeforePaste => until("it is about to be typed", || {
                std::fs::read_to_string(&held).is_ok_and(|it| it == "text_claimed")
            }),
            Moment::BeforeProof => drop(bench.wait_left("taken")),
            Moment::MidTurn => {
                bench.wait_left("waits");
                wait_state(&bench, "robbo", "busy");
            }
            Moment::BetweenTurns => drop(answer(&bench, &message)),
        }
        let job = job_of(&bench);
        Some(Scene { server: Some(server), bench, tmux, job, message, moment })
    }

    fn kill_process(&self, word: &str) {
        kill_process(&self.tmux, &self.job, word);
    }

    /// Fails if anything of the last start is left, if the next one does not work, or if a message
    /// was read twice.
    fn check_anew(self) {
        let (bench, moment) = (&self.bench, self.moment);
        until("nothing is left of it", || marked(&self.job).is_empty());
        until("its start is over", || show(bench, "robbo")["job_id"] != self.job.as_str());
        std::fs::write(bench.out.join("go"), "").unwrap();
        let told = answer(bench, &self.message);
        let (state, reason) = self.told();
        match moment {
            Moment::BetweenTurns => assert_eq!(told["reply"], "again second", "{told:#}"),
            Moment::MidTurn => {
                assert_eq!(told["failure"], "agent:robbo ended before it had answered");
                assert_eq!(state, "confirmed");
            }
            Moment::BeforePaste | Moment::BeforeProof => {
                assert_eq!((state, reason), (json!("unconfirmed"), json!("agent_ended")));
            }
        }
        let read = match moment {
            Moment::BeforePaste => vec!["first"],
            Moment::BeforeProof => vec!["first", "slow"],
            Moment::MidTurn => vec!["first", "wait"],
            Moment::BetweenTurns => vec!["first", "second"],
        };
        self.end(&read);
    }

    /// What became of the message: its state, and the reason if it is open.
    fn told(&self) -> (Value, Value) {
        let found = self.bench.get(&format!("/api/messages/{}", self.message)).ok();
        let it = &found["deliveries"][0];
        (it["state"].clone(), it["reason"].clone())
    }

    /// Fails if the agent, with what it has read so far, is not one that works, or leaves
    /// something.
    fn end(mut self, read: &[&str]) {
        let bench = &self.bench;
        let held = bench.out.join("held");
        if held.exists() {
            std::fs::remove_file(held).unwrap();
        }
        let told = ask(bench, "robbo", json!("after"));
        assert_eq!(told["reply"], "again after", "{:?}: {told:#}", self.moment);
        let all: Vec<&str> = read.iter().copied().chain(["after"]).collect();
        assert_eq!(heard(bench), all, "{:?}", self.moment);
        let last = job_of(bench);
        control(bench, "robbo", "stop").ok();
        wait_state(bench, "robbo", "stopped");
        assert!(marked(&last).is_empty() && self.tmux.sessions().is_empty());
        self.server.take().unwrap().stop();
        until("nothing is left of tmux", || self.tmux.pid().is_empty());
    }
}

fn each_moment(kill: impl Fn(&Scene)) {
    for moment in MOMENTS {
        let Some(scene) = Scene::at(moment, ("", PROVEN)) else { return };
        kill(&scene);
        scene.check_anew();
    }
}

#[test]
fn a_killed_guard_takes_its_agent_with_it_and_no_message_is_read_twice() {
    each_moment(|scene| scene.kill_process("__guard"));
}

#[test]
fn a_killed_agent_is_started_anew_and_no_message_is_read_twice() {
    each_moment(|scene| scene.kill_process("fake_terminal"));
}

#[test]
fn a_killed_terminal_takes_its_agents_with_it_and_no_message_is_read_twice() {
    each_moment(|scene| scene.kill_process("tmux"));
}

/// What is not to start again has failed, whatever of it was killed.
#[test]
fn what_is_killed_and_not_to_start_again_has_failed() {
    for victim in ["__guard", "fake_terminal", "tmux"] {
        let Some(scene) = Scene::at(Moment::MidTurn, ("restart = false", PROVEN)) else { return };
        scene.kill_process(victim);
        let failed = wait_state(&scene.bench, "robbo", "failed");
        let reason = match victim {
            "__guard" => "guard_lost",
            "tmux" => "terminal_lost",
            _ => "signal",
        };
        assert_eq!(failed["reason"], reason, "{failed:#}");
        assert!(marked(&scene.job).is_empty());
        control(&scene.bench, "robbo", "start").ok();
        wait_state(&scene.bench, "robbo", "idle");
        scene.end(&["first", "wait"]);
    }
}

#[test]
fn a_killed_server_ends_no_agent_and_no_message_is_read_twice() {
    for moment in MOMENTS {
        let wait = if moment == Moment::BeforePaste { UNPROVEN } else { PROVEN };
        let Some(mut scene) = Scene::at(moment, ("", wait)) else { return };
        scene.server.take().unwrap().kill();
        std::fs::write(scene.bench.out.join("go"), "").unwrap();
        scene.server = Some(scene.bench.serve());
        let told = answer(&scene.bench, &scene.message);
        let (reply, read) = match moment {
            // Nobody knows whether it was typed.
            Moment::BeforePaste => {
                let open = (json!("unconfirmed"), json!("no_proof"));
                assert_eq!(scene.told(), open, "{told:#}");
                (Value::Null, vec!["first"])
            }
            Moment::BeforeProof => (json!("again slow"), vec!["first", "slow"]),
            Moment::MidTurn => (json!("again wait"), vec!["first", "wait"]),
            Moment::BetweenTurns => (json!("again second"), vec!["first", "second"]),
        };
        assert_eq!(told["reply"], reply, "{told:#}");
        assert_eq!(job_of(&scene.bench), scene.job, "{moment:?}");
        scene.end(&read);
    }
}

/// A hook that dies tells nothing: what it would have told is not made up.
#[test]
fn a_killed_hook_makes_no_message_read_twice() {
    let kill = |scene: &Scene, event: &str| {
        std::fs::write(scene.bench.out.join(format!("kill-{event}")), "").unwrap();
    };
    // The one that proves that a message has been read.
    let Some(scene) = Scene::at(Moment::BetweenTurns, ("", UNPROVEN)) else { return };
    kill(&scene, "UserPromptSubmit");
    let message = send(&scene.bench, "robbo", json!("unseen"));
    let told = answer(&scene.bench, &message);
    assert!(is_unproven(&told), "{told:#}");
    assert_eq!(delivery(&scene.bench, &message).0, "unconfirmed");
    // The one that tells of an answer to a question.
    kill(&scene, "PostToolUse");
    let asked = send(&scene.bench, "robbo", json!("ask"));
    wait_state(&scene.bench, "robbo", "blocked");
    scene.tmux.keys(&["y"]);
    assert_eq!(answer(&scene.bench, &asked)["reply"], "again ask");
    // The one that tells of the end of a turn, and has its last words.
    kill(&scene, "Stop");
    let cut = ask(&scene.bench, "robbo", json!("mute"));
    assert_eq!(cut["failure"], "agent:robbo was interrupted", "{cut:#}");
    assert_eq!(job_of(&scene.bench), scene.job);
    scene.end(&["first", "second", "unseen", "ask", "mute"]);
}

/// The hook dies that tells that an agent can be spoken to: nothing is typed to it before it shows
/// by something else that it can.
#[test]
fn an_agent_whose_first_hook_is_killed_is_given_nothing_before_it_shows_itself() {
    let bench = Bench::new();
    let Some(tmux) = Tmux::of(&bench) else { return };
    declare(&bench, "robbo", ("autostart = \"always\"", ""));
    std::fs::write(bench.out.join("kill-SessionStart"), "").unwrap();
    let server = bench.serve();
    let message = send(&bench, "robbo", json!("hello"));
    let blocked = wait_state(&bench, "robbo", "blocked");
    assert_eq!(blocked["reason"], "asks_start");
    let fix = blocked["problem"]["fix"].as_str().unwrap();
    assert!(fix.contains("wiki-browser agent attach "), "{fix}");
    assert_eq!((delivery(&bench, &message).0, heard(&bench).len()), (json!("queued"), 0));
    tmux.keys(&["-l", "mine"]);
    until("somebody has written in it", || {
        tmux.keys(&["Enter"]);
        heard(&bench).first().is_some_and(|it| it == "mine")
    });
    assert_eq!(answer(&bench, &message)["reply"], "again hello");
    assert_eq!(heard(&bench), ["mine", "hello"]);
    control(&bench, "robbo", "stop").ok();
    wait_state(&bench, "robbo", "stopped");
    server.stop();
}

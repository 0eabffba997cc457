//! Agents in terminals: typed to once, proven by hooks, kept over a restart, ended with their
//! terminal.

#![allow(clippy::disallowed_methods, reason = "a test plays the person at the terminal")]

use std::process::Command;

use serde_json::{Value, json};

use crate::agents::{answer, ask, control, delivery, is_unproven, send, show, wait_state};
use crate::support::fake_terminal::CLEARED;
use crate::support::{Bench, Server, marked, shell, until};

/// The tmux of a site, which ends with the test.
pub(crate) struct Tmux {
    socket: String,
}

impl Tmux {
    /// Returns the tmux of a bench; nothing, and says so, on a machine without the program.
    pub(crate) fn of(bench: &Bench) -> Option<Tmux> {
        if Command::new("tmux").arg("-V").output().is_err() {
            assert!(std::env::var_os("CI").is_none(), "tmux is not installed");
            eprintln!("skipped: tmux is not installed");
            return None;
        }
        Some(Tmux { socket: bench.data.join("run").join("tmux.sock").into_string() })
    }

    /// Runs a command; returns what it printed.
    pub(crate) fn tell(&self, words: &[&str]) -> String {
        let output = Command::new("tmux").args(["-S", &self.socket]).args(words).output().unwrap();
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// Returns the sessions of agents.
    pub(crate) fn sessions(&self) -> Vec<String> {
        let all = self.tell(&["list-sessions", "-F", "#{session_name}"]);
        all.lines().filter(|it| *it != "wb-keeper").map(str::to_owned).collect()
    }

    /// Presses keys in the only pane of an agent.
    pub(crate) fn keys(&self, keys: &[&str]) {
        let session = format!("={}:", self.sessions()[0]);
        self.tell(&[&["send-keys", "-t", &session], keys].concat());
    }

    pub(crate) fn screen(&self) -> String {
        self.tell(&["capture-pane", "-p", "-J", "-t", &format!("={}:", self.sessions()[0])])
    }

    pub(crate) fn pid(&self) -> String {
        self.tell(&["display-message", "-p", "#{pid}"]).trim().to_owned()
    }
}

impl Drop for Tmux {
    fn drop(&mut self) {
        self.tell(&["kill-server"]);
    }
}

/// Returns the fields of an engine whose terminal shows this program.
pub(crate) fn fake(bench: &Bench) -> String {
    let own = std::env::current_exe().unwrap();
    let (own, out) = (own.to_str().unwrap(), &bench.out);
    let run = format!(
        "HOOKS_FILE=$0 exec {own} --exact support::fake_terminal::fake_terminal --nocapture -q"
    );
    format!(
        "  command = {{ \"/bin/sh\", \"-c\", \"{run}\" }}, hooks = {{ \"{{{{hooks_file}}}}\" }},
  env = {{ FAKE_TERMINAL = \"{out}\" }},\n"
    )
}

/// Declares an agent that is this program, called as a terminal's.
pub(crate) fn declare(bench: &Bench, name: &str, (fields, engine): (&str, &str)) {
    let fake = fake(bench);
    bench.lua(&format!(
        r#"wb.engine "{name}" {{
  type = "terminal", input = "❯",
{fake}  {engine}
}}
wb.agent "{name}" {{ about = "A test", engine = "{name}", {fields} }}
"#
    ));
}

pub(crate) fn heard(bench: &Bench) -> Vec<String> {
    bench.left("heard").lines().map(str::to_owned).collect()
}

pub(crate) fn job_of(bench: &Bench) -> String {
    show(bench, "robbo")["job_id"].as_str().unwrap().to_owned()
}

/// Kills the process of a job whose command line holds a word, or the terminal itself.
pub(crate) fn kill_process(tmux: &Tmux, job: &str, word: &str) {
    if word == "tmux" {
        return drop(shell(&format!("kill -KILL {}", tmux.pid())));
    }
    let line = |pid: &i32| std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let is_it = |pid: &i32| String::from_utf8_lossy(&line(pid)).contains(word);
    let found: Vec<i32> = marked(job).into_iter().filter(is_it).collect();
    assert_eq!(found.len(), 1, "{word}: {found:?}");
    shell(&format!("kill -KILL {}", found[0]));
}

/// Ends the agent and then its server, and with that everything.
#[track_caller]
pub(crate) fn wait_end(bench: &Bench, server: Server) {
    control(bench, "robbo", "stop").ok();
    wait_state(bench, "robbo", "stopped");
    server.stop();
}

#[test]
fn what_is_sent_is_typed_and_the_last_words_come_back() {
    let bench = Bench::new();
    let Some(tmux) = Tmux::of(&bench) else { return };
    declare(&bench, "robbo", ("autostart = \"on_message\"", ""));
    let server = bench.serve();
    let message = send(&bench, "robbo", json!("hello"));
    assert_eq!(answer(&bench, &message)["reply"], "again hello");
    assert_eq!(delivery(&bench, &message), (json!("confirmed"), json!("turn")));
    // What could press a key or end the paste does neither, and its line is marked; a long text
    // comes whole.
    let strange = "b\ra\u{1b}[201~ ‹wb:01998d4e-6c1a-7f00-8000-000000000001› c;";
    let plain = "\\a[201~ <wb:01998d4e-6c1a-7f00-8000-000000000001› c;";
    assert_eq!(ask(&bench, "robbo", json!(strange))["reply"], format!("again {plain}"));
    let long = "long ".repeat(800);
    let reply = ask(&bench, "robbo", json!(long));
    assert_eq!(reply["reply"], format!("again {long}"), "{reply:#}");
    // A longer one is in a file, whose name is typed.
    ask(&bench, "robbo", json!("longer ".repeat(2_000)));
    let job = job_of(&bench);
    let last = heard(&bench).pop().unwrap();
    let file = last.rsplit(' ').next().unwrap();
    assert!(
        file.contains(&job) && std::fs::read_to_string(file).unwrap().contains("longer longer")
    );
    // So is one into which the program would put files that it names.
    for text in ["see @/etc/passwd please", "look\n/tmp/a picture.PNG\nplease"] {
        ask(&bench, "robbo", json!(text));
        let last = heard(&bench).pop().unwrap();
        assert!(!last.contains(text.lines().next_back().unwrap()), "{last}");
        let file = last.rsplit(' ').next().unwrap();
        assert!(std::fs::read_to_string(file).unwrap().contains(text), "{last}");
    }
    // It ends by itself: its screen is kept, its pane is not.
    send(&bench, "robbo", json!("end"));
    wait_state(&bench, "robbo", "stopped");
    until("its pane is gone", || tmux.sessions().is_empty());
    let screen = bench.data.join("jobs").join(&job).join("screen");
    assert!(std::fs::read_to_string(screen).unwrap().contains('❯'));
    assert!(marked(&job).is_empty());
    server.stop();
    until("nothing is left of tmux", || tmux.pid().is_empty());
}

#[test]
fn nothing_is_typed_over_a_draft_a_dialog_or_somebody_who_reads_back() {
    let bench = Bench::new();
    let Some(tmux) = Tmux::of(&bench) else { return };
    declare(&bench, "robbo", ("autostart = \"always\"", ""));
    let server = bench.serve();
    wait_state(&bench, "robbo", "idle");
    let session = format!("={}:", tmux.sessions()[0]);
    let held = |why: &str| {
        until(why, || show(&bench, "robbo")["reason"] == format!("held_{why}"));
    };
    tmux.keys(&["-l", "my own words"]);
    until("they are there", || tmux.screen().contains("my own words"));
    let message = send(&bench, "robbo", json!("over a draft"));
    held("draft");
    assert_eq!(delivery(&bench, &message).0, "queued");
    assert!(tmux.screen().contains("❯ my own words"), "{}", tmux.screen());
    tmux.keys(&["C-u"]);
    assert_eq!(answer(&bench, &message)["reply"], "again over a draft");
    tmux.tell(&["copy-mode", "-t", &session]);
    let message = send(&bench, "robbo", json!("read back"));
    held("mode");
    tmux.tell(&["send-keys", "-t", &session, "-X", "cancel"]);
    assert_eq!(answer(&bench, &message)["reply"], "again read back");
    tmux.tell(&["select-pane", "-d", "-t", &session]);
    let message = send(&bench, "robbo", json!("input off"));
    held("input_off");
    tmux.tell(&["select-pane", "-e", "-t", &session]);
    assert_eq!(answer(&bench, &message)["reply"], "again input off");
    // A question keeps everything else waiting; no key of ours answers it.
    let asked = send(&bench, "robbo", json!("ask"));
    let blocked = wait_state(&bench, "robbo", "blocked");
    assert_eq!(blocked["reason"], "asks_permission");
    let after = send(&bench, "robbo", json!("after"));
    tmux.keys(&["y"]);
    assert_eq!(answer(&bench, &asked)["reply"], "again ask");
    assert_eq!(answer(&bench, &after)["reply"], "again after");
    let all = ["over a draft", "read back", "input off", "ask", "after"];
    assert_eq!(heard(&bench), all);
    server.stop();
    assert_eq!(control_of(&bench, "stop"), "stopped");
}

/// What a person has cleared does not come back, and what was said since is not forgotten.
#[test]
fn a_session_that_was_cleared_is_not_resumed() {
    let bench = Bench::new();
    let Some(_tmux) = Tmux::of(&bench) else { return };
    let told = "echo $0 >> $FAKE_TERMINAL/sessions; HOOKS_FILE=$1 exec";
    let fake = fake(&bench).replace("HOOKS_FILE=$0 exec", told);
    bench.lua(&format!(
        r#"wb.engine "robbo" {{
  type = "terminal", input = "❯",
{fake}  session = {{ "{{{{session}}}}" }}, resume = {{ "resumes-{{{{session}}}}" }},
}}
wb.agent "robbo" {{ about = "A test", engine = "robbo", autostart = "always" }}
"#
    ));
    let server = bench.serve();
    let session = || show(&bench, "robbo")["session"].clone();
    let restarted = |count: usize| {
        wait_state(&bench, "robbo", "idle");
        control(&bench, "robbo", "restart").ok();
        until("it runs again", || bench.left("sessions").lines().count() == count);
        wait_state(&bench, "robbo", "idle");
        bench.left("sessions").lines().last().unwrap().to_owned()
    };
    wait_state(&bench, "robbo", "idle");
    ask(&bench, "robbo", json!("hello"));
    let first = bench.left("sessions").trim().to_owned();
    assert_eq!(session(), first);
    assert_eq!(restarted(2), format!("resumes-{first}"));
    // Nothing was said since: there is nothing to go on with.
    ask(&bench, "robbo", json!("clear"));
    until("it has cleared its session", || session().is_null());
    let second = restarted(3);
    assert!(!second.contains(&first) && !second.contains(CLEARED), "{second}");
    ask(&bench, "robbo", json!("clear"));
    until("it has cleared its session", || session().is_null());
    ask(&bench, "robbo", json!("after"));
    assert_eq!(session(), CLEARED);
    assert_eq!(restarted(4), format!("resumes-{CLEARED}"));
    wait_end(&bench, server);
}

/// Ends the agent by a further server.
fn control_of(bench: &Bench, verb: &str) -> Value {
    let server = bench.serve();
    control(bench, "robbo", verb).ok();
    let state = wait_state(bench, "robbo", "stopped")["state"].clone();
    server.stop();
    state
}

#[test]
fn a_turn_that_is_interrupted_ends_and_the_next_one_is_not_glued_to_it() {
    let bench = Bench::new();
    let Some(_tmux) = Tmux::of(&bench) else { return };
    declare(&bench, "robbo", ("autostart = \"always\"", ""));
    let server = bench.serve();
    let message = send(&bench, "robbo", json!("cut"));
    wait_state(&bench, "robbo", "busy");
    until("it works", || control(&bench, "robbo", "interrupt").status == 200);
    let cut = answer(&bench, &message);
    assert_eq!(cut["failure"], "agent:robbo was interrupted", "{cut:#}");
    assert_eq!(ask(&bench, "robbo", json!("next"))["reply"], "again next");
    assert_eq!(heard(&bench), ["cut", "next"]);
    server.stop();
    control_of(&bench, "stop");
}

#[test]
fn an_agent_in_a_terminal_outlives_its_server_and_reads_nothing_twice() {
    for point in ["", "block_claimed", "text_claimed", "text_pasted"] {
        let bench = Bench::new();
        let Some(tmux) = Tmux::of(&bench) else { return };
        declare(&bench, "robbo", ("autostart = \"always\"", ""));
        let mut server = match point {
            "" => bench.serve(),
            point => bench.serve_with(&[("WB_CRASH_AT", point)]),
        };
        wait_state(&bench, "robbo", "idle");
        let job = job_of(&bench);
        bench.send_into_crash("agent:robbo", json!("wait"));
        match point {
            "" => {
                bench.wait_left("waits");
                server.kill();
            }
            _ => drop(server.wait()),
        }
        std::fs::write(bench.out.join("go"), "").unwrap();
        let server = bench.serve();
        let message = bench.newest_message("agent:robbo");
        // What may have been typed and is not seen is never typed again.
        let told = answer_or_unconfirmed(&bench, &message, point);
        assert_eq!(told, point != "text_claimed", "{point}");
        assert_eq!(heard(&bench), if told { vec!["wait"] } else { vec![] }, "{point}");
        assert_eq!((job_of(&bench), tmux.sessions().len()), (job, 1), "{point}");
        control(&bench, "robbo", "stop").ok();
        wait_state(&bench, "robbo", "stopped");
        server.stop();
    }
}

/// Waits for the answer of a message, or until it is given up; whether there is one.
fn answer_or_unconfirmed(bench: &Bench, message: &str, point: &str) -> bool {
    if point == "text_claimed" {
        // Its wait is a minute: that it is not typed again is all that counts here.
        until("it is taken over", || show(bench, "robbo")["state"] == "idle");
        return delivery(bench, message).0 != "sent";
    }
    assert_eq!(answer(bench, message)["reply"], "again wait", "{point}");
    true
}

#[test]
fn a_terminal_that_is_gone_is_no_fault_of_the_agent_which_starts_again() {
    let bench = Bench::new();
    let Some(tmux) = Tmux::of(&bench) else { return };
    declare(&bench, "robbo", ("autostart = \"always\"", ""));
    let server = bench.serve();
    assert_eq!(ask(&bench, "robbo", json!("before"))["reply"], "again before");
    let job = job_of(&bench);
    Command::new("kill").args(["-9", &tmux.pid()]).status().unwrap();
    until("its start has ended", || {
        bench.get(&format!("/api/agent/jobs/{job}")).ok()["reason"] == "terminal_lost"
    });
    assert!(marked(&job).is_empty());
    assert_eq!(ask(&bench, "robbo", json!("after"))["reply"], "again after");
    assert_ne!(job_of(&bench), job);
    control(&bench, "robbo", "stop").ok();
    wait_state(&bench, "robbo", "stopped");
    server.stop();
}

/// What never arrived, as far as anybody knows, is a person's to decide.
#[test]
fn what_no_hook_proves_is_sent_again_by_a_person_only() {
    let bench = Bench::new();
    let Some(_tmux) = Tmux::of(&bench) else { return };
    declare(&bench, "robbo", ("autostart = \"always\"", "proof_wait = \"2s\","));
    let server = bench.serve();
    wait_state(&bench, "robbo", "idle");
    let lost = |verb: &str| {
        let before = heard(&bench).len();
        let message = send(&bench, "robbo", json!("deaf"));
        until("it is given up", || delivery(&bench, &message).0 == "unconfirmed");
        // It may be given up before it is typed, if the machine is slow.
        until("it is read", || heard(&bench).len() > before);
        assert_eq!(show(&bench, "robbo")["unconfirmed"], 1);
        let decided = bench.post(&format!("/api/messages/{message}/{verb}"), json!({}));
        assert_eq!(decided.status, 200, "{decided:?}");
        assert_eq!(show(&bench, "robbo")["unconfirmed"], 0);
        let again = bench.post(&format!("/api/messages/{message}/{verb}"), json!({}));
        assert_eq!(
            (again.status, again.body["error"]["code"].as_str()),
            (409, Some("not_unconfirmed"))
        );
        message
    };
    let settled = lost("settle");
    assert_eq!(delivery(&bench, &settled), (json!("confirmed"), json!("person")));
    let again = lost("resend");
    let deliveries = || bench.get(&format!("/api/messages/{again}")).ok()["deliveries"].clone();
    assert_eq!(deliveries()[0]["reason"], "resent");
    until("it is given once more", || deliveries()[1]["state"] == "unconfirmed");
    until("it is read again", || heard(&bench).len() > 2);
    assert_eq!(heard(&bench), ["deaf", "deaf", "deaf"]);
    let awaited = bench.get(&format!("/api/messages/{again}/await?timeout=0")).ok();
    assert!(awaited["state"] == "failed" && awaited["failure"] != "resent", "{awaited:#}");
    // What it shows is seen without sitting down at it.
    let peek = bench.get("/api/agents/robbo/peek?lines=10").ok();
    assert_eq!(peek["is_live"], true);
    assert!(peek["output"].as_str().unwrap().contains('❯'), "{peek:#}");
    assert_eq!(show(&bench, "robbo")["attach"][0], "tmux");
    assert_eq!(bench.get("/api/agents/robbo/peek?lines=0").status, 400);
    control(&bench, "robbo", "stop").ok();
    wait_state(&bench, "robbo", "stopped");
    assert_eq!(bench.get("/api/agents/robbo/peek").ok()["is_live"], false);
    server.stop();
}

/// Sends many messages to several terminals that stall now and then, and kills the server when half
/// of them are answered.
fn many(agents: usize, messages: usize) {
    let bench = Bench::new();
    let Some(_tmux) = Tmux::of(&bench) else { return };
    let names: Vec<String> = (0..agents).map(|it| format!("robbo{it}")).collect();
    let engine = "proof_wait = \"15s\",";
    names.iter().for_each(|it| declare(&bench, it, ("autostart = \"always\"", engine)));
    let server = bench.serve();
    let mut sent = Vec::new();
    for number in 0..messages {
        for name in &names {
            // Short ones, and some that are shown as a placeholder.
            let text = format!("{name} {number} {}", "x".repeat(number % 7 * 200));
            sent.push((send(&bench, name, json!(text)), text));
        }
    }
    answer(&bench, &sent[sent.len() / 2].0);
    server.kill();
    let server = bench.serve();
    let trimmed = |it: &str| it.trim_end().to_owned();
    let is_heard = |text: &str| heard(&bench).iter().any(|it| trimmed(it) == trimmed(text));
    let mut given_up = Vec::new();
    for (message, text) in &sent {
        let told = answer(&bench, message);
        if is_unproven(&told) {
            // It was about to be typed when the server ended: a person looks.
            let verb = if is_heard(text) { "settle" } else { "resend" };
            bench.post(&format!("/api/messages/{message}/{verb}"), json!({})).ok();
            given_up.push(text);
            continue;
        }
        assert_eq!(told["reply"], format!("again {text}"));
    }
    assert!(given_up.len() <= agents, "{given_up:?}");
    until("what was sent again is read", || given_up.iter().all(|it| is_heard(it)));
    let mut told: Vec<String> = sent.iter().map(|it| trimmed(&it.1)).collect();
    let mut heard: Vec<String> = heard(&bench).iter().map(|it| trimmed(it)).collect();
    told.sort();
    heard.sort();
    assert_eq!(heard, told, "each exactly once");
    for name in &names {
        wait_state(&bench, name, "idle");
        control(&bench, name, "stop").ok();
        wait_state(&bench, name, "stopped");
    }
    server.stop();
}

#[test]
fn each_of_80_messages_to_8_terminals_is_read_once_over_a_kill() {
    many(8, 10);
}

#[test]
#[ignore = "long: 400 messages to 8 terminals; its shorter sibling has 80"]
fn each_of_400_messages_to_8_terminals_is_read_once_over_a_kill() {
    many(8, 50);
}

#[test]
fn no_secret_stands_on_a_screen_that_people_see() {
    let bench = Bench::new();
    let Some(_tmux) = Tmux::of(&bench) else { return };
    let file = bench.base.join("agents/shows.sh");
    let shows = r#"printf 'TOKEN %s\nDEPLOY %s\n' "$WB_TOKEN" "$DEPLOY_TOKEN"
printf 'OLD %s\n❯ \n' "$OF_FILE"
printf '%s\n' "$WB_TOKEN" > "$OUT/t"
mv "$OUT/t" "$OUT/token"
exec cat > /dev/null
"#;
    std::fs::write(&file, shows).unwrap();
    let key = bench.base.join("key");
    std::fs::write(&key, "old-of-a-file\n").unwrap();
    let out = &bench.out;
    bench.lua(&format!(
        r#"wb.engine "tom" {{
  type = "terminal", command = {{ "/bin/sh", "{file}" }}, input = "❯",
  hooks = {{ "{{{{hooks_file}}}}" }},
  env = {{ OUT = "{out}", DEPLOY_TOKEN = "dpl-SECRET-1234",
          OF_FILE = wb.secret.file "{key}" }},
}}
wb.agent "tom" {{ about = "A test", engine = "tom" }}
"#
    ));
    let server = bench.serve();
    until("the agent is known", || bench.get("/api/agents/tom").status == 200);
    control(&bench, "tom", "start").ok();
    let peek = || bench.get("/api/agents/tom/peek").ok()["output"].as_str().unwrap().to_owned();
    until("it is shown", || peek().contains("DEPLOY "));
    let token = bench.wait_left("token");
    let seen = peek();
    assert!(seen.contains(&format!("TOKEN {}", "*".repeat(token.trim().len()))), "{seen}");
    assert!(seen.contains("DEPLOY ***************\n"), "{seen}");
    let page = bench.get("/agents/tom").body.to_string();
    assert!(
        page.contains("DEPLOY") && !page.contains("dpl-SECRET") && !page.contains(token.trim())
    );
    // What a file held before is still a secret.
    assert!(seen.contains("OLD *************\n"), "{seen}");
    std::fs::write(&key, "new-of-a-file\n").unwrap();
    assert!(peek().contains("OLD *************\n"), "{}", peek());
    let job = bench.get("/api/agents/tom").ok()["job_id"].as_str().unwrap().to_owned();
    control(&bench, "tom", "stop").ok();
    wait_state(&bench, "tom", "stopped");
    assert!(peek().contains("DEPLOY ***************\n"));
    let kept = std::fs::read_to_string(bench.data.join("jobs").join(job).join("screen")).unwrap();
    assert!(!kept.contains("dpl-SECRET") && !kept.contains(token.trim()), "{kept}");
    server.stop();
}

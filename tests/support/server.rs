//! One run of the real server.

use std::fs::File;
use std::net::SocketAddr;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use camino::Utf8PathBuf;
use serde_json::Value;

use crate::support::look::{Patience, until, within};
use crate::support::site::Bench;
use crate::support::wire::{Call, connect};

/// A server that runs until it is told to end, or dropped.
pub(crate) struct Server {
    child: Child,
    data: Utf8PathBuf,
    log: Utf8PathBuf,
}

impl Server {
    /// Starts a server without waiting for it. Its environment is clean but for what is given.
    #[allow(clippy::disallowed_methods, reason = "a test plays the operator in a terminal")]
    pub(crate) fn spawn(bench: &Bench, env: &[(&str, &str)]) -> Server {
        let mut command = Command::new(env!("CARGO_BIN_EXE_wiki-browser"));
        command.arg("serve");
        Server::run(bench, command, env)
    }

    /// The same with a soft and a hard limit of descriptors.
    #[allow(clippy::disallowed_methods, reason = "a test plays the operator in a terminal")]
    pub(crate) fn spawn_within(bench: &Bench, soft: u32, hard: u32) -> Server {
        let mut command = Command::new("/bin/sh");
        let line = format!("ulimit -Sn {soft} && ulimit -Hn {hard} && exec \"$0\" serve");
        command.args(["-c", &line, env!("CARGO_BIN_EXE_wiki-browser")]);
        Server::run(bench, command, &[])
    }

    /// The same in a shell that has done something before; it becomes the server.
    #[allow(clippy::disallowed_methods, reason = "a test plays the operator in a terminal")]
    pub(crate) fn spawn_after(bench: &Bench, before: &str) -> Server {
        let mut command = Command::new("/bin/sh");
        let line = format!("{before}\nexec \"$0\" serve");
        command.args(["-c", &line, env!("CARGO_BIN_EXE_wiki-browser")]);
        Server::run(bench, command, &[])
    }

    /// The same as another user, to whom all of the site belongs from then on.
    #[allow(clippy::disallowed_methods, reason = "a test plays the operator in a terminal")]
    pub(crate) fn spawn_as(bench: &Bench, uid: u32) -> Server {
        use std::os::unix::process::CommandExt as _;
        // The folder of the build may be closed to others.
        let programs = bench.base.join("bin");
        let built =
            [env!("CARGO_BIN_EXE_wiki-browser"), env!("CARGO_BIN_EXE_wb-agent")].join("' '");
        let base = &bench.base;
        shell(&format!(
            "mkdir -p {programs}; cp '{built}' {programs}; \
             chown -R {uid}:{uid} {base}; chmod 755 {base}"
        ));
        let mut command = Command::new(programs.join("wiki-browser"));
        command.arg("serve").uid(uid).gid(uid);
        Server::run(bench, command, &[])
    }

    fn run(bench: &Bench, mut command: Command, env: &[(&str, &str)]) -> Server {
        let log = bench.next_log();
        let file = File::create(&log).unwrap();
        command.current_dir(&bench.top).env_clear();
        command.env("PATH", "/usr/local/bin:/usr/bin:/bin").env("HOME", &bench.base);
        command.env("USER", "ada").env("WB_LOG", "info").env("WB_TESTING", "1");
        // So that any of these tests can be run with a mechanism left out.
        if let Ok(off) = std::env::var("WB_WITHOUT") {
            command.env("WB_WITHOUT", off);
        }
        command.envs(env.iter().copied());
        command.stdin(Stdio::null());
        command.stdout(file.try_clone().unwrap()).stderr(file);
        Server { child: command.spawn().unwrap(), data: bench.data.clone(), log }
    }

    /// Waits until it serves.
    #[track_caller]
    pub(crate) fn ready(mut self) -> Server {
        let mut exit = None;
        let is_ready = within(Patience::MAX, || {
            exit = self.child.try_wait().unwrap();
            exit.is_some() || self.is_ready()
        });
        assert!(is_ready && exit.is_none(), "{exit:?}: {}", self.log());
        self
    }

    fn is_ready(&self) -> bool {
        let is_ours = self.facts().is_some_and(|it| it["pid"] == self.child.id());
        let call = Call::get("/readyz");
        is_ours && call.try_socket(&self.data.join("wb.sock")).is_some_and(|it| it.status == 200)
    }

    /// Returns what `server.json` says.
    pub(crate) fn facts(&self) -> Option<Value> {
        serde_json::from_slice(&std::fs::read(self.data.join("server.json")).ok()?).ok()
    }

    /// Returns the address of the page.
    pub(crate) fn address(&self) -> SocketAddr {
        self.facts().unwrap()["address"].as_str().unwrap().parse().unwrap()
    }

    /// Returns the server's process id.
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Returns all that it has said, on both outputs.
    pub(crate) fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap()
    }

    /// Sends it a signal.
    pub(crate) fn signal(&self, name: &str) {
        shell(&format!("kill -{name} {}", self.child.id()));
    }

    /// Kills it without a word, and waits until nobody listens on its socket.
    pub(crate) fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
        // A program that it was just starting has the socket until its execve: a command that
        // connects then has met a server that goes away, and waits for the next one.
        let socket = self.data.join("wb.sock");
        until("nobody listens on its socket", || connect(&socket).is_none());
    }

    /// Waits for its end; returns how it ended and how long that took.
    #[track_caller]
    pub(crate) fn wait(&mut self) -> (ExitStatus, Duration) {
        let start = Instant::now();
        let mut status = None;
        let is_over = within(Patience::MAX, || {
            status = self.child.try_wait().unwrap();
            status.is_some()
        });
        assert!(is_over, "the server runs on: {}", self.log());
        (status.unwrap(), start.elapsed())
    }

    /// Ends it in an orderly way.
    #[track_caller]
    pub(crate) fn stop(mut self) {
        self.signal("TERM");
        let (status, _) = self.wait();
        assert!(status.success(), "{status:?}: {}", self.log());
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended already; then there is nothing to kill.
        let _ = self.child.kill();
        let _ = self.child.wait();
        if std::thread::panicking() {
            // Its folder may be gone already; a second panic would end the tests of everybody.
            let log = std::fs::read_to_string(&self.log).unwrap_or_else(|it| it.to_string());
            eprintln!("--- log of the server\n{log}");
        }
    }
}

/// Runs a line of shell.
#[allow(clippy::disallowed_methods, reason = "a test plays a person in a terminal")]
#[track_caller]
pub(crate) fn shell(line: &str) -> String {
    let output = Command::new("/bin/sh").args(["-c", line]).output().unwrap();
    assert!(output.status.success(), "{line}: {output:?}");
    String::from_utf8_lossy(&output.stdout).trim_end().to_owned()
}

//! Both programs with a running server: output, errors, and behavior in a terminal.

use std::fs::File;
use std::process::{Child, Command as Process, Stdio};

use assert_cmd::Command;
use camino::Utf8PathBuf;
use serde_json::Value;

use super::{envelope, wb_agent, wiki_browser};
use crate::support::{Bench, Patience, shell, wait_for, within};

/// Fields of a kind that proposes and is alone on its Source.
pub(crate) const PROPOSES: &str = "timeout = \"20s\", lane = \"source_path\", \
    on_busy = \"reject\", produces = \"proposal\"";
/// An agent that proposes a line more than there was.
pub(crate) const ADDS_A_LINE: &str = "{ cat \"$root/$path\"; echo 'One more.'; } | propose";

/// Returns the operator's program on a site.
pub(crate) fn operator(bench: &Bench, args: &[&str]) -> Command {
    let mut command = wiki_browser(bench.top.as_std_path());
    command.args(args);
    command
}

/// Runs the operator's program to a success; returns what it printed.
#[track_caller]
pub(crate) fn said(bench: &Bench, args: &[&str]) -> String {
    text(&operator(bench, args).assert().success().get_output().stdout)
}

/// Runs the operator's program to a refusal, for a person and for a program; returns the envelope.
#[track_caller]
pub(crate) fn refused(bench: &Bench, args: &[&str], exit: i32, code: &str) -> Value {
    let assert = operator(bench, args).assert().code(exit).stdout("");
    let words = text(&assert.get_output().stderr);
    assert!(words.starts_with("error: "), "{args:?}: {words}");
    let assert = operator(bench, args).arg("--json").assert().code(exit).stdout("");
    let error = envelope(&assert.get_output().stderr);
    assert_eq!(error["code"], code, "{args:?}: {error}");
    let hint = error["hint"].as_str().unwrap_or_default();
    assert!(!hint.is_empty(), "{args:?}: what does the operator do next? {error}");
    let message = error["message"].as_str().unwrap();
    assert!(words.contains(message), "{args:?}: {message} is not in {words}");
    error
}

/// Returns the agents' program with a token, outside of any job.
pub(crate) fn with_token(bench: &Bench, token: &str, args: &[&str]) -> Command {
    let mut command = wb_agent(bench.top.as_std_path());
    command.env("WB_TOKEN", token).env("WB_SOCKET", bench.socket()).args(args);
    command
}

pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// Runs the operator's program in a terminal of so many columns, with keys already pressed; returns
/// exit code and screen.
pub(crate) fn in_terminal(
    bench: &Bench,
    columns: usize,
    line: &str,
    env: &[(&str, &str)],
    keys: &str,
) -> (i32, String) {
    let program = env!("CARGO_BIN_EXE_wiki-browser");
    let line = format!("stty cols {columns} rows 40; exec '{program}' {line}");
    let mut command = Command::new("script");
    command.args(["-qec", &line, "/dev/null"]).current_dir(&bench.top);
    command.env_clear().env("PATH", "/usr/local/bin:/usr/bin:/bin").env("TERM", "xterm");
    command.env("SHELL", "/bin/sh").env("LANG", "C.UTF-8").envs(env.iter().copied());
    let output = command.write_stdin(keys).timeout(Patience::MAX).output().unwrap();
    let screen = String::from_utf8_lossy(&output.stdout).replace("\r\n", "\n");
    (output.status.code().unwrap_or(-1), screen)
}

/// The operator's program, running beside the test; it is killed when it is dropped.
pub(crate) struct Running {
    child: Child,
    out: Utf8PathBuf,
    err: Utf8PathBuf,
}

impl Running {
    #[allow(clippy::disallowed_methods, reason = "a test plays the operator in a terminal")]
    pub(crate) fn new(bench: &Bench, args: &[&str]) -> Running {
        let log = bench.next_log();
        let (out, err) = (log.with_extension("out"), log.with_extension("err"));
        // A background job of a script starts its children with SIGINT ignored.
        let mut command = Process::new("env");
        command.args(["--default-signal=INT", env!("CARGO_BIN_EXE_wiki-browser")]);
        command.args(args).current_dir(&bench.top).env_clear().env("PATH", "/usr/bin:/bin");
        command.stdin(Stdio::null());
        command.stdout(File::create(&out).unwrap()).stderr(File::create(&err).unwrap());
        Running { child: command.spawn().unwrap(), out, err }
    }

    pub(crate) fn out(&self) -> String {
        std::fs::read_to_string(&self.out).unwrap()
    }

    pub(crate) fn err(&self) -> String {
        std::fs::read_to_string(&self.err).unwrap()
    }

    /// Waits until it has said something on standard error.
    #[track_caller]
    pub(crate) fn wait_err(&self, words: &str) {
        let is_said = within(Patience::MAX, || self.err().contains(words));
        assert!(is_said, "never said {words:?}: {}", self.err());
    }

    /// Sends it a signal.
    pub(crate) fn signal(&self, name: &str) {
        shell(&format!("kill -{name} {}", self.child.id()));
    }

    /// Waits for its end and returns the exit code.
    #[track_caller]
    pub(crate) fn wait(&mut self) -> Option<i32> {
        wait_for("the command ends", || self.child.try_wait().unwrap()).code()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended already; then there is nothing to kill.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

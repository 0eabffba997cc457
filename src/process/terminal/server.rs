//! The tmux server of a site: found, or started when the first agent needs a terminal.

use std::os::unix::fs::DirBuilderExt as _;
use std::sync::Arc;
use std::time::Duration;

use camino::{Utf8Path, Utf8PathBuf};
use tokio::process::Command;
use tokio::sync::OnceCell;

use crate::base::{Context, Error, ErrorKind, Result};
use crate::process::run::{Output, Run, run, which};
use crate::process::tree::Children;

/// Oldest tmux that supports environment variables per pane.
const OLDEST: (u32, u32) = (3, 2);
/// Timeout of one command.
const COMMAND_MAX: Duration = Duration::from_secs(5);
/// Timeout for a tmux server to answer after its start.
const START_MAX: Duration = Duration::from_secs(5);
/// Polling interval while it starts.
const START_EVERY: Duration = Duration::from_millis(10);
/// Largest output of one command: a screen with all its scrollback.
const OUTPUT_BYTES_MAX: usize = 8 * 1024 * 1024;
/// Longest path of a socket.
const SOCKET_BYTES_MAX: usize = 107;
/// The session that keeps tmux alive without agents.
const KEEPER: &str = "wb-keeper";
/// Options set when the tmux server starts.
const OPTIONS: [[&str; 4]; 6] = [
    ["set-option", "-s", "exit-empty", "off"],
    ["set-option", "-g", "remain-on-exit", "on"],
    ["set-option", "-s", "extended-keys", "off"],
    ["set-option", "-g", "history-limit", "5000"],
    ["set-option", "-g", "default-terminal", "screen-256color"],
    ["set-option", "-s", "escape-time", "50"],
];

/// The tmux server of a site; a cheap handle.
#[derive(Clone, Debug)]
pub struct Terminals(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    children: Children,
    socket: Utf8PathBuf,
    /// The `PATH` for finding programs.
    path: String,
    env: Vec<(String, String)>,
    program: OnceCell<Utf8PathBuf>,
    /// Serializes starting it.
    starting: tokio::sync::Mutex<()>,
}

impl Terminals {
    /// Returns the terminals of a site; nothing starts before a pane is needed. Only variables that
    /// every terminal needs are taken from `env`.
    pub fn new(children: Children, data: &Utf8Path, env: &[(String, String)]) -> Terminals {
        let value = |name: &str| env.iter().find(|it| it.0 == name).map(|it| it.1.clone());
        let path = value("PATH").unwrap_or_else(|| "/usr/bin:/bin".to_owned());
        let kept = ["HOME", "USER", "LOGNAME", "SHELL", "TZ"];
        let mut own: Vec<(String, String)> =
            kept.iter().filter_map(|it| Some(((*it).to_owned(), value(it)?))).collect();
        // Whatever the server's locale: the screen is UTF-8.
        own.push(("LC_ALL".to_owned(), "C.UTF-8".to_owned()));
        own.push(("TERM".to_owned(), "screen-256color".to_owned()));
        own.push(("PATH".to_owned(), path.clone()));
        Terminals(Arc::new(Shared {
            children,
            socket: data.join("run").join("tmux.sock"),
            path,
            env: own,
            program: OnceCell::new(),
            starting: tokio::sync::Mutex::default(),
        }))
    }

    /// Returns the command with which a person attaches to a pane.
    pub fn attach(&self, session: &str) -> Vec<String> {
        let socket = self.0.socket.as_str();
        ["tmux", "-S", socket, "attach-session", "-t", &format!("={session}")]
            .map(str::to_owned)
            .to_vec()
    }

    /// Returns why terminals are not available on this machine, if they are not.
    pub async fn missing(&self) -> Option<Error> {
        self.program().await.err()
    }

    /// Ends the site's tmux server, if it was used and no agent is left in it.
    pub async fn close_if_unused(&self) {
        if self.0.program.get().is_none() {
            return;
        }
        let closed = async {
            let sessions = self.tell(&["list-sessions", "-F", "#{session_name}"]).await?;
            match sessions.lines().all(|it| it == KEEPER) {
                true => self.tell(&["kill-server"]).await.map(drop),
                false => Ok(()),
            }
        };
        if let Err(cause) = closed.await {
            tracing::debug!("the tmux of this site: {}", cause.chain());
        }
    }

    /// Starts the site's tmux server, if none answers.
    pub(in crate::process) async fn ensure(&self) -> Result<()> {
        let program = self.program().await?;
        let _one = self.0.starting.lock().await;
        let asked = self.ask(&["has-session", "-t", &format!("={KEEPER}")]).await?;
        if asked.code == 0 {
            return Ok(());
        }
        let words = said(&asked);
        if words.contains("version") {
            return Err(Error::conflict(
                "terminal_version",
                format!("the tmux of this site: {words}"),
            )
            .hint("it is of an older start: end its agents, and then it"));
        }
        if !words.contains("find session") {
            self.start(program)?;
        }
        self.set_up().await
    }

    /// Returns the program and the socket with which any process reaches the site's tmux server.
    pub(super) async fn place(&self) -> Result<(&Utf8Path, &Utf8Path)> {
        Ok((self.program().await?, &self.0.socket))
    }

    /// Runs one tmux command list and returns its output.
    pub(in crate::process) async fn tell(&self, words: &[&str]) -> Result<String> {
        self.tell_with(words, Vec::new()).await
    }

    /// Like [`Terminals::tell`], with standard input.
    pub(in crate::process) async fn tell_with(
        &self,
        words: &[&str],
        input: Vec<u8>,
    ) -> Result<String> {
        let output = self.ask_with(words, input).await?;
        match output.code {
            0 => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
            _ => Err(Error::unavailable(format!("tmux: {}", said(&output))).code("terminal")),
        }
    }

    /// Returns the program, which is located and checked for its version once.
    async fn program(&self) -> Result<&Utf8PathBuf> {
        self.0.program.get_or_try_init(|| self.find()).await
    }

    async fn find(&self) -> Result<Utf8PathBuf> {
        let Some(program) = which("tmux", &self.0.path, Utf8Path::new("/")) else {
            return Err(Error::unavailable("program `tmux` not found")
                .code("no_terminal")
                .hint("install tmux 3.2 or newer: agents in terminals live in it"));
        };
        if self.0.socket.as_str().len() > SOCKET_BYTES_MAX {
            let message = format!("{} is too long for the path of a socket", self.0.socket);
            return Err(Error::unavailable(message)
                .code("no_terminal")
                .hint("move the site's data folder to a shorter path"));
        }
        let asked = self.run(&program, vec!["-V".to_owned()], Vec::new()).await?;
        let text = String::from_utf8_lossy(&asked.stdout).trim().to_owned();
        match version(&text) {
            Some(found) if found >= OLDEST => Ok(program),
            _ => Err(Error::unavailable(format!("{program} is `{text}`"))
                .code("no_terminal")
                .hint("install tmux 3.2 or newer: agents in terminals live in it")),
        }
    }

    /// Starts the program as a child that outlives this server: nothing waits for it.
    fn start(&self, program: &Utf8Path) -> Result<()> {
        let cannot = || format!("cannot start {program}");
        if let Some(folder) = self.0.socket.parent() {
            let mut made = std::fs::DirBuilder::new();
            let made = made.recursive(true).mode(0o700).create(folder);
            made.context(ErrorKind::Unavailable, || format!("cannot make {folder}"))?;
        }
        #[allow(clippy::disallowed_methods, reason = "process owns every spawn")]
        let mut command = Command::new(program);
        command
            .args(["-D", "-S", self.0.socket.as_str(), "-f", "/dev/null"])
            .current_dir("/")
            .env_clear()
            .envs(self.0.env.iter().map(|(name, value)| (name, value)))
            .stdin(std::process::Stdio::null())
            .stdout(std::process::Stdio::null())
            .stderr(std::process::Stdio::null())
            .process_group(0);
        self.0.children.spawn(&mut command).context(ErrorKind::Unavailable, cannot)?;
        Ok(())
    }

    /// Waits until it answers, and sets the site's options.
    async fn set_up(&self) -> Result<()> {
        let deadline = tokio::time::Instant::now() + START_MAX;
        let mut words: Vec<&str> = Vec::new();
        for option in &OPTIONS {
            words.extend(option);
            words.push(";");
        }
        words.extend(["new-session", "-d", "-s", KEEPER, "--", "sleep", "infinity"]);
        loop {
            match self.tell(&words).await {
                Ok(_) => return Ok(()),
                Err(cause) if tokio::time::Instant::now() > deadline => return Err(cause),
                Err(_) => tokio::time::sleep(START_EVERY).await,
            }
        }
    }

    async fn ask(&self, words: &[&str]) -> Result<Output> {
        self.ask_with(words, Vec::new()).await
    }

    async fn ask_with(&self, words: &[&str], input: Vec<u8>) -> Result<Output> {
        let program = self.program().await?;
        let own = ["-u", "-S", self.0.socket.as_str()];
        let args = own.iter().chain(words).map(|it| (*it).to_owned()).collect();
        self.run(program, args, input).await
    }

    async fn run(&self, program: &Utf8Path, args: Vec<String>, stdin: Vec<u8>) -> Result<Output> {
        let run_it = Run {
            program: program.to_owned(),
            args: args.into_iter().map(Into::into).collect(),
            cwd: "/".into(),
            env: self.0.env.clone(),
            stdin,
            timeout: COMMAND_MAX,
            output_bytes_max: OUTPUT_BYTES_MAX,
        };
        run(&self.0.children, run_it).await
    }
}

fn said(output: &Output) -> String {
    let words = String::from_utf8_lossy(&output.stderr);
    match words.trim() {
        "" => format!("it exited {}", output.code),
        words => words.to_owned(),
    }
}

/// Parses `tmux 3.3a`, `tmux next-3.5`.
fn version(text: &str) -> Option<(u32, u32)> {
    let number = text.strip_prefix("tmux ")?.trim_start_matches("next-");
    let (major, rest) = number.split_once('.')?;
    let minor: String = rest.chars().take_while(char::is_ascii_digit).collect();
    Some((major.parse().ok()?, minor.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_is_read_by_its_numbers() {
        assert_eq!(version("tmux 3.3a"), Some((3, 3)));
        assert_eq!(version("tmux next-3.5"), Some((3, 5)));
        assert_eq!(version("tmux 2.9"), Some((2, 9)));
        assert_eq!(version("screen 4"), None);
        assert!(version("tmux 3.1c").is_some_and(|it| it < OLDEST));
    }
}

//! One tmux pane: its screen, pasting, and key presses.

use camino::Utf8Path;

use crate::base::{Error, Result, fault};
use crate::process::terminal::Terminals;
use crate::process::terminal::brackets::{IN_BRACKETS, command};
use crate::process::terminal::screen::{FORM, Screen};
use crate::process::terminal::text::presses_keys;

/// Stands before the screen in what tmux prints.
const SCREEN: &str = "wb-screen";
/// Most lines of a screen, scrollback included.
const LINES_MAX: u32 = 1_000;

/// A pane with a guard in it; a cheap handle.
#[derive(Clone, Debug)]
pub struct Pane {
    terminals: Terminals,
    session: String,
    /// Its tmux id, which a tmux server never reuses.
    id: String,
    /// The process that tmux started in it.
    pid: i32,
}

/// The outcome of pasting a text or pressing a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pasted {
    /// The program's terminal has received it.
    Done,
    /// Nothing was written: the pane was not the intended one, or does not accept input now.
    Refused,
}

/// The state of a pane.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PaneState {
    /// Whether its process has ended.
    pub is_dead: bool,
    /// Whether somebody is in copy mode.
    pub is_in_mode: bool,
    /// Whether input to it is disabled.
    pub is_input_off: bool,
    /// When somebody attached last pressed a key, in seconds since 1970.
    pub typed_at: Option<i64>,
}

impl Pane {
    /// Starts a program in a new pane. `env` is visible in the process list and must not contain
    /// secrets. `watcher` is the program of the process that watches whether it takes pastes in
    /// brackets.
    ///
    /// # Errors
    /// `unavailable`, with code `no_terminal` if no suitable tmux is installed.
    pub async fn start(
        terminals: &Terminals,
        (session, watcher): (&str, &Utf8Path),
        cwd: &str,
        env: &[(&str, &str)],
        argv: &[&str],
    ) -> Result<Pane> {
        terminals.ensure().await?;
        let pairs: Vec<String> =
            env.iter().map(|(name, value)| format!("{name}={value}")).collect();
        let (size, form) = (["-x", "200", "-y", "50"], "#{pane_id} #{pane_pid}");
        let mut words = vec!["new-session", "-d", "-P", "-F", form, "-s", session];
        words.extend(size);
        words.extend(["-c", cwd]);
        pairs.iter().for_each(|it| words.extend(["-e", it]));
        words.push("--");
        words.extend(argv);
        // In the same list: nothing has been printed by then.
        let (tmux, socket) = terminals.place().await?;
        let (target, watch) = (format!("={session}:"), command(watcher, tmux, socket));
        words.extend([";", "pipe-pane", "-O", "-t", &target, &watch]);
        let said = terminals.tell(&words).await?;
        Pane::read(terminals, session, &said)
    }

    /// Returns the pane of a session in which this process was started.
    ///
    /// # Errors
    /// `unavailable` if tmux does not answer.
    pub async fn find(terminals: &Terminals, session: &str, pid: i32) -> Result<Pane> {
        let form = "#{pane_id} #{pane_pid}";
        let target = format!("={session}:");
        let said = terminals.tell(&["list-panes", "-t", &target, "-F", form]).await?;
        let panes = said.lines().filter_map(|it| Pane::read(terminals, session, it).ok());
        let found = panes.into_iter().find(|it| it.pid == pid);
        found.ok_or_else(|| {
            Error::unavailable(format!("process {pid} has no pane")).code("terminal")
        })
    }

    fn read(terminals: &Terminals, session: &str, said: &str) -> Result<Pane> {
        let parts = said.trim().split_once(' ');
        let read = parts.and_then(|(id, pid)| Some((id.to_owned(), pid.parse().ok()?)));
        let (id, pid) = read.ok_or_else(|| Error::internal(format!("tmux says `{said}`")))?;
        Ok(Pane { terminals: terminals.clone(), session: session.to_owned(), id, pid })
    }

    /// Returns the process that was started in it.
    pub fn pid(&self) -> i32 {
        self.pid
    }

    /// Returns its state.
    ///
    /// # Errors
    /// `unavailable` if the pane or tmux is gone.
    pub async fn standing(&self) -> Result<PaneState> {
        let clients = format!("={}", self.session);
        let said = self.terminals.tell(&self.asking_state(&clients)).await?;
        self.state(said.lines())
    }

    /// Returns its state and its screen, of one moment.
    ///
    /// # Errors
    /// Same as [`Pane::standing`].
    pub async fn sight(&self) -> Result<(PaneState, Screen)> {
        let clients = format!("={}", self.session);
        let mut words = self.asking_state(&clients).to_vec();
        words.extend([";", "display-message", "-p", SCREEN, ";"]);
        words.extend(self.asking_screen());
        let said = self.terminals.tell(&words).await?;
        // Before it are numbers only.
        let (state, screen) = said.split_once(&format!("\n{SCREEN}\n")).unwrap_or_default();
        Ok((self.state(state.lines())?, Screen::read(screen)?))
    }

    /// Returns its screen, with the colors that mark hints.
    ///
    /// # Errors
    /// Same as [`Pane::standing`].
    pub async fn screen(&self) -> Result<Screen> {
        Screen::read(&self.terminals.tell(&self.asking_screen()).await?)
    }

    /// Returns the command list that prints its screen.
    fn asking_screen(&self) -> [&str; 18] {
        #[rustfmt::skip]
        let words = [
            "display-message", "-p", "-t", &self.id, FORM, ";",
            "capture-pane", "-p", "-N", "-t", &self.id, ";",
            "capture-pane", "-p", "-J", "-e", "-t", &self.id,
        ];
        words
    }

    /// Returns the command list that prints its state, and when each client was used last.
    fn asking_state<'a>(&'a self, clients: &'a str) -> [&'a str; 11] {
        let form = "#{pane_dead} #{pane_in_mode} #{pane_input_off} #{pane_pid}";
        let used = "#{client_activity}";
        #[rustfmt::skip]
        let words = [
            "display-message", "-p", "-t", &self.id, form, ";",
            "list-clients", "-t", clients, "-F", used,
        ];
        words
    }

    fn state<'a>(&self, mut lines: impl Iterator<Item = &'a str>) -> Result<PaneState> {
        let words: Vec<&str> = lines.next().unwrap_or_default().split(' ').collect();
        let [dead, mode, input_off, pid] = words[..] else {
            return Err(Error::unavailable("the pane is gone").code("terminal"));
        };
        Ok(PaneState {
            is_dead: dead == "1" || pid != self.pid.to_string(),
            is_in_mode: mode != "0",
            is_input_off: input_off == "1",
            typed_at: lines.filter_map(|it| it.trim().parse().ok()).max(),
        })
    }

    /// Returns the last lines, also of what has left the screen, as plain text.
    ///
    /// # Errors
    /// Same as [`Pane::standing`].
    pub async fn last_lines(&self, lines: u32) -> Result<String> {
        let start = format!("-{}", lines.min(LINES_MAX));
        let mut words = vec!["capture-pane", "-p", "-J", "-t", &self.id];
        if lines > 0 {
            words.extend(["-S", &start]);
        }
        self.terminals.tell(&words).await
    }

    /// Returns whether its program takes what is pasted in brackets now.
    ///
    /// # Errors
    /// Same as [`Pane::standing`].
    pub async fn is_bracketed(&self) -> Result<bool> {
        let words = ["display-message", "-p", "-t", &self.id, IN_BRACKETS];
        Ok(self.terminals.tell(&words).await?.trim() == "1")
    }

    /// Pastes a text, if the pane is the intended one and accepts input, and in brackets if
    /// anything in it could press a key.
    ///
    /// # Errors
    /// Same as [`Pane::standing`]; it is then unknown whether the text was written.
    pub async fn paste(&self, name: &str, text: &str) -> Result<Pasted> {
        let buffer = format!("wb-{name}");
        let refuse = format!("display-message -p REFUSED ; delete-buffer -b {buffer}");
        let paste =
            format!("paste-buffer -p -r -d -b {buffer} -t {} ; display-message -p PASTED", self.id);
        let is_other = match presses_keys(text) {
            true => format!("#{{||:{},#{{!=:{IN_BRACKETS},1}}}}", self.is_other()),
            false => self.is_other(),
        };
        let is_other = if fault::is_off("pane_guard") { "0" } else { is_other.as_str() };
        let words = [
            "load-buffer",
            "-b",
            &buffer,
            "-",
            ";",
            "if-shell",
            "-F",
            "-t",
            &self.id,
            is_other,
            &refuse,
            &paste,
        ];
        Ok(outcome(&self.terminals.tell_with(&words, text.as_bytes().to_vec()).await?))
    }

    /// Presses a key, by its tmux name, if the pane accepts input.
    ///
    /// # Errors
    /// Same as [`Pane::standing`].
    pub async fn press(&self, key: &str) -> Result<Pasted> {
        let (is_other, refuse) = (self.is_other(), "display-message -p REFUSED");
        let press = format!("send-keys -t {} {key} ; display-message -p PASTED", self.id);
        let words = ["if-shell", "-F", "-t", &self.id, &is_other, refuse, &press];
        Ok(outcome(&self.terminals.tell(&words).await?))
    }

    /// Ends copy mode, in which the program gets no key.
    ///
    /// # Errors
    /// Same as [`Pane::standing`].
    pub async fn leave_mode(&self) -> Result<()> {
        self.terminals.tell(&["copy-mode", "-q", "-t", &self.id]).await.map(drop)
    }

    /// Returns the tmux condition under which nothing is written to it.
    fn is_other(&self) -> String {
        format!(
            "#{{||:#{{pane_dead}},#{{||:#{{!=:#{{pane_in_mode}},0}},\
             #{{||:#{{pane_input_off}},#{{!=:#{{pane_pid}},{}}}}}}}}}",
            self.pid
        )
    }

    /// Removes it with its session; its process gets SIGHUP.
    ///
    /// # Errors
    /// Same as [`Pane::standing`].
    pub async fn close(&self) -> Result<()> {
        self.terminals.tell(&["kill-session", "-t", &format!("={}", self.session)]).await.map(drop)
    }
}

/// Returns whether tmux has written what it was told to.
fn outcome(said: &str) -> Pasted {
    match said.contains("PASTED") {
        true => Pasted::Done,
        false => Pasted::Refused,
    }
}

//! The only place that starts git: what it may read, run and print, and for how long.
//!
//! **Invariant:** nothing named by the repository's configuration is run: no hook, monitor, helper,
//! pager, signer or transport, because our settings win; and no filter, because calls that could
//! start one read only our configuration (`settings.rs`), even if it changes meanwhile.
//! **Invariant:** it is not started where it would wait for ever (`special.rs`).
//! **Invariant:** no variable of this program's environment that begins with `GIT_` reaches git.

use std::sync::Arc;
use std::time::Duration;

use camino::{Utf8Path, Utf8PathBuf};
use tokio::sync::Semaphore;

use crate::base::{Context, Error, ErrorKind, Result, truncate_chars};
use crate::documents::git::failure::failure;
use crate::documents::git::reach::Reach;
use crate::documents::git::settings::Settings;
use crate::documents::git::special::{Gate, ended_at_special};
use crate::process::{COMMAND_NOT_STARTED, COMMAND_TIMEOUT, Children, Run, run};

/// Timeout of a call that only reads.
const READ_TIMEOUT: Duration = Duration::from_secs(60);
/// Timeout of a call that writes: it syncs files, and the disk may be slow.
const WRITE_TIMEOUT: Duration = Duration::from_secs(120);
/// Output limit of a call with a short answer.
const ANSWER_BYTES_MAX: usize = crate::base::limit::GIT_ANSWER_BYTES_MAX;
/// Characters kept of git's error messages.
const SAID_CHARS_MAX: usize = 600;

/// Settings that override every configuration file. Only `core.fsync` is stricter than the default:
/// what was approved survives a power cut.
const SETTINGS: &[&str] = &[
    "core.hooksPath=/dev/null",
    "core.fsmonitor=false",
    "core.fsync=all",
    "core.checkStat=default",
    // Its claims about commits and their trees are never compared with the objects.
    "core.commitGraph=false",
    "gc.auto=0",
    "maintenance.auto=false",
    "commit.gpgSign=false",
    "log.showSignature=false",
    "log.follow=false",
    "log.mailmap=false",
    "i18n.commitEncoding=UTF-8",
    "i18n.logOutputEncoding=UTF-8",
    "core.commentChar=#",
    "trailer.separators=:",
    "submodule.recurse=false",
    "status.submoduleSummary=false",
    "diff.ignoreSubmodules=all",
    "protocol.allow=never",
    "advice.objectNameWarning=false",
    "core.alternateRefsCommand=:",
];

/// Environment of every call. `GIT_CONFIG_NOSYSTEM` is *not* set and `HOME` is kept: there the
/// operator declares which repositories of other owners are safe (`safe.directory`). Anything that
/// those files, or the repository's own, hostile one, could make git run is disabled by the
/// settings above.
const ENVIRONMENT: &[(&str, &str)] = &[
    ("LC_ALL", "C"),
    ("GIT_TERMINAL_PROMPT", "0"),
    ("GIT_NO_LAZY_FETCH", "1"),
    ("GIT_NO_REPLACE_OBJECTS", "1"),
    // A path where no file can be: for an existing file git warns that grafts are deprecated.
    ("GIT_GRAFT_FILE", "/dev/null/none"),
    ("GIT_LITERAL_PATHSPECS", "1"),
    ("GIT_ALLOW_PROTOCOL", ""),
    ("GIT_PAGER", "cat"),
    ("GIT_EDITOR", ":"),
    ("GIT_ASKPASS", ":"),
];

/// Most concurrent git processes.
const CALLS_MAX: usize = crate::base::limit::GIT_CALLS_MAX;

/// Variables of this program's environment that git gets as well.
const KEPT: &[&str] = &["HOME", "XDG_CONFIG_HOME", "PATH", "USER", "LOGNAME", "TMPDIR"];

/// The git program, its working folder and its environment.
#[derive(Clone)]
pub(in crate::documents) struct Git {
    program: Utf8PathBuf,
    folder: Utf8PathBuf,
    environment: Vec<(String, String)>,
    children: Children,
    slots: Arc<Semaphore>,
    /// Absent until the repository is known.
    gate: Option<Arc<Gate>>,
}

/// A call under construction.
pub(in crate::documents) struct Call<'a> {
    git: &'a Git,
    args: Vec<String>,
    environment: Vec<(String, String)>,
    stdin: Vec<u8>,
    writes: bool,
    bytes_max: usize,
    time_max: Option<Duration>,
}

/// Git's answer; the caller judges the exit code.
pub(in crate::documents) struct Answer {
    /// The exit code.
    pub(in crate::documents) code: i32,
    /// Its standard output.
    pub(in crate::documents) stdout: Vec<u8>,
    /// The beginning of its standard error.
    pub(in crate::documents) said: String,
    what: String,
}

impl Git {
    /// Returns a git that runs in `folder` and discovers its repository there.
    pub(in crate::documents) fn new(
        program: Utf8PathBuf,
        folder: &Utf8Path,
        children: Children,
    ) -> Git {
        let kept = KEPT
            .iter()
            .filter_map(|name| std::env::var(name).ok().map(|value| ((*name).to_owned(), value)));
        let fixed =
            ENVIRONMENT.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        let mark = children.site_mark().map(|(name, site)| (name.to_owned(), site.to_owned()));
        let environment = kept.chain(fixed).chain(mark).collect();
        let slots = Arc::new(Semaphore::new(CALLS_MAX));
        Git { program, folder: folder.to_owned(), environment, children, slots, gate: None }
    }

    /// Returns a git with fixed repository and working tree, so that neither is discovered again,
    /// `core.worktree` cannot move the tree, and a new `commondir` not the repository.
    pub(in crate::documents) fn within(
        mut self,
        (git_dir, common): (&Utf8Path, &Utf8Path),
        work_tree: &Utf8Path,
    ) -> Git {
        self.folder = work_tree.to_owned();
        self.environment.push(("GIT_DIR".to_owned(), git_dir.to_string()));
        self.environment.push(("GIT_COMMON_DIR".to_owned(), common.to_string()));
        self.environment.push(("GIT_WORK_TREE".to_owned(), work_tree.to_string()));
        self.gate = Some(Arc::new(Gate::new(work_tree, git_dir, common)));
        self
    }

    /// Returns what looks before git is started; absent until the repository is known.
    pub(in crate::documents) fn gate(&self) -> Option<&Gate> {
        self.gate.as_deref()
    }

    /// Returns its working folder: the top of the working tree.
    pub(in crate::documents) fn folder(&self) -> &Utf8Path {
        &self.folder
    }

    /// Returns the program and the registry of its processes.
    pub(in crate::documents) fn program(&self) -> (Utf8PathBuf, Children) {
        (self.program.clone(), self.children.clone())
    }

    /// Starts a call.
    pub(in crate::documents) fn call(&self, args: &[&str]) -> Call<'_> {
        Call {
            git: self,
            args: args.iter().map(|it| (*it).to_owned()).collect(),
            environment: Vec::new(),
            stdin: Vec::new(),
            writes: false,
            bytes_max: ANSWER_BYTES_MAX,
            time_max: None,
        }
    }

    /// Returns whether no call is running.
    #[cfg(test)]
    pub(super) fn is_idle(&self) -> bool {
        self.slots.available_permits() == CALLS_MAX
    }

    /// Returns a variable that every call gets.
    pub(in crate::documents) fn variable(&self, name: &str) -> Option<&str> {
        let found = self.environment.iter().find(|(it, _)| it == name);
        found.map(|(_, value)| value.as_str())
    }
}

impl Call<'_> {
    /// Adds an argument.
    pub(in crate::documents) fn arg(mut self, arg: impl Into<String>) -> Self {
        self.args.push(arg.into());
        self
    }

    /// Overrides a git setting, given as `name=value`.
    pub(in crate::documents) fn set(mut self, setting: &str) -> Self {
        self.args.splice(0..0, ["-c".to_owned(), setting.to_owned()]);
        self
    }

    /// Sets the standard input.
    pub(in crate::documents) fn stdin(mut self, bytes: impl Into<Vec<u8>>) -> Self {
        self.stdin = bytes.into();
        self
    }

    /// Adds a variable to the environment.
    pub(in crate::documents) fn env(mut self, name: &str, value: impl Into<String>) -> Self {
        self.environment.push((name.to_owned(), value.into()));
        self
    }

    /// Marks the call as writing: it may take locks, and has a longer timeout.
    pub(in crate::documents) fn writing(mut self) -> Self {
        self.writes = true;
        self
    }

    /// Sets the output limit.
    pub(in crate::documents) fn output_max(mut self, bytes_max: usize) -> Self {
        self.bytes_max = bytes_max;
        self
    }

    /// Sets a shorter timeout.
    pub(in crate::documents) fn within(mut self, time_max: Duration) -> Self {
        self.time_max = Some(time_max);
        self
    }

    /// Restricts the call to these settings, without any other configuration: for every call that
    /// reads, writes or compares working files, and could therefore start a filter.
    pub(in crate::documents) fn on_files(mut self, settings: &Settings) -> Self {
        self.environment.extend_from_slice(settings.environment());
        self
    }

    /// Runs the call.
    ///
    /// # Errors
    /// `unavailable` if git cannot be started or times out, with code `special_file` if it would
    /// wait for ever; `too_large` if it prints too much.
    pub(in crate::documents) async fn run(self) -> Result<Answer> {
        let (git, reach) = (self.git, Reach::of(&self.args));
        let Some(gate) = git.gate() else { return self.start().await };
        let mut found = gate.found(reach);
        gate.pass(git, reach, false).await?;
        if self.writes {
            // A killed one leaves its locks.
            return self.start().await;
        }
        // The look may be old, and what a job made meanwhile would be waited for.
        tokio::select! {
            answer = Box::pin(self.start()) => answer,
            () = found.wait() => {
                gate.pass(git, reach, true).await?;
                Err(ended_at_special())
            }
        }
    }

    /// Starts git, and waits for its end.
    async fn start(self) -> Result<Answer> {
        let slot = Arc::clone(&self.git.slots).acquire_owned().await;
        let _slot = slot.context(ErrorKind::Unavailable, || "the server is stopping".to_owned())?;
        let what = self.args.chunks(2).find(|it| it[0] != "-c").map(|it| it[0].clone());
        let what = what.unwrap_or_default();
        let mut args = vec!["--no-pager".to_owned()];
        for setting in SETTINGS {
            args.extend(["-c".to_owned(), (*setting).to_owned()]);
        }
        args.extend(self.args);
        let mut env = self.git.environment.clone();
        if !self.writes {
            env.push(("GIT_OPTIONAL_LOCKS".to_owned(), "0".to_owned()));
        }
        env.extend(self.environment);
        let usual = if self.writes { WRITE_TIMEOUT } else { READ_TIMEOUT };
        let timeout = self.time_max.unwrap_or(usual);
        let output = run(
            &self.git.children,
            Run {
                program: self.git.program.clone(),
                args: args.into_iter().map(Into::into).collect(),
                cwd: self.git.folder.clone(),
                env,
                stdin: self.stdin,
                timeout,
                output_bytes_max: self.bytes_max,
            },
        )
        .await
        .map_err(|cause| match cause.code_str() {
            COMMAND_NOT_STARTED => Error::unavailable("git cannot be started")
                .code("git_missing")
                .hint("install git, or put it back where it was when the server started")
                .source(cause),
            COMMAND_TIMEOUT => {
                let seconds = timeout.as_secs();
                Error::unavailable(format!("git {what} did not answer within {seconds} s"))
                    .code(COMMAND_TIMEOUT)
                    .hint("is there a very large file in the working tree, or is the disk slow?")
                    .source(cause)
            }
            _ => cause,
        })?;
        let said = truncate_chars(&String::from_utf8_lossy(&output.stderr), SAID_CHARS_MAX);
        Ok(Answer { code: output.code, stdout: output.stdout, said, what })
    }

    /// Runs the call and returns its output.
    ///
    /// # Errors
    /// Same as [`Call::run`] and [`Answer::ok`].
    pub(in crate::documents) async fn output(self) -> Result<Vec<u8>> {
        self.run().await?.ok()
    }

    /// Runs the call and returns its output as text, without the final line break.
    ///
    /// # Errors
    /// Same as [`Call::output`]; `internal` if it is not UTF-8.
    pub(in crate::documents) async fn line(self) -> Result<String> {
        self.run().await?.line()
    }
}

impl Answer {
    /// Returns the output of a successful call.
    ///
    /// # Errors
    /// The meaning of git's failure.
    pub(in crate::documents) fn ok(self) -> Result<Vec<u8>> {
        match self.code {
            0 => Ok(self.stdout),
            _ => Err(self.failure()),
        }
    }

    /// Returns the output of a successful call as text, without the final line break.
    ///
    /// # Errors
    /// Same as [`Answer::ok`]; `internal` if it is not UTF-8.
    pub(in crate::documents) fn line(self) -> Result<String> {
        let what = self.what.clone();
        let text = String::from_utf8(self.ok()?).map_err(|cause| {
            Error::internal(format!("git {what} printed output that is not UTF-8")).source(cause)
        })?;
        Ok(text.strip_suffix('\n').unwrap_or(&text).to_owned())
    }

    /// Returns the meaning of this call's failure.
    pub(in crate::documents) fn failure(&self) -> Error {
        failure(&self.what, self.code, &self.said)
    }
}

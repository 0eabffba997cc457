//! The one place from which git is started: what it may read, run and print, and for how long.
//!
//! **Invariant:** nothing that the repository's configuration names when a call begins is run: no
//! hook, monitor, filter, helper, pager, signer or transport. (Filters are switched off by name: a
//! process of our own uid that changes the configuration between the look and the call wins that
//! race. Only the sandbox, which makes `.git` read-only for agents, can close it.)
//! **Invariant:** nothing of this program's environment that begins with `GIT_` reaches git.

use std::sync::Arc;
use std::time::Duration;

use camino::{Utf8Path, Utf8PathBuf};
use tokio::sync::Semaphore;

use crate::base::{Context, Error, ErrorKind, Result, truncate_chars};
use crate::process::{Children, Run, run};

/// How long a call that only reads may take.
const READ_TIMEOUT: Duration = Duration::from_secs(60);
/// How long a call that writes may take; it syncs files, and the disk may be slow.
const WRITE_TIMEOUT: Duration = Duration::from_secs(120);
/// Output of a call whose answer is short.
const ANSWER_BYTES_MAX: usize = crate::base::limit::GIT_ANSWER_BYTES_MAX;
/// Kept part of what git said when it failed, in characters.
const SAID_CHARS_MAX: usize = 600;

/// Settings that win over every file of configuration. `core.fsync` is the only one that asks for
/// more than the default: what was approved survives a power cut.
const SETTINGS: &[&str] = &[
    "core.hooksPath=/dev/null",
    "core.fsmonitor=false",
    "core.fsync=all",
    "core.checkStat=default",
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

/// Environment of every call. `GIT_CONFIG_NOSYSTEM` is *not* set and `HOME` is kept: the operator
/// says there which repositories of other owners are safe (`safe.directory`). What those files and
/// the repository's own, which is hostile, may make git run is taken out by the settings above.
const ENVIRONMENT: &[(&str, &str)] = &[
    ("LC_ALL", "C"),
    ("GIT_TERMINAL_PROMPT", "0"),
    ("GIT_NO_LAZY_FETCH", "1"),
    ("GIT_NO_REPLACE_OBJECTS", "1"),
    ("GIT_LITERAL_PATHSPECS", "1"),
    ("GIT_ALLOW_PROTOCOL", ""),
    ("GIT_PAGER", "cat"),
    ("GIT_EDITOR", ":"),
    ("GIT_ASKPASS", ":"),
];

/// Most git processes at one time, whoever asks.
const CALLS_MAX: usize = crate::base::limit::GIT_CALLS_MAX;

/// Names of this program's environment that git gets too.
const KEPT: &[&str] = &["HOME", "XDG_CONFIG_HOME", "PATH", "USER", "LOGNAME", "TMPDIR"];

/// The program, the folder in which it runs and what it is told about the repository.
#[derive(Clone)]
pub(in crate::documents) struct Git {
    program: Utf8PathBuf,
    folder: Utf8PathBuf,
    environment: Vec<(String, String)>,
    children: Children,
    slots: Arc<Semaphore>,
}

/// A call that is being put together.
pub(in crate::documents) struct Call<'a> {
    git: &'a Git,
    args: Vec<String>,
    settings: Vec<&'static str>,
    environment: Vec<(String, String)>,
    stdin: Vec<u8>,
    writes: bool,
    bytes_max: usize,
}

/// What git answered; whether the code is a failure is the caller's to judge.
pub(in crate::documents) struct Answer {
    /// The exit code.
    pub(in crate::documents) code: i32,
    /// Its standard output.
    pub(in crate::documents) stdout: Vec<u8>,
    /// Its standard error, in part.
    pub(in crate::documents) said: String,
    what: String,
}

impl Git {
    /// Returns a git that runs in `folder` and looks for its repository there.
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
        let environment = kept.chain(fixed).collect();
        let slots = Arc::new(Semaphore::new(CALLS_MAX));
        Git { program, folder: folder.to_owned(), environment, children, slots }
    }

    /// Returns a git that is told where its repository and working tree are, so that neither is
    /// searched again and `core.worktree` cannot move the tree elsewhere.
    pub(in crate::documents) fn within(mut self, git_dir: &str, work_tree: &Utf8Path) -> Git {
        self.folder = work_tree.to_owned();
        self.environment.push(("GIT_DIR".to_owned(), git_dir.to_owned()));
        self.environment.push(("GIT_WORK_TREE".to_owned(), work_tree.to_string()));
        self
    }

    /// Returns the folder in which it runs: the top of the working tree.
    pub(in crate::documents) fn folder(&self) -> &Utf8Path {
        &self.folder
    }

    /// Starts to put a call together.
    pub(in crate::documents) fn call(&self, args: &[&str]) -> Call<'_> {
        Call {
            git: self,
            args: args.iter().map(|it| (*it).to_owned()).collect(),
            settings: SETTINGS.to_vec(),
            environment: Vec::new(),
            stdin: Vec::new(),
            writes: false,
            bytes_max: ANSWER_BYTES_MAX,
        }
    }

    /// Returns the settings that take out every content filter and configured hook, for calls that
    /// could otherwise start one. Git has no switch for all of them, so they are named one by one.
    async fn defused(&self) -> Result<Vec<(String, String)>> {
        let asked = self
            .call(&["config", "--null", "--name-only", "--get-regexp", r"^(filter|hook)\."])
            .output_max(1024 * 1024);
        let answer = asked.run().await?;
        if answer.code == 1 {
            return Ok(Vec::new());
        }
        let mut settings = Vec::new();
        for key in answer.ok()?.split(|byte| *byte == 0).filter(|it| !it.is_empty()) {
            let Ok(key) = std::str::from_utf8(key) else {
                return Err(Error::conflict(
                    "content_filter",
                    "git's configuration names a filter that is not UTF-8",
                ));
            };
            let Some((section, _)) = key.rsplit_once('.') else { continue };
            let values: &[(&str, &str)] = if section.starts_with("filter.") {
                &[("clean", ""), ("smudge", ""), ("process", ""), ("required", "false")]
            } else {
                &[("enabled", "false")]
            };
            for (name, value) in values {
                settings.push((format!("{section}.{name}"), (*value).to_owned()));
            }
        }
        settings.sort();
        settings.dedup();
        Ok(numbered(settings))
    }
}

/// Writes settings as environment: a name may hold `=`, which `-c` could not say.
fn numbered(settings: Vec<(String, String)>) -> Vec<(String, String)> {
    let mut environment = vec![("GIT_CONFIG_COUNT".to_owned(), settings.len().to_string())];
    for (at, (key, value)) in settings.into_iter().enumerate() {
        environment.push((format!("GIT_CONFIG_KEY_{at}"), key));
        environment.push((format!("GIT_CONFIG_VALUE_{at}"), value));
    }
    environment
}

impl Call<'_> {
    /// Adds an argument.
    pub(in crate::documents) fn arg(mut self, arg: impl Into<String>) -> Self {
        self.args.push(arg.into());
        self
    }

    /// Sets what git reads.
    pub(in crate::documents) fn stdin(mut self, bytes: impl Into<Vec<u8>>) -> Self {
        self.stdin = bytes.into();
        self
    }

    /// Adds a setting that wins over every file of configuration.
    pub(in crate::documents) fn set(mut self, setting: &'static str) -> Self {
        self.settings.push(setting);
        self
    }

    /// Adds a variable to the environment.
    pub(in crate::documents) fn env(mut self, name: &str, value: impl Into<String>) -> Self {
        self.environment.push((name.to_owned(), value.into()));
        self
    }

    /// Says that the call writes: it may take locks, and it may take longer.
    pub(in crate::documents) fn writing(mut self) -> Self {
        self.writes = true;
        self
    }

    /// Sets how much the call may print.
    pub(in crate::documents) fn output_max(mut self, bytes_max: usize) -> Self {
        self.bytes_max = bytes_max;
        self
    }

    /// Takes out content filters first: for every call that reads or writes working files.
    pub(in crate::documents) async fn defused(mut self) -> Result<Self> {
        let settings = self.git.defused().await?;
        self.environment.extend(settings);
        Ok(self)
    }

    /// Runs the call to its end.
    ///
    /// # Errors
    /// `unavailable` if git cannot be started or does not end, `too_large` if it prints too much.
    pub(in crate::documents) async fn run(self) -> Result<Answer> {
        let slot = Arc::clone(&self.git.slots).acquire_owned().await;
        let _slot = slot.context(ErrorKind::Unavailable, || "the server is stopping".to_owned())?;
        let what = self.args.first().cloned().unwrap_or_default();
        let mut args = vec!["--no-pager".to_owned()];
        for setting in self.settings {
            args.extend(["-c".to_owned(), setting.to_owned()]);
        }
        args.extend(self.args);
        let mut env = self.git.environment.clone();
        if !self.writes {
            env.push(("GIT_OPTIONAL_LOCKS".to_owned(), "0".to_owned()));
        }
        env.extend(self.environment);
        let output = run(
            &self.git.children,
            Run {
                program: self.git.program.clone(),
                args: args.into_iter().map(Into::into).collect(),
                cwd: self.git.folder.clone(),
                env,
                stdin: self.stdin,
                timeout: if self.writes { WRITE_TIMEOUT } else { READ_TIMEOUT },
                output_bytes_max: self.bytes_max,
            },
        )
        .await?;
        let said = truncate_chars(&String::from_utf8_lossy(&output.stderr), SAID_CHARS_MAX);
        Ok(Answer { code: output.code, stdout: output.stdout, said, what })
    }

    /// Runs the call and returns its output.
    ///
    /// # Errors
    /// As [`Call::run`], and as [`Answer::ok`].
    pub(in crate::documents) async fn output(self) -> Result<Vec<u8>> {
        self.run().await?.ok()
    }

    /// Runs the call and returns its output as text without the last line's end.
    ///
    /// # Errors
    /// As [`Call::output`]; `internal` if it is not UTF-8.
    pub(in crate::documents) async fn line(self) -> Result<String> {
        self.run().await?.line()
    }
}

impl Answer {
    /// Returns the output of a call that succeeded.
    ///
    /// # Errors
    /// What git's failure means.
    pub(in crate::documents) fn ok(self) -> Result<Vec<u8>> {
        match self.code {
            0 => Ok(self.stdout),
            _ => Err(self.failure()),
        }
    }

    /// Returns the output of a call that succeeded as text without the last line's end.
    ///
    /// # Errors
    /// As [`Answer::ok`]; `internal` if it is not UTF-8.
    pub(in crate::documents) fn line(self) -> Result<String> {
        let what = self.what.clone();
        let text = String::from_utf8(self.ok()?).map_err(|cause| {
            Error::internal(format!("git {what} answered what is not UTF-8")).source(cause)
        })?;
        Ok(text.strip_suffix('\n').unwrap_or(&text).to_owned())
    }

    /// Returns what the failure of this call means. Only whole ends of lines are recognised, where
    /// git writes the system's words: a file's name cannot stand there.
    pub(in crate::documents) fn failure(&self) -> Error {
        let ends = |words: &[&str]| {
            self.said.lines().any(|line| {
                let line = line.trim_end().trim_end_matches('.');
                words.iter().any(|it| line.ends_with(it))
            })
        };
        // Checking a file out, git keeps the system's words to itself.
        let is_unwritten =
            self.said.lines().any(|it| it.starts_with("error: unable to write file "));
        let error = if is_unwritten
            || ends(&["No space left on device", "Disk quota exceeded", "Out of diskspace"])
        {
            Error::unavailable("the disk is full")
                .code("disk_full")
                .hint("free some space and try again; nothing was committed")
        } else if ends(&["Read-only file system", "Permission denied"])
            || self.said.contains("insufficient permission for adding an object")
        {
            Error::unavailable("the repository cannot be written")
                .code("read_only")
                .hint("give the server's user the right to write to the repository")
        } else if ends(&[".lock': File exists"]) {
            let lock = self.said.split('\'').find(|it| it.ends_with(".lock")).unwrap_or("a file");
            Error::conflict("index_locked", format!("another git holds {lock}"))
                .hint("try again when it has ended; if none is running, remove that file")
        } else if ends(&["Cannot merge", "Cannot update sparse checkout"]) {
            Error::conflict("source_dirty", "git refuses to overwrite changes in the working tree")
                .hint("commit, stash or undo those changes first")
        } else if ends(&["need to resolve your current index first"]) {
            Error::conflict("merge_in_progress", "the index holds conflicts of a merge")
                .hint("resolve them first")
        } else if self.said.contains("detected dubious ownership") {
            Error::unavailable("the repository belongs to another user")
                .code("unsafe_repository")
                .hint("run `git config --global --add safe.directory FOLDER` as the server's user")
        } else {
            Error::new(ErrorKind::Unavailable, format!("git {} failed", self.what))
                .code("git_failed")
        };
        error.source(format!("git {} (exit {}): {}", self.what, self.code, self.said.trim_end()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_git_says_is_recognised_by_the_ends_of_its_lines() {
        let code = |said: &str| {
            let answer = Answer {
                code: 128,
                stdout: Vec::new(),
                said: said.to_owned(),
                what: "read-tree".to_owned(),
            };
            answer.failure().code_str().to_owned()
        };
        for (said, expected) in [
            ("fatal: unable to write loose object file: No space left on device", "disk_full"),
            ("fatal: sha1 file '/w/.git/index.lock' write error. Out of diskspace", "disk_full"),
            ("error: unable to write file a.md", "disk_full"),
            (
                "error: unable to create temporary file: Read-only file system\nfatal: x",
                "read_only",
            ),
            ("fatal: Unable to create '/w/.git/index.lock': Permission denied", "read_only"),
            (
                "error: insufficient permission for adding an object to repository database .git",
                "read_only",
            ),
            (
                "fatal: Unable to create '/w/.git/index.lock': File exists.\n\nAnother git process",
                "index_locked",
            ),
            ("error: Entry 'a.md' not uptodate. Cannot merge.", "source_dirty"),
            ("fatal: You need to resolve your current index first", "merge_in_progress"),
            ("error: Entry 'No space left on device' is odd", "git_failed"),
            ("fatal: bad object", "git_failed"),
        ] {
            assert_eq!(code(said), expected, "{said}");
        }
    }
}

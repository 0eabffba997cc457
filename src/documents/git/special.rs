//! What stands at a name that git opens and is neither a file nor a folder: a FIFO, a socket, a
//! device. Git waits at a FIFO until it is ended, and leaves its locks.
//!
//! **Invariant:** no git is started while one is known to be there, a git that only reads ends as
//! soon as one is found, and none is ever opened here.

use std::os::unix::fs::MetadataExt as _;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use camino::{Utf8Path, Utf8PathBuf};
use tokio::sync::watch;
use tokio::time::Instant;

use crate::base::{Error, Result, fault};
use crate::documents::git::reach::Reach;
use crate::documents::git::special_search::{Search, Special, Way, led_by};
use crate::documents::git::{Git, Repo, blocking};
use crate::documents::snapshot::GIT;

/// The code of a FIFO, socket or device in the place of a file that git opens.
pub const SPECIAL_FILE: &str = "special_file";

/// The command in its hints that needs the id of a job.
pub const RESTORE: &str = "wiki-browser job restore";

/// How long a look holds at least.
const FRESH: Duration = Duration::from_millis(100);
/// How long it holds, as a multiple of the time that it took, so that reads hardly wait for it in a
/// large tree. Approvals, and what compares before and after a job, look anew.
const FRESH_RATIO: u32 = 100;

/// Looks before git is started.
pub(in crate::documents) struct Gate {
    top: Utf8PathBuf,
    git_dir: Utf8PathBuf,
    common: Utf8PathBuf,
    /// The site's data folder, where git looks at nothing.
    data: Mutex<Option<Utf8PathBuf>>,
    folder: Look,
    tree: Look,
    /// The files that settings name, as long as the configuration is the same.
    named: Mutex<Option<(ConfigFacts, Vec<Named>)>>,
}

/// A file that a setting names, after that setting.
type Named = (&'static str, Utf8PathBuf);
/// What tells one state of the files of git's configuration from another: each with its inode, its
/// size, and its ctime, which no program can set.
type ConfigFacts = Vec<Option<(u64, u64, i64, i64)>>;

/// The looks at one part of the repository.
#[derive(Default)]
struct Look {
    /// Until when the last one holds, if it found nothing. Held across `.await`: whoever comes
    /// meanwhile waits for the same look.
    free_until: tokio::sync::Mutex<Option<Instant>>,
    /// Told of each that found something.
    found: watch::Sender<()>,
}

/// Tells a call of git that something was found since this was made.
pub(super) enum Found {
    /// Its own look was enough.
    Nowhere,
    /// In git's folder.
    Folder(watch::Receiver<()>),
    /// In git's folder or the working tree.
    Tree(watch::Receiver<()>, watch::Receiver<()>),
}

impl Found {
    /// Ends as soon as something is found where the call may wait.
    pub(super) async fn wait(&mut self) {
        // An error would say that the gate is gone; the call holds it.
        match self {
            Found::Nowhere => std::future::pending().await,
            Found::Folder(folder) => drop(folder.changed().await),
            Found::Tree(folder, tree) => tokio::select! {
                _ = folder.changed() => {}
                _ = tree.changed() => {}
            },
        }
    }
}

impl Gate {
    pub(super) fn new(top: &Utf8Path, git_dir: &Utf8Path, common: &Utf8Path) -> Gate {
        Gate {
            top: top.to_owned(),
            git_dir: git_dir.to_owned(),
            common: common.to_owned(),
            data: Mutex::default(),
            folder: Look::default(),
            tree: Look::default(),
            named: Mutex::default(),
        }
    }

    pub(super) fn look_past(&self, data: Utf8PathBuf) {
        *self.data.lock().unwrap_or_else(PoisonError::into_inner) = Some(data);
    }

    /// Refuses to start git where it would wait, by a look that was just made, or now.
    pub(super) async fn pass(&self, git: &Git, reach: Reach, is_now: bool) -> Result<()> {
        if fault::is_off("special_files") {
            return Ok(());
        }
        match reach {
            Reach::Index => {
                let search = self.search();
                refuse(&blocking(move || search.opened_first()).await?)
            }
            Reach::Folder => self.look(&self.folder, is_now, None, Search::folders).await,
            Reach::Tree => {
                self.look(&self.folder, is_now, None, Search::folders).await?;
                self.look(&self.tree, is_now, Some(git), Search::tree).await
            }
        }
    }

    /// Returns what will tell of anything found from now on.
    pub(super) fn found(&self, reach: Reach) -> Found {
        let folder = || self.folder.found.subscribe();
        match reach {
            Reach::Index => Found::Nowhere,
            Reach::Folder => Found::Folder(folder()),
            Reach::Tree => Found::Tree(folder(), self.tree.found.subscribe()),
        }
    }

    async fn look(
        &self,
        last: &Look,
        is_now: bool,
        settings_of: Option<&Git>,
        how: fn(&mut Search),
    ) -> Result<()> {
        let mut free_until = last.free_until.lock().await;
        if !is_now && free_until.is_some_and(|it| Instant::now() < it) {
            return Ok(());
        }
        *free_until = None;
        let begun = Instant::now();
        let mut search = self.search();
        if let Some(git) = settings_of {
            search.named = self.named(git).await?;
        }
        let found = blocking(move || search.by(how)).await?;
        if !found.is_empty() {
            last.found.send_replace(());
        }
        refuse(&found)?;
        *free_until = Some(Instant::now() + FRESH.max(begun.elapsed() * FRESH_RATIO));
        Ok(())
    }

    /// Returns the files that settings name. Git is asked for them once for each state of its
    /// configuration; files that this includes are not looked at.
    async fn named(&self, git: &Git) -> Result<Vec<Named>> {
        let own = ["config", "config.worktree"];
        let own = own.iter().flat_map(|it| [self.git_dir.join(it), self.common.join(it)]);
        let files: Vec<Utf8PathBuf> = own.chain(git.users_configs()).collect();
        let facts: ConfigFacts = blocking(move || {
            let facts = |it: &Utf8PathBuf| {
                let found = it.metadata().ok()?;
                Some((found.ino(), found.size(), found.ctime(), found.ctime_nsec()))
            };
            files.iter().map(facts).collect()
        })
        .await?;
        let known = || self.named.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, named)) = known().as_ref().filter(|it| it.0 == facts) {
            return Ok(named.clone());
        }
        let named = Box::pin(git.files_by_setting()).await?;
        *known() = Some((facts, named.clone()));
        Ok(named)
    }

    fn search(&self) -> Search {
        let folders = [self.git_dir.clone(), self.common.clone()];
        let data = self.data.lock().unwrap_or_else(PoisonError::into_inner).clone();
        Search::new(&self.top, folders).past(data)
    }
}

/// Refuses if any were found.
fn refuse(found: &[Special]) -> Result<()> {
    let Some(first) = found.first() else { return Ok(()) };
    let more = match found.len() {
        1 => String::new(),
        count => format!(" (and {} more)", count - 1),
    };
    let (name, what) = (&first.name, first.what);
    let place = first.within.0.join(&first.within.1);
    let remedy = match first.way {
        Way::Direct | Way::Link => format!(
            "Find out who made it, and remove it: `rm '{place}'`; what a job made is removed by \
             `{RESTORE} ID` once the job has ended"
        ),
        Way::Repository => format!(
            "Find out who wrote it, and put back what was there, or `rm '{place}'`; then \
             `{RESTORE} ID` puts back what else a job changed"
        ),
        Way::Setting => format!(
            "Set it to a file, or type `git config --unset-all {name}`; then `{RESTORE} ID` puts \
             back what else a job changed"
        ),
    };
    Err(Error::unavailable(format!(
        "{name} {what}{more}, and git would wait for it: no git is started while it is there"
    ))
    .code(SPECIAL_FILE)
    .hint(format!("nothing was changed. {remedy}")))
}

/// Returns why a call was ended for something that is gone already.
pub(super) fn ended_at_special() -> Error {
    let what = "git was ended, because it would have waited for a FIFO, a socket or a device";
    Error::unavailable(what).code(SPECIAL_FILE).hint("that is gone again: try once more")
}

/// Refuses to open a repository in whose own folder git would wait.
///
/// # Errors
/// `unavailable` with code `special_file`.
pub(super) async fn refuse_unopenable(root: &Utf8Path) -> Result<()> {
    let root = root.to_owned();
    let found = blocking(move || {
        let top = root.ancestors().find(|it| it.join(GIT).symlink_metadata().is_ok());
        let Some(top) = top.filter(|_| !fault::is_off("special_files")) else { return Vec::new() };
        let folder = top.join(GIT);
        let led = led_by(top, &folder).map(|it| it.1);
        let folder = led.unwrap_or(folder);
        Search::new(top, [folder.clone(), folder]).opened_first()
    });
    refuse(&found.await?)
}

/// Refuses to start git in a working tree that is not the site's.
///
/// # Errors
/// `unavailable` with code `special_file`.
pub(in crate::documents) async fn refuse_in_tree(top: &Utf8Path) -> Result<()> {
    if fault::is_off("special_files") {
        return Ok(());
    }
    let folder = top.join(GIT);
    let search = Search::new(top, [folder.clone(), folder]);
    let found = blocking(move || search.by(Search::tree));
    refuse(&found.await?)
}

impl Repo {
    /// Refuses to go on while git would wait somewhere.
    ///
    /// # Errors
    /// `unavailable` with code `special_file`.
    pub async fn refuse_special(&self) -> Result<()> {
        match self.git().gate() {
            Some(gate) => gate.pass(self.git(), Reach::Tree, true).await,
            None => Ok(()),
        }
    }

    /// Leaves out the site's data folder, where git looks at nothing.
    pub fn look_past(&self, data: &Utf8Path) {
        if let Some(gate) = self.git().gate() {
            gate.look_past(data.to_owned());
        }
    }

    /// Returns all places where git would wait now.
    pub(in crate::documents) async fn specials(&self) -> Result<Vec<Special>> {
        let Some(gate) = self.git().gate().filter(|_| !fault::is_off("special_files")) else {
            return Ok(Vec::new());
        };
        let mut search = gate.search();
        search.named = gate.named(self.git()).await?;
        blocking(move || search.all()).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::{Children, which};
    use std::os::unix::net::UnixListener;

    #[test]
    fn a_refusal_names_the_place_and_how_to_remove_it() {
        let folder = tempfile::tempdir().unwrap();
        let top = Utf8Path::from_path(folder.path()).unwrap();
        std::fs::create_dir_all(top.join(".git/logs")).unwrap();
        let place = top.join(".git/logs/HEAD");
        UnixListener::bind(&place).unwrap();
        let git = top.join(GIT);
        let cause = refuse(&Gate::new(top, &git, &git).search().all()).unwrap_err();
        assert_eq!(cause.code_str(), SPECIAL_FILE);
        assert!(cause.message().starts_with(".git/logs/HEAD is a socket,"), "{}", cause.message());
        assert!(cause.hint_str().unwrap().contains(&format!("`rm '{place}'`")));
    }

    #[allow(clippy::disallowed_methods, reason = "a test makes a pipe")]
    fn fifo(path: &Utf8Path) {
        let made = std::process::Command::new("/usr/bin/mkfifo").arg(path).status().unwrap();
        assert!(made.success());
    }

    /// A look may be older than what a job made meanwhile.
    #[tokio::test]
    async fn a_call_that_waits_ends_as_soon_as_somebody_finds_out_why() {
        let program = which("git", &std::env::var("PATH").unwrap(), Utf8Path::new("/")).unwrap();
        for (name, words) in [("HEAD", ["rev-parse", "HEAD"]), ("config", ["rev-list", "--all"])] {
            let folder = tempfile::tempdir().unwrap();
            let top = Utf8Path::from_path(folder.path()).unwrap();
            let git_dir = top.join(GIT);
            std::fs::create_dir_all(git_dir.join("objects")).unwrap();
            std::fs::create_dir_all(git_dir.join("refs/heads")).unwrap();
            std::fs::write(git_dir.join("HEAD"), "ref: refs/heads/main\n").unwrap();
            let git = Git::new(program.clone(), top, Children::new());
            let git = git.within((&git_dir, &git_dir), top);
            let gate = git.gate().unwrap();
            gate.pass(&git, Reach::Folder, true).await.unwrap();
            let in_an_hour = Instant::now() + Duration::from_secs(3_600);
            *gate.folder.free_until.lock().await = Some(in_an_hour);
            let place = git_dir.join(name);
            drop(std::fs::remove_file(&place));
            fifo(&place);
            let finding = async {
                while git.is_idle() {
                    tokio::task::yield_now().await;
                }
                gate.pass(&git, Reach::Folder, true).await.unwrap_err()
            };
            let (answer, found) = tokio::join!(git.call(&words).run(), finding);
            let cause = answer.err().unwrap();
            assert_eq!((cause.code_str(), found.code_str()), (SPECIAL_FILE, SPECIAL_FILE));
            assert!(cause.message().starts_with(&format!(".git/{name} is a FIFO")), "{cause}");
            assert!(git.is_idle());
        }
    }
}

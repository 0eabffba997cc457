//! Caches the state of the repository while nothing in it changes: looking takes several git
//! processes, and most jobs begin and end with an unchanged tree.

use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use camino::{Utf8Path, Utf8PathBuf};
use tokio::time::Instant;

use crate::base::{Clock, Result, fault, is_agent_file};
use crate::documents::git::Repo;
use crate::documents::snapshot::{are_links_below, leads_out};
use crate::process::Stamp;

/// Most names in a stamp; in a larger tree git runs every time.
const ENTRIES_MAX: usize = 5_000;
/// How long a result, or the verdict that a tree is too large, is used, whatever the stamp says.
const KEPT: Duration = Duration::from_secs(600);

/// One cached result, with the stamp of everything it depends on; cheap to clone.
#[derive(Clone)]
pub(in crate::flows) struct Known<T> {
    folders: Vec<Utf8PathBuf>,
    except: Vec<Utf8PathBuf>,
    clock: Clock,
    last: Arc<Mutex<Last<T>>>,
    /// Returns what a result names: further files and folders whose content counts.
    names: fn(&T) -> &[String],
    /// What the last result named.
    named: Arc<Mutex<Vec<String>>>,
}

enum Last<T> {
    Nothing,
    Seen(Stamp, Vec<String>, T, Instant),
    TooLarge(Instant),
}

impl<T: Clone> Known<T> {
    /// Returns an empty cache.
    pub(in crate::flows) fn new(
        folders: Vec<Utf8PathBuf>,
        except: Vec<Utf8PathBuf>,
        clock: Clock,
        names: fn(&T) -> &[String],
    ) -> Known<T> {
        let (last, named) = (Arc::new(Mutex::new(Last::Nothing)), Arc::default());
        Known { folders, except, clock, last, names, named }
    }

    /// Returns the last result if nothing has changed since, and otherwise looks. `named` are files
    /// and folders, relative to the first folder, whose content counts, like that of all files that
    /// steer agents or git, and of those that the last result named.
    ///
    /// # Errors
    /// Those of the look.
    pub(in crate::flows) async fn or_look(
        &self,
        named: &[String],
        look: impl Future<Output = Result<T>>,
    ) -> Result<T> {
        let more = self.named.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let named = &[named, &more].concat();
        let Some(before) = self.stamp(named).await else { return look.await };
        if let Some(seen) = self.seen(&before, named) {
            return Ok(seen);
        }
        let seen = look.await?;
        if (self.names)(&seen) != more {
            // The next look is compared by these.
            let named = (self.names)(&seen).to_vec();
            *self.named.lock().unwrap_or_else(PoisonError::into_inner) = named;
            return Ok(seen);
        }
        // A change during the look may be in the result or not.
        let is_same = self.stamp(named).await.as_ref() == Some(&before);
        if is_same && before.is_settled(&self.clock) {
            self.keep(Last::Seen(before, named.to_vec(), seen.clone(), Instant::now()));
        }
        Ok(seen)
    }

    fn seen(&self, stamp: &Stamp, named: &[String]) -> Option<T> {
        match &*self.last.lock().unwrap_or_else(PoisonError::into_inner) {
            Last::Seen(known, asked, seen, at) if at.elapsed() < KEPT && asked == named => {
                (known == stamp || fault::is_off("known_stamp")).then(|| seen.clone())
            }
            _ => None,
        }
    }

    async fn stamp(&self, named: &[String]) -> Option<Stamp> {
        if let Last::TooLarge(at) = &*self.last.lock().unwrap_or_else(PoisonError::into_inner)
            && at.elapsed() < KEPT
        {
            return None;
        }
        let (mut folders, except) = (self.folders.clone(), self.except.clone());
        let named = named.to_vec();
        let taken = tokio::task::spawn_blocking(move || {
            // What git reads behind a link or a file, no stamp tells.
            let (top, others) = folders.split_first()?;
            let is_linked = |it: &Utf8Path| are_links_below(it) || leads_out(top, it);
            let is_led = Repo::is_led_elsewhere(top, others)
                || is_linked(&top.join(".git"))
                || others.iter().any(|it| is_linked(it));
            if is_led && !fault::is_off("git_folder") {
                return None;
            }
            // A stamp follows no links, but git does where its hooks are behind one.
            let places = |it: &Utf8PathBuf| [it.join(".git/hooks"), it.join("hooks")];
            let hooks: Vec<_> = folders.iter().flat_map(places).collect();
            // The objects are left out, but not what says where there are more.
            let places = |it: &Utf8PathBuf| [it.join(".git/objects/info"), it.join("objects/info")];
            let infos: Vec<_> = folders.iter().flat_map(places).collect();
            folders.extend(infos.into_iter().filter(|it| it.is_dir()));
            folders.extend(hooks.into_iter().filter(|it| it.is_symlink() && it.is_dir()));
            let folders: Vec<_> = folders.iter().map(Utf8PathBuf::as_path).collect();
            let except: Vec<_> = except.iter().map(Utf8PathBuf::as_path).collect();
            let top = folders.first().copied();
            let is_read = |path: &Utf8Path| steers(path, top, &named);
            Stamp::take(&folders, &except, ENTRIES_MAX, &is_read)
        });
        let stamp = taken.await.ok().flatten();
        if stamp.is_none() {
            self.keep(Last::TooLarge(Instant::now()));
        }
        stamp
    }

    fn keep(&self, last: Last<T>) {
        *self.last.lock().unwrap_or_else(PoisonError::into_inner) = last;
    }
}

/// Returns whether a file's content counts: it steers agents, or git.
fn steers(path: &Utf8Path, top: Option<&Utf8Path>, named: &[String]) -> bool {
    if fault::is_off("steering_bytes") {
        return false;
    }
    match top.and_then(|top| path.strip_prefix(top).ok()).filter(|it| !it.starts_with(".git")) {
        Some(below) => {
            is_agent_file(below.as_str()) || named.iter().any(|it| below.starts_with(it))
        }
        // The folder of git, or one behind a link in it.
        None => {
            let folder = path.parent().and_then(Utf8Path::file_name).unwrap_or_default();
            let name = path.file_name().unwrap_or_default();
            matches!(folder, "hooks" | "info") || name.starts_with("config") || name == "HEAD"
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::Millis;
    use std::sync::atomic::{AtomicU32, Ordering};

    #[tokio::test]
    async fn it_is_looked_again_when_something_has_changed_or_might_have() {
        let folder = tempfile::tempdir().unwrap();
        let top = Utf8PathBuf::from_path_buf(folder.path().to_owned()).unwrap();
        std::fs::write(top.join("x"), "one").unwrap();
        let looks = AtomicU32::new(0);
        let look = || async { Ok(looks.fetch_add(1, Ordering::SeqCst)) };
        // Long ago: every change is too recent to be relied upon.
        let known = Known::new(vec![top.clone()], Vec::new(), Clock::fixed(Millis(0)), |_| &[]);
        assert_eq!(known.or_look(&[], look()).await.unwrap(), 0);
        assert_eq!(known.or_look(&[], look()).await.unwrap(), 1);
        let known = Known::new(
            vec![top.clone()],
            Vec::new(),
            Clock::fixed(Millis(4_000_000_000_000)),
            |_| &[],
        );
        assert_eq!(known.or_look(&[], look()).await.unwrap(), 2);
        assert_eq!(known.or_look(&[], look()).await.unwrap(), 2, "nothing has changed");
        std::fs::write(top.join("y"), "").unwrap();
        assert_eq!(known.or_look(&[], look()).await.unwrap(), 3);
        // A result is not kept if something changed during the look.
        let changing = async {
            std::fs::write(top.join("z"), "").unwrap();
            Ok(looks.fetch_add(1, Ordering::SeqCst))
        };
        std::fs::write(top.join("y"), "again").unwrap();
        assert_eq!(known.or_look(&[], changing).await.unwrap(), 4);
        assert_eq!(known.or_look(&[], look()).await.unwrap(), 5);
    }

    #[tokio::test]
    async fn links_count_in_gits_folder_and_not_in_the_tree() {
        let folder = tempfile::tempdir().unwrap();
        let base = Utf8Path::from_path(folder.path()).unwrap().canonicalize_utf8().unwrap();
        let (top, git) = (base.join("top"), base.join("modules/top"));
        for it in [&top, &git] {
            std::fs::create_dir_all(it).unwrap();
        }
        // A submodule, with a link that is the site's own.
        std::fs::write(top.join(".git"), "gitdir: ../modules/top\n").unwrap();
        std::os::unix::fs::symlink(&base, top.join("logs")).unwrap();
        let looks = AtomicU32::new(0);
        let look = || async { Ok(looks.fetch_add(1, Ordering::SeqCst)) };
        let clock = Clock::fixed(Millis(4_000_000_000_000));
        let known = |folders| Known::new(folders, Vec::new(), clock.clone(), |_| &[]);
        let both = known(vec![top.clone(), git.clone()]);
        assert_eq!(both.or_look(&[], look()).await.unwrap(), 0);
        assert_eq!(both.or_look(&[], look()).await.unwrap(), 0, "nothing has changed");
        // What is behind these, no stamp tells.
        let other = known(vec![top.clone(), top.join("elsewhere")]);
        assert_eq!(other.or_look(&[], look()).await.unwrap(), 1);
        assert_eq!(other.or_look(&[], look()).await.unwrap(), 2);
        std::os::unix::fs::symlink(&base, git.join("logs")).unwrap();
        let linked = known(vec![top, git]);
        assert_eq!(linked.or_look(&[], look()).await.unwrap(), 3);
        assert_eq!(linked.or_look(&[], look()).await.unwrap(), 4);
    }
}

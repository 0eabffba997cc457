//! Plans a restore: compares each change with what stands there now.

use std::collections::{BTreeMap, BTreeSet};

use crate::api::changes::{Item, Outcome};
use crate::base::limit::SOURCE_BYTES_MAX;
use crate::base::{BlobId, JobId, Result};
use crate::documents::changes::attributes::{Conversions, End};
use crate::documents::changes::{Changes, FileChange, PrivateChange, RefChange, astray, name_of};
use crate::documents::git::{Checkout, Repo, blocking};
use crate::documents::snapshot::{
    ALTERNATES, Kept, Spot, Staged, Stashed, Tip, Work, facts_within, git_root, name,
};
use crate::process::{CLOSED, Root, Standing};

/// Most names examined in a folder that is to be removed.
const WITHIN_MAX: usize = 10_000;
/// The facts of a folder, among entries that are not read.
pub(super) const FOLDER: &str = "folder";

/// The restore of all changes of a job.
#[derive(Clone, Debug)]
pub struct Plan {
    /// One per change, in the order of execution.
    pub items: Vec<Item>,
}

impl Item {
    /// Returns whether the change is undone, or can be.
    fn is_undone(&self) -> bool {
        matches!(self.outcome, Outcome::Ready | Outcome::Restored | Outcome::AsBefore)
    }
}

impl Plan {
    /// Returns whether nothing prevents the restore.
    pub fn is_free(&self) -> bool {
        !self.items.iter().any(|it| matches!(it.outcome, Outcome::ChangedSince | Outcome::NotKept))
    }

    /// Returns whether everything is as it was before the job.
    pub fn is_done(&self) -> bool {
        let is_done = |it: &Item| matches!(it.outcome, Outcome::Restored | Outcome::AsBefore);
        self.items.iter().all(is_done)
    }
}

/// The wanted content of a path, independent of the index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Want {
    Nothing,
    /// A file with these bytes, as an unfiltered blob.
    File {
        bytes: BlobId,
        mode: u32,
    },
    Link(String),
    /// Something that was not read.
    Seen(String),
    /// Unknown, with the reason.
    Unknown(&'static str),
}

/// The current state of everything that changed.
pub(super) struct Present {
    pub(super) tip: Tip,
    pub(super) refs: BTreeMap<String, BlobId>,
    pub(super) stash: Vec<Stashed>,
    index: BTreeMap<String, Vec<Staged>>,
    pub(super) conversions: Conversions,
    /// Folders that the restore makes: of paths that stood there before.
    folders: BTreeSet<String>,
    top: Root,
    /// Whether this restore puts settings back that decide how git converts files: what is the
    /// same to git now may be another text then.
    pub(super) is_settings_due: bool,
}

impl Present {
    /// Reads the current state of everything that a job changed.
    pub(super) async fn of(
        repo: &Repo,
        changes: &Changes,
        place: (&Kept, &JobId),
    ) -> Result<Present> {
        let tip = Tip { branch: repo.branch().await?, commit: repo.tip("HEAD").await? };
        let paths: BTreeSet<String> = changes.files.iter().map(|it| it.path.clone()).collect();
        let index = repo.entries_of(&paths).await?;
        let top = repo.git().folder().to_owned();
        Ok(Present {
            tip,
            refs: repo.named_commits().await?,
            stash: repo.stashed().await?,
            index,
            conversions: Conversions::of(repo, changes, &paths, place).await?,
            folders: changes.files.iter().filter(|it| was_there(it)).flat_map(above).collect(),
            top: blocking(move || Root::open(&top)).await??,
            is_settings_due: false,
        })
    }

    /// Returns whether the checkout can be restored.
    pub(super) fn head(&self, (was, is): &(Tip, Tip)) -> Item {
        let same =
            |a: &Tip, b: &Tip| a.branch == b.branch && (a.branch.is_some() || a.commit == b.commit);
        let to = format!("check out {} again", name_of(was));
        let outcome = outcome(same(&self.tip, was), same(&self.tip, is), true);
        let now = format!("{} is checked out", name_of(&self.tip));
        item("HEAD".to_owned(), to, outcome, Some(now))
    }

    pub(super) async fn branch(&self, repo: &Repo, it: &RefChange) -> Result<Item> {
        let now = self.refs.get(&it.name);
        let mut is_kept = match &it.before {
            Some(id) => repo.has_object(id).await?,
            None => true,
        };
        for entry in &it.entries_before {
            is_kept &= repo.has_object(&entry.commit).await?;
        }
        if !it.entries_before.is_empty() {
            return Ok(self.stash(it, is_kept));
        }
        let to = match &it.before {
            None => "remove it".to_owned(),
            Some(id) => format!("move it to {}", &id.as_str()[..12]),
        };
        let may_move = is_kept && !it.is_approved;
        let outcome = outcome(now == it.before.as_ref(), now == it.after.as_ref(), may_move);
        let why = match (is_kept, now) {
            (true, Some(_)) if it.is_approved => {
                "it has commits of approvals: undo those, or move it by hand".to_owned()
            }
            (false, _) => "git has collected where it was".to_owned(),
            (true, None) => "it is gone".to_owned(),
            (true, Some(id)) => format!("it is at {id}"),
        };
        Ok(item(it.name.clone(), to, outcome, Some(why)))
    }

    /// Returns whether the stash entries can be restored. They are pushed one by one, oldest first,
    /// so a crash may have left only some of them.
    fn stash(&self, it: &RefChange, is_kept: bool) -> Item {
        let now = &self.stash;
        let is_after = *now == it.entries_after || it.entries_before.ends_with(now);
        let outcome = outcome(*now == it.entries_before, is_after, is_kept);
        let to = format!("put its {} entries back", it.entries_before.len());
        let why = match is_kept {
            false => "git has collected some of them".to_owned(),
            true => format!("it has {} entries now, and others than the job left", now.len()),
        };
        item(it.name.clone(), to, outcome, Some(why))
    }

    /// Refuses branches that cannot coexist with others, such as `a` and `a/b`.
    pub(super) fn refuse_clashes(&self, changes: &Changes, plan: &mut Plan) {
        let is_ready = |plan: &Plan, name: &str| {
            plan.items.iter().any(|it| it.name == name && it.outcome == Outcome::Ready)
        };
        let made = changes.refs.iter().filter(|it| it.before.is_some() && it.after.is_none());
        for it in made {
            let goes = |name: &str| {
                let own = changes.refs.iter().find(|it| it.name == name);
                own.is_some_and(|it| it.before.is_none()) && is_ready(plan, name)
            };
            let clashes = |name: &&String| clash(name, &it.name) && !goes(name);
            let Some(other) = self.refs.keys().find(clashes).cloned() else { continue };
            for item in plan.items.iter_mut().filter(|item| item.name == it.name) {
                if item.outcome == Outcome::Ready {
                    item.outcome = Outcome::ChangedSince;
                    item.why = Some(format!("{other} is there, and git cannot have both"));
                }
            }
        }
    }

    /// Refuses to remove folders with contents that the plan does not remove.
    pub(super) async fn refuse_folders(&self, changes: &Changes, plan: &mut Plan) -> Result<()> {
        let is_folder = |it: &&FileChange| plain(&it.after.work) == Want::Seen(FOLDER.to_owned());
        let goes: BTreeSet<&str> = changes
            .files
            .iter()
            .filter(|it| it.before.work == Work::Nothing && it.before.index.is_empty())
            .map(|it| it.path.as_str())
            .filter(|path| plan.items.iter().any(|it| it.name == *path && it.is_undone()))
            .collect();
        for it in changes.files.iter().filter(is_folder) {
            let Some(item) = plan.items.iter_mut().find(|item| item.name == it.path) else {
                continue;
            };
            if item.outcome != Outcome::Ready {
                continue;
            }
            let (top, path) = (self.top.clone(), it.path.clone());
            let found = blocking(move || within(&top, &path)).await??;
            let other = found.iter().find(|it| !goes.contains(it.as_str()));
            if let Some(other) = other {
                item.outcome = Outcome::ChangedSince;
                item.why = Some(match it.path.rsplit('/').next() {
                    Some(".git") => {
                        "it is a repository of its own, to be removed by hand".to_owned()
                    }
                    _ => format!("a folder stands there, with {other}"),
                });
            }
        }
        Ok(())
    }

    /// Returns whether a path can be restored.
    pub(super) async fn file(&self, repo: &Repo, it: &FileChange) -> Result<Item> {
        if it.path.ends_with('/') && it.before.work != Work::Nothing {
            return self.nested(repo, it).await;
        }
        let was = self.want(repo, it, End::Before).await?;
        let is = self.want(repo, it, End::After).await?;
        let now = match self.now(repo, it, (&was, &is)).await? {
            // Made by an earlier try that was cut short, for what stood in it.
            Want::Seen(facts) if was == Want::Nothing && facts == FOLDER => {
                let is_made = is != Want::Seen(facts.clone()) && self.folders.contains(&it.path);
                if is_made { Want::Nothing } else { Want::Seen(facts) }
            }
            now => now,
        };
        let index = self.index.get(&it.path).map_or(&[][..], Vec::as_slice);
        let to = match (&it.before.work, it.before.index.is_empty()) {
            (Work::Nothing, true) => "remove it",
            (Work::Nothing, false) => "remove the file",
            (_, _) if it.how == "staged" && it.before.index == it.after.index => {
                "put its mode back"
            }
            (_, _) if it.how == "staged" => "put the index back",
            (_, _) if it.how == "deleted" => "write it again",
            _ => "put the earlier text back",
        };
        let mode = self.mode_since(it).await?;
        let is_before = now == was
            && index == it.before.index
            && !mode.is_some_and(|it| it.is_as_left())
            && !self.is_due(repo, it).await?;
        // It can be read now that there are fewer: whether it is what there was nobody knows.
        let is_file = matches!(&now, Want::File { .. }) && now != was;
        let is_unread = is_file && matches!(&is, Want::Seen(facts) if facts != FOLDER);
        // Index and file are judged separately: somebody may have restored one of them already.
        let is_after = (now == is || now == was || is_unread)
            && (index == it.after.index.as_slice() || is_partly(index, &it.before.index))
            && !mode.is_some_and(|it| it.is_other());
        let lost = match (&it.obstacle, &was) {
            (Some(why), _) => Some(why.clone()),
            (None, Want::Unknown(why)) => Some((*why).to_owned()),
            (None, Want::Seen(_)) if was != is => Some("it was too large to be kept".to_owned()),
            (None, _) if is_unread => {
                Some("it was not read, because too many files were changed".to_owned())
            }
            (None, _) if now == Want::Seen(CLOSED.to_owned()) => {
                Some("its folder is closed to the server: give it access (chmod u+rwx)".to_owned())
            }
            (None, _) if it.path.ends_with('/') => {
                Some("it is a repository of its own, to be removed by hand".to_owned())
            }
            _ => None,
        };
        let outcome = outcome(is_before, is_after, lost.is_none());
        let why = lost.unwrap_or_else(|| "its text or its place in the index differs".to_owned());
        Ok(item(it.path.clone(), to.to_owned(), outcome, Some(why)))
    }

    /// Returns what is known of a nested repository that was there before: nothing in it is kept.
    async fn nested(&self, repo: &Repo, it: &FileChange) -> Result<Item> {
        let (own, top, path) = (repo.clone(), self.top.clone(), it.path.clone());
        let facts = blocking(move || facts_within(&own, &top, &path)).await??;
        let now = Work::Seen { facts };
        let outcome = outcome(now == it.before.work, now == it.after.work, false);
        let why = match outcome {
            Outcome::NotKept => "it is a repository of its own, to be restored by hand",
            _ => "it is another one now",
        };
        let (name, to) = (it.path.clone(), "restore it by hand".to_owned());
        Ok(item(name, to, outcome, Some(why.to_owned())))
    }

    /// Returns whether one of git's own files can be restored.
    pub(super) async fn private(&self, repo: &Repo, it: &PrivateChange) -> Result<Item> {
        let root = git_root(repo, &it.name)?;
        if let Some(behind) = astray::behind(repo, it)? {
            return Ok(behind);
        }
        if let Some(hook) = astray::hook(repo, &root, it)? {
            return Ok(hook);
        }
        if let Some(link) = astray::link(repo, it)? {
            return Ok(link);
        }
        if let Some(removed) = astray::removed(&root, it) {
            return Ok(removed);
        }
        let now = standing(repo, &root, &it.name).await?;
        let (was, is) = (plain(&it.before), plain(&it.after));
        // The repository may need the objects that are only there.
        let is_needed = it.name == ALTERNATES && is != Want::Nothing;
        let is_kept = !matches!(was, Want::Seen(_)) && !is_needed;
        let to = match was {
            _ if is_needed => "restore it by hand",
            Want::Nothing => "put it aside",
            _ => "write it as it was",
        };
        let outcome = outcome(now == was, now == is, is_kept);
        let why = match (is_needed, outcome) {
            (true, Outcome::NotKept) => "objects may be only there: try without it, and `git fsck`",
            _ if is_kept => "it is another one now",
            _ => "it was not kept",
        };
        Ok(item(format!(".git/{}", it.name), to.to_owned(), outcome, Some(why.to_owned())))
    }

    /// Returns the content of a changed path at one end.
    pub(super) async fn want(&self, repo: &Repo, it: &FileChange, end: End) -> Result<Want> {
        let (path, state) = (it.path.as_str(), end.of(it));
        if state.work != Work::Indexed {
            return Ok(plain(&state.work));
        }
        let Some(Staged { spot, .. }) = state.staged() else { return Ok(Want::Nothing) };
        let mode = match spot.mode.as_str() {
            "100644" => 0o644,
            "100755" => 0o755,
            "120000" => {
                let target = repo.read_blob(&spot.blob, SOURCE_BYTES_MAX).await?;
                return Ok(Want::Link(String::from_utf8_lossy(&target).into_owned()));
            }
            _ => return Ok(Want::Unknown("it is a submodule")),
        };
        match self.conversions.checkout(path, end) {
            Some(Checkout::Filtered) => Ok(Want::Unknown("a filter of git's makes its bytes")),
            Some(Checkout::Converted) => {
                let blob = (path, &spot.blob);
                let bytes = self.conversions.checked_out(repo, blob, end).await?;
                Ok(Want::File { bytes: repo.hash(&bytes), mode })
            }
            _ => Ok(Want::File { bytes: spot.blob.clone(), mode }),
        }
    }

    /// Returns what stands at a changed path: what it was, or is since the job, if git cannot tell
    /// it from that.
    async fn now(&self, repo: &Repo, it: &FileChange, (was, is): (&Want, &Want)) -> Result<Want> {
        let now = self.standing(repo, &it.path).await?;
        for (want, end) in [(was, End::Before), (is, End::After)] {
            let place = (repo, &self.top);
            if now != *want && self.conversions.is_as_indexed(place, it, want, end).await? {
                return Ok(want.clone());
            }
        }
        Ok(now)
    }

    /// Returns what may stand at a path for it to be restored: what git cannot tell from its state
    /// since the job counts as that.
    pub(super) async fn expected(
        &self,
        repo: &Repo,
        it: &FileChange,
        (was, is): (&Want, &Want),
    ) -> Result<Vec<Want>> {
        let mut expected = vec![is.clone(), was.clone()];
        let now = self.standing(repo, &it.path).await?;
        if self.now(repo, it, (was, is)).await? != now {
            expected.push(now);
        }
        Ok(expected)
    }

    /// Returns the bytes of a file before the job.
    pub(super) async fn bytes(&self, repo: &Repo, it: &FileChange) -> Result<Vec<u8>> {
        match (&it.before.work, it.before.staged()) {
            (Work::File { blob, .. }, _) => repo.read_blob(blob, SOURCE_BYTES_MAX).await,
            (Work::Indexed, Some(staged)) => {
                let blob = (it.path.as_str(), &staged.spot.blob);
                self.conversions.checked_out(repo, blob, End::Before).await
            }
            _ => Ok(Vec::new()),
        }
    }

    pub(super) async fn standing(&self, repo: &Repo, path: &str) -> Result<Want> {
        standing(repo, &self.top, path).await
    }

    pub(super) fn top(&self) -> &Root {
        &self.top
    }
}

async fn standing(repo: &Repo, root: &Root, path: &str) -> Result<Want> {
    let (repo, root, path) = (repo.clone(), root.clone(), path.to_owned());
    let look = move || -> Result<Want> {
        // A nested repository in the working tree: git reports no more than that.
        let (path, is_nested) = match path.strip_suffix('/') {
            Some(path) => (path, true),
            None => (path.as_str(), false),
        };
        let standing = root.standing(name::path(path), SOURCE_BYTES_MAX)?;
        Ok(match (is_nested, &standing) {
            (true, Standing::Other { .. }) => Want::Seen(FOLDER.to_owned()),
            _ => want_of(&repo, &standing),
        })
    };
    blocking(look).await?
}

/// Returns whether something stood at a path.
fn was_there(it: &FileChange) -> bool {
    it.before.work != Work::Nothing
}

/// Returns the folders above a path.
fn above(it: &FileChange) -> impl Iterator<Item = String> + '_ {
    it.path.match_indices('/').map(|(at, _)| it.path[..at].to_owned())
}

/// Returns whether the index has the entries of before except for what is put back last: flags, and
/// files that were only announced. A restore that was cut short may have left it so.
fn is_partly(index: &[Staged], before: &[Staged]) -> bool {
    let spots = |all: &[Staged]| -> Vec<(Spot, u8)> {
        let real = all.iter().filter(|it| !it.is_announced());
        real.map(|it| (it.spot.clone(), it.stage)).collect()
    };
    spots(index) == spots(before)
}

/// Returns what stands somewhere, in terms of [`Want`].
pub(super) fn want_of(repo: &Repo, standing: &Standing) -> Want {
    match standing {
        Standing::Nothing => Want::Nothing,
        Standing::File { bytes, mode } => {
            // Git only records the executable bit; the others are up to the user.
            let mode = if mode & 0o111 != 0 { 0o755 } else { 0o644 };
            Want::File { bytes: repo.hash(bytes), mode }
        }
        Standing::Link { target } => Want::Link(target.clone()),
        Standing::Other { facts } => seen(facts),
    }
}

/// All folders are equal: their contents are compared separately.
fn seen(facts: &str) -> Want {
    let is_folder = facts.starts_with(FOLDER);
    Want::Seen(if is_folder { FOLDER } else { facts }.to_owned())
}

/// Returns whether git cannot have both refs, because one is a folder of the other.
pub(super) fn clash(one: &str, other: &str) -> bool {
    let is_in =
        |it: &str, folder: &str| it.strip_prefix(folder).is_some_and(|rest| rest.starts_with('/'));
    is_in(one, other) || is_in(other, one)
}

/// Returns the files in a folder and below, up to a limit.
fn within(top: &Root, folder: &str) -> Result<Vec<String>> {
    let mut folders = vec![folder.to_owned()];
    let mut found = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in top.raw_names(name::path(&folder), WITHIN_MAX)? {
            let path = format!("{folder}/{}", name::shown(&entry));
            match top.standing(name::path(&path), 0)? {
                Standing::Other { facts } if facts.starts_with(FOLDER) => folders.push(path),
                _ => found.push(path),
            }
            if found.len() + folders.len() > WITHIN_MAX {
                return Ok(found);
            }
        }
    }
    Ok(found)
}

pub(super) fn plain(work: &Work) -> Want {
    match work {
        Work::Nothing | Work::Indexed => Want::Nothing,
        Work::File { blob, mode } => {
            let mode = if mode & 0o111 != 0 { 0o755 } else { 0o644 };
            Want::File { bytes: blob.clone(), mode }
        }
        Work::Link { target } => Want::Link(target.clone()),
        Work::Seen { facts } => seen(facts),
    }
}

pub(super) fn outcome(is_before: bool, is_after: bool, is_kept: bool) -> Outcome {
    match (is_before, is_after, is_kept) {
        (true, _, _) => Outcome::AsBefore,
        (_, true, true) => Outcome::Ready,
        (_, true, false) => Outcome::NotKept,
        _ => Outcome::ChangedSince,
    }
}

pub(super) fn item(name: String, to: String, outcome: Outcome, why: Option<String>) -> Item {
    let is_refused = matches!(outcome, Outcome::ChangedSince | Outcome::NotKept);
    Item { name, to, outcome, why: why.filter(|_| is_refused) }
}

//! What changed in the repository while a job ran, apart from this program's own commits.
//!
//! Nobody can tell who changed a file: a person's edit looks like an agent's. So a change is never
//! attributed to the agent; it was made "while the job ran".

mod ahead;
mod alike;
mod approved;
mod aside;
mod astray;
mod attributes;
mod hold;
mod ignored;
mod modes;
mod plan;
mod private;
mod refs;
mod restore;
pub mod row;
mod sight;
mod spare;
mod starts;
mod unblock;
mod unread;

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::base::{BlobId, JobId, Result, is_agent_file, links_skills};
use crate::documents::git::{GitFolder, Repo};
use crate::documents::snapshot::{
    GIT, Kept, PathState, STEERS, Snapshot, Spot, Tip, Unclean, Work, name,
};
use crate::store::Store;

use private::{judge_behind, judge_named, private};
use refs::refs;

pub use crate::api::changes::ChangesState;
pub use plan::Plan;
pub use private::PrivateChange;
pub use refs::RefChange;
pub use restore::Wish;
pub use row::ChangesRow;
pub use unblock::unblock;

/// Most files, and most branches, whose states are recorded.
const FILES_MAX: usize = 2_000;
/// Most files named in a sentence.
const NAMED_MAX: usize = 20;
/// Most commits searched for our own.
const COMMITS_MAX: usize = 1_000;
/// Largest output of comparing two commits, in bytes.
const LISTING_BYTES_MAX: usize = 256 * 1024 * 1024;

/// A changed path of the working tree.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileChange {
    /// The path as git names it: relative to the top of the working tree.
    pub path: String,
    /// `created`, `deleted`, `edited` or `staged`.
    pub how: String,
    /// Its index entries and content before.
    pub before: PathState,
    /// The same after.
    pub after: PathState,
    /// Why it cannot be restored, if so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub obstacle: Option<String>,
}

impl FileChange {
    /// Returns whether git tracks it neither before nor after.
    fn is_untracked(&self) -> bool {
        self.before.index.is_empty() && self.after.index.is_empty()
    }

    /// Returns whether agents obey this file. `named` are files and folders that steer the agents
    /// of this script.
    fn steers(&self, named: &[String]) -> bool {
        let is_in = |it: &String| {
            let rest = self.path.strip_prefix(it.as_str());
            rest.is_some_and(|it| it.is_empty() || it.starts_with('/'))
        };
        // A nested repository: its facts tell whether it contains files that steer agents.
        let is_within = |work: &Work| match work {
            Work::Seen { facts } => self.path.ends_with('/') && facts.contains(STEERS),
            _ => false,
        };
        let is_link = self.before.is_link() || self.after.is_link();
        (is_link && links_skills(&self.path))
            || self.path.rsplit('/').next() == Some(".git")
            || self.path.contains("/.git/")
            || ignored::is_large(&self.before.work)
            || ignored::is_large(&self.after.work)
            || is_agent_file(self.path.trim_end_matches('/'))
            || named.iter().any(is_in)
            || is_within(&self.before.work)
            || is_within(&self.after.work)
    }
}

/// What changed while a job ran.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Changes {
    /// The old and new checkout, if another branch or a detached commit is checked out.
    pub tip: Option<(Tip, Tip)>,
    /// The repositories before and after, if another one is at `.git`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub folder: Option<(GitFolder, GitFolder)>,
    /// Branches, tags, the stash, replacements and notes.
    pub refs: Vec<RefChange>,
    /// Files, by index entry and content.
    pub files: Vec<FileChange>,
    /// Git's own files: configuration, hooks, locks, unfinished operations.
    pub private: Vec<PrivateChange>,
    /// The first of the changed files that steer coding agents.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub agent_files: Vec<String>,
    /// All of them.
    #[serde(skip)]
    pub steering: BTreeSet<String>,
    /// How many changes exceed the limits and are not recorded; automatic restoring is then
    /// impossible.
    pub more: usize,
    /// Jobs that ran at the same time, at least partly.
    pub others: BTreeSet<JobId>,
    /// Whether both states are stored in the repository, under `refs/wiki-browser/jobs/ID`.
    pub is_held: bool,
}

impl Changes {
    /// Returns whether nothing changed.
    pub fn is_empty(&self) -> bool {
        self.tip.is_none()
            && self.folder.is_none()
            && self.refs.is_empty()
            && self.files.is_empty()
            && self.private.is_empty()
    }

    /// Returns sentences that describe the changes, each preceded by its code.
    pub fn sentences(&self) -> Vec<String> {
        let mut told = Vec::new();
        if let Some((was, is)) = &self.folder {
            let (was, is) = (was.shown(), is.shown());
            told.push(format!(
                "touched_git: .git is another repository: it was {was}, and is {is}"
            ));
        }
        if let Some((was, is)) = &self.tip {
            let (was, is) = (name_of(was), name_of(is));
            told.push(format!("moved_head: {is} is checked out instead of {was}"));
        }
        told.extend(refs::sentence(&self.refs));
        if !self.files.is_empty() {
            let names = self.files.iter().map(|it| format!("{} ({})", it.path, it.how));
            told.push(format!("touched_tree: {} changed while the job ran", list(names)));
        }
        if !self.agent_files.is_empty() {
            let names = list(self.agent_files.iter().cloned());
            told.push(format!(
                "agent_files: {names} can control agents; no agent starts until someone decides"
            ));
        }
        if !self.private.is_empty() {
            let names = self.private.iter().map(PrivateChange::shown);
            told.push(format!("touched_git: {} while the job ran", list(names)));
        }
        if self.more > 0 {
            told.push(format!("touched_tree: {} more than is written down", self.more));
        }
        if !told.is_empty() && !self.others.is_empty() {
            let others = list(self.others.iter().map(ToString::to_string));
            told.push(format!("also_running: {others} ran at the same time"));
        }
        told
    }

    /// Returns the old and the new checkout, if another branch was checked out.
    pub fn switched_from(&self) -> Option<(&Tip, &Tip)> {
        self.tip.as_ref().map(|(was, is)| (was, is))
    }
}

/// Joins the first of many names.
fn list(names: impl Iterator<Item = String>) -> String {
    let names: Vec<String> = names.collect();
    let more = names.len().saturating_sub(NAMED_MAX);
    let mut text = names.iter().take(NAMED_MAX).cloned().collect::<Vec<_>>().join(", ");
    if more > 0 {
        text += &format!(" and {more} more");
    }
    text
}

fn short(id: &BlobId) -> &str {
    &id.as_str()[..12]
}

fn opt(id: &Option<BlobId>) -> &str {
    id.as_ref().map_or("nothing", short)
}

/// Returns the display name of a checkout.
pub fn name_of(tip: &Tip) -> String {
    match (&tip.branch, &tip.commit) {
        (Some(branch), _) => branch.clone(),
        (None, Some(commit)) => format!("commit {} without a branch", short(commit)),
        (None, None) => "nothing".to_owned(),
    }
}

/// Returns what changed between the snapshots, apart from commits of this site's approvals. `named`
/// are files and folders, relative to the repository's top, that steer the script's agents.
///
/// # Errors
/// `unavailable` if git or the database fails.
pub async fn compare(
    (repo, kept): (&Repo, &Kept),
    store: &Store,
    (before, after): (&Snapshot, &Snapshot),
    named: &[String],
) -> Result<Changes> {
    let mut before = before.clone();
    let approved = approved::forgive(repo, store, &mut before, after).await?;
    let known = ignored::known_to_both(&before, after);
    let after = known.as_ref().unwrap_or(after);
    let between = match (&before.tip.commit, &after.tip.commit) {
        (Some(was), Some(is)) if was == is => Between::new(),
        // Git has pruned it: its contents are unknown, only that it is gone.
        (Some(was), _) if !repo.has_object(was).await? => Between::new(),
        (was, is) => between(repo, was.as_ref(), is.as_ref()).await?,
    };
    let mut changes = Changes {
        tip: is_other_tip(&before.tip, &after.tip).then(|| (before.tip.clone(), after.tip.clone())),
        folder: astray::exchanged(&before, after),
        refs: refs(&before, after),
        files: files(&before, after, &between),
        private: private(&before, after),
        ..Changes::default()
    };
    approved.note(&mut changes);
    judge_behind(repo, &mut changes.private).await?;
    judge_named(repo, kept, (&before, after), &mut changes.private).await?;
    ignored::judge(repo, kept, (&before, after), &mut changes).await?;
    sight::look_again(repo, kept, &before, &mut changes).await?;
    unread::drop_unchanged(repo, &mut changes).await?;
    starts::note(repo, kept, &before, &mut changes.private).await?;
    let mut named = named.to_vec();
    if !changes.files.is_empty() {
        named.extend(repo.named_by_settings().await?);
    }
    named.extend(before.named.iter().chain(&after.named).cloned());
    named.extend(repo.steering_links((&before, after), &named).await?);
    // Collected before the list is truncated: one decision covers all of them.
    let private = changes.private.iter().filter(|it| it.steers());
    let steering = changes.files.iter().filter(|it| it.steers(&named)).map(|it| it.path.clone());
    let folder = changes.folder.iter().map(|_| GIT.to_owned());
    let steering = folder.chain(private.map(PrivateChange::steering_name)).chain(steering);
    changes.agent_files = steering.take(NAMED_MAX).collect();
    changes.steering =
        changes.files.iter().filter(|it| it.steers(&named)).map(|it| it.path.clone()).collect();
    for over in [changes.files.len(), changes.refs.len()] {
        changes.more += over.saturating_sub(FILES_MAX);
    }
    // What was there before comes first, and what steers agents: the rest is easily told.
    let is_less =
        |it: &FileChange| (it.before.work == Work::Nothing, !changes.steering.contains(&it.path));
    changes.files.sort_by_cached_key(|it| (is_less(it), it.path.clone()));
    changes.files.truncate(FILES_MAX);
    changes.files.sort_by(|a, b| a.path.cmp(&b.path));
    changes.refs.truncate(FILES_MAX);
    Ok(changes)
}

impl Snapshot {
    /// Adopts the newly found state of the wanted steering files as the known state.
    pub fn accept(&mut self, found: &Changes, is_wanted: impl Fn(&FileChange) -> bool) {
        let steering = found.files.iter().filter(|it| found.steering.contains(&it.path));
        for it in steering.filter(|it| is_wanted(it)) {
            let head = it.after.staged().map(|it| it.spot.clone());
            let is_ignored = ignored::is_ignored(it);
            let state = it.after.clone();
            self.paths.insert(it.path.clone(), Unclean { head, state, is_ignored });
        }
    }

    /// Adopts the newly found repository.
    pub fn accept_folder(&mut self, found: &Changes, is_wanted: impl Fn(&GitFolder) -> bool) {
        if let Some((_, is)) = found.folder.as_ref().filter(|it| is_wanted(&it.1)) {
            self.git_folder = Some(is.clone());
        }
    }

    /// Adopts the newly found state of git's own files that start other programs.
    pub fn accept_private(&mut self, found: &Changes, is_wanted: impl Fn(&PrivateChange) -> bool) {
        for it in found.private.iter().filter(|it| it.steers() && is_wanted(it)) {
            match &it.after {
                Work::Nothing => self.private.remove(&it.name),
                work => self.private.insert(it.name.clone(), work.clone()),
            };
        }
    }
}

fn is_other_tip(was: &Tip, is: &Tip) -> bool {
    was.branch != is.branch || (was.branch.is_none() && was.commit != is.commit)
}

type Between = BTreeMap<String, (Option<Spot>, Option<Spot>)>;

fn files(before: &Snapshot, after: &Snapshot, between: &Between) -> Vec<FileChange> {
    let names: BTreeSet<&String> =
        before.paths.keys().chain(after.paths.keys()).chain(between.keys()).collect();
    let mut changes = Vec::new();
    for path in names {
        let (was, is) = (before.paths.get(path), after.paths.get(path));
        let head = between.get(path);
        let state = |own: Option<&Unclean>, other: Option<&Unclean>, head: Option<&Spot>| {
            match (own, head) {
                (Some(own), _) => own.state.clone(),
                (None, Some(head)) => PathState::clean(Some(head)),
                // Unchanged between the commits: use what the other snapshot says about the commit.
                (None, None) => PathState::clean(other.and_then(|it| it.head.as_ref())),
            }
        };
        let between_none = head.is_none();
        let before = state(was, is.filter(|_| between_none), head.and_then(|it| it.0.as_ref()));
        let after = state(is, was.filter(|_| between_none), head.and_then(|it| it.1.as_ref()));
        if before != after {
            let how = how(&before, &after).to_owned();
            changes.push(FileChange { path: path.clone(), how, before, after, obstacle: None });
        }
    }
    changes
}

/// Returns what happened to a path, in one word.
fn how(before: &PathState, after: &PathState) -> &'static str {
    let content = |state: &PathState| match &state.work {
        Work::Indexed => state.staged().map(|it| it.spot.blob.to_string()),
        Work::File { blob, .. } => Some(blob.to_string()),
        Work::Link { target } => Some(format!("-> {target}")),
        Work::Seen { facts } => Some(facts.clone()),
        Work::Nothing => None,
    };
    let flag = |state: &PathState| {
        state.staged().filter(|it| !it.is_announced()).and_then(|it| it.flag.clone())
    };
    match (content(before), content(after)) {
        (None, Some(_)) => "created",
        (Some(_), None) => "deleted",
        (was, is) if was != is => "edited",
        _ if flag(before) != flag(after) => "hidden from git",
        _ => "staged",
    }
}

/// Returns the paths that differ between two commits, with their entry in each.
async fn between(repo: &Repo, was: Option<&BlobId>, is: Option<&BlobId>) -> Result<Between> {
    let empty = repo.empty_tree().await?;
    let name = |it: Option<&BlobId>| it.map_or_else(|| empty.to_string(), ToString::to_string);
    let args = ["diff-tree", "-r", "-z", "--no-renames", "--no-ext-diff", "--raw"];
    let call = repo.git().call(&args).arg(name(was)).arg(name(is)).arg("--");
    let listed = call.output_max(LISTING_BYTES_MAX).output().await?;
    let listed = name::shown(&listed);
    let mut words = listed.split('\0');
    let mut found = Between::new();
    while let (Some(about), Some(path)) = (words.next(), words.next()) {
        // `:MODE MODE BLOB BLOB HOW`
        let fields: Vec<&str> = about.trim_start_matches(':').split(' ').collect();
        let [was_mode, is_mode, was_blob, is_blob, ..] = fields[..] else { continue };
        let pair = (spot_of(was_mode, was_blob)?, spot_of(is_mode, is_blob)?);
        found.insert(path.to_owned(), pair);
    }
    Ok(found)
}

fn spot_of(mode: &str, blob: &str) -> Result<Option<Spot>> {
    match mode.bytes().all(|it| it == b'0') {
        true => Ok(None),
        false => Ok(Some(Spot { mode: mode.to_owned(), blob: blob.parse()? })),
    }
}

#[cfg(test)]
mod tests;

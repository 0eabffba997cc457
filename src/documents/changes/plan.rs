//! What can be put back: each change compared with what stands there now.

use std::collections::{BTreeMap, BTreeSet};

use camino::Utf8Path;
use serde::Serialize;

use crate::base::limit::SOURCE_BYTES_MAX;
use crate::base::{BlobId, Result};
use crate::documents::changes::{Changes, FileChange, PrivateChange, RefChange, name_of};
use crate::documents::git::{Checkout, Repo, blocking};
use crate::documents::snapshot::{PathState, Staged, Tip, Work, git_root};
use crate::process::{Root, Standing};

/// What is, or was, done about one change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// It can be put back.
    Ready,
    /// It was put back.
    Restored,
    /// It is as it was before the job.
    AsBefore,
    /// It is not as the job left it: somebody changed it since.
    ChangedSince,
    /// What was there before is not kept.
    NotKept,
}

/// One change and what can be done about it.
#[derive(Clone, Debug, Serialize)]
pub struct Item {
    /// `HEAD`, the name of a branch, a path, or `.git/NAME`.
    pub name: String,
    /// What putting it back does, in a few words.
    pub to: String,
    /// Whether it can be done, or was.
    pub outcome: Outcome,
    /// Why not, if not.
    pub why: Option<String>,
}

/// What putting the changes of a job back comes to.
#[derive(Clone, Debug, Serialize)]
pub struct Plan {
    /// One for each change, in the order in which they are put back.
    pub items: Vec<Item>,
}

impl Plan {
    /// Returns whether nothing stands in the way.
    pub fn is_free(&self) -> bool {
        !self.items.iter().any(|it| matches!(it.outcome, Outcome::ChangedSince | Outcome::NotKept))
    }

    /// Returns whether all is as it was before the job.
    pub fn is_done(&self) -> bool {
        let is_done = |it: &Item| matches!(it.outcome, Outcome::Restored | Outcome::AsBefore);
        self.items.iter().all(is_done)
    }
}

/// What is to stand at a place, known without the index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Want {
    Nothing,
    /// A file of these bytes, as a blob without filters.
    File {
        bytes: BlobId,
        mode: u32,
    },
    Link(String),
    /// Something that was not read.
    Seen(String),
    /// It cannot be said, and why.
    Unknown(&'static str),
}

/// What stands in the repository now, of all that changed.
pub(super) struct Present {
    pub(super) tip: Tip,
    refs: BTreeMap<String, BlobId>,
    index: BTreeMap<String, Vec<Staged>>,
    checkouts: BTreeMap<String, Checkout>,
    top: Root,
}

impl Present {
    /// Looks at what a job changed.
    pub(super) async fn of(repo: &Repo, changes: &Changes) -> Result<Present> {
        let tip = Tip { branch: repo.branch().await?, commit: repo.tip("HEAD").await? };
        let paths: BTreeSet<String> = changes.files.iter().map(|it| it.path.clone()).collect();
        let index = repo.entries_of(&paths).await?;
        let top = repo.git().folder().to_owned();
        Ok(Present {
            tip,
            refs: repo.named_commits().await?,
            index,
            checkouts: repo.checkouts(&paths).await?,
            top: blocking(move || Root::open(&top)).await??,
        })
    }

    /// Returns what can be done about what is checked out.
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
        let is_kept = match &it.before {
            Some(id) => repo.has_object(id).await?,
            None => true,
        };
        let to = match &it.before {
            None => "remove it".to_owned(),
            Some(id) => format!("move it to {}", &id.as_str()[..12]),
        };
        let outcome = outcome(now == it.before.as_ref(), now == it.after.as_ref(), is_kept);
        let why = match (is_kept, now) {
            (false, _) => "git has collected where it was".to_owned(),
            (true, None) => "it is gone".to_owned(),
            (true, Some(id)) => format!("it is at {id}"),
        };
        Ok(item(it.name.clone(), to, outcome, Some(why)))
    }

    /// Returns what can be done about a path.
    pub(super) async fn file(&self, repo: &Repo, it: &FileChange) -> Result<Item> {
        let was = self.want(repo, &it.path, &it.before).await?;
        let is = self.want(repo, &it.path, &it.after).await?;
        let now = self.standing(repo, &it.path).await?;
        let index = self.index.get(&it.path).map_or(&[][..], Vec::as_slice);
        let to = match (&it.before.work, it.before.index.is_empty()) {
            (Work::Nothing, true) => "remove it",
            (Work::Nothing, false) => "remove the file",
            (_, _) if it.how == "staged" => "put the index back",
            (_, _) if it.how == "deleted" => "write it again",
            _ => "put the earlier text back",
        };
        let is_before = now == was && index == it.before.index;
        // Index and file count apart: somebody may have put one of them back already.
        let is_after = (now == is || now == was)
            && (index == it.after.index.as_slice() || index == it.before.index.as_slice());
        let lost = match (&it.obstacle, &was) {
            (Some(why), _) => Some(why.clone()),
            (None, Want::Unknown(why)) => Some((*why).to_owned()),
            (None, Want::Seen(_)) if was != is => Some("it was too large to be kept".to_owned()),
            _ => None,
        };
        let outcome = outcome(is_before, is_after, lost.is_none());
        let why = lost.unwrap_or_else(|| "its text or its place in the index differs".to_owned());
        Ok(item(it.path.clone(), to.to_owned(), outcome, Some(why)))
    }

    /// Returns what can be done about one of git's own files.
    pub(super) async fn private(&self, repo: &Repo, it: &PrivateChange) -> Result<Item> {
        let root = git_root(repo, &it.name)?;
        let now = standing(repo, &root, &it.name).await?;
        let (was, is) = (plain(&it.before), plain(&it.after));
        let is_kept = !matches!(was, Want::Seen(_));
        let to = match was {
            Want::Nothing => "put it aside",
            _ => "write it as it was",
        };
        let outcome = outcome(now == was, now == is, is_kept);
        let why = if is_kept { "it is another one now" } else { "it was not kept" };
        Ok(item(format!(".git/{}", it.name), to.to_owned(), outcome, Some(why.to_owned())))
    }

    /// Returns what a state of a path means for its file.
    pub(super) async fn want(&self, repo: &Repo, path: &str, state: &PathState) -> Result<Want> {
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
        match self.checkouts.get(path) {
            Some(Checkout::Filtered) => Ok(Want::Unknown("a filter of git's makes its bytes")),
            Some(Checkout::Converted) => {
                let bytes = repo.checked_out(path, &spot.blob).await?;
                Ok(Want::File { bytes: repo.hash(&bytes), mode })
            }
            _ => Ok(Want::File { bytes: spot.blob.clone(), mode }),
        }
    }

    /// Returns the bytes of a wanted file.
    pub(super) async fn bytes(
        &self,
        repo: &Repo,
        path: &str,
        state: &PathState,
    ) -> Result<Vec<u8>> {
        match (&state.work, state.staged()) {
            (Work::File { blob, .. }, _) => repo.read_blob(blob, SOURCE_BYTES_MAX).await,
            (Work::Indexed, Some(it)) => repo.checked_out(path, &it.spot.blob).await,
            _ => Ok(Vec::new()),
        }
    }

    async fn standing(&self, repo: &Repo, path: &str) -> Result<Want> {
        standing(repo, &self.top, path).await
    }

    pub(super) fn top(&self) -> &Root {
        &self.top
    }
}

async fn standing(repo: &Repo, root: &Root, path: &str) -> Result<Want> {
    let (repo, root, path) = (repo.clone(), root.clone(), path.to_owned());
    let look = move || -> Result<Want> {
        let path = Utf8Path::new(&path);
        if path.as_str().ends_with('/') {
            return Ok(Want::Seen("folder".to_owned()));
        }
        Ok(want_of(&repo, &root.standing(path, SOURCE_BYTES_MAX)?))
    };
    blocking(look).await?
}

/// Returns what stands somewhere, in the words of a wish.
pub(super) fn want_of(repo: &Repo, standing: &Standing) -> Want {
    match standing {
        Standing::Nothing => Want::Nothing,
        Standing::File { bytes, mode } => {
            // Git knows of one bit only; the others are the user's own affair.
            let mode = if mode & 0o111 != 0 { 0o755 } else { 0o644 };
            Want::File { bytes: repo.hash(bytes), mode }
        }
        Standing::Link { target } => Want::Link(target.clone()),
        Standing::Other { facts } => Want::Seen(facts.clone()),
    }
}

pub(super) fn plain(work: &Work) -> Want {
    match work {
        Work::Nothing | Work::Indexed => Want::Nothing,
        Work::File { blob, mode } => {
            let mode = if mode & 0o111 != 0 { 0o755 } else { 0o644 };
            Want::File { bytes: blob.clone(), mode }
        }
        Work::Link { target } => Want::Link(target.clone()),
        Work::Seen { facts } => Want::Seen(facts.clone()),
    }
}

fn outcome(is_before: bool, is_after: bool, is_kept: bool) -> Outcome {
    match (is_before, is_after, is_kept) {
        (true, _, _) => Outcome::AsBefore,
        (_, true, true) => Outcome::Ready,
        (_, true, false) => Outcome::NotKept,
        _ => Outcome::ChangedSince,
    }
}

fn item(name: String, to: String, outcome: Outcome, why: Option<String>) -> Item {
    let is_refused = matches!(outcome, Outcome::ChangedSince | Outcome::NotKept);
    Item { name, to, outcome, why: why.filter(|_| is_refused) }
}

//! Keeps both states of a change in the repository so that garbage collection spares them:
//! `refs/wiki-browser/jobs/ID/before` and `…/after` are commits of the whole working tree, and refs
//! next to them record where each branch was and is.

use std::collections::BTreeSet;

use camino::{Utf8Path, Utf8PathBuf};

use crate::base::{BlobId, Error, JobId, Result};
use crate::documents::changes::{Changes, FileChange, ignored};
use crate::documents::commit::Person;
use crate::documents::git::Repo;
use crate::documents::snapshot::{ASIDE, Kept, PathState, Tip, Work, name};

/// One of the two states.
struct Side {
    name: &'static str,
    tip: Option<BlobId>,
    entries: Vec<u8>,
    index: Vec<u8>,
}

impl Changes {
    /// Stores both states.
    ///
    /// # Errors
    /// `unavailable` if git cannot write; `conflict` with code `planted_repository`.
    pub async fn hold(
        &mut self,
        repo: &Repo,
        kept: &Kept,
        job: &JobId,
        (before, after): (&Tip, &Tip),
    ) -> Result<()> {
        repo.refuse_led_away().await?;
        // Nothing is put aside here.
        self.refuse_astray(repo, job, |it| Utf8Path::new(it).starts_with(ASIDE)).await?;
        self.store_contents(repo, kept).await?;
        let mut orders = String::new();
        let base = format!("refs/wiki-browser/jobs/{job}");
        let sides: [(&'static str, &Tip, State); 2] =
            [("before", before, |it| &it.before), ("after", after, |it| &it.after)];
        for (name, tip, state) in sides {
            let side = self.side(repo, name, tip, state);
            let commit = side.store(repo, kept, job).await?;
            orders += &format!("update {base}/{name} {commit}\n");
        }
        for (number, it) in self.refs.iter().enumerate() {
            let sides = [("was", &it.before), ("is", &it.after)];
            for (side, id) in sides.into_iter().filter_map(|(side, id)| Some((side, id.as_ref()?)))
            {
                orders += &format!("update {base}/{side}/{number} {id}\n");
            }
            let sides = [("was", &it.entries_before), ("is", &it.entries_after)];
            for (side, entries) in sides {
                for (at, entry) in entries.iter().enumerate() {
                    orders += &format!("update {base}/stash-{side}/{at} {}\n", entry.commit);
                }
            }
        }
        repo.git().call(&["update-ref", "--stdin"]).stdin(orders).writing().output().await?;
        self.is_held = true;
        Ok(())
    }

    /// Writes saved contents that are in no commit as blobs.
    pub(super) async fn store_contents(&self, repo: &Repo, kept: &Kept) -> Result<()> {
        // What git ignores is not stored.
        let files = self.files.iter().filter(|it| !ignored::is_ignored(it));
        let files = files.flat_map(|it| [&it.before.work, &it.after.work]);
        let private = self.private.iter().flat_map(|it| [&it.before, &it.after]);
        let wanted: BTreeSet<BlobId> =
            files.chain(private).filter_map(|it| content(repo, it)).collect();
        let wanted: Vec<BlobId> = wanted.into_iter().collect();
        if wanted.is_empty() {
            return Ok(());
        }
        let paths: String = wanted.iter().map(|it| format!("{}\n", kept.file(it))).collect();
        let call = repo.git().call(&["hash-object", "-w", "--no-filters", "--stdin-paths"]);
        let written = call.stdin(paths).writing().output_max(16 * 1024 * 1024).line().await?;
        let is_same = written.lines().eq(wanted.iter().map(BlobId::as_str));
        match is_same {
            true => Ok(()),
            false => Err(Error::unavailable("kept content is not what it was").code("not_kept")),
        }
    }

    fn side(&self, repo: &Repo, name: &'static str, tip: &Tip, state: State) -> Side {
        let (mut entries, mut index) = (Vec::new(), Vec::new());
        for it in self.files.iter().filter(|it| !ignored::is_ignored(it)) {
            let state = state(it);
            tell(repo, &mut entries, &it.path, working(repo, state));
            if state.work != Work::Indexed {
                // An entry that is only announced (`git add -N`) has no content.
                for staged in state.index.iter().filter(|it| !it.is_announced()) {
                    let path = match staged.stage {
                        0 => it.path.clone(),
                        stage => format!(".wiki-browser/stage-{stage}/{}", it.path),
                    };
                    let spot = &staged.spot;
                    tell(repo, &mut index, &path, Some((&spot.mode, spot.blob.clone())));
                }
            }
        }
        for it in &self.private {
            let work = if name == "before" { &it.before } else { &it.after };
            if let Some(blob) = content(repo, work) {
                let path = format!(".wiki-browser/git/{}", it.name);
                tell(repo, &mut index, &path, Some(("100644", blob)));
            }
        }
        Side { name, tip: tip.commit.clone(), entries, index }
    }
}

type State = fn(&FileChange) -> &PathState;

/// Returns mode and blob of a path in the working tree.
fn working(repo: &Repo, state: &PathState) -> Option<(&'static str, BlobId)> {
    match &state.work {
        Work::Indexed => {
            let spot = &state.staged()?.spot;
            let modes = ["100644", "100755", "120000"];
            Some((modes.into_iter().find(|it| *it == spot.mode)?, spot.blob.clone()))
        }
        Work::File { blob, mode } if mode & 0o111 != 0 => Some(("100755", blob.clone())),
        Work::File { blob, .. } => Some(("100644", blob.clone())),
        Work::Link { target } => Some(("120000", repo.hash(target.as_bytes()))),
        Work::Nothing | Work::Seen { .. } => None,
    }
}

fn content(repo: &Repo, work: &Work) -> Option<BlobId> {
    match work {
        Work::File { blob, .. } => Some(blob.clone()),
        Work::Link { target } => Some(repo.hash(target.as_bytes())),
        _ => None,
    }
}

/// Writes a line for `update-index -z --index-info`; `None` removes the path.
fn tell(repo: &Repo, lines: &mut Vec<u8>, path: &str, entry: Option<(&str, BlobId)>) {
    let about = match entry {
        Some((mode, blob)) => format!("{mode} {blob} 0\t"),
        None => format!("0 {}\t", repo.no_object()),
    };
    lines.extend_from_slice(about.as_bytes());
    lines.extend_from_slice(&name::bytes(path));
    lines.push(0);
}

impl Side {
    /// Stores the state as a commit on top of its tip; a differing index becomes a second parent.
    async fn store(&self, repo: &Repo, kept: &Kept, job: &JobId) -> Result<BlobId> {
        let aside = kept.file(&repo.hash(job.as_str().as_bytes()));
        let aside = Utf8PathBuf::from(format!("{aside}.index"));
        let mut parents: Vec<BlobId> = self.tip.iter().cloned().collect();
        if !self.index.is_empty() {
            let tree = repo.tree_with(self.tip.as_ref(), &self.index, &aside).await?;
            let message = format!("index {} job {job}\n", self.name);
            let commit = repo.commit_aside(&tree, &parents, &person(), &message).await?;
            parents.push(commit);
        }
        let tree = repo.tree_with(self.tip.as_ref(), &self.entries, &aside).await?;
        let message = format!("working tree {} job {job}\n", self.name);
        repo.commit_aside(&tree, &parents, &person(), &message).await
    }
}

fn person() -> Person {
    Person { name: "wiki-browser".to_owned(), email: String::new() }
}

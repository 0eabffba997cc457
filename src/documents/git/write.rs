//! Git's writing calls, one function each. Only `commit` decides on their order.

use camino::Utf8Path;

use crate::base::{BlobId, Context, Error, ErrorKind, Millis, Result, SourcePath, fault};
use crate::documents::git::failure::INDEX_LOCKED;
use crate::documents::git::{Call, Repo, blocking};

/// Retries of a locked index: editors run `git status` all the time.
const LOCK_TRIES: u32 = 10;
/// Delay between retries.
const LOCK_WAIT: std::time::Duration = std::time::Duration::from_millis(100);
/// Longest name or mail address of an author or committer, in bytes.
const PERSON_BYTES_MAX: usize = 256;

/// An author or committer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Person {
    /// The name.
    pub name: String,
    /// The mail address; it may be empty.
    pub email: String,
}

/// The result of moving a branch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::documents) enum Moved {
    /// The branch contains the commit.
    Done,
    /// Somebody else moved it first.
    Lost,
}

impl Person {
    /// Refuses values that git would strip or cannot store.
    ///
    /// # Errors
    /// `invalid` with code `bad_identity`.
    pub fn check(&self) -> Result<()> {
        let is_plain = |text: &str| {
            text.len() <= PERSON_BYTES_MAX
                && !text.chars().any(|it| it.is_control() || matches!(it, '<' | '>'))
        };
        // Git strips these from both ends and refuses a name that becomes empty.
        let is_crud = |it: char| matches!(it, '.' | ',' | ':' | ';' | '"' | '\\' | '\'' | ' ');
        let is_named = !self.name.trim_matches(is_crud).is_empty();
        if is_named && is_plain(&self.name) && is_plain(&self.email) {
            return Ok(());
        }
        Err(Error::invalid("a commit cannot name this author")
            .code("bad_identity")
            .hint("set a plain name and email address in the site's `identity`"))
    }
}

impl Repo {
    /// Stores a text as a blob, unfiltered.
    pub(in crate::documents) async fn write_blob(&self, text: &str) -> Result<BlobId> {
        let call = self.git().call(&["hash-object", "-w", "--stdin", "--no-filters"]);
        call.stdin(text).writing().line().await?.parse()
    }

    /// Removes leftovers of a temporary index after a crash.
    pub(in crate::documents) async fn remove_aside(&self, index: &Utf8Path) -> Result<()> {
        remove_index(index).await
    }

    /// Stores a commit, with dates in UTC and the message byte for byte.
    pub(in crate::documents) async fn commit_tree(
        &self,
        (tree, parent): (&BlobId, &BlobId),
        (author, committer): (&Person, &Person),
        at: Millis,
        message: &str,
    ) -> Result<BlobId> {
        let date = format!("@{} +0000", at.0.div_euclid(1_000));
        let args =
            ["commit-tree", "--no-gpg-sign", "-p", parent.as_str(), "-F", "-", tree.as_str()];
        let call = self.git().call(&args).stdin(message).writing();
        call.env("GIT_AUTHOR_NAME", &author.name)
            .env("GIT_AUTHOR_EMAIL", &author.email)
            .env("GIT_AUTHOR_DATE", &date)
            .env("GIT_COMMITTER_NAME", &committer.name)
            .env("GIT_COMMITTER_EMAIL", &committer.email)
            .env("GIT_COMMITTER_DATE", &date)
            .line()
            .await?
            .parse()
    }

    /// Checks whether git would accept moving the index from one commit to another. The working
    /// file is not checked: its content is compared byte for byte when it is replaced.
    pub(in crate::documents) async fn dry_run(&self, from: &BlobId, to: &BlobId) -> Result<()> {
        match fault::is_off("approval_dirty") {
            true => Ok(()),
            false => self.read_tree(&["read-tree", "-n", "-m", "-i"], from, to).await,
        }
    }

    /// Moves the index from one commit to another. Git refuses, and changes nothing, if an entry
    /// that differs between the two matches neither.
    pub(in crate::documents) async fn step_index(&self, from: &BlobId, to: &BlobId) -> Result<()> {
        let merge = if fault::is_off("approval_dirty") { "--reset" } else { "-m" };
        self.read_tree(&["read-tree", merge, "-i"], from, to).await
    }

    async fn read_tree(&self, args: &[&str], from: &BlobId, to: &BlobId) -> Result<()> {
        let settings = self.settings().await?;
        // A sparse checkout stays as it is; only differing files are touched.
        until_unlocked(|| {
            let call = self.git().call(args).arg("--no-sparse-checkout");
            call.arg(from.as_str()).arg(to.as_str()).writing().on_files(&settings)
        })
        .await
    }

    /// Makes git re-read a file whose times changed but not its content. Only cached times in the
    /// index are written.
    pub(in crate::documents) async fn refresh(&self, path: &SourcePath) -> Result<()> {
        let path = self.git_path(path);
        let call = self.git().call(&["add", "--refresh", "--", &path]).writing();
        call.on_files(&*self.settings().await?).output().await.map(drop)
    }

    /// Sets one entry of the user's index, whose working file already contains that blob.
    pub(in crate::documents) async fn set_entry(
        &self,
        path: &SourcePath,
        mode: &str,
        blob: &BlobId,
    ) -> Result<()> {
        let entry = format!("{mode},{blob},{}", self.git_path(path));
        let call = self.git().call(&["update-index", "--cacheinfo", &entry]).writing();
        call.output().await?;
        self.refresh(path).await
    }

    /// Rewrites one working file from the index. The index is not written, because the disk may be
    /// full.
    pub(in crate::documents) async fn restore(&self, path: &SourcePath) -> Result<()> {
        let path = self.git_path(path);
        let call = self.git().call(&["checkout-index", "-f", "--", &path]).writing();
        call.on_files(&*self.settings().await?).output().await.map(drop)
    }

    /// Checks whether a branch can be moved: git takes its locks, compares, writes the new value
    /// beside the old one, and discards it.
    pub(in crate::documents) async fn rehearse_move(
        &self,
        branch: &str,
        (base, new): (&BlobId, &BlobId),
    ) -> Result<()> {
        if fault::is_off("approval_swap") {
            return Ok(());
        }
        let words = format!("start\nupdate {branch} {new} {base}\nprepare\nabort\n");
        until_unlocked(|| {
            let call = self.git().call(&["update-ref", "--no-deref", "--stdin"]);
            call.stdin(words.clone()).writing()
        })
        .await
    }

    /// Moves a branch from one commit to another, if it has not moved.
    pub(in crate::documents) async fn move_branch(
        &self,
        branch: &str,
        (base, new): (&BlobId, &BlobId),
        committer: &Person,
        subject: &str,
    ) -> Result<Moved> {
        let reason = format!("incorporate: {subject}");
        let args = ["update-ref", "--no-deref", "-m", &reason, branch, new.as_str(), base.as_str()];
        // Without the last argument git moves the branch regardless of where it is.
        let words = args.len() - usize::from(fault::is_off("approval_swap"));
        let call = self.git().call(&args[..words]).writing();
        let answer = call
            .env("GIT_COMMITTER_NAME", &committer.name)
            .env("GIT_COMMITTER_EMAIL", &committer.email)
            .run()
            .await;
        let failure = match answer {
            Ok(answer) if answer.code == 0 => return Ok(Moved::Done),
            Ok(answer) => answer.failure(),
            Err(failure) => failure,
        };
        // The branch itself tells what happened, even if git was killed midway.
        match self.tip(branch).await? {
            Some(tip) if tip == *base => Err(failure),
            Some(tip) if self.is_ancestor(new, &tip).await? => Ok(Moved::Done),
            _ => Ok(Moved::Lost),
        }
    }

    /// Returns whether a commit is `tip` or one of its ancestors. A missing commit is not.
    pub(in crate::documents) async fn is_ancestor(
        &self,
        commit: &BlobId,
        tip: &BlobId,
    ) -> Result<bool> {
        if !self.has_commit(commit).await? {
            return Ok(false);
        }
        let args = ["merge-base", "--is-ancestor", commit.as_str(), tip.as_str()];
        let answer = self.git().call(&args).run().await?;
        match answer.code {
            1 => Ok(false),
            _ => answer.ok().map(|_| true),
        }
    }

    /// Returns whether a commit and its tree can be read, as far as git checks.
    pub(in crate::documents) async fn has_commit(&self, commit: &BlobId) -> Result<bool> {
        let tree = format!("{commit}^{{tree}}");
        let answer = self.git().call(&["cat-file", "-e", &tree]).run().await?;
        Ok(answer.code == 0)
    }
}

/// Runs a call, again while another git process holds a lock.
async fn until_unlocked<'a>(call: impl Fn() -> Call<'a>) -> Result<()> {
    let mut tries = 0;
    loop {
        let answer = call().run().await?;
        if answer.code == 0 {
            return Ok(());
        }
        let failure = answer.failure();
        tries += 1;
        if failure.code_str() != INDEX_LOCKED || tries == LOCK_TRIES {
            return Err(failure);
        }
        tokio::time::sleep(LOCK_WAIT).await;
    }
}

/// Removes an index file and its lock, which a crash may have left.
async fn remove_index(index: &Utf8Path) -> Result<()> {
    let (file, lock) = (index.to_owned(), format!("{index}.lock"));
    let removed = blocking(move || {
        for name in [file.as_str(), &lock] {
            match std::fs::remove_file(name) {
                Err(cause) if cause.kind() != std::io::ErrorKind::NotFound => return Err(cause),
                _ => {}
            }
        }
        Ok(())
    });
    removed.await?.context(ErrorKind::Unavailable, || format!("cannot remove {index}"))
}

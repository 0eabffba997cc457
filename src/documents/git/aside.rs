//! Builds trees and commits without touching the user's, and writes index and refs piecemeal.

use std::collections::{BTreeMap, BTreeSet};

use camino::Utf8Path;

use crate::base::{BlobId, Error, Result};
use crate::documents::git::failure::GIT_FAILED;
use crate::documents::git::{Call, ObjectFormat, Person, Repo};
use crate::documents::snapshot::{Stashed, name};

/// Attributes under which a file's bytes may differ from its blob's.
const CONVERTING: &[&str] = &["filter", "ident", "working-tree-encoding", "eol", "text", "crlf"];
/// Largest output of git for one file as checked out, in bytes.
const FILE_BYTES_MAX: usize = 64 * 1024 * 1024;

/// How the bytes of a path differ from its blob.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::documents) enum Checkout {
    /// Git converts line endings or encodings.
    Converted,
    /// They are made by a program of the operator's, which is never run.
    Filtered,
}

impl Repo {
    /// Returns the id of the empty tree.
    pub(in crate::documents) async fn empty_tree(&self) -> Result<BlobId> {
        match self.shared.format {
            ObjectFormat::Sha1 => "4b825dc642cb6eb9a060e54bf8d69288fbee4904",
            ObjectFormat::Sha256 => {
                "6ef19b41225c5369f1c104d45d8d85efa9b057b53b14b4b9b939dd74decc5321"
            }
        }
        .parse()
    }

    /// Returns git's null id.
    pub(in crate::documents) fn no_object(&self) -> String {
        match self.shared.format {
            ObjectFormat::Sha1 => "0".repeat(40),
            ObjectFormat::Sha256 => "0".repeat(64),
        }
    }

    /// Returns whether an object exists.
    pub(in crate::documents) async fn has_object(&self, id: &BlobId) -> Result<bool> {
        let answer = self.git().call(&["cat-file", "-e", id.as_str()]).run().await?;
        Ok(answer.code == 0)
    }

    /// Stores a commit's tree (or the empty one) with changed entries. `lines` are in the format of
    /// `update-index -z --index-info`; `index` is a temporary file that nobody else uses.
    pub(in crate::documents) async fn tree_with(
        &self,
        commit: Option<&BlobId>,
        lines: &[u8],
        index: &Utf8Path,
    ) -> Result<BlobId> {
        self.remove_aside(index).await?;
        let call = |args: &[&str]| -> Call<'_> {
            let call = self.git().call(args).set("core.sparseCheckout=false");
            call.set("core.splitIndex=false").env("GIT_INDEX_FILE", index.as_str()).writing()
        };
        call(&["read-tree", commit.map_or("--empty", BlobId::as_str)]).output().await?;
        call(&["update-index", "-z", "--index-info"]).stdin(lines).output().await?;
        let tree = call(&["write-tree"]).line().await?;
        self.remove_aside(index).await?;
        tree.parse()
    }

    /// Stores a commit that is on no branch.
    pub(in crate::documents) async fn commit_aside(
        &self,
        tree: &BlobId,
        parents: &[BlobId],
        by: &Person,
        message: &str,
    ) -> Result<BlobId> {
        let mut call = self.git().call(&["commit-tree", "--no-gpg-sign", "-F", "-"]);
        for parent in parents {
            call = call.arg("-p").arg(parent.as_str());
        }
        call.arg(tree.as_str())
            .stdin(message)
            .writing()
            .env("GIT_AUTHOR_NAME", &by.name)
            .env("GIT_AUTHOR_EMAIL", &by.email)
            .env("GIT_COMMITTER_NAME", &by.name)
            .env("GIT_COMMITTER_EMAIL", &by.email)
            .line()
            .await?
            .parse()
    }

    /// Returns how paths, as git names them, are checked out; plain ones are omitted. `tree` has
    /// the attribute files, if not the present ones count.
    pub(in crate::documents) async fn checkouts(
        &self,
        paths: &BTreeSet<String>,
        tree: Option<&BlobId>,
    ) -> Result<BTreeMap<String, Checkout>> {
        if paths.is_empty() {
            return Ok(BTreeMap::new());
        }
        let asked = joined(paths.iter().map(String::as_str));
        let call = self.git().call(&["check-attr", "-z", "--stdin"]).stdin(asked);
        let call = CONVERTING.iter().fold(call, |call, it| call.arg(*it));
        let told = with_attributes(call, tree).output_max(FILE_BYTES_MAX).output().await?;
        let told = name::shown(&told);
        let words: Vec<&str> = told.split_terminator('\0').collect();
        let mut found = BTreeMap::new();
        if self.settings().await?.converts_line_ends {
            found.extend(paths.iter().map(|it| (it.clone(), Checkout::Converted)));
        }
        for triple in words.chunks_exact(3) {
            let (path, attribute, value) = (triple[0], triple[1], triple[2]);
            if matches!(value, "unspecified" | "unset") {
                continue;
            }
            let how = if attribute == "filter" { Checkout::Filtered } else { Checkout::Converted };
            let known = found.entry(path.to_owned()).or_insert(how);
            if how == Checkout::Filtered {
                *known = how;
            }
        }
        Ok(found)
    }

    /// Returns the bytes that git would write for a blob at a path, without running filter
    /// programs. `tree` as in [`Repo::checkouts`].
    pub(in crate::documents) async fn checked_out(
        &self,
        path: &str,
        blob: &BlobId,
        tree: Option<&BlobId>,
    ) -> Result<Vec<u8>> {
        self.proven(std::slice::from_ref(blob)).await?;
        let name = format!("--path={path}");
        // Git looks up attributes by this name; a name that is not UTF-8 uses those of its folder.
        let call = self.git().call(&["cat-file", "--filters", &name, blob.as_str()]);
        let settings = self.settings().await?;
        let call = with_attributes(call, tree).output_max(FILE_BYTES_MAX);
        call.on_files(&settings).output().await
    }

    /// Returns the blob that git would store for the bytes of a file at a path, without running
    /// filter programs. `tree` as in [`Repo::checkouts`].
    pub(in crate::documents) async fn cleaned(
        &self,
        path: &str,
        bytes: &[u8],
        tree: Option<&BlobId>,
    ) -> Result<BlobId> {
        let name = format!("--path={path}");
        let call = self.git().call(&["hash-object", "--stdin", &name]).stdin(bytes);
        let settings = self.settings().await?;
        let call = with_attributes(call, tree).on_files(&settings).set("core.safecrlf=false");
        call.line().await?.parse()
    }

    /// Stores bytes as a blob, unfiltered.
    pub(in crate::documents) async fn write_bytes(&self, bytes: &[u8]) -> Result<BlobId> {
        let call = self.git().call(&["hash-object", "-w", "--stdin", "--no-filters"]);
        call.stdin(bytes).writing().line().await?.parse()
    }

    /// Returns the paths of all files with a name, tracked or not.
    pub(in crate::documents) async fn files_named(&self, own: &str) -> Result<BTreeSet<String>> {
        let call = self.git().call(&["ls-files", "-z", "--cached", "--others", "--"]);
        let call = call.arg(format!(":(glob)**/{own}")).env("GIT_LITERAL_PATHSPECS", "0");
        let settings = self.settings().await?;
        let listed = call.output_max(FILE_BYTES_MAX).on_files(&settings).output().await?;
        let names = listed.split(|it| *it == 0).filter(|it| !it.is_empty());
        Ok(names.map(|it| name::shown(it).into_owned()).collect())
    }

    /// Writes entries to the user's index, in the format of `update-index -z --index-info`.
    pub(in crate::documents) async fn write_entries(&self, lines: Vec<u8>) -> Result<()> {
        let call = self.git().call(&["update-index", "-z", "--index-info"]).stdin(lines);
        call.writing().output().await.map(drop)
    }

    /// Sets a flag on entries of the user's index.
    pub(in crate::documents) async fn flag_entries(
        &self,
        flag: &str,
        paths: &[&str],
    ) -> Result<()> {
        let told = joined(paths.iter().copied());
        let call = self.git().call(&["update-index", flag, "-z", "--stdin"]).stdin(told);
        call.writing().output().await.map(drop)
    }

    /// Adds files to the user's index without content (`git add -N`).
    pub(in crate::documents) async fn announce(&self, paths: &[&str]) -> Result<()> {
        let args = ["add", "-N", "-f", "--pathspec-from-file=-", "--pathspec-file-nul"];
        let call = self.git().call(&args).stdin(joined(paths.iter().copied())).writing();
        call.on_files(&*self.settings().await?).output().await.map(drop)
    }

    /// Makes git re-read all files and store their times in the index.
    pub(in crate::documents) async fn refresh_all(&self) -> Result<()> {
        let call = self.git().call(&["update-index", "-q", "--refresh"]).writing();
        let answer = call.on_files(&*self.settings().await?).run().await?;
        // 1: some files differ, which is not a failure.
        if answer.code > 1 { Err(answer.failure()) } else { Ok(()) }
    }

    /// Moves branches, tags and the stash in one transaction, in the format of `update-ref
    /// --stdin`.
    ///
    /// # Errors
    /// `conflict` with code `changed_since` if one has moved.
    pub(in crate::documents) async fn move_refs(&self, orders: String, why: &str) -> Result<()> {
        let args = ["update-ref", "--no-deref", "-m", why, "--stdin"];
        let call = self.git().call(&args).stdin(name::bytes(&orders).into_owned()).writing();
        let call = call.env("GIT_COMMITTER_NAME", "wiki-browser");
        let answer = call.env("GIT_COMMITTER_EMAIL", "").run().await?;
        if answer.code == 0 {
            return Ok(());
        }
        let failure = answer.failure();
        match failure.code_str() {
            GIT_FAILED => {
                Err(Error::conflict("changed_since", "a branch was moved in the meantime")
                    .source(failure.chain()))
            }
            _ => Err(failure),
        }
    }

    /// Pushes an entry onto the stash, whose newest entry is `last`.
    ///
    /// # Errors
    /// `conflict` with code `changed_since` if the stash has changed.
    pub(in crate::documents) async fn push_stash(
        &self,
        (name, entry): (&str, &Stashed),
        last: Option<&BlobId>,
    ) -> Result<()> {
        let last = last.map_or_else(|| self.no_object(), ToString::to_string);
        let args = ["update-ref", "--no-deref", "--create-reflog", "-m", &entry.title, name];
        let call = self.git().call(&args).arg(entry.commit.as_str()).arg(last).writing();
        let call = call.env("GIT_COMMITTER_NAME", "wiki-browser");
        let answer = call.env("GIT_COMMITTER_EMAIL", "").run().await?;
        match answer.code {
            0 => Ok(()),
            _ => Err(Error::conflict("changed_since", "the stash was changed in the meantime")
                .source(answer.failure().chain())),
        }
    }

    /// Deletes our own refs; objects that only they referred to become garbage.
    ///
    /// # Errors
    /// `unavailable` if git cannot write.
    pub async fn let_go(&self, below: &str) -> Result<()> {
        let listed = self.git().call(&["for-each-ref", "--format=delete %(refname)", below]);
        let orders = listed.output_max(FILE_BYTES_MAX).output().await?;
        let call = self.git().call(&["update-ref", "--no-deref", "--stdin"]).stdin(orders);
        call.writing().output().await.map(drop)
    }

    /// Checks out a branch without touching index and files.
    pub(in crate::documents) async fn point_head(&self, branch: &str, why: &str) -> Result<()> {
        let call = self.git().call(&["symbolic-ref", "-m", why, "HEAD", branch]).writing();
        let call = call.env("GIT_COMMITTER_NAME", "wiki-browser");
        call.env("GIT_COMMITTER_EMAIL", "").output().await.map(drop)
    }
}

/// Joins names into the NUL-separated form that git reads with `-z`.
pub(in crate::documents) fn joined<'a>(names: impl Iterator<Item = &'a str>) -> Vec<u8> {
    names.flat_map(|it| [&*name::bytes(it), b"\0"].concat()).collect()
}

/// Makes a call read the attribute files of a tree. A git before 2.41 reads the present ones.
fn with_attributes<'a>(call: Call<'a>, tree: Option<&BlobId>) -> Call<'a> {
    match tree {
        Some(tree) => call.env("GIT_ATTR_SOURCE", tree.as_str()),
        None => call,
    }
}

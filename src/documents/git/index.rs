//! Reads git's index and `git status`.

use std::collections::HashMap;

use camino::{Utf8Path, Utf8PathBuf};

use crate::base::{BlobId, Error, Result, SourcePath};
use crate::documents::git::{Repo, blocking, digest};
use crate::documents::snapshot::{Staged, name};

/// Output limit for a listing of the whole index, in bytes; 100,000 typical paths take some 15 MB.
const LISTING_BYTES_MAX: usize = crate::base::limit::GIT_LISTING_BYTES_MAX;

/// An index entry.
#[derive(Clone, Debug)]
pub(in crate::documents) struct IndexEntry {
    pub(in crate::documents) mode: String,
    pub(in crate::documents) blob: BlobId,
    /// Whether it is in conflict; its blob is then that of one side.
    pub(in crate::documents) is_unmerged: bool,
    /// `skip-worktree` or `assume-unchanged`, if git was told to ignore changes of the file.
    pub(in crate::documents) unwatched: Option<&'static str>,
}

/// A path that `git status` reports as changed.
#[derive(Clone, Debug)]
pub(in crate::documents) struct Change {
    /// The blob in HEAD, if any.
    pub(in crate::documents) head_blob: Option<BlobId>,
}

impl IndexEntry {
    /// Returns whether it is a regular file rather than a link or submodule.
    pub(in crate::documents) fn is_file(&self) -> bool {
        matches!(self.mode.as_str(), "100644" | "100755")
    }
}

impl Repo {
    /// Returns the index entry of a path, if it is tracked.
    pub(in crate::documents) async fn entry(
        &self,
        path: &SourcePath,
    ) -> Result<Option<IndexEntry>> {
        let path = self.git_path(path);
        let call = self.git().call(&["ls-files", "-v", "-s", "-z", "--", &path]);
        // For a folder of this name git lists its contents instead.
        let listed = call.output_max(LISTING_BYTES_MAX).output().await?;
        let found = entries(&listed).find(|(name, _)| *name == path.as_bytes());
        found.map(|(_, entry)| entry).transpose()
    }

    /// Returns whether an index ends with its checksum. Git itself does not check it, and reads one
    /// that was cut off as if it had no entries.
    pub(in crate::documents) fn is_whole_index(&self, bytes: &[u8]) -> bool {
        let format = self.shared.format;
        let Some(at) = bytes.len().checked_sub(format.id_bytes()) else { return false };
        let (content, sum) = bytes.split_at(at);
        // Zeros: `index.skipHash`.
        sum.iter().all(|byte| *byte == 0) || digest(format, &[content]) == sum
    }

    /// Returns whether git tracks a file at this path, regardless of the site's globs.
    ///
    /// # Errors
    /// `unavailable` if git fails.
    pub async fn is_tracked(&self, path: &SourcePath) -> Result<bool> {
        Ok(self.entry(path).await?.is_some())
    }

    /// Returns one of the tracked files below a folder, if any.
    ///
    /// # Errors
    /// `unavailable` if git fails.
    pub async fn tracked_below(&self, folder: &Utf8Path) -> Result<Option<String>> {
        let Ok(path) = folder.strip_prefix(self.top()) else { return Ok(None) };
        let call = self.git().call(&["ls-files", "-z", "--", path.as_str()]);
        let listed = call.output_max(LISTING_BYTES_MAX).output().await?;
        let first = listed.split(|byte| *byte == 0).find(|it| !it.is_empty());
        Ok(first.map(|it| String::from_utf8_lossy(it).into_owned()))
    }

    /// Returns the tracked regular files below the root that match the globs, in order.
    pub(in crate::documents) async fn tracked(&self) -> Result<Vec<(SourcePath, IndexEntry)>> {
        let mut call = self.git().call(&["ls-files", "-v", "-s", "-z"]);
        if !self.shared.prefix.is_empty() {
            call = call.arg("--").arg(self.shared.prefix.clone());
        }
        let listed = call.output_max(LISTING_BYTES_MAX).output().await?;
        let mut tracked: Vec<(SourcePath, IndexEntry)> = Vec::new();
        for (name, entry) in entries(&listed) {
            let Some(path) = self.source_path(name) else { continue };
            let entry = entry?;
            // A conflict lists a path once per side.
            let is_repeated = tracked.last().is_some_and(|(last, _)| *last == path);
            if entry.is_file() && !is_repeated {
                tracked.push((path, entry));
            }
        }
        Ok(tracked)
    }

    /// Returns all tracked paths below the root, in order, regardless of the globs.
    ///
    /// # Errors
    /// `unavailable` if git fails.
    pub async fn tracked_files(&self) -> Result<Vec<Utf8PathBuf>> {
        let mut call = self.git().call(&["ls-files", "-z"]);
        if !self.shared.prefix.is_empty() {
            call = call.arg("--").arg(self.shared.prefix.clone());
        }
        let listed = call.output_max(LISTING_BYTES_MAX).output().await?;
        let names = listed.split(|byte| *byte == 0).filter_map(|it| std::str::from_utf8(it).ok());
        let below = names.filter_map(|it| it.strip_prefix(self.shared.prefix.as_str()));
        Ok(below.filter(|it| !it.is_empty()).map(Utf8PathBuf::from).collect())
    }

    /// Returns the tracked paths below the root that match the globs, including links and the like.
    pub(in crate::documents) async fn tracked_paths(&self) -> Result<Vec<SourcePath>> {
        let mut call = self.git().call(&["ls-files", "-z"]);
        if !self.shared.prefix.is_empty() {
            call = call.arg("--").arg(self.shared.prefix.clone());
        }
        let listed = call.output_max(LISTING_BYTES_MAX).output().await?;
        let names = listed.split(|byte| *byte == 0).filter(|it| !it.is_empty());
        Ok(names.filter_map(|name| self.source_path(name)).collect())
    }

    /// Returns the Sources whose changes git was told to ignore, each with its flag
    /// (`assume-unchanged` or `skip-worktree`). Files excluded by a sparse checkout are not among
    /// them.
    ///
    /// # Errors
    /// `unavailable` if git fails.
    pub async fn unwatched(&self) -> Result<Vec<(SourcePath, &'static str)>> {
        let tracked = self.tracked().await?.into_iter();
        let marked: Vec<_> =
            tracked.filter_map(|(path, entry)| Some((path, entry.unwatched?))).collect();
        let root = self.root().clone();
        blocking(move || marked.into_iter().filter(|(path, _)| root.facts(path).is_ok()).collect())
            .await
    }

    /// Returns tracked names that match the globs but cannot be Sources, because they contain a
    /// control character, a backslash or invalid UTF-8. Hidden files are skipped on purpose.
    ///
    /// # Errors
    /// `unavailable` if git fails.
    pub async fn unnameable(&self) -> Result<Vec<String>> {
        let mut call = self.git().call(&["ls-files", "-z"]);
        if !self.shared.prefix.is_empty() {
            call = call.arg("--").arg(self.shared.prefix.clone());
        }
        let listed = call.output_max(LISTING_BYTES_MAX).output().await?;
        let names = listed.split(|byte| *byte == 0).filter(|it| !it.is_empty());
        let below = names.filter_map(|it| it.strip_prefix(self.shared.prefix.as_bytes()));
        let meant = below.map(String::from_utf8_lossy).filter(|it| {
            let is_hidden = it.split('/').any(|part| part.starts_with('.'));
            self.shared.sources.is_match(it.as_ref())
                && !is_hidden
                && (it.contains('\u{fffd}') || it.parse::<SourcePath>().is_err())
        });
        Ok(meant.map(|it| it.escape_debug().to_string()).collect())
    }

    /// Returns the paths below the root that match the globs and are neither tracked nor ignored.
    ///
    /// # Errors
    /// `unavailable` if git fails.
    pub async fn untracked(&self) -> Result<Vec<SourcePath>> {
        let args = ["ls-files", "-z", "--others", "--exclude-standard"];
        let mut call = self.git().call(&args);
        if !self.shared.prefix.is_empty() {
            call = call.arg("--").arg(self.shared.prefix.clone());
        }
        let call = call.output_max(LISTING_BYTES_MAX).on_files(&*self.settings().await?);
        let listed = call.output().await?;
        let names = listed.split(|byte| *byte == 0).filter(|it| !it.is_empty());
        Ok(names.filter_map(|name| self.source_path(name)).collect())
    }

    /// Returns what changed in index or working tree: for some paths, or everything below the root.
    pub(in crate::documents) async fn changes(
        &self,
        paths: Option<&[SourcePath]>,
    ) -> Result<HashMap<Vec<u8>, Change>> {
        let below: Vec<String> = match paths {
            Some(paths) => paths.iter().map(|it| self.git_path(it)).collect(),
            None => Vec::from_iter(Some(self.shared.prefix.clone()).filter(|it| !it.is_empty())),
        };
        let huge = self.huge_files(paths.is_some().then_some(&below)).await?;
        let told = self.status(&below, &huge).await?;
        let records = told.split(|byte| *byte == 0).filter(|it| !it.is_empty());
        let changes = records.filter_map(|it| change(it).transpose());
        let mut changes: HashMap<_, _> = changes.collect::<Result<_>>()?;
        for (path, staged) in huge {
            let change = Change { head_blob: Some(staged.spot.blob) };
            changes.entry(name::bytes(&path).into_owned()).or_insert(change);
        }
        Ok(changes)
    }

    async fn status(&self, below: &[String], huge: &[(String, Staged)]) -> Result<Vec<u8>> {
        let call = self.git().call(&[
            "status",
            "--porcelain=v2",
            "-z",
            "--untracked-files=no",
            "--no-renames",
            "--ignore-submodules=all",
            "--no-ahead-behind",
        ]);
        let call = call.on_paths(below, huge).output_max(LISTING_BYTES_MAX);
        call.on_files(&*self.settings().await?).output().await
    }

    /// Returns the Source with this git path, if it is one.
    pub(in crate::documents) fn source_path(&self, name: &[u8]) -> Option<SourcePath> {
        let name = std::str::from_utf8(name).ok()?.strip_prefix(self.shared.prefix.as_str())?;
        if !self.shared.sources.is_match(name) {
            return None;
        }
        name.parse::<SourcePath>()
            .inspect_err(|cause| tracing::debug!("passed over in the index: {cause}"))
            .ok()
    }
}

/// Parses `TAG MODE BLOB STAGE\tPATH\0`.
fn entries(listed: &[u8]) -> impl Iterator<Item = (&[u8], Result<IndexEntry>)> {
    listed.split(|byte| *byte == 0).filter(|it| !it.is_empty()).map(|record| {
        let tab = record.iter().position(|byte| *byte == b'\t').unwrap_or(record.len());
        let (about, name) = record.split_at(tab);
        (name.get(1..).unwrap_or_default(), index_entry(&String::from_utf8_lossy(about)))
    })
}

fn index_entry(about: &str) -> Result<IndexEntry> {
    let mut words = about.split(' ');
    let (Some(tag), Some(mode), Some(blob), Some(stage), None) =
        (words.next(), words.next(), words.next(), words.next(), words.next())
    else {
        return Err(Error::internal(format!("git ls-files answered `{about}`")));
    };
    let unwatched = match tag {
        "S" | "s" => Some("skip-worktree"),
        _ if tag.starts_with(|it: char| it.is_ascii_lowercase()) => Some("assume-unchanged"),
        _ => None,
    };
    Ok(IndexEntry {
        mode: mode.to_owned(),
        blob: blob.parse()?,
        is_unmerged: stage != "0",
        unwatched,
    })
}

/// Parses a record of `git status --porcelain=v2`; `1` is a change and `u` a conflict.
fn change(record: &[u8]) -> Result<Option<(Vec<u8>, Change)>> {
    let fields = match record.first() {
        Some(b'1') => 9,
        Some(b'u') => 11,
        _ => return Ok(None),
    };
    let parts: Vec<&[u8]> = record.splitn(fields, |byte| *byte == b' ').collect();
    let (Some(name), true) = (parts.last(), parts.len() == fields) else {
        return Err(Error::internal("git status answered with other fields than requested"));
    };
    let head_blob = match record.first() {
        Some(b'1') => std::str::from_utf8(parts[6]).ok().filter(|it| it.bytes().any(|b| b != b'0')),
        _ => None,
    };
    let head_blob = head_blob.map(str::parse).transpose()?;
    Ok(Some((name.to_vec(), Change { head_blob })))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_of_the_index_are_told_apart() {
        let sha = "a".repeat(40);
        let of =
            |tag: &str, stage: u8| index_entry(&format!("{tag} 100644 {sha} {stage}")).unwrap();
        assert!(of("H", 0).unwatched.is_none() && !of("H", 0).is_unmerged);
        assert_eq!(of("S", 0).unwatched, Some("skip-worktree"));
        assert_eq!(of("s", 0).unwatched, Some("skip-worktree"));
        assert_eq!(of("h", 0).unwatched, Some("assume-unchanged"));
        assert!(of("M", 2).is_unmerged);
        assert!(index_entry("H 100644").is_err());
    }
}

//! Sources: tracked documents in the root, as they are in the working tree.
//!
//! **Invariant:** a Source is read below the root without following links, and only if git tracks
//! it as a regular file and the site's globs match it.

use serde::Serialize;

use crate::api::sources::SourceState;
use crate::base::limit::{IMAGE_BYTES_MAX, SOURCE_BYTES_MAX};
use crate::base::{BlobId, Error, ErrorKind, Result, SourcePath};
use crate::documents::git::{Change, Conversion, IndexEntry, Repo, blocking};
use crate::process::{PATH_IS_LINK, Root, SOURCE_GONE};

/// The code of a path that is not a Source.
pub const NOT_A_SOURCE: &str = "not_a_source";
/// The hint for a path that no glob of the site matches.
pub(in crate::documents) const ADD_GLOB: &str = "add a glob to `sources` of the site";
/// The code of a text that is not UTF-8 or has a NUL byte.
pub const NOT_TEXT: &str = "not_text";

impl SourceState {
    /// Returns the word of this state.
    pub fn as_str(self) -> &'static str {
        match self {
            SourceState::Clean => "clean",
            SourceState::Modified => "modified",
            SourceState::Untracked => "untracked",
        }
    }
}

/// A Source in a list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct SourceEntry {
    /// Its path below the root.
    pub path: SourcePath,
    /// The version in the working tree.
    pub blob: BlobId,
    /// Its state.
    pub state: SourceState,
}

/// A Source with its text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    /// Its path below the root.
    pub path: SourcePath,
    /// The text in the working tree.
    pub text: String,
    /// The version of that text, as printed by `git hash-object`.
    pub blob: BlobId,
    /// The version in HEAD, if it is committed.
    pub head_blob: Option<BlobId>,
    /// Its state.
    pub state: SourceState,
    /// The size of the text in bytes.
    pub bytes: u64,
    /// Number of hard links.
    pub links: u64,
}

impl Repo {
    /// Returns all Sources, ordered by the bytes of their paths. Missing files, links, and files
    /// above the limit are skipped. The number of git calls does not depend on the number of
    /// changed files.
    ///
    /// # Errors
    /// `unavailable` if git fails.
    pub async fn list_sources(&self) -> Result<Vec<SourceEntry>> {
        let settled = self.settled().await?;
        let tracked = settled.tracked().await?;
        settled.list_tracked(tracked, None).await
    }

    /// Returns the first `limit` wanted Sources, and whether there may be more. Only these are
    /// examined closely, however many there are. Untracked files that match the globs and are not
    /// ignored are included as untracked.
    ///
    /// # Errors
    /// Same as [`Repo::list_sources`].
    pub async fn page_of_sources(
        &self,
        wanted: impl Fn(&SourcePath) -> bool,
        limit: usize,
    ) -> Result<(Vec<SourceEntry>, bool)> {
        let settled = self.settled().await?;
        let (tracked, untracked) = tokio::try_join!(settled.tracked(), settled.untracked())?;
        let untracked = untracked.into_iter().map(|path| (path, None));
        let mut all: Vec<(SourcePath, Option<IndexEntry>)> =
            tracked.into_iter().map(|(path, entry)| (path, Some(entry))).chain(untracked).collect();
        all.retain(|(path, _)| wanted(path));
        all.sort_by(|(a, _), (b, _)| a.as_str().cmp(b.as_str()));
        let mut found = Vec::new();
        let mut rest = all.into_iter().peekable();
        // Some may be skipped; continue with the next ones.
        while found.len() < limit && rest.peek().is_some() {
            let some: Vec<_> = rest.by_ref().take(limit - found.len()).collect();
            found.extend(settled.list_some(some).await?);
        }
        Ok((found, rest.peek().is_some()))
    }

    /// Examines some paths in order; those without an entry are untracked.
    async fn list_some(
        &self,
        some: Vec<(SourcePath, Option<IndexEntry>)>,
    ) -> Result<Vec<SourceEntry>> {
        let loose: Vec<SourcePath> =
            some.iter().filter(|it| it.1.is_none()).map(|it| it.0.clone()).collect();
        let tracked: Vec<(SourcePath, IndexEntry)> =
            some.into_iter().filter_map(|(path, entry)| Some((path, entry?))).collect();
        let paths: Vec<SourcePath> = tracked.iter().map(|(path, _)| path.clone()).collect();
        let mut found = match tracked.is_empty() {
            true => Vec::new(),
            false => self.list_tracked(tracked, Some(&paths)).await?,
        };
        let repo = self.clone();
        let loose = blocking(move || {
            let entries = loose.into_iter().filter_map(|path| {
                let blob = repo.hash(&repo.root().read(&path, SOURCE_BYTES_MAX).ok()?.0);
                Some(SourceEntry { path, blob, state: SourceState::Untracked })
            });
            entries.collect::<Vec<_>>()
        });
        found.extend(loose.await?);
        found.sort_by(|a, b| a.path.as_str().cmp(b.path.as_str()));
        Ok(found)
    }

    async fn list_tracked(
        &self,
        tracked: Vec<(SourcePath, IndexEntry)>,
        only: Option<&[SourcePath]>,
    ) -> Result<Vec<SourceEntry>> {
        let changes = self.changes(only).await?;
        let paths: Vec<SourcePath> = tracked.iter().map(|(path, _)| path.clone()).collect();
        let conversions = self.conversions(&paths).await?;
        let repo = self.clone();
        blocking(move || {
            let entries = tracked.into_iter().filter_map(|(path, entry)| {
                let change = changes.get(repo.git_path(&path).as_bytes());
                let conversion = conversions.get(&path);
                listed(&repo, path, &entry, change, conversion)
            });
            entries.collect()
        })
        .await
    }

    /// Returns a Source with its text in the working tree.
    ///
    /// # Errors
    /// `not_found` with code `source_gone` or `not_a_source`; `too_large`; `invalid` with code
    /// `not_text`, `path_is_link` or `not_a_file`; `forbidden` with code `not_readable`.
    pub async fn source(&self, path: &SourcePath) -> Result<Source> {
        if let Some(papers) = self.papers() {
            return self.paper(papers, path);
        }
        let found = self.settled().await?.source_settled(path).await;
        found.map_err(with_hint)
    }

    async fn source_settled(&self, path: &SourcePath) -> Result<Source> {
        let (entry, bytes, links) = self.read_tracked(path).await?;
        let blob = self.hash(&bytes);
        let changes = self.changes(Some(std::slice::from_ref(path))).await?;
        let change = changes.get(self.git_path(path).as_bytes());
        let state = match change {
            Some(_) => SourceState::Modified,
            None if entry.is_unmerged => SourceState::Modified,
            None if blob == entry.blob => SourceState::Clean,
            None => self.silent_state(path, &entry, &bytes).await?,
        };
        let head_blob = match change {
            None => Some(entry.blob),
            Some(change) => change.head_blob.clone(),
        };
        let size = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
        let text = text_of(path, bytes)?;
        Ok(Source { path: path.clone(), text, blob, head_blob, state, bytes: size, links })
    }

    /// Returns the current text and version of a Source, without comparing it with what is
    /// committed.
    ///
    /// # Errors
    /// Same as [`Repo::source`].
    pub async fn present(&self, path: &SourcePath) -> Result<(BlobId, String)> {
        if let Some(papers) = self.papers() {
            return self.paper(papers, path).map(|it| (it.blob, it.text));
        }
        self.require_match(path).map_err(with_hint)?;
        let read = self.read_working(path, SOURCE_BYTES_MAX).await;
        let entry = self.known_entry(path).await?;
        let (_, bytes, _) = tracked_file(path, entry, read).map_err(with_hint)?;
        let blob = self.hash(&bytes);
        Ok((blob, text_of(path, bytes)?))
    }

    /// Returns the text and version of the working tree at a path that matches a glob. Whether git
    /// tracks it is only checked by [`Repo::list_sources`] and [`Repo::present`].
    ///
    /// # Errors
    /// Same as [`Repo::source`].
    pub async fn text(&self, path: &SourcePath) -> Result<(BlobId, String)> {
        self.require_match(path)?;
        let (bytes, _) = self.read_working(path, SOURCE_BYTES_MAX).await?;
        Ok((self.hash(&bytes), text_of(path, bytes)?))
    }

    /// Returns an image of the working tree for use in documents: any tracked regular file, whether
    /// or not a glob matches. The caller checks that it is an image.
    ///
    /// # Errors
    /// Same as [`Repo::source`]; `not_found` for an untracked file.
    pub async fn image(&self, path: &SourcePath) -> Result<Vec<u8>> {
        let read = self.read_working(path, IMAGE_BYTES_MAX).await;
        let entry = self.known_entry(path).await?;
        Ok(tracked_file(path, entry, read)?.1)
    }

    /// Returns the first bytes of an image, like [`Repo::image`].
    ///
    /// # Errors
    /// Same as [`Repo::image`], except that no image is too large.
    pub async fn image_head(&self, path: &SourcePath, bytes_max: usize) -> Result<Vec<u8>> {
        let (root, at): (Root, SourcePath) = (self.root().clone(), path.clone());
        let read = blocking(move || root.read_head(&at, bytes_max).map(|it| (it, 1))).await?;
        let entry = self.known_entry(path).await?;
        Ok(tracked_file(path, entry, read)?.1)
    }

    /// Refuses a path that no glob of the site matches, whether or not the file exists.
    ///
    /// # Errors
    /// `not_found` with code `not_a_source`.
    pub fn require_match(&self, path: &SourcePath) -> Result<()> {
        if self.matches(path) {
            return Ok(());
        }
        Err(not_a_source(path, "no glob of the site names it").hint(ADD_GLOB))
    }

    /// Reads a tracked file of the working tree.
    pub(super) async fn read_tracked(
        &self,
        path: &SourcePath,
    ) -> Result<(IndexEntry, Vec<u8>, u64)> {
        self.require_match(path)?;
        let read = self.read_working(path, SOURCE_BYTES_MAX).await;
        tracked_file(path, self.entry(path).await?, read)
    }

    /// Reads a file of the working tree; also returns its number of hard links.
    pub(in crate::documents) async fn read_working(
        &self,
        path: &SourcePath,
        bytes_max: usize,
    ) -> Result<(Vec<u8>, u64)> {
        let (root, path): (Root, SourcePath) = (self.root().clone(), path.clone());
        blocking(move || root.read(&path, bytes_max).map(|(bytes, facts)| (bytes, facts.links)))
            .await?
    }

    /// Returns the state of a file that `git status` omits although its bytes differ from the
    /// index: git was told to ignore it, converts it, or was misled by its times.
    async fn silent_state(
        &self,
        path: &SourcePath,
        entry: &IndexEntry,
        bytes: &[u8],
    ) -> Result<SourceState> {
        if entry.unwatched.is_some() {
            return Ok(SourceState::Modified);
        }
        if self.conversion(path).await?.always.is_some() {
            return Ok(SourceState::Clean);
        }
        match self.stored(path, bytes).await?.as_ref() == Some(&entry.blob) {
            true => Ok(SourceState::Clean),
            false => Ok(SourceState::Modified),
        }
    }
}

/// Combines the index entry of a path with what was read there.
fn tracked_file(
    path: &SourcePath,
    entry: Option<IndexEntry>,
    read: Result<(Vec<u8>, u64)>,
) -> Result<(IndexEntry, Vec<u8>, u64)> {
    let Some(entry) = entry else {
        // A missing file is gone, an existing one is not ours.
        return match read {
            Err(error) if error.code_str() == SOURCE_GONE => Err(error),
            _ => {
                Err(not_a_source(path, "git does not track it").hint("run `git add` and commit it"))
            }
        };
    };
    match entry.mode.as_str() {
        "160000" => return Err(not_a_source(path, "it is a submodule")),
        "120000" => {
            return Err(Error::invalid(format!("{path} is a link"))
                .code(PATH_IS_LINK)
                .hint("use the file itself; links are not followed"));
        }
        _ => {}
    }
    let (bytes, links) = read.map_err(|cause| {
        let is_sparse = cause.code_str() == SOURCE_GONE && entry.unwatched == Some("skip-worktree");
        match is_sparse {
            true => cause.hint("the checkout is sparse: use `git sparse-checkout add FOLDER`"),
            false => cause,
        }
    })?;
    Ok((entry, bytes, links))
}

/// Returns the list entry of a tracked file; its bytes are only read if the index is not enough.
fn listed(
    repo: &Repo,
    path: SourcePath,
    entry: &IndexEntry,
    change: Option<&Change>,
    conversion: Option<&Conversion>,
) -> Option<SourceEntry> {
    let is_known = change.is_none()
        && entry.unwatched.is_none()
        && !entry.is_unmerged
        && !conversion.is_some_and(Conversion::is_possible);
    if is_known {
        return Some(SourceEntry { path, blob: entry.blob.clone(), state: SourceState::Clean });
    }
    let read = repo.root().read(&path, SOURCE_BYTES_MAX).inspect_err(|cause| {
        tracing::debug!(source_path = %path, "not listed: {}", cause.chain());
    });
    let blob = repo.hash(&read.ok()?.0);
    let is_clean =
        change.is_none() && !entry.is_unmerged && (entry.unwatched.is_none() || blob == entry.blob);
    let state = if is_clean { SourceState::Clean } else { SourceState::Modified };
    Some(SourceEntry { path, blob, state })
}

/// Returns the text of a file.
pub(super) fn text_of(path: &SourcePath, bytes: Vec<u8>) -> Result<String> {
    let refuse = |why: &str| {
        Error::invalid(format!("{path} {why}"))
            .code(NOT_TEXT)
            .hint("remove it from `sources`, or convert it to UTF-8")
    };
    if bytes.starts_with(b"\xff\xfe") || bytes.starts_with(b"\xfe\xff") {
        return Err(refuse("is UTF-16"));
    }
    if bytes.contains(&0) {
        return Err(refuse("holds a NUL byte"));
    }
    String::from_utf8(bytes).map_err(|cause| refuse("is not UTF-8").source(cause))
}

/// The hint for a Source that does not exist.
pub const LIST_HINT: &str = "wiki-browser source list names the sources";

pub(in crate::documents) fn not_a_source(path: &SourcePath, why: &str) -> Error {
    Error::not_found(format!("{path} is not a source: {why}")).code(NOT_A_SOURCE)
}

/// Adds a hint to the error for a missing or oversized Source.
fn with_hint(cause: Error) -> Error {
    match (cause.code_str(), cause.hint_str()) {
        (SOURCE_GONE | NOT_A_SOURCE, None) => cause.hint(LIST_HINT),
        (_, None) if cause.kind() == ErrorKind::TooLarge => {
            cause.hint("split it, or remove it from `sources`")
        }
        _ => cause,
    }
}

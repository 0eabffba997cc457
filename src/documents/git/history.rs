//! The commits that changed a Source.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::Serialize;

use crate::base::{BlobId, Error, ErrorKind, Millis, Result, SourcePath, TopicId, truncate_chars};
use crate::documents::git::{Repo, blocking};
use crate::documents::source::not_a_source;

/// Most commits of one answer.
const ENTRIES_MAX: usize = crate::base::limit::HISTORY_ENTRIES_MAX;
/// Farthest that pages lead back, in commits.
const SKIPPED_MAX: usize = 1_000_000;
/// Bytes that are read for one commit at most, on average.
const ENTRY_BYTES_MAX: usize = 8 * 1024;
/// How long git may look; a large repository is walked to its end for a Source that few commits
/// have changed.
const TIME_MAX: Duration = Duration::from_millis(crate::base::limit::HISTORY_MS_MAX);
/// Kept length of a name or subject, in characters.
const TEXT_CHARS_MAX: usize = 300;
/// Fields of a commit. Nothing that git stores in a commit can hold the NUL between them. What may
/// be as long as its author liked is cut by git itself: of trailers the end is kept, since ours are
/// the last ones.
const FORMAT: &str = "--format=tformat:%H%x00%ct%x00%<(300,trunc)%an%x00%<(300,trunc)%s%x00\
    %<(500,ltrunc)%(trailers:key=Approved-by,valueonly,unfold)%x00\
    %<(500,ltrunc)%(trailers:key=Topic,valueonly,unfold)%x00";
/// The same for commits that say too much all the same: git counts columns, and some characters
/// take none.
const BARE_FORMAT: &str = "--format=tformat:%H%x00%ct%x00%x00(too long to be shown)%x00%x00%x00";
const FIELDS: usize = 6;

/// A commit that changed a Source. What it says of its approval is what its message claims.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct HistoryEntry {
    /// The commit.
    pub commit: BlobId,
    /// When it was committed.
    pub at: Millis,
    /// The author's name.
    pub author: String,
    /// The first line of the message.
    pub subject: String,
    /// The trailer `Approved-by`.
    pub approved_by: Option<String>,
    /// The trailer `Topic`.
    pub topic_id: Option<TopicId>,
}

/// Where a page of a history begins: so many commits behind a commit that was the newest one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HistoryPlace {
    head: BlobId,
    skip: usize,
}

/// One page of a Source's history.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HistoryPage {
    /// The commits, newest first.
    pub items: Vec<HistoryEntry>,
    /// Where the next page begins, if there is one.
    pub next: Option<HistoryPlace>,
    /// Whether the repository is a shallow clone, so that older commits may be elsewhere.
    pub is_shallow: bool,
}

impl fmt::Display for HistoryPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.head, self.skip)
    }
}

impl FromStr for HistoryPlace {
    type Err = Error;
    fn from_str(text: &str) -> Result<Self> {
        let parsed = text.split_once('.').and_then(|(head, skip)| {
            let is_number =
                (1..=7).contains(&skip.len()) && skip.bytes().all(|it| it.is_ascii_digit());
            let skip = skip.parse().ok().filter(|it| is_number && *it <= SKIPPED_MAX)?;
            Some(HistoryPlace { head: head.parse().ok()?, skip })
        });
        parsed.ok_or_else(|| {
            Error::invalid("`after` is not the place of a history")
                .code("bad_parameter")
                .hint("pass the `next` of the page before")
        })
    }
}

impl Repo {
    /// Returns the newest commits that changed a Source, newest first.
    ///
    /// # Errors
    /// As [`Repo::history_page`].
    pub async fn history(&self, path: &SourcePath, limit: usize) -> Result<Vec<HistoryEntry>> {
        Ok(self.history_page(path, None, limit).await?.items)
    }

    /// Returns one page of the commits that changed a Source under its present path, newest first;
    /// none if nothing was committed yet. Pages go on from the commit that was the newest one at
    /// the first of them, so that commits made meanwhile move nothing.
    ///
    /// # Errors
    /// `not_found` for a path that no glob names; `conflict` with code `history_changed` if what
    /// was the newest commit is none of this branch any more; `unavailable` if git cannot say.
    pub async fn history_page(
        &self,
        path: &SourcePath,
        after: Option<&HistoryPlace>,
        limit: usize,
    ) -> Result<HistoryPage> {
        if !self.matches(path) {
            return Err(not_a_source(path, "no glob of the site names it"));
        }
        let Some(tip) = self.tip("HEAD").await? else { return Ok(HistoryPage::default()) };
        let (head, skip) = match after {
            Some(place) if place.head != tip => {
                self.refuse_unreachable(&place.head, &tip).await?;
                (place.head.clone(), place.skip)
            }
            Some(place) => (tip, place.skip),
            None => (tip, 0),
        };
        let limit = limit.min(ENTRIES_MAX);
        let mut items = self.log(path, &head, skip, limit + 1).await?;
        let is_more = items.len() > limit;
        items.truncate(limit);
        let next = is_more.then(|| HistoryPlace { head, skip: skip.saturating_add(limit) });
        let shallow = self.shared.common.join("shallow");
        let is_shallow = blocking(move || shallow.symlink_metadata().is_ok()).await?;
        Ok(HistoryPage { items, next, is_shallow })
    }

    async fn log(
        &self,
        path: &SourcePath,
        head: &BlobId,
        skip: usize,
        count: usize,
    ) -> Result<Vec<HistoryEntry>> {
        let args = |format: &'static str| {
            [format!("--skip={skip}"), format!("--max-count={count}"), format.to_owned()]
        };
        let told = match self.told(path, head, args(FORMAT), count).await {
            Err(cause) if cause.kind() == ErrorKind::TooLarge => {
                self.told(path, head, args(BARE_FORMAT), count).await?
            }
            told => told?,
        };
        parse(&String::from_utf8_lossy(&told))
    }

    async fn told(
        &self,
        path: &SourcePath,
        head: &BlobId,
        [skip, max, format]: [String; 3],
        count: usize,
    ) -> Result<Vec<u8>> {
        let path = self.git_path(path);
        let args = [
            "log",
            &skip,
            &max,
            &format,
            "--no-show-signature",
            "--no-mailmap",
            "--no-notes",
            "--no-color",
            "--no-ext-diff",
            "--no-textconv",
            "--encoding=UTF-8",
            head.as_str(),
            "--",
            &path,
        ];
        let call = self.git().call(&args).within(TIME_MAX);
        call.output_max((count + 1) * ENTRY_BYTES_MAX).output().await
    }

    /// A commit that nobody is shown otherwise, such as one that is held for a job, is not looked
    /// at either.
    async fn refuse_unreachable(&self, commit: &BlobId, tip: &BlobId) -> Result<()> {
        let asked = ["merge-base", "--is-ancestor", commit.as_str(), tip.as_str()];
        let answer = self.git().call(&asked).within(TIME_MAX).run().await?;
        if answer.code == 0 {
            return Ok(());
        }
        Err(Error::conflict("history_changed", "the branch was set back or switched meanwhile")
            .hint("begin again with the first page"))
    }
}

fn parse(log: &str) -> Result<Vec<HistoryEntry>> {
    let fields: Vec<&str> = log.split('\0').collect();
    fields.chunks_exact(FIELDS).map(entry).collect()
}

fn entry(fields: &[&str]) -> Result<HistoryEntry> {
    let [commit, at, author, subject, approved_by, topic] = fields else {
        return Err(Error::internal("git log answered with other fields than asked"));
    };
    // Ours are the last ones: a message may hold older trailers of the same name.
    let last = |values: &str| values.lines().map(str::trim).rfind(|it| !it.is_empty()).map(shown);
    Ok(HistoryEntry {
        commit: commit.trim_start_matches('\n').parse()?,
        at: Millis(at.parse::<i64>().unwrap_or(0).saturating_mul(1_000)),
        author: shown(author),
        subject: shown(subject),
        approved_by: last(approved_by),
        topic_id: last(topic).and_then(|it| it.parse().ok()),
    })
}

fn shown(text: &str) -> String {
    let plain: String = text.chars().filter(|it| !it.is_control()).collect();
    truncate_chars(plain.trim(), TEXT_CHARS_MAX)
}

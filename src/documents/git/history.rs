//! The commits that changed a Source.

use serde::Serialize;

use crate::base::{BlobId, Error, Millis, Result, SourcePath, TopicId, truncate_chars};
use crate::documents::git::Repo;
use crate::documents::source::not_a_source;

/// Most commits of one answer.
const ENTRIES_MAX: usize = crate::base::limit::HISTORY_ENTRIES_MAX;
/// Bytes that are read for one commit at most, on average.
const ENTRY_BYTES_MAX: usize = 8 * 1024;
/// Kept length of a name or subject, in characters.
const TEXT_CHARS_MAX: usize = 300;
/// Fields of a commit. Nothing that git stores in a commit can hold the NUL between them.
const FORMAT: &str = "--format=tformat:%H%x00%ct%x00%an%x00%s%x00\
    %(trailers:key=Approved-by,valueonly,unfold)%x00%(trailers:key=Topic,valueonly,unfold)%x00";
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

impl Repo {
    /// Returns the newest commits that changed a Source, newest first.
    ///
    /// # Errors
    /// `not_found` for a path that no glob names; `unavailable` if git cannot say.
    pub async fn history(&self, path: &SourcePath, limit: usize) -> Result<Vec<HistoryEntry>> {
        if !self.matches(path) {
            return Err(not_a_source(path, "no glob of the site names it"));
        }
        let head = self.tip("HEAD").await?;
        let Some(head) = head else { return Ok(Vec::new()) };
        let limit = limit.min(ENTRIES_MAX);
        let count = format!("--max-count={limit}");
        let path = self.git_path(path);
        let args = [
            "log",
            &count,
            FORMAT,
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
        let call = self.git().call(&args).output_max((limit + 1) * ENTRY_BYTES_MAX);
        parse(&String::from_utf8_lossy(&call.output().await?))
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
    truncate_chars(&plain, TEXT_CHARS_MAX)
}

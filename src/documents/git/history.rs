//! The commits that changed a Source.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use crate::api::sources::HistoryEntry;
use crate::base::limit::GIT_LISTING_BYTES_MAX;
use crate::base::{BlobId, Error, ErrorKind, Millis, Result, SourcePath, truncate_chars};
use crate::documents::git::{Repo, blocking, renames};

/// Most commits per response.
const ENTRIES_MAX: usize = crate::base::limit::HISTORY_ENTRIES_MAX;
/// Most commits that pages may skip.
const SKIPPED_MAX: usize = 1_000_000;
/// Most bytes read per commit, on average.
const ENTRY_BYTES_MAX: usize = 8 * 1024;
/// Timeout for git: for a Source changed by few commits it walks a large repository to its end.
const TIME_MAX: Duration = Duration::from_millis(crate::base::limit::HISTORY_MS_MAX);
/// Most renames of a Source that are followed.
const RENAMES_MAX: usize = 30;
/// Characters kept of a name or subject.
const TEXT_CHARS_MAX: usize = 300;
/// Fields of a commit, separated by NUL, which no commit can contain. Git itself cuts fields of
/// unbounded length: of trailers the end is kept, because ours are the last ones.
const FORMAT: &str = "--format=tformat:%H%x00%ct%x00%<(300,trunc)%an%x00%<(300,trunc)%s%x00\
    %<(500,ltrunc)%(trailers:key=Approved-by,valueonly,unfold)%x00\
    %<(500,ltrunc)%(trailers:key=Topic,valueonly,unfold)%x00";
/// The same for commits that exceed the limit nevertheless: git counts columns, and some characters
/// take none.
const BARE_FORMAT: &str = "--format=tformat:%H%x00%ct%x00%x00(too long to be shown)%x00%x00%x00";
const FIELDS: usize = 6;

/// Where a page of a history begins: a number of commits behind the head of the first page, under
/// the Source's name at the time, if that differs from the current one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HistoryPlace {
    head: BlobId,
    skip: usize,
    path: Option<SourcePath>,
}

/// One page of a Source's history.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HistoryPage {
    /// The commits, newest first.
    pub items: Vec<HistoryEntry>,
    /// Where the next page begins, if there is one.
    pub next: Option<HistoryPlace>,
    /// Whether the repository is a shallow clone, so that older commits may be missing.
    pub is_shallow: bool,
}

/// A Source before a rename.
struct Before {
    /// Its name, for display.
    name: String,
    /// The parent commit and the Source in it; `None` if it was no Source of this site.
    goes_on: Option<(BlobId, SourcePath)>,
}

impl fmt::Display for HistoryPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.head, self.skip)?;
        let Some(path) = &self.path else { return Ok(()) };
        f.write_str(".")?;
        path.as_str().bytes().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl FromStr for HistoryPlace {
    type Err = Error;
    fn from_str(text: &str) -> Result<Self> {
        let parsed = text.split_once('.').and_then(|(head, rest)| {
            let (skip, path) = match rest.split_once('.') {
                Some((skip, path)) => (skip, Some(unhex(path)?.parse().ok()?)),
                None => (rest, None),
            };
            let is_number =
                (1..=7).contains(&skip.len()) && skip.bytes().all(|it| it.is_ascii_digit());
            let skip = skip.parse().ok().filter(|it| is_number && *it <= SKIPPED_MAX)?;
            Some(HistoryPlace { head: head.parse().ok()?, skip, path })
        });
        parsed.ok_or_else(|| {
            Error::invalid("`after` is not a valid history position")
                .code("bad_parameter")
                .hint("pass `next` from the previous page")
        })
    }
}

impl Repo {
    /// Returns the newest commits up to `head` that changed a Source under this name, newest first.
    ///
    /// # Errors
    /// Same as [`Repo::history_page`].
    pub(super) async fn history_from(
        &self,
        head: &BlobId,
        path: &SourcePath,
        limit: usize,
    ) -> Result<Vec<HistoryEntry>> {
        self.require_match(path)?;
        self.log(path, head, 0, limit.min(ENTRIES_MAX)).await
    }

    /// Returns the newest commits that changed a Source under this name, newest first.
    ///
    /// # Errors
    /// Same as [`Repo::history_page`].
    pub async fn history(&self, path: &SourcePath, limit: usize) -> Result<Vec<HistoryEntry>> {
        self.require_match(path)?;
        let Some(tip) = self.tip("HEAD").await? else { return Ok(Vec::new()) };
        self.history_from(&tip, path, limit).await
    }

    /// Returns one page of the commits that changed a Source, newest first, across renames; empty
    /// if nothing is committed yet. Pages continue from the head of the first page, so that new
    /// commits do not shift them.
    ///
    /// # Errors
    /// `not_found` for a path that no glob matches; `conflict` with code `history_changed` if the
    /// head of the first page is no longer on this branch; `unavailable` if git fails.
    pub async fn history_page(
        &self,
        path: &SourcePath,
        after: Option<&HistoryPlace>,
        limit: usize,
    ) -> Result<HistoryPage> {
        self.require_match(path)?;
        let Some(tip) = self.tip("HEAD").await? else { return Ok(HistoryPage::default()) };
        let from = after.cloned().unwrap_or_else(|| HistoryPlace {
            head: tip.clone(),
            skip: 0,
            path: None,
        });
        if from.head != tip {
            self.refuse_unreachable(&from.head, &tip).await?;
        }
        let limit = limit.min(ENTRIES_MAX);
        let mut found = self.walk(path, from, limit + 1).await?;
        let next = (found.len() > limit).then(|| found.swap_remove(limit).1);
        found.truncate(limit);
        let items = found.into_iter().map(|it| it.0).collect();
        let shallow = self.shared.common.join("shallow");
        let is_shallow = blocking(move || shallow.symlink_metadata().is_ok()).await?;
        Ok(HistoryPage { items, next, is_shallow })
    }

    /// Returns this many commits from a place on, each with its own place; at a rename the walk
    /// continues under the earlier name.
    async fn walk(
        &self,
        path: &SourcePath,
        mut at: HistoryPlace,
        count: usize,
    ) -> Result<Vec<(HistoryEntry, HistoryPlace)>> {
        let mut found: Vec<(HistoryEntry, HistoryPlace)> = Vec::new();
        for _ in 0..RENAMES_MAX {
            let name = at.path.as_ref().unwrap_or(path).clone();
            self.require_match(&name)?;
            let wanted = count - found.len();
            let entries = self.log(&name, &at.head, at.skip, wanted).await?;
            let (is_end, is_empty) = (entries.len() < wanted, entries.is_empty());
            found.extend(entries.into_iter().zip(at.skip..).map(|(entry, skip)| {
                let place = HistoryPlace { skip, ..at.clone() };
                (HistoryEntry { path: Some(name.clone()), ..entry }, place)
            }));
            let Some((oldest, _)) = found.last_mut().filter(|_| is_end && !is_empty) else { break };
            let Some(before) = self.renamed(&oldest.commit, &name).await? else { break };
            oldest.renamed_from = Some(before.name.clone());
            match before.goes_on {
                Some((head, path)) => at = HistoryPlace { head, skip: 0, path: Some(path) },
                None => break,
            }
        }
        Ok(found)
    }

    /// Returns the Source's name before a commit that introduced the current one. Only files
    /// removed by the same commit are considered, so a copy is not a rename.
    async fn renamed(&self, commit: &BlobId, path: &SourcePath) -> Result<Option<Before>> {
        let call = self.git().call(&["diff-tree", "--no-commit-id"]);
        let call = renames::FIND.iter().fold(call.arg(renames::ALIKE), |call, it| call.arg(*it));
        let call = call.arg(commit.as_str());
        let call = call.within(TIME_MAX).output_max(GIT_LISTING_BYTES_MAX);
        let told = match call.output().await {
            // So many renames at once that nobody followed this one by hand either.
            Err(cause) if cause.kind() == ErrorKind::TooLarge => return Ok(None),
            told => told?,
        };
        let fields: Vec<&[u8]> = told.split(|it| *it == 0).collect();
        let now = self.git_path(path);
        let before = fields.chunks_exact(3).find(|it| it[2] == now.as_bytes()).map(|it| it[1]);
        let Some(Ok(before)) = before.map(std::str::from_utf8) else { return Ok(None) };
        let own = before.strip_prefix(&self.git_prefix()).unwrap_or(before);
        let name = shown(own);
        let earlier = own
            .parse::<SourcePath>()
            .ok()
            .filter(|it| before == self.git_path(it) && self.matches(it));
        let Some(earlier) = earlier else { return Ok(Some(Before { name, goes_on: None })) };
        let parent = self.tip(&format!("{commit}^1")).await?;
        Ok(Some(Before { name, goes_on: parent.map(|it| (it, earlier)) }))
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

    /// Refuses commits that are not reachable from the branch, such as one stored for a job.
    async fn refuse_unreachable(&self, commit: &BlobId, tip: &BlobId) -> Result<()> {
        let asked = ["merge-base", "--is-ancestor", commit.as_str(), tip.as_str()];
        let answer = self.git().call(&asked).within(TIME_MAX).run().await?;
        if answer.code == 0 {
            return Ok(());
        }
        Err(Error::conflict("history_changed", "the branch was reset or switched in the meantime")
            .hint("start again from the first page"))
    }
}

fn unhex(text: &str) -> Option<String> {
    let digits = text.as_bytes().chunks(2).map(|it| {
        let pair = std::str::from_utf8(it).ok().filter(|it| it.len() == 2)?;
        u8::from_str_radix(pair, 16).ok()
    });
    String::from_utf8(digits.collect::<Option<Vec<u8>>>()?).ok()
}

fn parse(log: &str) -> Result<Vec<HistoryEntry>> {
    let fields: Vec<&str> = log.split('\0').collect();
    fields.chunks_exact(FIELDS).map(entry).collect()
}

fn entry(fields: &[&str]) -> Result<HistoryEntry> {
    let [commit, at, author, subject, approved_by, topic] = fields else {
        return Err(Error::internal("git log answered with other fields than requested"));
    };
    // Ours come last: a message may contain older trailers of the same name.
    let last = |values: &str| values.lines().map(str::trim).rfind(|it| !it.is_empty()).map(shown);
    Ok(HistoryEntry {
        commit: commit.trim_start_matches('\n').parse()?,
        at: Millis(at.parse::<i64>().unwrap_or(0).saturating_mul(1_000)),
        author: shown(author),
        subject: shown(subject),
        approved_by: last(approved_by),
        topic_id: last(topic).and_then(|it| it.parse().ok()),
        path: None,
        renamed_from: None,
    })
}

fn shown(text: &str) -> String {
    let plain: String = text.chars().filter(|it| !it.is_control()).collect();
    truncate_chars(plain.trim(), TEXT_CHARS_MAX)
}

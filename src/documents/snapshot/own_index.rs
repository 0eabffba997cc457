//! An index of our own for comparing working files: the file times cached in an index tell git
//! which files it need not read, and an agent can write to the user's index.
//!
//! It has the entries of the user's index, but its cached times come from our own scans, which read
//! the files. If it is not as the last scan left it, it is rebuilt.
//!
//! **Invariant:** no flag and no time of the user's index counts. It is trusted only for files
//! produced by a git filter that steer no agent, because no filter is ever run.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use camino::Utf8Path;

use crate::base::{Result, is_agent_file};
use crate::documents::git::{Call, Checkout, Repo, blocking, joined};
use crate::documents::snapshot::huge::names_of;
use crate::documents::snapshot::kept::INDEX;
use crate::documents::snapshot::status::{self, ANNOUNCED, LISTING_BYTES_MAX, Status};
use crate::documents::snapshot::{Kept, PathState, Spot, Staged, Unclean, Work, facts_of, name};
use crate::process::{CLOSED, Root};

/// Timeout for reading all working files, once per server.
const FIRST_TIME_MAX: Duration = Duration::from_secs(600);

/// Most empty files checked for being only announced.
const ANNOUNCED_MAX: usize = 1_000;

/// Has git skip an entry when it compares the working tree.
const SKIP: &str = "--assume-unchanged";
/// Has git compare it again.
const COMPARE: &str = "--no-assume-unchanged";

/// The entries of the user's index.
#[derive(Debug, Default)]
pub(super) struct Listed {
    /// `MODE BLOB STAGE\tPATH`, each followed by NUL.
    entries: Vec<u8>,
    /// Those whose changes git was told to ignore.
    pub(super) flagged: Vec<(String, Staged)>,
    /// The paths that steer agents.
    pub(super) steering: HashSet<String>,
}

/// Our own index, as the last scan left it.
#[derive(Debug, Default)]
pub(super) struct OwnIndex {
    listed: Arc<Listed>,
    /// Facts that distinguish its file from one written by somebody else.
    facts: String,
    /// Paths produced by a filter.
    filtered: BTreeSet<String>,
    /// Paths that differed and are not produced by a filter.
    plain: BTreeSet<String>,
    /// Paths that git was told not to compare.
    huge: BTreeSet<String>,
}

impl Listed {
    fn of(told: &[u8]) -> Result<Listed> {
        let flagged = status::flagged(told)?;
        let mut entries = Vec::with_capacity(told.len());
        for record in told.split(|byte| *byte == 0).filter(|it| !it.is_empty()) {
            // Without the tag and the space after it.
            entries.extend_from_slice(record.get(2..).unwrap_or_default());
            entries.push(0);
        }
        let mut listed = Listed { entries, flagged, steering: HashSet::new() };
        let paths = listed.records().map(|it| name::shown(status::path_of(it)));
        listed.steering = paths.filter(|it| is_agent_file(it)).map(Cow::into_owned).collect();
        Ok(listed)
    }

    /// Returns its entries, `MODE BLOB STAGE\tPATH`.
    pub(super) fn records(&self) -> impl Iterator<Item = &[u8]> {
        self.entries.split(|byte| *byte == 0).filter(|it| !it.is_empty())
    }

    fn by_path(&self) -> BTreeMap<&[u8], Vec<&[u8]>> {
        let mut found: BTreeMap<&[u8], Vec<&[u8]>> = BTreeMap::new();
        for record in self.records() {
            found.entry(status::path_of(record)).or_default().push(record);
        }
        found
    }

    /// Returns the lines for `update-index -z --index-info` that turn this index into another.
    fn orders(&self, new: &Listed, no_object: &str) -> Vec<u8> {
        let (old, new) = (self.by_path(), new.by_path());
        let mut lines = Vec::new();
        // Removals first: a folder may have become a file.
        for path in old.iter().filter(|(path, it)| new.get(*path) != Some(it)).map(|it| it.0) {
            lines.extend_from_slice(format!("0 {no_object}\t").as_bytes());
            lines.extend_from_slice(path);
            lines.push(0);
        }
        for (_, records) in new.iter().filter(|(path, it)| old.get(*path) != Some(it)) {
            for record in records {
                lines.extend_from_slice(record);
                lines.push(0);
            }
        }
        lines
    }
}

impl Repo {
    /// Returns what is not clean according to the content of the files, and the entries whose
    /// changes git was told to ignore or does not compare.
    pub(super) async fn status_by_content(
        &self,
        kept: &Kept,
    ) -> Result<(Status, Vec<(String, Staged)>)> {
        let listed = self.listed().await?;
        let file = kept.index();
        let mut last = self.looks().own_index().lock().await;
        let facts = facts_now(&file).await?;
        // Taken out of the cache, so that it is rebuilt after a failure midway.
        let known = last.take().filter(|it| it.facts == facts);
        let is_new = known.is_none();
        let mut own = match known {
            Some(it) => it,
            None => {
                let place = kept.clone();
                blocking(move || place.make_room(INDEX)).await??;
                self.remove_aside(&file).await?;
                self.on_index(&file, &["read-tree", "--empty"]).output().await?;
                OwnIndex::default()
            }
        };
        if !Arc::ptr_eq(&own.listed, &listed) {
            let orders = own.listed.orders(&listed, &self.no_object());
            let call = self.on_index(&file, &["update-index", "-z", "--index-info"]);
            call.stdin(orders).output().await?;
            own.listed = Arc::clone(&listed);
        }
        let huge = self.skip_huge(&mut own, &file).await?;
        let settings = self.settings().await?;
        let call = self.on_index(&file, STATUS).output_max(LISTING_BYTES_MAX);
        let call = if is_new { call.within(FIRST_TIME_MAX) } else { call };
        let mut status = status::parse(&call.on_files(&settings).output().await?)?;
        self.believe_filtered((&mut own, &huge), &file, &mut status).await?;
        own.facts = facts_now(&file).await?;
        *last = Some(own);
        // A flag of the user's replaces the entry without one.
        Ok((status, huge.into_iter().chain(listed.flagged.iter().cloned()).collect()))
    }

    /// Starts a call that uses our index instead of the user's.
    fn on_index(&self, file: &Utf8Path, args: &[&str]) -> Call<'_> {
        let call = self.git().call(args).env("GIT_INDEX_FILE", file.as_str()).writing();
        // It can be rebuilt, so it need not be synced; and no setting of the repository may weaken
        // the comparison of times.
        let own = ["core.fsync=none", "core.splitIndex=false", "core.untrackedCache=false"];
        own.iter().fold(call, |call, it| call.set(it)).set("core.trustctime=true")
    }

    /// Adopts the user's index for files produced by a filter: their bytes never equal their blobs,
    /// so our index has to skip them.
    async fn believe_filtered(
        &self,
        (own, huge): (&mut OwnIndex, &[(String, Staged)]),
        file: &Utf8Path,
        status: &mut Status,
    ) -> Result<()> {
        let is_asked = |path: &String| !own.plain.contains(path) && !is_agent_file(path);
        let other = status.paths.iter().filter(|(_, it)| it.is_other_than_indexed());
        let asked: BTreeSet<String> =
            other.map(|it| it.0).filter(|it| is_asked(it)).cloned().collect();
        if !asked.is_empty() {
            let known = self.checkouts(&asked, None).await?;
            let is_filtered = |it: &String| known.get(it) == Some(&Checkout::Filtered);
            let (filtered, plain) = asked.into_iter().partition::<BTreeSet<_>, _>(is_filtered);
            own.plain.extend(plain);
            if !filtered.is_empty() {
                self.mark(file, SKIP, &filtered).await?;
                own.filtered.extend(filtered);
            }
        }
        if own.filtered.is_empty() {
            return Ok(());
        }
        let mut told = status::parse(&self.whole_status(huge).await?)?;
        for path in &own.filtered {
            match told.paths.remove(path) {
                Some(found) => status.paths.insert(path.clone(), found),
                None => status.paths.remove(path),
            };
        }
        Ok(())
    }

    /// Has git skip files that are too large to be compared, and returns them. Those that a filter
    /// produced are skipped like others of that sort.
    async fn skip_huge(
        &self,
        own: &mut OwnIndex,
        file: &Utf8Path,
    ) -> Result<Vec<(String, Staged)>> {
        let huge = self.huge_among(&own.listed).await?;
        let known = self.checkouts(&names_of(&huge), None).await?;
        let is_filtered =
            |it: &str| known.get(it) == Some(&Checkout::Filtered) && !is_agent_file(it);
        // Each time: an entry that was replaced is not marked.
        self.mark(file, SKIP, &names_of(&huge)).await?;
        let (filtered, huge): (Vec<_>, Vec<_>) =
            huge.into_iter().partition(|it| is_filtered(&it.0));
        own.filtered.extend(filtered.into_iter().map(|it| it.0));
        let now = names_of(&huge);
        let mut past: BTreeSet<String> = own.huge.difference(&now).cloned().collect();
        if !past.is_empty() {
            let whole = own.listed.by_path();
            let is_whole = |it: &str| {
                whole.get(&*name::bytes(it)).is_some_and(|it| status::stage_of(it[0]) == b"0")
            };
            past.retain(|it| is_whole(it) && !own.filtered.contains(it));
            self.mark(file, COMPARE, &past).await?;
        }
        own.huge = now;
        Ok(huge)
    }

    /// Marks entries of our index.
    async fn mark(&self, file: &Utf8Path, how: &str, paths: &BTreeSet<String>) -> Result<()> {
        if paths.is_empty() {
            return Ok(());
        }
        let call = self.on_index(file, &["update-index", how, "-z", "--stdin"]);
        call.stdin(joined(paths.iter().map(String::as_str))).output().await.map(drop)
    }

    /// Returns what the user's index says about its files, but for huge ones.
    async fn whole_status(&self, huge: &[(String, Staged)]) -> Result<Vec<u8>> {
        let settings = self.settings().await?;
        let call = self.git().call(STATUS).output_max(LISTING_BYTES_MAX).on_paths(&[], huge);
        call.on_files(&settings).output().await
    }

    /// Returns the entries of the user's index; git is only asked if the file has changed.
    pub(super) async fn listed(&self) -> Result<Arc<Listed>> {
        let facts = facts_now(&self.git_dir().join("index")).await?;
        if let Some(known) = self.looks().listed(&facts) {
            return Ok(known);
        }
        let call = self.git().call(&["ls-files", "-v", "-s", "-z"]);
        let told = call.output_max(LISTING_BYTES_MAX).output().await?;
        let mut listed = Listed::of(&told)?;
        self.note_announced(&mut listed).await?;
        let listed = Arc::new(listed);
        self.looks().keep_listed(facts, Arc::clone(&listed));
        Ok(listed)
    }
}

impl Repo {
    /// Marks the entries that were only announced: they look like staged empty files.
    async fn note_announced(&self, listed: &mut Listed) -> Result<()> {
        let empty = self.hash(b"");
        let is_empty =
            |it: &[u8]| it.get(7..).is_some_and(|it| it.starts_with(empty.as_str().as_bytes()));
        let records: Vec<&[u8]> =
            listed.records().filter(|it| is_empty(it)).take(ANNOUNCED_MAX).collect();
        let paths = records.iter().filter_map(|it| std::str::from_utf8(status::path_of(it)).ok());
        let paths: Vec<&str> = paths.collect();
        if paths.is_empty() {
            return Ok(());
        }
        let call = self.git().call(&["ls-files", "-z", "--debug", "--"]);
        let call = paths.iter().fold(call, |call, it| call.arg(*it));
        let told = call.output_max(LISTING_BYTES_MAX).output().await?;
        for path in status::announced(&told) {
            let spot = Spot { mode: "100644".to_owned(), blob: empty.clone() };
            let flag = Some(ANNOUNCED.to_owned());
            listed.flagged.push((path, Staged { spot, stage: 0, flag }));
        }
        Ok(())
    }

    /// Returns the tracked files in folders that are closed to us.
    pub(super) async fn closed_files(&self) -> Result<BTreeMap<String, Unclean>> {
        let (top, listed) = (self.git().folder().to_owned(), self.listed().await?);
        blocking(move || closed_files(&top, &listed)).await?
    }

    /// Returns the index entries of some paths.
    pub(in crate::documents) async fn entries_of(
        &self,
        paths: &BTreeSet<String>,
    ) -> Result<BTreeMap<String, Vec<Staged>>> {
        let listed = self.listed().await?;
        let mut found: BTreeMap<String, Vec<Staged>> = BTreeMap::new();
        for record in listed.records() {
            let path = name::shown(status::path_of(record));
            if paths.contains(&*path) {
                // In the format of a listing with tags.
                let (path, staged) = status::entry(&[b"H ", record].concat())?;
                found.entry(path).or_default().push(staged);
            }
        }
        for (path, flagged) in &listed.flagged {
            let entries = found.get_mut(path).into_iter().flatten();
            for entry in entries.filter(|it| it.stage == flagged.stage) {
                entry.flag.clone_from(&flagged.flag);
            }
        }
        Ok(found)
    }
}

/// Returns the tracked files in folders that are closed to us. Git says that they are as indexed,
/// and whoever opens the folder again reads what is in them.
fn closed_files(top: &Utf8Path, listed: &Listed) -> Result<BTreeMap<String, Unclean>> {
    let top = Root::open(top)?;
    let mut found = BTreeMap::new();
    let mut folders: HashMap<PathBuf, bool> = HashMap::new();
    for record in listed.records() {
        let path = name::shown(status::path_of(record));
        let real = name::path(&path);
        let Some(folder) = real.parent().filter(|it| !it.as_os_str().is_empty()) else { continue };
        let is_closed = match folders.get(folder) {
            Some(known) => *known,
            None => {
                let is_closed = top.is_closed(folder);
                folders.insert(folder.to_owned(), is_closed);
                is_closed
            }
        };
        if is_closed {
            let (path, staged) = status::entry(&[b"H ", record].concat())?;
            let work = Work::Seen { facts: CLOSED.to_owned() };
            let head = Some(staged.spot.clone());
            let state = PathState { index: vec![staged], work };
            found.insert(path, Unclean { head, state, is_ignored: false });
        }
    }
    Ok(found)
}

const STATUS: &[&str] = &[
    "status",
    "--porcelain=v2",
    "-z",
    "--branch",
    "--untracked-files=all",
    "--no-renames",
    // Only a submodule's commit is compared; no git runs inside, where its own configuration would
    // apply.
    "--ignore-submodules=dirty",
    "--no-ahead-behind",
];

async fn facts_now(file: &Utf8Path) -> Result<String> {
    let file = file.to_owned();
    blocking(move || facts_of(&file)).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_index_becomes_another_by_what_is_different() {
        let (a, b) = ("a".repeat(40), "b".repeat(40));
        let listed = |records: &[String]| Listed::of(records.concat().as_bytes()).unwrap();
        let entry = |tag: &str, blob: &str, stage: u8, path: &str| {
            format!("{tag} 100644 {blob} {stage}\t{path}\0")
        };
        let old = listed(&[
            entry("H", &a, 0, "both"),
            entry("h", &a, 0, "same"),
            entry("H", &a, 0, "x/file"),
        ]);
        assert_eq!(old.flagged.len(), 1);
        let new = listed(&[
            entry("M", &a, 1, "both"),
            entry("M", &b, 2, "both"),
            entry("H", &a, 0, "same"),
            entry("H", &b, 0, "x"),
        ]);
        let orders = String::from_utf8(old.orders(&new, "0")).unwrap();
        let want = format!(
            "0 0\tboth\00 0\tx/file\0100644 {a} 1\tboth\0100644 {b} 2\tboth\0100644 {b} 0\tx\0"
        );
        assert_eq!(orders, want);
        assert!(new.orders(&new, "0").is_empty());
    }
}

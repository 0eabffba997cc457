//! Counts acknowledged commits in a file beside the database. SQLite silently drops everything
//! after a damaged frame of its log and considers the rest intact; only this count reveals the
//! loss.
//!
//! **Invariant:** the file never names a commit that is not durable: it is written after COMMIT.
//! **Invariant:** nobody is answered before the file is written. It is synced within a second:
//! exact after a kill, up to one second behind after a power cut.

use std::fs::{File, OpenOptions};
use std::io::{self, Read as _};
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use camino::{Utf8Path, Utf8PathBuf};
use rusqlite::{Connection, OptionalExtension as _};
use tracing::{info, warn};

use crate::base::{DATABASE_CORRUPT, Error, Result, digest_hex, fault};
use crate::store::{migrate, read, trouble};

const COUNT: &str = "UPDATE site SET commits = commits + 1 WHERE one = 1 RETURNING commits";
const COUNTED: &str = "SELECT epoch, commits FROM site WHERE one = 1";

/// The statements of this file, for the schema test.
pub const STATEMENTS: &[(&str, &str)] =
    &[("commit_count::count", COUNT), ("commit_count::counted", COUNTED)];

/// Two slots of the file, written alternately: if a power cut tears one, the other remains.
const SLOTS: [u64; 2] = [0, 512];
const SLOT_BYTES: usize = 128;
/// Size of the file, allocated when it is created so that later writes succeed on a full disk.
const FILE_BYTES: usize = 1_024;
/// Behind each slot stand the earlier lives, the newest first, as far as there is room.
const EARLIER_BYTES: usize = 384;
/// Hexadecimal digits of a slot's digest.
const SUM_DIGITS: usize = 16;
/// Longest time that the file stays unsynced.
const SYNC_AFTER: Duration = Duration::from_secs(1);

/// The commit counter of an open database.
pub(super) struct CommitCount {
    file: File,
    path: Utf8PathBuf,
    epoch: String,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Time of the first write since the last sync.
    dirty: Option<Instant>,
    has_failed: bool,
}

impl CommitCount {
    /// Opens the file beside a database and updates it to the database's own count. Returns `None`
    /// for a database that does not count commits.
    ///
    /// # Errors
    /// `unavailable` if the file cannot be created.
    pub(super) fn open(database: &Utf8Path, writing: &Connection) -> Result<Option<CommitCount>> {
        if fault::is_off("tally") {
            return Ok(None);
        }
        let Some((epoch, commits)) = counted(writing)? else { return Ok(None) };
        let path = path_of(database);
        let cannot = || format!("cannot write {path}");
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false).mode(0o600);
        let file = open(&options, &path).map_err(|cause| {
            Error::of_disk(cannot(), cause).hint("if it is not a file, remove it")
        })?;
        let counting = CommitCount { file, path: path.clone(), epoch, state: Mutex::default() };
        let known = known(&path).unwrap_or_default();
        if known.is_damaged {
            warn!("{path} was damaged: whether commits were lost before this start is not known");
        }
        let is_of_another = known.slots.iter().any(|it| it.0 != counting.epoch);
        if known.of(&counting.epoch) != Some(commits) || is_of_another {
            let begun = counting.begin(commits, &known.before(&counting.epoch));
            begun.map_err(|cause| Error::of_disk(cannot(), cause))?;
        }
        Ok(Some(counting))
    }

    fn begin(&self, commits: i64, before: &[String]) -> io::Result<()> {
        let mut bytes = vec![b' '; FILE_BYTES];
        let (slot, earlier) = (slot(&self.epoch, commits), earlier(before));
        for at in SLOTS.iter().filter_map(|it| usize::try_from(*it).ok()) {
            bytes[at..at + SLOT_BYTES].copy_from_slice(&slot);
            let at = at + SLOT_BYTES;
            bytes[at..at + EARLIER_BYTES].copy_from_slice(&earlier);
        }
        self.file.write_all_at(&bytes, 0)?;
        self.file.sync_all()?;
        File::open(self.path.parent().unwrap_or(Utf8Path::new(".")))?.sync_all()
    }

    /// Counts the commit in progress, inside its transaction.
    pub(super) fn count(&self, writing: &Connection) -> Result<i64> {
        Ok(writing.prepare_cached(COUNT)?.query_row([], |row| row.get(0))?)
    }

    /// Records a durable commit.
    pub(super) fn note(&self, commits: i64) {
        let place = SLOTS[usize::from(commits % 2 != 0)];
        let written = self.file.write_all_at(&slot(&self.epoch, commits), place);
        let mut state = self.state();
        // The commit is acknowledged regardless: the file is then behind, never ahead.
        match (written, state.has_failed) {
            (Err(cause), false) => {
                state.has_failed = true;
                warn!("commits are not counted in {}: {cause}", self.path);
            }
            (Ok(()), true) => {
                state.has_failed = false;
                info!("commits are counted in {} again", self.path);
            }
            _ => {}
        }
        let dirty = *state.dirty.get_or_insert_with(Instant::now);
        drop(state);
        if dirty.elapsed() >= SYNC_AFTER {
            self.sync();
        }
    }

    /// Returns when the file must be synced if no other write comes first.
    pub(super) fn due(&self) -> Option<Instant> {
        self.state().dirty.map(|since| since + SYNC_AFTER)
    }

    /// Syncs the file.
    pub(super) fn sync(&self) {
        self.state().dirty = None;
        if let Err(cause) = self.file.sync_data() {
            warn!("{} is not synced: {cause}", self.path);
        }
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What a database lacks of what was acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loss {
    /// Its last commits, so many of them.
    Commits(i64),
    /// All that was committed since it was replaced: it is of an earlier life.
    Life,
}

impl std::fmt::Display for Loss {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Loss::Commits(1) => f.write_str("the last commit is lost"),
            Loss::Commits(count) => write!(f, "the last {count} commits are lost"),
            Loss::Life => f.write_str(
                "it is a copy from before it was restored: what was committed since is not in it",
            ),
        }
    }
}

/// The contents of a file.
#[derive(Default)]
struct Known {
    /// Epoch and count of each valid slot.
    slots: Vec<(String, i64)>,
    /// The epochs before them, the newest first.
    earlier: Vec<String>,
    /// Whether the file is not empty but has no valid slot.
    is_damaged: bool,
}

/// Opens a regular file only: follows no link and does not block on a fifo.
fn open(options: &OpenOptions, path: &Utf8Path) -> io::Result<File> {
    match path.symlink_metadata() {
        Ok(facts) if !facts.is_file() => Err(io::Error::other("it is not a regular file")),
        _ => options.open(path),
    }
}

impl Known {
    /// Returns how many commits of this epoch were acknowledged.
    fn of(&self, epoch: &str) -> Option<i64> {
        self.slots.iter().filter(|(life, _)| life == epoch).map(|(_, commits)| *commits).max()
    }

    /// Returns the lives before this one, the newest first.
    fn before(&self, epoch: &str) -> Vec<String> {
        let mut before: Vec<String> = Vec::new();
        let slots = self.slots.iter().map(|it| &it.0);
        for life in slots.chain(&self.earlier).filter(|it| *it != epoch) {
            if !before.contains(life) {
                before.push(life.clone());
            }
        }
        before
    }
}

/// Returns which acknowledged commits a database has lost. Changes nothing.
///
/// # Errors
/// Fails if the database cannot be read.
pub fn loss(database: &Utf8Path) -> Result<Option<Loss>> {
    let Some(known) = known(&path_of(database)) else { return Ok(None) };
    if fault::is_off("tally") || database.metadata().map_or(true, |it| it.len() == 0) {
        return Ok(None);
    }
    let reading = read::open(database)?;
    // A copy from before an upgrade does not count commits yet.
    let (epoch, commits) = match counted(&reading)? {
        Some(counted) => counted,
        None => (migrate::epoch(&reading)?, 0),
    };
    if epoch.is_empty() {
        // Cut off before its first row: everything ever acknowledged is lost.
        let lost = known.slots.iter().map(|it| it.1).max();
        return Ok(lost.filter(|it| *it > 0).map(Loss::Commits));
    }
    if let Some(acknowledged) = known.of(&epoch) {
        return Ok((acknowledged > commits).then(|| Loss::Commits(acknowledged - commits)));
    }
    let is_earlier = known.earlier.contains(&epoch) && !fault::is_off("earlier_life");
    Ok(is_earlier.then_some(Loss::Life))
}

/// Refuses a database that has lost commits: it is intact, but too old.
///
/// # Errors
/// `unavailable` with code `database_corrupt` and a hint that names the newest backup; otherwise
/// same as [`loss`].
pub(super) fn refuse_loss(database: &Utf8Path) -> Result<()> {
    let message = match loss(database)? {
        None => return Ok(()),
        Some(Loss::Commits(lost)) => {
            let commits = if lost == 1 { "commit" } else { "commits" };
            format!(
                "the database {database} has lost its last {lost} {commits}: its log (-wal) is \
                 damaged, or an older copy is in its place"
            )
        }
        Some(Loss::Life) => format!(
            "the database {database} is a copy from before it was restored: what was committed \
             since is not in it"
        ),
    };
    let advice = trouble::advice(database);
    let hint = format!("{advice}; or keep what is left: wiki-browser recover");
    Err(Error::unavailable(message).code(DATABASE_CORRUPT).hint(hint))
}

/// Returns epoch and commit count of a database that counts commits.
fn counted(connection: &Connection) -> Result<Option<(String, i64)>> {
    if !connection.column_exists(None, "site", "commits")? {
        return Ok(None);
    }
    let mut statement = connection.prepare(COUNTED)?;
    let counted = statement.query_row([], |row| Ok((row.get(0)?, row.get(1)?))).optional()?;
    Ok(counted)
}

fn known(path: &Utf8Path) -> Option<Known> {
    let mut bytes = Vec::new();
    let file = open(OpenOptions::new().read(true), path).ok()?;
    file.take(FILE_BYTES as u64).read_to_end(&mut bytes).ok()?;
    let slots = SLOTS.iter().filter_map(|at| {
        let at = usize::try_from(*at).ok()?;
        let text = std::str::from_utf8(bytes.get(at..at + SLOT_BYTES)?).ok()?;
        let mut words = text.split_whitespace();
        let (epoch, commits, sum) = (words.next()?, words.next()?, words.next()?);
        (sum == sum_of(epoch, commits)).then_some((epoch.to_owned(), commits.parse().ok()?))
    });
    let slots: Vec<(String, i64)> = slots.collect();
    let earlier = SLOTS.iter().find_map(|at| {
        let at = usize::try_from(*at).ok()? + SLOT_BYTES;
        let text = std::str::from_utf8(bytes.get(at..at + EARLIER_BYTES)?).ok()?;
        let (lives, sum) = text.trim().rsplit_once(' ')?;
        let is_whole = sum == sum_of("before", lives);
        is_whole.then(|| lives.split(' ').map(str::to_owned).collect())
    });
    let is_damaged = slots.is_empty() && !bytes.is_empty();
    Some(Known { is_damaged, slots, earlier: earlier.unwrap_or_default() })
}

fn earlier(lives: &[String]) -> [u8; EARLIER_BYTES] {
    let mut text = String::new();
    for life in lives {
        if text.len() + life.len() + SUM_DIGITS + 2 > EARLIER_BYTES {
            break;
        }
        text += life;
        text += " ";
    }
    let mut bytes = [b' '; EARLIER_BYTES];
    if !text.is_empty() {
        text += &sum_of("before", text.trim_end());
        bytes[..text.len()].copy_from_slice(text.as_bytes());
    }
    bytes
}

fn slot(epoch: &str, commits: i64) -> [u8; SLOT_BYTES] {
    let commits = commits.to_string();
    let text = format!("{epoch} {commits} {}\n", sum_of(epoch, &commits));
    let mut bytes = [b' '; SLOT_BYTES];
    let length = text.len().min(SLOT_BYTES);
    bytes[..length].copy_from_slice(&text.as_bytes()[..length]);
    bytes
}

fn sum_of(epoch: &str, commits: &str) -> String {
    let mut sum = digest_hex(format!("{epoch} {commits}"));
    sum.truncate(SUM_DIGITS);
    sum
}

/// Returns the path of the counter beside a database.
fn path_of(database: &Utf8Path) -> Utf8PathBuf {
    Utf8PathBuf::from(format!("{database}.commits"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A database of one epoch with six commits.
    fn database(epoch: &str) -> (tempfile::TempDir, Utf8PathBuf, Connection) {
        let folder = tempfile::tempdir().unwrap();
        let database = Utf8Path::from_path(folder.path()).unwrap().join("one.db");
        let writing = Connection::open(&database).unwrap();
        let table = "CREATE TABLE site (one INTEGER PRIMARY KEY, epoch TEXT, commits INTEGER)";
        writing.execute_batch(table).unwrap();
        writing.execute("INSERT INTO site VALUES (1, ?1, 6)", [epoch]).unwrap();
        (folder, database, writing)
    }

    #[test]
    fn a_torn_slot_leaves_the_other() {
        let (_folder, database, writing) = database("life");
        let counting = CommitCount::open(&database, &writing).unwrap().unwrap();
        let told = || known(&path_of(&database)).unwrap().of("life");
        assert_eq!(told(), Some(6));
        assert!(counting.due().is_none());
        counting.note(7);
        counting.note(8);
        assert_eq!(told(), Some(8));
        assert!(counting.due().is_some());
        assert_eq!(loss(&database).unwrap(), Some(Loss::Commits(2)));
        assert!(refuse_loss(&database).unwrap_err().message().contains("its last 2 commits"));
        counting.file.write_all_at(b"x", SLOTS[0]).unwrap();
        assert_eq!(told(), Some(7));
        assert_eq!(known(&path_of(&database)).unwrap().of("another"), None);
        // The next open takes the database's own count.
        drop(counting);
        CommitCount::open(&database, &writing).unwrap().unwrap();
        assert_eq!((told(), loss(&database).unwrap()), (Some(6), None));
    }

    /// Fails with `WB_WITHOUT=earlier_life`.
    #[test]
    fn a_copy_of_an_earlier_life_is_known_however_many_there_were() {
        let (_folder, database, writing) = database("");
        let life = |number: u32| format!("01998d4e-6c1a-7f00-8000-{number:012}");
        let live = |number: u32| {
            writing.execute("UPDATE site SET epoch = ?1", [life(number)]).unwrap();
        };
        for number in 0..20 {
            live(number);
            // One that is new, and one whose number is known.
            assert_eq!(loss(&database).unwrap(), None, "{number}");
            CommitCount::open(&database, &writing).unwrap().unwrap().note(7);
            assert_eq!(loss(&database).unwrap(), Some(Loss::Commits(1)), "{number}");
        }
        for number in 11..19 {
            live(number);
            assert_eq!(loss(&database).unwrap(), Some(Loss::Life), "{number}");
        }
        assert!(refuse_loss(&database).unwrap_err().message().contains("from before"));
        // The last life is served as before, and so is a database of which nothing is known.
        live(19);
        CommitCount::open(&database, &writing).unwrap().unwrap();
        assert_eq!(loss(&database).unwrap(), None);
        live(99);
        assert_eq!(loss(&database).unwrap(), None);
        // A list that is torn in one place stands in the other.
        live(12);
        let file = OpenOptions::new().write(true).open(path_of(&database)).unwrap();
        file.write_all_at(b"x", SLOTS[0] + 200).unwrap();
        assert_eq!(loss(&database).unwrap(), Some(Loss::Life));
    }
}

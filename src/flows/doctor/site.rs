//! The doctor's checks of a site: repository, data folder, database, server.

use camino::{Utf8Path, Utf8PathBuf};
use rusqlite::Connection;

use crate::base::{Clock, DISK_ERROR, Finding, Millis, READ_ONLY, Result};
use crate::documents::{KnownSources, Repo};
use crate::flows::automation::reload;
use crate::flows::check::{external, templates};
use crate::flows::proposals::unfinished;
use crate::flows::site::{backup, servable, server_file};
use crate::jobs;
use crate::process::{self, Children, FileLock};
use crate::script::{Config, Diagnostic, Loaded};
use crate::store::{self, events};

/// Files of the data folder with secrets or content.
const PRIVATE: [&str; 4] = ["operator.token", "wiki.db", "wiki.db-wal", "wiki.db-shm"];

/// The result of checking the database.
#[derive(Default)]
pub(super) struct Newest {
    pub(super) finding: Option<Finding>,
    /// The time of its newest event.
    pub(super) event: Option<Millis>,
}

pub(super) async fn repository(loaded: &Loaded, path: &str) -> Finding {
    const WHAT: &str = "repository";
    let site = &loaded.config.site;
    let Some(git) = process::which("git", path, &loaded.config.folder) else {
        let says = format!("{} was not checked: git is missing", site.root);
        return Finding::error(WHAT, says, "install git");
    };
    let bad = |cause: crate::base::Error| {
        let advice = cause.hint_str().unwrap_or("see `git status` there").to_owned();
        Finding::error(WHAT, cause.message(), advice)
    };
    let repo = match Repo::open(&site.root, git, &site.sources, Children::new()).await {
        Ok(repo) => repo,
        Err(cause) => return bad(cause),
    };
    repo.look_past(&site.data);
    if let Err(cause) = repo.head().await {
        return bad(cause);
    }
    match repo.tracked_below(&site.data).await {
        Err(cause) => return bad(cause),
        Ok(Some(file)) => {
            let says = format!("git tracks {file}, which is in the data folder");
            return Finding::error(WHAT, says, "remove it, or choose another `data` in wb.site");
        }
        Ok(None) => {}
    }
    match repo.list_sources().await {
        Err(cause) => bad(cause),
        Ok(sources) if sources.is_empty() => Finding::warn(
            WHAT,
            format!("{} has no sources", site.root),
            "commit some documents, or fix `sources` in wb.site",
        ),
        Ok(sources) => match overlooked(&repo).await {
            Err(cause) => bad(cause),
            Ok(Some(finding)) => finding,
            Ok(None) => {
                // A negated glob matches none of the remaining files.
                let paths = match repo.tracked_files().await {
                    Ok(paths) => paths,
                    Err(cause) => return bad(cause),
                };
                let says = format!("{} has {} sources", site.root, sources.len());
                match external::unmatched(loaded, &paths).first() {
                    None => Finding::ok(WHAT, says),
                    Some((lead, glob)) => Finding::warn(
                        WHAT,
                        format!("{says}, none by `{glob}` ({})", lead.at),
                        external::meant(glob, &paths),
                    ),
                }
            }
        },
    }
}

/// Reports files that are meant to be Sources but are ignored or cannot be Sources.
async fn overlooked(repo: &Repo) -> Result<Option<Finding>> {
    const WHAT: &str = "repository";
    let unwatched = repo.unwatched().await?;
    if let Some((path, flag)) = unwatched.first() {
        let others = others(unwatched.len());
        let says = format!("changes of {path}{others} go unnoticed: git was told {flag}");
        let advice = format!("git update-index --no-{flag} -- '{path}'");
        return Ok(Some(Finding::warn(WHAT, says, advice)));
    }
    let unnameable = repo.unnameable().await?;
    Ok(unnameable.first().map(|name| {
        let others = others(unnameable.len());
        let says = format!("`{name}`{others} cannot be a source for its name");
        Finding::warn(
            WHAT,
            says,
            "rename it (no control characters, no backslashes), \
            or narrow `sources` in wb.site",
        )
    }))
}

fn others(count: usize) -> String {
    if count > 1 { format!(" and {} more", count - 1) } else { String::new() }
}

/// Reports files that were templates and became wrong: the next start holds what they declared.
pub(super) fn held(loaded: &Loaded) -> Vec<Finding> {
    let held = loaded.warnings.iter().filter(|it| it.code == templates::CODE);
    let warn = |it: &Diagnostic| {
        let advice = it.note.as_deref().unwrap_or("mend it");
        Finding::warn("templates", it.message.clone(), advice)
    };
    held.map(warn).collect()
}

/// Reports secrets that are missing in this shell; the server may have a different environment.
pub(super) fn secrets(loaded: &Loaded) -> Vec<Finding> {
    const WHAT: &str = "secret";
    let missing = external::missing_secrets(loaded, &external::environment());
    let tell = |it: &external::Missing<'_>| {
        Finding::warn(WHAT, format!("{} ({})", it.says, it.lead.at), it.advice.as_str())
    };
    let mut found: Vec<Finding> = missing.iter().map(tell).collect();
    let count = external::named_secrets(loaded).len();
    if found.is_empty() && count > 0 {
        found.push(Finding::ok(WHAT, format!("all {count} that the script names can be read")));
    }
    found
}

pub(super) fn data(data: &Utf8Path) -> Finding {
    const WHAT: &str = "data folder";
    match process::owner_and_mode(data) {
        Err(_) => Finding::ok(WHAT, format!("{data} is created at the first start")),
        Ok((false, _)) => Finding::error(
            WHAT,
            format!("{data} belongs to another user"),
            "run the server as that user, or choose another `data`",
        ),
        Ok((true, mode)) if mode & 0o077 != 0 => Finding::warn(
            WHAT,
            format!("{data} is readable by others (mode {mode:03o})"),
            format!("it holds prompts, logs and the operator's token: chmod 700 {data}"),
        ),
        Ok((true, _)) => Finding::ok(WHAT, format!("{data} is private")),
    }
}

/// Checks the permissions of private files, once they exist.
pub(super) fn files(data: &Utf8Path) -> Option<Finding> {
    const WHAT: &str = "private files";
    let modes: Vec<(Utf8PathBuf, bool, u32)> = PRIVATE
        .iter()
        .map(|it| data.join(it))
        .filter_map(|path| {
            let (is_own, mode) = process::owner_and_mode(&path).ok()?;
            Some((path, is_own, mode))
        })
        .collect();
    if let Some((path, ..)) = modes.iter().find(|it| !it.1) {
        return Some(Finding::error(
            WHAT,
            format!("{path} belongs to another user"),
            format!("give it to the user of the server: chown USER {path}"),
        ));
    }
    if let Some((path, _, mode)) = modes.iter().find(|it| it.2 & 0o077 != 0) {
        return Some(Finding::warn(
            WHAT,
            format!("{path} is readable by others (mode {mode:03o})"),
            format!("chmod 600 {path}; if others could read it, remove operator.token and restart"),
        ));
    }
    (!modes.is_empty()).then(|| Finding::ok(WHAT, format!("{} files are private", modes.len())))
}

/// Checks the database as `serve` does, and reads its newest event.
pub(super) fn database(data: &Utf8Path) -> Newest {
    const WHAT: &str = "database";
    let path = data.join("wiki.db");
    if let Some(cause) = closed(&path) {
        let advice = "run the doctor as the user of the server";
        let finding = Some(Finding::warn(WHAT, format!("not checked: {path}: {cause}"), advice));
        return Newest { finding, event: None };
    }
    // A reader of another user would leave files that the server cannot open.
    if let Ok((false, _)) = process::owner_and_mode(&path) {
        return Newest::default();
    }
    match servable::refuse_unservable(data).and_then(|()| newest(&path)) {
        Ok(None) => Newest::default(),
        Ok(Some(event)) => {
            let finding = match unwritable(data) {
                None => Finding::ok(WHAT, format!("{path} can be read")),
                Some(place) => not_written(format!("{path} can be read"), &place),
            };
            Newest { finding: Some(finding), event }
        }
        // Even a reader writes to the files next to a database.
        Err(cause)
            if [READ_ONLY, DISK_ERROR].contains(&cause.code_str())
                && let Some(place) = unwritable(data) =>
        {
            Newest { finding: Some(not_written(cause.chain(), &place)), event: None }
        }
        Err(cause) => {
            let advice = match (cause.hint_str(), backup::newest(data, Clock::system().now())) {
                (Some(hint), _) => hint.to_owned(),
                (None, Some(it)) => format!(
                    "keep this file, and restore the newest backup: wiki-browser restore {}",
                    it.path
                ),
                (None, None) => "keep this file; wiki-browser recover saves what can be read \
                                 of it"
                    .to_owned(),
            };
            Newest { finding: Some(Finding::error(WHAT, cause.chain(), advice)), event: None }
        }
    }
}

/// Returns why this user cannot even see whether a file is there; that says nothing of the file.
fn closed(path: &Utf8Path) -> Option<std::io::Error> {
    path.try_exists().err()
}

/// Reports jobs that wait until the script changes, and agents that never run; nothing before the
/// first start.
pub(super) async fn queue(loaded: &Loaded, program_path: &str) -> Option<Finding> {
    const WHAT: &str = "waiting jobs";
    let config = &loaded.config;
    let path = config.site.data.join("wiki.db");
    if !path.exists() {
        return None;
    }
    let documents = documents(config, program_path).await;
    let look = |c: &Connection| {
        let around = reload::Around::beside(&config.folder, documents)?;
        let mut all = reload::would_strand(c, config, &around)?;
        all.extend(reload::taken(c, config)?);
        Ok(all)
    };
    match store::peek(&path, look) {
        // An older database is migrated by the next start, which finds out.
        Ok(None) => None,
        Ok(Some(stranded)) => Some(match stranded.is_empty() {
            true => Finding::ok(WHAT, "the script accepts all of them"),
            // All of them, one for each kind: a number of others would count kinds, not jobs.
            false => {
                let says = stranded.join("; ");
                Finding::warn(WHAT, says, "see each with: wiki-browser job show ID")
            }
        }),
        Err(cause) => {
            Some(Finding::warn(WHAT, cause.chain(), "repair the database first, as shown above"))
        }
    }
}

/// Returns the documents of a site; `None` if git cannot list them, as is reported of the
/// repository.
async fn documents(config: &Config, path: &str) -> Option<KnownSources> {
    let git = process::which("git", path, &config.folder)?;
    let site = &config.site;
    let repo = Repo::open(&site.root, git, &site.sources, Children::new()).await.ok()?;
    repo.known_sources().await.ok()
}

/// Reports approvals that could not be finished; nothing without any.
pub(super) fn approvals(data: &Utf8Path) -> Option<Finding> {
    let path = data.join("wiki.db");
    // An older database is migrated by the next start, which finds out.
    let found = path.exists().then(|| store::peek(&path, unfinished::waiting))?;
    let waiting = match found {
        Ok(waiting) => waiting?,
        Err(cause) => vec![cause.chain()],
    };
    let says = format!("{}{}", waiting.first()?, others(waiting.len()));
    let advice = "remove what is in the way: a running server then finishes it by itself";
    Some(Finding::warn("approvals", says, advice))
}

/// Reports that no agent starts because of what a job changed; nothing if they do.
pub(super) fn agents(data: &Utf8Path) -> Option<Finding> {
    let path = data.join("wiki.db");
    // An older database is migrated by the next start, and a damaged one is reported as such.
    let held = path.exists().then(|| store::peek(&path, jobs::steering))?.ok()???;
    let says = format!("no agent starts: {}", held.sentence());
    Some(Finding::warn("agents", says, "decide with one of the commands above"))
}

/// Returns when the newest event of a database was; `None` if there is no database yet.
fn newest(path: &Utf8Path) -> Result<Option<Option<Millis>>> {
    path.exists().then(|| events::newest(path)).transpose()
}

/// Reports a place that keeps a server from writing to an intact database.
fn not_written(says: String, place: &Utf8Path) -> Finding {
    let advice = format!(
        "let this user write there: chmod u+w {place}, or mount its disk for writing; nothing says \
         that the database itself is damaged"
    );
    Finding::error("database", format!("{says}; {place} cannot be written"), advice)
}

/// Returns the folder or file of the database that this user may not write.
fn unwritable(data: &Utf8Path) -> Option<Utf8PathBuf> {
    let beside = ["wiki.db", "wiki.db-wal", "wiki.db-shm"].map(|it| data.join(it));
    let mut places = std::iter::once(data.to_owned()).chain(beside);
    places.find(|it| it.exists() && !process::may_write(it))
}

/// Reports whether a server is running. Neither is a problem.
pub(super) fn server(data: &Utf8Path) -> Finding {
    const WHAT: &str = "server";
    let lock = data.join("lock");
    if let Some(cause) = closed(&lock) {
        return Finding::ok(WHAT, format!("unknown whether one runs: {lock}: {cause}"));
    }
    if !lock.exists() {
        return Finding::ok(WHAT, "none has run here yet");
    }
    // An unreadable file is reported by `serve`; here the lock decides.
    let left = server_file::read(data).ok().flatten();
    // A starting server waits for the lock for longer than this check holds it.
    match FileLock::try_take(&lock) {
        Ok(Some(_)) if left.is_some() => {
            Finding::ok(WHAT, "the last one was killed; the next one settles its jobs")
        }
        Ok(Some(_)) => Finding::ok(WHAT, "not running"),
        Ok(None) => {
            let server = left.unwrap_or_default();
            let pid = server.pid.map_or_else(String::new, |pid| format!("pid {pid} "));
            let address = server.address.as_deref().unwrap_or("its socket");
            Finding::ok(WHAT, format!("{pid}serves at {address}"))
        }
        Err(cause) => Finding::error(
            WHAT,
            cause.chain(),
            "the data folder needs a file system with locks, and this user must own it",
        ),
    }
}

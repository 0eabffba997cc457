//! `wiki-browser backup`, `restore`, `recover` and `cleanup`.

use std::time::Duration;

use camino::{Utf8Path, Utf8PathBuf};
use clap::Args;
use serde_json::{Value, json};

use crate::api::backups::{BackupList, Made};
use crate::base::{Context, Error, ErrorKind, Result};
use crate::cli::commands::{Desk, plain};
use crate::cli::terminal::escape;
use crate::cli::terminal::screen::typed;
use crate::cli::terminal::table::Table;
use crate::cli::terminal::table::size;
use crate::client::{Client, NO_SERVER};
use crate::flows::site::backup as copies;
use crate::flows::site::backup::BackupRequest;
use crate::flows::site::housekeeping::Cleaned;
use crate::flows::site::offline::OfflineRequest;
use crate::flows::site::restore::Report;
use crate::script;

/// Longest wait for a server that backs up or cleans up.
const WORK_WAIT_MAX: Duration = Duration::from_secs(3_600);

/// `backup`.
#[derive(Args, Debug)]
#[command(after_help = "\
Works with or without a running server. The backup holds the database: topics, proposals, jobs,
people and events. Documents live in git, so back up the repository as well. Job folders (prompts
and logs) are not included.

A running server makes one backup a day; see `serve --daily-backups`.

Examples:
  wiki-browser backup
  wiki-browser backup --to /mnt/disk --keep 30
  wiki-browser backup /mnt/disk/before-upgrade.db")]
pub(in crate::cli) struct BackupArgs {
    /// File to write; must not exist yet
    #[arg(conflicts_with = "to")]
    file: Option<Utf8PathBuf>,
    /// Folder for a file named after the time [default: `backups` in the data folder]
    #[arg(long, value_name = "DIR")]
    to: Option<Utf8PathBuf>,
    /// Keep only the newest N backups in that folder that are named after the time
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    #[arg(conflicts_with = "file")]
    keep: Option<u32>,
    /// List existing backups instead
    #[arg(long, conflicts_with_all = ["file", "to", "keep"])]
    pub(in crate::cli) list: bool,
}

/// `restore`.
#[derive(Args, Debug)]
#[command(after_help = "\
Stop the server first, and run this as the owner of the data folder. The file is checked first; the
replaced database is kept, and its path printed. Clients reload everything, browsers must sign in
again, and whatever was revoked since the backup stays revoked. Commits approved since the backup
are found in git and recorded.

Example:
  wiki-browser restore data/backups/daily-20260102T030405678Z.db")]
pub(in crate::cli) struct RestoreArgs {
    /// The backup
    file: Utf8PathBuf,
    /// Keep tokens valid even if the current database cannot tell which were revoked since
    #[arg(long)]
    keep_tokens: bool,
}

/// `recover`.
#[derive(Args, Debug)]
#[command(after_help = "\
Stop the server first. Checks the database; a damaged one is replaced by a copy of every readable
row, and kept next to it. Then looks in git for commits of proposals that are still open in the
database. For an intact database these are only reported: anyone who can commit could forge one.

Exits 0 if the database is intact now, 1 if it is damaged and --dry-run was given.

Examples:
  wiki-browser recover --dry-run
  wiki-browser recover")]
pub(in crate::cli) struct RecoverArgs {
    /// Only report what is damaged and what could be saved
    #[arg(long)]
    dry_run: bool,
    /// Mark open proposals as approved (by nobody) if their commits are in the branch
    #[arg(long, conflicts_with = "dry_run")]
    adopt: bool,
}

/// `cleanup`.
#[derive(Args, Debug)]
#[command(after_help = "\
A running server does this every hour. Job folders are kept for 30 days, up to 2 GiB in total.
Events that no decision needs, replies to repeated requests, and perspectives that no version needs
(removed only by a running server) are kept for 7 days. Job records stay.

Example:
  wiki-browser cleanup --dry-run")]
pub(in crate::cli) struct CleanupArgs {
    /// Only report what would be removed
    #[arg(long)]
    dry_run: bool,
    /// Rebuild the search index: gradually in a running server, otherwise at its next start
    #[arg(long, conflicts_with = "dry_run")]
    search: bool,
}

/// Backs up the database, through the server if one runs.
pub(in crate::cli) fn backup(desk: &Desk, args: &BackupArgs) -> Result<()> {
    if args.list {
        return list(desk);
    }
    let to = args.file.as_deref().or(args.to.as_deref()).map(absolute).transpose()?;
    if let (Some(to), Some(_)) = (&to, &args.to)
        && !to.is_dir()
    {
        return Err(Error::not_found(format!("no folder {to}")).hint("create it first"));
    }
    let body = json!({"to": to, "keep": args.keep});
    let request = OfflineRequest::Backup(BackupRequest { to, keep: args.keep });
    let made = by_server_or(desk, |it| it.post("/api/backups", &body), request)?;
    let it: Made = typed(&made)?;
    if let Some(root) = root_around(desk, &it.path) {
        let root = escape::line(root.as_str());
        desk.screen.note(&format!(
            "warning: this file is in the repository {root}: it holds all that was said, and \
             `git add` takes it unless git ignores it; --to DIR names a folder elsewhere"
        ));
    }
    desk.screen.answer(&made, |screen, _| {
        screen.put(&escape::line(it.path.as_str()))?;
        screen.note(&format!("{} in {} ms", size(it.bytes), it.took_ms));
        for path in &it.removed {
            screen.note(&format!("removed {}", escape::line(path.as_str())));
        }
        Ok(())
    })
}

/// Returns the root of the site if a backup is in it but not in the data folder, which git ignores.
fn root_around(desk: &Desk, path: &Utf8Path) -> Option<Utf8PathBuf> {
    // Without a readable script there is nothing to warn about.
    let site = loaded(desk).ok()?.config.site.clone();
    // `..` and links name a folder in another way.
    let whole = |path: &Utf8Path| path.canonicalize_utf8().unwrap_or_else(|_| path.to_owned());
    let (path, root, data) = (whole(path), whole(&site.root), whole(&site.data));
    (path.starts_with(&root) && !path.starts_with(&data)).then_some(site.root)
}

fn list(desk: &Desk) -> Result<()> {
    let answer = match desk.client().and_then(|it| it.get("/api/backups")) {
        Ok(answer) => answer,
        Err(cause) if cause.code_str() == NO_SERVER => {
            let folder = copies::folder(&loaded(desk)?.config.site.data);
            let (items, aside) = (copies::list(&folder, desk.now())?, copies::list_aside(&folder)?);
            json!(BackupList { items, next: None, folder, aside })
        }
        Err(cause) => return Err(cause),
    };
    desk.screen.tell(&answer, |screen, list: BackupList| {
        let mut table = Table::new(&["WHEN", "SIZE", "MADE", "FILE"]);
        for it in &list.items {
            let made = if it.daily { "by itself" } else { "on demand" };
            table.row([&desk.since(Some(it.at)), &size(it.bytes), made, it.path.as_str()]);
        }
        screen.table(&table, "no backups: wiki-browser backup makes one")?;
        for path in &list.aside {
            let path = escape::line(path.as_str());
            screen.note(&format!("put aside, and kept until you remove it: {path}"));
        }
        Ok(())
    })
}

/// Sends a request to the server, or handles it here if none runs.
fn by_server_or(
    desk: &Desk,
    ask: impl FnOnce(&Client) -> Result<Value>,
    request: OfflineRequest,
) -> Result<Value> {
    let asked = desk.client().and_then(|it| ask(&it.waiting_at_most(WORK_WAIT_MAX)));
    match asked {
        Err(cause) if cause.code_str() == NO_SERVER => offline(desk, request),
        answer => answer,
    }
}

fn offline(desk: &Desk, request: OfflineRequest) -> Result<Value> {
    (desk.seams.offline)(&loaded(desk)?, request)
}

fn loaded(desk: &Desk) -> Result<script::Loaded> {
    let path = desk.script()?;
    let loaded = script::load(&path).map_err(|report| {
        Error::internal(format!("{path} has {}", report.summary()))
            .code("bad_script")
            .hint("the script names the data folder; run wiki-browser check for details")
    })?;
    // The script determines whose database it is: a named script that is ignored would be another
    // site's.
    let own = &loaded.config.site.data;
    if let Some(named) = desk.data()
        && real(named)? != real(own)?
    {
        return Err(Error::invalid(format!("{named} is not the data folder of {path}, but {own}"))
            .code("other_data")
            .hint("without a server the script decides: give --config, without --data"));
    }
    Ok(loaded)
}

/// Returns the canonical name of a folder, even if it does not exist yet.
fn real(path: &Utf8Path) -> Result<Utf8PathBuf> {
    path.canonicalize_utf8().or_else(|_| absolute(path))
}

fn absolute(path: &Utf8Path) -> Result<Utf8PathBuf> {
    camino::absolute_utf8(path).context(ErrorKind::Invalid, || format!("no way to {path}"))
}

/// Restores a backup.
pub(in crate::cli) fn restore(desk: &Desk, args: &RestoreArgs) -> Result<()> {
    let file = absolute(&args.file)?;
    let request = OfflineRequest::Restore { file, keep_tokens: args.keep_tokens };
    let report = offline(desk, request)?;
    desk.screen.tell(&report, |screen, report: Report| {
        screen.put(&format!("restored {}", plain(report.from.as_ref())))?;
        told(desk, &report)?;
        screen.note("to start the server: wiki-browser serve");
        Ok(())
    })
}

/// Checks the database, and repairs it.
pub(in crate::cli) fn recover(desk: &Desk, args: &RecoverArgs) -> Result<u8> {
    let request = OfflineRequest::Recover { dry_run: args.dry_run, adopt: args.adopt };
    let report = offline(desk, request)?;
    let is_damaged = !typed::<Report>(&report)?.damage.is_empty();
    desk.screen.tell(&report, |screen, report: Report| {
        match (is_damaged, args.dry_run) {
            (false, _) => screen.put("the database is intact")?,
            (true, true) => screen.put("the database is damaged")?,
            (true, false) => screen.put("the database was damaged and has been repaired")?,
        }
        for line in report.damage.iter().flat_map(|it| it.lines()) {
            desk.detail("damage", &escape::line(line))?;
        }
        desk.detail("lost", &plain(report.not_saved.as_ref()))?;
        let mut table = Table::new(&["TABLE", "SAVED", "REFUSED", "ORPHANS", "CANNOT BE READ"]);
        for it in &report.tables {
            let [saved, refused, orphans] =
                [it.rows, it.refused, it.orphans].map(|it| it.to_string());
            let errors = it.errors.len();
            let errors = if errors == 0 { String::new() } else { format!("{errors} places") };
            table.row([&it.table, &saved, &refused, &orphans, &errors]);
        }
        if !table.is_empty() {
            screen.table(&table, "")?;
        }
        told(desk, &report)?;
        for it in report.backups.iter().take(3) {
            let path = escape::line(it.path.as_str());
            desk.detail("backup", &format!("{path} ({})", desk.since(Some(it.at))))?;
        }
        Ok(())
    })?;
    Ok(u8::from(is_damaged && args.dry_run))
}

/// Their folders hold what there was before them.
const RUNNING: &str = "running at the time: settled at the next start; if their folders are not in \
    this data folder, agents wait for a `job keep`";

/// The common output of restore and recover.
fn told(desk: &Desk, report: &Report) -> Result<()> {
    for path in &report.kept {
        desk.detail("kept", &escape::line(path.as_str()))?;
    }
    for (count, what) in [
        (report.jobs_running, RUNNING),
        (report.tokens_ended, "tokens revoked: create new ones with wiki-browser token create"),
        (report.persons_disabled, "people stay disabled"),
        (report.persons_lowered, "people keep the lower role they had"),
        (report.members_removed, "members of channels stay removed"),
        (report.members_muted, "members of channels stay muted"),
        (report.channels_paused, "channels stay paused"),
        (report.agents_stopped, "agents stay stopped"),
        (report.channels_calmed, "channels: people from outside still wake no agents there"),
        (report.deliveries_taken, "messages arrived since, or may have, and are not sent again"),
    ] {
        if count > 0 {
            desk.detail("note", &format!("{count} {what}"))?;
        }
    }
    if let Some(kept) = &report.admin_kept {
        let what = "stays an admin, without tokens: the backup has no other admin";
        desk.detail("note", &format!("{} {what}", escape::line(kept)))?;
    }
    let cancelled = report.jobs_cancelled.len();
    if cancelled > 0 {
        let what = "waiting jobs cancelled: after the backup they were, or may have been, started \
                    or cancelled";
        desk.detail("note", &format!("{cancelled} {what}"))?;
    }
    if report.approvals_withdrawn > 0 {
        let what = "their requests for decisions: approvals withdrawn";
        desk.detail("note", &format!("{what}: {}", report.approvals_withdrawn))?;
    }
    for id in &report.jobs_undecided {
        let what =
            format!("undecided: wiki-browser job restore {id}, or wiki-browser job keep {id}");
        desk.detail("changes", &what)?;
    }
    worktrees(desk, report)?;
    approvals(desk, report)?;
    desk.detail("git", &plain(report.git_problem.as_ref()))?;
    for (table, rows) in report.rows_lost.iter().flatten() {
        desk.detail("lost", &format!("{rows} newer rows of {}", escape::line(table)))?;
    }
    Ok(())
}

/// Reports the worktrees made since the backup.
fn worktrees(desk: &Desk, report: &Report) -> Result<()> {
    for it in &report.worktrees {
        let path = escape::line(it.path.as_str());
        let became = match (&it.problem, &it.kept_ref) {
            (Some(why), _) => format!("stays, unknown to the database: {}", escape::line(why)),
            (None, Some(name)) => format!("removed; its work is in {}", escape::line(name)),
            (None, None) => "removed; it had no work to save".to_owned(),
        };
        desk.detail("worktree", &format!("{path} {became}"))?;
    }
    Ok(())
}

/// Reports open proposals that are in the branch.
fn approvals(desk: &Desk, report: &Report) -> Result<()> {
    for it in &report.approvals {
        let commit: String = it.commit.as_str().chars().take(10).collect();
        let what = if it.settled { "is approved:" } else { "is still open:" };
        let says = match plain(it.claimed_by.as_ref()) {
            name if name.is_empty() => String::new(),
            name => format!(", which claims approval by {name}"),
        };
        let id = &it.proposal_id;
        desk.detail("approval", &format!("{id} {what} commit {commit}{says}"))?;
    }
    if report.approvals.iter().any(|it| !it.settled) {
        desk.screen.note("to accept these: wiki-browser recover --adopt");
    }
    Ok(())
}

/// Deletes old data, through the server if one runs.
pub(in crate::cli) fn cleanup(desk: &Desk, args: &CleanupArgs) -> Result<()> {
    let body = json!({"dry_run": args.dry_run, "search": args.search});
    let request = OfflineRequest::Cleanup { dry_run: args.dry_run, search: args.search };
    let done = by_server_or(desk, |it| it.post("/api/cleanup", &body), request)?;
    desk.screen.tell(&done, |screen, done: Cleaned| {
        let jobs = &done.jobs;
        let word = if args.dry_run { "would be removed" } else { "removed" };
        screen.put(&format!(
            "{} job folders {word} ({}), {} kept ({})",
            jobs.removed_count,
            size(jobs.removed_bytes),
            jobs.kept_count,
            size(jobs.kept_bytes),
        ))?;
        screen.put(&format!(
            "{} events, {} stored replies, {} sessions, {} message bodies, {} uploads, \
             {} perspectives {word}",
            done.events, done.answers, done.logins, done.messages, done.uploads, done.perspectives,
        ))?;
        if done.search {
            screen.put("the search index is being rebuilt")?;
        }
        jobs.problems.iter().for_each(|it| screen.note(&escape::line(it)));
        Ok(())
    })
}

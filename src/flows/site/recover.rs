//! Checks a database, and replaces a damaged one by what can be read of it.

use crate::api::backups::Backup;
use crate::base::{DATABASE_CORRUPT, Error, ErrorKind, Result};
use crate::flows::site::backup as copies;
use crate::flows::site::restore::{Offline, Report, Since, begin_life, put, reconcile_in, settle};
use crate::flows::site::unknown_commits::Adopts;
use crate::store::salvage::salvage;
use crate::store::{MIGRATIONS, backup};

/// Checks the database, and whether git has proposals that it has as open; with `adopt` they are
/// recorded as approved. A damaged database is replaced by what can be read of it. With `dry_run`
/// nothing is changed.
///
/// # Errors
/// `not_found` with code `no_database`; `unavailable` with code `database_corrupt` if nothing of it
/// can be read.
pub async fn recover(site: &Offline, dry_run: bool, adopt: bool) -> Result<Report> {
    let database = site.database();
    let backups = copies::list(&copies::folder(site.data()), site.clock.now())?;
    if !dry_run {
        backup::put_in_place(&database)?;
    }
    let damage = match backup::faults_of(&database) {
        Ok(damage) => damage,
        Err(cause) if cause.kind() == ErrorKind::NotFound => {
            return Err(Error::not_found(format!("no database at {database}"))
                .code("no_database")
                .hint(advice(&backups)));
        }
        Err(cause) => vec![cause.chain()],
    };
    let mut report = Report { damage, backups, dry_run, ..Report::default() };
    let working = site.clear()?;
    if report.damage.is_empty() && dry_run {
        // On a copy, because opening a database can migrate it.
        backup::copy(&database, &working, MIGRATIONS)?;
        reconcile_in(site, &working, (false, Adopts::Nothing), &mut report).await?;
        site.clear()?;
        return Ok(report);
    }
    if report.damage.is_empty() {
        let adopts = if adopt { Adopts::All } else { Adopts::Nothing };
        reconcile_in(site, &database, (true, adopts), &mut report).await?;
        return Ok(report);
    }
    match salvage(&database, &working, MIGRATIONS, &site.clock) {
        Ok(tables) => report.tables = tables,
        // A dry run also reports that a database is beyond repair.
        Err(cause) if dry_run && cause.code_str() == DATABASE_CORRUPT => {
            report.not_saved = Some(cause.message().to_owned());
        }
        Err(cause) => return Err(cause.hint(advice(&report.backups))),
    }
    if dry_run {
        site.clear()?;
        return Ok(report);
    }
    report.from = Some(database);
    report.epoch = Some(begin_life(site, &working)?);
    settle(site, &working, &Since::Nothing, true, &mut report).await?;
    put(site, &working, "damaged", &mut report)?;
    Ok(report)
}

fn advice(backups: &[Backup]) -> String {
    match backups.first() {
        Some(newest) => format!("restore the newest backup: wiki-browser restore {}", newest.path),
        None => "no backup in the data folder: wiki-browser restore FILE".to_owned(),
    }
}

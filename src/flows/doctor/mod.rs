//! Checks of the machine: which layers work here, with or without a site, with advice.
//!
//! **Invariant:** it changes nothing of a site, needs no server, and disturbs none that runs.

mod engines;
mod site;

use std::time::Instant;

use camino::{Utf8Path, Utf8PathBuf};

use crate::base::{Clock, Finding, Level, Millis, Result};
use crate::process::{self, Children};
use crate::script::Loaded;

/// 2026-01-01T00:00:00Z: a correct clock shows no earlier time.
const CLOCK_MIN: Millis = Millis(1_767_225_600_000);
/// How far the two clocks may drift apart during a check, in milliseconds.
const DRIFT_MS_MAX: i64 = 1_000;

/// What is checked.
pub enum Patient<'a> {
    /// A folder without a script.
    Folder(&'a Utf8Path),
    /// An invalid script: its path, and the error in a few words.
    Broken(&'a Utf8Path, String),
    /// A site.
    Site(&'a Loaded),
}

/// The environment of the check.
pub struct Surroundings {
    /// The agents' client.
    pub wb_agent: Result<Utf8PathBuf>,
    /// The `PATH`.
    pub path: String,
    /// Variables that tell programs whose they are (`HOME` and the like).
    pub env: Vec<(String, String)>,
}

/// Runs all checks.
pub async fn examine(patient: &Patient<'_>, around: &Surroundings) -> Vec<Finding> {
    let (clock, wall, monotonic) = (Clock::system(), Clock::system().now(), Instant::now());
    let mut found = vec![script(patient)];
    let folder = match patient {
        Patient::Folder(folder) => (*folder).to_owned(),
        Patient::Broken(script, _) => script.parent().unwrap_or(script).to_owned(),
        Patient::Site(loaded) => loaded.config.folder.clone(),
    };
    match &around.wb_agent {
        Ok(program) => found.push(process::probe_guard(program).await),
        Err(cause) => found.push(Finding::error(
            "guard",
            cause.message(),
            cause.hint_str().unwrap_or("build wb-agent"),
        )),
    }
    found.extend(process::probe().await);
    found.extend(process::probe_folder(&folder));
    found.extend(process::machine());
    found.push(git(&folder, &around.path).await);
    let data = match patient {
        Patient::Site(loaded) => {
            found.extend(site::held(loaded));
            found.push(site::repository(loaded, &around.path).await);
            found.extend(engines::engines(loaded, around).await);
            found.extend(site::secrets(loaded));
            let data = &loaded.config.site.data;
            found.push(site::data(data));
            found.extend(site::files(data));
            found.extend(process::disk(data));
            found.push(site::server(data));
            Some(data)
        }
        _ => {
            found.extend(process::disk(&folder));
            None
        }
    };
    let newest = data.map(|it| site::database(it)).unwrap_or_default();
    let is_read = newest.finding.as_ref().is_some_and(|it| it.level == Level::Ok);
    found.extend(newest.finding);
    if let (true, Patient::Site(loaded)) = (is_read, patient) {
        found.extend(site::queue(loaded, &around.path).await);
        found.extend(site::approvals(&loaded.config.site.data));
        found.extend(site::agents(&loaded.config.site.data));
    }
    let monotonic = i64::try_from(monotonic.elapsed().as_millis()).unwrap_or(i64::MAX);
    let drift = (clock.now().0 - wall.0 - monotonic).abs();
    found.push(judge_clock(clock.now(), newest.event, drift));
    found
}

fn script(patient: &Patient<'_>) -> Finding {
    const WHAT: &str = "script";
    let check = "see it with: wiki-browser check";
    match patient {
        Patient::Folder(folder) => Finding::error(
            WHAT,
            format!("no site in {folder}"),
            "create one in a git repository: wiki-browser init",
        ),
        Patient::Broken(script, why) => Finding::error(WHAT, format!("{script} has {why}"), check),
        Patient::Site(loaded) => match loaded.warnings.len() {
            0 => Finding::ok(WHAT, format!("{} is valid", loaded.config.script)),
            count => {
                let ending = if count == 1 { "" } else { "s" };
                let says = format!("{} has {count} warning{ending}", loaded.config.script);
                Finding::warn(WHAT, says, check)
            }
        },
    }
}

async fn git(folder: &Utf8Path, path: &str) -> Finding {
    const WHAT: &str = "git";
    let Some(git) = process::which("git", path, folder) else {
        return Finding::error(WHAT, "git is not on the PATH", "install git");
    };
    match crate::documents::git_version(git.clone(), folder, Children::new()).await {
        Ok(version) => Finding::ok(WHAT, format!("{version} ({git})")),
        Err(cause) => {
            Finding::error(WHAT, cause.message(), cause.hint_str().unwrap_or("reinstall git"))
        }
    }
}

fn judge_clock(now: Millis, newest: Option<Millis>, drift_ms: i64) -> Finding {
    const WHAT: &str = "clock";
    let set = "set the clock: ids, times of commits and expiries follow it";
    if now < CLOCK_MIN {
        return Finding::error(WHAT, format!("it is {} here", now.rfc3339()), set);
    }
    if let Some(newest) = newest.filter(|it| it.0 > now.0) {
        let says =
            format!("it is {}, and the newest event is of {}", now.rfc3339(), newest.rfc3339());
        return Finding::warn(WHAT, says, set);
    }
    if drift_ms > DRIFT_MS_MAX {
        let says = format!("it jumped by {drift_ms} ms during this check");
        return Finding::warn(WHAT, says, "let only one program set it, in small steps");
    }
    Finding::ok(WHAT, now.rfc3339())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_is_judged_by_what_was_written() {
        let level = |now, newest, drift| judge_clock(Millis(now), newest, drift).level;
        let now = CLOCK_MIN.0;
        assert_eq!(level(0, None, 0), Level::Error);
        assert_eq!(level(now, None, 0), Level::Ok);
        assert_eq!(level(now, Some(Millis(now - 1)), DRIFT_MS_MAX), Level::Ok);
        assert_eq!(level(now, Some(Millis(now + 1)), 0), Level::Warn);
        assert_eq!(level(now, None, DRIFT_MS_MAX + 1), Level::Warn);
    }
}

//! A look at the machine: which layers hold for this site, with advice.

use camino::{Utf8Path, Utf8PathBuf};

use crate::base::{Clock, Finding, Millis, Result};
use crate::documents::Repo;
use crate::jobs::Engines;
use crate::process::{self, Children};
use crate::script::Loaded;

/// Least free space that is not worth a warning, in bytes.
const FREE_BYTES_MIN: u64 = 1 << 30;
/// 2026-01-01T00:00:00Z: no clock of this program shows an earlier time.
const CLOCK_MIN: Millis = Millis(1_767_225_600_000);

/// Looks at the machine on behalf of a script that was loaded.
pub async fn examine(loaded: &Loaded, wb_agent: Result<Utf8PathBuf>, path: &str) -> Vec<Finding> {
    let config = &loaded.config;
    let mut found = vec![match loaded.warnings.len() {
        0 => Finding::ok("script", format!("{} is fine", config.script)),
        count => Finding::warn(
            "script",
            format!("{} has {count} warnings", config.script),
            "see them with: wiki-browser check",
        ),
    }];
    match &wb_agent {
        Ok(program) => found.extend(process::probe(program, &config.folder).await),
        Err(cause) => found.push(Finding::error(
            "wb-agent",
            cause.message(),
            cause.hint_str().unwrap_or("build it"),
        )),
    }
    found.push(user());
    found.push(repository(loaded, path).await);
    if let Ok(program) = &wb_agent {
        found.push(engines(loaded, path, program));
    }
    found.push(data(&config.site.data));
    found.push(disk(&config.site.data));
    found.push(clock(&Clock::system()));
    found
}

fn user() -> Finding {
    match process::is_root() {
        false => Finding::ok("user", "not root"),
        true => Finding::warn(
            "user",
            "this user is root: so would be every agent",
            "run the server as a user of its own, who owns the repository",
        ),
    }
}

async fn repository(loaded: &Loaded, path: &str) -> Finding {
    const WHAT: &str = "repository";
    let site = &loaded.config.site;
    let Some(git) = process::which("git", path, &loaded.config.folder) else {
        return Finding::error(WHAT, "there is no git on the PATH", "install git");
    };
    let bad = |cause: crate::base::Error| {
        let advice = cause.hint_str().unwrap_or("see `git status` there").to_owned();
        Finding::error(WHAT, cause.message(), advice)
    };
    let repo = match Repo::open(&site.root, git, &site.sources, Children::new()).await {
        Ok(repo) => repo,
        Err(cause) => return bad(cause),
    };
    if let Err(cause) = repo.head().await {
        return bad(cause);
    }
    match repo.list_sources().await {
        Err(cause) => bad(cause),
        Ok(sources) if sources.is_empty() => Finding::warn(
            WHAT,
            format!("{} has no sources", site.root),
            "commit some documents, or mend `sources` in wb.site",
        ),
        Ok(sources) => Finding::ok(WHAT, format!("{} has {} sources", site.root, sources.len())),
    }
}

fn engines(loaded: &Loaded, path: &str, wb_agent: &Utf8Path) -> Finding {
    match Engines::resolve(&loaded.config, path, wb_agent) {
        Ok(engines) => Finding::ok("engines", engines.programs().join(", ")),
        Err(cause) => {
            let advice = cause.hint_str().unwrap_or("install it");
            Finding::error("engines", cause.message(), advice)
        }
    }
}

fn data(data: &Utf8Path) -> Finding {
    const WHAT: &str = "data folder";
    match process::owner_and_mode(data) {
        Err(_) => Finding::ok(WHAT, format!("{data} will be made at the first start")),
        Ok((false, _)) => Finding::error(
            WHAT,
            format!("{data} belongs to another user"),
            "run the server as that user, or choose another `data`",
        ),
        Ok((true, mode)) if mode & 0o077 != 0 => Finding::warn(
            WHAT,
            format!("{data} can be read by others (mode {mode:03o})"),
            format!("it holds prompts, logs and the operator's token: chmod 700 {data}"),
        ),
        Ok((true, _)) => Finding::ok(WHAT, format!("{data} is private")),
    }
}

fn disk(data: &Utf8Path) -> Finding {
    const WHAT: &str = "disk";
    // The folder may not be there yet; its parents are.
    let place = data.ancestors().find(|it| it.exists()).unwrap_or(data);
    match process::free_bytes(place) {
        Err(cause) => Finding::warn(WHAT, cause.chain(), "look at it with df"),
        Ok(free) if free < FREE_BYTES_MIN => Finding::warn(
            WHAT,
            format!("{} MiB are free at {place}", free >> 20),
            "writes are refused with 503 when it is full; make room",
        ),
        Ok(free) => Finding::ok(WHAT, format!("{} GiB are free", free >> 30)),
    }
}

fn clock(clock: &Clock) -> Finding {
    let now = clock.now();
    if now < CLOCK_MIN {
        let advice = "set the clock: ids, times of commits and expiries follow it";
        return Finding::error("clock", format!("it is {now} here"), advice);
    }
    Finding::ok("clock", now.rfc3339())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::Level;

    #[test]
    fn a_clock_that_was_never_set_is_an_error() {
        assert_eq!(clock(&Clock::fixed(Millis(0))).level, Level::Error);
        assert_eq!(clock(&Clock::fixed(CLOCK_MIN)).level, Level::Ok);
    }
}

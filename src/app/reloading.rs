//! Triggers for reloading the script: SIGHUP, and `serve --watch` during development.

use std::os::unix::fs::MetadataExt as _;
use std::sync::Arc;
use std::time::Duration;

use camino::Utf8PathBuf;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use crate::app::data;
use crate::app::services::{Lost, Services};
use crate::app::signals::{Asked, Stops};
use crate::base::{Actor, Clock};
use crate::flows::Site;
use crate::flows::automation::reload::{self, ReloadRequest, Script};
use crate::process;
use crate::script::{self, Loaded};

/// Interval of looks at the files.
const EVERY: Duration = Duration::from_secs(1);
/// How long they must be unchanged: an editor writes several.
const STILL: Duration = Duration::from_millis(300);

/// Returns the state of a script that was just loaded, and how it is reloaded.
pub(super) fn script(loaded: &Loaded, path: &str, clock: &Clock) -> Script {
    Script::new(
        path.to_owned(),
        Arc::new(data::keep_script),
        Arc::new(warnings),
        (loaded, clock.now()),
    )
}

/// Reloads because of a signal or a file; errors are in the log and on every page.
async fn reload(site: Site) {
    if let Err(cause) = reload::reload(&site, &Actor::System, ReloadRequest::default()).await {
        warn!("the script was not reloaded: {}", cause.chain());
    }
}

/// Reloads on SIGHUP, until a signal to stop; returns its name, or a service that ended in the
/// meantime.
pub(super) async fn until_stopped(
    site: &Site,
    services: &mut Services,
    stops: &mut Stops,
) -> Result<&'static str, Lost> {
    loop {
        let asked = tokio::select! {
            lost = services.lost() => return Err(lost),
            asked = stops.next() => asked,
        };
        match asked {
            Asked::Stop(name) => return Ok(name),
            Asked::Reload => drop(services.tracker.spawn(reload(site.clone()))),
        }
    }
}

/// Reloads whenever a file of the script has changed, until `stop`.
pub(super) async fn watch(site: Site, stop: CancellationToken) {
    info!("the script is reloaded whenever one of its files is saved");
    // Includes files saved since the script was loaded.
    let mut seen = look(&site).await;
    if !is_loaded(&site).await {
        seen.clear();
    }
    loop {
        tokio::select! {
            () = tokio::time::sleep(EVERY) => {}
            () = stop.cancelled() => return,
        }
        let mut now = look(&site).await;
        if now == seen {
            continue;
        }
        loop {
            tokio::time::sleep(STILL).await;
            let again = look(&site).await;
            if again == now || stop.is_cancelled() {
                break;
            }
            now = again;
        }
        reload(site.clone()).await;
        // The new generation may have other files. The state before the reload is the reference, so
        // a file saved in the meantime is read again.
        seen = look(&site).await;
        for (path, facts) in &mut seen {
            if let Some((_, before)) = now.iter().find(|(it, _)| it == path) {
                *facts = *before;
            }
        }
    }
}

/// Returns whether the files are still those of the active generation.
async fn is_loaded(site: &Site) -> bool {
    let files = reload::texts(site);
    let compared = tokio::task::spawn_blocking(move || {
        let mut files = files.into_iter();
        files.all(|(path, text)| std::fs::read_to_string(path).is_ok_and(|it| it == text))
    });
    compared.await.unwrap_or_default()
}

type Look = Vec<(Utf8PathBuf, Option<(i64, i64, u64, u64)>)>;

async fn look(site: &Site) -> Look {
    let files = reload::files(site);
    let looked = tokio::task::spawn_blocking(move || {
        let facts = |path: &Utf8PathBuf| {
            let it = std::fs::metadata(path).ok()?;
            Some((it.mtime(), it.mtime_nsec(), it.len(), it.ino()))
        };
        files.into_iter().map(|path| (path.clone(), facts(&path))).collect()
    });
    looked.await.unwrap_or_default()
}

/// Returns warnings about a valid script.
fn warnings(loaded: &Loaded) -> Vec<String> {
    let mut warnings: Vec<String> =
        loaded.warnings.iter().map(script::Diagnostic::headline).collect();
    if process::is_root() {
        let config = &loaded.config;
        let used = config.kinds.values().filter_map(|it| config.engines.get(&it.engine));
        let mut names: Vec<&str> = used
            .filter(|it| it.is_refused_to_root() && !it.sets("IS_SANDBOX"))
            .map(|it| it.name.as_str())
            .collect();
        names.dedup();
        if !names.is_empty() && std::env::var_os("IS_SANDBOX").is_none() {
            warnings.push(format!(
                "engine \"{}\" skips permissions and this server runs as root: Claude Code refuses \
                 that. Run the server as another user, or, in a container made for it, set \
                 env = {{ IS_SANDBOX = \"1\" }} in the engine",
                names.join("\", \"")
            ));
        }
    }
    warnings
}

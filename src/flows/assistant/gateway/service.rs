//! The gateway as a service: installed, started on demand, supervised, ended.
//!
//! **Invariant:** it runs under its own guard, which ends with this server. Only one loop starts
//! it, so there are never two.
//! **Invariant:** its environment starts empty, its token is in no file, and it gets no path but
//! its folder.

use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt as _;
use std::time::Duration;

use camino::{Utf8Path, Utf8PathBuf};
use serde_json::Value;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::base::{Context, Error, ErrorKind, Result, random_token};
use crate::chat::{Access, GATEWAY_FOLDER, Standing};
use crate::flows::Site;
use crate::flows::assistant::disk::on_disk;
use crate::flows::check::external;
use crate::process::{
    self, Cgroups, Clocks, ExitCause, Guard, GuardSpec, JobFolder, Launch, LaunchStdin,
    OnServerLoss, OutputCaps, spawn_guard,
};
use crate::script::Config;

/// The program, and the files that name the package it needs.
const FILES: [(&str, &str); 3] = [
    ("main.mjs", include_str!("../../../../scripts/pi-gateway/main.mjs")),
    ("package.json", include_str!("../../../../scripts/pi-gateway/package.json")),
    ("package-lock.json", include_str!("../../../../scripts/pi-gateway/package-lock.json")),
];
/// The program's folder, below the service's.
const APP: &str = "app";
/// The guard's folder, below the service's.
const RUN: &str = "run";
/// Where npm installs the package.
const PACKAGE: &str = "node_modules/@earendil-works/pi-ai";
/// Largest `package.json`, in bytes.
const PACKAGE_BYTES_MAX: u64 = 256 * 1024;
/// Variables that it inherits from the server.
const INHERITED: [&str; 9] = [
    "PATH",
    "HOME",
    "LANG",
    "TMPDIR",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "NO_PROXY",
    "http_proxy",
    "https_proxy",
];
/// Longest start before it is tried again.
const START_MAX: Duration = Duration::from_secs(20);
/// How often a starting gateway is checked.
const START_LOOK: Duration = Duration::from_millis(100);
/// How often it is checked while it is used.
const LOOK: Duration = Duration::from_secs(10);
/// Longest wait for a check.
const LOOK_MAX: Duration = Duration::from_secs(5);
/// Most failed checks in a row.
const MISSED_MAX: u32 = 3;
/// How long it runs unused.
const UNUSED_MAX: Duration = Duration::from_secs(30 * 60);
/// A caller that needed it within this time may still be waiting.
const AWAITED: Duration = Duration::from_secs(30);
/// The longest pause before another start.
const PAUSE_MAX: Duration = Duration::from_secs(60);
/// A service that ran this long was healthy.
const WELL: Duration = Duration::from_secs(60);
/// Its grace period, in milliseconds.
const GRACE_MS: u64 = 3_000;
/// Most bytes of its output that are kept.
const PRINTED_BYTES: u64 = 256 * 1024;

/// Why it ended.
enum Ended {
    /// The server is stopping.
    Stopping,
    /// It was unused.
    Unused,
    /// It exited, or stopped responding.
    Lost,
}

/// Starts the gateway when it is needed, until the server stops.
pub async fn serve(site: Site, stop: CancellationToken) {
    let gateway = site.gateway.clone();
    let mut failures = 0;
    loop {
        let number = tokio::select! {
            number = gateway.rung() => number,
            () = stop.cancelled() => return,
        };
        gateway.stand(Standing::Starting);
        let begun = Instant::now();
        // The generation of the script is dropped once the gateway runs.
        let (guard, access) = match start(&site.now()).await {
            Ok(started) => started,
            Err(cause) => {
                tracing::warn!("the gateway cannot be started: {}", cause.chain());
                let hint = cause.hint_str().unwrap_or_default().to_owned();
                gateway.stand(Standing::Broken(number, cause.message().to_owned(), hint));
                continue;
            }
        };
        let ended = look_after(&site, guard, access, &stop).await;
        gateway.stand(Standing::Asleep);
        failures = if begun.elapsed() > WELL { 0 } else { failures };
        match ended {
            Ended::Stopping => return,
            Ended::Unused => continue,
            Ended::Lost => failures += 1,
        }
        if gateway.unused() < AWAITED {
            // Callers that wait for it rang before it was lost.
            gateway.ring();
        }
        let pause = Duration::from_secs(1 << (failures - 1).min(6)).min(PAUSE_MAX);
        tracing::warn!("the gateway was lost; it is started again in {pause:?} if it is needed");
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            () = stop.cancelled() => return,
        }
    }
}

/// Supervises it until it ends.
async fn look_after(
    site: &Site,
    mut guard: Guard,
    access: Access,
    stop: &CancellationToken,
) -> Ended {
    let gateway = &site.gateway;
    let (begun, mut is_ready, mut missed) = (Instant::now(), false, 0);
    let mut look = tokio::time::interval(START_LOOK);
    let ended = loop {
        tokio::select! {
            event = guard.next() => {
                if event.is_none() {
                    break Ended::Lost;
                }
                continue;
            }
            () = stop.cancelled() => break Ended::Stopping,
            // Consumes the ring, which would start the gateway again after its end.
            _ = gateway.rung() => continue,
            _ = look.tick() => {}
        }
        if is_ready && gateway.unused() > UNUSED_MAX {
            break Ended::Unused;
        }
        // It is not checked while it is unused.
        if is_ready && gateway.unused() > 6 * LOOK {
            continue;
        }
        match (access.is_well(LOOK_MAX).await, is_ready) {
            (true, true) => missed = 0,
            (true, false) => {
                is_ready = true;
                look = tokio::time::interval(LOOK);
                gateway.stand(Standing::Ready(access.clone()));
                tracing::info!("the gateway answers");
            }
            (false, true) => missed += 1,
            (false, false) if begun.elapsed() > START_MAX => break Ended::Lost,
            (false, false) => {}
        }
        if missed >= MISSED_MAX {
            break Ended::Lost;
        }
    };
    guard.stopper().stop(ExitCause::Stopped);
    guard.wait().await;
    ended
}

async fn start(site: &Site) -> Result<(Guard, Access)> {
    let assistant = site.config.assistant.as_ref();
    let engines = assistant.iter().flat_map(|it| it.runtimes.values());
    let mut engines = engines.filter_map(|it| site.config.engines.get(it));
    if !engines.any(|it| it.subscribed().is_some()) {
        return Err(Error::unavailable("this site has no gateway"));
    }
    let folder = site.config.site.data.join(GATEWAY_FOLDER);
    let env = external::environment();
    let path = env.iter().find(|it| it.0 == "PATH").map_or("", |it| it.1.as_str());
    let node = node(path, &site.config)?;
    let (config, run) = (std::sync::Arc::clone(&site.config), folder.join(RUN));
    on_disk(move || {
        put(&config)?;
        if let Some(problem) = missing(&config) {
            return Err(problem);
        }
        match std::fs::remove_dir_all(&run) {
            Err(cause) if cause.kind() != std::io::ErrorKind::NotFound => {
                Err(Error::unavailable(format!("cannot remove {run}")).source(cause))
            }
            _ => Ok(()),
        }
    })
    .await?;
    let token = random_token("")?;
    let given = |it: &&(String, String)| INHERITED.contains(&it.0.as_str());
    let mut plain: Vec<(String, String)> = env.iter().filter(given).cloned().collect();
    plain.push(("WB_GATEWAY_DIR".to_owned(), folder.to_string()));
    let main = folder.join(APP).join(FILES[0].0);
    let launch = Launch {
        private_names: Vec::new(),
        version: 1,
        job: random_token("gateway-")?,
        argv: vec![node.into_string(), main.into_string()],
        env: plain,
        cwd: folder.clone(),
        stdin: LaunchStdin::Null,
        clocks: Clocks { start_ms: None, idle_ms: None, wall_ms: None, linger_ms: GRACE_MS },
        grace_ms: GRACE_MS,
        output: OutputCaps { head_bytes: PRINTED_BYTES, tail_bytes: PRINTED_BYTES },
        on_server_loss: OnServerLoss::Kill,
        cgroup: None,
        sandbox: None,
    };
    let spec = GuardSpec {
        program: site.wb_agent.clone(),
        job_dir: folder.join(RUN),
        launch,
        prompt: None,
        secrets: vec![("WB_GATEWAY_TOKEN".to_owned(), token.clone())],
        masked: Vec::new(),
        cgroups: Cgroups::none(),
        pane: None,
    };
    let guard = spawn_guard(&site.queue.children(), spec).await?;
    Ok((guard, Access::of(&folder, &token)))
}

fn node(path: &str, config: &Config) -> Result<Utf8PathBuf> {
    process::which("node", path, &config.folder).ok_or_else(|| {
        Error::unavailable("the gateway needs Node.js, and `node` is not in the PATH of the server")
            .hint("install Node.js 20 or newer, and start the server again")
    })
}

/// Writes this release's program to its folder.
///
/// # Errors
/// `unavailable` if it cannot be written.
pub fn put(config: &Config) -> Result<Utf8PathBuf> {
    let folder = config.site.data.join(GATEWAY_FOLDER);
    // This may happen before a server has ever run.
    let made = DirBuilder::new().recursive(true).mode(0o700).create(&config.site.data);
    made.context(ErrorKind::Unavailable, || format!("cannot make {}", config.site.data))?;
    JobFolder::make(&folder)?;
    let app = JobFolder::make(&folder.join(APP))?;
    for (name, text) in FILES {
        if app.read(name, text.len() as u64 + 1)?.as_deref() != Some(text.as_bytes()) {
            app.put(name, text.as_bytes())?;
        }
    }
    Ok(folder.join(APP))
}

/// Returns why the gateway cannot be started; `None` if its package is installed.
pub fn missing(config: &Config) -> Option<Error> {
    let app = config.site.data.join(GATEWAY_FOLDER).join(APP);
    let wanted = version(FILES[1].1, |it| it["dependencies"]["@earendil-works/pi-ai"].clone());
    let found = match installed(&app) {
        Ok(found) => found,
        Err(cause) => return Some(cause),
    };
    let why = match found {
        None => "the gateway is not installed".to_owned(),
        found if found == wanted => return None,
        Some(other) => format!("the gateway is installed with pi-ai {other}, another version"),
    };
    let hint = "whoever runs the server types: wiki-browser gateway install";
    Some(Error::unavailable(why).hint(hint))
}

fn installed(app: &Utf8Path) -> Result<Option<String>> {
    let Some(folder) = JobFolder::open(&app.join(PACKAGE))? else { return Ok(None) };
    let bytes = folder.read("package.json", PACKAGE_BYTES_MAX)?;
    let text = bytes.and_then(|it| String::from_utf8(it).ok());
    Ok(text.and_then(|it| version(&it, |it| it["version"].clone())))
}

fn version(text: &str, of: impl FnOnce(&Value) -> Value) -> Option<String> {
    let told: Value = serde_json::from_str(text).ok()?;
    of(&told).as_str().map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A version range would resolve differently on each machine.
    #[test]
    fn the_lock_file_names_the_package_exactly() {
        let wanted = version(FILES[1].1, |it| it["dependencies"]["@earendil-works/pi-ai"].clone());
        let of = "node_modules/@earendil-works/pi-ai";
        let locked = version(FILES[2].1, |it| it["packages"][of]["version"].clone());
        assert_eq!(wanted, locked);
        let wanted = wanted.unwrap();
        assert!(wanted.split('.').all(|it| it.parse::<u32>().is_ok()), "{wanted}");
        let lock: Value = serde_json::from_str(FILES[2].1).unwrap();
        for (name, package) in lock["packages"].as_object().unwrap() {
            let is_own = name.is_empty();
            assert!(is_own || package["integrity"].is_string(), "{name} has no digest");
            assert!(package["resolved"].is_null(), "{name} names a registry");
        }
    }
}

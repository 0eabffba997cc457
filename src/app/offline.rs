//! Commands on a site that no server serves: they take its lock first.

use camino::Utf8PathBuf;
use serde_json::Value;

use crate::app::{data, resolve_git, resolve_wb_agent, small_runtime};
use crate::base::{Clock, Error, Result};
use crate::documents::Repo;
use crate::flows::offline::{self, OfflineRequest};
use crate::flows::restore::Offline;
use crate::process::{Children, FileLock};
use crate::script::Loaded;

/// Does what is asked, while no server runs and none can start.
///
/// # Errors
/// `conflict` with code `already_running`; what the request itself says.
pub fn offline(loaded: &Loaded, request: OfflineRequest) -> Result<Value> {
    let config = &loaded.config;
    let folder = &config.site.data;
    // A restore may be the first thing that happens on a machine.
    data::make_private(folder)?;
    let lock = FileLock::try_take(&folder.join("lock"))?.ok_or_else(|| {
        let who =
            data::running_server(folder).map_or_else(String::new, |it| format!(" (pid {it})"));
        Error::conflict("already_running", format!("a server{who} has the data folder {folder}"))
            .hint("stop the server first")
    })?;
    let done = small_runtime()?.block_on(async {
        let repo = match request.needs_git() {
            true => repo(loaded).await,
            false => Err(Error::unavailable("git is not asked")),
        };
        let site = Offline {
            config: config.clone(),
            vm: loaded.vm.clone(),
            repo,
            // Nothing is started, so that its absence is no matter.
            wb_agent: resolve_wb_agent(config).unwrap_or_else(|_| Utf8PathBuf::new()),
            clock: Clock::system(),
        };
        offline::run(&site, request).await
    });
    drop(lock);
    done
}

async fn repo(loaded: &Loaded) -> Result<Repo> {
    let config = &loaded.config;
    let path = std::env::var("PATH").unwrap_or_default();
    let git = resolve_git(&path, &config.folder)?;
    Repo::open(&config.site.root, git, &config.site.sources, Children::new()).await
}

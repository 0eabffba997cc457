//! Commands on a site without a running server: they take its lock first.

use std::os::unix::fs::MetadataExt as _;

use camino::Utf8PathBuf;
use serde_json::Value;

use crate::app::tenancy::Tenancy;
use crate::app::{data, resolve_git, resolve_wb_agent, small_runtime};
use crate::base::{Clock, Context, Error, ErrorKind, Result};
use crate::documents::Repo;
use crate::flows::site::offline::{self, OfflineRequest};
use crate::flows::site::restore::Offline;
use crate::process::{self, Children};
use crate::script::{Config, Loaded};

/// Handles a request while no server runs and none can start.
///
/// # Errors
/// `conflict` with code `already_running`; `forbidden` with code `wrong_user` for another user than
/// the one whose site it is; what the request itself says.
pub fn offline(loaded: &Loaded, request: OfflineRequest) -> Result<Value> {
    let config = &loaded.config;
    let folder = &config.site.data;
    refuse_other_user(config)?;
    // A restore may be the first command on a machine.
    data::make_private(folder)?;
    small_runtime()?.block_on(async {
        let Some(held) = Tenancy::try_take(folder).await? else {
            let pid = data::running_server(folder);
            let who = pid.map_or_else(String::new, |it| format!(" (pid {it})"));
            let message = format!("a server{who} has the data folder {folder}");
            return Err(Error::conflict("already_running", message).hint("stop the server first"));
        };
        let repo = match request.needs_git() {
            true => repo(loaded).await,
            false => Err(Error::unavailable("git is not asked")),
        };
        let site = Offline {
            config: config.clone(),
            vm: loaded.vm.clone(),
            repo,
            // Nothing is started, so its absence does not matter.
            wb_agent: resolve_wb_agent(config).unwrap_or_else(|_| Utf8PathBuf::new()),
            clock: Clock::system(),
        };
        let ends_doubt = matches!(request, OfflineRequest::Recover { dry_run: false, .. });
        let done = offline::run(&site, request).await;
        if ends_doubt && done.is_ok() {
            // Without the server file, a missing log is accepted.
            data::remove_server_file(folder);
        }
        drop(held);
        done
    })
}

/// Files written by another user, especially root, cannot be opened by the server.
fn refuse_other_user(config: &Config) -> Result<()> {
    let data = &config.site.data;
    let folder = if data.exists() { data } else { &config.folder };
    let (is_own, _) = process::owner_and_mode(folder)?;
    if is_own {
        return Ok(());
    }
    let facts = std::fs::metadata(folder);
    let facts = facts.context(ErrorKind::Unavailable, || format!("cannot read {folder}"))?;
    let owner = user_name(facts.uid());
    let what = format!("{folder} belongs to {owner}, and what is written there must too");
    let hint = format!("be that user: sudo -u '{owner}' wiki-browser …");
    Err(Error::new(ErrorKind::Forbidden, what).code("wrong_user").hint(hint))
}

/// Returns the name of a user, or `#` and the number, which sudo accepts too.
fn user_name(uid: u32) -> String {
    let text = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
    let number = uid.to_string();
    let named = text.lines().find_map(|line| {
        let mut fields = line.split(':');
        let name = fields.next()?;
        (fields.nth(1)? == number).then(|| name.to_owned())
    });
    named.unwrap_or_else(|| format!("#{uid}"))
}

async fn repo(loaded: &Loaded) -> Result<Repo> {
    let config = &loaded.config;
    let path = std::env::var("PATH").unwrap_or_default();
    let git = resolve_git(&path, &config.folder)?;
    Repo::open(&config.site.root, git, &config.site.sources, Children::new()).await
}

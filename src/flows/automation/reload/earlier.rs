//! The scripts that jobs of an earlier server began with, loaded again from their kept texts.
//!
//! **Invariant:** nothing is started under such a script: it only judges what its jobs leave.

use std::collections::HashMap;
use std::sync::Arc;

use tracing::{info, warn};

use crate::base::{Error, Result, fault};
use crate::flows::Site;
use crate::jobs::{self, Engines, Generation, Job, Pool};
use crate::script::{self, Diagnostic};

/// Holds for each job that an earlier server left running the script that it began with, or the
/// engine if it is a long-running agent. A job whose script cannot be loaded is judged by the one
/// in force.
///
/// # Errors
/// As any read.
pub async fn hold(site: &Site) -> Result<()> {
    if fault::is_off("earlier_script") {
        return Ok(());
    }
    let current = site.scripts.current().config.digest.clone();
    let running = site.store.read(jobs::running).await?;
    let mut loaded: HashMap<String, Option<Arc<Generation>>> = HashMap::new();
    // A private job follows the assistant's script.
    let is_held = |it: &&Job| it.pool != Pool::Chat;
    for job in running.iter().filter(is_held).filter(|it| it.config_digest != current) {
        let digest = &job.config_digest;
        if !loaded.contains_key(digest) {
            let generation = match load(site, digest).await {
                Ok(generation) => {
                    info!("script {digest} is loaded again for the jobs that began with it");
                    Some(Arc::new(generation))
                }
                Err(cause) => {
                    warn!(
                        "script {digest} cannot be loaded again, so the jobs that began with it \
                         are judged by the one in force: {}",
                        cause.chain()
                    );
                    None
                }
            };
            loaded.insert(digest.clone(), generation);
        }
        let Some(generation) = &loaded[digest] else { continue };
        // A long-running agent follows the script in force, but its program is still the one that
        // it began as.
        if job.pool != Pool::Live {
            site.scripts.hold(&job.id, Arc::clone(generation));
        } else if let Some(Ok(engine)) = job.engine.as_ref().map(|it| generation.engines.find(it)) {
            site.scripts.hold_engine(&job.id, engine.clone());
        }
    }
    Ok(())
}

async fn load(site: &Site, digest: &str) -> Result<Generation> {
    let current = site.scripts.current();
    let (config, wear) = (Arc::clone(&current.config), current.vm.wear().clone());
    let kept = digest.to_owned();
    let load = move || script::load_kept(&config.script, (&config.site.data, &kept), &wear);
    let loaded = tokio::task::spawn_blocking(load).await;
    let loaded = loaded.map_err(|cause| Error::internal("loading it panicked").source(cause))?;
    let loaded = loaded.map_err(|report| {
        let first = report.errors.first().map(Diagnostic::headline);
        Error::invalid(first.unwrap_or_else(|| report.summary()))
    })?;
    // As nothing is started, its programs need not be there any more.
    let engines = Engines::played(&loaded.config, |_| None);
    Ok(Generation::new(0, loaded.config, loaded.vm, engines))
}

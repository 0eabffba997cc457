//! Operations on a running site: backups and cleanup.

use serde::Deserialize;
use warp::filters::BoxedFilter;
use warp::reply::Response;

use crate::api::backups::BackupList;
use crate::flows::Site;
use crate::flows::site::backup::{self, BackupRequest};
use crate::flows::site::housekeeping;
use crate::http::{any_of, get, post, reply};

/// Largest body of these routes, in bytes.
const BODY_BYTES_MAX: usize = 16 * 1024;

#[derive(Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub(in crate::http) struct CleanupRequest {
    #[serde(default)]
    dry_run: bool,
    #[serde(default)]
    search: bool,
}

pub(in crate::http) fn routes(site: &Site) -> BoxedFilter<(Response,)> {
    any_of([
        get("/api/backups", site, async |site: Site, _| {
            let folder = backup::folder(&site.config.site.data);
            let items = backup::list(&folder, site.store.clock().now())?;
            let aside = backup::list_aside(&folder)?;
            reply::ok(&BackupList { items, next: None, folder, aside })
        }),
        post("/api/backups", site, async |site: Site, mut call| {
            let request: BackupRequest = call.json(BODY_BYTES_MAX).await?;
            reply::ok(&backup::create(&site, request).await?)
        }),
        post("/api/cleanup", site, async |site: Site, mut call| {
            let CleanupRequest { dry_run, search } = call.json(BODY_BYTES_MAX).await?;
            let done = housekeeping::clean_site(&site, dry_run, search).await?;
            if done.search {
                site.search.repository_changed();
            }
            reply::ok(&done)
        }),
    ])
}

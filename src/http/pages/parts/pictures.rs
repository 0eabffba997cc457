//! The room that images take on a page before they are loaded.

use std::collections::BTreeMap;

use futures_util::future::join_all;

use crate::base::SourcePath;
use crate::base::picture::{Size, size_of};
use crate::flows::{self, Site};
use crate::http::markdown::Html;
use crate::people::Caller;

/// Images of one page whose sizes are looked up; further ones take their room when they come.
const PICTURES_MAX: usize = 64;
/// Most of a file that is read for it: photographs say their size after a small picture of
/// themselves.
const HEAD_BYTES_MAX: usize = 128 * 1024;

/// Returns a text with the sizes of its images; nothing if none is known.
pub(in crate::http::pages) async fn sized(
    site: &Site,
    caller: &Caller,
    html: &Html,
) -> Option<Html> {
    let looked = html.pictures(PICTURES_MAX).into_iter().map(async |path| {
        let at: SourcePath = path.parse().ok()?;
        // One that is not there, or is none, is shown by its words.
        let head = flows::sources::image_head(site, caller, &at, HEAD_BYTES_MAX).await.ok()?;
        Some((path, size_of(&head)?))
    });
    let sizes: BTreeMap<String, Size> = join_all(looked).await.into_iter().flatten().collect();
    (!sizes.is_empty()).then(|| html.with_sizes(&sizes))
}

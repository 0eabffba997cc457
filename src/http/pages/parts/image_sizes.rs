//! Reserves the space of a page's images before they load.

use std::collections::BTreeMap;

use futures_util::future::join_all;

use crate::base::SourcePath;
use crate::base::image_size::{Size, size_of};
use crate::flows::{self, Site};
use crate::http::markdown::Html;
use crate::people::Caller;

/// Most images per page whose sizes are looked up.
const PICTURES_MAX: usize = 64;
/// Bytes read to find an image's size; in a JPEG it follows the embedded thumbnail.
const HEAD_BYTES_MAX: usize = 128 * 1024;

/// Returns a text with the sizes of its images; `None` if none is known.
pub(in crate::http::pages) async fn sized(
    site: &Site,
    caller: &Caller,
    html: &Html,
) -> Option<Html> {
    let looked = html.pictures(PICTURES_MAX).into_iter().map(async |path| {
        let at: SourcePath = path.parse().ok()?;
        // A missing or invalid image is shown by its alternative text.
        let head = flows::sources::image_head(site, caller, &at, HEAD_BYTES_MAX).await.ok()?;
        Some((path, size_of(&head)?))
    });
    let sizes: BTreeMap<String, Size> = join_all(looked).await.into_iter().flatten().collect();
    (!sizes.is_empty()).then(|| html.with_sizes(&sizes))
}

//! Uploads of files to attach to questions.

use std::sync::Arc;

use crate::api::chat::AttachmentView;
use crate::base::{Error, PersonId, Result, digest_hex, fault, shown_file_name};
use crate::chat::{self, Attachment, IMAGE_BYTES_MAX};
use crate::flows::Site;
use crate::flows::assistant::disk::on_disk;
use crate::flows::assistant::{seat, vault};
use crate::people::{self, Caller, Person};
use crate::vault::VaultPath;

/// How long an unsent file is kept.
const UNSENT_MS: i64 = 24 * 3_600_000;
/// Characters of an id that make a name unique.
const UNIQUE_CHARS: usize = 8;

/// Stores a file in the caller's vault under a safe name.
///
/// # Errors
/// As the seat; `invalid` with code `attachment_type`; `too_large`; `busy` with code
/// `too_many_uploads`; as opening the vault.
pub async fn attach(
    site: &Site,
    caller: &Caller,
    name: Option<String>,
    bytes: Vec<u8>,
) -> Result<AttachmentView> {
    let person = seat(site, caller)?.person;
    let kind = chat::kind_of(&bytes)?;
    let id = chat::mint_call(&site.ids);
    let unique = &id.as_str()[id.as_str().len() - UNIQUE_CHARS..];
    let name = name.unwrap_or_default();
    let path = chat::upload_path(&name, kind, site.store.clock().now(), unique);
    let new = Attachment {
        path: path.clone(),
        name: shown_file_name(&name),
        kind: kind.to_owned(),
        bytes: bytes.len() as u64,
    };
    // The row comes before the file, so a file that is never sent is found again.
    let (of, row, digest) = (person.id.clone(), new.clone(), digest_hex(&bytes));
    site.store.write(move |tx| chat::add_upload(tx, &of, &row, &digest)).await?;
    fault::crash_point("after_upload_row");
    let of = person.id.clone();
    if let Err(cause) = put(site, person, path.clone(), bytes).await {
        site.store.write(move |tx| chat::take_upload(tx, &of, &path).map(drop)).await?;
        return Err(cause);
    }
    Ok(view(new))
}

async fn put(site: &Site, person: Person, path: String, bytes: Vec<u8>) -> Result<()> {
    let config = Arc::clone(&site.config);
    on_disk(move || {
        let gone = || Error::unavailable("the site no longer has an assistant");
        let vault = vault::open(&config, config.assistant.as_ref().ok_or_else(gone)?, &person)?;
        match vault.add(&path.parse()?, bytes)? {
            true => Ok(()),
            false => Err(Error::conflict("name_taken", format!("there is a file {path} already"))
                .hint("upload it again")),
        }
    })
    .await
}

pub(super) fn view(file: Attachment) -> AttachmentView {
    let Attachment { path, name, kind, bytes } = file;
    AttachmentView { path, name, kind, bytes }
}

/// Removes uploads that were not sent within a day, unless somebody has changed them.
///
/// # Errors
/// As the database. A file that cannot be removed is tried again later.
pub(super) async fn drop_unsent(site: &Site) -> Result<()> {
    let before = site.store.clock().now().plus(-UNSENT_MS);
    for (of, path, digest) in site.store.read(move |c| chat::old_uploads(c, before)).await? {
        match remove(site, of.clone(), path.clone(), digest).await {
            Ok(()) => {
                site.store.write(move |tx| chat::take_upload(tx, &of, &path).map(drop)).await?;
            }
            Err(cause) => tracing::warn!("an old upload stays: {}", cause.chain()),
        }
    }
    Ok(())
}

async fn remove(site: &Site, of: PersonId, path: String, digest: String) -> Result<()> {
    let Some(person) = site.store.read(move |c| people::find(c, &of)).await? else {
        return Ok(());
    };
    let config = Arc::clone(&site.config);
    on_disk(move || {
        let gone = || Error::unavailable("the site no longer has an assistant");
        let vault = vault::open(&config, config.assistant.as_ref().ok_or_else(gone)?, &person)?;
        let path: VaultPath = path.parse()?;
        vault.remove(&path, &digest, IMAGE_BYTES_MAX).map(drop)
    })
    .await
}

//! Uploading a file, to be sent with a message.

use crate::api::channels::AttachmentView;
use crate::base::Result;
use crate::channels;
use crate::flows::Site;
use crate::flows::channels::{Ground, attachments, speak, who};
use crate::jobs;
use crate::people::Caller;

/// Uploads a file, to be sent with a message of the caller in this channel. Agents and members from
/// outside can upload when they can post.
///
/// # Errors
/// `forbidden`: `not_a_member`, `viewer`; `conflict`: `channel_not_active`, `private_turn`;
/// `invalid`: `empty_file`; `too_large`; `busy`: `too_many_uploads`, `too_fast`, `channel_paused`.
pub async fn attach(
    site: &Site,
    caller: &Caller,
    slug: &str,
    name: Option<String>,
    content: Vec<u8>,
) -> Result<AttachmentView> {
    if !caller.is_job() {
        caller.may_speak()?;
    }
    speak::await_turn(site, caller, slug).await?;
    let (ground, caller) = (Ground::of(site), caller.clone());
    let (text, name) = (slug.to_owned(), name.unwrap_or_default());
    let write = site.store.write(move |tx| {
        if let Caller::Job { token_hash, .. } = &caller {
            jobs::fence(tx, token_hash)?;
        }
        let channel = who::channel(tx.connection(), &caller, &text)?;
        channel.require_open()?;
        let by = speak::uploader(tx, &ground, (&caller, &channel))?;
        Ok(attachments::view(channels::upload(tx, (channel.number, &by), &name, &content)?))
    });
    write.await
}

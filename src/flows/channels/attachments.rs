//! Files of messages that were sent.

use rusqlite::Connection;

use crate::api::channels::AttachmentView;
use crate::base::{Error, Result};
use crate::channels::{self, Attachment, Spoken};
use crate::flows::Site;
use crate::flows::channels::{outside, who};
use crate::people::Caller;

/// Returns a file that was sent, with its content.
///
/// # Errors
/// `invalid` with code `bad_parameter`; `not_found`: `no_channel`, `no_attachment`; `forbidden`:
/// `not_a_member` for an agent with a seat elsewhere.
pub async fn attachment(
    site: &Site,
    caller: &Caller,
    (slug, number): (&str, &str),
) -> Result<(AttachmentView, Vec<u8>)> {
    caller.may_listen()?;
    let number: i64 = number.parse().map_err(|_| {
        Error::invalid(format!("`{}` is not a number", number.escape_debug()))
            .code("bad_parameter")
            .of_input("number")
    })?;
    let (caller, text) = (caller.clone(), slug.to_owned());
    let read = site.store.read(move |c| {
        let channel = who::channel(c, &caller, &text)?;
        let missing = || {
            channels::no_attachment(number)
                .hint("`wiki-browser msg history CHANNEL` lists the attachments with their numbers")
        };
        let found = channels::find_attachment(c, channel.number, number)?.ok_or_else(missing)?;
        let spoken = match &found.message_id {
            Some(id) => channels::find_message(c, id)?,
            None => None,
        };
        let from = outside::first(c, &caller, &channel)?;
        if spoken.is_none_or(|message| message.sequence < from) {
            return Err(missing());
        }
        let content = channels::attachment_content(c, number)?;
        Ok((view(found), content))
    });
    read.await
}

/// Returns the files of a message.
///
/// # Errors
/// As any read.
pub(super) fn of_message(c: &Connection, spoken: &Spoken) -> Result<Vec<AttachmentView>> {
    Ok(channels::attachments_of(c, &spoken.id)?.into_iter().map(view).collect())
}

/// Returns a file as responses show it.
pub(super) fn view(file: Attachment) -> AttachmentView {
    let Attachment { number, name, kind, bytes, .. } = file;
    AttachmentView { number, name, kind, bytes }
}

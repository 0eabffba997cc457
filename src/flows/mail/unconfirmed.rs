//! What a person decides about a message that never arrived, as far as anybody knows.

use crate::api::mail::MessageView;
use crate::base::{Actor, Error, MailId, Result};
use crate::flows::mail::show::{require_visible, show};
use crate::flows::{Site, agents};
use crate::mail;
use crate::people::Caller;
use crate::store::Tx;

/// Has a message given to its agent once more.
///
/// # Errors
/// `not_found`; `conflict` with code `not_unconfirmed`, and `recipient_ended` for an agent that is
/// declared no more; `forbidden` for jobs.
pub async fn resend(site: &Site, caller: &Caller, id: &MailId) -> Result<MessageView> {
    let works = site.works.now();
    let again = move |tx: &Tx<'_>, id: &MailId, by: &Actor| {
        let now = |agent: &str| agents::resolve(&works, tx.connection(), agent).map(|it| it.name);
        mail::resend(tx, id, by, &now)
    };
    decide(site, caller, id, again).await
}

/// Says that a message has arrived.
///
/// # Errors
/// As [`resend`].
pub async fn settle(site: &Site, caller: &Caller, id: &MailId) -> Result<MessageView> {
    decide(site, caller, id, mail::settle).await
}

async fn decide(
    site: &Site,
    caller: &Caller,
    id: &MailId,
    how: impl Fn(&Tx<'_>, &MailId, &Actor) -> Result<bool> + Send + Sync + 'static,
) -> Result<MessageView> {
    let by = Actor::Person(caller.may_write()?.id.clone());
    require_visible(site, caller, id).await?;
    let asked = id.clone();
    let decided = site.store.write(move |tx| how(tx, &asked, &by)).await?;
    match decided {
        true => show(site, caller, id).await,
        false => {
            Err(Error::conflict("not_unconfirmed", format!("message {id} is not unconfirmed"))
                .hint("only unconfirmed messages to long-running agents can be resent or settled"))
        }
    }
}

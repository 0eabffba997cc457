//! An instance fetches its mail: `wb-agent inbox`.

use std::time::Duration;

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::api::mail::{PullQuery, Pulled};
use crate::base::{Address, Error, Result};
use crate::flows::mail::answer::{WAIT_MAX, hears_of_mail};
use crate::flows::{Site, instances};
use crate::jobs;
use crate::mail::{self, Message};
use crate::people::Caller;

/// Most messages of one answer.
const PULLED_MAX: u32 = 20;

/// Gives an instance what waits for it, and waits for something to come as long as is asked. What
/// it had before `after` is confirmed.
///
/// # Errors
/// `invalid` with code `no_instance` for a job that no message started; `conflict` with code
/// `job_ended`.
pub async fn pull(
    site: &Site,
    caller: &Caller,
    query: &PullQuery,
    stop: &CancellationToken,
) -> Result<Vec<Pulled>> {
    let (id, token) = caller.job()?;
    let (id, token) = (id.clone(), token.to_owned());
    let longest = Duration::from_secs(query.wait.unwrap_or(0)).min(WAIT_MAX);
    let until = Instant::now() + longest;
    let mut heard = site.store.subscribe();
    let asked = id.clone();
    let own = site.store.read(move |c| instances::address_of(c, &crate::base::Actor::Job(asked)));
    let own: Address = own.await?.ok_or_else(|| {
        Error::invalid(format!("job {id} is not an instance of an inbox, so it has no address"))
            .code("no_instance")
    })?;
    if let Address::Agent(_) = own {
        let message = format!("{own} fetches no messages: each is given to it when it can listen");
        return Err(Error::conflict("not_deliverable", message).hint("end your turn"));
    }
    loop {
        let (token, id, own, after) = (token.clone(), id.clone(), own.clone(), query.after);
        let given = site.store.write(move |tx| {
            jobs::fence(tx, &token)?;
            if let Some(after) = after {
                mail::confirm_pulled(tx, &own, after)?;
            }
            mail::pull(tx, &own, &id, PULLED_MAX)
        });
        let given = given.await?;
        if !given.is_empty() {
            return Ok(given.into_iter().map(|(seq, message)| pulled(seq, message)).collect());
        }
        if !hears_of_mail(&mut heard, until, stop).await {
            return Ok(Vec::new());
        }
    }
}

fn pulled(seq: i64, message: Message) -> Pulled {
    Pulled {
        seq,
        id: message.id,
        sort: message.sort,
        from: message.from,
        payload: message.payload,
        category: message.category,
        in_reply_to: message.in_reply_to,
        created_at: message.created_at,
    }
}

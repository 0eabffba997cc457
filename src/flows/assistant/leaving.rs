//! Files that are removed: the sign-ins of disabled people, and what a deletion left.
//!
//! **Invariant:** they are removed after the commit that disables a person or deletes a
//! conversation; a server that is killed in between removes them at its next start.

use crate::base::{ErrorKind, PersonId, Result};
use crate::chat::{Home, Standing, forget_sign_in};
use crate::flows::Site;
use crate::flows::assistant::disk::on_disk;
use crate::linkedin::Account;
use crate::people;

/// Removes the sign-ins of all disabled people.
///
/// # Errors
/// As the database. A file that cannot be removed is tried again later.
pub(super) async fn forget_sign_ins(site: &Site) -> Result<()> {
    let people = site.store.read(people::list).await?;
    for person in people.into_iter().filter(|it| it.disabled_at.is_some()) {
        if let Err(cause) = forget(site, person.id).await {
            tracing::warn!("a sign-in of {} stays: {}", person.name, cause.chain());
        }
    }
    Ok(())
}

/// Removes the files of deleted conversations that a killed server left.
///
/// # Errors
/// As the database. A file that cannot be removed stays until the next start.
pub(super) async fn forget_deleted(site: &Site) -> Result<()> {
    for person in site.store.read(people::list).await? {
        if let Err(cause) = forget_of(site, &person.id).await {
            tracing::warn!("deleted files of {} stay: {}", person.name, cause.chain());
        }
    }
    Ok(())
}

async fn forget_of(site: &Site, person: &PersonId) -> Result<()> {
    let home = Home::of(&site.config.site.data, person);
    let of = home.clone();
    // Listed before the rows are looked at: a file is made after its row.
    let (sessions, calls) = on_disk(move || of.files()).await?;
    let person = person.clone();
    let gone = site.store.read(move |c| {
        let (mut gone, mut gone_calls) = (Vec::new(), Vec::new());
        for session in sessions {
            if crate::chat::runs_of(c, &session)?.is_empty() {
                gone.push(session);
            }
        }
        for call in calls {
            match crate::chat::find_call(c, &person, &call) {
                Err(cause) if cause.kind() == ErrorKind::NotFound => gone_calls.push(call),
                found => drop(found?),
            }
        }
        Ok((gone, gone_calls))
    });
    let (sessions, calls) = gone.await?;
    on_disk(move || {
        home.forget_kept(&calls)?;
        sessions.iter().try_for_each(|it| home.forget_conversation(it))
    })
    .await
}

async fn forget(site: &Site, person: PersonId) -> Result<()> {
    let (data, of) = (site.config.site.data.clone(), person.clone());
    let is_signed_in = on_disk(move || {
        let home = Home::of(&data, &of);
        home.forget_claude_token()?;
        Account::forget(home.path())?;
        crate::chat::has_sign_in(&data, &of)
    });
    if !is_signed_in.await? {
        return Ok(());
    }
    // A gateway that runs might write the file again: it removes it itself.
    if let Standing::Ready(_) = site.gateway.standing() {
        let path = format!("/v1/login/{person}");
        site.gateway.ask("DELETE", &path, &serde_json::json!({})).await?;
        return Ok(());
    }
    let data = site.config.site.data.clone();
    on_disk(move || forget_sign_in(&data, &person)).await
}

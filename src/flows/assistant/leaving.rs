//! The sign-ins of disabled people, whose files are removed.
//!
//! **Invariant:** they are removed after the commit that disables a person; a server that is killed
//! in between removes them at its next start.

use crate::base::{PersonId, Result};
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

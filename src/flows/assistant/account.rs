//! The LinkedIn account of a person, for their calls.

use crate::base::{Error, Result};
use crate::chat::Home;
use crate::flows::Site;
use crate::flows::assistant::disk::on_disk;
use crate::linkedin::{Account, signed_out};
use crate::people::Person;
use crate::script::{Config, Linkedin};

/// Returns the site's app.
///
/// # Errors
/// `not_found` with code `no_linkedin`.
pub(super) fn app_of(config: &Config) -> Result<&Linkedin> {
    config.assistant.as_ref().and_then(|it| it.linkedin.as_ref()).ok_or_else(|| {
        Error::not_found("this site has no LinkedIn app")
            .code("no_linkedin")
            .hint("an admin declares it: linkedin = { … } in wb.assistant")
    })
}

/// Returns a person's folder.
pub(super) fn home(config: &Config, person: &Person) -> Home {
    Home::of(&config.site.data, &person.id)
}

/// Returns a person's account, if it can be used.
///
/// # Errors
/// `forbidden` with code `linkedin_signed_out`.
pub(super) async fn account(site: &Site, config: &Config, person: &Person) -> Result<Account> {
    let home = home(config, person);
    match on_disk(move || Account::load(home.path())).await? {
        Some(it) if it.is_refused => Err(signed_out("LinkedIn no longer accepts your sign-in")),
        None => Err(signed_out("you have not connected LinkedIn")),
        Some(it) if it.expires_at <= site.store.clock().now() => {
            Err(signed_out("your sign-in at LinkedIn has expired"))
        }
        Some(it) => Ok(it),
    }
}

/// Notes that LinkedIn refused an account, unless the person has connected another since.
pub(super) async fn note_refused(config: &Config, person: &Person, account: Account) -> Result<()> {
    let home = home(config, person);
    on_disk(move || match Account::load(home.path())? {
        Some(now) if now.is_same(&account) => now.refused().keep(home.path()),
        _ => Ok(()),
    })
    .await
}

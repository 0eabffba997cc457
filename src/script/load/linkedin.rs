//! `linkedin` of `wb.assistant`: the site's LinkedIn app.

use serde::Serialize;

use crate::base::BaseUrl;
use crate::script::config::secret::Secret;
use crate::script::load::assistant::Judge;
use crate::script::load::external::{Lead, Target};
use crate::script::load::extract::{Checked, Given};

/// Where LinkedIn leads people back to.
const CALLBACK: &str = "/linkedin/callback";
/// The fields with secrets.
const SECRETS: [&str; 2] = ["client_id", "client_secret"];

/// A LinkedIn app.
#[derive(Clone, Debug, Serialize)]
pub struct Linkedin {
    /// Its id.
    pub client_id: Secret,
    /// Its secret.
    pub client_secret: Secret,
    /// The version of LinkedIn's interface, `YYYYMM`.
    pub version: String,
    /// Where LinkedIn leads people back to.
    pub redirect: String,
    /// Whether it may read comments.
    pub reads_comments: bool,
}

impl Judge<'_> {
    /// Returns the LinkedIn app; `None` without one, or with an error.
    pub(super) fn linkedin(&mut self) -> Option<Linkedin> {
        let checked = self.checked;
        let Some(Given::Fields(given)) = checked.given("linkedin") else { return None };
        let version = self.version(given);
        let redirect = self.redirect(given);
        let secret = |name: &str| match given.given(name) {
            Some(Given::Secret(secret)) => Some(secret.clone()),
            _ => None,
        };
        Some(Linkedin {
            client_id: secret(SECRETS[0])?,
            client_secret: secret(SECRETS[1])?,
            version: version?,
            redirect: redirect?,
            reads_comments: given.flag("reads_comments").unwrap_or(false),
        })
    }

    fn version(&mut self, given: &Checked) -> Option<String> {
        let text = given.text("version")?;
        let is_right = text.len() == 6
            && text.bytes().all(|it| it.is_ascii_digit())
            && ("01"..="12").contains(&&text[4..]);
        if !is_right {
            let message = format!("`version` of LinkedIn is `{}`", text.escape_debug());
            let note = "write a year and a month, as LinkedIn's documentation names its newest \
                        version: version = \"202610\"";
            self.error("bad-text", message, given.spot("version"), note);
            return None;
        }
        Some(text.to_owned())
    }

    fn redirect(&mut self, given: &Checked) -> Option<String> {
        let text = given.text("redirect")?;
        let cause = match text.strip_suffix(CALLBACK).map(str::parse::<BaseUrl>) {
            Some(Ok(_)) => return Some(text.to_owned()),
            Some(Err(cause)) => cause.message().to_owned(),
            None => format!("it does not end with {CALLBACK}"),
        };
        let message = format!("`redirect` of LinkedIn: {cause}");
        let note = format!(
            "write the site's own address with this path, as the app lists it: redirect = \
             \"https://wiki.example.org{CALLBACK}\""
        );
        self.error("bad-text", message, given.spot("redirect"), &note);
        None
    }
}

/// Returns the secrets of the declaration with their places.
pub(super) fn leads(checked: &Checked) -> Vec<Lead> {
    let Some(Given::Fields(given)) = checked.given("linkedin") else { return Vec::new() };
    let lead = |name: &&str| match given.given(name) {
        Some(Given::Secret(secret)) => {
            Some(Lead::new(Target::OfLinkedin(secret.clone()), given.spot(name)))
        }
        _ => None,
    };
    SECRETS.iter().filter_map(lead).collect()
}

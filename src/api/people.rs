//! People and their tokens.

use serde::{Deserialize, Serialize};

use crate::base::{Actor, JobId, Millis, PersonId, TokenId};

/// What a person may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Everything, also the affairs of other people.
    Admin,
    /// Reads, writes and decides.
    Member,
    /// Reads.
    Viewer,
}

/// A human who uses the site.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Person {
    /// The name of the row.
    pub id: PersonId,
    /// A short name, unique in the site.
    pub name: String,
    /// The name shown to others.
    pub display_name: String,
    /// Their mail address, if known.
    pub email: Option<String>,
    /// Their role.
    pub role: Role,
    /// Whether this is somebody from outside, who takes part in channels and does nothing else.
    #[serde(default)]
    pub is_external: bool,
    /// When the row was made.
    pub created_at: Millis,
    /// Since when nothing of this person's counts any more.
    pub disabled_at: Option<Millis>,
}

/// What a token may be used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum TokenScope {
    /// Looks.
    Read,
    /// Opens Topics, posts messages, starts jobs.
    Write,
    /// Approves and rejects.
    Decide,
    /// Reads what the program measures of itself, and nothing else.
    Metrics,
    /// Takes part in channels as somebody from outside, and does nothing else.
    Channel,
}

/// A token as it is listed; the secret is shown once, when it is made.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Token {
    /// The name of the row.
    pub id: TokenId,
    /// Whose it is.
    pub person_id: PersonId,
    /// The token's name.
    pub name: String,
    /// Its scopes.
    pub scopes: Vec<TokenScope>,
    /// When it was made.
    pub created_at: Millis,
    /// When it was last used, to the hour.
    pub last_used_at: Option<Millis>,
    /// When it ends by itself.
    pub expires_at: Option<Millis>,
    /// When it was revoked.
    pub revoked_at: Option<Millis>,
}

/// A token with the name of its owner.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[cfg_attr(test, schemars(rename = "OwnedToken"))]
pub struct TokenView {
    /// The token.
    #[serde(flatten)]
    pub token: Token,
    /// Whose it is, by name.
    pub person: String,
    /// Whether it does not count because its owner is disabled.
    pub person_disabled: bool,
}

/// The answer of `POST /api/tokens`.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct TokenMade {
    /// The name of the row.
    pub id: TokenId,
    /// The token's name.
    pub name: String,
    /// Whose it is, by name.
    pub person: String,
    /// Its scopes.
    pub scopes: Vec<TokenScope>,
    /// When it ends by itself.
    pub expires_at: Option<Millis>,
    /// The secret: it is in this answer and nowhere else.
    pub token: String,
}

/// The answer of `DELETE /api/tokens/{id}`.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct TokenRevoked {
    /// The name of the row.
    pub id: TokenId,
    /// What its owner called it.
    pub name: String,
}

/// The caller as the site knows it.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Me {
    /// Who it is.
    pub actor: Actor,
    /// The person, if it is one.
    pub person: Option<ShownPerson>,
    /// The job, if it is one.
    pub job_id: Option<JobId>,
}

/// A person as others see them.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ShownPerson {
    /// The name of the row.
    pub id: PersonId,
    /// A short name, unique in the site.
    pub name: String,
    /// The name shown to others.
    pub display_name: String,
    /// Their role.
    pub role: Role,
}

/// A login link.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct LoginLink {
    /// Where it leads.
    pub url: String,
    /// When it ends.
    pub expires_at: Millis,
}

/// The answer of `POST /api/login`.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct LoggedIn {
    /// Who has signed in.
    pub person: ShownPerson,
}

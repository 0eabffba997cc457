//! People and their tokens.

use serde::{Deserialize, Serialize};

use crate::base::{Actor, JobId, Millis, PersonId, TokenId};

/// What a person may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Everything, including other people's affairs.
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
    /// When it was created.
    pub created_at: Millis,
    /// When it was disabled.
    pub disabled_at: Option<Millis>,
}

/// What a token may be used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum TokenScope {
    /// Reads.
    Read,
    /// Opens Topics, posts messages, starts jobs.
    Write,
    /// Approves and rejects.
    Decide,
    /// Reads metrics, and nothing else.
    Metrics,
    /// Takes part in channels as somebody from outside, and does nothing else.
    Channel,
}

/// A token in a list; the secret is only shown when it is created.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Token {
    /// The name of the row.
    pub id: TokenId,
    /// Its owner.
    pub person_id: PersonId,
    /// The token's name.
    pub name: String,
    /// Its scopes.
    pub scopes: Vec<TokenScope>,
    /// When it was created.
    pub created_at: Millis,
    /// When it was last used, to the hour.
    pub last_used_at: Option<Millis>,
    /// When it expires.
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
    /// The name of its owner.
    pub person: String,
    /// Whether it is inactive because its owner is disabled.
    pub person_disabled: bool,
}

/// The response of `POST /api/tokens`.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct TokenMade {
    /// The name of the row.
    pub id: TokenId,
    /// The token's name.
    pub name: String,
    /// The name of its owner.
    pub person: String,
    /// Its scopes.
    pub scopes: Vec<TokenScope>,
    /// When it expires.
    pub expires_at: Option<Millis>,
    /// The secret; it is only in this response.
    pub token: String,
}

/// The response of `DELETE /api/tokens/{id}`.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct TokenRevoked {
    /// The name of the row.
    pub id: TokenId,
    /// Its name.
    pub name: String,
}

/// The caller.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Me {
    /// The type of the caller.
    pub actor: Actor,
    /// The person, if the caller is one.
    pub person: Option<ShownPerson>,
    /// The job, if the caller is one.
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
    /// The address.
    pub url: String,
    /// When it expires.
    pub expires_at: Millis,
}

/// The response of `POST /api/login`.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct LoggedIn {
    /// The person who signed in.
    pub person: ShownPerson,
}

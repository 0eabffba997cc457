//! Personas, and Sources as they see them.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use crate::base::{BlobId, JobId, Millis, Page, SourcePath};

/// How things stand with one view.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct View {
    /// The Source.
    pub source_path: SourcePath,
    /// The name of the persona.
    pub persona: String,
    /// What the persona is.
    pub about: Option<String>,
    /// `fresh`, `stale` or `none`.
    pub state: Cow<'static, str>,
    /// What has changed since it was made: `source`, `persona` or `persona_gone`.
    pub changed: Vec<Cow<'static, str>>,
    /// The version of the Source that it was made from.
    pub source_sha: Option<BlobId>,
    /// The version of the persona.
    pub persona_sha: Option<BlobId>,
    /// The job that made it.
    pub job_id: Option<JobId>,
    /// When.
    pub created_at: Option<Millis>,
    /// Its length.
    pub bytes: Option<i64>,
    /// The job that makes a fresh one.
    pub making: Option<JobId>,
}

/// A view with its text.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ViewText {
    /// How things stand with it.
    #[serde(flatten)]
    pub view: View,
    /// The text, as Markdown.
    pub body: String,
}

/// The views of a Source.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ViewList {
    /// One of each persona that is for it or has one.
    pub items: Vec<View>,
    /// Nothing: there is one page.
    pub next: Option<String>,
    /// The kinds that make views.
    pub kinds: Vec<String>,
}

/// What a request for a view came to.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Requested {
    /// The job that makes it; none if it is there and fresh.
    pub job_id: Option<JobId>,
    /// Whether this request began that job.
    pub is_new: bool,
    /// How things stand with the view.
    pub perspective: View,
}

/// The answer of `POST /api/perspectives`.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ViewKept {
    /// The Source.
    pub source_path: SourcePath,
    /// The name of the persona.
    pub persona: String,
    /// The version of the Source.
    pub source_sha: BlobId,
    /// The version of the persona.
    pub persona_sha: BlobId,
    /// The length of the view.
    pub bytes: usize,
}

/// A persona in a list.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct PersonaRow {
    /// Its name.
    pub name: String,
    /// What it is.
    pub about: Option<String>,
    /// Globs of the Sources that it is for; empty for all.
    pub paths: Vec<String>,
    /// The version of its file.
    pub sha: Option<BlobId>,
    /// Why the file is none.
    pub problem: Option<String>,
}

/// A persona with what its agent is told.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct PersonaText {
    /// Its name.
    pub name: String,
    /// What it is.
    pub about: Option<String>,
    /// Globs of the Sources that it is for; empty for all.
    pub paths: Vec<String>,
    /// The version of its file.
    pub sha: BlobId,
    /// The instructions for its agent.
    pub body: String,
}

/// The answer of `GET /api/personas`.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(untagged)]
pub enum Personas {
    /// The one that was asked for by its name.
    One(PersonaText),
    /// All of them.
    All(Page<PersonaRow>),
}

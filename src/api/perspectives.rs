//! Personas, and Sources as they see them.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use crate::base::{BlobId, JobId, Millis, Page, SourcePath};

/// The state of one view.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct View {
    /// The Source.
    pub source_path: SourcePath,
    /// The name of the persona.
    pub persona: String,
    /// The persona's description.
    pub about: Option<String>,
    /// `fresh`, `stale` or `none`.
    pub state: Cow<'static, str>,
    /// What has changed since it was generated: `source`, `persona` or `persona_gone`.
    pub changed: Vec<Cow<'static, str>>,
    /// The version of the Source that it was generated from.
    pub source_sha: Option<BlobId>,
    /// The version of the persona.
    pub persona_sha: Option<BlobId>,
    /// The job that generated it.
    pub job_id: Option<JobId>,
    /// When.
    pub created_at: Option<Millis>,
    /// Its length.
    pub bytes: Option<i64>,
    /// The job that is generating a fresh one.
    pub making: Option<JobId>,
}

/// A view with its text.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ViewText {
    /// Its state.
    #[serde(flatten)]
    pub view: View,
    /// The text, as Markdown.
    pub body: String,
}

/// The views of a Source.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ViewList {
    /// One per persona that is for the Source or has a view.
    pub items: Vec<View>,
    /// Always absent: there is one page.
    pub next: Option<String>,
    /// The kinds that generate views.
    pub kinds: Vec<String>,
}

/// The result of requesting a view.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Requested {
    /// The job that generates it; absent if it is fresh.
    pub job_id: Option<JobId>,
    /// Whether this request started the job.
    pub is_new: bool,
    /// The state of the view.
    pub perspective: View,
}

/// The response of `POST /api/perspectives`.
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
    /// Its description.
    pub about: Option<String>,
    /// Globs of the Sources that it is for; empty for all.
    pub paths: Vec<String>,
    /// The version of its file.
    pub sha: Option<BlobId>,
    /// The error of an invalid file.
    pub problem: Option<String>,
}

/// A persona with its instructions.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct PersonaText {
    /// Its name.
    pub name: String,
    /// Its description.
    pub about: Option<String>,
    /// Globs of the Sources that it is for; empty for all.
    pub paths: Vec<String>,
    /// The version of its file.
    pub sha: BlobId,
    /// The instructions for its agent.
    pub body: String,
}

/// The response of `GET /api/personas`.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(untagged)]
pub enum Personas {
    /// The persona requested by name.
    One(PersonaText),
    /// All of them.
    All(Page<PersonaRow>),
}

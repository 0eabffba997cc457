//! Exports of channels.

use serde::{Deserialize, Serialize};

/// The form of an export.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum ExportForm {
    /// One text, decisions first.
    #[default]
    Markdown,
    /// A line of JSON for each message.
    Jsonl,
}

/// The query of `GET /api/channels/{slug}/export`.
#[derive(Clone, Debug, Default, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct ExportQuery {
    /// `markdown` (the default) or `jsonl`.
    #[serde(default)]
    pub form: ExportForm,
}

/// An exported channel.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ChannelExport {
    /// The conversation as Markdown.
    pub markdown: String,
}

//! References to things outside the script, with their places. Whether they exist is checked
//! elsewhere, since that differs from machine to machine.

use camino::Utf8PathBuf;

use crate::script::config::secret::Secret;
use crate::script::source::diagnostic::Diagnostic;
use crate::script::source::location::Location;
use crate::script::source::span::Spot;

/// A reference to something outside the script.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lead {
    /// Its target.
    pub to: Target,
    /// Where it is written.
    pub at: Location,
    /// Its length in characters.
    len: u32,
}

/// Something outside the script.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// The absolute folder of the repository.
    Root(Utf8PathBuf),
    /// A glob of Sources.
    Sources(String),
    /// The absolute path of the agents' client.
    WbAgent(Utf8PathBuf),
    /// A field of a kind, and the absolute folder in it.
    Folder(&'static str, Utf8PathBuf),
    /// A secret in the environment of the engine with this name.
    OfEngine(String, Secret),
    /// The secret of the webhook with this name.
    OfWebhook(String, Secret),
    /// A secret of the assistant's LinkedIn app.
    OfLinkedin(Secret),
}

impl Lead {
    /// Returns a lead at a place.
    pub(crate) fn new(to: Target, spot: &Spot) -> Lead {
        Lead { to, at: spot.at(), len: spot.len() }
    }

    /// Sets the place of a finding about this lead; `line` is the text of its line.
    #[must_use]
    pub(crate) fn place(&self, finding: Diagnostic, line: Option<&str>) -> Diagnostic {
        let finding = finding.in_file(&self.at.file, self.at.line, line);
        finding.at_column(self.at.column, self.len)
    }
}

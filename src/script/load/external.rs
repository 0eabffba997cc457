//! What a script names outside of itself, and where it does: whether it is there is for others to
//! look at, since that differs from machine to machine.

use camino::Utf8PathBuf;

use crate::script::config::secret::Secret;
use crate::script::source::diagnostic::Diagnostic;
use crate::script::source::location::Location;
use crate::script::source::span::Spot;

/// One name of something outside of the script.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lead {
    /// Where it leads to.
    pub to: Target,
    /// Where it stands.
    pub at: Location,
    /// Characters of it.
    len: u32,
}

/// What is outside of a script.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// The absolute folder of the repository.
    Root(Utf8PathBuf),
    /// A glob of Sources.
    Sources(String),
    /// The absolute path of the agents' client.
    WbAgent(Utf8PathBuf),
    /// A secret in the environment of the engine with this name.
    OfEngine(String, Secret),
    /// The secret of the webhook with this name.
    OfWebhook(String, Secret),
}

impl Lead {
    /// Returns a lead that stands at a place.
    pub(crate) fn new(to: Target, spot: &Spot) -> Lead {
        Lead { to, at: spot.at(), len: spot.len() }
    }

    /// Sets the place of a finding about it; `line` is the text of its line.
    #[must_use]
    pub(crate) fn place(&self, finding: Diagnostic, line: Option<&str>) -> Diagnostic {
        let finding = finding.in_file(&self.at.file, self.at.line, line);
        finding.at_column(self.at.column, self.len)
    }
}

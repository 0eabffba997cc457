//! Templates whose files became wrong while no server ran: nobody is there to refuse them, as a
//! reload would. Their agents and inboxes stay declared as the last server had them, so that
//! nothing that waits for them is ended. A file that is gone, or a persona without a fault,
//! declares nothing.

use std::collections::BTreeMap;

use camino::{Utf8Path, Utf8PathBuf};

use crate::base::Result;
use crate::flows::perspectives::personas;
use crate::script::{self, Config, Diagnostic, Loaded, Report, Severity, Wear};

/// The code of the warnings about them.
pub(in crate::flows) const CODE: &str = "held-template";

/// Loads a script as a start does.
///
/// # Errors
/// Everything that is wrong with it, in one report.
pub fn load(script: &Utf8Path, wear: &Wear) -> std::result::Result<Loaded, Report> {
    let loaded = script::load_again(script, wear)?;
    let (texts, held) = held(&loaded.config).map_err(|cause| {
        let note = "mend the files in agents/: what they declared before cannot be read";
        Report::of(Diagnostic::error(CODE, cause.chain()).note(note))
    })?;
    if texts.is_empty() {
        return Ok(loaded);
    }
    drop(loaded);
    match script::load_changed(script, texts) {
        Ok(mut loaded) => {
            loaded.warnings.extend(held);
            Ok(loaded)
        }
        // What they declared fits the rest of the script no more: only a person can say what is
        // meant.
        Err(mut report) => {
            let wrong = held.into_iter().map(|it| Diagnostic { severity: Severity::Error, ..it });
            report.errors.splice(0..0, wrong);
            Err(report)
        }
    }
}

/// Returns the last texts of the templates that are neither a template nor a persona now, and a
/// warning about each.
fn held(config: &Config) -> Result<(BTreeMap<Utf8PathBuf, String>, Vec<Diagnostic>)> {
    let (mut texts, mut held) = (BTreeMap::new(), Vec::new());
    if personas::check(&config.folder).is_empty() {
        return Ok((texts, held));
    }
    for (path, text) in script::last_templates(&config.site.data)? {
        let is_loaded = config.files.iter().any(|it| it.path == path);
        let file = path.file_name().filter(|_| !is_loaded);
        let Some(cause) = file.and_then(|it| personas::fault(&config.folder, it)) else { continue };
        let message = format!(
            "{path} is no template any more, and what it declared is held as it was: {}",
            cause.message()
        );
        let note = "mend it and type wiki-browser reload; or remove it, which ends its agents";
        held.push(Diagnostic::warning(CODE, message).note(note));
        texts.insert(path, text);
    }
    Ok((texts, held))
}

//! The check of a script for `check`, a start and a reload: the script itself, the personas next to
//! it, and the programs, secrets and folders that it names.

pub mod engines;
pub mod external;
pub mod rehearse;
pub mod steering_files;
pub mod templates;

use camino::Utf8Path;

use crate::flows::perspectives::personas;
use crate::script::{self, Diagnostic, Loaded, Report, Severity, Wear};

/// The purpose of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// To report problems; the script may be meant for another machine.
    Check,
    /// To serve. Invalid personas do not prevent a start, because agents may write them, and what
    /// was a template stays one; a missing engine does, once the data folder is open.
    Start,
    /// To activate it while the previous one runs.
    Reload,
}

/// Loads and checks a script; blocks for at most a few seconds. `programs` is the `PATH` of
/// engines.
///
/// # Errors
/// All that is wrong for this purpose, in one report.
pub fn check(
    script: &Utf8Path,
    wear: &Wear,
    programs: &str,
    purpose: Purpose,
) -> Result<Loaded, Report> {
    let mut loaded = match purpose {
        Purpose::Start => templates::load(script, wear)?,
        Purpose::Check | Purpose::Reload => script::load_again(script, wear)?,
    };
    let mut errors = Vec::new();
    let missing = engines::check(&loaded.config, programs);
    match purpose {
        Purpose::Check => loaded.warnings.extend(missing),
        Purpose::Start => {}
        Purpose::Reload => errors.extend(missing.into_iter().map(|it| set(it, Severity::Error))),
    }
    loaded.warnings.extend(engines::open_doors(&loaded.config));
    let wrong = personas::check(&loaded.config.folder);
    match purpose {
        Purpose::Start => {
            loaded.warnings.extend(wrong.into_iter().map(|it| set(it, Severity::Warning)));
        }
        Purpose::Check | Purpose::Reload => errors.extend(wrong),
    }
    for it in external::check(&loaded, &external::environment(), purpose) {
        match it.severity {
            Severity::Error => errors.push(it),
            Severity::Warning => loaded.warnings.push(it),
        }
    }
    match errors.is_empty() {
        true => Ok(loaded),
        false => Err(Report { errors, warnings: loaded.warnings }),
    }
}

fn set(finding: Diagnostic, severity: Severity) -> Diagnostic {
    Diagnostic { severity, ..finding }
}

//! Engines as `check` looks at them: whether their programs are there, without starting one.

use crate::jobs::Engines;
use crate::script::{Config, Diagnostic};

/// Returns a warning for each engine that a kind names and whose program is not there. `serve`
/// takes it for an error; the script may be checked on another machine than the server's.
pub fn check(config: &Config, path: &str) -> Vec<Diagnostic> {
    let warn = |(engine, cause): (&crate::script::Engine, crate::base::Error)| {
        let file = config.files.iter().find(|file| file.path == *engine.at.file);
        let line =
            file.and_then(|it| it.text.lines().nth(engine.at.line.saturating_sub(1) as usize));
        let message =
            cause.message().replace(&format!(" ({}:{})", engine.at.file, engine.at.line), "");
        let hint = cause.hint_str().unwrap_or_default();
        Diagnostic::warning("engine-missing", message)
            .in_file(&engine.at.file, engine.at.line, line)
            .at_column(engine.at.column, ENGINE_WORD)
            .note(format!("serve and reload refuse it: {hint}"))
    };
    Engines::missing(config, path).into_iter().map(warn).collect()
}

/// Characters of `wb.engine`.
const ENGINE_WORD: u32 = 9;

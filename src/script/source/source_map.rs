//! The files of a script with their tokens. Two threads use it: the one that runs the script, and
//! the one that assigns places to declarations.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use camino::Utf8Path;

use crate::script::source::diagnostic::Diagnostic;
use crate::script::source::field_span::{Places, Source};
use crate::script::source::span::Spot;
use crate::script::source::syntax;
use crate::script::vm::session::Caller;

/// The files that were read, ordered by path.
#[derive(Clone, Default)]
pub(crate) struct Sources(Arc<Mutex<BTreeMap<String, Arc<Source>>>>);

impl Sources {
    fn all(&self) -> MutexGuard<'_, BTreeMap<String, Arc<Source>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a file.
    pub(crate) fn add(&self, path: &Utf8Path, text: &Arc<str>) -> Arc<Source> {
        let source = Arc::new(Source::new(Arc::from(path), Arc::clone(text)));
        self.share(Arc::clone(&source));
        source
    }

    /// Adds a file that is already shared.
    pub(crate) fn share(&self, source: Arc<Source>) {
        self.all().insert(source.file().as_str().to_owned(), source);
    }

    /// Returns the path of the only file; `None` if there are several.
    pub(crate) fn only(&self) -> Option<Arc<Utf8Path>> {
        let all = self.all();
        all.values().next().filter(|_| all.len() == 1).map(|it| it.file())
    }

    /// Returns the shared copy of a path.
    pub(crate) fn file(&self, path: &str) -> Arc<Utf8Path> {
        let known = self.all().get(path).map(|it| it.file());
        known.unwrap_or_else(|| Arc::from(Utf8Path::new(path)))
    }

    fn source(&self, file: &Utf8Path) -> Option<Arc<Source>> {
        self.all().get(file.as_str()).cloned()
    }

    /// Returns the place of a declaration, with its fields.
    pub(crate) fn places(&self, caller: &Caller, word: &str, name: Option<&str>) -> Places {
        let source = self.source(&caller.file);
        let found = source.and_then(|source| source.declaration(word, name, caller.line));
        found.unwrap_or_else(|| Places::at(self.line(caller)))
    }

    /// Returns the place of the call of a declaration.
    pub(crate) fn call_spot(&self, caller: &Caller, word: &str, name: Option<&str>) -> Spot {
        let source = self.source(&caller.file);
        let found = source.and_then(|source| source.call(word, name, caller.line));
        found.unwrap_or_else(|| self.line(caller))
    }

    /// Returns the place of a name in the caller's line, if it occurs there.
    pub(crate) fn named_spot(&self, caller: &Caller, name: &str) -> Option<Spot> {
        let source = self.source(&caller.file);
        source.and_then(|source| source.name_in_line(name, caller.line))
    }

    /// Returns the place of a literal text in the caller's line.
    pub(crate) fn text_spot(&self, caller: &Caller, text: &str) -> Spot {
        let source = self.source(&caller.file);
        let spot = source.and_then(|source| source.text_in_line(text, caller.line));
        spot.unwrap_or_else(|| self.line(caller))
    }

    /// Returns the place of the caller's line.
    pub(crate) fn line(&self, caller: &Caller) -> Spot {
        match self.source(&caller.file) {
            Some(source) => source.whole_line(caller.line),
            None => Spot::line(&caller.file, caller.line),
        }
    }

    /// Returns the finding for a syntax error, given the engine's message.
    pub(crate) fn syntax(&self, text: &str) -> Diagnostic {
        let (spot, message) = self.split_message(text);
        let at = spot.as_ref().map(Spot::at);
        let source = at.and_then(|at| Some((at.line, self.source(&at.file)?)));
        match source {
            Some((line, source)) => syntax::explain(&source, line, &message),
            None => Diagnostic::error("syntax", message),
        }
    }

    /// Splits `file:line: message` into a place and the message.
    pub(crate) fn split_message(&self, text: &str) -> (Option<Spot>, String) {
        for (path, source) in self.all().iter() {
            let Some(rest) = text.strip_prefix(path.as_str()).and_then(|it| it.strip_prefix(':'))
            else {
                continue;
            };
            let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
            if let (Ok(line), Some(message)) =
                (rest[..digits].parse(), rest[digits..].strip_prefix(':'))
            {
                let message = message.trim_start();
                // The engine names the value that was nil: `(local 'x')`.
                let name = message.strip_suffix("')").and_then(|it| it.rsplit_once(" '"));
                // Or one of our functions names itself: `wb.file: there is no …`.
                let name = name.map(|it| it.1).or_else(|| function_in(message));
                let spot = name.and_then(|name| source.name_in_line(name, line));
                let spot = spot.unwrap_or_else(|| source.whole_line(line));
                return (Some(spot), message.to_owned());
            }
        }
        (None, text.to_owned())
    }
}

/// Returns the last part of the function name that begins a message: `wb.file: …`.
fn function_in(message: &str) -> Option<&str> {
    let rest = message.strip_prefix("wb.")?;
    let end = rest.find(|c: char| !c.is_ascii_lowercase() && c != '.').unwrap_or(rest.len());
    rest[..end].rsplit('.').find(|it| !it.is_empty())
}

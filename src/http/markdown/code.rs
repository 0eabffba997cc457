//! Syntax highlighting within bounds: code that is too large or takes too long stays plain.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use syntect::parsing::{ParseState, Scope, ScopeStack, SyntaxReference, SyntaxSet};

use crate::http::markdown::prose::push_text;

/// Largest block that is highlighted, in bytes.
const BLOCK_BYTES_MAX: usize = 24 * 1024;
/// Most bytes of code highlighted in one text.
const TEXT_BYTES_MAX: usize = 96 * 1024;
/// Longest highlighted line, in bytes: patterns backtrack within a line.
const LINE_BYTES_MAX: usize = 1_000;
/// Longest time for one text.
const TIME_MAX: Duration = Duration::from_millis(150);

/// The scopes that get a class, the more specific ones first.
const CLASSES: &[(&str, char)] = &[
    ("comment", 'c'),
    ("punctuation.definition.comment", 'c'),
    ("string", 's'),
    ("punctuation.definition.string", 's'),
    ("constant.character.escape", 'e'),
    ("constant", 'n'),
    ("keyword.operator", 'o'),
    ("keyword", 'k'),
    ("storage", 'k'),
    ("variable.language", 'k'),
    ("entity.name.tag", 'k'),
    ("entity.name.function", 'f'),
    ("support.function", 'f'),
    ("variable.function", 'f'),
    ("entity.name", 't'),
    ("support", 't'),
    ("entity.other.attribute-name", 'f'),
    ("markup.inserted", 'i'),
    ("markup.deleted", 'd'),
    ("meta.diff.range", 'c'),
    ("markup.heading", 'k'),
];

/// Highlights code; loaded once, and cheap to clone.
#[derive(Clone)]
pub(in crate::http) struct Highlighter(Arc<Loaded>);

struct Loaded {
    syntaxes: SyntaxSet,
    classes: Vec<(Scope, char)>,
}

impl fmt::Debug for Highlighter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Highlighter").finish_non_exhaustive()
    }
}

/// The remaining budget of one text.
#[derive(Debug)]
pub(super) struct Budget {
    bytes: usize,
    until: Option<Instant>,
}

impl Default for Budget {
    fn default() -> Budget {
        Budget { bytes: TEXT_BYTES_MAX, until: None }
    }
}

impl Highlighter {
    /// Loads the languages. Their patterns are compiled on first use.
    pub(in crate::http) fn load() -> Highlighter {
        let class = |(name, class): &(&str, char)| Some((Scope::new(name).ok()?, *class));
        Highlighter(Arc::new(Loaded {
            syntaxes: SyntaxSet::load_defaults_newlines(),
            classes: CLASSES.iter().filter_map(class).collect(),
        }))
    }

    fn syntax(&self, language: &str) -> Option<&SyntaxReference> {
        let known = match language {
            "ts" | "typescript" | "tsx" | "jsx" | "mjs" => "js",
            "jsonc" | "json5" | "jsonl" => "json",
            "zsh" | "shell" | "ksh" => "sh",
            "patch" => "diff",
            "golang" => "go",
            "" | "text" | "txt" | "plain" | "plaintext" | "console" | "mermaid" | "math" => {
                return None;
            }
            known => known,
        };
        self.0.syntaxes.find_syntax_by_token(known)
    }

    /// Appends code as HTML. Its `textContent` is the same with and without classes.
    pub(super) fn push(&self, html: &mut String, code: &str, language: &str, left: &mut Budget) {
        let language = language.to_ascii_lowercase();
        let syntax = self.syntax(&language).filter(|_| {
            code.len() <= BLOCK_BYTES_MAX.min(left.bytes)
                && code.lines().all(|it| it.len() <= LINE_BYTES_MAX)
        });
        let Some(syntax) = syntax else { return push_text(html, code) };
        left.bytes -= code.len();
        let until = *left.until.get_or_insert_with(|| Instant::now() + TIME_MAX);
        let mut state = ParseState::new(syntax);
        let mut stack = ScopeStack::new();
        let mut done = 0;
        for line in code.split_inclusive('\n') {
            if Instant::now() > until {
                break;
            }
            let Ok(changes) = state.parse_line(line, &self.0.syntaxes) else { break };
            let (mut from, mut open) = (0, None);
            for (at, change) in changes {
                push_part(html, &line[from..at], self.class(&stack), &mut open);
                from = at;
                if stack.apply(&change).is_err() {
                    break;
                }
            }
            push_part(html, &line[from..], self.class(&stack), &mut open);
            if open.is_some() {
                html.push_str("</span>");
            }
            done += line.len();
        }
        push_text(html, &code[done..]);
    }

    /// Returns the class for a stack of scopes, innermost first.
    fn class(&self, stack: &ScopeStack) -> Option<char> {
        stack.as_slice().iter().rev().find_map(|scope| {
            let found = self.0.classes.iter().find(|(wanted, _)| wanted.is_prefix_of(*scope));
            found.map(|(_, class)| *class)
        })
    }
}

/// Appends a part of a line; adjacent parts of one class share an element.
fn push_part(html: &mut String, part: &str, class: Option<char>, open: &mut Option<char>) {
    if part.is_empty() {
        return;
    }
    let class = if part.trim().is_empty() { *open } else { class };
    if class != *open {
        if open.is_some() {
            html.push_str("</span>");
        }
        if let Some(class) = class {
            html.push_str("<span class=\"h");
            html.push(class);
            html.push_str("\">");
        }
        *open = class;
    }
    push_text(html, part);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(code: &str, language: &str) -> String {
        let mut html = String::new();
        Highlighter::load().push(&mut html, code, language, &mut Budget::default());
        html
    }

    #[test]
    fn code_has_classes_and_keeps_its_text() {
        let html = shown("fn main() { \"<b>\" } // x\n", "rust");
        assert!(html.contains("<span class=\"hk\">fn </span>"), "{html}");
        assert!(html.contains("<span class=\"hs\">&quot;&lt;b&gt;&quot; </span>"), "{html}");
        assert!(html.ends_with("<span class=\"hc\">// x\n</span>"), "{html}");
        assert_eq!(shown("a < b", "no such language"), "a &lt; b");
        assert_eq!(shown("graph TD; a-->b", "mermaid"), "graph TD; a--&gt;b");
    }

    #[test]
    fn what_is_large_or_slow_stays_plain() {
        assert!(!shown(&"fn ".repeat(LINE_BYTES_MAX), "rust").contains("<span"));
        assert!(!shown(&"fn x() {}\n".repeat(3_000), "rust").contains("<span"));
        let mut budget = Budget { bytes: TEXT_BYTES_MAX, until: Some(Instant::now()) };
        let mut html = String::new();
        Highlighter::load().push(&mut html, "fn a() {}\n", "rust", &mut budget);
        assert_eq!(html, "fn a() {}\n");
        assert_eq!(budget.bytes, TEXT_BYTES_MAX - 10);
    }
}

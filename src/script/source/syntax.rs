//! Hints for syntax errors: the engine's own message names only a line and a token.

use std::sync::Arc;

use crate::script::source::diagnostic::Diagnostic;
use crate::script::source::field_span::Source;
use crate::script::source::lexer::{Token, Word};
use crate::script::source::span::Spot;

/// Returns the finding for a syntax error. `message` is the engine's, without file and line.
pub(crate) fn explain(source: &Arc<Source>, line: u32, message: &str) -> Diagnostic {
    let near = near(message);
    if near == Some("<eof>")
        && let Some((open, close)) = unclosed(source, usize::MAX)
    {
        let spot = source.spot(open..open + 1);
        let word = source.slice(source.tokens()[open].range());
        let message = format!("the file ends, but `{word}` is not closed");
        return Diagnostic::error("syntax", message).at(&spot).note(format!("write `{close}`"));
    }
    let is_cut_short = message.starts_with("unexpected symbol");
    let at = near.and_then(|near| find(source, line, near, is_cut_short));
    let spot = match at {
        Some(index) => source.spot(index..index + 1),
        None => odd(source, line).map_or_else(|| source.whole_line(line), |it| it.0),
    };
    let note = note(source, line, message, at);
    Diagnostic::error("syntax", message).at(&spot).note(note)
}

/// Returns the token named by the engine.
fn near(message: &str) -> Option<&str> {
    let (_, near) = message.rsplit_once(" near ")?;
    Some(near.strip_prefix('\'').and_then(|it| it.strip_suffix('\'')).unwrap_or(near))
}

/// Finds that token in its line. Of several, it is the first one after a complete value, since the
/// engine stops where no operator follows; if a value is missing, the first one without it.
fn find(source: &Arc<Source>, line: u32, near: &str, is_cut_short: bool) -> Option<usize> {
    let tokens = source.tokens();
    let is_it = |token: &Token| {
        let text = source.slice(token.range());
        source.line_of(token.start()) == line
            && match token.word {
                Word::Text(_) => text.starts_with(near),
                // An operator of two characters, such as `//`, is two tokens here.
                Word::Sign(_) => source.slice(token.start()..token.start() + near.len()) == near,
                _ => text == near,
            }
    };
    let found: Vec<usize> = (0..tokens.len()).filter(|it| is_it(&tokens[*it])).collect();
    let fits = |it: &&usize| (**it > 0 && ends_value(source, &tokens[**it - 1])) != is_cut_short;
    found.iter().find(fits).or(found.first()).copied()
}

fn ends_value(source: &Arc<Source>, token: &Token) -> bool {
    match &token.word {
        Word::Text(_) | Word::Number => true,
        Word::Name => !KEYWORDS.contains(&source.slice(token.range())),
        Word::Sign(sign) => matches!(sign, '}' | ')' | ']'),
    }
}

/// Words after which an expression is incomplete.
const KEYWORDS: [&str; 18] = [
    "and", "break", "do", "else", "elseif", "for", "function", "goto", "if", "in", "local", "not",
    "or", "repeat", "return", "then", "until", "while",
];

/// Returns the hint.
fn note(source: &Arc<Source>, line: u32, message: &str, at: Option<usize>) -> String {
    let tokens = source.tokens();
    let before = |back: usize| at.and_then(|at| at.checked_sub(back)).and_then(|it| tokens.get(it));
    let shown = |token: &Token| source.slice(token.range()).to_owned();
    let here = at.and_then(|at| tokens.get(at));
    let sign = |token: Option<&Token>, sign: char| token.is_some_and(|it| it.is(sign));
    if let Some((_, note)) = odd(source, line) {
        return note.to_owned();
    }
    if message.starts_with("unfinished string") {
        return "close the text with the same quote in this line, or write [[ … ]]".to_owned();
    }
    if message.starts_with("unfinished long") {
        return "close it with ]]".to_owned();
    }
    if message.starts_with("invalid escape") {
        return "write \\\\ for a backslash, or [[ … ]] for a text that has several".to_owned();
    }
    if let Some(note) = foreign(source, at) {
        return note;
    }
    if let (Some(at), true) = (at, message.starts_with("unexpected symbol"))
        && let Some(note) = unended(source, at)
    {
        return note;
    }
    if sign(here, '=') && message.starts_with("'then'") {
        return "compare with `==`".to_owned();
    }
    let after = at.and_then(|at| tokens.get(at + 1));
    let is_list = message.starts_with("'}' expected");
    let is_statement = |it: &Token| {
        let leads = ["local", "function", "return", "if", "for", "while"];
        it.name(source.text()).is_some_and(|name| leads.contains(&name) || sign(after, '.'))
    };
    if is_list && here.is_some_and(is_statement) {
        return "a `}` is missing before it".to_owned();
    }
    if let (true, Some(here), Some(last)) = (is_list, here, before(1))
        && ends_value(source, last)
        && !matches!(here.word, Word::Sign(')' | ']' | '='))
    {
        return format!("put a comma between `{}` and `{}`", shown(last), shown(here));
    }
    if let Some(note) = missing_comma(source, line, message, at) {
        return note;
    }
    let is_end = here.is_some_and(|it| it.name(source.text()) == Some("end"));
    if let (true, Some(at)) = (is_end, at)
        && all_unclosed(source, at).iter().all(|it| it.1 != "end")
    {
        return "this `end` closes nothing: take it out".to_owned();
    }
    if let (Some(word), Some(here)) = (message.strip_suffix(" near"), here) {
        return format!("write {word} before `{}`", shown(here));
    }
    match message.split_once(" expected") {
        Some((word, _)) if word.starts_with('\'') => {
            format!("write {} here", word.replace('\'', "`"))
        }
        _ => "check the text just before it".to_owned(),
    }
}

/// Returns the hint for `f("a" function() … end)`: the comma of a call is missing, not its end.
fn missing_comma(
    source: &Arc<Source>,
    line: u32,
    message: &str,
    at: Option<usize>,
) -> Option<String> {
    let (here, last) = (source.tokens().get(at?)?, source.tokens().get(at?.checked_sub(1)?)?);
    let begins_value = match here.name(source.text()) {
        Some(name) => name == "function" || !KEYWORDS.contains(&name),
        None => matches!(here.word, Word::Text(_) | Word::Sign('{')),
    };
    let is_it = message.starts_with("')' expected")
        && begins_value
        && ends_value(source, last)
        && source.line_of(last.start()) == line;
    let shown = |token: &Token| source.slice(token.range()).to_owned();
    is_it.then(|| format!("put a comma between `{}` and `{}`", shown(last), shown(here)))
}

/// Returns a character that is easily mistaken for another one, and its replacement.
fn odd(source: &Arc<Source>, line: u32) -> Option<(Spot, &'static str)> {
    let note = |c: char| match c {
        '“' | '”' | '„' | '«' | '»' => Some("write the plain quote \""),
        '‘' | '’' => Some("write the plain quote '"),
        '\u{a0}' | '\u{2007}' | '\u{202f}' | '\u{200b}' | '\u{feff}' => {
            Some("this is a blank that Lua does not know: write a plain one")
        }
        '–' | '—' | '−' => Some("write the plain sign -"),
        '…' => Some("write three dots, or the text that they replace"),
        _ => None,
    };
    let mut tokens = source.tokens().iter();
    tokens.find_map(|token| match token.word {
        Word::Sign(sign) if source.line_of(token.start()) == line => {
            Some((source.bytes(token.range()), note(sign)?))
        }
        _ => None,
    })
}

/// Returns the Lua syntax for a construct of another language.
fn foreign(source: &Arc<Source>, at: Option<usize>) -> Option<String> {
    let tokens = source.tokens();
    let before = |back: usize| at.and_then(|at| at.checked_sub(back)).and_then(|it| tokens.get(it));
    let here = at.and_then(|at| tokens.get(at));
    let after = at.and_then(|at| tokens.get(at + 1));
    let sign = |token: Option<&Token>, sign: char| token.is_some_and(|it| it.is(sign));
    if at == Some(0) && (sign(here, '{') || sign(here, '[')) {
        let lua =
            "this looks like JSON; a script is Lua, and begins with local wb = require \"wb\"";
        return Some(lua.to_owned());
    }
    if sign(here, ':')
        && let Some(name) = before(1).and_then(|it| it.literal(source.text()))
    {
        return Some(format!("a field is set with `=`: write {name} = …"));
    }
    if sign(before(1), ':')
        && let Some(name) = before(2).and_then(|it| it.name(source.text()))
    {
        return Some(format!("a field is set with `=`: write {name} = …"));
    }
    if sign(here, '!') || sign(before(1), '!') {
        return Some("write `~=` for \"is not\", and `not` before a value".to_owned());
    }
    for (twice, word) in [('&', "and"), ('|', "or")] {
        if sign(here, twice) && sign(before(1), twice) {
            return Some(format!("write `{word}`"));
        }
    }
    for (signs, note) in [
        ("++", "write x = x + 1; Lua has no `++`"),
        ("<>", "write `~=` for \"is not\""),
        ("=>", "write function(…) … end"),
    ] {
        let (first, last) = (signs.chars().next(), signs.chars().last());
        let is_both = |a: Option<&Token>, b: Option<&Token>| {
            first.is_some_and(|it| sign(a, it)) && last.is_some_and(|it| sign(b, it))
        };
        if is_both(before(1), here) || is_both(here, after) {
            return Some(note.to_owned());
        }
    }
    for (mark, note) in [
        ('?', "write x and a or b; Lua has no `? :`"),
        ('`', "write the text in \"…\", or in [[ … ]] if it has several lines"),
    ] {
        if sign(here, mark) {
            return Some(note.to_owned());
        }
    }
    let word = before(1).and_then(|it| it.name(source.text()));
    match word {
        Some("elif" | "elsif") => return Some("write `elseif`".to_owned()),
        Some("let" | "const" | "var") => return Some("write `local`".to_owned()),
        Some("continue") => {
            return Some("Lua has no `continue`: write goto next, and ::next:: at the end".into());
        }
        _ => {}
    }
    if sign(here, '/') || sign(here, '#') {
        return Some("a comment begins with --".to_owned());
    }
    let is_operator = |it: &Token| "+-*/.".chars().any(|sign| it.is(sign));
    if (sign(here, '=') && before(1).is_some_and(is_operator))
        || (here.is_some_and(is_operator) && sign(after, '='))
    {
        return Some("write x = x + …; Lua has no `+=`".to_owned());
    }
    None
}

/// Returns which block is still open at a bracket that closes its enclosing one.
fn unended(source: &Arc<Source>, at: usize) -> Option<String> {
    let tokens = source.tokens();
    let here = tokens.get(at).filter(|it| [')', '}', ']'].into_iter().any(|sign| it.is(sign)))?;
    let (open, _) = unclosed(source, at).filter(|it| it.1 == "end")?;
    let is_name =
        |it: Option<&Token>, name: &str| it.and_then(|it| it.name(source.text())) == Some(name);
    let line = |it: usize| source.line_of(tokens[it].start());
    let split = (open + 1..at).find(|it| {
        is_name(tokens.get(*it), "else")
            && is_name(tokens.get(it + 1), "if")
            && line(*it) == line(it + 1)
    });
    if let Some(split) = split.or_else(|| {
        let is_after_else = open > 0 && is_name(tokens.get(open - 1), "else");
        is_after_else.then(|| open - 1)
    }) {
        return Some(format!(
            "write `elseif` in line {}: `else if` begins a second if",
            line(split)
        ));
    }
    let word = source.slice(tokens[open].range());
    let shown = source.slice(here.range());
    Some(format!("write `end` before `{shown}`: `{word}` in line {} is not closed", line(open)))
}

/// Returns the last unclosed bracket or block before a token, and what closes it.
fn unclosed(source: &Arc<Source>, until: usize) -> Option<(usize, &'static str)> {
    all_unclosed(source, until).pop()
}

fn all_unclosed(source: &Arc<Source>, until: usize) -> Vec<(usize, &'static str)> {
    let mut open: Vec<(usize, &'static str)> = Vec::new();
    for (index, token) in source.tokens().iter().take(until).enumerate() {
        let closes = |word: &str| open.last().is_some_and(|it| it.1 == word);
        match &token.word {
            Word::Sign('{') => open.push((index, "}")),
            Word::Sign('(') => open.push((index, ")")),
            Word::Sign('[') => open.push((index, "]")),
            Word::Sign('}') if closes("}") => drop(open.pop()),
            Word::Sign(')') if closes(")") => drop(open.pop()),
            Word::Sign(']') if closes("]") => drop(open.pop()),
            Word::Name => match source.slice(token.range()) {
                "function" | "if" | "do" => open.push((index, "end")),
                "repeat" => open.push((index, "until …")),
                "end" if closes("end") => drop(open.pop()),
                "until" if closes("until …") => drop(open.pop()),
                _ => {}
            },
            _ => {}
        }
    }
    open
}

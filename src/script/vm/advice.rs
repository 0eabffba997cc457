//! Hints for errors raised by functions of the script.
//!
//! **Invariant:** messages of the script's own `error` calls are left as they are.

use crate::base::EventKind;
use crate::script::schema::{DECLARATIONS, RECORDS, event_data};
use crate::script::source::diagnostic::nearest;
use crate::script::vm::template::PROMPT_NAMES;

/// Messages of the engine about a missing value, and hints for them; `_` stands for the name.
const NIL: [(&str, &str); 5] = [
    ("index a nil value", "write if _ then … end, or (_ or {}).name"),
    ("call a nil value", "no such function"),
    ("concatenate a nil value", "write tostring(_), or (_ or \"\")"),
    ("perform arithmetic on a nil value", "write (_ or 0)"),
    ("get length of a nil value", "write #(_ or {})"),
];
/// Other messages of the engine, and hints for them.
const OTHERS: [(&str, &str); 22] = [
    ("attempt to index a boolean value", NO_RETURN),
    ("attempt to call a boolean value", NO_RETURN),
    ("to 'ipairs' (table expected, got nil)", "write ipairs(x or {})"),
    ("to 'for iterator' (table expected, got nil)", "write pairs(x or {})"),
    ("attempt to compare nil with", "one side is not there: write (x or 0) for it"),
    ("attempt to compare number with nil", "one side is not there: write (x or 0) for it"),
    ("attempt to compare string with nil", "one side is not there: write (x or \"\") for it"),
    ("attempt to compare", "write tonumber(…) or tostring(…), so that both are of one type"),
    ("attempt to concatenate a table value", "write wb.json.encode(…) for it"),
    ("attempt to concatenate a boolean value", "write tostring(…) for it"),
    ("attempt to add a 'string'", "texts are joined with two dots: a .. b"),
    ("arithmetic on a string value", "texts are joined with two dots: a .. b"),
    ("value (field 'secret')", "write wb.secret.env \"NAME\", or wb.secret.file \"PATH\""),
    ("value (field 'input')", "write wb.input.TYPE(), as in wb.input.line()"),
    ("value (field 'json')", "write wb.json.encode(…), or wb.json.decode(…)"),
    ("value (field 'date')", "write wb.date.now(), wb.date.format(…) or wb.date.add(…)"),
    ("value (field 'log')", "write wb.log.info(…), or warn, error, debug"),
    (
        "wb.enqueue can be called inside",
        "write wb.on(\"EVENT\", function(event) wb.enqueue { … } end), or enqueue = { … } in a \
         wb.schedule",
    ),
    ("stack overflow", "look for a function that calls itself without an end"),
    ("of processor time", "look for a loop that does not end"),
    (
        "text pattern takes too long",
        "look for `*`, `-` or `?` that can fit in very many ways, or cut the text",
    ),
    ("MiB of memory", "look for a text, a table or a recursion that grows without an end"),
];
/// Hint for the value of a module that returns nothing.
const NO_RETURN: &str = "it is true or false: if it comes from require, end that module \
    with return M, where M is the table of its functions";
/// Hint for functions of this program that were shadowed.
const HIDDEN: &str = "`wb` is another value here: write local wb = require \"wb\" once, and give \
    nothing else that name";
/// Functions of strings, tables and numbers that people look for.
const KNOWN: [&str; 24] = [
    "byte", "char", "find", "format", "gmatch", "gsub", "len", "lower", "match", "rep", "reverse",
    "sub", "upper", "concat", "insert", "remove", "sort", "unpack", "floor", "ceil", "max", "min",
    "tostring", "tonumber",
];

/// Returns the hint for an error of the engine, if there is one.
pub(crate) fn advice(message: &str) -> Option<String> {
    let nil = NIL.iter().find(|(says, _)| message.contains(&format!("attempt to {says}")));
    if let Some((says, helps)) = nil {
        let name = name_in(message);
        let is_word = |it: &str| DECLARATIONS.iter().any(|declared| declared.word == it);
        if name == Some("wb") || name.is_some_and(is_word) && says.starts_with("call") {
            return Some(HIDDEN.to_owned());
        }
        let meant = name.and_then(|it| meant(it, says.starts_with("call")));
        return Some(match (meant, name) {
            (Some(meant), _) => format!("did you mean `{meant}`?"),
            (None, Some(name)) => {
                let mut data = EventKind::ALL.into_iter().flat_map(event_data);
                let of_event = match data.any(|it| it.name == name) {
                    true => format!("; in a handler it may be event.data.{name}"),
                    false => String::new(),
                };
                format!("`{name}` is not there: {}{of_event}", helps.replace('_', name))
            }
            (None, None) => helps.replace('_', "it"),
        });
    }
    let other = OTHERS.iter().find(|(says, _)| message.contains(says));
    other.map(|(_, helps)| (*helps).to_owned())
}

/// Returns the name mentioned by the engine: `(field 'dta')`.
fn name_in(message: &str) -> Option<&str> {
    let (_, rest) = message.rsplit_once(" '")?;
    rest.strip_suffix("')").filter(|it| !it.is_empty() && *it != "?")
}

/// Returns the name that was probably meant, unless the name is valid but unavailable here.
fn meant(name: &str, is_function: bool) -> Option<&'static str> {
    let names: Vec<&'static str> = match is_function {
        true => KNOWN.to_vec(),
        false => {
            let of_events = EventKind::ALL.into_iter().flat_map(event_data);
            let of_records = RECORDS.iter().flat_map(|it| it.members);
            let all = of_events.chain(of_records).map(|it| it.name);
            all.chain(PROMPT_NAMES).collect()
        }
    };
    // Inputs have names of their own, which may be close to one of ours: `reasons`, `a`.
    let plain = |it: &str| it.trim_end_matches('s').to_owned();
    let own = |it: &&str| name.len() < 3 || plain(it) == plain(name);
    if names.contains(&name) { None } else { nearest(name, names).filter(|it| !own(it)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_of_the_engine_is_told_with_what_to_type() {
        for (message, expected) in [
            ("x.lua:1: attempt to index a nil value (field 'dta')", "did you mean `data`?"),
            ("x.lua:1: attempt to index a boolean value (local 'words')", "with return M"),
            (
                "x.lua:1: attempt to index a nil value (local 'issue')",
                "`issue` is not there: write if issue then … end, or (issue or {}).name",
            ),
            ("x.lua:1: attempt to call a nil value (method 'fnd')", "did you mean `find`?"),
            (
                "x.lua:1: attempt to concatenate a nil value (field 'reason')",
                "(reason or \"\"); in a handler it may be event.data.reason",
            ),
            ("x.lua:1: attempt to concatenate a nil value (field 'reasons')", "(reasons or \"\")"),
            ("x.lua:1: attempt to concatenate a nil value (field 'a')", "(a or \"\")"),
            ("x.lua:1: attempt to index a nil value (field '?')", "write if it then"),
            ("x.lua:1: attempt to index a nil value (local 'wb')", "`wb` is another value here"),
            ("x.lua:1: attempt to call a nil value (field 'kind')", "`wb` is another value here"),
            ("x.lua:1: attempt to call a table value (field 'secret')", "wb.secret.env \"NAME\""),
            ("x.lua:1: attempt to add a 'string' with a 'string'", "a .. b"),
            ("x.lua:1: attempt to compare number with nil", "write (x or 0)"),
            ("x.lua:1: used more than 100 ms of processor time", "a loop that does not end"),
            ("x.lua:1: bad argument #1 to 'ipairs' (table expected, got nil)", "ipairs(x or {})"),
        ] {
            let advice = advice(message).unwrap();
            assert!(advice.contains(expected), "{message}: {advice}");
        }
        for own in ["x.lua:1: boom", "an error without a message", "x.lua:2: call me 'x')"] {
            assert_eq!(advice(own), None, "{own}");
        }
    }
}

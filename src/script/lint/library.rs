//! The functions of Lua's own libraries, and what to write for those of other languages.
//!
//! **Invariant:** what a library has in any build of Lua 5.4 is no finding.

use crate::script::source::diagnostic::nearest;

/// The libraries, with what they hold.
const LIBRARIES: [(&str, &[&str]); 4] = [
    (
        "string",
        &[
            "byte", "char", "dump", "find", "format", "gmatch", "gsub", "len", "lower", "match",
            "pack", "packsize", "rep", "reverse", "sub", "unpack", "upper",
        ],
    ),
    ("table", &["concat", "insert", "move", "pack", "remove", "sort", "unpack"]),
    (
        "math",
        &[
            "abs",
            "acos",
            "asin",
            "atan",
            "ceil",
            "cos",
            "deg",
            "exp",
            "floor",
            "fmod",
            "huge",
            "log",
            "max",
            "maxinteger",
            "min",
            "mininteger",
            "modf",
            "pi",
            "rad",
            "random",
            "randomseed",
            "sin",
            "sqrt",
            "tan",
            "tointeger",
            "type",
            "ult",
        ],
    ),
    ("utf8", &["char", "charpattern", "codepoint", "codes", "len", "offset"]),
];

/// What people look for, with what to write instead.
const MEANT: [(&str, &str); 16] = [
    ("contains", "text:find(part, 1, true)"),
    ("endswith", "text:sub(-#tail) == tail"),
    ("ends_with", "text:sub(-#tail) == tail"),
    ("includes", "text:find(part, 1, true)"),
    ("join", "table.concat(list, \", \")"),
    ("length", "#text"),
    ("pow", "x ^ y"),
    ("push", "table.insert(list, value)"),
    ("replace", "text:gsub(\"old\", \"new\")"),
    ("round", "math.floor(x + 0.5)"),
    ("split", "for part in text:gmatch(\"[^,]+\") do … end"),
    ("startswith", "text:sub(1, #start) == start"),
    ("starts_with", "text:sub(1, #start) == start"),
    ("strip", "text:match(\"^%s*(.-)%s*$\")"),
    ("substring", "text:sub(first, last)"),
    ("trim", "text:match(\"^%s*(.-)%s*$\")"),
];

/// Returns the library with this name.
pub(crate) fn named(global: &str) -> Option<&'static str> {
    LIBRARIES.iter().map(|it| it.0).find(|it| *it == global)
}

/// Returns what to write for a function that a library does not have; `None` if it has it.
pub(crate) fn missing(library: &str, name: &str) -> Option<String> {
    let (_, known) = LIBRARIES.iter().find(|it| it.0 == library)?;
    if known.contains(&name) {
        return None;
    }
    let plain = name.to_ascii_lowercase();
    let meant = MEANT.iter().find(|it| it.0 == plain).map(|it| format!("write {}", it.1));
    let near = || nearest(name, known.iter().copied()).map(|it| format!("did you mean `{it}`?"));
    Some(meant.or_else(near).unwrap_or_else(|| format!("{library} has {}", known.join(", "))))
}

//! Compares and prints values of a test.
//!
//! **Invariant:** no code of the test runs while its values are compared or printed.

use mlua::{Table, Value};

/// Deepest nesting that is compared.
const DEPTH_MAX: usize = 32;
/// Longest text of a value, in bytes.
const TEXT_BYTES_MAX: usize = 256 * 1024;

/// Returns whether two values are equal, comparing tables deeply.
pub(super) fn same(a: &Value, b: &Value) -> bool {
    same_at(a, b, 0)
}

fn same_at(a: &Value, b: &Value, depth: usize) -> bool {
    let (a, b) = match (a, b) {
        (Value::Table(a), Value::Table(b)) => (a, b),
        (Value::String(a), Value::String(b)) => return a.as_bytes() == b.as_bytes(),
        (Value::Integer(a), Value::Number(b)) | (Value::Number(b), Value::Integer(a)) => {
            #[allow(clippy::cast_precision_loss, reason = "as Lua compares them")]
            return *a as f64 == *b;
        }
        (Value::Integer(a), Value::Integer(b)) => return a == b,
        (Value::Number(a), Value::Number(b)) => return a == b,
        (Value::Boolean(a), Value::Boolean(b)) => return a == b,
        (Value::Nil, Value::Nil) => return true,
        (a, b) => return a.type_name() == b.type_name() && a.to_pointer() == b.to_pointer(),
    };
    if a.to_pointer() == b.to_pointer() {
        return true;
    }
    if depth >= DEPTH_MAX {
        return false;
    }
    let (a, b) = (pairs(a), pairs(b));
    a.len() == b.len()
        && a.iter()
            .zip(&b)
            .all(|((key_a, one), (key_b, other))| key_a == key_b && same_at(one, other, depth + 1))
}

/// Returns whether `got` contains everything in `part`.
pub(super) fn has(got: &Value, part: &Value) -> bool {
    has_at(got, part, 0)
}

fn has_at(got: &Value, part: &Value, depth: usize) -> bool {
    let (Value::Table(got), Value::Table(part)) = (got, part) else { return same(got, part) };
    depth < DEPTH_MAX
        && pairs(part).into_iter().all(|(key, want)| {
            let found = field(got, &key);
            has_at(&found, &want, depth + 1)
        })
}

/// A key of a table, in display order.
#[derive(Clone, Debug, PartialEq, PartialOrd)]
enum Key {
    Place(i64),
    Number(f64),
    Name(Vec<u8>),
    Flag(bool),
    Other(usize),
}

fn key_of(value: &Value) -> Key {
    match value {
        Value::Integer(place) => Key::Place(*place),
        Value::Number(number) => Key::Number(*number),
        Value::String(name) => Key::Name(name.as_bytes().to_vec()),
        Value::Boolean(flag) => Key::Flag(*flag),
        other => Key::Other(other.to_pointer() as usize),
    }
}

/// Returns the entries of a table, ordered by key.
fn pairs(table: &Table) -> Vec<(Key, Value)> {
    let mut found: Vec<(Key, Value)> = table
        .pairs::<Value, Value>()
        .filter_map(Result::ok)
        .map(|(key, value)| (key_of(&key), value))
        .collect();
    found.sort_by(|(a, _), (b, _)| a.partial_cmp(b).unwrap_or(std::cmp::Ordering::Equal));
    found
}

fn field(table: &Table, key: &Key) -> Value {
    pairs(table).into_iter().find(|(it, _)| it == key).map_or(Value::Nil, |(_, value)| value)
}

/// Prints a value as a person would write it, tables on several lines; if `is_plain`, a text
/// without quotes.
pub(super) fn written(value: &Value, is_plain: bool) -> String {
    match value {
        Value::String(text) if is_plain => text.to_string_lossy(),
        value => {
            let mut text = String::new();
            write(value, None, 0, &mut text);
            text
        }
    }
}

/// Prints only those parts of a value that also occur in another one.
pub(super) fn written_like(value: &Value, shape: &Value) -> String {
    let mut text = String::new();
    write(value, Some(shape), 0, &mut text);
    text
}

fn write(value: &Value, shape: Option<&Value>, depth: usize, text: &mut String) {
    if text.len() > TEXT_BYTES_MAX {
        return;
    }
    match value {
        Value::Table(_) if depth >= DEPTH_MAX => text.push_str("{ … }"),
        Value::Table(table) => {
            let mut found = pairs(table);
            if let Some(Value::Table(shape)) = shape {
                let wanted = pairs(shape);
                found.retain(|(key, _)| wanted.iter().any(|(it, _)| it == key));
            }
            write_table(found, shape, depth, text);
        }
        Value::String(it) => text.push_str(&quoted(&it.to_string_lossy())),
        Value::Nil => text.push_str("nil"),
        Value::Boolean(flag) => text.push_str(if *flag { "true" } else { "false" }),
        Value::Integer(number) => text.push_str(&number.to_string()),
        Value::Number(number) => text.push_str(&format!("{number:?}")),
        other => text.push_str(&format!("a {}", other.type_name())),
    }
}

fn write_table(found: Vec<(Key, Value)>, shape: Option<&Value>, depth: usize, text: &mut String) {
    if found.is_empty() {
        return text.push_str("{}");
    }
    text.push_str("{\n");
    let indent = "  ".repeat(depth + 1);
    for (place, (key, value)) in (1..).zip(found) {
        text.push_str(&indent);
        match &key {
            Key::Place(at) if *at == place => {}
            Key::Place(at) => text.push_str(&format!("[{at}] = ")),
            Key::Number(number) => text.push_str(&format!("[{number:?}] = ")),
            Key::Name(name) => text.push_str(&name_of(&String::from_utf8_lossy(name))),
            Key::Flag(flag) => text.push_str(&format!("[{flag}] = ")),
            Key::Other(_) => text.push_str("[…] = "),
        }
        let inner = match shape {
            Some(Value::Table(shape)) => Some(field(shape, &key)),
            _ => None,
        };
        write(&value, inner.as_ref(), depth + 1, text);
        text.push_str(",\n");
    }
    text.push_str(&"  ".repeat(depth));
    text.push('}');
}

fn name_of(name: &str) -> String {
    let is_plain = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && name.bytes().all(|it| it.is_ascii_alphanumeric() || it == b'_');
    if is_plain { format!("{name} = ") } else { format!("[{}] = ", quoted(name)) }
}

fn quoted(text: &str) -> String {
    let mut shown = String::from("\"");
    for c in text.chars() {
        match c {
            '"' => shown.push_str("\\\""),
            '\\' => shown.push_str("\\\\"),
            '\n' => shown.push_str("\\n"),
            '\t' => shown.push_str("\\t"),
            c if c.is_control() => shown.push_str(&format!("\\u{{{:x}}}", u32::from(c))),
            c => shown.push(c),
        }
    }
    shown.push('"');
    shown
}

#[cfg(test)]
mod tests {
    use mlua::Lua;

    use super::*;

    fn value(lua: &Lua, text: &str) -> Value {
        lua.load(format!("return {text}")).eval().unwrap()
    }

    #[test]
    fn tables_are_compared_however_deep() {
        let lua = Lua::new();
        for (a, b, is_same) in [
            ("{ 1, { a = 'x' } }", "{ 1, { a = 'x' } }", true),
            ("{ 1, 2 }", "{ 1, 2, 3 }", false),
            ("{ a = 1 }", "{ a = 1.0 }", true),
            ("{ [1] = 'x' }", "{ 'x' }", true),
            ("{ ['1'] = 'x' }", "{ 'x' }", false),
            ("'1'", "1", false),
            ("nil", "false", false),
            ("{}", "{ a = false }", false),
            ("0/0", "0/0", false),
            ("print", "print", true),
        ] {
            assert_eq!(same(&value(&lua, a), &value(&lua, b)), is_same, "{a} {b}");
        }
        let deep = "(function() local t = {} t.t = t return t end)()";
        assert!(!same(&value(&lua, deep), &value(&lua, deep)));
    }

    #[test]
    fn a_part_is_looked_for_at_every_depth() {
        let lua = Lua::new();
        let got = value(&lua, "{ a = { b = 1, c = 2 }, d = { 'x', 'y' } }");
        for (part, is_in) in [
            ("{ a = { b = 1 } }", true),
            ("{ d = { 'x' } }", true),
            ("{ d = { 'y' } }", false),
            ("{ a = { e = 1 } }", false),
            ("{}", true),
        ] {
            assert_eq!(has(&got, &value(&lua, part)), is_in, "{part}");
        }
        let shape = value(&lua, "{ a = { b = 5 } }");
        assert_eq!(written_like(&got, &shape), "{\n  a = {\n    b = 1,\n  },\n}");
    }

    #[test]
    fn a_value_reads_as_it_is_written() {
        let lua = Lua::new();
        let text =
            written(&value(&lua, "{ 1, 'a\"\\n', x = { ['a b'] = true, [7] = {} } }"), false);
        let expected =
            "{\n  1,\n  \"a\\\"\\n\",\n  x = {\n    [7] = {},\n    [\"a b\"] = true,\n  },\n}";
        assert_eq!(text, expected);
    }
}

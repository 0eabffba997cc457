//! The limits as docs/limits.md shows them.

use std::time::Duration;

use super::*;

/// Returns the table of docs/limits.md.
fn table() -> String {
    let mut text = String::from("| limit | of | beyond it | name |\n|---|---|---|---|\n");
    for it in LIMITS {
        let value = match it.unit {
            "bytes" if it.value.is_multiple_of(1024 * 1024) => {
                format!("{} MiB", it.value >> 20)
            }
            "bytes" if it.value.is_multiple_of(1024) => format!("{} KiB", it.value >> 10),
            "ms" => format_duration(Duration::from_millis(it.value)),
            unit => format!("{} {unit}", it.value).trim_end().to_owned(),
        };
        let beyond = match it.code.starts_with('(') {
            true => it.code.trim_matches(['(', ')']).to_owned(),
            false => format!("`{}`", it.code),
        };
        text += &format!("| {value} | {} | {beyond} | `{}` |\n", it.what, it.name);
    }
    text
}

/// `UPDATE_DOCS=1` writes the table anew.
#[test]
fn the_document_has_every_limit() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/limits.md");
    let text = std::fs::read_to_string(path).unwrap();
    let (start, end) = ("<!-- limits -->\n", "<!-- end of limits -->\n");
    let (before, rest) = text.split_once(start).unwrap();
    let (shown, after) = rest.split_once(end).unwrap();
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(path, format!("{before}{start}{}{end}{after}", table())).unwrap();
        return;
    }
    assert_eq!(shown, table(), "docs/limits.md: run this test once with UPDATE_DOCS=1");
}

#[test]
fn every_constant_is_in_the_table_once() {
    let source = include_str!("../limit.rs");
    let names = source.lines().filter_map(|it| it.strip_prefix("pub const ")?.split_once(':'));
    let names =
        names.map(|(name, _)| name).filter(|it| !["LIMITS", "PAGE_ROWS_DEFAULT"].contains(it));
    for name in names {
        assert_eq!(LIMITS.iter().filter(|it| it.name == name).count(), 1, "{name}");
    }
}

//! Responses of the server are parsed as types (`src/api`), not read field by field.

use super::rust_files;

/// Look-ups by a literal name that are left in the command lines and their client. It only gets
/// smaller.
const LOOKUPS: usize = 110;

/// Returns whether text goes on with a name in quotes and the closing bracket of an index.
fn is_name(rest: &str) -> bool {
    let name: String = rest.chars().take_while(|c| c.is_ascii_lowercase() || *c == '_').collect();
    !name.is_empty() && rest[name.len()..].starts_with("\"]")
}

#[test]
fn look_ups_by_name_only_become_fewer() {
    let mut found = Vec::new();
    for (path, text) in rust_files("src") {
        if !path.as_str().starts_with("src/cli/") && !path.as_str().starts_with("src/client/") {
            continue;
        }
        let of = text.match_indices("[\"").filter(|(place, open)| {
            let before = text[..*place].chars().next_back();
            let is_index = before.is_some_and(|c| c.is_alphanumeric() || "_])".contains(c));
            is_index && is_name(&text[place + open.len()..])
        });
        found.push((of.count(), path));
    }
    found.retain(|(count, _)| *count > 0);
    let all: usize = found.iter().map(|(count, _)| count).sum();
    assert_eq!(
        all, LOOKUPS,
        "read answers as types; if there are fewer, lower the number: {found:?}"
    );
}

//! Slugs of channels: `TYPE-NAME-NUMBER`.

use unicode_normalization::char::{decompose_compatible, is_combining_mark};

/// Longest slug, in bytes: a part of an address.
const SLUG_BYTES_MAX: usize = 63;

/// Folds a name for a slug: lower-case letters without marks, digits and single hyphens;
/// possibly empty.
pub(super) fn fold(name: &str) -> String {
    let mut folded = String::new();
    let mut push = |c: char| {
        if c.is_ascii_alphanumeric() {
            folded.push(c.to_ascii_lowercase());
        } else if !is_combining_mark(c) && !folded.is_empty() && !folded.ends_with('-') {
            folded.push('-');
        }
    };
    for c in name.chars() {
        match c {
            'ß' | 'ẞ' => "ss".chars().for_each(&mut push),
            'æ' | 'Æ' => "ae".chars().for_each(&mut push),
            'œ' | 'Œ' => "oe".chars().for_each(&mut push),
            'ø' | 'Ø' => push('o'),
            'ł' | 'Ł' => push('l'),
            'đ' | 'Đ' | 'ð' | 'Ð' => push('d'),
            other => decompose_compatible(other, &mut push),
        }
    }
    folded.trim_end_matches('-').to_owned()
}

/// Returns the slug of a channel.
pub(super) fn slug(kind: &str, folded: &str, number: i64) -> String {
    let number = number.to_string();
    if folded.is_empty() {
        return format!("{kind}-{number}");
    }
    let room = SLUG_BYTES_MAX.saturating_sub(kind.len() + number.len() + 2);
    let cut = folded.get(..room.min(folded.len())).unwrap_or_default().trim_end_matches('-');
    match cut {
        "" => format!("{kind}-{number}"),
        cut => format!("{kind}-{cut}-{number}"),
    }
}

/// Returns the handle for a name.
pub(super) fn handle(name: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    let plain: String = name.chars().map(|c| if is_plain(c) { c } else { '-' }).collect();
    let trimmed = plain.trim_matches(['-', '_']);
    match trimmed.get(..trimmed.len().min(40)).unwrap_or_default().trim_matches(['-', '_']) {
        "" => "member".to_owned(),
        handle => handle.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::base::is_segment;

    #[test]
    fn a_name_becomes_a_part_of_an_address() {
        assert_eq!(
            slug("workshop", &fold("Persona alignment!"), 7),
            "workshop-persona-alignment-7"
        );
        assert_eq!(slug("review", &fold("日本"), 2), "review-2");
        assert_eq!(fold("Größe & Plan 2026"), "grosse-plan-2026");
        assert_eq!(fold("Łódź, Crème Brûlée № 7"), "lodz-creme-brulee-no-7");
        assert_eq!(handle("jo.doe@example.org"), "jo-doe-example-org");
        assert_eq!(handle("..."), "member");
    }

    proptest! {
        #[test]
        fn every_slug_and_handle_is_a_segment(name in "\\PC{0,200}", number in 1i64..i64::MAX) {
            prop_assert!(is_segment(&slug("workshop", &fold(&name), number)));
            prop_assert!(is_segment(&handle(&name)));
        }
    }
}

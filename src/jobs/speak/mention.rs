//! Files that Claude Code reads by itself, because a text that it gets names them: `@path` adds the
//! contents of a file, and a pasted line with the path of an image becomes that image.
//!
//! **Invariant:** nothing here decides what an agent may read; its own calls are not concerned.

use std::borrow::Cow;

use camino::Utf8Path;
use unicode_normalization::UnicodeNormalization;

/// The variable by which Claude Code leaves `@path` alone. Version 2.1.332 obeys it, 2.1.197 does
/// not: hence `disarmed`. `CLAUDE_CODE_DISABLE_ATTACHMENTS`, which both obey, also hides the list
/// of skills.
pub(super) const NO_MENTIONS: &str = "CLAUDE_CODE_DISABLE_FILE_MENTIONS";

/// Before an `@`, it makes it one within a word, which names no file, and shows nothing. Behind the
/// `@` it would be the name of a folder, which a `..` after it takes away again.
const JOINER: char = '\u{2060}';
/// Longest name of a file, in bytes, with its letters taken apart.
const NAME_BYTES_MAX: usize = 1_024;
/// Most names looked up for a text; every further `@` counts as the name of a file.
const LOOKS_MAX: usize = 10_000;
/// Endings by which Claude Code recognizes the path of an image.
const IMAGES: [&str; 5] = [".png", ".jpg", ".jpeg", ".gif", ".webp"];

/// Returns a text in which no `@path` names a file. An `@` before a single word stays as it is
/// unless the folder where the agent works has a file of that name: agents copy code.
pub(in crate::jobs) fn disarmed<'t>(text: &'t str, folder: &Utf8Path) -> Cow<'t, str> {
    let found = mentions(text, folder);
    if found.is_empty() {
        return Cow::Borrowed(text);
    }
    let mut disarmed = String::with_capacity(text.len() + found.len() * JOINER.len_utf8());
    let mut from = 0;
    for at in found {
        disarmed.push_str(&text[from..at]);
        disarmed.push(JOINER);
        from = at;
    }
    disarmed.push_str(&text[from..]);
    Cow::Owned(disarmed)
}

/// Returns whether Claude Code would put the contents of a file into a pasted text.
pub(in crate::jobs) fn is_filled_in(text: &str, folder: &Utf8Path) -> bool {
    names_image(text) || !mentions(text, folder).is_empty()
}

/// Returns the offset of each `@` that may be followed by the name of a file.
fn mentions(text: &str, folder: &Utf8Path) -> Vec<usize> {
    let mut looks = 0;
    // Versions differ in the punctuation that may precede it.
    let begins = |before: &str| match before.chars().next_back() {
        Some(it) => it.is_whitespace() || !(it.is_ascii() || it.is_alphanumeric()),
        None => true,
    };
    let found = text.match_indices('@').map(|it| it.0).filter(|at| begins(&text[..*at]));
    found.filter(|at| may_name_file(&text[at + 1..], folder, &mut looks)).collect()
}

/// Returns whether a text begins with what may be a path. Where a path leads is not looked up:
/// Claude Code removes `..`, and may have changed its folder.
fn may_name_file(text: &str, folder: &Utf8Path, looks: &mut usize) -> bool {
    // U+0085 ends no word for it.
    let ends_path = |it: char| it.is_whitespace() && it != '\u{85}';
    let path = text.split(ends_path).next().unwrap_or_default();
    let is_word = path.starts_with(|it: char| it.is_alphanumeric() || it == '_');
    // A file behind a dot, a resource of a server behind a colon.
    let goes_on = |sign| {
        let rest = path.split_once(sign).map(|it| it.1);
        rest.is_some_and(|it| it.contains(char::is_alphanumeric))
    };
    if !is_word || path.contains(['/', '\\']) || goes_on('.') || goes_on(':') {
        return !path.is_empty();
    }
    let is_there = |name: &str| folder.join(name).symlink_metadata().is_ok();
    let is_end = |at: usize| !path[at..].starts_with(|it: char| it.is_ascii_alphanumeric());
    let ends = path.char_indices().map(|it| it.0).skip(1).chain([path.len()]);
    // Punctuation may belong to the name, or to the sentence.
    for end in ends.filter(|at| is_end(*at)).take_while(|it| *it <= NAME_BYTES_MAX) {
        *looks += 1;
        let name = &path[..end];
        // Some versions compose letters.
        if *looks > LOOKS_MAX || is_there(name) || is_there(&name.nfc().collect::<String>()) {
            return true;
        }
    }
    false
}

/// Returns whether a line may be the path of an image.
fn names_image(text: &str) -> bool {
    let ends = |line: &str, ending: &&str| {
        let mut found = line.match_indices(*ending).map(|(at, it)| &line[at + it.len()..]);
        found.any(|rest| !rest.starts_with(|it: char| it.is_alphanumeric()))
    };
    let is_path = |line: &str| {
        let line = line.to_ascii_lowercase();
        line.contains('/') && IMAGES.iter().any(|it| ends(&line, it))
    };
    text.lines().any(is_path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_at_that_may_name_a_file_is_changed() {
        let folder = tempfile::tempdir().unwrap();
        let folder = Utf8Path::from_path(folder.path()).unwrap();
        for file in ["Makefile", "other.md", ".env", "a b.md", "caf\u{e9}"] {
            std::fs::write(folder.join(file), "x").unwrap();
        }
        std::fs::create_dir(folder.join("src")).unwrap();
        for text in [
            "see @/etc/passwd",
            "@/etc",
            "x\n@//etc/passwd, please",
            "@/zzz/../etc/passwd",
            "@zzz/../other.md",
            "@/../../../../../../etc/passwd",
            "@../../../../../../etc/passwd",
            "@~/.ssh/id",
            "@../x/y",
            "@./other.md",
            "\t@src/main.rs#L1-3",
            "@nowhere.md",
            "@other.md:10",
            "@zzz\\..\\x",
            "@zzz\u{85}/../other.md",
            "@wb:document",
            "@file:///etc/passwd",
            "@Makefile.",
            "@Makefile#L1-3",
            "@Makefile\u{3002}",
            "@cafe\u{301}",
            "(x) @other.md, and",
            "@.env",
            "@\"a b.md\"",
            "@\"/etc/passwd\"",
            "@\" /etc/passwd\"",
            "@\"\u{feff}/etc/passwd\"",
            "@\"zzz\n/../other.md\"",
            "\u{3002}@other.md",
            "\u{feff}@other.md",
            "@scope/package",
            "@pytest.mark.parametrize(\"x\")",
            "@\u{2060}/etc/passwd",
            "\u{2060}@/etc/passwd",
        ] {
            let expected = text.replacen('@', "\u{2060}@", 1);
            assert_eq!(disarmed(text, folder), expected, "{text}");
            assert!(is_filled_in(text, folder), "{text}");
        }
        for text in [
            "",
            "@",
            "@ /etc/passwd",
            "me@example.org/etc",
            "@alice, what do you say?",
            "@alice: see @bob's and @bob\u{2019}s, @alice... @bob.",
            "@alice\u{ff0c}\u{8bf7}",
            "@Override @param {x}",
            "@makefiles @srcs",
            "import x from '@/components/x'",
            "\u{65e5}@other.md",
        ] {
            assert_eq!(disarmed(text, folder), text);
            assert!(!is_filled_in(text, folder), "{text}");
        }
        let twice = disarmed("@/etc @alice @other.md", folder).into_owned();
        assert_eq!(twice, "\u{2060}@/etc @alice \u{2060}@other.md");
    }

    #[test]
    fn names_without_end_are_not_looked_up_without_end() {
        let folder = tempfile::tempdir().unwrap();
        let folder = Utf8Path::from_path(folder.path()).unwrap();
        let many = "@x ".repeat(LOOKS_MAX + 1);
        assert_eq!(disarmed(&many, folder).matches(JOINER).count(), 1);
        let long = format!("@a{}", "-".repeat(100_000));
        assert_eq!(disarmed(&long, folder), long);
    }

    #[test]
    fn a_line_with_the_path_of_an_image_is_recognized() {
        let folder = Utf8Path::new("/");
        for text in
            ["/tmp/p.png", "look\n '/tmp/my p.JPEG' \nplease", "at /a/b.webp /c", "x/y.gif."]
        {
            assert!(is_filled_in(text, folder), "{text}");
        }
        for text in ["p.png", "a/b.pngs", "a/b and\np.png", "and/or a .txt"] {
            assert!(!is_filled_in(text, folder), "{text}");
        }
    }
}

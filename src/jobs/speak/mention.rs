//! Files that Claude Code reads by itself, because a text that it gets names them: `@path` adds the
//! contents of a file, and a pasted line with the path of an image becomes that image.
//!
//! **Invariant:** nothing here decides what an agent may read; its own calls are not concerned.

use std::borrow::Cow;

use camino::Utf8Path;

/// The variable by which Claude Code leaves `@path` alone. Version 2.1.332 obeys it, 2.1.197 does
/// not: hence `disarmed`. `CLAUDE_CODE_DISABLE_ATTACHMENTS`, which both obey, also hides the list
/// of skills.
pub const NO_MENTIONS: &str = "CLAUDE_CODE_DISABLE_FILE_MENTIONS";

/// Behind an `@`, it makes the name one that no file has, and shows nothing.
const JOINER: char = '\u{2060}';
/// Longest name of a file, in bytes.
const NAME_BYTES_MAX: usize = 255;
/// Most names looked up for a text; every further `@` counts as the name of a file.
const LOOKS_MAX: usize = 10_000;
/// Endings by which Claude Code recognizes the path of an image.
const IMAGES: [&str; 5] = [".png", ".jpg", ".jpeg", ".gif", ".webp"];

/// Returns a text in which no `@path` names a file, as seen from the folder where the agent works.
/// An `@` before anything else stays as it is: agents copy code.
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

/// Returns the offsets behind each `@` that is followed by the name of a file.
fn mentions(text: &str, folder: &Utf8Path) -> Vec<usize> {
    let mut looks = 0;
    // Versions differ in the punctuation that may precede it.
    let begins = |before: &str| match before.chars().next_back() {
        Some(it) => it.is_whitespace() || !(it.is_ascii() || it.is_alphanumeric()),
        None => true,
    };
    let found = text.match_indices('@').filter(|(at, _)| begins(&text[..*at]));
    let behind = found.map(|(at, _)| at + 1);
    behind.filter(|at| names_file(&text[*at..], folder, &mut looks)).collect()
}

/// Returns whether a text begins with the path of a file, at least with its first folder.
fn names_file(text: &str, folder: &Utf8Path, looks: &mut usize) -> bool {
    let path = match text.strip_prefix('"') {
        Some(quoted) => quoted.split('"').next().unwrap_or_default().trim_start(),
        None => text.split(char::is_whitespace).next().unwrap_or_default(),
    };
    if path.strip_prefix('~').is_some_and(|it| it.is_empty() || it.starts_with('/')) {
        return true;
    }
    let absolute = path.strip_prefix('/').map(|it| it.trim_start_matches('/'));
    let folder = if absolute.is_some() { Utf8Path::new("/") } else { folder };
    let first = absolute.unwrap_or(path).split('/').next().unwrap_or_default();
    if first.is_empty() {
        return absolute.is_some();
    }
    let is_end = |at: usize| !first[at..].starts_with(|it: char| it.is_alphanumeric());
    let ends = first.char_indices().map(|it| it.0).skip(1).chain([first.len()]);
    // Punctuation may belong to the name, or to the sentence.
    for end in ends.filter(|at| is_end(*at)).take_while(|it| *it <= NAME_BYTES_MAX) {
        *looks += 1;
        if *looks > LOOKS_MAX || folder.join(&first[..end]).symlink_metadata().is_ok() {
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
    fn only_an_at_before_the_name_of_a_file_is_changed() {
        let folder = tempfile::tempdir().unwrap();
        let folder = Utf8Path::from_path(folder.path()).unwrap();
        for file in ["Makefile", "other.md", ".env", "a b.md"] {
            std::fs::write(folder.join(file), "x").unwrap();
        }
        std::fs::create_dir(folder.join("src")).unwrap();
        for text in [
            "see @/etc/passwd",
            "@/etc",
            "x\n@//etc/passwd, please",
            "@~/.ssh/id",
            "@../x/y",
            "@./other.md",
            "\t@src/main.rs#L1-3",
            "@Makefile.",
            "(x) @other.md, and",
            "@.env",
            "@\"a b.md\"",
            "@\"/etc/passwd\"",
            "@\" /etc/passwd\"",
            "\u{3002}@other.md",
            "\u{feff}@other.md",
        ] {
            let expected = text.replacen('@', "@\u{2060}", 1);
            assert_eq!(disarmed(text, folder), expected, "{text}");
            assert!(is_filled_in(text, folder), "{text}");
        }
        for text in [
            "",
            "@",
            "@ /etc/passwd",
            "me@example.org/etc",
            "@alice, what do you say?",
            "@scope/package @types/node",
            "@pytest.mark.parametrize(\"x\")",
            "@makefiles @srcs/x @~alice",
            "@\"C:\\x\" @\"\"",
            "import x from '@/components/x'",
            "\u{65e5}@other.md",
            "@\u{2060}/etc/passwd",
        ] {
            assert_eq!(disarmed(text, folder), text);
            assert!(!is_filled_in(text, folder), "{text}");
        }
        let twice = disarmed("@/etc @alice @other.md", folder).into_owned();
        assert_eq!(twice, "@\u{2060}/etc @alice @\u{2060}other.md");
        // Names without end are not looked up without end.
        let many = "@x ".repeat(LOOKS_MAX + 1);
        assert_eq!(disarmed(&many, folder).matches(JOINER).count(), 1);
        let long = format!("@{}", "-".repeat(100_000));
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

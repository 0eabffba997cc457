//! Prepares text for pasting, and recognizes it.
//!
//! **Invariant:** the only control characters pasted are tab and line feed, these only in brackets,
//! and the only marks are those of the text itself.

/// The opening of the mark with a text's name.
pub(super) const OPENS: &str = "‹wb:";
/// The closing of a mark.
const CLOSES: char = '›';
/// The name in the mark after the last word of a text.
const END: &str = "end";
/// What a program draws around a long paste, up to its own number.
const PASTED: [&str; 2] = ["<pasted_content", "</pasted_content"];

/// Returns a text that is safe to paste: without anything that could end the paste, press a key or
/// be mistaken for one of our marks.
pub fn sanitized(text: &str) -> String {
    let is_kept = |it: &char| matches!(it, '\n' | '\t') || !it.is_control();
    // Each of these ends a line: without it, its words would be joined.
    let lines = text.replace("\r\n", "\n").replace(['\r', '\u{b}', '\u{c}', '\u{85}'], "\n");
    let plain: String = lines.chars().filter(is_kept).collect();
    plain.replace(OPENS, "<wb:")
}

/// Returns whether a sanitized text would press keys if no brackets were around it.
pub fn presses_keys(text: &str) -> bool {
    text.contains(char::is_control)
}

/// Returns a text with the mark by which it is recognized, and an end mark, so that anything typed
/// before or after it can be told apart.
pub fn with_token(name: &str, text: &str) -> String {
    let text = sanitized(text);
    format!("{OPENS}{name}{CLOSES} {} {}", text.trim_end_matches('\n'), end_mark())
}

/// Returns whether a text contains anything besides texts of ours.
pub fn has_other_words(text: &str) -> bool {
    let (opens, ends) = (OPENS, end_mark());
    let mut rest = text;
    while let Some((before, ours)) = rest.split_once(opens) {
        let Some((_, behind)) = ours.split_once(&ends) else { return true };
        if !is_blank(before) {
            return true;
        }
        rest = behind;
    }
    !is_blank(rest)
}

/// Returns whether a text contains only what a program draws around a paste.
fn is_blank(text: &str) -> bool {
    let is_frame = |line: &str| PASTED.iter().any(|it| line.starts_with(it)) && line.ends_with('>');
    text.lines().map(str::trim).all(|line| line.is_empty() || is_frame(line))
}

/// Returns the names in the marks of a text, in order, at most this many.
pub fn token_names(text: &str, most: usize) -> Vec<&str> {
    let parts = text.split(OPENS).skip(1);
    let names = parts.filter_map(|it| it.split_once(CLOSES)).map(|it| it.0);
    names.filter(|it| *it != END).take(most).collect()
}

/// Returns the mark after the last word of a text of ours.
pub(super) fn end_mark() -> String {
    format!("{OPENS}{END}{CLOSES}")
}

/// Returns whether an input line starts with a text of ours that was not submitted.
pub fn is_ours(draft: &str) -> bool {
    draft.starts_with(OPENS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_that_is_pasted_presses_a_key() {
        let text = "a\x1b[201~\rrm -rf x\r\nb\tc\u{9b}d\u{7f}‹wb:other› e";
        assert_eq!(sanitized(text), "a[201~\nrm -rf x\nb\tcd<wb:other› e");
        assert_eq!(sanitized("one\rtwo\u{b}three\u{c}\u{85}four"), "one\ntwo\nthree\n\nfour");
        let marked = with_token("one", text);
        assert_eq!(token_names(&marked, 4), ["one"]);
        assert_eq!(token_names("draft ‹wb:a› b ‹wb:c› d ‹wb:e", 4), ["a", "c"]);
    }

    #[test]
    fn words_before_and_behind_a_text_of_ours_are_seen() {
        let ours = with_token("one", "hello ‹wb:end› you\n");
        assert_eq!(ours, "‹wb:one› hello <wb:end› you ‹wb:end›");
        for plain in [
            ours.clone(),
            format!("\n\n<pasted_content id=\"1e\">\n{ours}\n</pasted_content id=\"1e\">\n"),
            format!("{ours}\n{ours}"),
            String::new(),
        ] {
            assert!(!has_other_words(&plain), "{plain}");
        }
        for mixed in [
            format!("mine {ours}"),
            format!("{ours} mine"),
            format!("{ours}\nmine\n{ours}"),
            format!("<pasted_content id=\"1\"> mine\n{ours}"),
            "‹wb:one› cut off".to_owned(),
            "mine".to_owned(),
        ] {
            assert!(has_other_words(&mixed), "{mixed}");
        }
    }
}

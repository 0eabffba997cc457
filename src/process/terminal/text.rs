//! Prepares text for pasting, and reads text from a screen.
//!
//! **Invariant:** the only control characters pasted are tab and line feed, and the only marks are
//! those of the text itself.

/// The opening of the mark with a text's name.
const OPENS: &str = "‹wb:";
/// The closing of a mark.
const CLOSES: char = '›';
/// The name in the mark after the last word of a text.
const END: &str = "end";
/// What a program draws around a long paste, up to its own number.
const PASTED: [&str; 2] = ["<pasted_content", "</pasted_content"];
/// Most names searched in an input line.
const NAMES_MAX: usize = 16;
/// What programs draw around an input line.
const FRAME: [char; 4] = ['│', '┃', '|', '\u{a0}'];

/// Returns a text that is safe to paste: without anything that could end the paste, press a key or
/// be mistaken for one of our marks.
pub fn sanitized(text: &str) -> String {
    let is_kept = |it: &char| matches!(it, '\n' | '\t') || !it.is_control();
    let plain: String = text.replace("\r\n", "\n").chars().filter(is_kept).collect();
    plain.replace(OPENS, "<wb:")
}

/// Returns a text with the mark by which it is recognized, and an end mark, so that anything typed
/// before or after it can be told apart.
pub fn with_token(name: &str, text: &str) -> String {
    let text = sanitized(text);
    format!("{OPENS}{name}{CLOSES} {} {OPENS}{END}{CLOSES}", text.trim_end_matches('\n'))
}

/// Returns whether a text contains anything besides texts of ours.
pub fn has_other_words(text: &str) -> bool {
    let (opens, ends) = (OPENS, format!("{OPENS}{END}{CLOSES}"));
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

/// Returns whether an input line starts with a text of ours that was not submitted.
pub fn is_ours(draft: &str) -> bool {
    draft.starts_with(OPENS)
}

/// Returns a screen without colors and without the lines below the last word.
pub fn plain(screen: &str) -> String {
    let lines: Vec<String> = screen.lines().map(|it| cells(it).map(|it| it.0).collect()).collect();
    let used = lines.iter().rposition(|it: &String| !it.trim().is_empty()).map_or(0, |it| it + 1);
    let mut text = lines[..used].iter().map(|it| it.trim_end()).collect::<Vec<_>>().join("\n");
    if !text.is_empty() {
        text.push('\n');
    }
    text
}

/// Returns what somebody has typed into the line that begins with this mark, on a screen with
/// colors: dim text is a hint of the program, inverse text its cursor.
pub fn draft(screen: &str, mark: &str) -> Option<String> {
    let lines: Vec<&str> = screen.lines().collect();
    let (first, last) = typed_lines(&lines, mark)?;
    let typed = |line: &&str| {
        let skipped = typed_from(line, mark).map_or(0, |it| it + mark.chars().count());
        let typed: String = cells(line).skip(skipped).filter(|it| !it.1).map(|it| it.0).collect();
        typed.trim_matches(|it: char| it.is_whitespace() || FRAME.contains(&it)).to_owned()
    };
    let typed = lines[first..=last].iter().map(typed).collect::<Vec<_>>().join("\n");
    (!typed.trim().is_empty()).then(|| typed.trim().to_owned())
}

/// Returns the names in the marks of the line that begins with this mark, and below it: a long text
/// continues there, wherever the program wraps it.
pub fn typed_names(screen: &str, mark: &str) -> Vec<String> {
    let lines: Vec<&str> = screen.lines().collect();
    let Some((first, _)) = typed_lines(&lines, mark) else { return Vec::new() };
    let all = lines[first..].iter().flat_map(|it| cells(it)).map(|it| it.0);
    let text: String = all.filter(|it| !it.is_whitespace() && !FRAME.contains(it)).collect();
    token_names(&text, NAMES_MAX).into_iter().map(str::to_owned).collect()
}

/// Returns the first and last typed line with this mark.
fn typed_lines(lines: &[&str], mark: &str) -> Option<(usize, usize)> {
    let begins = |at: &usize| typed_from(lines[*at], mark).is_some();
    let last = (0..lines.len()).rev().find(begins)?;
    // A recalled text has the mark before each of its lines.
    let first = (0..last).rev().take_while(|at| !is_edge(lines[*at])).filter(begins).last();
    Some((first.unwrap_or(last), last))
}

/// Returns whether a screen shows a line that begins with this mark.
pub fn has_line(screen: &str, mark: &str) -> bool {
    screen.lines().any(|line| typed_from(line, mark).is_some())
}

/// Returns the column at which the mark begins a line, if it does.
fn typed_from(line: &str, mark: &str) -> Option<usize> {
    let plain: String = cells(line).map(|it| it.0).collect();
    let inner = plain.trim_start_matches(|it: char| it.is_whitespace() || FRAME.contains(&it));
    inner.starts_with(mark).then(|| plain.chars().count() - inner.chars().count())
}

/// Returns whether a line ends the input area: it is empty, or part of a frame.
fn is_edge(line: &str) -> bool {
    let drawn = |it: char| ('\u{2500}'..='\u{257f}').contains(&it);
    cells(line).all(|it| it.0.is_whitespace() || drawn(it.0))
}

/// Returns the characters of a line, each with whether it is dim or inverse.
fn cells(line: &str) -> impl Iterator<Item = (char, bool)> {
    let (mut is_dim, mut is_inverse) = (false, false);
    let mut rest = line.chars();
    std::iter::from_fn(move || {
        loop {
            let next = rest.next()?;
            if next != '\u{1b}' {
                return Some((next, is_dim || is_inverse));
            }
            if rest.next() != Some('[') {
                continue;
            }
            let words: String = rest.by_ref().take_while(|it| *it != 'm').collect();
            for word in words.split(';') {
                match word {
                    "" | "0" => (is_dim, is_inverse) = (false, false),
                    "2" => is_dim = true,
                    "22" => is_dim = false,
                    "7" => is_inverse = true,
                    "27" => is_inverse = false,
                    _ => {}
                }
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_that_is_pasted_presses_a_key() {
        let text = "a\x1b[201~\rrm -rf x\r\nb\tc\u{9b}d\u{7f}‹wb:other› e";
        assert_eq!(sanitized(text), "a[201~rm -rf x\nb\tcd<wb:other› e");
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

    #[test]
    fn a_hint_is_no_draft() {
        let of = |line: &str| draft(&format!("above\n{line}\n  ? for shortcuts\n"), "❯");
        assert_eq!(of("❯ \x1b[7mT\x1b[0m\x1b[2mry \"edit\"\x1b[0m"), None);
        assert_eq!(of("\x1b[2m│\x1b[0m ❯\u{a0}fix the\x1b[7m \x1b[0m   │"), Some("fix the".into()));
        assert_eq!(of("❯ "), None);
        assert_eq!(draft("no line at all", "❯"), None);
        let two = of("❯ old\n\n────\n❯ ‹wb:01› one\n❯ two\n────").unwrap();
        assert_eq!(two, "‹wb:01› one\ntwo");
        let ours = of("❯ ‹wb:01› hello").unwrap();
        assert!(is_ours(&ours) && !is_ours("x ‹wb:01›"));
        assert_eq!(plain("a\x1b[1mb\x1b[0m  \n\n   \n"), "ab\n");
    }
}

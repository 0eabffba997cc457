//! A screen as a program drew it: the line in which one types, and what was typed there.
//!
//! A program draws its input line inside a frame, or prompts again and again below its own output.
//! In a frame a text may take several lines with the mark; otherwise only the last one counts, and
//! only until the cursor has left it.
//!
//! **Invariant:** a line with the mark is the one in which one types only if nothing else on the
//! screen shows that the keys go elsewhere: a frame or a view below it, or a cursor drawn there.

use unicode_width::UnicodeWidthStr as _;

use crate::base::{Error, Result};
use crate::process::terminal::text::{OPENS, end_mark, has_other_words, is_ours, token_names};

/// The tmux format of the numbers that [`Screen::read`] expects before the lines.
pub(super) const FORM: &str = "#{cursor_flag} #{cursor_y} #{cursor_x} #{pane_width} #{pane_height}";
/// Most names searched in an input line.
const NAMES_MAX: usize = 16;
/// What programs draw around an input line.
const FRAME: [char; 4] = ['│', '┃', '|', '\u{a0}'];

/// What a terminal shows at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Screen {
    /// With colors; a line that the terminal wrapped is one line.
    text: String,
    /// The rows, without colors but with spaces at their ends.
    rows: Vec<String>,
    /// The row and column of the cursor, if it is visible.
    cursor: Option<(usize, usize)>,
    /// The columns of a row.
    width: usize,
}

impl Screen {
    /// Reads what tmux printed: the numbers of [`FORM`], the rows, and the text with colors.
    pub(super) fn read(said: &str) -> Result<Screen> {
        let wrong = || Error::unavailable("the pane is gone").code("terminal");
        let (numbers, rest) = said.split_once('\n').ok_or_else(wrong)?;
        let numbers: Vec<usize> = numbers.split(' ').filter_map(|it| it.parse().ok()).collect();
        let [is_visible, row, column, width, height] = numbers[..] else { return Err(wrong()) };
        let mut lines = rest.split_inclusive('\n');
        let rows = lines.by_ref().take(height).map(|it| it.trim_end_matches('\n').to_owned());
        Ok(Screen {
            rows: rows.collect(),
            text: lines.collect(),
            cursor: (is_visible != 0).then_some((row, column)),
            width,
        })
    }

    /// Returns it without colors and without the lines below the last word.
    pub fn plain(&self) -> String {
        plain(&self.text)
    }

    /// Returns whether nothing was drawn since another one.
    pub fn is_same(&self, other: &Screen) -> bool {
        self.text == other.text
    }

    /// Returns whether it shows the line in which one types, which begins with this mark.
    pub fn has_line(&self, mark: &str) -> bool {
        let lines: Vec<&str> = self.text.lines().collect();
        typed_lines(&lines, mark).is_some() && !self.has_left(mark)
    }

    /// Returns what somebody has typed into that line, empty if nothing; `None` if the line is not
    /// on the screen. Dim text is a hint of the program, inverse text its cursor.
    pub fn draft(&self, mark: &str) -> Option<String> {
        let lines: Vec<&str> = self.text.lines().collect();
        let (first, last) = typed_lines(&lines, mark)?;
        let typed = |line: &&str| {
            let from = typed_from(line, mark).map_or(0, |it| it + mark.chars().count());
            let typed: String = cells(line).skip(from).filter(|it| !it.1).map(|it| it.0).collect();
            typed.trim_matches(|it: char| it.is_whitespace() || FRAME.contains(&it)).to_owned()
        };
        let typed = lines[first..=last].iter().map(typed).collect::<Vec<_>>().join("\n");
        Some(typed.trim().to_owned())
    }

    /// Returns the names in the marks of that line, and below it: a long text continues there,
    /// wherever the program wraps it.
    pub fn typed_names(&self, mark: &str) -> Vec<String> {
        let lines: Vec<&str> = self.text.lines().collect();
        let Some((first, _)) = typed_lines(&lines, mark) else { return Vec::new() };
        let text = bare(lines[first..].iter().copied());
        token_names(&text, NAMES_MAX).into_iter().map(str::to_owned).collect()
    }

    /// Returns whether what was typed after a prompt was handed in: the cursor stands below it, and
    /// the program has not prompted again.
    pub fn has_left(&self, mark: &str) -> bool {
        let rows: Vec<&str> = self.rows.iter().map(String::as_str).collect();
        let Some((row, column)) = self.cursor else { return false };
        let Some(first) = last_line(&rows, mark).filter(|it| *it < row) else { return false };
        if frame(&rows, first).is_some() {
            return false;
        }
        // The terminal wraps a line at the last column; any other end of a row is a line end.
        let is_full = |it: &str| it.width() >= self.width;
        let Some(end) = (first..row.min(rows.len())).rev().find(|at| !is_full(rows[*at])) else {
            return false;
        };
        let typed = bare(rows[first..=end].iter().copied());
        match typed.contains(OPENS) {
            // A text of several lines is whole when its end is there.
            true => typed.contains(&end_mark()),
            false => column == 0,
        }
    }

    /// Returns whether a text of ours is in that line: itself, or a placeholder for a long one.
    pub fn holds_ours(&self, mark: &str) -> bool {
        self.draft(mark).is_some_and(|it| is_ours(&it) || it.starts_with('['))
    }

    /// Returns whether whole texts of ours stand in that line, and no other word.
    pub fn is_only_ours(&self, mark: &str) -> bool {
        let typed = self.typed(mark);
        !typed.is_empty() && !has_other_words(&typed)
    }

    /// Returns all that was typed into that line and those below it, without what the program puts
    /// between words, and without its hints.
    pub fn typed(&self, mark: &str) -> String {
        let lines: Vec<&str> = self.text.lines().collect();
        let Some((first, last)) = typed_lines(&lines, mark) else { return String::new() };
        let end = frame(&lines, last).unwrap_or(lines.len());
        let from = typed_from(lines[first], mark).map_or(0, |it| it + mark.chars().count());
        let typed = cells(lines[first])
            .skip(from)
            .chain(lines[first + 1..end].iter().copied().flat_map(cells));
        // The cursor stands on what was typed; what is only dim is a hint.
        let typed = typed.filter(|it| !it.1 || it.2).map(|it| it.0);
        typed.filter(|it| !it.is_whitespace() && !FRAME.contains(it)).collect()
    }
}

#[cfg(test)]
impl Screen {
    /// Returns a screen with this text, in which the cursor is hidden.
    pub fn of(text: &str) -> Screen {
        let rows = text.lines().map(|it| cells(it).map(|it| it.0).collect()).collect();
        Screen { text: text.to_owned(), rows, cursor: None, width: 200 }
    }
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

/// Returns the first and last typed line with this mark, if the keys go there.
fn typed_lines(lines: &[&str], mark: &str) -> Option<(usize, usize)> {
    let last = last_line(lines, mark)?;
    let Some(end) = frame(lines, last) else {
        // What is drawn below it has the keys: it was said before.
        let has_below = lines[last + 1..].iter().any(|it| rule(it).is_some());
        return (!has_below).then_some((last, last));
    };
    // A recalled text has the mark before each of its lines.
    let begins = |at: &usize| typed_from(lines[*at], mark).is_some();
    let first = (0..last).rev().take_while(|at| !is_edge(lines[*at])).filter(begins).last();
    let first = first.unwrap_or(last);
    let has_cursor = |lines: &[&str]| lines.iter().any(|it| cells(it).any(|it| it.2));
    let is_elsewhere = has_cursor(&lines[end..]) && !has_cursor(&lines[first..end]);
    (!is_elsewhere).then_some((first, last))
}

/// Returns the last line that begins with this mark.
fn last_line(lines: &[&str], mark: &str) -> Option<usize> {
    lines.iter().rposition(|line| typed_from(line, mark).is_some())
}

/// Returns where the frame around a line ends, if it is inside one: lines of one shape are drawn
/// above and below it, or something at its sides.
fn frame(lines: &[&str], at: usize) -> Option<usize> {
    let above = lines[..at].iter().rfind(|it| is_edge(it) || rule(it).is_some());
    let shape = above.and_then(|it| rule(it));
    // What was typed may have empty lines.
    let is_same = |it: &&str| shape.is_some() && rule(it) == shape;
    if let Some(below) = lines[at + 1..].iter().position(is_same) {
        return Some(at + 1 + below);
    }
    let first = cells(lines[at]).map(|it| it.0).find(|it| !it.is_whitespace());
    first.is_some_and(|it| FRAME.contains(&it)).then_some(at + 1)
}

/// Returns the first column and the width of a line that a program has drawn, with or without words
/// in it.
fn rule(line: &str) -> Option<(usize, usize)> {
    let plain: String = cells(line).map(|it| it.0).collect();
    let drawn = plain.trim();
    let is_drawn = drawn.chars().take(2).chain(drawn.chars().next_back()).all(is_drawing);
    let from = plain.chars().take_while(|it| it.is_whitespace()).count();
    (is_drawn && drawn.chars().count() > 1).then(|| (from, drawn.width()))
}

/// Returns the column at which the mark begins a line, if it does.
fn typed_from(line: &str, mark: &str) -> Option<usize> {
    let plain: String = cells(line).map(|it| it.0).collect();
    let inner = plain.trim_start_matches(|it: char| it.is_whitespace() || FRAME.contains(&it));
    inner.starts_with(mark).then(|| plain.chars().count() - inner.chars().count())
}

/// Returns whether a line ends the input area: it is empty, or part of a frame.
fn is_edge(line: &str) -> bool {
    cells(line).all(|it| it.0.is_whitespace() || is_drawing(it.0))
}

/// Returns whether programs draw lines with a character.
fn is_drawing(char: char) -> bool {
    ('\u{2500}'..='\u{257f}').contains(&char)
}

/// Returns the characters of lines, without those that a program puts between the words of a text.
fn bare<'a>(lines: impl Iterator<Item = &'a str>) -> String {
    let all = lines.flat_map(cells).map(|it| it.0);
    all.filter(|it| !it.is_whitespace() && !FRAME.contains(it)).collect()
}

/// Returns the characters of a line, each with whether it is dim or inverse, and inverse.
fn cells(line: &str) -> impl Iterator<Item = (char, bool, bool)> {
    let (mut is_dim, mut is_inverse) = (false, false);
    let mut rest = line.chars();
    std::iter::from_fn(move || {
        loop {
            let next = rest.next()?;
            if next != '\u{1b}' {
                return Some((next, is_dim || is_inverse, is_inverse));
            }
            if rest.next() != Some('[') {
                continue;
            }
            let words: String = rest.by_ref().take_while(|it| *it != 'm').collect();
            let mut words = words.split(';');
            while let Some(word) = words.next() {
                match word {
                    // The number of a color, or its red, green and blue, follow.
                    "38" | "48" | "58" => {
                        let count = if words.next() == Some("2") { 3 } else { 1 };
                        words.by_ref().take(count).for_each(drop);
                    }
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

    const OLD: &str = "‹wb:01› hello ‹wb:end›";

    /// A screen of 40 columns with its cursor, as tmux prints it.
    fn at(text: &str, row: usize, column: usize) -> Screen {
        let rows = text.lines().count();
        let said = format!("1 {row} {column} 40 {rows}\n{text}\n{text}\n");
        Screen::read(&said).unwrap()
    }

    #[test]
    fn a_hint_is_no_draft() {
        let of = |line: &str| Screen::of(&format!("above\n{line}\n  ? for shortcuts\n")).draft("❯");
        assert_eq!(of("❯ \x1b[7mT\x1b[0m\x1b[2mry \"edit\"\x1b[0m"), Some(String::new()));
        assert_eq!(of("\x1b[2m│\x1b[0m ❯\u{a0}fix the\x1b[7m \x1b[0m   │"), Some("fix the".into()));
        assert_eq!(of("❯ "), Some(String::new()));
        assert_eq!(Screen::of("no line at all").draft("❯"), None);
        // Colors are neither dim nor inverse, whatever their numbers.
        assert_eq!(of("❯ \x1b[38;2;7;2;7mmine\x1b[48;5;7m too"), Some("mine too".into()));
        let two = Screen::of("❯ old\n\n────\n❯ ‹wb:01› one\n❯ two\n────").draft("❯").unwrap();
        assert_eq!(two, "‹wb:01› one\ntwo");
        let ours = of("❯ ‹wb:01› hello").unwrap();
        assert!(is_ours(&ours) && !is_ours("x ‹wb:01›"));
        assert_eq!(plain("a\x1b[1mb\x1b[0m  \n\n   \n"), "ab\n");
    }

    #[test]
    fn whole_texts_of_ours_are_told_from_what_a_person_adds() {
        let (edge, dim) = ("────────", "\x1b[2mhint\x1b[0m");
        let of =
            |typed: &str| Screen::of(&format!("❯ {OLD}\n\n{edge}\n❯ {typed}\n{edge}\n  below"));
        for ours in [
            OLD.to_owned(),
            format!("{OLD}{OLD}"),
            format!("{OLD}\x1b[7m \x1b[0m{dim}"),
            // Wrapped, with empty lines, and with the mark before each line.
            "‹wb:01› hel\n  lo\n\n  you ‹wb:e\n  nd›".to_owned(),
            "‹wb:01› one\n❯ two ‹wb:end›".to_owned(),
        ] {
            assert!(of(&ours).is_only_ours("❯"), "{ours}");
        }
        for other in [
            String::new(),
            dim.to_owned(),
            "mine".to_owned(),
            format!("mine {OLD}"),
            format!("{OLD} but only X"),
            format!("{OLD}\n  but only X"),
            format!("{OLD} mine {OLD}"),
            // Its end may be what somebody has changed.
            "‹wb:01› hello".to_owned(),
            "[Pasted text #3 +40 lines]".to_owned(),
        ] {
            assert!(!of(&other).is_only_ours("❯"), "{other}");
        }
        assert!(at(&format!("❯ {OLD}"), 0, 24).is_only_ours("❯"));
        assert_eq!(of("‹wb:01› one\n  two").typed("❯"), "‹wb:01›onetwo");
    }

    /// As Claude Code draws them, below a message that begins with its mark, too.
    #[test]
    fn a_mark_is_no_line_while_the_keys_go_elsewhere() {
        let said = "❯ ‹wb:01› hello ‹wb:end›\n\n● again hello\n\n";
        let (rule, cursor) = ("─".repeat(40), "\x1b[7m \x1b[0m");
        let named = format!("{} named ──", "─".repeat(31));
        for below in [
            // The shell, the transcript, and two searches in what was said.
            format!("{rule}\n! echo mine{cursor}\n{rule}\n  ! for shell mode"),
            format!("{named}\n! rm -i x\n  y{cursor}\n{rule}\n"),
            format!("{rule}\n  Showing detailed transcript"),
            format!("{rule}\n❯ \n{rule}\n  search prompts: {cursor}\n"),
            format!("   ╭────╮\n❯ ‹wb:01› ╰────╯\n  ╭{0}╮\n  │ {cursor} │\n  ╰{0}╯", "─".repeat(9)),
        ] {
            let screen = Screen::of(&format!("{said}{below}"));
            assert_eq!(screen.draft("❯"), None, "{below}");
            assert!(!screen.has_line("❯") && !screen.holds_ours("❯"), "{below}");
            assert!(screen.typed_names("❯").is_empty(), "{below}");
        }
        // What was said may stand below a line of its own.
        let screen = format!("{rule}\n{said}{rule}\n! echo mine{cursor}\n{rule}\n");
        assert_eq!(Screen::of(&screen).draft("❯"), None);
        for (typed, draft) in [
            (format!("{named}\n❯ {cursor}\n{rule}\n  \x1b[7mhint\x1b[0m"), ""),
            (format!("{rule}\n❯ mine\n  ────\n  two{cursor}\n{rule}\n"), "mine"),
        ] {
            let screen = Screen::of(&format!("{said}{typed}"));
            assert_eq!(screen.draft("❯").as_deref(), Some(draft), "{typed}");
            assert!(screen.has_line("❯"), "{typed}");
        }
    }

    #[test]
    fn a_prompt_below_others_is_a_line_of_its_own() {
        for between in ["", "you said 20\n", "two\nlines\n"] {
            let screen = at(&format!("────\n❯ {OLD}\n{between}❯ "), 3, 2);
            assert_eq!(screen.draft("❯").as_deref(), Some(""), "{between}");
            assert!(screen.typed_names("❯").is_empty(), "{between}");
        }
        let typed = at(&format!("❯ {OLD}\nyou said 20\n❯ mine"), 2, 6);
        assert_eq!(typed.draft("❯").as_deref(), Some("mine"));
        assert!(typed.has_line("❯") && !typed.has_left("❯"));
    }

    #[test]
    fn a_text_has_left_its_prompt_when_the_cursor_is_below_it() {
        let long = format!("❯ ‹wb:01› {}", "a".repeat(30));
        for (text, (row, column), has_left) in [
            (format!("❯ {OLD}\n"), (0, 24), false),
            (format!("❯ {OLD}\n\n"), (1, 0), true),
            (format!("❯ {OLD}\nworking"), (1, 7), true),
            ("❯ mine\n\n".to_owned(), (1, 0), true),
            ("❯ mine\nmore".to_owned(), (1, 4), false),
            // Wrapped, and in the middle of a paste of several lines.
            (format!("{long}\naaa ‹wb:end›"), (1, 13), false),
            (format!("{long}\naaa ‹wb:end›\n\n"), (2, 0), true),
            ("❯ ‹wb:01› one\n\n".to_owned(), (1, 0), false),
            // In a frame the cursor means nothing.
            (format!("────\n❯ {OLD}\n────\n\n"), (3, 0), false),
            (format!("│ ❯ {OLD} │\n\n"), (1, 0), false),
            ("────\n❯ ‹wb:01› a\n\nb ‹wb:end›\n────\n\n".to_owned(), (5, 0), false),
        ] {
            let screen = at(&text, row, column);
            assert_eq!(screen.has_left("❯"), has_left, "{text}");
            assert_eq!(screen.has_line("❯"), !has_left, "{text}");
        }
        let hidden = Screen { cursor: None, ..at(&format!("❯ {OLD}\n\n"), 1, 0) };
        assert!(!hidden.has_left("❯"));
    }
}

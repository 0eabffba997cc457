//! What programs print for a terminal, as rows for a page: colors become classes, and every other
//! sequence is taken out.
//!
//! **Invariant:** no sequence is obeyed but `SGR` (colors and weights); none of them hides text.
//! **Invariant:** what is left is text: it reaches HTML through the escaping of [`Visible`] alone.

use std::fmt;

use askama::filters::HtmlSafe;
use serde::ser::{SerializeMap as _, SerializeSeq as _};
use serde::{Serialize, Serializer};

use crate::http::pages::parts::visible::{Visible, invisible_name};

/// Characters of a row; a longer line continues in another one.
const ROW_CHARS_MAX: usize = 2_000;
/// Longest sequence that ends with a letter, in characters.
const CONTROL_CHARS_MAX: usize = 64;
/// Longest sequence that carries a text (a title, an address), in characters.
const STRING_CHARS_MAX: usize = 4_096;

/// The style of text: what `SGR` sets and a page shows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::http) struct Style {
    is_bold: bool,
    is_dim: bool,
    is_italic: bool,
    is_underlined: bool,
    is_struck: bool,
    is_inverse: bool,
    /// One of the sixteen colors.
    ink: Option<u8>,
    ground: Option<u8>,
}

/// A part of a row.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Piece {
    /// Text in one style, with its classes.
    Text(String, String),
    /// An invisible character.
    Odd(char),
}

/// A row of output.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::http) struct Row {
    pieces: Vec<Piece>,
    /// Whether it continues the line of the previous row.
    goes_on: bool,
}

impl HtmlSafe for Row {}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.goes_on { "<div class=\"goes-on\">" } else { "<div>" })?;
        for piece in &self.pieces {
            match piece {
                Piece::Text(class, text) if class.is_empty() => {
                    write!(f, "{}", Visible(text.clone()))?;
                }
                Piece::Text(class, text) => {
                    write!(f, "<span class=\"{class}\">{}</span>", Visible(text.clone()))?;
                }
                Piece::Odd(character) => write!(f, "{}", Visible(character.to_string()))?,
            }
        }
        f.write_str("</div>\n")
    }
}

/// A piece is a string, `[classes, text]`, or `{code, name, text}` for an invisible character.
impl Serialize for Piece {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Piece::Text(class, text) if class.is_empty() => serializer.serialize_str(text),
            Piece::Text(class, text) => (class, text).serialize(serializer),
            Piece::Odd(character) => {
                let mut map = serializer.serialize_map(Some(3))?;
                map.serialize_entry("code", &format!("U+{:04X}", u32::from(*character)))?;
                map.serialize_entry(
                    "name",
                    invisible_name(*character).unwrap_or("control character"),
                )?;
                let shown = if character.is_control() { "" } else { &character.to_string() };
                map.serialize_entry("text", shown)?;
                map.end()
            }
        }
    }
}

/// A row is an array of pieces; it begins with `true` if it continues the previous line.
impl Serialize for Row {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut seq = serializer.serialize_seq(None)?;
        if self.goes_on {
            seq.serialize_element(&true)?;
        }
        for piece in &self.pieces {
            seq.serialize_element(piece)?;
        }
        seq.end()
    }
}

impl Style {
    /// Returns the style for `SGR` parameters, as written by [`Style::parameters`].
    pub(in crate::http) fn parse(parameters: &str) -> Style {
        let mut style = Style::default();
        if parameters.len() <= CONTROL_CHARS_MAX {
            style.apply(parameters);
        }
        style
    }

    /// Returns the `SGR` parameters that produce this style.
    pub(in crate::http) fn parameters(&self) -> String {
        let mut parts = Vec::new();
        let marks = [
            (self.is_bold, 1),
            (self.is_dim, 2),
            (self.is_italic, 3),
            (self.is_underlined, 4),
            (self.is_inverse, 7),
            (self.is_struck, 9),
        ];
        parts.extend(marks.iter().filter(|(is_on, _)| *is_on).map(|(_, code)| *code));
        for (color, plain, bright) in [(self.ink, 30, 90), (self.ground, 40, 100)] {
            if let Some(color) = color {
                parts.push(if color < 8 { plain } else { bright - 8 } + u16::from(color));
            }
        }
        parts.iter().map(u16::to_string).collect::<Vec<_>>().join(";")
    }

    fn apply(&mut self, parameters: &str) {
        let numbers: Vec<u16> =
            parameters.split([';', ':']).map(|it| it.parse().unwrap_or(0)).collect();
        let mut at = 0;
        while let Some(number) = numbers.get(at) {
            at += 1;
            match number {
                0 => *self = Style::default(),
                1 => self.is_bold = true,
                2 => self.is_dim = true,
                3 => self.is_italic = true,
                4 | 21 => self.is_underlined = true,
                7 => self.is_inverse = true,
                9 => self.is_struck = true,
                22 => (self.is_bold, self.is_dim) = (false, false),
                23 => self.is_italic = false,
                24 => self.is_underlined = false,
                27 => self.is_inverse = false,
                29 => self.is_struck = false,
                30..=37 => self.ink = u8::try_from(number - 30).ok(),
                39 => self.ink = None,
                40..=47 => self.ground = u8::try_from(number - 40).ok(),
                49 => self.ground = None,
                90..=97 => self.ink = u8::try_from(number - 82).ok(),
                100..=107 => self.ground = u8::try_from(number - 92).ok(),
                38 | 48 => {
                    let (color, taken) = color_of(&numbers[at..]);
                    at += taken;
                    match (number, color) {
                        (38, Some(_)) => self.ink = color,
                        (48, Some(_)) => self.ground = color,
                        _ => {}
                    }
                }
                // Blinking and concealed text and other fonts are shown normally.
                _ => {}
            }
        }
    }

    fn classes(&self) -> String {
        let mut classes = Vec::new();
        let marks = [
            (self.is_bold, "t-bold"),
            (self.is_dim, "t-dim"),
            (self.is_italic, "t-italic"),
            (self.is_underlined, "t-under"),
            (self.is_struck, "t-struck"),
            (self.is_inverse, "t-inverse"),
        ];
        classes.extend(marks.iter().filter(|(is_on, _)| *is_on).map(|(_, it)| (*it).to_owned()));
        // Text in the color of its background would be invisible.
        if self.ink != self.ground {
            classes.extend(self.ink.map(|it| format!("t-ink{it}")));
            classes.extend(self.ground.map(|it| format!("t-ground{it}")));
        }
        classes.join(" ")
    }
}

/// Returns the nearest of the sixteen colors, and how many parameters named it.
fn color_of(numbers: &[u16]) -> (Option<u8>, usize) {
    match numbers {
        [5, index, ..] => (u8::try_from(*index).ok().map(of_palette), 2),
        [2, red, green, blue, ..] => (Some(nearest([*red, *green, *blue])), 4),
        _ => (None, numbers.len()),
    }
}

fn of_palette(index: u8) -> u8 {
    match index {
        0..=15 => index,
        232..=255 => nearest([u16::from(index - 232) * 10 + 8; 3]),
        _ => {
            let place = u16::from(index - 16);
            nearest([place / 36, place / 6 % 6, place % 6].map(|it| it * 51))
        }
    }
}

fn nearest(rgb: [u16; 3]) -> u8 {
    let (most, least) = (rgb[0].max(rgb[1]).max(rgb[2]), rgb[0].min(rgb[1]).min(rgb[2]));
    if most.saturating_sub(least) < 48 {
        return match most {
            ..64 => 0,
            64..144 => 8,
            144..224 => 7,
            _ => 15,
        };
    }
    let half = most.midpoint(least);
    let bits = rgb.iter().enumerate().map(|(place, it)| u8::from(*it > half) << place);
    let color: u8 = bits.sum();
    if most > 200 { color + 8 } else { color }
}

/// Returns the last line of an agent's output that has text.
pub(in crate::http) fn last_line(text: &str) -> Option<Row> {
    let line = text.trim_end().rsplit(['\n', '\r']).find(|it| !it.trim().is_empty())?;
    rows(line, Style::default(), false).0.into_iter().next()
}

/// Returns the last line of an agent's output, and what it is the hint of.
pub(in crate::http) fn last_words(text: &str) -> Vec<Row> {
    let said = text.trim_end().rsplit(['\n', '\r']).filter(|it| !it.trim().is_empty());
    let mut lines: Vec<&str> = said.take(2).collect();
    if !lines.first().is_some_and(|it| it.starts_with("hint:")) {
        lines.truncate(1);
    }
    let row = |line: &str| rows(line, Style::default(), false).0.into_iter().next();
    lines.into_iter().rev().filter_map(row).collect()
}

/// Returns text as rows, and the style at its end. `style` is the one at its start.
///
/// A sequence that the end of the text cuts is shown as what it is.
pub(in crate::http) fn rows(text: &str, style: Style, goes_on: bool) -> (Vec<Row>, Style) {
    let mut writer = Writer {
        rows: Vec::new(),
        row: Row { goes_on, ..Row::default() },
        chars: 0,
        is_begun: false,
        style,
        text: String::new(),
    };
    let mut rest = text;
    while let Some(character) = rest.chars().next() {
        let after = &rest[character.len_utf8()..];
        rest = match character {
            '\n' => {
                writer.end_row(false);
                after
            }
            '\r' => {
                // An overwritten line: nothing of it is lost.
                let next = after.trim_start_matches('\r');
                writer.end_row(false);
                next.strip_prefix('\n').unwrap_or(next)
            }
            '\u{1b}' | '\u{80}'..='\u{9f}' => match sequence(rest) {
                Some((parameters, next)) => {
                    if let Some(parameters) = parameters {
                        writer.set(parameters);
                    }
                    next
                }
                None => {
                    writer.push(character);
                    after
                }
            },
            character => {
                writer.push(character);
                after
            }
        };
    }
    writer.finish()
}

/// Returns the text after a sequence, and its parameters if it is `SGR`; `None` if it is no
/// sequence or not complete.
fn sequence(text: &str) -> Option<(Option<&str>, &str)> {
    let mut chars = text.chars();
    let (kind, body) = match chars.next()? {
        '\u{1b}' => (chars.next()?, chars.as_str()),
        // The same in one character.
        it => (char::from_u32(u32::from(it).checked_sub(0x40)?)?, chars.as_str()),
    };
    match kind {
        '[' => {
            let end =
                body.char_indices().take(CONTROL_CHARS_MAX).find_map(|(at, it)| match it {
                    '\u{20}'..='\u{3f}' => None,
                    '\u{40}'..='\u{7e}' => Some(Some((at, it))),
                    _ => Some(None),
                })??;
            let parameters = &body[..end.0];
            let is_plain = parameters.bytes().all(|it| matches!(it, b'0'..=b'9' | b';' | b':'));
            Some(((end.1 == 'm' && is_plain).then_some(parameters), &body[end.0 + 1..]))
        }
        ']' | 'P' | 'X' | '^' | '_' => {
            let mut before = ' ';
            for (at, it) in body.char_indices().take(STRING_CHARS_MAX) {
                match it {
                    '\u{7}' | '\u{9c}' => return Some((None, &body[at + it.len_utf8()..])),
                    '\\' if before == '\u{1b}' => return Some((None, &body[at + 1..])),
                    '\n' => return None,
                    _ => before = it,
                }
            }
            None
        }
        '\u{20}'..='\u{2f}' => {
            let end = body.char_indices().take(4).find_map(|(at, it)| match it {
                '\u{20}'..='\u{2f}' => None,
                '\u{30}'..='\u{7e}' => Some(Some(at + 1)),
                _ => Some(None),
            })??;
            Some((None, &body[end..]))
        }
        '\u{30}'..='\u{7e}' => Some((None, body)),
        _ => None,
    }
}

struct Writer {
    rows: Vec<Row>,
    row: Row,
    chars: usize,
    /// Whether a row has not ended.
    is_begun: bool,
    style: Style,
    /// Text that is not yet a piece.
    text: String,
}

impl Writer {
    fn set(&mut self, parameters: &str) {
        self.end_piece();
        self.style.apply(if parameters.is_empty() { "0" } else { parameters });
    }

    fn push(&mut self, character: char) {
        if self.chars >= ROW_CHARS_MAX {
            self.end_row(true);
        }
        self.is_begun = true;
        self.chars += 1;
        if invisible_name(character).is_some() {
            self.end_piece();
            self.row.pieces.push(Piece::Odd(character));
        } else {
            self.text.push(character);
        }
    }

    fn end_piece(&mut self) {
        if !self.text.is_empty() {
            let text = std::mem::take(&mut self.text);
            self.row.pieces.push(Piece::Text(self.style.classes(), text));
        }
    }

    fn end_row(&mut self, goes_on: bool) {
        self.end_piece();
        self.rows.push(std::mem::replace(&mut self.row, Row { goes_on, ..Row::default() }));
        (self.chars, self.is_begun) = (0, false);
    }

    fn finish(mut self) -> (Vec<Row>, Style) {
        if self.is_begun {
            self.end_row(false);
        }
        (self.rows, self.style)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn html(text: &str) -> String {
        rows(text, Style::default(), false).0.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn colors_are_classes_and_end_where_they_end() {
        for (text, shown) in [
            ("a\x1b[31mred\x1b[0m b\n", "<div>a<span class=\"t-ink1\">red</span> b</div>\n"),
            ("\x1b[1;92mx\x1b[m", "<div><span class=\"t-bold t-ink10\">x</span></div>\n"),
            ("\x1b[38;5;196mx", "<div><span class=\"t-ink9\">x</span></div>\n"),
            ("\x1b[38;2;0;0;120;1mx", "<div><span class=\"t-bold t-ink4\">x</span></div>\n"),
            ("\x1b[48;5;240mx", "<div><span class=\"t-ground8\">x</span></div>\n"),
            // Concealed, or in the color of its background; shown all the same.
            ("\x1b[8mhidden", "<div>hidden</div>\n"),
            ("\x1b[30;40mhidden", "<div>hidden</div>\n"),
            ("a\n\nb", "<div>a</div>\n<div></div>\n<div>b</div>\n"),
            ("10%\r20%\r\nend", "<div>10%</div>\n<div>20%</div>\n<div>end</div>\n"),
        ] {
            assert_eq!(html(text), shown, "{text:?}");
        }
    }

    #[test]
    fn all_other_sequences_are_gone_and_hide_nothing() {
        for (text, shown) in [
            ("\x1b[2J\x1b[Htop", "<div>top</div>\n"),
            ("\x1b]0;title\x07a\x1b]8;;javascript:x\x1b\\link\x1b]8;;\x1b\\", "<div>alink</div>\n"),
            ("\u{9b}31mred", "<div><span class=\"t-ink1\">red</span></div>\n"),
            ("a\x1bPq#0\x1b\\b\x1b(Bc\x1b7d", "<div>abcd</div>\n"),
            ("\x1b[?1049hx\x1b[>4;1my", "<div>xy</div>\n"),
        ] {
            assert_eq!(html(text), shown, "{text:?}");
        }
        // A sequence without an end does not swallow what follows.
        for text in ["\x1b]0;evil <b>\nnext", "\x1b[", "\x1b", "\x1b[31\nx", "\x1b]52;c;aGk="] {
            let shown = html(text);
            assert!(shown.contains("data-code=\"U+001B\""), "{shown}");
            assert!(!shown.contains("<b>") && !shown.contains('\x1b'), "{shown}");
        }
        assert!(html("\x1b]0;evil\nnext").contains("]0;evil</div>\n<div>next</div>"));
    }

    #[test]
    fn a_style_goes_on_in_the_next_part() {
        let (first, style) = rows("\x1b[1;4;94;43mone\n", Style::default(), false);
        assert_eq!(style.parameters(), "1;4;94;43");
        let (second, _) = rows("two", Style::parse(&style.parameters()), true);
        let class = "t-bold t-under t-ink12 t-ground3";
        assert_eq!(
            first[0].to_string(),
            format!("<div><span class=\"{class}\">one</span></div>\n")
        );
        let goes_on = format!("<div class=\"goes-on\"><span class=\"{class}\">two</span></div>\n");
        assert_eq!(second[0].to_string(), goes_on);
        let json = serde_json::to_string(&(first, second)).unwrap();
        assert_eq!(json, format!("[[[[\"{class}\",\"one\"]]],[[true,[\"{class}\",\"two\"]]]]"));
        assert_eq!(Style::parse(&"1;".repeat(99)), Style::default());
    }

    #[test]
    fn a_long_line_is_many_rows() {
        let (found, _) = rows(&"x".repeat(2 * ROW_CHARS_MAX + 1), Style::default(), false);
        let goes_on: Vec<bool> = found.iter().map(|it| it.goes_on).collect();
        assert_eq!(goes_on, [false, true, true]);
    }

    proptest::proptest! {
        #[test]
        fn no_output_makes_an_element_of_its_own(
            text in "([\\x1b\\u{9b}\\[\\]0-9;mPX<>\"&a\\n\\r\\x07\\\\]|(?s:.))*",
        ) {
            let (found, style) = rows(&text, Style::default(), false);
            let html: String = found.iter().map(ToString::to_string).collect();
            let ours = found.len()
                + found.iter().flat_map(|it| &it.pieces).filter(|it| match it {
                    Piece::Text(class, _) => !class.is_empty(),
                    Piece::Odd(_) => true,
                }).count();
            proptest::prop_assert_eq!(html.matches('<').count(), 2 * ours);
            let has_control = html.contains(['\x1b', '\u{9b}']);
            proptest::prop_assert!(!has_control);
            proptest::prop_assert_eq!(Style::parse(&style.parameters()), style);
        }
    }
}

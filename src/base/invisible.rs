//! Characters that are invisible, or that reorder the visible ones.

/// Returns the name of a character that is invisible or changes how others are displayed.
pub fn invisible_name(character: char) -> Option<&'static str> {
    Some(match character {
        '\t' | '\n' => return None,
        '\r' => "carriage return",
        it if it.is_control() => "control character",
        '\u{a0}' => "no-break space",
        '\u{202f}' => "narrow no-break space",
        '\u{1680}' | '\u{2000}'..='\u{200a}' | '\u{205f}' | '\u{3000}' => "unusual space",
        '\u{ad}' => "soft hyphen",
        '\u{200b}' => "zero-width space",
        '\u{200c}' => "zero-width non-joiner",
        '\u{200d}' => "zero-width joiner",
        '\u{200e}' => "left-to-right mark",
        '\u{200f}' => "right-to-left mark",
        '\u{61c}' => "Arabic letter mark",
        '\u{2028}' => "line separator",
        '\u{2029}' => "paragraph separator",
        '\u{202a}' | '\u{202b}' => "embedding of a direction",
        '\u{202c}' => "end of a direction",
        '\u{202d}' => "left-to-right override",
        '\u{202e}' => "right-to-left override",
        '\u{2060}' | '\u{feff}' => "zero-width no-break space",
        '\u{2066}'..='\u{2068}' => "isolate of a direction",
        '\u{2069}' => "end of an isolate",
        '\u{180b}'..='\u{180f}' | '\u{fe00}'..='\u{fe0f}' | '\u{e0100}'..='\u{e01ef}' => {
            "variation selector"
        }
        '\u{e0000}'..='\u{e007f}' => "tag character",
        '\u{34f}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}' | '\u{2800}' | '\u{3164}'
        | '\u{ffa0}' => "blank character",
        '\u{2061}'..='\u{2065}'
        | '\u{206a}'..='\u{206f}'
        | '\u{fff0}'..='\u{fffb}'
        | '\u{1bca0}'..='\u{1bca3}'
        | '\u{1d173}'..='\u{1d17a}'
        | '\u{e0080}'..='\u{e00ff}'
        | '\u{e01f0}'..='\u{e0fff}' => "invisible character",
        '\u{e000}'..='\u{f8ff}' | '\u{f0000}'..='\u{10ffff}' => "private character",
        _ => return None,
    })
}

/// Returns whether ordinary writing needs an invisible character between its neighbours: a joiner
/// between letters of a joined script or between emoji, or a selector that belongs to the character
/// before it. Elsewhere it only makes two texts look alike.
pub fn is_needed(before: Option<char>, character: char, after: Option<char>) -> bool {
    let is_between = |is: fn(char) -> bool| before.is_some_and(is) && after.is_some_and(is);
    match character {
        '\u{200c}' => is_between(is_joined),
        '\u{200d}' => {
            let is_emoji_before = before.is_some_and(|it| is_emoji(it) || it == '\u{fe0f}');
            is_between(is_joined) || (is_emoji_before && after.is_some_and(is_emoji))
        }
        // The digits and signs of keycaps are emoji only with a keycap after them.
        '\u{fe0f}' if after == Some('\u{20e3}') => {
            before.is_some_and(|it| it.is_ascii_digit() || matches!(it, '#' | '*'))
        }
        '\u{fe0e}' | '\u{fe0f}' => before.is_some_and(is_emoji),
        '\u{180b}'..='\u{180d}' | '\u{180f}' => {
            before.is_some_and(|it| matches!(it, '\u{1820}'..='\u{18aa}'))
        }
        '\u{e0100}'..='\u{e01ef}' => before.is_some_and(is_ideograph),
        _ => false,
    }
}

/// Returns a text without invisible characters, except for those that its writing needs and
/// no-break spaces.
pub fn without_invisible(text: &str) -> String {
    let mut kept = String::with_capacity(text.len());
    let mut before = None;
    let mut rest = text.chars();
    while let Some(character) = rest.next() {
        let is_seen = character == '\u{a0}' || invisible_name(character).is_none();
        if is_seen || is_needed(before, character, rest.clone().next()) {
            kept.push(character);
        }
        before = Some(character);
    }
    kept
}

/// Returns whether a character belongs to a word of a script that joins its letters, or forms
/// ligatures of them.
fn is_joined(character: char) -> bool {
    let is_of_script = matches!(character,
        // Arabic, Syriac and their neighbours; the scripts of South and Southeast Asia; Mongolian;
        // the presentation forms of Arabic; Adlam; Brahmi and those that came from it.
        '\u{610}'..='\u{8ff}' | '\u{900}'..='\u{109f}' | '\u{1700}'..='\u{18aa}'
        | '\u{1900}'..='\u{1cff}' | '\u{a800}'..='\u{abff}' | '\u{fb50}'..='\u{fdff}'
        | '\u{fe70}'..='\u{fefc}' | '\u{1e900}'..='\u{1e95f}' | '\u{11000}'..='\u{11fff}');
    is_of_script && !character.is_numeric() && invisible_name(character).is_none()
}

fn is_emoji(character: char) -> bool {
    matches!(character,
        '\u{a9}' | '\u{ae}' | '\u{203c}' | '\u{2049}' | '\u{2122}' | '\u{2139}' | '\u{3030}'
        | '\u{303d}' | '\u{3297}' | '\u{3299}' | '\u{2190}'..='\u{21ff}' | '\u{2300}'..='\u{23ff}'
        | '\u{24c2}' | '\u{25a0}'..='\u{27bf}' | '\u{2900}'..='\u{297f}' | '\u{2b00}'..='\u{2bff}'
        | '\u{1f000}'..='\u{1faff}')
}

fn is_ideograph(character: char) -> bool {
    matches!(character,
        '\u{3400}'..='\u{9fff}' | '\u{f900}'..='\u{faff}' | '\u{20000}'..='\u{3ffff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_writing_needs_stays_and_what_deceives_goes() {
        for text in [
            "می\u{200c}پزیم",
            "क्\u{200d}ष",
            "👩\u{200d}🍳 👩🏽\u{200d}🍳 ❤\u{fe0f}\u{200d}🔥",
            "➡\u{fe0f} ©\u{fe0e}",
            "1\u{fe0f}\u{20e3}",
            "葛\u{e0100}",
            "10\u{a0}km",
        ] {
            assert_eq!(without_invisible(text), text);
        }
        for (text, seen) in [
            ("a\u{200c}b a\u{200d}b", "ab ab"),
            // At the edge of a word, and between an emoji and a letter.
            ("می\u{200c}", "می"),
            ("\u{200d}می", "می"),
            ("می\u{200c} x", "می x"),
            ("👩\u{200d}x", "👩x"),
            ("می\u{200c}\u{200c}پ", "میپ"),
            ("x\u{fe0f} 1\u{fe0f}", "x 1"),
            ("x\u{e0100}", "x"),
            ("\u{feff}a\u{200b}b\u{202e}", "ab"),
            ("a\u{1bca0}b\u{1bca3}\u{e0080}c\u{e01f0}\u{e0fff}\u{e0041}", "abc"),
        ] {
            assert_eq!(without_invisible(text), seen, "{text:?}");
        }
    }
}

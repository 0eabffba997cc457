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
        | '\u{1d173}'..='\u{1d17a}' => "invisible character",
        '\u{e000}'..='\u{f8ff}' | '\u{f0000}'..='\u{10ffff}' => "private character",
        _ => return None,
    })
}

//! Markdown as one line for a list: its words without markup.

use crate::documents::sources::plain::Plain;

/// Returns the first words of a text, with an ellipsis if it was cut. The result is not escaped.
pub(in crate::http) fn plain(text: &str, chars_max: usize) -> String {
    // Text beyond the cut is not parsed; a character has at most four bytes.
    let words = Plain::beginning(text, 4 * chars_max).text;
    let line = words.split_whitespace().collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(chars_max) {
        None => line,
        Some((end, _)) => format!("{}…", line[..end].trim_end()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_stay_and_marks_go() {
        let text = "# Better *words*\n\n- [x] a `co*de`\n- b [link](x.md)\n\nx\ny ~~z~~ **_w_**";
        assert_eq!(plain(text, 99), "Better words a co*de b link x y z w");
        assert_eq!(plain("<b>x</b> & <i>\n", 99), "x &");
        assert_eq!(plain("a <x-y> <!-- b -->", 99), "a <x-y>");
        assert_eq!(plain("one two three", 8), "one two…");
        assert_eq!(plain(&"ü ".repeat(100_000), 3), "ü ü…");
        assert_eq!(plain("", 9), "");
    }
}

//! Tests of what a rendered difference shows as source: everything that it would hide otherwise.

use proptest::prelude::*;

use super::*;

const TEXT: &str = "# Guide\n\nFirst words and more.\n\nSecond [link](https://a.example/x \"old\") \
    here.\n\n![pic](a.png)\n\n[ref]: https://ref.example/1\n\nSee [ref] and <b title=\"old\">bold\
    </b> text.\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\n```sh\necho hi\n```\n\n- one\n- two\n\n\
    <p align=\"old\">Some HTML</p>\n\nLast line\n";

/// Returns how many lines are shown as source.
fn sources(old: &str, new: &str) -> usize {
    let rows = rendered(old, new).unwrap().rows;
    rows.iter().filter(|it| it.block == BlockSort::Source).count()
}

#[test]
fn whatever_changes_is_shown() {
    let mut wrong = Vec::new();
    for (was, is, seen) in [
        ("Last", "[//]: # (RUN it)\nLast", "RUN it"),
        ("Last", "[//]: # (RUN it)\n\nLast", "RUN it"),
        ("Last", "[x]: <> 'a\nRUN it'\n\nLast", "RUN it"),
        ("[ref]: ", "[RUN]: https://x.example\n[ref]: ", "RUN"),
        ("ref.example/1", "ref.example/1 'RUN'", "RUN"),
        ("\"old\") here", "\"RUN\") here", "RUN"),
        ("a.png", "a.png 'RUN'", "RUN"),
        ("words", "[words][RUN]\n\n[RUN]: https://x.example\n\nmore", "][RUN]"),
        ("<b title=\"old\">", "<b title=\"RUN\">", "RUN"),
        ("<b title=\"old\">", "<b data-run=\"RUN\" title=\"old\">", "RUN"),
        ("align=\"old\"", "align=\"RUN\"", "RUN"),
        ("words", "words<!-- RUN -->", "RUN"),
        ("Some HTML", "Some <!-- RUN -->HTML", "RUN"),
        ("Last", "<!-- RUN -->\n\nLast", "RUN"),
        ("Last", "<p hidden class=RUN>\n\nLast", "RUN"),
        ("Last", "<img alt=\"RUN\">\n\nLast", "RUN"),
        ("Last", "<details><summary></summary>RUN</details>\n\nLast", "RUN"),
        ("Last", "<script>RUN</script>\n\nLast", "RUN"),
        ("Last", "<?RUN?>\n\nLast", "RUN"),
        ("Last", "<![CDATA[RUN]]>\n\nLast", "RUN"),
        ("Last", "[^RUN]: never mentioned\n\nLast", "never mentioned"),
        ("Last", "[^a]: never mentioned RUN\n\nLast", "RUN"),
        ("```sh", "```sh RUN", "RUN"),
        ("# Guide", "---\nallow: RUN\n---\n\n# Guide", "RUN"),
        ("words", "w&#111;rds", "&#111;"),
        ("words", "words&zwnj;", "&zwnj;"),
        ("words", "words\u{200b}", "\u{200b}"),
        ("more.\n", "more.\u{3000}\n", "\u{3000}"),
        ("more.", "more\\.", "\\"),
        ("---|---", ":--|--:", ":"),
        ("```sh\necho hi\n```", "````sh\necho hi\n````", "`"),
        ("- one\n- two", "* one\n* two", "*"),
        ("- one", "7. one", "7."),
    ] {
        let new = TEXT.replacen(was, is, 1);
        assert_ne!(new, TEXT);
        for (old, new, mark) in [(TEXT, new.as_str(), "+["), (new.as_str(), TEXT, "-[")] {
            let made = reads(old, new);
            let is_marked = |it: &String| it.split(mark).skip(1).any(|it| it.contains(seen));
            wrong.extend((!made.iter().any(is_marked)).then(|| format!("{is}: {made:#?}")));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn only_spaces_are_one_note() {
    for (was, is) in [("\n", "\r\n"), ("more.\n", "more. \n"), ("Last line\n", "Last line")] {
        assert_eq!(sources(TEXT, &TEXT.replace(was, is)), 1, "{was:?} to {is:?}");
    }
    assert_eq!(sources(TEXT, &TEXT.replace("words and", "words\nand")), 1);
    assert_eq!(sources(TEXT, TEXT), 0);
}

#[test]
fn what_stays_is_not_called_moved() {
    let new = TEXT.replace("words and", "words<!-- x --> and");
    for (old, new) in [(TEXT, new.as_str()), (TEXT, &TEXT.replace('\n', "\r\n"))] {
        let rows = rendered(old, new).unwrap().rows;
        let is_moved =
            |it: &RenderedRow| matches!(it.sort, RowSort::MovedAway(_) | RowSort::MovedHere(_));
        assert!(!rows.iter().any(is_moved), "{rows:#?}");
        assert_eq!(redline(old, new).moves, [], "{new}");
    }
}

#[test]
fn what_is_rendered_is_not_repeated_as_source() {
    for text in [
        "# A heading\n\nWords\n===\n\n---\n",
        "- one\n- [x] two\n  - three\n\n1. one\n1. two\n\n5) five\n6) six\n",
        "| a | b |\n|:--|--:|\n| 1 é| 2 é|\n",
        "```sh\necho 'é'\n```\n\n    indented\n",
        "> quoted\n> more\n\n> [!NOTE]\n> mind it\n\n> [!tip]\n> x\n",
        "[x](https://a.example/b \"title\") ![y](z.png) <https://b.example> **s** _e_ ~~d~~ `c`\n",
        "[![badge](a.png)](b.html) and a note[^1].\n\n[^1]: The note.\n",
        "---\ntitle: x\n---\n\n日本語の文。\nAuch ähnliche Wörter – „so“.\n",
        "Some <b>bold</b> words.<br>\n<kbd>A</kbd> &\n\n<details>\nx\n</details>\n",
        "Two words,  \nbroken hard\\\nand again.\n",
    ] {
        assert_eq!(sources("", text), 0, "{:#?}", reads("", text));
        assert_eq!(sources(text, ""), 0, "{:#?}", reads(text, ""));
        let edited = text.replace('x', "xyz").replace("Words", "Other words");
        let made = reads(text, &edited);
        let places = edited.matches("xyz").count();
        assert!(
            sources(text, &edited) <= usize::from(places > 0 && text.contains("[x]")),
            "{made:?}"
        );
    }
}

proptest! {
    #[test]
    fn no_word_of_a_source_is_hidden(
        parts in prop::collection::vec(prop::sample::select(vec![
            "\n", "\n\n", " ", "# ", "- ", "1. ", "> ", "> [!NOTE]\n> ", "```", "~~~ ", "`", "*",
            "[", "]", "](", ")", "]: ", "\"", "'", "<!-- ", " -->", "<p ", "<b>", ">", "</p>", "<",
            "&", ";", "|", "|---|\n", "[^", "\\", "---\n", "    ", "![", "=", "\t", "\r\n",
        ]), 0..40),
        old in prop::sample::select(vec!["", TEXT, "W1W\n", "[a]: b 'W2W'\n\n- W3W\n"]),
    ) {
        let mut new = String::new();
        for (number, part) in parts.iter().enumerate() {
            new += part;
            new += &format!("W{number}W");
        }
        let made = rendered(old, &new).unwrap();
        let spans = made.rows.iter().flat_map(|it| &it.spans).filter(|it| it.mark != Mark::Gone);
        let all: String = spans.map(|it| it.text.as_str()).collect();
        let markers: String = made.rows.iter().map(|it| it.marker.as_str()).collect();
        for number in 0..parts.len() {
            let word = format!("W{number}W");
            let is_seen = all.contains(&word) || markers.contains(&word) || old.contains(&word);
            prop_assert!(is_seen, "{word} of {new:?} is not in {all:?}");
        }
    }
}

//! Tests of rendered Markdown: what is shown, what never is, and the way back to the text.

mod html;

use std::collections::HashMap;
use std::ops::Range;
use std::time::Instant;

use proptest::prelude::*;

use crate::http::markdown::map::{bytes_between, points_of};
use crate::http::markdown::{Block, Highlighter, Links, Rendered, render, with_map};

/// The elements that may be written, and their attributes.
const ELEMENTS: &str = "p h1 h2 h3 h4 h5 h6 blockquote div pre ul ol li table thead tbody tr th td \
    em strong del a span code sup img input hr br bdi \
    abbr b caption cite dd details dfn dl dt figcaption figure i ins kbd mark q s samp small sub \
    summary tfoot u var wbr";
const ATTRIBUTES: &str = "id class href rel title data-b data-n data-lang data-code src alt \
    loading decoding start type disabled checked aria-label tabindex role dir \
    width height open colspan rowspan";
/// Elements that a browser lets stand only within these.
const WITHIN: &[(&str, &[&str])] = &[
    ("li", &["ul", "ol"]),
    ("tr", &["table", "thead", "tbody", "tfoot"]),
    ("td", &["tr"]),
    ("th", &["tr"]),
    ("thead", &["table"]),
    ("tbody", &["table"]),
    ("tfoot", &["table"]),
    ("caption", &["table"]),
    ("dt", &["dl"]),
    ("dd", &["dl"]),
    ("summary", &["details"]),
];
/// Elements that a browser ends where a block begins.
const WORDS: &[&str] = &["p", "h1", "h2", "h3", "h4", "h5", "h6"];
const BLOCKS: &[&str] = &[
    "p",
    "h1",
    "h2",
    "h3",
    "h4",
    "h5",
    "h6",
    "div",
    "pre",
    "ul",
    "ol",
    "table",
    "dl",
    "details",
    "blockquote",
    "hr",
    "figure",
];

fn html(text: &str) -> String {
    render(text, &Links::of_document("docs/a.md")).html.to_string()
}

/// One piece of HTML.
enum Piece<'h> {
    Open(&'h str, Vec<(&'h str, String)>),
    Close(&'h str),
    Text(String),
}

fn unescaped(text: &str) -> String {
    let named = [("&lt;", "<"), ("&gt;", ">"), ("&quot;", "\""), ("&#39;", "'"), ("&amp;", "&")];
    named.iter().fold(text.to_owned(), |text, (from, to)| text.replace(from, to))
}

/// Reads our own HTML as a browser would, and fails on anything that is not ours.
fn pieces(html: &str) -> Vec<Piece<'_>> {
    let mut pieces = Vec::new();
    let mut rest = html;
    while let Some(at) = rest.find('<') {
        if at > 0 {
            assert!(!rest[..at].contains('>'), "a bare > in {rest}");
            pieces.push(Piece::Text(unescaped(&rest[..at])));
        }
        let (tag, tail) = rest[at + 1..].split_once('>').expect("a tag ends");
        // A browser takes a line feed here for one of the markup.
        let is_set = tag == "pre" || tag.starts_with("pre ");
        rest = if is_set { tail.strip_prefix('\n').unwrap_or(tail) } else { tail };
        if let Some(name) = tag.strip_prefix('/') {
            pieces.push(Piece::Close(name));
            continue;
        }
        let (name, mut attributes) = tag.split_once(' ').unwrap_or((tag, ""));
        assert!(ELEMENTS.split_whitespace().any(|it| it == name), "<{tag}>");
        let mut found = Vec::new();
        while !attributes.is_empty() {
            let end = attributes.find(['=', ' ']).unwrap_or(attributes.len());
            let (name, tail) = attributes.split_at(end);
            assert!(ATTRIBUTES.split_whitespace().any(|it| it == name), "{name} in <{tag}>");
            let (value, tail) = match tail.strip_prefix("=\"") {
                Some(tail) => tail.split_once('"').expect("a value ends"),
                None => ("", tail),
            };
            assert!(found.iter().all(|(it, _)| *it != name), "{name} twice in <{tag}>");
            found.push((name, unescaped(value)));
            attributes = tail.strip_prefix(' ').unwrap_or(tail);
        }
        pieces.push(Piece::Open(name, found));
    }
    if !rest.is_empty() {
        pieces.push(Piece::Text(unescaped(rest)));
    }
    pieces
}

/// Returns the `textContent` of each block by its stamp; fails on HTML that is not well formed.
fn contents(html: &str) -> HashMap<String, String> {
    let mut found = HashMap::new();
    let mut open: Vec<(&str, Option<String>)> = Vec::new();
    let mut ids = std::collections::HashSet::new();
    for piece in pieces(html) {
        match piece {
            Piece::Open(name, attributes) => {
                let value = |wanted: &str| {
                    attributes.iter().find(|it| it.0 == wanted).map(|it| it.1.clone())
                };
                check_address(value("href"), value("src"));
                check_place(name, &open.iter().map(|it| it.0).collect::<Vec<_>>());
                assert!(value("dir").is_none_or(|it| it == "rtl"), "{html}");
                if let Some(id) = value("id") {
                    assert!(id.starts_with("md-") && ids.insert(id.clone()), "{id}");
                }
                let stamp = value("data-b");
                if let Some(stamp) = &stamp {
                    assert!(open.iter().all(|it| it.1.is_none()), "blocks within blocks");
                    assert!(found.insert(stamp.clone(), String::new()).is_none(), "{stamp} twice");
                }
                if !["img", "input", "hr", "br", "wbr"].contains(&name) {
                    open.push((name, stamp));
                }
            }
            Piece::Close(name) => assert_eq!(open.pop().map(|it| it.0), Some(name), "{html}"),
            Piece::Text(text) => {
                for stamp in open.iter().filter_map(|it| it.1.as_ref()) {
                    found.get_mut(stamp).unwrap().push_str(&text);
                }
            }
        }
    }
    assert!(open.is_empty());
    found
}

/// Fails on an element that a browser would put elsewhere, or that would end another.
fn check_place(name: &str, open: &[&str]) {
    let parent = open.last().copied().unwrap_or_default();
    if let Some((_, parents)) = WITHIN.iter().find(|it| it.0 == name) {
        // Rows of Markdown that are too deep have no element.
        let is_deep = open.len() > 40;
        assert!(parents.contains(&parent) || is_deep, "<{name}> in {open:?}");
    } else if ["table", "thead", "tbody", "tfoot", "tr"].contains(&parent) {
        assert!(open.len() > 40, "<{name}> in {open:?}");
    }
    if BLOCKS.contains(&name) {
        let words = open.iter().rposition(|it| WORDS.contains(it));
        let cell = open.iter().rposition(|it| ["td", "th"].contains(it));
        assert!(words.is_none() || words < cell, "<{name}> in {open:?}");
    }
    assert!(name != "a" || !open.contains(&"a"), "a link in a link: {open:?}");
}

fn check_address(href: Option<String>, src: Option<String>) {
    if let Some(href) = href {
        let lower = href.to_ascii_lowercase();
        let is_fine = lower.starts_with("/d") && !lower.starts_with("//")
            || ["#md-", "/raw/", "http://", "https://", "mailto:"]
                .iter()
                .any(|it| lower.starts_with(it));
        assert!(is_fine, "{href:?}");
    }
    assert!(src.is_none_or(|it| it.starts_with("/raw/")), "an image of elsewhere");
}

/// Fails unless the blocks are what the browser will have.
fn check_parity(text: &str, rendered: &Rendered) {
    let mut contents = contents(rendered.html.as_str());
    assert!(rendered.blocks.windows(2).all(|it| it[0].start < it[1].start));
    for block in &rendered.blocks {
        let stamp = format!("{}-{}", block.start, block.end);
        let content = contents.remove(&stamp).unwrap_or_else(|| panic!("no {stamp}"));
        assert_eq!(content.encode_utf16().count(), block.units, "{content:?} {block:?}");
        let units: Vec<u16> = content.encode_utf16().collect();
        let mut at = 0;
        for run in &block.runs {
            assert_eq!(run.at, at, "{block:?}");
            at += run.units;
            assert!(run.start <= run.end && text.is_char_boundary(run.start), "{run:?}");
            let shown = String::from_utf16(&units[run.at..run.at + run.units]).unwrap();
            let source: String = text[run.start..run.end]
                .chars()
                .filter(|it| matches!(it, '\n' | '\t') || !it.is_control())
                .collect();
            if run.is_literal {
                assert_eq!(shown.replace('\n', " "), source.replace('\n', " "));
            }
        }
        assert!(block.runs.windows(2).all(|it| it[0].end <= it[1].start), "{block:?}");
    }
    assert!(contents.is_empty(), "unknown blocks {contents:?}");
}

fn checked(text: &str) -> Rendered {
    let rendered = with_map(text, &Links::of_document("docs/a.md"));
    check_parity(text, &rendered);
    rendered
}

/// Returns the bytes that are selected from one shown text to another.
fn selected(text: &str, from: &str, to: &str) -> String {
    let rendered = checked(text);
    let contents = contents(rendered.html.as_str());
    let find = |word: &str, is_end: bool| {
        let place = |block: &Block| {
            let content = &contents[&format!("{}-{}", block.start, block.end)];
            let at = content.find(word)? + if is_end { word.len() } else { 0 };
            let unit = content[..at].encode_utf16().count();
            Some(super::Point { block: block.start, unit })
        };
        rendered.blocks.iter().find_map(place).unwrap_or_else(|| panic!("no {word}"))
    };
    let range = bytes_between(text, &rendered.blocks, find(from, false), find(to, true)).unwrap();
    text[range].to_owned()
}

#[test]
fn what_documents_use_is_shown() {
    let shown = html("# A *b*\n\n## A b\n\ntext `co<de` **x** ~~y~~ [l](b.md#c) <https://a.org>\n");
    assert!(shown.starts_with("<h1 id=\"md-a-b\">A <em>b</em></h1>"), "{shown}");
    assert!(shown.contains("<h2 id=\"md-a-b-1\">"), "{shown}");
    assert!(shown.contains("<code>co&lt;de</code> <strong>x</strong> <del>y</del> "), "{shown}");
    assert!(shown.contains("<a href=\"/d/docs/b.md#md-c\">l</a>"), "{shown}");
    assert!(shown.contains("<a href=\"https://a.org\" rel=\"noopener noreferrer nofollow\""));
    let shown = html("- [x] a\n- [ ] b\n  - c\n\n3. d\n\n| a | b |\n|:-:|--:|\n| 1 | 2 |\n");
    assert!(shown.contains("<li><input type=\"checkbox\" disabled checked aria-label=\"Done\">"));
    assert!(shown.contains("<ol start=\"3\"><li>d</li></ol>"), "{shown}");
    assert!(shown.contains("<th class=\"md-center\">a</th><th class=\"md-end\">b</th>"));
    assert!(shown.contains("</thead><tbody><tr><td class=\"md-center\">1</td>"), "{shown}");
    let shown = html("> [!WARNING]\n> w\n\na[^n] www https://b.org/c_d.\n\n[^n]: foot\n\n---\n");
    assert!(shown.contains("md-alert-warning\"><p class=\"md-alert-title\">Warning</p><p>w</p>"));
    assert!(shown.contains("href=\"#md-note-1\""), "{shown}");
    assert!(shown.contains("id=\"md-note-1\" data-n=\"1\"><p>foot</p></div><hr>"), "{shown}");
    assert!(shown.contains(">https://b.org/c_d</a>.</p>"), "{shown}");
    let shown = html("---\ntitle: x\n---\n# T\n\n```rust\nlet a;\n```\n\n![i](b.png \"t\")\n");
    assert!(shown.starts_with("<pre class=\"md-front\""), "{shown}");
    assert!(shown.contains("data-lang=\"rust\"><code>let a;\n</code></pre>"), "{shown}");
    assert!(shown.contains("<img src=\"/raw/docs/b.png\" alt=\"i\" loading"), "{shown}");
}

#[test]
fn images_of_elsewhere_are_words_and_links_lead_nowhere_else() {
    let shown = html("![w](https://evil.example/?q=1)\n\n[![w](https://evil.example/i)](x.md)\n");
    assert!(!shown.contains("<img"), "{shown}");
    assert!(shown.contains("class=\"md-image\">w</a>"), "{shown}");
    assert!(html("[x](javascript:alert(1))").contains("<span class=\"md-nowhere\">x</span>"));
    assert!(html("![a\"><script>](b.png)").contains("alt=\"a&quot;&gt;&lt;script&gt;\""));
}

#[test]
fn a_selection_over_markup_is_its_bytes() {
    for (text, from, to, expected) in [
        ("a **bold** and `code` end", "bold", "co", "bold** and `co"),
        ("# Head *x*\n\npara\n", "ad", "pa", "ad *x*\n\npa"),
        ("- one\n- two **x**\n  more\n", "ne", "mo", "ne\n- two **x**\n  mo"),
        ("| a | bb |\n|---|----|\n| cc | `d` |\n", "b", "d", "bb |\n|---|----|\n| cc | `d"),
        ("x &amp; y &lt;z&gt;", "&", "<", "&amp; y &lt;"),
        ("ein \u{1f469}\u{200d}\u{1f4bb} Haus ü!", "Haus", "ü", "Haus ü"),
        ("> quo\n> ted `a b`\n", "quo", "ted", "quo\n> ted"),
        ("```rust\nfn a() {}\nfn b() {}\n```\n", "a()", "fn b", "a() {}\nfn b"),
        (
            "a\r\nb **c**\r\n\r\n    code\r\n    more\r\n",
            "b",
            "more",
            "b **c**\r\n\r\n    code\r\n    more",
        ),
        ("\u{feff}# T\n\ntext", "T", "te", "T\n\nte"),
        ("a \\* b \\_c", "*", "_c", "* b \\_c"),
        ("a<b>c</b>d", "c", "d", "c</b>d"),
        ("x[^1] y\n\n[^1]: note\n", "x", "1", "x[^1]"),
        ("[link text](http://a.org/b) z", "text", "z", "text](http://a.org/b) z"),
        ("<div>\r\nraw\r\nmore\r\n</div>\r\n", "raw", "mo", "raw\r\nmo"),
        ("``a ` b`` `` ` `` x", "a", "b", "a ` b"),
    ] {
        assert_eq!(selected(text, from, to), expected, "{text:?}");
    }
    let text = "![x](y.png)\n\ntext";
    let rendered = checked(text);
    let point = super::Point { block: 0, unit: 0 };
    assert_eq!(bytes_between(text, &rendered.blocks, point, point), Some(0..11));
    let (from, to) = points_of(text, &rendered.blocks, &(5..10)).unwrap();
    assert_eq!((from.block, to.block), (0, 0));
    let far = super::Point { block: 13, unit: 5 };
    assert_eq!(bytes_between(text, &rendered.blocks, point, far), None);
}

#[test]
fn deep_and_wide_texts_are_bounded() {
    let highlighter = Highlighter::load();
    let links = Links::of_document("a.md").with_code(&highlighter);
    let wide =
        format!("|{}\n|{}\n{}", "a|".repeat(5_000), "-|".repeat(5_000), "|x\n".repeat(5_000));
    for text in [
        "> ".repeat(20_000),
        "- ".repeat(20_000),
        "[".repeat(50_000),
        "*a ".repeat(30_000),
        "![".repeat(30_000),
        "[a](b".repeat(20_000),
        "`a``b".repeat(20_000),
        "# a\n".repeat(20_000),
        "http://(".repeat(12_000),
        "&".repeat(100_000),
        "<a ".repeat(30_000),
        wide,
        "[^a]: b\n".repeat(10_000),
        "[^a]".repeat(20_000),
        "\u{202e}".repeat(30_000),
        "* > 1. ".repeat(10_000),
        "a~~b".repeat(25_000),
        "\\".repeat(100_000),
        "\0".repeat(100_000),
        "```rust\n".to_owned() + &"((((\"".repeat(20_000),
    ] {
        let started = Instant::now();
        let rendered = with_map(&text, &links);
        let took = started.elapsed();
        let begin = &text[..text.floor_char_boundary(12)];
        assert!(took.as_millis() < 3_000, "{begin:?} took {took:?}");
        let most = 80 * text.len() + 10_000;
        assert!(rendered.html.as_str().len() < most, "{begin:?} {}", rendered.html.as_str().len());
        check_parity(&text, &rendered);
    }
}

#[test]
fn a_long_text_is_in_parts_and_a_short_one_is_not() {
    let section = |at: usize| format!("## Part {at}\n\n{}\n\n- a\n- b\n\n", "word ".repeat(60));
    let long: String = (0..100).map(section).collect();
    let rendered = checked(&long);
    let parts: Vec<&str> = rendered.html.as_str().split("<div class=\"md-part").skip(1).collect();
    assert!(parts.len() > 5, "{}", parts.len());
    let (last, others) = parts.split_last().unwrap();
    // Each but the last closes before a heading, whose own room counts; nothing is lost between.
    assert!(others.iter().all(|it| it.starts_with(" md-part-close\"><h2")), "{others:?}");
    assert!(last.starts_with("\"><h2") && last.ends_with("</div>"));
    let whole = rendered.html.as_str().replace("<div class=\"md-part md-part-close\">", "");
    let whole = whole.replace("<div class=\"md-part\">", "").replace("</div>", "");
    let links = Links::of_document("docs/a.md");
    let short: String =
        (0..100).map(|at| with_map(&section(at), &links).html.to_string()).collect();
    let text = |html: &str| {
        html.split('<')
            .filter_map(|it| it.split_once('>'))
            .map(|it| it.1.to_owned())
            .collect::<String>()
    };
    assert_eq!(text(&whole), text(&short));
    assert!(!short.contains("class=\"md-part"));
    // Without headings a part ends at any block, and never within one.
    let list =
        format!("{}\n\n{}", "- item of a list\n".repeat(3_000), "A paragraph.\n\n".repeat(3_000));
    let html = checked(&list).html.to_string();
    assert!(html.starts_with("<div class=\"md-part\"><ul>") && html.contains("</p></div><div"));
}

/// Pieces of Markdown, well formed and not.
fn markdown() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        6 => "[a-z]{1,6} ",
        2 => Just("\n\n".to_owned()),
        1 => Just("\n".to_owned()),
        1 => Just("\r\n".to_owned()),
        1 => Just("# ".to_owned()),
        1 => Just("\n- ".to_owned()),
        1 => Just("\n  1. ".to_owned()),
        1 => Just("\n> ".to_owned()),
        1 => Just("\n```js\nlet x = `a<b>`;\n```\n".to_owned()),
        1 => Just("\n| a | `b\\|c` |\n|---|:-:|\n| *d* | e |\n".to_owned()),
        1 => Just("\n    ".to_owned()),
        1 => Just("- [ ] ".to_owned()),
        1 => Just("[^n]".to_owned()),
        1 => Just("\n[^n]: ".to_owned()),
        1 => Just("&amp;".to_owned()),
        3 => html::tag(),
        1 => Just("https://a.org/x_y ".to_owned()),
        1 => Just("![i](j.png)".to_owned()),
        1 => Just("[t](u.md 'v')".to_owned()),
        3 => "[*_`~\\[\\]()!<>\\\\|\"'&#:-]{1,3}",
        1 => Just("  \n".to_owned()),
        1 => Just("---\n".to_owned()),
        1 => "[\u{1f469}\u{200d}äö日\u{202e}\u{feff}\t\u{1}\u{a0}]{1,3}",
        1 => any::<char>().prop_map(|it| it.to_string()),
    ];
    proptest::collection::vec(piece, 0..40).prop_map(|it| it.concat())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    #[test]
    fn any_text_is_shown_by_our_elements_and_mapped(text in markdown()) {
        checked(&text);
    }

    #[test]
    fn bytes_that_are_shown_come_back(text in markdown(), picks in any::<[u16; 2]>()) {
        let rendered = checked(&text);
        let literal = |run: &super::map::Run| run.is_literal;
        let shown: Vec<usize> = rendered.blocks.iter().flat_map(|it| it.runs.iter())
            .filter(|it| literal(it))
            .flat_map(|it| text[it.start..it.end].char_indices().map(move |(at, _)| it.start + at))
            .filter(|at| text[*at..].chars().next().is_some_and(|it| !it.is_control()))
            .collect();
        prop_assume!(!shown.is_empty());
        let pick = |it: u16| shown[usize::from(it) % shown.len()];
        let (one, two) = (pick(picks[0]), pick(picks[1]));
        let (start, last) = (one.min(two), one.max(two));
        let end = last + text[last..].chars().next().map_or(0, char::len_utf8);
        let range: Range<usize> = start..end;
        let (from, to) = points_of(&text, &rendered.blocks, &range).unwrap();
        prop_assert_eq!(bytes_between(&text, &rendered.blocks, from, to), Some(range));
    }
}

#[test]
fn a_block_of_another_dialect_keeps_its_lines() {
    for mark in ["!!! note", "??? tip", "???+ tip", "=== \"Linux\"", ":::tip"] {
        let shown = html(&format!("{mark}\n    Words\n"));
        assert!(shown.contains("<p class=\"md-lines\">") && shown.contains("\nWords"), "{shown}");
    }
    let shown = html("!!!\nWords");
    assert!(!shown.contains("md-lines"), "{shown}");
}

//! Tests of HTML in a document: what is shown of it, and that it breaks out of nothing.

use std::time::Instant;

use proptest::prelude::*;

use super::{check_parity, checked, contents, html, selected};
use crate::http::markdown::{Links, with_map};

/// A tag, between blocks or within words.
pub(super) fn tag() -> impl Strategy<Value = String> {
    let names = "a abbr b blockquote br caption center code dd details div dl dt em h1 h3 hr i img \
        ins kbd li mark ol p picture pre q script source span strong style sub summary sup svg \
        table tbody td th thead tr u ul var x-y";
    let names: Vec<&str> = names.split_whitespace().collect();
    let attributes = [
        "",
        "",
        " id=x",
        " id=\"forms\" name='main'",
        " href=a.md",
        " href='javascript:x'",
        " src=a.png width=9 height='50%'",
        " align=center",
        " onclick=\"x()\" style='a:b'",
        " open title='\"><script>'",
        " colspan=2",
        " class=md-part data-b=1-2",
    ];
    let around = ["{}", "{}", "\n{}\n", "\n\n{}\n\n", "\n> {}\n> x\n\n"];
    let written = (
        proptest::sample::select(names),
        proptest::sample::select(attributes.to_vec()),
        proptest::sample::select(around.to_vec()),
        any::<bool>(),
    );
    written.prop_map(|(name, attributes, around, is_end)| {
        let tag = if is_end { format!("</{name}>") } else { format!("<{name}{attributes}>") };
        around.replace("{}", &tag)
    })
}

#[test]
fn elements_that_documents_use_are_shown() {
    for (text, expected) in [
        (
            "<p align=\"center\">\n  <img src=\"logo.png\" width=\"120\" alt=\"Logo\">\n</p>",
            "<p class=\"md-center\"><img width=\"120\" src=\"/raw/docs/logo.png\" alt=\"Logo\" \
             loading=\"lazy\" decoding=\"async\">\n</p>",
        ),
        ("Press <kbd>Ctrl</kbd>", "<p>Press <kbd>Ctrl</kbd></p>"),
        ("H<sub>2</sub>O<br>x", "<p>H<sub>2</sub>O<br>\nx</p>"),
        (
            "<details open>\n<summary>More</summary>\n\n**Bold** text\n\n</details>\n\nafter",
            "<details open><summary><span>More</span></summary><p><strong>Bold</strong> text</p>\
             </details><p>after</p>",
        ),
        (
            "<div class=\"warning\" onclick=\"x()\" style=\"a:b\">\n\n- a\n\n</div>",
            "<div><ul><li>a</li></ul></div>",
        ),
        (
            "<dl><dt>T<dd>D &amp; E</dl>",
            "<dl><dt><span>T</span></dt><dd><span>D &amp; E</span></dd></dl>",
        ),
        (
            "<h1 align=center>T <b>u</b></h1>",
            "<h1 id=\"md-t-u\" class=\"md-center\">T <b>u</b></h1>",
        ),
        (
            "<a id=\"install\"></a>\n\n## Install",
            "<span id=\"md-install\"></span><h2 id=\"md-install-1\">Install</h2>",
        ),
        ("[x](#y) <a name='Y'>z</a>", "<p><a href=\"#md-y\">x</a> <span id=\"md-y\">z</span></p>"),
        (
            "<a href='b.md' title='t' target=_blank>c</a>",
            "<p><a href=\"/d/docs/b.md\" title=\"t\">c</a></p>",
        ),
        ("<pre>\n  a\n\n  b</pre>", "<pre class=\"md-code\" tabindex=\"0\">  a\n\n  b</pre>"),
        ("| a |\n|---|\n| x<br>y <ul><li>z</li></ul> |", "<td>x<br>\ny <ul><li>z</li></ul></td>"),
        ("<img src=a.png align=right height=20px>", "<p><img height=\"20\" class=\"md-right\" src"),
        ("<picture><source srcset=x><img src=a.png></picture>", "<p><img src=\"/raw/docs/a.png\""),
        (
            "<ul>\n<li>a\n<li>b\n</ul>",
            "<ul><li><span>a\n</span></li><li><span>b\n</span></li></ul>",
        ),
        ("# A <!-- b --> <sup>c</sup>", "<h1 id=\"md-a--c\">A  <sup>c</sup></h1>"),
        ("text **b</div>** c", "<p>text <strong>b</strong> c</p>"),
        ("<div>\n\nin</div> out", "<div><p>in</p></div><span> out</span>"),
        ("> <b>x\n> y", "<blockquote><p><b>x\ny</b></p></blockquote>"),
    ] {
        let shown = html(text);
        assert!(shown.contains(expected), "{text:?} is {shown}");
        checked(text);
    }
}

#[test]
fn a_table_of_html_is_one_whatever_it_is_made_of() {
    let wrap = |it: &str| {
        format!(
            "<div class=\"md-table\" role=\"group\" aria-label=\"Table\" tabindex=\"0\"><table>{it}\
             </table></div>"
        )
    };
    for (text, expected) in [
        (
            "<table><tr><th>a<td colspan=2>b</table>",
            "<tr><th><span>a</span></th><td colspan=\"2\"><span>b</span></td></tr>",
        ),
        ("<table>\nx\n</table>", "<tr><td><span>x\n</span></td></tr>"),
        ("<table><tr>\n\n# H\n\n</table>", "<tr><td><h1 id=\"md-h\">H</h1></td></tr>"),
        (
            "<table><td>a<tr><td>b",
            "<tr><td><span>a</span></td></tr><tr><td><span>b</span></td></tr>",
        ),
        (
            "<table><td>\n\n```\nc\n```\n\n</td></table>",
            "<tr><td><pre class=\"md-code\" tabindex=\"0\"><code>c\n</code></pre></td></tr>",
        ),
    ] {
        assert_eq!(html(text), wrap(expected), "{text:?}");
        checked(text);
    }
    assert_eq!(html("<tr><td>a</td></tr>\n\n<li>b\n\n<dd>c"), "<p>a\n</p><p>b\n</p><p>c</p>");
}

#[test]
fn comments_are_not_shown() {
    for text in [
        "<!-- secret -->",
        "<!-- secret\n\nsecret -->",
        "a <!-- secret --> b",
        "# H <!-- secret -->",
        "<div><!-- secret --></div>",
        "> <!-- secret\n> secret -->",
        "<!-- secret\n\n# secret",
        "| a <!-- secret --> |\n|---|\n| b |",
        "![a <!-- secret -->](b.png)",
    ] {
        let shown = html(text);
        assert!(!shown.contains("secret") && !shown.contains("--"), "{text:?} is {shown}");
        checked(text);
    }
}

#[test]
fn what_is_not_listed_is_text() {
    for text in [
        "<script>alert(1)</script>",
        "x <script>alert(1)</script>",
        "<iframe src=//evil.example>",
        "<svg><style><img src=x onerror=alert(1)></style></svg>",
        "<math><mtext><table><mglyph><style><img src=x onerror=alert(1)>",
        "<form><input name=x><button formaction=javascript:x>",
        "<style>body { display: none }</style>",
        "<base href=//evil.example><link rel=stylesheet href=x><meta http-equiv=refresh>",
        "<video><audio src=x><object data=x><embed src=x><marquee>",
        "<noscript><p title=\"</noscript><img src=x onerror=alert(1)>\">",
        "<textarea><img src=x onerror=alert(1)></textarea>",
        "<template><b>x</b></template>",
        "<?php echo 1 ?>",
        "<!DOCTYPE html>",
        "<b<script>alert(1)</script>",
        "<my-element onclick=x>y</my-element>",
    ] {
        let shown = html(text);
        assert!(shown.contains("&lt;"), "{text:?} is {shown}");
        checked(text);
    }
}

#[test]
fn attributes_carry_nothing_else() {
    for (text, expected) in [
        ("<a href=\"javascript:alert(1)\">x</a>", "<p><span class=\"md-nowhere\">x</span></p>"),
        (
            "<a href=\"&#106;avascript&colon;alert(1)\">x</a>",
            "<p><span class=\"md-nowhere\">x</span></p>",
        ),
        ("<a href=\"java&#9;script:alert(1)\">x</a>", "<p><span class=\"md-nowhere\">x</span></p>"),
        ("<a href=\"java\nscript:alert(1)\">x</a>", "<p><span class=\"md-nowhere\">x</span></p>"),
        ("<a href=' &#1; javascript:x'>x</a>", "<p><span class=\"md-nowhere\">x</span></p>"),
        ("<a href=//evil.example>x</a>", "<p><span class=\"md-nowhere\">x</span></p>"),
        ("<a href='data:text/html,x'>x</a>", "<p><span class=\"md-nowhere\">x</span></p>"),
        (
            "<b id=forms class=bar style=x onmouseover=x data-b=1-2>x</b>",
            "<p><b id=\"md-forms\">x</b></p>",
        ),
        ("<b id='\"><img src=x>'>x</b>", "<p><b id=\"md-img-srcx\">x</b></p>"),
        ("<b id=a>x</b> <b id=a>y</b>", "<p><b id=\"md-a\">x</b> <b id=\"md-a-1\">y</b></p>"),
        (
            "<b title='\"><img src=x onerror=y>'>x</b>",
            "<p><b title=\"&quot;&gt;&lt;img src=x onerror=y&gt;\">x</b></p>",
        ),
        (
            "<a href='a.md'>x <a href='b.md'>y</a></a>",
            "<p><a href=\"/d/docs/a.md\">x <span>y</span></a></p>",
        ),
        (
            "<a href='a.md'>[x](b.md) https://c.org</a>",
            "<p><a href=\"/d/docs/a.md\"><span>x</span> https://c.org</a></p>",
        ),
        (
            "x <img src=a.png width=1e9 height=-1 srcset=x usemap=y>",
            "<p>x <img src=\"/raw/docs/a.png\" alt=\"\" loading",
        ),
        ("<td colspan=9999999>", ""),
    ] {
        let shown = html(text);
        assert!(shown.starts_with(expected), "{text:?} is {shown}");
        assert!(
            !["javascript", "onmouse", " style=", "srcset", "usemap"]
                .iter()
                .any(|it| shown.contains(it))
        );
        checked(text);
    }
    let shown = html("<img src=\"https://evil.example/x.png\" alt=\"Build\">");
    assert!(!shown.contains("<img") && shown.contains("class=\"md-image\">Build</a>"), "{shown}");
}

#[test]
fn words_in_html_lead_back_to_their_bytes() {
    for (text, from, to, expected) in [
        ("<div>\nOne <b>two</b>\n</div>", "One", "two", "One <b>two"),
        ("<table><tr><td>aa</td><td>b &amp; c</td></tr></table>", "aa", "&", "aa</td><td>b &amp;"),
        (
            "<details><summary>Sum</summary>\n\ntext *more*\n</details>",
            "um",
            "mo",
            "um</summary>\n\ntext *mo",
        ),
        ("> <p>one\n> two</p>\n", "one", "two", "one\n> two"),
        ("Press <kbd>Ctrl</kbd> now", "Ctrl", "now", "Ctrl</kbd> now"),
        ("a <!-- c --> b", "a", "b", "a <!-- c --> b"),
        ("<pre>\n\nx\n</pre>", "x", "x", "x"),
        ("<h2>Über <i>uns</i></h2>", "ber", "uns", "ber <i>uns"),
        ("<li>a\n\n- <b>c\n- d", "c", "d", "c\n- d"),
    ] {
        assert_eq!(selected(text, from, to), expected, "{text:?}");
    }
    let text = "x\n\n<p><img src=a.png></p>\n";
    let block = checked(text).blocks.pop().unwrap();
    assert_eq!(&text[block.start..block.end], "<p><img src=a.png>");
}

#[test]
fn hostile_html_is_bounded() {
    let links = Links::of_document("a.md");
    for text in [
        "<div>".repeat(200_000),
        "<div>\n\n".repeat(50_000),
        "<b>".repeat(200_000),
        "x <b>".repeat(100_000),
        "</div>".repeat(100_000),
        "<div><b>".repeat(50_000) + &"</i></div>".repeat(50_000),
        "<table>".repeat(50_000),
        "<table><tr><td>".repeat(30_000),
        "<ul><li>".repeat(50_000),
        "<details><summary>".repeat(50_000),
        "<a id=x>".repeat(50_000),
        "<img src=a.png>".repeat(30_000),
        "<p>a".repeat(100_000),
        "<p>&amp;".repeat(50_000),
        "<!--".repeat(100_000),
        "a <!--".repeat(50_000),
        "<pre>".repeat(50_000),
        "<td>".repeat(100_000),
        "> <div>\n".repeat(20_000),
        "> ".repeat(60) + &"<table><tr><td>x".repeat(5_000),
    ] {
        let started = Instant::now();
        let rendered = with_map(&text, &links);
        let took = started.elapsed();
        let begin = &text[..16];
        assert!(took.as_millis() < 3_000, "{begin:?} took {took:?}");
        assert!(rendered.html.as_str().len() < 80 * text.len() + 10_000, "{begin:?}");
        check_parity(&text, &rendered);
    }
}

#[test]
fn nothing_ends_what_markdown_began() {
    for text in [
        "</div></main></body></html>",
        "> </blockquote> out",
        "- a</li></ul>\n- b",
        "**a</strong> b</p>** c",
        "| a</td></tr></table> |\n|---|\n| b |",
        "[x</a> y](z.md)",
        "<div>\n\n> </div>\n\n</div>",
        "`</code>` </code>",
    ] {
        let shown = html(text);
        let with = format!("{text}\n\nafter\n");
        assert!(!shown.contains("&lt;/div"), "{shown}");
        // The block behind stands at the top again, as it does after plain words.
        let behind = checked(&with).html.to_string();
        assert!(behind.ends_with("after</p>"), "{behind}");
        contents(&shown);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    #[test]
    fn any_html_is_balanced_and_of_the_list(
        text in proptest::collection::vec(
            prop_oneof![4 => tag(), 2 => "[a-z&;]{1,5} ", 1 => Just("*".to_owned()),
                1 => Just("\n- ".to_owned()), 1 => Just("\n\n".to_owned()),
                1 => Just("<!-- ".to_owned()), 1 => Just("-->".to_owned()),
                1 => "[<>/\"'= a-b]{1,6}"],
            0..30,
        )
    ) {
        checked(&text.concat());
    }
}

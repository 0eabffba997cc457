//! Tests of HTML within Markdown: what is a tag, what is not, and the source ranges of words.

use std::time::Instant;

use proptest::prelude::*;

use super::*;

/// Returns parts as words: tags by their name, invisible parts in brackets.
fn seen(html: &str) -> String {
    let word = |(part, range): (Part, Range<usize>)| match part {
        Part::Tag(tag) => format!("<{}{}>", if tag.is_end { "/" } else { "" }, tag.name),
        Part::Comment => "[comment]".to_owned(),
        Part::Odd => format!("[{}]", &html[range]),
        Part::Words => resolved(&html[range]).into_iter().map(|it| it.0).collect(),
        Part::Raw => format!("[raw {}]", &html[range]),
    };
    parts(html).into_iter().map(word).collect()
}

fn value(tag: &str, name: &str) -> Option<String> {
    match parts(tag).into_iter().next() {
        Some((Part::Tag(tag), _)) => tag.value(name).map(str::to_owned),
        _ => None,
    }
}

#[test]
fn the_elements_are_sorted_by_name() {
    assert!(ELEMENTS.is_sorted_by(|a, b| a.0 < b.0));
    assert!(ELEMENTS.iter().all(|it| !RAW.contains(&it.0)));
}

#[test]
fn tags_words_and_comments_are_told_apart() {
    for (html, expected) in [
        ("a <B class=x>b</b > c", "a <b>b</b> c"),
        ("<br/><br /><img\n src='x'>", "<br><br><img>"),
        ("1 < 2 <3 <- <> </> x", "1 < 2 <3 <- <> </> x"),
        ("<!-- a\n--b -->c<!-->d", "[comment]c[comment]d"),
        ("<!-- open <b>", "[comment]"),
        ("<!DOCTYPE html><?php x ?>", "[<!DOCTYPE html>][<?php x ?>]"),
        ("<script>if (a < b) '<b>'</SCRIPT>x", "[<script>][raw if (a < b) '<b>'][</SCRIPT>]x"),
        ("<style><b>", "[<style>][raw <b>]"),
        ("<svg><p>x</svg>", "[<svg>]<p>x[</svg>]"),
        ("<b <i>x", "<b <i>x"),
        ("<b title='a>b'>x", "<b>x"),
        ("<b title='open>x", "<b title='open>x"),
        ("&amp;&lt;b&gt;&auml;&#106;&nope;&;&", "&<b>äj&nope;&;&"),
        ("<unknown-one a=b>x", "[<unknown-one a=b>]x"),
        ("<aa", "<aa"),
        ("<b\u{0}>x", "[<b\u{0}>]x"),
    ] {
        assert_eq!(seen(html), expected, "{html:?}");
    }
}

#[test]
fn attributes_are_read_as_a_browser_reads_them() {
    for (tag, name, expected) in [
        ("<a href=\"x y\">", "href", Some("x y")),
        ("<a HREF='j&#97;vascript:x'>", "href", Some("javascript:x")),
        ("<a href=a href=b>", "href", Some("a")),
        ("<a href = b/c>", "href", Some("b/c")),
        ("<details open>", "open", Some("")),
        ("<img/src=x/>", "src", Some("x/")),
        ("<a title=\"<b>\">", "title", Some("<b>")),
        ("<b>", "x", None),
    ] {
        assert_eq!(value(tag, name).as_deref(), expected, "{tag}");
    }
    let many: String = (0..100).map(|at| format!(" a{at}=1")).collect();
    assert_eq!(value(&format!("<b{many}>"), "a31").as_deref(), Some("1"));
    assert_eq!(value(&format!("<b{many}>"), "a32"), None);
}

#[test]
fn what_never_ends_is_read_once() {
    for html in [
        "<!--".repeat(100_000),
        "<script>".repeat(50_000),
        "<b a='".repeat(50_000),
        "<b a".repeat(50_000),
        "<b a=\"".repeat(50_000),
        "&".repeat(200_000),
        "&a".repeat(100_000),
        "<?".repeat(100_000),
        "</".repeat(100_000),
        "<div>".repeat(100_000),
    ] {
        let started = Instant::now();
        let found = parts(&html);
        let took = started.elapsed();
        assert!(took.as_millis() < 2_000, "{} took {took:?}", &html[..6]);
        assert_eq!(found.last().map(|it| it.1.end), Some(html.len()));
    }
}

proptest! {
    #[test]
    fn parts_leave_nothing_out(html in "[<>/!=&;'\"a-e \n\\-]{0,60}") {
        let mut at = 0;
        for (part, range) in parts(&html) {
            prop_assert_eq!(range.start, at);
            prop_assert!(range.end > at, "{:?}", part);
            at = range.end;
        }
        prop_assert_eq!(at, html.len());
    }
}

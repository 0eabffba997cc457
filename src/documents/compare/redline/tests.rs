//! Tests of the difference as rows: both texts are complete in it, and marks are what changed.

use proptest::prelude::*;

use super::*;

mod hidden;

fn body(text: &str, line: &Line) -> String {
    let body: String = line.pieces.iter().map(|it| &text[it.range.clone()]).collect();
    body + match line.end {
        LineEnd::Lf => "\n",
        LineEnd::CrLf => "\r\n",
        LineEnd::Text => "",
    }
}

/// Reassembles both texts from the rows, and checks the marks against the other side.
fn check(old: &str, new: &str) -> Redline {
    let made = redline(old, new);
    let (mut olds, mut news) = (String::new(), String::new());
    let (mut old_next, mut new_next) = (1, 1);
    for row in &made.rows {
        if let Some(line) = &row.old {
            assert_eq!(line.number, old_next, "every line of the old text once, in order");
            olds += &body(old, line);
            old_next += 1;
        }
        if let Some(line) = &row.new {
            assert_eq!(line.number, new_next, "every line of the new text once, in order");
            news += &body(new, line);
            new_next += 1;
        }
        match row.sort {
            RowSort::Kept => {
                let (a, b) = (row.old.as_ref().unwrap(), row.new.as_ref().unwrap());
                assert_eq!(body(old, a), body(new, b));
            }
            RowSort::Changed => assert!(row.old.is_some() && row.new.is_some()),
            RowSort::Removed | RowSort::MovedAway(_) => assert!(row.new.is_none()),
            RowSort::Added | RowSort::MovedHere(_) => assert!(row.old.is_none()),
        }
    }
    assert_eq!((olds.as_str(), news.as_str()), (old, new));
    // Unmarked parts are equal on both sides, except for whitespace: in the whole without moves,
    // and in every move.
    let kept = |text: &str, is_in: &dyn Fn(&Row) -> bool, side: fn(&Row) -> Option<&Line>| {
        let lines = made.rows.iter().filter(|it| is_in(it)).filter_map(side);
        let pieces = lines.flat_map(|it| &it.pieces).filter(|it| !it.is_changed);
        let all: String = pieces.map(|it| &text[it.range.clone()]).collect();
        all.split_whitespace().collect::<String>()
    };
    let is_still = |it: &Row| !matches!(it.sort, RowSort::MovedAway(_) | RowSort::MovedHere(_));
    assert_eq!(
        kept(old, &is_still, |it| it.old.as_ref()),
        kept(new, &is_still, |it| it.new.as_ref())
    );
    for number in 0..made.moves.len() {
        let is_of = |it: &Row| match it.sort {
            RowSort::MovedAway(n) | RowSort::MovedHere(n) => n == number,
            _ => false,
        };
        let words = kept(old, &is_of, |it| it.old.as_ref());
        assert_eq!(words, kept(new, &is_of, |it| it.new.as_ref()));
        assert!(!words.is_empty(), "a move has words of its own");
        let counted = |sort| made.rows.iter().filter(|it| it.sort == sort).count();
        assert_eq!(counted(RowSort::MovedAway(number)), made.moves[number].old.len());
        assert_eq!(counted(RowSort::MovedHere(number)), made.moves[number].new.len());
    }
    made
}

/// Returns the rows as text: preceded by `-`, `+`, `~`, `<` or `>`, with changes in brackets.
fn show(old: &str, new: &str) -> Vec<String> {
    let made = check(old, new);
    let marked = |text: &str, line: &Line| -> String {
        let part = |it: &Piece| match it.is_changed {
            true => format!("[{}]", &text[it.range.clone()]),
            false => text[it.range.clone()].to_owned(),
        };
        line.pieces.iter().map(part).collect()
    };
    let row = |row: &Row| {
        let a = row.old.as_ref().map(|it| marked(old, it)).unwrap_or_default();
        let b = row.new.as_ref().map(|it| marked(new, it)).unwrap_or_default();
        match row.sort {
            RowSort::Kept => format!(" {a}"),
            RowSort::Changed => format!("~{a}|{b}"),
            RowSort::Removed => format!("-{a}"),
            RowSort::Added => format!("+{b}"),
            RowSort::MovedAway(n) => format!("<{n} {a}"),
            RowSort::MovedHere(n) => format!(">{n} {b}"),
        }
    };
    made.rows.iter().map(row).collect()
}

#[test]
fn words_inside_a_line_are_marked() {
    let old = "# Plan\n\nWe build the bridge in May, if it does not rain.\n\nEnd.\n";
    let new = "# Plan\n\nWe build the bridge in June, if it does not rain.\n\nEnd.\n";
    assert_eq!(
        show(old, new)[2],
        "~We build the bridge in [May], if it does not rain.\
         |We build the bridge in [June], if it does not rain."
    );
    assert_eq!(show("a\n", ""), ["-[a]"]);
    assert_eq!(show("", "a\n\nb"), ["+[a]", "+", "+[b]"]);
    assert_eq!(show("a", "a\n"), ["~a|a"]);
    assert_eq!(show("same\r\n", "same\n"), ["~same|same"]);
    assert_eq!(show("a  b\n", "a b\n"), ["~a[  ]b|a[ ]b"]);
}

#[test]
fn a_paragraph_that_was_reflowed_has_no_word_marked_but_the_new_one() {
    let old = "one two three four\nfive six seven eight\nnine ten eleven\n";
    let new = "one two three and four\nfive six seven\neight nine ten eleven\n";
    let shown = show(old, new);
    let marks: String = shown.join("\n");
    assert_eq!(marks.matches('[').count(), 1, "{marks}");
    assert!(marks.contains("[and ]") || marks.contains("[ and]"), "{marks}");
}

#[test]
fn lines_that_share_nothing_do_not_stand_for_each_other() {
    let old = "The quick brown fox jumps over the lazy dog.\nA second line of words here.\nx\n";
    let new = "Entirely other sentences were written instead.\nNothing of it is left.\nx\n";
    let shown = show(old, new);
    assert!(shown[0].starts_with('-') && shown[2].starts_with('+'), "{shown:?}");
    assert!(shown.iter().take(4).all(|it| it.matches('[').count() == 1), "{shown:?}");
}

const PARAGRAPH: &str = "The bridge over the river is built of steel and of old oak.";

#[test]
fn a_paragraph_that_moved_is_shown_as_moved() {
    let rest: String = (0..6).map(|it| format!("Paragraph {it} stays where it was.\n\n")).collect();
    let old = format!("# Plan\n\n{PARAGRAPH}\n\n{rest}End.\n");
    let new = format!("# Plan\n\n{rest}{PARAGRAPH}\n\nEnd.\n");
    let made = check(&old, &new);
    assert_eq!(made.moves.len(), 1, "{:?}", show(&old, &new));
    let lost = made.rows.iter().filter(|it| matches!(it.sort, RowSort::Added | RowSort::Removed));
    assert_eq!(lost.count(), 0, "{:?}", show(&old, &new));
    // Moved and edited: the edit is marked at the new place.
    let edited = new.replace("old oak", "young oak");
    let shown = show(&old, &edited);
    let there = shown.iter().find(|it| it.starts_with('>')).unwrap();
    assert!(there.contains("[young]"), "{shown:?}");
}

#[test]
fn what_did_not_change_is_folded_but_for_some_lines() {
    let old: String = (0..40).map(|it| format!("line {it}\n")).collect();
    let new = old.replace("line 20\n", "other words\n").replace("line 23\n", "more of them\n");
    let made = check(&old, &new);
    assert_eq!(
        made.stretches(3),
        [Stretch::Folded(0..17), Stretch::Shown(17..27), Stretch::Folded(27..40)]
    );
    let same = redline("a\n", "a\n");
    assert_eq!(same.stretches(3), [Stretch::Shown(0..1)]);
    assert_eq!(redline("", "").stretches(3), []);
}

#[test]
fn hostile_texts_cost_no_more_than_large_ones() {
    let long = "a b ".repeat(1024 * 1024);
    let made = check(&long, &format!("{long}c"));
    assert!(made.is_coarse && made.rows.len() == 2, "a line of 4 MiB is shown as a whole");
    let old: String = (0..100_000).map(|it| format!("line {}\n", it % 7)).collect();
    let new: String = (0..100_000).map(|it| format!("line {}\n", it % 5)).collect();
    check(&old, &new);
    let old: String = (0..100_000).map(|it| format!("line {it}\n")).collect();
    let new: String = (0..100_000).rev().map(|it| format!("line {it} x\n")).collect();
    assert!(check(&old, &new).is_coarse);
}

#[test]
fn what_is_shown_as_moved_shares_words_as_it_is_shown() {
    let old = "\n\nsteel bridge steel bridge \n\r\nb \n\n\n";
    let new = "b The \n\n\nThe \n\nThe steel bridge \nsteel bridge \n\nThe \n\n";
    check(old, new);
}

#[test]
fn a_rendered_block_has_its_words_marked_and_its_links_shown() {
    let old = "# Plan\n\nWe *build* in May, see [it](a.md).\n\n- one\n- two\n\nSome text.\n";
    let new = "# Plan\n\nWe *build* in June, see [it](b.md).\n\n- one\n- two\n\n**Some text.**\n";
    let made = rendered(old, new).unwrap();
    let changed: Vec<&RenderedRow> =
        made.rows.iter().filter(|it| it.sort == RowSort::Changed).collect();
    assert_eq!(changed.len(), 2, "{made:?}");
    let text = |mark: Mark| -> String {
        let spans = changed[0].spans.iter().filter(|it| it.mark != mark);
        spans.map(|it| it.text.as_str()).collect()
    };
    assert_eq!(text(Mark::Come), "We build in May, see it ⟨a.md⟩.");
    assert_eq!(text(Mark::Gone), "We build in June, see it ⟨b.md⟩.");
    assert!(changed[0].spans.iter().any(|it| it.style.is_emphasis && it.text == "build"));
    assert!(changed[1].is_markup_only, "{changed:?}");
    let sorts: Vec<BlockSort> = made.rows.iter().map(|it| it.block).collect();
    assert_eq!(sorts[0], BlockSort::Heading(1));
    assert_eq!(sorts[2..4], [BlockSort::Item, BlockSort::Item]);
    assert!(rendered(&"x".repeat(2 * 1024 * 1024), "").is_none());
}

#[test]
fn an_alert_says_what_it_is_and_what_it_was() {
    let text = "> [!NOTE]\n> Mind the *step*.\n";
    let made = rendered(text, &text.replace("NOTE", "WARNING")).unwrap();
    let words = |row: &RenderedRow, mark: Mark| -> String {
        let spans = row.spans.iter().filter(|it| it.mark == mark);
        spans.map(|it| it.text.as_str()).collect()
    };
    let [title, body] = &made.rows[..] else { panic!("{:?}", made.rows) };
    assert_eq!((title.sort, title.block), (RowSort::Changed, BlockSort::Quote));
    assert_eq!(
        (words(title, Mark::Gone), words(title, Mark::Come)),
        ("Note".into(), "Warning".into())
    );
    assert_eq!((body.sort, body.block), (RowSort::Kept, BlockSort::Quote));
    assert_eq!(words(body, Mark::Same), "Mind the step.");
    // Words that do not form an alert are the document's own.
    let plain = rendered("> [!OTHER]\n> x\n", "> [!OTHER]\n> x\n").unwrap();
    assert_eq!(words(&plain.rows[0], Mark::Same), "[!OTHER] x");
}

/// Texts with many kinds of blocks.
const MARKDOWN: &str = "((# |- |> |> \\[!(NOTE|TIP)\\]\n> |1\\. )?\
    ([a-c*_`]{1,3}|\\[x\\]\\(y\\)|<b>| |\n){0,8}\n\n){0,5}";

proptest! {
    #[test]
    fn the_rows_are_both_texts(
        old in "((The |a |steel bridge |river,? |[a-d]{0,3} ){0,6}\r?\n(\n)?){0,14}[a-b]?",
        new in "((The |a |steel bridge |river,? |[a-d]{0,3} ){0,6}\r?\n(\n)?){0,14}[a-b]?",
    ) {
        check(&old, &new);
    }

    #[test]
    fn what_moved_is_what_stood_elsewhere(
        order in Just((0..9_usize).collect::<Vec<_>>()).prop_shuffle(),
    ) {
        let paragraph = |it: &usize| {
            let all = "alpha beta gamma delta epsilon zeta eta theta iota";
            let word = all.split(' ').nth(*it).unwrap();
            format!("{word} paragraph of {word} words about {word} and the rest\n\n")
        };
        let old: String = (0..9).map(|it| paragraph(&it)).collect();
        let new: String = order.iter().map(paragraph).collect();
        let made = check(&old, &new);
        for found in &made.moves {
            let lines = |text: &str, range: &Range<usize>| -> String {
                text.split_inclusive('\n').skip(range.start).take(range.len()).collect()
            };
            let (was, is) = (lines(&old, &found.old), lines(&new, &found.new));
            prop_assert_eq!(was.trim(), is.trim());
        }
    }

    #[test]
    fn a_rendered_difference_has_the_words_of_both(
        old in MARKDOWN,
        new in MARKDOWN,
    ) {
        let made = rendered(&old, &new).unwrap();
        let of = |text: &str| -> String {
            let rows = rendered(text, text).unwrap().rows;
            let spans = rows.iter().flat_map(|it| &it.spans);
            let all: String = spans.map(|it| it.text.as_str()).collect();
            all.split_whitespace().collect()
        };
        let side = |is_new: bool| -> String {
            let rows = made.rows.iter().filter(|it| match it.sort {
                RowSort::Removed | RowSort::MovedAway(_) => !is_new,
                RowSort::Added | RowSort::MovedHere(_) => is_new,
                RowSort::Kept | RowSort::Changed => true,
            });
            let hidden = if is_new { Mark::Gone } else { Mark::Come };
            let rows = rows.filter(|it| it.block != BlockSort::Source);
            let spans = rows.flat_map(|it| &it.spans).filter(|it| it.mark != hidden);
            let all: String = spans.map(|it| it.text.as_str()).collect();
            all.split_whitespace().collect()
        };
        prop_assert_eq!(side(true), of(&new));
        prop_assert_eq!(side(false), of(&old));
    }
}

/// Returns the rendered change: one block each, removed text in `-[ ]` and added text in `+[ ]`.
fn reads(old: &str, new: &str) -> Vec<String> {
    let span = |it: &Span| match it.mark {
        Mark::Same => it.text.clone(),
        Mark::Gone => format!("-[{}]", it.text),
        Mark::Come => format!("+[{}]", it.text),
    };
    let row = |it: &RenderedRow| {
        let unseen = if it.is_markup_only { "markup: " } else { "" };
        format!("{unseen}{}", it.spans.iter().map(span).collect::<String>())
    };
    rendered(old, new).unwrap().rows.iter().map(row).collect()
}

#[test]
fn html_is_compared_by_its_words() {
    let old = "<!-- keep -->\n<p align=center>Old <b>words</b></p>\n\nPress <kbd>A</kbd>\n";
    assert_eq!(
        reads(old, &old.replace("Old", "New")),
        ["-[Old]+[New] words", "Press A"],
        "neither tags nor comments are shown"
    );
    let unseen = reads(old, &old.replace("center", "right"));
    let tag = "<p align=-[center]+[right]>Old <b>words</b></p>";
    assert_eq!(unseen, ["markup: Old words", tag, "Press A"], "a changed attribute is shown");
    let comment = reads(old, &old.replace("keep", "obey me"));
    assert!(comment.concat().contains("obey"), "a changed comment is shown: {comment:?}");
    let link = "<a href=\"https://a.org\">x</a> y\n";
    let moved = reads(link, &link.replace("a.org", "evil.example"));
    assert!(moved.concat().contains("evil.example"), "where a link leads is shown: {moved:?}");
    let image = reads("<p><img src=a.png alt=A></p>\n", "<p><img src=b.png alt=A></p>\n");
    assert!(image.concat().contains("+[b]"), "which image it is, is shown: {image:?}");
}

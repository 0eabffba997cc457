//! HTML in a rendered comparison: its words, the targets of links, and invisible changes.

use crate::documents::compare::redline::rendered::block::BlockSort;
use crate::documents::compare::redline::rendered::reading::Reading;
use crate::documents::sources::html::{HtmlBlock, Part, Sort, Tag, parts};

impl Reading<'_> {
    /// Parses a block of HTML.
    pub(super) fn html_block(&mut self, block: &HtmlBlock) {
        self.close();
        for (part, range) in parts(block.text()) {
            let written = &block.text()[range.clone()];
            self.at = block.written(&range);
            match part {
                Part::Tag(tag) => self.tag(&tag, written),
                Part::Comment if self.open.is_none() => self.comment(written),
                Part::Comment => self.skip(written),
                Part::Odd | Part::Raw => {
                    if self.open.is_none() {
                        self.begin(BlockSort::Html);
                    }
                    self.written(written);
                }
                Part::Words => {
                    for (shown, at) in block.words(&range, false) {
                        self.at = at;
                        self.words(&shown);
                    }
                }
            }
        }
        self.close();
    }

    /// Parses a tag or comment within a line of text.
    pub(super) fn inline_html(&mut self, written: &str) {
        match parts(written).into_iter().next() {
            Some((Part::Tag(tag), range)) if range.len() == written.len() => {
                self.inline_tag(&tag, written);
            }
            Some((Part::Comment, _)) => self.skip(written),
            _ => self.written(written),
        }
    }

    /// Adds a comment, which is only shown if it differs: people do not see it, but an agent may.
    fn comment(&mut self, written: &str) {
        self.begin(BlockSort::Html);
        self.written(written.trim_end());
        if let Some(block) = &mut self.open {
            block.is_comment = true;
        }
        self.close();
    }

    /// Notes that a tag without attributes is shown by what it does.
    fn see_tag(&mut self, tag: &Tag, written: &str) {
        let name = written.trim_matches(['<', '/', ' ', '>']);
        if name.eq_ignore_ascii_case(tag.name) {
            self.see(written);
        }
    }

    fn tag(&mut self, tag: &Tag, written: &str) {
        if matches!(tag.sort, Sort::Words | Sort::Holder) {
            match tag.name {
                "td" | "th" => {
                    let has_cells = self.open.as_ref().is_some_and(|it| !it.text.is_empty());
                    if has_cells && !tag.is_end {
                        self.text(" │ ");
                    }
                }
                _ => self.close(),
            }
            self.skip(written);
            self.see_tag(tag, written);
            if !tag.is_end {
                self.begin_tag(tag);
            }
            return;
        }
        self.inline_tag(tag, written);
    }

    fn begin_tag(&mut self, tag: &Tag) {
        match (tag.name, tag.level()) {
            (_, Some(level)) => self.begin(BlockSort::Heading(level)),
            ("p" | "dt" | "dd" | "summary", _) => self.begin(BlockSort::Paragraph),
            ("tr", _) => self.begin(BlockSort::TableRow),
            ("pre", _) => self.begin(BlockSort::Code),
            ("li", _) => {
                self.marker = Some("•".to_owned());
                self.begin(BlockSort::Item);
            }
            _ => {}
        }
    }

    fn inline_tag(&mut self, tag: &Tag, written: &str) {
        let is_on = !tag.is_end;
        match tag.name {
            "em" | "i" | "cite" | "var" | "dfn" => self.style.is_emphasis = is_on,
            "b" | "strong" => self.style.is_strong = is_on,
            "code" | "kbd" | "samp" | "tt" => self.style.is_code = is_on,
            "del" | "s" | "strike" => self.style.is_struck = is_on,
            "br" => self.text("\n"),
            "hr" => self.rule(),
            "a" if tag.is_end => self.end_link(),
            "a" => {
                if let Some(address) = tag.value("href") {
                    self.targets.push(address.to_owned());
                    self.style.is_link = true;
                }
            }
            "img" => {
                let [words, address] = ["alt", "src"].map(|it| tag.value(it).unwrap_or_default());
                self.text(&format!("image: {words}"));
                self.styled(&format!(" ⟨{address}⟩"), |it| it.is_target = true);
            }
            _ => {}
        }
        self.skip(written);
        self.see_tag(tag, written);
    }

    /// Ends a link and shows its target.
    pub(super) fn end_link(&mut self) {
        self.style.is_link = false;
        if let Some(target) = self.targets.pop() {
            self.styled(&format!(" ⟨{target}⟩"), |it| it.is_target = true);
        }
    }

    /// Adds words with whitespace collapsed, except in preformatted text.
    fn words(&mut self, shown: &str) {
        let open = self.open.as_ref();
        if open.is_some_and(|it| it.sort == BlockSort::Code) {
            return self.written(shown);
        }
        let is_begun = open.is_some_and(|it| !it.text.is_empty() && !it.text.ends_with(' '));
        let words = shown.split_whitespace().collect::<Vec<_>>().join(" ");
        let at = self.at.clone();
        for word in shown.split_whitespace() {
            self.at.start = self.see(word);
        }
        self.at = at;
        let space = |is_there: bool| if is_there { " " } else { "" };
        let before = space(is_begun && shown.starts_with(char::is_whitespace));
        let after = space(!words.is_empty() && shown.ends_with(char::is_whitespace));
        if !words.is_empty() || is_begun {
            self.text(&format!("{before}{words}{after}"));
        }
    }
}

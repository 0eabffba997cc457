//! Images: those of the repository are shown, and no other is loaded (G24).

use std::ops::Range;

use crate::http::markdown::link::Target;
use crate::http::markdown::writer::{Image, Writer, push_attribute, push_title};

impl Writer<'_> {
    pub(super) fn begin_image(&mut self, address: &str, title: &str, range: Range<usize>) {
        if let Some(image) = &mut self.image {
            image.depth += 1;
            return;
        }
        self.need_leaf(&range);
        self.flush();
        let target = self.links.image(address);
        let (title, alt) = (title.to_owned(), String::new());
        self.image = Some(Image { depth: 0, target, title, alt, range, size: String::new() });
    }

    /// Writes an image from HTML; `size` holds attributes of ours.
    pub(super) fn image(
        &mut self,
        address: &str,
        words: [&str; 2],
        size: String,
        range: Range<usize>,
    ) {
        let target = self.links.image(address);
        let [alt, title] = words.map(str::to_owned);
        self.flush();
        self.image = Some(Image { depth: 0, target, title, alt, range, size });
        self.end_image();
    }

    /// External images are not loaded, because that would reveal the reader. Their alternative text
    /// is shown.
    pub(super) fn end_image(&mut self) {
        if let Some(image) = self.image.as_mut().filter(|it| it.depth > 0) {
            image.depth -= 1;
            return;
        }
        let Some(image) = self.image.take() else { return };
        if let Some(leaf) = &mut self.leaf {
            leaf.has_content = true;
            leaf.block.end = leaf.block.end.max(image.range.end);
        }
        let words = if image.alt.trim().is_empty() { "image" } else { image.alt.as_str() };
        match image.target {
            Some(Target::Here(address)) => {
                let size = image.size;
                self.html.push_str(&format!("<img{size} src=\"{address}\" alt=\""));
                push_attribute(&mut self.html, &image.alt);
                self.html.push_str("\" loading=\"lazy\" decoding=\"async\"");
                let mut title = String::new();
                push_title(&mut title, &image.title);
                self.html.push_str(&title);
                self.html.push('>');
            }
            Some(Target::Outside(address)) if self.links_open == 0 => {
                let host = self.links.host_of(&address, false);
                let start = format!(
                    "<a href=\"{address}\" rel=\"noopener noreferrer nofollow\" \
                     class=\"md-image\"{host}>"
                );
                self.show_apart(words, image.range, &start, "</a>");
            }
            _ => self.show_apart(words, image.range, "<span class=\"md-image\">", "</span>"),
        }
    }
}

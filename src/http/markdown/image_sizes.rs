//! Sizes of a text's images, so that the page reserves their space before they load.
//!
//! **Invariant:** only the first bytes of a file are looked at, and what they say is bounded.

use std::collections::BTreeMap;

use crate::base::image_size::Size;
use crate::http::markdown::Html;
use crate::http::markdown::link::decoded;

/// The start of an image tag that we wrote; the same text in a document is escaped.
const IMAGE: &str = "<img src=\"/raw/";
impl Html {
    /// Returns the paths of the first images, each once.
    pub(in crate::http) fn pictures(&self, most: usize) -> Vec<String> {
        let mut paths: Vec<String> = Vec::new();
        for part in self.0.split(IMAGE).skip(1) {
            let path = part.split_once('"').and_then(|(address, _)| decoded(address));
            if let Some(path) = path.filter(|it| !paths.contains(it)) {
                paths.push(path);
            }
            if paths.len() >= most {
                break;
            }
        }
        paths
    }

    /// Returns the text with the sizes of some images, by path.
    pub(in crate::http) fn with_sizes(&self, sizes: &BTreeMap<String, Size>) -> Html {
        let mut html = String::with_capacity(self.0.len() + sizes.len() * 32);
        let mut parts = self.0.split(IMAGE);
        html.push_str(parts.next().unwrap_or_default());
        for part in parts {
            let path = part.split_once('"').and_then(|(address, _)| decoded(address));
            if let Some((width, height)) = path.and_then(|it| sizes.get(&it)) {
                let start = format!("<img width=\"{width}\" height=\"{height}\" src=\"/raw/");
                html.push_str(&start);
            } else {
                html.push_str(IMAGE);
            }
            html.push_str(part);
        }
        Html(html)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::markdown::{Links, with_map};

    #[test]
    fn images_get_their_sizes_and_nothing_else_changes() {
        let text = "![a](x%20y.png) ![b](b.png) `<img src=\"/raw/docs/b.png\">` ![a](x%20y.png)";
        let html = with_map(text, &Links::of_document("docs/a.md")).html;
        assert_eq!(html.pictures(9), ["docs/x y.png", "docs/b.png"]);
        assert_eq!(html.pictures(1), ["docs/x y.png"]);
        let sizes = BTreeMap::from([("docs/x y.png".to_owned(), (3, 4))]);
        let sized = html.with_sizes(&sizes);
        assert_eq!(sized.as_str().matches("<img width=\"3\" height=\"4\" src=").count(), 2);
        assert_eq!(sized.as_str().replace(" width=\"3\" height=\"4\"", ""), html.as_str());
        assert_eq!(html.with_sizes(&BTreeMap::new()), html);
    }
}

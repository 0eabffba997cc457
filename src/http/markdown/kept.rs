//! A cache of rendered texts: each version of a document is rendered once.
//!
//! **Invariant:** what is kept has a bound in bytes; a text alone may not fill it.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use crate::base::limit::RENDERED_KEPT_BYTES_MAX;
use crate::base::{BlobId, Context as _, ErrorKind, Result};
use crate::http::markdown::map::Run;
use crate::http::markdown::{
    Highlighter, Html, Links, RENDERER_VERSION, Rendered, render, with_map,
};

/// Shorter texts are rendered in place, longer ones on a blocking thread.
const SHORT_BYTES_MAX: usize = 16 * 1024;

/// Renders texts, and caches recently rendered Sources. Cheap to clone.
#[derive(Clone, Debug)]
pub(in crate::http) struct Renderer {
    code: Highlighter,
    kept: Arc<Mutex<Kept>>,
}

/// The text and the renderer; relative links depend on the folder.
type Key = (BlobId, String, u32);

#[derive(Debug, Default)]
struct Kept {
    /// Most recently used last.
    texts: VecDeque<(Key, Arc<Rendered>, usize)>,
    bytes: usize,
}

impl Renderer {
    /// Loads the syntax highlighting.
    pub(in crate::http) fn load() -> Renderer {
        Renderer { code: Highlighter::load(), kept: Arc::default() }
    }

    /// Returns a rendered Source with its map.
    ///
    /// # Errors
    /// `internal` if the renderer panics.
    pub(in crate::http) async fn source(
        &self,
        path: &str,
        blob: &BlobId,
        text: &str,
    ) -> Result<Arc<Rendered>> {
        let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
        let key: Key = (blob.clone(), folder.to_owned(), RENDERER_VERSION);
        if let Some(found) = self.find(&key) {
            return Ok(found);
        }
        let rendered = if text.len() <= SHORT_BYTES_MAX {
            with_map(text, &Links::of_document(path).with_code(&self.code))
        } else {
            let (code, at, text) = (self.code.clone(), path.to_owned(), text.to_owned());
            let work = move || with_map(&text, &Links::of_document(&at).with_code(&code));
            let done = tokio::task::spawn_blocking(work).await;
            done.context(ErrorKind::Internal, || format!("rendering {path} panicked"))?
        };
        let rendered = Arc::new(rendered);
        self.keep(key, &rendered);
        Ok(rendered)
    }

    /// Returns a short text of a person or agent as HTML; `prefix` begins with `md-` and makes its
    /// ids unique on the page.
    pub(in crate::http) fn message(&self, text: &str, folder: &str, prefix: &str) -> Html {
        let links = Links::of_folder(folder).with_prefix(prefix).with_code(&self.code);
        render(text, &links).html
    }

    fn find(&self, key: &Key) -> Option<Arc<Rendered>> {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let at = kept.texts.iter().position(|(it, _, _)| it == key)?;
        let entry = kept.texts.remove(at)?;
        let found = Arc::clone(&entry.1);
        kept.texts.push_back(entry);
        Some(found)
    }

    fn keep(&self, key: Key, rendered: &Arc<Rendered>) {
        let bytes = bytes_of(rendered);
        if bytes > RENDERED_KEPT_BYTES_MAX / 4 {
            return;
        }
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.texts.iter().any(|(it, _, _)| *it == key) {
            return;
        }
        kept.bytes += bytes;
        kept.texts.push_back((key, Arc::clone(rendered), bytes));
        while kept.bytes > RENDERED_KEPT_BYTES_MAX {
            let Some((_, _, bytes)) = kept.texts.pop_front() else { break };
            kept.bytes -= bytes;
        }
    }
}

/// Returns the approximate size of a rendered text.
fn bytes_of(rendered: &Rendered) -> usize {
    let runs: usize = rendered.blocks.iter().map(|it| it.runs.len()).sum();
    let headings: usize = rendered.headings.iter().map(|it| 2 * it.text.len() + 80).sum();
    rendered.html.as_str().len()
        + runs * size_of::<Run>()
        + rendered.blocks.len() * 64
        + headings
        + 256
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_version_is_written_once_and_what_is_kept_is_bounded() {
        let renderer = Renderer::load();
        let blob = |at: usize| format!("{at:040x}").parse::<BlobId>().unwrap();
        let first = renderer.source("docs/a.md", &blob(1), "[b](b.md)").await.unwrap();
        let again = renderer.source("docs/c.md", &blob(1), "[b](b.md)").await.unwrap();
        assert!(Arc::ptr_eq(&first, &again));
        let other = renderer.source("a.md", &blob(1), "[b](b.md)").await.unwrap();
        assert!(!Arc::ptr_eq(&first, &other), "links go from another folder");
        let large = "word ".repeat(RENDERED_KEPT_BYTES_MAX / 50);
        for at in 2..20 {
            renderer.source("a.md", &blob(at), &large).await.unwrap();
        }
        let kept = renderer.kept.lock().unwrap();
        assert!(kept.bytes <= RENDERED_KEPT_BYTES_MAX && kept.texts.len() > 3);
        assert!(kept.texts.iter().all(|(key, _, _)| key.0 != blob(1)), "the oldest go first");
    }
}

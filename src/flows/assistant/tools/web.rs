//! The tool that reads web pages.
//!
//! **Invariant:** a URL that the person did not type, on a host that the site does not list, needs
//! confirmation: a URL can leak what the model has read.

use serde::Deserialize;
use serde_json::Value;

use crate::base::Result;
use crate::chat::Typed;
use crate::flows::Site;
use crate::flows::assistant::tools::page_text::text_of;
use crate::flows::assistant::tools::{Deed, Said, Work, parse};
use crate::outbound::{Fetched, PAGE_BYTES_MAX, Page, WebUrl};

/// Most characters of a page for the model.
const TOLD_CHARS_MAX: usize = 39_000;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FetchArgs {
    url: String,
}

/// Returns what a call would fetch, and whether it needs confirmation.
///
/// # Errors
/// `invalid` with codes `bad_arguments` and `bad_url`.
pub(in crate::flows::assistant) fn plan(
    args: &Value,
    web_hosts: &[String],
    typed: &[Typed],
) -> Result<Deed> {
    let args: FetchArgs = parse(args)?;
    let url: WebUrl = args.url.parse()?;
    let is_open = web_hosts.iter().any(|it| it == url.host());
    let is_in = |text: &String| WebUrl::all_in(text).contains(&url);
    let is_typed = || typed.iter().any(|it| is_in(&it.text) && !it.from.iter().any(is_in));
    let asks = (!is_open && !is_typed())
        .then(|| format!("it opens a page of {} that you did not ask for", url.host()));
    let (preview, work) = (format!("{url}\n"), Work::Web(url));
    Ok(Deed { target: None, asks, preview, is_of_others: false, work })
}

/// Fetches a page.
///
/// # Errors
/// As [`crate::outbound::Client::fetch`].
pub(in crate::flows::assistant) async fn run(
    site: &Site,
    url: &WebUrl,
    web_hosts: &[String],
) -> Result<Said> {
    let is_open = |host: &str| web_hosts.iter().any(|it| it == host);
    Ok(match site.outbound.fetch(url, &is_open).await? {
        Fetched::Page(page) => told(url, &page),
        Fetched::Elsewhere(to) => {
            let summary = format!("{} leads to {}", url.host(), to.host());
            let text = format!(
                "{url} leads to {to}, which was not followed. Fetch that address itself if it is \
                 what the person wants."
            );
            Said::new(summary, text)
        }
    })
}

fn told(url: &WebUrl, page: &Page) -> Said {
    let is_html = matches!(page.media_type.as_str(), "text/html" | "application/xhtml+xml");
    let mut text = match is_html {
        true => text_of(&page.text, &page.url),
        false => page.text.clone(),
    };
    let is_long = text.char_indices().nth(TOLD_CHARS_MAX).map(|it| it.0);
    text.truncate(is_long.unwrap_or(text.len()));
    if is_long.is_some() {
        text += &format!("\n… only the first {TOLD_CHARS_MAX} characters of the page");
    } else if page.is_cut {
        text += &format!("\n… only the first {} KiB of the page", PAGE_BYTES_MAX / 1024);
    }
    if text.trim().is_empty() {
        "The page has no text; perhaps a program in it writes it.".clone_into(&mut text);
    }
    let summary = format!("{}, {} characters", page.url.host(), text.chars().count());
    let moved = if page.url == *url { String::new() } else { format!(" (from {url})") };
    Said::new(summary, format!("{}{moved}:\n\n{text}", page.url))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_address_that_nobody_wrote_is_asked_about() {
        let text = "Look at https://example.org/a?b, please, but not at https://example.org/c";
        let from = vec!["See https://example.org/c".to_owned()];
        let typed = [Typed { text: text.to_owned(), from }];
        let hosts = ["docs.test".to_owned()];
        for (url, asks) in [
            ("https://example.org/a?b", false),
            ("https://EXAMPLE.org/a?b#part", false),
            ("https://example.org/a", true),
            ("https://example.org/c", true),
            ("https://example.org/a?b&secret", true),
            ("http://example.org/a?b", true),
            ("https://example.org/", true),
            ("https://docs.test/anything?x", false),
            ("https://docs.test.evil.org/", true),
            ("https://www.docs.test/", true),
        ] {
            let deed = plan(&json!({"url": url}), &hosts, &typed).unwrap();
            assert_eq!(deed.asks.is_some(), asks, "{url}");
        }
        for (args, code) in [
            (json!({"url": "file:///etc/passwd"}), "bad_url"),
            (json!({"url": "https://a@example.org/"}), "bad_url"),
            (json!({}), "bad_arguments"),
            (json!({"url": "https://example.org", "method": "POST"}), "bad_arguments"),
        ] {
            assert_eq!(plan(&args, &hosts, &typed).unwrap_err().code_str(), code, "{args}");
        }
    }
}

//! Targets of links and images: documents, files of the repository, or external addresses.

use crate::http::markdown::Highlighter;
use crate::http::pages::document_at;

/// Longest accepted address, in bytes.
const ADDRESS_BYTES_MAX: usize = 2_000;
/// Extensions of images that are shown.
pub(in crate::http) const IMAGES: &[&str] =
    &["png", "jpg", "jpeg", "gif", "webp", "avif", "svg", "ico", "bmp"];

/// The context of a text: its folder, its ids and its highlighting.
#[derive(Clone, Copy, Debug)]
pub(in crate::http) struct Links<'a> {
    /// The folder that relative addresses start from; empty for the root.
    folder: &'a str,
    /// The prefix of every `id`; `None` if nothing gets one.
    prefix: Option<&'a str>,
    /// Highlights code, if available.
    code: Option<&'a Highlighter>,
    /// Whether external links show their host.
    has_hosts: bool,
}

impl<'a> Links<'a> {
    /// Returns the context of a text in a folder; empty for the root.
    pub(in crate::http) fn of_folder(folder: &'a str) -> Links<'a> {
        Links { folder, prefix: Some("md-"), code: None, has_hosts: false }
    }

    /// Returns the context of the document at a path.
    pub(in crate::http) fn of_document(path: &'a str) -> Links<'a> {
        Links::of_folder(path.rsplit_once('/').map_or("", |(folder, _)| folder))
    }

    /// Sets the prefix of every `id`, which must be unique on the page and begin with `md-`.
    #[must_use]
    pub(in crate::http) fn with_prefix(self, prefix: &'a str) -> Links<'a> {
        Links { prefix: Some(prefix), ..self }
    }

    /// Gives nothing an `id`: for texts that are shown beside others of which nobody knows.
    #[must_use]
    pub(in crate::http) fn without_ids(self) -> Links<'a> {
        Links { prefix: None, ..self }
    }

    /// Sets what highlights code.
    #[must_use]
    pub(in crate::http) fn with_code(self, code: &'a Highlighter) -> Links<'a> {
        Links { code: Some(code), ..self }
    }

    /// Shows the host of each external link: for texts that nobody has reviewed.
    #[must_use]
    pub(in crate::http) fn with_hosts(self) -> Links<'a> {
        Links { has_hosts: true, ..self }
    }

    /// Returns the attribute with the host of an external address, which the style sheet shows;
    /// nothing if the link's words are the address itself, and begin with that host.
    pub(super) fn host_of(&self, address: &str, is_written: bool) -> String {
        let host = host(address);
        let is_plain = || {
            let rest = address.split_once(':').map_or(address, |(_, rest)| rest);
            rest.trim_start_matches('/').starts_with(host)
        };
        match self.has_hosts && !(is_written && is_plain()) {
            true => format!(" data-to=\"{host}\""),
            false => String::new(),
        }
    }

    pub(super) fn prefix(&self) -> Option<&'a str> {
        self.prefix
    }

    pub(super) fn code(&self) -> Option<&'a Highlighter> {
        self.code
    }

    /// Returns the target of a link; `None` if it is not allowed.
    pub(super) fn target(&self, address: &str) -> Option<Target> {
        let address = address.trim();
        if address.is_empty() || address.len() > ADDRESS_BYTES_MAX || has_odd(address) {
            return None;
        }
        if let Some(fragment) = address.strip_prefix('#') {
            return Some(Target::Here(self.fragment(fragment)?));
        }
        if let Some(scheme) = scheme_of(address) {
            let is_known =
                ["http", "https", "mailto"].iter().any(|it| scheme.eq_ignore_ascii_case(it));
            return is_known.then(|| Target::Outside(escaped(address)));
        }
        if address.starts_with("//") || address.starts_with("\\") {
            return None;
        }
        let (rest, fragment) = match address.split_once('#') {
            Some((rest, fragment)) => (rest, Some(fragment)),
            None => (address, None),
        };
        let path = rest.split_once('?').map_or(rest, |(path, _)| path);
        let path = self.resolve(&decoded(path)?)?;
        if path.is_empty() {
            return Some(Target::Here("/d".to_owned()));
        }
        if is_image(&path) {
            return Some(Target::Here(raw_at(&path)));
        }
        let fragment = fragment.and_then(|it| match it.strip_prefix('L') {
            Some(line) if !line.is_empty() && line.bytes().all(|it| it.is_ascii_digit()) => {
                Some(format!("?text=1#L{line}"))
            }
            _ => Some(format!("#md-{}", slug(&decoded(it)?))),
        });
        Some(Target::Here(format!("{}{}", document_at(&path), fragment.unwrap_or_default())))
    }

    /// Returns the address of an image.
    pub(super) fn image(&self, address: &str) -> Option<Target> {
        match self.target(address)? {
            Target::Here(address) if address.starts_with("/raw/") => Some(Target::Here(address)),
            Target::Outside(address) if !address.starts_with(['m', 'M']) => {
                Some(Target::Outside(address))
            }
            _ => None,
        }
    }

    fn fragment(&self, fragment: &str) -> Option<String> {
        Some(format!("#{}{}", self.prefix?, slug(&decoded(fragment)?)))
    }

    /// Returns a path below the root; `None` if it leaves it.
    fn resolve(&self, path: &str) -> Option<String> {
        let mut parts: Vec<&str> = match path.starts_with('/') {
            true => Vec::new(),
            false => self.folder.split('/').filter(|it| !it.is_empty()).collect(),
        };
        for part in path.split('/') {
            match part {
                "" | "." => {}
                ".." => {
                    parts.pop()?;
                }
                part => parts.push(part),
            }
        }
        Some(parts.join("/"))
    }
}

/// The target of a link, as an address for an attribute.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Target {
    /// Within the site.
    Here(String),
    /// External: `http`, `https` or `mailto`.
    Outside(String),
}

/// Returns the address of a raw file of the repository.
pub(in crate::http) fn raw_at(path: &str) -> String {
    format!("/raw/{}", document_at(path).trim_start_matches("/d/"))
}

/// Returns whether a path is that of an image.
pub(in crate::http) fn is_image(path: &str) -> bool {
    let ending = path.rsplit_once('.').map_or("", |(_, it)| it);
    IMAGES.iter().any(|it| ending.eq_ignore_ascii_case(it))
}

/// Returns the anchor of a heading as GitHub makes it: lower case, words joined by `-`, without
/// punctuation.
pub(in crate::http) fn slug(text: &str) -> String {
    let mut slug = String::new();
    for character in text.trim().chars().flat_map(char::to_lowercase).take(200) {
        match character {
            ' ' | '-' => slug.push('-'),
            '_' => slug.push('_'),
            it if it.is_alphanumeric() => slug.push(it),
            _ => {}
        }
    }
    slug
}

fn has_odd(address: &str) -> bool {
    address.chars().any(|it| it.is_control() || matches!(it, '\u{2028}' | '\u{2029}'))
}

/// Returns the text before the first colon if a browser would treat it as a scheme.
fn scheme_of(address: &str) -> Option<&str> {
    let (scheme, _) = address.split_once(':')?;
    // Not only valid schemes: anything before a colon that is not part of a path is refused.
    (!scheme.contains(['/', '?', '#'])).then_some(scheme)
}

/// Returns an address with everything special escaped, because browsers read `\` as `/`.
fn escaped(address: &str) -> String {
    let mut escaped = String::with_capacity(address.len());
    for character in address.chars() {
        match character {
            '"' | '\'' | '<' | '>' | '\\' | '`' | '{' | '}' | '^' | '|' | ' ' => {
                let code = u32::from(character);
                escaped.push_str(&format!("%{code:02X}"));
            }
            '&' => escaped.push_str("&amp;"),
            it => escaped.push(it),
        }
    }
    escaped
}

/// Returns where an external address leads: the host as browsers read it, with the port, or the
/// address of a mail.
fn host(address: &str) -> &str {
    let rest = address.split_once(':').map_or(address, |(_, rest)| rest);
    if address.starts_with(['m', 'M']) {
        return rest.split_once('?').map_or(rest, |(mail, _)| mail);
    }
    let rest = rest.trim_start_matches('/');
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let server = &rest[..end];
    // What precedes an @ is a user's name, and is often written to mislead.
    server.rsplit_once('@').map_or(server, |(_, host)| host)
}

/// Decodes `%XX`; `None` for a control character or what is not UTF-8.
pub(super) fn decoded(text: &str) -> Option<String> {
    if !text.contains('%') {
        return Some(text.to_owned());
    }
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, tail @ ..] = rest {
        rest = tail;
        let code = match (first, tail) {
            (b'%', [high, low, ..]) => hex(*high).zip(hex(*low)).map(|(a, b)| a * 16 + b),
            _ => None,
        };
        match code {
            Some(code) => {
                bytes.push(code);
                rest = &tail[2..];
            }
            None => bytes.push(*first),
        }
    }
    String::from_utf8(bytes).ok().filter(|it| !has_odd(it))
}

fn hex(digit: u8) -> Option<u8> {
    char::from(digit).to_digit(16).and_then(|it| u8::try_from(it).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn here(folder: &str, address: &str) -> String {
        match Links::of_folder(folder).target(address) {
            Some(Target::Here(it)) => it,
            Some(Target::Outside(it)) => format!("outside {it}"),
            None => "none".to_owned(),
        }
    }

    #[test]
    fn a_host_is_the_one_that_browsers_reach() {
        for (address, shown) in [
            ("https://docs.rs/a?b#c", "docs.rs"),
            ("http://evil.test:81?http://good.test", "evil.test:81"),
            ("http://good.test@evil.test/good.test", "evil.test"),
            ("http://a:b@c@evil.test#@good.test", "evil.test"),
            ("HTTP:///evil.test/@good.test", "evil.test"),
            ("mailto:ada@x.test?subject=b", "ada@x.test"),
        ] {
            assert_eq!(host(address), shown, "{address}");
        }
    }

    #[test]
    fn relative_links_go_to_the_reader() {
        for (folder, address, expected) in [
            ("docs", "a.md", "/d/docs/a.md"),
            ("docs", "./a.md#Two words!", "/d/docs/a.md#md-two-words"),
            ("docs/x", "../b%20c.md?plain=1", "/d/docs/b%20c.md"),
            ("docs", "/README.md", "/d/README.md"),
            ("docs", "../../x.md", "none"),
            ("", "..", "none"),
            ("docs", "..", "/d"),
            ("docs", "a.md#L12", "/d/docs/a.md?text=1#L12"),
            ("docs", "#Über uns", "#md-über-uns"),
            ("docs", "img/x.PNG", "/raw/docs/img/x.PNG"),
            ("docs", "a\\b.md", "/d/docs/a%5Cb.md"),
        ] {
            assert_eq!(here(folder, address), expected, "{folder} {address}");
        }
        assert_eq!(Links::of_document("a/b/c.md").folder, "a/b");
    }

    #[test]
    fn a_link_goes_nowhere_else() {
        for address in [
            "javascript:alert(1)",
            "JaVaScRiPt:alert(1)",
            "java\nscript:alert(1)",
            " javascript:x",
            "data:text/html,x",
            "vbscript:x",
            "file:///etc/passwd",
            "//evil.example",
            "\\\\evil",
            "",
            "blob:x",
            "x%00y",
            "a\u{2028}b",
            "view-source:x",
            "tel:1",
        ] {
            assert_eq!(here("docs", address), "none", "{address:?}");
        }
        assert_eq!(here("", "/\\evil.example"), "/d/%5Cevil.example");
        assert_eq!(here("", "HTTPS://a.org/\"x'&y"), "outside HTTPS://a.org/%22x%27&amp;y");
        assert_eq!(here("", "mailto:a@b.org"), "outside mailto:a@b.org");
    }

    #[test]
    fn images_are_of_the_repository() {
        let links = Links::of_folder("docs");
        assert_eq!(links.image("a.png"), Some(Target::Here("/raw/docs/a.png".to_owned())));
        assert_eq!(links.image("a.md"), None);
        assert_eq!(links.image("data:image/png;base64,x"), None);
        assert!(matches!(links.image("https://a.org/x.png"), Some(Target::Outside(_))));
        assert_eq!(links.image("mailto:x.png"), None);
    }
}

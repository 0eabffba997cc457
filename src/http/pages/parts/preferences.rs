//! Display preferences of a browser, in a cookie, so that the first byte of a page has them and
//! nothing flashes.

use hyper::header::HeaderValue;

use crate::base::{Error, Result};

/// One cookie for all sites of a machine; it is not personal.
const COOKIE: &str = "wb_look";
const YEAR_S: u32 = 365 * 24 * 3_600;

/// The preferences of one browser.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::http) struct Look {
    theme: Theme,
    /// Whether single keys are shortcuts.
    pub(in crate::http) has_keys: bool,
    /// Whether the list of documents is shown next to a document.
    pub(in crate::http) has_documents: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Theme {
    System,
    Light,
    Dark,
}

const THEMES: [(Theme, &str); 3] =
    [(Theme::System, "system"), (Theme::Light, "light"), (Theme::Dark, "dark")];

impl Default for Look {
    fn default() -> Look {
        Look { theme: Theme::System, has_keys: true, has_documents: true }
    }
}

impl Look {
    /// Returns the preferences from the `Cookie` header of a request; unknown values are ignored.
    pub(in crate::http) fn of(cookies: Option<&str>) -> Look {
        let mut pairs = cookies.unwrap_or_default().split(';').filter_map(|it| it.split_once('='));
        let found = pairs.find(|(name, _)| name.trim() == COOKIE);
        let word = found.map_or("", |(_, value)| value.trim());
        let mut words = word.split('.');
        let theme = words.next().unwrap_or_default();
        let [has_keys, has_documents] = [(); 2].map(|()| words.next() != Some("off"));
        Look::new(theme, has_keys, has_documents).unwrap_or_default()
    }

    /// Returns the preferences from the form's fields.
    ///
    /// # Errors
    /// `invalid` for a theme that there is not.
    pub(in crate::http) fn new(theme: &str, has_keys: bool, has_documents: bool) -> Result<Look> {
        let found = THEMES.iter().find(|(_, word)| *word == theme);
        let (theme, _) = found
            .ok_or_else(|| Error::invalid("unknown theme").hint("use system, light or dark"))?;
        Ok(Look { theme: *theme, has_keys, has_documents })
    }

    /// Returns the word of the theme: `system`, `light` or `dark`.
    pub(in crate::http) fn word(&self) -> &'static str {
        THEMES.iter().find(|(it, _)| *it == self.theme).map_or("system", |(_, word)| *word)
    }

    /// Returns the theme that overrides the system's.
    pub(in crate::http) fn theme(&self) -> Option<&'static str> {
        (self.theme != Theme::System).then(|| self.word())
    }

    /// Returns the color scheme of the browser's own widgets.
    pub(in crate::http) fn scheme(&self) -> &'static str {
        self.theme().unwrap_or("light dark")
    }

    /// Returns the `Set-Cookie` header for them.
    ///
    /// # Errors
    /// `internal` if it cannot be written.
    pub(in crate::http) fn cookie(&self) -> Result<HeaderValue> {
        let word = |is_on: bool| if is_on { "on" } else { "off" };
        let (theme, keys, documents) = (self.word(), word(self.has_keys), word(self.has_documents));
        let value = format!("{theme}.{keys}.{documents}");
        let text = format!("{COOKIE}={value}; Path=/; HttpOnly; SameSite=Lax; Max-Age={YEAR_S}");
        HeaderValue::from_str(&text)
            .map_err(|cause| Error::internal("a cookie cannot be written").source(cause))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_look_comes_back_as_it_was_kept() {
        for (theme, keys, documents) in
            [("dark", true, false), ("light", false, true), ("system", true, true)]
        {
            let look = Look::new(theme, keys, documents).unwrap();
            let kept = look.cookie().unwrap();
            let sent = kept.to_str().unwrap().split(';').next().unwrap();
            assert_eq!(Look::of(Some(&format!("a=b; {sent}; c=d"))), look);
        }
    }

    #[test]
    fn what_is_no_look_is_the_usual_one() {
        for odd in [None, Some(""), Some("wb_look"), Some("wb_look=\"><b>.x"), Some("x=dark")] {
            assert_eq!(Look::of(odd), Look::default(), "{odd:?}");
        }
        assert!(Look::new("purple", true, true).is_err());
        // A cookie of an earlier version.
        assert_eq!(Look::of(Some("wb_look=dark.off")), Look::new("dark", false, true).unwrap());
    }
}

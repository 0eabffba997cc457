//! Actions: questions kept as Markdown files in a person's vault, to ask again.
//!
//! **Invariant:** an invalid file cannot run: losing a confirmation to a typo is worse than a
//! refusal.

use jiff::{ToSpan as _, Zoned};
use unicode_normalization::{UnicodeNormalization as _, char::is_combining_mark};

use crate::base::{Error, Result, digest_hex, split_front_matter};

/// Highest `max_steps` of an action.
const STEPS_MAX: u32 = 500;
/// Longest description of an action, in characters.
const ABOUT_CHARS_MAX: usize = 200;
/// Digits of the digest in the id of an action whose label has no letters.
const DIGEST_LETTERS: usize = 8;
/// Placeholders that a prompt may contain.
const FIELDS: [&str; 6] = ["date", "yesterday", "time", "weekday", "person", RUN_ID];
/// Placeholder for the id of the run, which is known last.
const RUN_ID: &str = "run_id";

/// An action, read from its file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Action {
    /// A one-line description.
    pub about: Option<String>,
    /// Whether the person must see its prompt before it runs.
    pub requires_confirmation: bool,
    /// The most steps of its answer.
    pub max_steps: Option<u32>,
    /// The prompt, with its placeholders.
    pub prompt: String,
    /// The digest of the file's content.
    pub digest: String,
}

/// Returns an action's label, derived from its file name; `None` if the file is not an action.
pub fn label(file: &str) -> Option<&str> {
    let stem = file.strip_suffix(".md")?;
    let stem = stem.strip_suffix(".prompt").unwrap_or(stem).trim();
    (!stem.is_empty()).then_some(stem)
}

/// Returns an action's id: its label in lowercase letters and digits, without accents.
pub fn id(label: &str) -> String {
    let plain = label.nfkd().filter(|it| !is_combining_mark(*it)).flat_map(char::to_lowercase);
    let mut id = String::new();
    for character in plain {
        match character.is_ascii_alphanumeric() {
            true => id.push(character),
            false if !id.is_empty() && !id.ends_with('-') => id.push('-'),
            false => {}
        }
    }
    match id.trim_end_matches('-') {
        "" => format!("a-{}", &digest_hex(label)[..DIGEST_LETTERS]),
        id => id.to_owned(),
    }
}

/// Parses an action file.
///
/// # Errors
/// `invalid` with code `bad_action`.
pub fn read(text: &str) -> Result<Action> {
    let refuse = |why: String| Err(Error::invalid(why).code("bad_action"));
    let (front, prompt) = match split_front_matter(text) {
        Ok(parts) => parts,
        Err(cause) => return refuse(cause.message().to_owned()),
    };
    let mut action = Action {
        about: None,
        requires_confirmation: false,
        max_steps: None,
        prompt: prompt.trim().to_owned(),
        digest: digest_hex(text),
    };
    for (name, value) in front.map(|it| it.fields).unwrap_or_default() {
        match (name.as_str(), value.as_str()) {
            ("about", about) => {
                let about: String = about.split_whitespace().collect::<Vec<_>>().join(" ");
                if about.chars().count() > ABOUT_CHARS_MAX {
                    return refuse(format!("`about` has more than {ABOUT_CHARS_MAX} characters"));
                }
                action.about = Some(about).filter(|it| !it.is_empty());
            }
            ("requires_confirmation", "true") => action.requires_confirmation = true,
            ("requires_confirmation", "false") => {}
            ("requires_confirmation", _) => {
                return refuse("`requires_confirmation` is true or false".to_owned());
            }
            ("max_steps", steps) => match steps.parse() {
                Ok(steps) if (1..=STEPS_MAX).contains(&steps) => action.max_steps = Some(steps),
                _ => return refuse(format!("`max_steps` is a number from 1 to {STEPS_MAX}")),
            },
            (other, _) => {
                let known = "about, requires_confirmation and max_steps";
                let other: String = other.chars().take(60).flat_map(char::escape_debug).collect();
                return refuse(format!("`{other}` is no field of an action: it has {known}"));
            }
        }
    }
    if action.prompt.is_empty() {
        return refuse("there is no prompt below the front matter".to_owned());
    }
    fill(&action.prompt, |_| None)?;
    Ok(action)
}

/// Returns the content of an action's file. An invalid number of steps stays in it, to be refused
/// where the file is read.
pub fn file(prompt: &str, (about, requires_confirmation, max_steps): (&str, bool, &str)) -> String {
    // A quoted text of JSON is one of YAML.
    let quoted = |text: &str| serde_json::Value::from(text).to_string();
    let mut front = String::new();
    let about: Vec<&str> = about.split_whitespace().collect();
    if !about.is_empty() {
        front += &format!("about: {}\n", quoted(&about.join(" ")));
    }
    if requires_confirmation {
        front += "requires_confirmation: true\n";
    }
    match max_steps.trim() {
        "" => {}
        steps if steps.parse::<u32>().is_ok() => {
            front += &format!("max_steps: {steps}\n");
        }
        steps => front += &format!("max_steps: {}\n", quoted(steps)),
    }
    let prompt = prompt.trim();
    match front.is_empty() && !prompt.starts_with("---") {
        true => format!("{prompt}\n"),
        false => format!("---\n{front}---\n\n{prompt}\n"),
    }
}

/// Fills in a prompt's placeholders, with dates of the time's zone. Returns the parts between which
/// the id of the run belongs.
///
/// # Errors
/// `invalid` with code `bad_action` for an unknown placeholder.
pub fn prompt_for(action: &Action, person: &str, at: &Zoned) -> Result<Vec<String>> {
    let yesterday = at.checked_sub(1.day()).unwrap_or_else(|_| at.clone());
    fill(&action.prompt, |name| match name {
        "date" => Some(at.strftime("%Y-%m-%d").to_string()),
        "yesterday" => Some(yesterday.strftime("%Y-%m-%d").to_string()),
        "time" => Some(at.strftime("%H:%M").to_string()),
        "weekday" => Some(at.strftime("%A").to_string()),
        RUN_ID => None,
        _ => Some(person.to_owned()),
    })
}

/// Returns a prompt as it would be asked at a time, for people: the id of the run is not known yet.
///
/// # Errors
/// As [`prompt_for`].
pub fn shown(action: &Action, person: &str, at: &Zoned) -> Result<String> {
    let name = format!("{{{{{RUN_ID}}}}}");
    Ok(prompt_for(action, person, at)?.join(&name))
}

/// Replaces placeholders by values, and starts a new part at one without a value. Values are not
/// searched for placeholders.
fn fill(prompt: &str, value: impl Fn(&str) -> Option<String>) -> Result<Vec<String>> {
    let (mut parts, mut filled, mut rest) = (Vec::new(), String::new(), prompt);
    while let Some((before, after)) = rest.split_once("{{") {
        let (name, after, is_closed) = match after.split_once("}}") {
            Some((name, after)) => (name.trim(), after, true),
            None => (after.trim(), "", false),
        };
        if !is_closed || !FIELDS.contains(&name) {
            let shown: String = name.chars().take(40).flat_map(char::escape_debug).collect();
            let known = FIELDS.map(|it| format!("{{{{{it}}}}}")).join(" ");
            return Err(Error::invalid(format!("there is no field `{{{{{shown}}}}}`: {known}"))
                .code("bad_action"));
        }
        filled.push_str(before);
        match value(name) {
            Some(value) => filled.push_str(&value),
            None => parts.push(std::mem::take(&mut filled)),
        }
        rest = after;
    }
    filled.push_str(rest);
    parts.push(filled);
    Ok(parts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_understood_whole_or_not_at_all() {
        let text = "---\nabout: Yesterday's  links\nrequires_confirmation: true\nmax_steps: 3\n\
                    ---\nCollect the links of {{yesterday}} for {{ person }}.\n";
        let action = read(text).unwrap();
        assert_eq!(action.about.as_deref(), Some("Yesterday's links"));
        assert_eq!((action.requires_confirmation, action.max_steps), (true, Some(3)));
        // 2026-03-01 00:30 UTC, a Sunday.
        let now = jiff::Timestamp::from_second(1_772_325_000).unwrap();
        let utc = now.to_zoned(jiff::tz::TimeZone::UTC);
        let filled = prompt_for(&action, "{{date}}", &utc).unwrap();
        assert_eq!(filled, ["Collect the links of 2026-02-28 for {{date}}."]);
        let all = read("{{date}} {{time}} {{weekday}}").unwrap();
        assert_eq!(prompt_for(&all, "", &utc).unwrap(), ["2026-03-01 00:30 Sunday"]);
        let west = now.to_zoned(jiff::tz::TimeZone::fixed(jiff::tz::offset(-5)));
        assert_eq!(prompt_for(&all, "", &west).unwrap(), ["2026-02-28 19:30 Saturday"]);
        let named = read("as {{run_id}}.md for {{person}}").unwrap();
        let parts = prompt_for(&named, "{{run_id}}", &utc).unwrap();
        assert_eq!(parts, ["as ", ".md for {{run_id}}"], "a name is no field");
        for (text, why) in [
            ("---\nrequires_confirmaton: true\n---\nx", "`requires_confirmaton` is no field"),
            ("---\nrequires_confirmation: yes please\n---\nx", "is true or false"),
            ("---\nmax_steps: 0\n---\nx", "from 1 to 500"),
            ("---\nmax_steps: 501\n---\nx", "from 1 to 500"),
            ("---\nmax_steps: many\n---\nx", "from 1 to 500"),
            ("---\nabout: x\n", "no closing"),
            ("---\nabout: x\n---\n \n", "no prompt"),
            ("", "no prompt"),
            ("{{run}}", "there is no field `{{run}}`"),
            ("{{date", "there is no field"),
            ("a {{}} b", "there is no field"),
        ] {
            let refused = read(text).unwrap_err();
            assert_eq!(refused.code_str(), "bad_action", "{text}");
            assert!(refused.message().contains(why), "{text}: {}", refused.message());
        }
        assert_ne!(read("a").unwrap().digest, read("b").unwrap().digest);
    }

    #[test]
    fn a_written_file_is_read_as_it_was_meant() {
        for (prompt, about, asks, steps) in [
            ("Look.", "", false, ""),
            ("--- no front\n---\nLook.", "", false, ""),
            ("Look {{date}}.\n\n---\n", "yes: \"no\" # \u{2028}{x}", true, "12"),
            ("x", "null", false, ""),
            ("x", "- a\n---\nb", true, "500"),
        ] {
            let action = read(&file(prompt, (about, asks, steps))).unwrap();
            let words: Vec<&str> = about.split_whitespace().collect();
            assert_eq!(action.prompt, prompt.trim());
            assert_eq!(action.about.unwrap_or_default(), words.join(" "));
            assert_eq!(action.requires_confirmation, asks);
            assert_eq!(action.max_steps, steps.parse().ok());
        }
        for (prompt, steps, why) in [
            ("x", "0", "from 1 to 500"),
            ("x", "3\nrequires_confirmation: false", "from 1 to 500"),
            ("x", "99999999999999999999", "from 1 to 500"),
            (" ", "", "no prompt"),
        ] {
            let refused = read(&file(prompt, ("", true, steps))).unwrap_err();
            assert!(refused.message().contains(why), "{}", refused.message());
        }
    }

    #[test]
    fn an_action_is_called_after_its_file() {
        let named = ["Weekly digest.md", "Été.prompt.md", "日記.md", "notes.txt", ".md", "a--B.md"];
        let ids: Vec<Option<String>> = named.map(|it| label(it).map(id)).into();
        assert_eq!(ids[0].as_deref(), Some("weekly-digest"));
        assert_eq!(ids[1].as_deref(), Some("ete"));
        assert!(ids[2].as_deref().is_some_and(|it| it.starts_with("a-") && it.len() == 10));
        assert_eq!((ids[3].as_deref(), ids[4].as_deref()), (None, None));
        assert_eq!(ids[5].as_deref(), Some("a-b"));
    }
}

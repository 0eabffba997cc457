//! Secrets that no guard sees: what an agent prints to its terminal, and what its engine prints in
//! pieces that the server joins. They are covered before anybody sees the text and before it is
//! stored.

use std::borrow::Cow;
use std::mem;
use std::ops::Range;

use camino::Utf8Path;
use serde_json::Value;

use crate::base::{fault, is_secret_name, read_loose_json};
use crate::jobs::speak::Fact;
use crate::process::{Needles, secret_forms};
use crate::script::{Config, EngineBody, EnvValue, Secret};

/// Shortest value that is covered: a shorter one would be found where it is not meant.
const VALUE_BYTES_MIN: usize = 8;
/// Digits of the secret part of a token of ours; fewer are covered where the rest is not seen.
const TOKEN_DIGITS: usize = 64;
const TOKEN_DIGITS_MIN: usize = 20;
/// Longest text before these digits: `wbj_`.
const TOKEN_NAME_BYTES_MAX: usize = 4;

/// Returns what nobody may see on a screen: the values of variables whose names say that they are
/// secret, and those that the script names. A secret that cannot be read has no value.
pub(in crate::jobs) fn secrets(
    config: &Config,
    (folder, env): (&Utf8Path, &[(String, String)]),
) -> Vec<String> {
    let mut named: Vec<&Secret> = config.webhooks.values().map(|it| &it.secret).collect();
    let app = config.assistant.as_ref().and_then(|it| it.linkedin.as_ref());
    named.extend(app.into_iter().flat_map(|it| [&it.client_id, &it.client_secret]));
    let mut values: Vec<String> = Vec::new();
    for engine in config.engines.values() {
        match &engine.body {
            EngineBody::Process { env, .. } => {
                for (name, value) in env {
                    match value {
                        EnvValue::Secret(secret) => named.push(secret),
                        EnvValue::Text(text) if is_secret_name(name) => values.push(text.clone()),
                        EnvValue::Text(_) => {}
                    }
                }
            }
            EngineBody::Anthropic(model) => named.push(&model.key),
            EngineBody::Builtin(_) | EngineBody::Gateway(_) => {}
        }
    }
    values.extend(named.into_iter().filter_map(|it| it.read(folder, env).ok()));
    let inherited = env.iter().filter(|(name, _)| is_secret_name(name));
    values.extend(inherited.map(|(_, value)| value.trim().to_owned()));
    values.retain(|it| it.len() >= VALUE_BYTES_MIN);
    values.sort();
    values.dedup();
    values
}

/// Covers secrets in texts that are not output, such as warnings.
pub fn covered(
    texts: Vec<String>,
    config: &Config,
    place: (&Utf8Path, &[(String, String)]),
) -> Vec<String> {
    let mut secrets = secrets(config, place);
    // Git's settings have small letters only.
    secrets.extend(secrets.iter().map(|it| it.to_lowercase()).collect::<Vec<_>>());
    texts.iter().map(|it| veiled(it, &secrets)).collect()
}

/// Covers secrets, and all that looks like a token of this program, also over the end of a line.
pub(in crate::jobs) fn veiled(screen: &str, secrets: &[String]) -> String {
    Veil::new(secrets).cover(screen)
}

/// What nobody may see in a text.
#[derive(Clone, Debug, Default)]
pub(in crate::jobs) struct Veil(Needles);

impl Veil {
    pub(in crate::jobs) fn new(secrets: &[String]) -> Veil {
        let values: Vec<&str> = secrets.iter().map(String::as_str).collect();
        // Ends of lines are passed over, in a text as in a secret.
        let forms = secret_forms(&values).into_iter().map(|it| it.replace('\n', "").into_bytes());
        Veil(Needles::new(forms.collect()))
    }

    /// Covers secrets, and all that looks like a token of this program.
    pub(in crate::jobs) fn cover(&self, text: &str) -> String {
        let found = self.find(text);
        found.cover(text, &found.ranges)
    }

    /// Finds secrets, and all that looks like a token of this program.
    pub(in crate::jobs::speak) fn find(&self, text: &str) -> Found {
        if fault::is_off("masking") {
            return Found { places: Vec::new(), ranges: Vec::new(), hold: 0 };
        }
        let (mut bytes, mut places) = (Vec::new(), Vec::new());
        for (place, byte) in text.bytes().enumerate().filter(|(_, it)| *it != b'\n') {
            bytes.push(byte);
            places.push(place);
        }
        let (mut ranges, hold) = self.0.find(&bytes);
        ranges.extend(tokens(&bytes));
        Found { places, ranges, hold: begun_token(&bytes).map_or(hold, |it| it.min(hold)) }
    }

    /// Covers the texts and names of an entry of a stream.
    pub(in crate::jobs) fn cover_entry(&self, entry: &mut Value) {
        match entry {
            Value::String(text) => *text = self.cover(text),
            Value::Array(all) => all.iter_mut().for_each(|it| self.cover_entry(it)),
            Value::Object(fields) => {
                let covered = mem::take(fields).into_iter().map(|(name, mut value)| {
                    self.cover_entry(&mut value);
                    (self.cover(&name), value)
                });
                *fields = covered.collect();
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }

    /// Covers the texts and names of a line of JSON as they are once parsed: its writer may have
    /// escaped any character. Another line is unchanged.
    pub(in crate::jobs) fn cover_line<'l>(&self, line: &'l str) -> Cow<'l, str> {
        // Without escapes, the guard has seen them as they are.
        let is_escaped = line.starts_with('{') && line.contains('\\');
        let Some(parsed) = is_escaped.then(|| read_loose_json(line)).flatten() else {
            return Cow::Borrowed(line);
        };
        let mut covered = parsed.clone();
        self.cover_entry(&mut covered);
        match covered == parsed {
            true => Cow::Borrowed(line),
            false => Cow::Owned(covered.to_string()),
        }
    }

    /// Covers what an agent said in a turn.
    pub(in crate::jobs) fn cover_fact(&self, fact: &mut Fact) {
        if let Fact::Ended { text, .. } | Fact::Taken { answer: Some(text), .. } = fact {
            *text = self.cover(text);
        }
        if let Fact::Ended { before_typed: Some(text), .. } = fact {
            *text = self.cover(text);
        }
    }
}

/// What was found in a text.
pub(in crate::jobs::speak) struct Found {
    /// Where each byte stands that is not the end of a line.
    pub(in crate::jobs::speak) places: Vec<usize>,
    /// What is to be covered, as ranges of `places`.
    pub(in crate::jobs::speak) ranges: Vec<Range<usize>>,
    /// The first of `places` at which something begins that may run off the end.
    pub(in crate::jobs::speak) hold: usize,
}

impl Found {
    /// Covers ranges of `places` in the text, as far as it goes.
    pub(in crate::jobs::speak) fn cover(&self, text: &str, ranges: &[Range<usize>]) -> String {
        let mut covered = text.as_bytes().to_vec();
        for place in ranges.iter().flat_map(|it| &self.places[it.clone()]) {
            if let Some(byte) = covered.get_mut(*place) {
                *byte = b'*';
            }
        }
        String::from_utf8_lossy(&covered).into_owned()
    }
}

/// Returns where tokens of this program stand: `wb`, perhaps a letter, `_` and the secret part.
fn tokens(bytes: &[u8]) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    let mut from = 0;
    while let Some(at) = bytes[from..].windows(2).position(|it| it == b"wb").map(|it| from + it) {
        from = at + 2;
        let letter = usize::from(bytes.get(from).is_some_and(u8::is_ascii_lowercase));
        if bytes.get(from + letter) != Some(&b'_') {
            continue;
        }
        let begins = from + letter + 1;
        // What stands on the next line may follow at once.
        let digits = bytes[begins..].iter().take(TOKEN_DIGITS);
        let length = digits.take_while(|it| it.is_ascii_hexdigit()).count();
        if length >= TOKEN_DIGITS_MIN {
            found.push(at..begins + length);
            from = begins + length;
        }
    }
    found
}

/// Returns where a token begins that may run off the end.
fn begun_token(bytes: &[u8]) -> Option<usize> {
    let is_begun = |rest: &[u8]| {
        let (name, digits) = match rest.iter().position(|it| *it == b'_') {
            Some(at) => (&rest[..at], &rest[at + 1..]),
            None => (rest, &[][..]),
        };
        let is_name = match name {
            [b'w'] | [b'w', b'b'] => true,
            [b'w', b'b', letter] => letter.is_ascii_lowercase(),
            _ => false,
        };
        is_name && digits.len() < TOKEN_DIGITS && digits.iter().all(u8::is_ascii_hexdigit)
    };
    let from = bytes.len().saturating_sub(TOKEN_DIGITS + TOKEN_NAME_BYTES_MAX);
    (from..bytes.len()).find(|at| is_begun(&bytes[*at..]))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn secrets_and_tokens_are_covered_also_over_lines() {
        let secrets = ["dpl-SECRET".to_owned(), "käse-12345".to_owned()];
        let token = format!("wbj_{}", "0a".repeat(32));
        for (screen, expected) in [
            ("a dpl-SECRET b dpl-SECRET\n", "a ********** b **********\n"),
            ("x dpl-\nSECRET y", "x ****\n****** y"),
            ("käse-12345\n", "***********\n"),
            ("dpl-SECRE", "dpl-SECRE"),
            ("wbj_short wb_ wb", "wbj_short wb_ wb"),
            ("日本 wb-agent\n", "日本 wb-agent\n"),
            ("", ""),
        ] {
            assert_eq!(veiled(screen, &secrets), expected, "{screen}");
        }
        let (one, two) = token.split_at(10);
        for (screen, stars) in [
            (format!("> {token} <"), format!("> {} <", "*".repeat(68))),
            (
                format!("{one}\n{two}\ndeed"),
                format!("{}\n{}\ndeed", "*".repeat(10), "*".repeat(58)),
            ),
            (format!("wb_{two}."), format!("{}.", "*".repeat(61))),
        ] {
            assert_eq!(veiled(&screen, &[]), stars, "{screen}");
        }
    }

    /// Programs indent and frame what they show: a secret of several lines is covered line by line.
    #[test]
    fn g28_lines_of_a_secret_are_covered_with_indent_and_frame() {
        let lines = ["-----BEGIN KEY-----", "MIIEvQIBADANBgkqhkiG9w0BAQ", "BKcwggSjAgEAAoIBAQC7Zk"];
        let veil = Veil::new(&[lines.join("\n")]);
        for (before, after) in
            [("     ", ""), ("  \u{23bf}  ", ""), ("\u{2502} ", " \u{2502}"), ("7\t", "")]
        {
            let screen = lines.map(|it| format!("{before}{it}{after}")).join("\n");
            let covered = veil.cover(&screen);
            assert!(!covered.contains("MII") && !covered.contains("BKc"), "{covered}");
            assert_eq!(covered.lines().count(), 3);
            let mut entry =
                json!({"type": "text", "text": screen, "list": [{"a": screen}], "n": 7});
            veil.cover_entry(&mut entry);
            assert!(!entry.to_string().contains("MII") && entry["n"] == 7, "{entry}");
        }
        let wrapped = format!("{}\n{}", &lines[1][..10], &lines[1][10..]);
        assert_eq!(veil.cover(&wrapped), format!("{}\n{}", "*".repeat(10), "*".repeat(16)));
    }
}

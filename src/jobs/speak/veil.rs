//! Secrets on the screen of an agent: what it prints to its terminal passes no guard, so they are
//! covered when the screen is read, before anybody sees it and before it reaches a file.

use std::ops::Range;

use camino::Utf8Path;

use crate::base::{fault, is_secret_name};
use crate::script::{Config, EngineBody, EnvValue, Secret};

/// Shortest value that is covered: a shorter one would be found where it is not meant.
const VALUE_BYTES_MIN: usize = 8;
/// Digits of the secret part of a token of ours; fewer are covered where the rest is not seen.
const TOKEN_DIGITS: usize = 64;
const TOKEN_DIGITS_MIN: usize = 20;

/// Returns what nobody may see on a screen: the values of variables whose names say that they are
/// secret, and those that the script names. A secret that cannot be read has no value.
pub(in crate::jobs) fn secrets(
    config: &Config,
    (folder, env): (&Utf8Path, &[(String, String)]),
) -> Vec<String> {
    let mut named: Vec<&Secret> = config.webhooks.values().map(|it| &it.secret).collect();
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
    if fault::is_off("masking") {
        return screen.to_owned();
    }
    // Where each byte stands that is not the end of a line.
    let (mut bytes, mut places) = (Vec::new(), Vec::new());
    for (place, byte) in screen.bytes().enumerate().filter(|(_, it)| *it != b'\n') {
        bytes.push(byte);
        places.push(place);
    }
    let text = String::from_utf8_lossy(&bytes);
    let mut found: Vec<Range<usize>> = tokens(&bytes);
    for secret in secrets {
        let secret: String = secret.chars().filter(|it| *it != '\n').collect();
        found.extend(text.match_indices(&secret).map(|(at, it)| at..at + it.len()));
    }
    let mut covered = screen.as_bytes().to_vec();
    for range in found {
        for place in &places[range] {
            covered[*place] = b'*';
        }
    }
    String::from_utf8_lossy(&covered).into_owned()
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

#[cfg(test)]
mod tests {
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
}

//! Masks secrets in parsed output: if an engine prints a text in pieces or escapes it, the guard
//! never sees the whole secret, but the joined text contains it.
//!
//! **Invariant:** a line is covered before a reader gets it (`Veil::cover_line`); entries and final
//! messages, which readers join, pass through here before they are stored or shown.

use serde_json::Value;

use crate::base::Result;
use crate::jobs::speak::veil::Veil;
use crate::jobs::telemetry::Telemetry;

impl Telemetry {
    /// Sets what nobody may see.
    #[must_use]
    pub(in crate::jobs) fn veiled(mut self, veil: Veil) -> Telemetry {
        self.veil = veil;
        self
    }

    /// Keeps what was read: the entries, and what is known of the run.
    pub(super) fn keep(&mut self, entries: Vec<Value>) -> Result<()> {
        let report = &mut self.report;
        let last = [&mut report.summary, &mut report.stray].into_iter().flatten();
        for text in last.chain(&mut report.warnings) {
            *text = self.veil.cover(text);
        }
        for mut entry in entries {
            self.veil.cover_entry(&mut entry);
            self.calls.note(&entry);
            self.append(entry)?;
        }
        self.report.doing = self.calls.doing(self.report.is_cut_in_call);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use camino::Utf8Path;
    use serde_json::json;

    use super::*;
    use crate::base::Clock;
    use crate::jobs::telemetry::read_stream_end;
    use crate::script::{Reads, Speaks};

    const SECRET: &str = "plain-token-value-12345-abcdef";

    /// Reads an agent's output; returns its last words and its stream.
    fn kept(reads: Reads, printed: &str) -> (String, String) {
        let folder = tempfile::tempdir().unwrap();
        let dir = Utf8Path::from_path(folder.path()).unwrap();
        let veil = Veil::new(&[SECRET.to_owned(), "first-line-of-a-key\nsecond".to_owned()]);
        let mut telemetry = Telemetry::new(dir, Some(reads), Clock::system()).veiled(veil);
        telemetry.take(printed.as_bytes()).unwrap();
        telemetry.finish().unwrap();
        let (entries, _) = read_stream_end(dir, 100).unwrap();
        (telemetry.report().summary.clone().unwrap(), json!(entries).to_string())
    }

    #[test]
    fn g28_a_secret_in_pieces_is_covered_once_they_are_joined() {
        let token = format!("wbj_{}", "0a".repeat(32));
        for secret in [SECRET, &token, "first-line-of-a-key"] {
            let (one, rest) = secret.split_at(5);
            let (two, three) = rest.split_at(6);
            let pieces = [&format!("It is {one}"), two, &format!("{three}.")].map(|it| {
                let piece = json!({
                    "type": "message", "role": "assistant", "content": it, "delta": true,
                });
                format!("{piece}\n")
            });
            let end = json!({"type": "result", "status": "success", "stats": {}});
            // With the line that ends the run, and cut short.
            for printed in [format!("{}{end}\n", pieces.concat()), pieces.concat()] {
                let (summary, stream) = kept(Reads::GeminiStreamJson, &printed);
                assert_eq!(summary, format!("It is {}.", "*".repeat(secret.len())));
                assert!(stream.contains(&summary) && !stream.contains(secret), "{stream}");
            }
        }
    }

    #[test]
    fn g28_a_reader_of_any_engine_covers_secrets() {
        // An escape that the guard does not know, and that reading removes.
        let escaped = SECRET.replacen('p', "\\u0070", 1);
        let said = format!(r#"{{"type":"agent_message","text":"{escaped}"}}"#);
        for (reads, line) in [
            (Reads::Plain, SECRET.to_owned()),
            (Reads::CodexJsonl, format!(r#"{{"type":"item.completed","item":{said}}}"#)),
            (Reads::OpencodeJson, format!(r#"{{"type":"text","part":{{"text":"{escaped}"}}}}"#)),
            (
                Reads::ClaudeStreamJson,
                format!(r#"{{"type":"result","is_error":false,"result":"{escaped}"}}"#),
            ),
        ] {
            let (summary, stream) = kept(reads, &format!("{line}\n"));
            assert_eq!(summary, "*".repeat(SECRET.len()), "{line}");
            assert!(!stream.contains(SECRET), "{stream}");
        }
    }

    /// Whatever a reader takes from a line: names of sessions and models, reasons.
    #[test]
    fn g28_no_escape_hides_a_secret_from_a_reader() {
        let folder = tempfile::tempdir().unwrap();
        let dir = Utf8Path::from_path(folder.path()).unwrap();
        let secret = "postgres://bot:s3cret&pass<word>@db.internal/wiki";
        let telemetry = |reads| {
            let veil = Veil::new(&[secret.to_owned()]);
            Telemetry::new(dir, Some(reads), Clock::system()).veiled(veil)
        };
        let stars = "*".repeat(secret.len());
        let numbered: String = secret.bytes().map(|it| format!("\\u{it:04x}")).collect();
        for escaped in [
            secret.replace('/', "\\/"),
            secret.replace('&', "\\u0026").replace('<', "\\u003c").replace('>', "\\u003e"),
            numbered,
        ] {
            let mut run = telemetry(Reads::ClaudeStreamJson);
            let usage = r#"{"inputTokens":1,"outputTokens":2,"costUSD":0}"#;
            let end = format!(r#""session_id":"{escaped}","modelUsage":{{"{escaped}":{usage}}}"#);
            let end =
                format!("{{\"type\":\"result\",\"is_error\":false,\"result\":\"x\",{end}}}\n");
            run.take(end.as_bytes()).unwrap();
            let report = run.report();
            assert_eq!(report.session_ref.as_deref(), Some(&*stars));
            assert_eq!(report.usage.as_ref().unwrap()["models"], json!([stars]));
            assert!(!format!("{report:?}").contains("s3cret"), "{report:?}");
            let mut turns = telemetry(Reads::Plain).hearing(Some(Speaks::Lines));
            // The secret is longer than what is kept of a reason.
            let why = format!("{}{escaped}", "x".repeat(1_990));
            let line = format!("{{\"turn\":\"ended\",\"failed\":\"{why}\"}}\n");
            turns.take(line.as_bytes()).unwrap();
            let facts = format!("{:?}", turns.take_facts());
            assert!(facts.contains("xx*****") && !facts.contains("postgres"), "{facts}");
        }
    }
}

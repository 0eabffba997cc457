//! Providers' refusals as our own codes.

use std::time::Duration;

use serde_json::Value;

use crate::base::truncate_chars;
use crate::chat::model::Fault;
use crate::outbound::Failure;

/// Most characters shown of a provider's message.
const MESSAGE_CHARS_MAX: usize = 400;
/// Longest believable wait, in seconds.
const WAIT_SECONDS_MAX: f64 = 8.0 * 24.0 * 3_600.0;

/// Returns the fault of a refused request.
pub(super) fn of_status(status: u16, retry_after: Option<&str>, body: &str) -> Fault {
    let told: Option<Value> = serde_json::from_str(body).ok();
    let said = told.as_ref().and_then(|it| it["error"]["message"].as_str()).unwrap_or_default();
    let said = said.trim();
    let message = match said.is_empty() {
        true => format!("the provider answered with status {status}"),
        false => truncate_chars(said, MESSAGE_CHARS_MAX),
    };
    let wait = retry_after.and_then(|it| it.trim().parse::<f64>().ok());
    let wait = wait.filter(|it| it.is_finite() && *it >= 0.0);
    let wait = wait.map(|it| Duration::from_secs_f64(it.min(WAIT_SECONDS_MAX)));
    let fault = match status {
        400 if is_too_long(said) => Fault::lasting("context_full", message),
        413 => Fault::lasting("context_full", message),
        // An account without credit gets the same refusal.
        400 if said.to_ascii_lowercase().contains("credit balance") => {
            Fault::lasting("key_invalid", message)
        }
        401 | 403 => Fault::lasting("key_invalid", message),
        404 => Fault::lasting("model_not_found", message),
        429 => Fault::passing("rate_limited", message),
        529 => Fault::passing("overloaded", message),
        408 | 409 | 500.. => Fault::passing("unreachable", message),
        _ => Fault::lasting("bad_answer", message),
    };
    Fault { wait, ..fault }
}

/// Returns the fault reported within an answer.
pub(super) fn of_event(event: &Value) -> Fault {
    let word = event["error"]["type"].as_str().unwrap_or_default();
    let said = event["error"]["message"].as_str().unwrap_or("the provider broke the answer off");
    let message = truncate_chars(said, MESSAGE_CHARS_MAX);
    match word {
        "overloaded_error" => Fault::passing("overloaded", message),
        "rate_limit_error" => Fault::passing("rate_limited", message),
        "api_error" | "timeout_error" => Fault::passing("unreachable", message),
        "authentication_error" | "permission_error" | "billing_error" => {
            Fault::lasting("key_invalid", message)
        }
        "not_found_error" => Fault::lasting("model_not_found", message),
        _ if is_too_long(said) => Fault::lasting("context_full", message),
        _ => Fault::lasting("bad_answer", message),
    }
}

/// Returns the fault for a connection error.
pub(super) fn of_failure(failure: Failure) -> Fault {
    match failure {
        Failure::Unconnected(why) | Failure::Lost(why) => {
            let why = truncate_chars(&why, MESSAGE_CHARS_MAX);
            Fault::passing("unreachable", format!("the provider cannot be reached: {why}"))
        }
        Failure::Silent => Fault::passing("stalled", "the model fell silent"),
        Failure::TooLarge => Fault::lasting("bad_answer", "the answer is too large"),
        Failure::Unmade(why) => {
            let why = truncate_chars(&why, MESSAGE_CHARS_MAX);
            Fault::lasting("internal", format!("the model cannot be asked: {why}"))
        }
    }
}

fn is_too_long(said: &str) -> bool {
    let said = said.to_ascii_lowercase();
    ["prompt is too long", "context window", "context limit"].iter().any(|it| said.contains(it))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_has_one_word() {
        let of = |status, said: &str| {
            let body = format!("{{\"error\":{{\"type\":\"x\",\"message\":\"{said}\"}}}}");
            let fault = of_status(status, Some("7"), &body);
            (fault.code, fault.is_passing)
        };
        for (status, said, expected) in [
            (400, "messages: wrong", ("bad_answer", false)),
            (400, "prompt is too long: 9 tokens", ("context_full", false)),
            (400, "Your credit balance is too low", ("key_invalid", false)),
            (401, "invalid x-api-key", ("key_invalid", false)),
            (404, "model: x", ("model_not_found", false)),
            (429, "slow down", ("rate_limited", true)),
            (500, "", ("unreachable", true)),
            (302, "", ("bad_answer", false)),
            (529, "", ("overloaded", true)),
        ] {
            assert_eq!(of(status, said), expected, "{status} {said}");
        }
        assert_eq!(of_status(429, Some("7"), "").wait, Some(Duration::from_secs(7)));
        for odd in ["-1", "NaN", "inf", "Wed, 21 Oct 2026 07:28:00 GMT"] {
            assert_eq!(of_status(429, Some(odd), "").wait, None, "{odd}");
        }
        assert_eq!(of_status(502, None, "<html>").message, "the provider answered with status 502");
    }
}

//! Daily caps, as the script declares them.

use std::time::Duration;

use serde::Serialize;

use crate::base::limit::format_duration;
use crate::script::config::Engine;
use crate::script::load::extract::{Checked, Given};
use crate::script::source::diagnostic::{Diagnostic, Findings};
use crate::script::source::span::Spot;

/// Largest cap; anything larger is probably a mistake, and sums of it stay exact.
const MEASURE_MAX: f64 = 1e12;

/// Cap per day (UTC). A measure that is not set has no cap.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Daily {
    /// US dollars, as the agents report them.
    pub cost_usd: Option<f64>,
    /// Tokens read and written, including cached ones.
    pub tokens: Option<i64>,
    /// Total time of jobs from start to end.
    #[serde(serialize_with = "write_time")]
    pub time: Option<Duration>,
}

/// Builds a cap from a field, if it is present and valid.
pub(crate) fn build(
    title: &str,
    name: &str,
    checked: &Checked,
    findings: &mut Findings,
) -> Option<Daily> {
    let Some(Given::Fields(fields)) = checked.given(name) else { return None };
    let mut measure = |name: &str, is_whole: bool| {
        let number = fields.number(name)?;
        let is_right = number > 0.0 && number <= MEASURE_MAX;
        if is_right && (!is_whole || number.fract() == 0.0) {
            return Some(number);
        }
        let kind = if is_whole { "whole number" } else { "number" };
        let message = format!("`{name}` is {number}, but must be a {kind} above 0");
        findings.add(Diagnostic::error("out-of-range", message).at(fields.spot(name)));
        None
    };
    let cost_usd = measure("cost_usd", false);
    let tokens = measure("tokens", true).map(|it| it as i64);
    if fields.is_empty() {
        let message = format!("`{name}` of {title} caps nothing");
        let finding = Diagnostic::error("bad-text", message).at(checked.spot(name));
        findings.add(finding.note("write cost_usd, tokens or time"));
    }
    Some(Daily { cost_usd, tokens, time: fields.duration("time") })
}

/// Warns about a cap on something that some of its engines do not report.
pub(crate) fn warn_unseen(
    title: &str,
    daily: Option<&Daily>,
    engines: &[&Engine],
    spot: &Spot,
    findings: &mut Findings,
) {
    let Some(daily) = daily else { return };
    let tells_cost: fn(&Engine) -> bool = Engine::tells_cost;
    for (measure, is_capped, tells) in [
        ("cost_usd", daily.cost_usd.is_some(), tells_cost),
        ("tokens", daily.tokens.is_some(), Engine::tells_tokens),
    ] {
        let is_unseen = |it: &&&Engine| !tells(it);
        let unseen = engines.iter().filter(is_unseen).map(|it| format!("\"{}\"", it.name));
        let unseen: Vec<String> = unseen.collect();
        let (word, verb) =
            if unseen.len() == 1 { ("engine", "spends") } else { ("engines", "spend") };
        if is_capped && !unseen.is_empty() {
            let names = unseen.join(", ");
            let message =
                format!("`{measure}` of {title} does not count what {word} {names} {verb}");
            let note = "the program does not tell it; cap `time` as well";
            findings.add(Diagnostic::warning("cap-unseen", message).at(spot).note(note));
        }
    }
}

fn write_time<S: serde::Serializer>(time: &Option<Duration>, to: S) -> Result<S::Ok, S::Error> {
    match time {
        Some(time) => to.serialize_str(&format_duration(*time)),
        None => to.serialize_none(),
    }
}

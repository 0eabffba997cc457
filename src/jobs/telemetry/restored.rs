//! What a resumed session of Claude Code had spent before: newer versions (2.1.332) restore the
//! totals of a session that ended in good order, older ones (2.1.197) begin at 0, and after a crash
//! the restored totals are those of an earlier process. The rows must hold what a process spent.
//!
//! What a process had spent at its first result is known without its totals: `usage` is that of the
//! turn, and what sub-agents used is in their messages and in the answers of their calls. The rest
//! of the first totals was restored, and is subtracted from these and all later ones.

use std::collections::BTreeMap;

use camino::Utf8Path;
use serde_json::{Value, json};
use tracing::info;

use crate::base::read_loose_json;
use crate::process::launched;
use crate::script::Reads;

/// Most messages that are told apart; a first turn that takes more is counted up to there.
const MESSAGES_MAX: usize = 10_000;
/// Names in the totals of a model, names in `usage`, and the price of a token, relative to that of
/// an input token.
const COUNTS: [(&str, &str, f64); 4] = [
    ("inputTokens", "input_tokens", 1.0),
    ("cacheCreationInputTokens", "cache_creation_input_tokens", 1.25),
    ("cacheReadInputTokens", "cache_read_input_tokens", 0.1),
    ("outputTokens", "output_tokens", 5.0),
];

/// Tokens, in the order of [`COUNTS`].
type Counts = [u64; 4];

/// Finds what was restored in the totals of a process.
#[derive(Debug, Default)]
pub(super) struct Restored {
    /// Whether the process resumed a session.
    is_resumed: bool,
    /// Messages of the first turn by id: the call that they belong to, their model, their tokens.
    said: BTreeMap<String, (Option<String>, String, Counts)>,
    /// The model of the last message of the turn's own.
    model: String,
    /// What was restored by model, with its cost, once that is known.
    base: Option<BTreeMap<String, (Counts, f64)>>,
}

impl Restored {
    /// Returns what is known of the process whose job's folder this is.
    pub(super) fn of(dir: &Utf8Path, reads: Option<Reads>) -> Restored {
        if reads != Some(Reads::ClaudeStreamJson) {
            return Restored::default();
        }
        let argv = launched(dir).map(|it| it.argv).unwrap_or_else(|cause| {
            info!("an agent counts as one that resumes nothing: {}", cause.chain());
            Vec::new()
        });
        Restored { is_resumed: argv.iter().any(|it| resumes(it)), ..Restored::default() }
    }

    /// Returns a line with the totals of this process alone, if it has others.
    pub(super) fn without(&mut self, line: &str) -> Option<String> {
        if !self.is_resumed {
            return None;
        }
        let mut line = read_loose_json(line)?;
        match line["type"].as_str()? {
            "assistant" => self.message(&line),
            "user" => self.answer(&line),
            "result" => {
                let base = match self.base.take() {
                    Some(base) => base,
                    None => self.restored(&line),
                };
                subtract(&mut line, &base);
                self.base = Some(base);
                return Some(line.to_string());
            }
            _ => {}
        }
        None
    }

    fn message(&mut self, line: &Value) {
        let message = &line["message"];
        let (Some(id), true) = (message["id"].as_str(), message["usage"].is_object()) else {
            return;
        };
        let model = message["model"].as_str().unwrap_or_default();
        let call = line["parent_tool_use_id"].as_str().map(str::to_owned);
        // Its own errors are messages of a model in angle brackets.
        if call.is_none() && !model.starts_with('<') {
            model.clone_into(&mut self.model);
        }
        self.note(id, call, model, &message["usage"]);
    }

    /// Notes the last message of a sub-agent, which may have no line of its own.
    fn answer(&mut self, line: &Value) {
        let told = &line["tool_use_result"];
        let parts = line["message"]["content"].as_array();
        let call = parts.into_iter().flatten().find_map(|it| it["tool_use_id"].as_str());
        let (Some(call), true) = (call, told["usage"].is_object()) else { return };
        let counts = counts(&told["usage"], |it| it.1);
        let is_same = |it: &&mut (Option<String>, String, Counts)| {
            it.0.as_deref() == Some(call) && it.2[..3] == counts[..3]
        };
        if let Some(last) = self.said.values_mut().find(is_same) {
            last.2 = counts;
            return;
        }
        let model = told["resolvedModel"].as_str().unwrap_or(&self.model).to_owned();
        self.note(call, Some(call.to_owned()), &model, &told["usage"]);
    }

    fn note(&mut self, id: &str, call: Option<String>, model: &str, usage: &Value) {
        let is_first_turn = self.base.is_none();
        if is_first_turn && (self.said.len() < MESSAGES_MAX || self.said.contains_key(id)) {
            let said = (call, model.to_owned(), counts(usage, |it| it.1));
            self.said.insert(id.to_owned(), said);
        }
    }

    /// Returns what of the first totals this process has not spent.
    fn restored(&self, line: &Value) -> BTreeMap<String, (Counts, f64)> {
        let mut turn = Counts::default();
        let mut own: BTreeMap<&str, Counts> = BTreeMap::new();
        for (call, model, counts) in self.said.values() {
            match call {
                Some(_) => add(own.entry(plain(model)).or_default(), counts),
                None => add(&mut turn, counts),
            }
        }
        // An interrupted turn has no usage.
        let usage = counts(&line["usage"], |it| it.1);
        let turn = std::array::from_fn(|at| turn[at].max(usage[at]));
        add(own.entry(plain(&self.model)).or_default(), &turn);
        let models = line["modelUsage"].as_object();
        let is_told = |name: &str| models.is_some_and(|it| it.keys().any(|it| plain(it) == name));
        if own.iter().any(|(name, counts)| *counts != Counts::default() && !is_told(name)) {
            // Other names than in its messages: rather too much than too little.
            return BTreeMap::new();
        }
        let base = |(name, told): (&String, &Value)| {
            let total = counts(told, |it| it.0);
            let own = own.get(plain(name)).copied().unwrap_or_default();
            let base: Counts = std::array::from_fn(|at| total[at].saturating_sub(own[at]));
            let cost = told["costUSD"].as_f64().unwrap_or_default();
            let share = price(&base) / price(&total).max(f64::MIN_POSITIVE);
            (name.clone(), (base, cost * share))
        };
        models.into_iter().flatten().map(base).collect()
    }
}

/// Returns whether a word of a command makes Claude Code go on with a session.
fn resumes(word: &str) -> bool {
    matches!(word, "--resume" | "-r" | "--continue" | "-c") || word.starts_with("--resume=")
}

/// Returns the name of a model without what some versions add to it: `[1m]`.
fn plain(model: &str) -> &str {
    model.split('[').next().unwrap_or(model)
}

fn counts(told: &Value, name: fn(&(&'static str, &'static str, f64)) -> &'static str) -> Counts {
    COUNTS.each_ref().map(|it| told[name(it)].as_u64().unwrap_or(0))
}

fn add(sum: &mut Counts, other: &Counts) {
    sum.iter_mut().zip(other).for_each(|(sum, it)| *sum = sum.saturating_add(*it));
}

fn price(counts: &Counts) -> f64 {
    counts.iter().zip(COUNTS).map(|(count, it)| *count as f64 * it.2).sum()
}

fn subtract(line: &mut Value, base: &BTreeMap<String, (Counts, f64)>) {
    let less = |told: &Value, cost: f64| told.as_f64().map(|it| json!((it - cost).max(0.0)));
    for (name, (counts, cost)) in base {
        let told = &mut line["modelUsage"][name];
        for (at, (name, _, _)) in COUNTS.iter().enumerate() {
            if let Some(total) = told[*name].as_u64() {
                told[*name] = json!(total.saturating_sub(counts[at]));
            }
        }
        if let Some(cost) = less(&told["costUSD"], *cost) {
            told["costUSD"] = cost;
        }
    }
    let spent = base.values().map(|it| it.1).sum();
    if let Some(cost) = less(&line["total_cost_usd"], spent) {
        line["total_cost_usd"] = cost;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::Clock;
    use crate::jobs::telemetry::Telemetry;
    use crate::process::JobFolder;

    fn restored() -> Restored {
        Restored { is_resumed: true, ..Restored::default() }
    }

    fn result(own: [u64; 2], total: [u64; 2], cost: f64, model: &str) -> Value {
        let models = json!({model: {
            "inputTokens": total[0], "outputTokens": total[1], "costUSD": cost,
        }});
        json!({
            "type": "result", "total_cost_usd": cost, "modelUsage": models,
            "usage": {"input_tokens": own[0], "output_tokens": own[1]},
        })
    }

    fn said(id: &str, call: Option<&str>, input: u64) -> Value {
        json!({
            "type": "assistant", "parent_tool_use_id": call,
            "message": {"id": id, "model": "opus", "usage": {"input_tokens": input,
                "output_tokens": 1}},
        })
    }

    /// Returns input, output and cost of each result.
    fn own(restored: &mut Restored, lines: &[Value]) -> Vec<(u64, u64, f64)> {
        let spent = |line: String| {
            let line: Value = serde_json::from_str(&line).unwrap();
            let told = line["modelUsage"].as_object().unwrap().values().next().unwrap().clone();
            let count = |name: &str| told[name].as_u64().unwrap();
            let cost = line["total_cost_usd"].as_f64().unwrap();
            assert!((told["costUSD"].as_f64().unwrap() - cost).abs() < 1e-9);
            (count("inputTokens"), count("outputTokens"), (cost * 1e6).round() / 1e6)
        };
        lines.iter().filter_map(|it| restored.without(&it.to_string())).map(spent).collect()
    }

    /// The numbers of real processes: resumed, and resumed again after a kill.
    #[test]
    fn totals_that_were_restored_are_those_of_this_process() {
        let lines = [
            said("m1", None, 12_384),
            result([12_384, 8], [37_037, 24], 0.148_628, "opus"),
            said("m2", None, 12_425),
            result([12_425, 8], [49_462, 32], 0.198_488, "opus"),
        ];
        let found = own(&mut restored(), &lines);
        assert_eq!((found[0].0, found[0].1), (12_384, 8));
        assert_eq!((found[1].0, found[1].1), (24_809, 16));
        assert!((found[0].2 - 0.049_696).abs() < 1e-4, "{found:?}");
        assert!((found[1].2 - 0.099_556).abs() < 1e-4, "{found:?}");
        // The total of a process that was killed is not restored, only those before it.
        let killed =
            [said("m3", None, 12_465), result([12_465, 8], [37_118, 24], 0.148_952, "opus")];
        assert_eq!(own(&mut restored(), &killed)[0].0, 12_465);
    }

    #[test]
    fn totals_that_begin_at_nothing_stay_as_they_are() {
        let lines = [
            said("m1", None, 19_042),
            result([19_042, 8], [19_042, 8], 0.095_41, "opus[1m]"),
            result([19_082, 8], [38_124, 16], 0.191_02, "opus[1m]"),
        ];
        let expected = [(19_042, 8, 0.095_41), (38_124, 16, 0.191_02)];
        assert_eq!(own(&mut restored(), &lines), expected);
        // A session that resumed nothing is left alone.
        assert_eq!(own(&mut Restored::default(), &lines), []);
    }

    #[test]
    fn what_sub_agents_spend_was_not_restored() {
        let answer = |input: u64| {
            json!({
                "type": "user", "parent_tool_use_id": null,
                "message": {"content": [{"type": "tool_result", "tool_use_id": "t1"}]},
                "tool_use_result": {"resolvedModel": "opus[1m]",
                    "usage": {"input_tokens": input, "output_tokens": 14}},
            })
        };
        let total = |more: u64| result([38_141, 55], [49_401 + more, 69], 0.248_73, "opus[1m]");
        let run = |between: &[Value], more| {
            let first = [said("m1", None, 18_998), said("m1", None, 18_998)];
            let last = [said("m2", None, 19_143), total(more)];
            own(&mut restored(), &[&first[..], between, &last].concat())[0]
        };
        // Its only message has no line.
        assert_eq!(run(&[answer(11_260)], 0), (49_401, 69, 0.248_73));
        // It has one, and so has a message before it.
        let lines = [said("s1", Some("t1"), 500), said("s2", Some("t1"), 10_760), answer(10_760)];
        assert_eq!(run(&lines, 0).0, 49_401);
        // A name that is nowhere else leaves the totals as they are.
        let other = [said("m1", None, 5), result([5, 1], [50, 9], 0.5, "us.opus")];
        assert_eq!(own(&mut restored(), &other), [(50, 9, 0.5)]);
        assert_eq!(run(&[answer(11_260)], 7_000).0, 49_401);
    }

    /// Whoever reads the lines gets those of this process.
    #[test]
    fn a_run_that_resumes_is_counted_without_what_was_spent_before() {
        let spent = |words: &[&str]| {
            let folder = tempfile::tempdir().unwrap();
            let dir = Utf8Path::from_path(folder.path()).unwrap().join("job");
            let launch = json!({
                "version": 1, "job": "j", "argv": words, "env": [], "cwd": "/", "stdin": "null",
                "clocks": {"start_ms": null, "idle_ms": null, "linger_ms": 1}, "grace_ms": 1,
                "output": {"head_bytes": 1, "tail_bytes": 1}, "on_server_loss": "kill",
            });
            let launch = launch.to_string();
            JobFolder::make(&dir).unwrap().put("launch.json", launch.as_bytes()).unwrap();
            let reads = Some(Reads::ClaudeStreamJson);
            let mut telemetry = Telemetry::new(&dir, reads, Clock::system());
            for line in [said("m1", None, 10), result([10, 2], [100, 20], 0.5, "opus")] {
                telemetry.take(format!("{line}\n").as_bytes()).unwrap();
            }
            let report = telemetry.report();
            (report.usage.as_ref().unwrap()["input_tokens"].clone(), report.cost_usd.unwrap())
        };
        assert_eq!(spent(&["/bin/claude", "--resume", "s-1"]), (json!(10), 0.05));
        assert_eq!(spent(&["/bin/claude", "--session-id", "s-1"]), (json!(100), 0.5));
    }

    #[test]
    fn a_command_says_whether_it_resumes() {
        for word in ["--resume", "-r", "--resume=s-1", "--continue", "-c"] {
            assert!(resumes(word), "{word}");
        }
        for word in ["--session-id", "resume", "--resumed"] {
            assert!(!resumes(word), "{word}");
        }
    }
}

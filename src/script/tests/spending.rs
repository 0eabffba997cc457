//! Settings for parsing an agent's output, for spending, and for priorities.

use std::time::Duration;

use crate::script::tests::{Site, check};

fn script(limits: &str, engine: &str, kind: &str) -> String {
    let engine = format!("type = \"process\", command = {{ \"x\" }}, prompt = \"stdin\"{engine}");
    let about = "about = \"a\", engine = \"e\", timeout = \"5m\", prompt = 'p'";
    format!(
        "wb.limits {{ {limits} }}\nwb.engine \"e\" {{ {engine} }}\n\
         wb.kind \"k\" {{ {about},\n{kind}\n}}\n"
    )
}

#[test]
fn an_agent_that_prints_at_its_end_only_is_not_idle() {
    for (reads, idle) in [("claude-stream-json", 180), ("codex-jsonl", 180), ("plain", 0)] {
        let rest = script("", &format!(", reads = \"{reads}\""), "");
        let loaded = Site::with_head(&rest).loaded();
        assert_eq!(loaded.config.engines["e"].reads().unwrap().as_str(), reads);
        let expected = (idle > 0).then(|| Duration::from_secs(idle));
        assert_eq!(loaded.config.kinds["k"].idle, expected, "{reads}");
    }
}

#[test]
fn daily_caps_have_measures_that_are_more_than_nothing() {
    let limits = |fields: &str, place: &str, code: &str| {
        let rest = script(&format!("daily = {fields}"), "", "");
        check(&rest, &[&format!("4:{place} {code}")]);
    };
    limits("{ cost = 5 }", "23", "unknown-field");
    limits("{ cost_usd = 0 }", "34", "out-of-range");
    limits("{ tokens = 1.5 }", "32", "out-of-range");
    limits("{ tokens = -1 }", "32", "out-of-range");
    limits("{ cost_usd = \"5\" }", "34", "wrong-type");
    limits("{ time = 5 }", "30", "bad-duration");
    limits("{}", "21", "bad-text");
    limits("5", "21", "wrong-type");
    check(&script("", "", "daily = { tokens = 0 }"), &["7:20 out-of-range"]);
    check(&script("", "", "priority = 101"), &["7:12 out-of-range"]);
    check(&script("", "", "priority = 0.5"), &["7:12 out-of-range"]);
}

#[test]
fn caps_priority_and_holds_are_taken_as_written() {
    let rest = script(
        "daily = { cost_usd = 5 }, daily_person = { cost_usd = 1.25 }",
        ", reads = \"codex-jsonl\", on_rate_limit = \"go_on\"",
        "daily = { tokens = 2e6, time = \"2h\" }, priority = -3",
    );
    let loaded = Site::with_head(&rest).loaded();
    let config = &loaded.config;
    assert_eq!(config.limits.daily.as_ref().unwrap().cost_usd, Some(5.0));
    assert_eq!(config.limits.daily_person.as_ref().unwrap().cost_usd, Some(1.25));
    let daily = config.kinds["k"].daily.as_ref().unwrap();
    assert_eq!((daily.tokens, daily.time), (Some(2_000_000), Some(Duration::from_secs(7_200))));
    assert_eq!(config.kinds["k"].priority, -3);
    assert!(!config.engines["e"].is_held_by_limits);
    // Codex reports no cost, so these caps do not see what it spends.
    let unseen = loaded.warnings.iter().filter(|it| it.code == "cap-unseen").count();
    assert_eq!(unseen, 2, "{:?}", loaded.warnings);
    // With several engines, each cap is reported once, with their names.
    let more = "wb.engine \"f\" { type = \"process\", command = { \"x\" }, prompt = \"stdin\" }\n\
        wb.kind \"l\" { about = \"a\", engine = \"f\", timeout = \"5m\", prompt = 'p' }\n";
    let two = script("daily = { cost_usd = 5 }", "", "") + more;
    let loaded = Site::with_head(&two).loaded();
    let told: Vec<&str> = loaded.warnings.iter().map(|it| it.message.as_str()).collect();
    let expected = "`cost_usd` of limits.daily does not count what engines \"e\", \"f\" spend";
    assert_eq!(told, [expected]);
    let rest = script("daily = { cost_usd = 5 }", ", reads = \"claude-stream-json\"", "");
    let loaded = Site::with_head(&rest).loaded();
    assert!(loaded.warnings.is_empty(), "{:?}", loaded.warnings);
    assert!(loaded.config.engines["e"].is_held_by_limits);
    assert_eq!(loaded.config.kinds["k"].priority, 0);
    // A long-running program reports its spending with each turn.
    let lines = "wb.limits { daily = { cost_usd = 5, tokens = 7 } }\n\
        wb.engine \"e\" { type = \"stream\", command = { \"x\" }, speaks = \"lines\" }\n\
        wb.agent \"a\" { about = \"a\", engine = \"e\", daily = { cost_usd = 1 } }\n";
    let loaded = Site::with_head(lines).loaded();
    assert!(loaded.warnings.is_empty(), "{:?}", loaded.warnings);
}

#[test]
fn a_cap_on_what_a_long_running_program_does_not_tell_is_warned_of() {
    for (engine, unseen) in [
        ("type = \"stream\", speaks = \"claude-stream-json\"", &[][..]),
        ("type = \"stream\", speaks = \"pi-rpc\"", &[]),
        ("type = \"stream\", speaks = \"codex-app-server\"", &["cost_usd"]),
        ("type = \"terminal\", proof = \"screen\", input = \">\"", &["cost_usd", "tokens"]),
    ] {
        let script = format!(
            "wb.engine \"e\" {{ {engine}, command = {{ \"x\" }} }}\n\
             wb.agent \"a\" {{ about = \"a\", engine = \"e\",\n\
             daily = {{ cost_usd = 1, tokens = 7 }} }}\n"
        );
        let loaded = Site::with_head(&script).loaded();
        let told = loaded.warnings.iter().filter(|it| it.code == "cap-unseen");
        let measures: Vec<String> =
            told.map(|it| it.message.split('`').nth(1).unwrap().to_owned()).collect();
        assert_eq!(measures, unseen, "{engine}");
    }
}

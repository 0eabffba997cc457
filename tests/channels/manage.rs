//! What agents may do with channels: leave, be quiet, add, make, and manage what they chair.

use serde_json::{Value, json};

use super::room;
use crate::support::{Bench, wait_for};

/// A program that does what a message says between `do:` and `;` with `wb-agent`, and leaves what
/// that printed.
const DOER: &str = r#"number=0
while IFS= read -r line; do
id=$(printf '%s' "$line" | sed 's/^{"id":"\([^"]*\)".*/\1/')
printf '{"turn":"began","id":"%s"}\n' "$id"
words=$(printf '%s' "$line" | sed -n 's/.*do: \([^;]*\);.*/\1/p')
if [ -n "$words" ]; then
  number=$((number + 1))
  "$CLIENT" $words > "$OUT/said" 2>&1; echo "exit $?" >> "$OUT/said"
  mv "$OUT/said" "$OUT/$WB_AGENT.$number"
fi
printf '{"turn":"ended","id":"%s","text":"","tokens":5}\n' "$id"
done
"#;

/// Declares agents that do what they are told; one of them may do more.
pub(super) fn agents(bench: &Bench, names: &[(&str, &str)]) {
    let file = bench.base.join("agents/doer.sh");
    std::fs::write(&file, DOER).unwrap();
    let (out, client) = (&bench.out, env!("CARGO_BIN_EXE_wb-agent"));
    bench.lua(&format!(
        r#"wb.engine "doer" {{
  type = "stream", speaks = "lines", command = {{ "/bin/sh", "{file}" }},
  env = {{ OUT = "{out}", CLIENT = "{client}" }},
}}
"#
    ));
    for (name, more) in names {
        let fields = format!("about = \"A test\", engine = \"doer\", {more}");
        bench.lua(&format!("wb.agent \"{name}\" {{ {fields} }}\n"));
    }
}

/// Has an agent do something; returns what came of it. A member changes at most once a second.
#[track_caller]
pub(super) fn does(bench: &Bench, name: &str, words: &str) -> String {
    loop {
        let left = |number: usize| bench.out.join(format!("{name}.{number}"));
        let number = (1..).find(|it| !left(*it).exists()).unwrap();
        let body = json!({"to": format!("agent:{name}"), "payload": format!("do: {words};")});
        bench.post("/api/messages", body).ok();
        let said =
            wait_for(&format!("{name}: {words}"), || std::fs::read_to_string(left(number)).ok());
        if !said.contains("was changed a moment ago") {
            return said;
        }
    }
}

fn members(bench: &Bench, slug: &str) -> Vec<String> {
    let shown = bench.get(&format!("/api/channels/{slug}")).ok();
    let here = shown["members"].as_array().unwrap().iter();
    let here = here.filter(|it| it["standing"] != "left");
    here.map(|it| it["handle"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn an_agent_does_with_channels_what_its_declaration_and_its_chair_allow() {
    let bench = Bench::new();
    let may = "can_add_members = true, can_create_channel = true";
    agents(&bench, &[("robbo", may), ("paula", ""), ("con", "")]);
    let server = bench.serve();
    super::agents::wait_known(&bench, 3);
    let slug = room(&bench, "Plan", json!([{"agent": "robbo"}, {"agent": "paula"}]));

    // One that may neither, and is no chair.
    for (words, why) in [
        ("channel add con", "cannot add members"),
        ("channel create Mine --without-me --chair ada", "cannot create channels"),
        ("channel complete", "only the chair of"),
        ("channel intent more", "only the chair of"),
        ("channel remove robbo", "only the chair of"),
    ] {
        let said = does(&bench, "paula", words);
        assert!(said.contains(why) && said.contains("exit 3"), "{words}: {said}");
    }
    assert_eq!(members(&bench, &slug), ["ada", "robbo", "paula"]);

    // One that may.
    let said = does(&bench, "robbo", "channel add con");
    assert!(said.contains("exit 0"), "{said}");
    assert_eq!(members(&bench, &slug), ["ada", "robbo", "paula", "con"]);
    let said = does(&bench, "robbo", "channel create Elsewhere");
    assert!(said.contains(&format!("agent robbo is in {slug}")), "{said}");
    let said = does(&bench, "robbo", "channel create Elsewhere --without-me --chair ada");
    assert!(said.starts_with("workshop-elsewhere-2 pending\nexit 0"), "{said}");
    assert_eq!(members(&bench, "2"), ["ada"]);
    let said = does(&bench, "robbo", "channel mute");
    assert!(said.contains("exit 0"), "{said}");
    let muted = |name: &str| {
        let shown = bench.get(&format!("/api/channels/{slug}")).ok();
        let all = shown["members"].as_array().unwrap().clone();
        all.iter().find(|it| it["handle"] == name).unwrap()["standing"] == "muted"
    };
    assert!(muted("robbo") && !muted("con"));
    assert!(does(&bench, "robbo", "channel unmute").contains("exit 0") && !muted("robbo"));
    let said = does(&bench, "robbo", "channel leave");
    assert!(said.contains("exit 0"), "{said}");
    assert_eq!(members(&bench, &slug), ["ada", "paula", "con"]);
    let said = does(&bench, "robbo", "channel show");
    assert!(said.contains("you have no seat in a channel"), "{said}");

    // As the chair of its own.
    let said = does(&bench, "robbo", "channel create Own --person ada");
    assert!(said.starts_with("workshop-own-3 "), "{said}");
    let said = does(&bench, "robbo", "channel intent Decide");
    assert!(said.contains("exit 0"), "{said}");
    let shown = bench.get("/api/channels/3").ok();
    assert_eq!(
        (&shown["intent"], &shown["members"][0]["is_chair"]),
        (&json!("Decide"), &json!(true))
    );
    assert!(does(&bench, "robbo", "channel remove ada").contains("exit 0"));
    assert_eq!(members(&bench, "3"), ["robbo"]);
    assert!(does(&bench, "robbo", "channel complete").contains("workshop-own-3 complete"));
    assert_eq!(bench.get("/api/channels/3").ok()["status"], "complete");
    server.stop();
}

/// A job in which no agent lives takes part in nothing, and an agent decides nothing for people.
#[test]
fn what_people_decide_no_agent_does() {
    let bench = Bench::new();
    agents(&bench, &[("robbo", "can_create_channel = true")]);
    let lends = "echo \"$WB_TOKEN\" > \"$OUT/t\"; mv \"$OUT/t\" \"$OUT/token\"\n\
        until [ -e \"$OUT/done\" ]; do sleep 0.02; done";
    bench.word_kind("mute", "timeout = \"60s\"", lends);
    let server = bench.serve();
    super::agents::wait_known(&bench, 1);
    let slug = room(&bench, "Plan", json!([{"agent": "robbo"}]));
    bench.job("mute", json!({"word": "x"}));
    let token = bench.wait_left("token");
    let asked = |path: &str, body: Value| {
        bench.send(&crate::support::Call::post(path, body).token(token.trim()))
    };
    for (path, body) in [
        ("/api/channels".to_owned(), json!({"name": "Mine"})),
        (format!("/api/channels/{slug}/leave"), json!({})),
        (format!("/api/channels/{slug}/complete"), json!({})),
        (format!("/api/channels/{slug}/members"), json!({"person": "ada"})),
        (format!("/api/channels/{slug}/change"), json!({"intent": "x"})),
    ] {
        assert_eq!(asked(&path, body).refusal(), (403, "not_an_agent"), "{path}");
    }
    std::fs::write(bench.out.join("done"), "").unwrap();
    server.stop();
}

#[test]
fn agents_start_a_bounded_number_of_agents_until_a_person_writes() {
    let bench = Bench::new();
    agents(&bench, &[("robbo", "can_add_members = true"), ("ann", ""), ("bo", ""), ("con", "")]);
    let server = bench.serve();
    super::agents::wait_known(&bench, 4);
    let slug = room(&bench, "Starts", json!([{"agent": "robbo"}]));
    for name in ["ann", "bo"] {
        let said = does(&bench, "robbo", &format!("channel add {name}"));
        assert!(said.contains("exit 0"), "{said}");
    }
    let said = does(&bench, "robbo", "channel add con");
    assert!(said.contains("have started 2 agents") && said.contains("exit 6"), "{said}");
    assert!(!members(&bench, &slug).contains(&"con".to_owned()));
    super::agents::say(&bench, &slug, "Go on, @robbo");
    let said = does(&bench, "robbo", "channel add con");
    assert!(said.contains("exit 0"), "{said}");
    server.stop();
}

//! A workshop as people hold one, from its opening to its export: two agents, one that comes later,
//! a handover in the middle and an argument that ends by itself, followed in a terminal.

use serde_json::{Value, json};

use crate::agents::control;
use crate::channels::agents::{TALKER, agents, answers, heard, say, wait_known, wait_said};
use crate::channels::{said, sequences};
use crate::cli::desk::Running;
use crate::pages::Browser;
use crate::support::{Bench, wait_for};

/// What the agents do besides answering: they write a handoff, read one, argue when they are told
/// to, and decide when they are asked to.
const WORKS: &str = r#"case "$line" in
*'You hand over'*) printf '## Current work\nSkills.\n' |
wb-agent handoff write --summary skills >/dev/null;;
*'handoff read'*) file=$(printf '%s' "$line" | sed 's/.*handoff read \([A-Za-z0-9_.-]*md\).*/\1/')
wb-agent handoff read "$file" >/dev/null;;
esac
case $WB_AGENT in paula) other=robbo;; *) other=paula;; esac
case "$line" in
*'decide now'*) text='Decision: skills stand beside the persona.';;
*'argue about it'*) text="@$other do you still argue about it?";;
*'thank them'*) text='Thank you!';;
esac
printf '{"turn":"ended""#;

fn declare(bench: &Bench) {
    agents(bench, &["robbo", "paula", "con"]);
    let works = TALKER.replacen("printf '{\"turn\":\"ended\"", WORKS, 1);
    std::fs::write(bench.base.join("agents/talker.sh"), works).unwrap();
}

/// Waits until so many answers of a member stand there.
#[track_caller]
fn wait_answers(bench: &Bench, slug: &str, who: &str, count: usize) -> Vec<(String, String)> {
    wait_for(&format!("{count} answers of {who}"), || {
        Some(said(bench, slug)).filter(|it| answers(it, who).len() == count)
    })
}

const QUESTION: &str = "Where should a persona's skills live?";

/// Opens it with one command, and two agents answer.
#[track_caller]
fn opens(bench: &Bench) -> (String, Running) {
    // 1. One command; who runs is seated, who does not is started.
    let question = QUESTION;
    let create =
        ["channel", "create", "persona-alignment", "--type", "workshop", "--with", "robbo"];
    let (code, out, err) =
        bench.cli(&[&create[..], &["--with", "paula", "--message", question]].concat());
    assert_eq!((code, out.trim()), (0, "workshop-persona-alignment-1"), "{err}");
    let slug = out.trim().to_owned();
    let follow = Running::new(bench, &["channel", "follow", "1"]);
    // 2 to 4. Each gets one block, the rules first; both answer, and wake each other by that not.
    let told = wait_said(bench, &slug, 3);
    assert_eq!((answers(&told, "robbo").len(), answers(&told, "paula").len()), (1, 1), "{told:?}");
    for name in ["robbo", "paula"] {
        let own = heard(bench, name);
        let [block] = own.as_slice() else { panic!("{own:?}") };
        assert!(block.starts_with("[CHANNEL CONTEXT] You take part in #persona-alignment as"));
        assert!(block.contains("Intent: ") && block.ends_with(&format!("{question}\n")), "{block}");
    }
    let first = bench.get(&format!("/api/channels/{slug}/messages")).ok()["items"][0].clone();
    let proofs: Vec<&Value> =
        first["heard"].as_array().unwrap().iter().map(|it| &it["state"]).collect();
    assert_eq!(proofs, ["confirmed", "confirmed"]);
    (slug, follow)
}

/// Who is named works, somebody comes later, and one hands over.
#[track_caller]
fn goes_on(bench: &Bench, slug: &str) {
    let question = QUESTION;
    // 5. Who is named works, with what the other has said; the other is not woken.
    say(bench, slug, "@paula do you agree with robbo?");
    wait_answers(bench, slug, "paula", 2);
    let own = heard(bench, "paula");
    assert!(own[1].starts_with("[#persona-alignment] robbo (agent:robbo):\nrobbo answers"));
    assert_eq!(heard(bench, "robbo").len(), 1);
    // 6. Somebody comes later: silent, and told of everything with what wakes it.
    bench.json(&["channel", "add", "1", "con"]);
    wait_for("con has joined", || {
        said(bench, slug).iter().find(|it| it.1.contains("con joined")).map(drop)
    });
    say(bench, slug, "@con and you?");
    wait_answers(bench, slug, "con", 1);
    let own = heard(bench, "con");
    assert!(own[0].starts_with("[CHANNEL CONTEXT]") && own[0].contains(question), "{own:?}");
    assert_eq!(own.len(), 1);
    // 7. One hands over; its successor has the seat and the name.
    bench.json(&["agent", "handover", "robbo"]);
    let line = "robbo-2 goes on for robbo, who has handed over.";
    wait_for("robbo-2 is seated", || said(bench, slug).iter().find(|it| it.1 == line).map(drop));
    say(bench, slug, "@robbo and now?");
    let told = wait_answers(bench, slug, "robbo", 2);
    assert!(answers(&told, "robbo")[1].starts_with("robbo-2 answers"), "{told:?}");
}

/// What ends by itself, and how a person lets them go on; returns what was said.
#[track_caller]
fn comes_to_an_end(bench: &Bench, slug: &str) -> Vec<(String, String)> {
    // 8. Thanks wake nobody; an argument ends by itself, and a person's line lets them go on.
    let before = said(bench, slug).len();
    say(bench, slug, "@robbo thank them");
    let told = wait_said(bench, slug, before + 2);
    assert_eq!(told.last().unwrap(), &("robbo".to_owned(), "Thank you!".to_owned()));
    say(bench, slug, "@robbo argue about it");
    let told = wait_for("it pauses", || {
        Some(said(bench, slug)).filter(|it| it.iter().any(|it| it.1.starts_with("Paused: ")))
    });
    let argued = told.iter().filter(|it| it.1.contains("still argue")).count();
    assert_eq!(argued, 8, "as many as there may be hops: {told:?}");
    assert_eq!(told.len(), before + 4 + argued, "thanks woke nobody, and one line tells: {told:?}");
    assert_eq!(bench.json(&["channel", "show", "1"])["paused"]["reason"], "hops");
    say(bench, slug, "@all decide now");
    wait_for("they decide", || {
        let decided = |it: &(String, String)| it.1.starts_with("Decision: ");
        Some(said(bench, slug)).filter(|it| it.iter().filter(|it| decided(it)).count() == 3)
    })
}

#[test]
fn a_workshop_is_held_from_its_opening_to_its_export() {
    let bench = Bench::new();
    declare(&bench);
    let server = bench.serve();
    wait_known(&bench, 3);
    control(&bench, "robbo", "start").ok();
    let (slug, mut follow) = opens(&bench);
    goes_on(&bench, &slug);
    let told = comes_to_an_end(&bench, &slug);
    // 9. It is completed, its outcomes come first, and its agents are free.
    bench.json(&["channel", "complete", "persona-alignment"]);
    let (_, export, _) = bench.cli(&["channel", "export", "persona-alignment"]);
    let outcome = export.find("- Decision: skills stand beside the persona.").unwrap();
    assert!(outcome < export.find("## Conversation").unwrap(), "{export}");
    let all = sequences(&bench, &slug);
    assert_eq!(all, (1..=all.len() as i64).collect::<Vec<_>>());
    for name in ["robbo-2", "paula", "con"] {
        assert_eq!(bench.json(&["agent", "show", name])["seat"], Value::Null, "{name}");
    }
    // Whoever followed it in a terminal has read everything once, and is not kept there.
    assert_eq!(follow.wait(), Some(0), "{}", follow.err());
    let printed = follow.out();
    for (_, text) in &told {
        let count = told.iter().map(|it| it.1.matches(text.as_str()).count()).sum::<usize>();
        assert_eq!(printed.matches(text.as_str()).count(), count, "{text}: {printed}");
    }
    server.stop();
}

/// Each of 400 messages is heard by each of eight members once, in one order.
#[test]
fn each_of_400_messages_is_heard_once_by_each_of_eight_agents() {
    const MESSAGES: usize = 400;
    // Less than what may wait for one.
    const AT_ONCE: usize = 40;
    let bench = Bench::new();
    let names: Vec<String> = (1..=8).map(|at| format!("agent{at}")).collect();
    let all: Vec<&str> = names.iter().map(String::as_str).collect();
    agents(&bench, &all);
    let silent = TALKER.replacen("text=\"", "text='[no-reply]'; unused=\"", 1);
    std::fs::write(bench.base.join("agents/talker.sh"), silent).unwrap();
    let server = bench.serve();
    wait_known(&bench, 8);
    let members: Vec<Value> = all.iter().map(|it| json!({"agent": it})).collect();
    let slug = crate::channels::room(&bench, "Crowd", json!(members));
    for from in (0..MESSAGES).step_by(AT_ONCE) {
        for at in from..from + AT_ONCE {
            say(&bench, &slug, &format!("line {at}."));
        }
        let last = format!("line {}.", from + AT_ONCE - 1);
        for name in &all {
            wait_for(&format!("{name} hears {last}"), || {
                bench.left(&format!("heard.{name}")).contains(&last).then_some(())
            });
        }
    }
    for name in &all {
        let texts = heard(&bench, name).join("\n");
        let lines: Vec<&str> = texts.lines().filter(|it| it.starts_with("line ")).collect();
        let expected: Vec<String> = (0..MESSAGES).map(|at| format!("line {at}.")).collect();
        assert_eq!(lines, expected, "{name}");
    }
    // Who has nothing to say is seen to have read it.
    wait_for("their last turns end", || {
        let page = bench.get(&format!("/api/channels/{slug}/messages?limit=1")).ok();
        let heard = page["items"][0]["heard"].as_array()?.clone();
        let silent = heard.iter().filter(|it| it["came_to"] == "silent").count();
        (silent == 8).then_some(())
    });
    let page = Browser::signed_in(&bench, &server).page(&format!("/channels/{slug}"));
    assert!(page.contains(" read it and had nothing to add"), "{page}");
    let numbers: Vec<i64> = (1..=MESSAGES as i64).collect();
    let page = |after: usize| {
        let page =
            bench.get(&format!("/api/channels/{slug}/messages?after={after}&limit=200")).ok();
        let items = page["items"].as_array().unwrap().clone();
        items.iter().map(|it| it["sequence"].as_i64().unwrap()).collect::<Vec<_>>()
    };
    assert_eq!([page(0), page(200)].concat(), numbers, "nobody said anything else");
    server.stop();
}

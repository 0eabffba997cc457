//! Output in a terminal: tables that fit, colors, and nothing that an agent controls.

use serde_json::json;
use unicode_width::UnicodeWidthStr as _;

use super::desk::{PROPOSES, in_terminal, operator, text};
use crate::support::{Bench, Server, Topic};

/// An agent that hides sequences in all that it says, as far as the server lets it.
const HOSTILE: &str = r#"
printf '\033]0;owned\007\033[2Joutput\n'
printf '\033[31mred\302\233mdone\342\200\256\n' >&2
printf 'From \342\200\256 the job\n' | "$wb_agent" post-message --topic-id "$topic"
for text in '\033' '\302\233' '\015'; do
  printf "a${text}b" | "$wb_agent" post-message --topic-id "$topic" 2> /dev/null && exit 9
done
printf '# Guide\n\nA \033[2J\302\233line.\n' | propose --summary "$(printf 'a\342\200\256')"
"#;

/// Returns a site, a Topic with long and hostile words, and the job that proposed for it.
fn bench() -> (Bench, Server, Topic, String) {
    let bench = Bench::new();
    bench.topic_kind("works", PROPOSES, HOSTILE);
    let server = bench.serve();
    let long = format!("日本語の長い題 {} \u{202e}", "words ".repeat(40));
    let topic = bench.topic("guide.md", "The first line.", &long);
    let job = bench.ended(&bench.job_on("works", &topic));
    assert_eq!(job["status"], "succeeded", "{job:#}");
    (bench, server, topic, job["id"].as_str().unwrap().to_owned())
}

fn without_colors(screen: &str) -> String {
    let mut plain = screen.to_owned();
    for code in ["0", "1", "2", "31", "32", "33", "36"] {
        plain = plain.replace(&format!("\u{1b}[{code}m"), "");
    }
    plain
}

/// Whether anything is left that a terminal would obey.
fn is_harmless(screen: &str) -> bool {
    let harmful = |c: char| (c.is_control() && c != '\n' && c != '\t') || c == '\u{202e}';
    !without_colors(screen).chars().any(harmful)
}

#[test]
fn tables_fit_the_terminal() {
    let (bench, server, ..) = bench();
    for columns in [60, 80, 200] {
        for command in
            ["topic list", "job list", "proposal list", "source list", "source history guide.md"]
        {
            let (code, screen) = in_terminal(&bench, columns, command, &[], "");
            assert_eq!(code, 0, "{screen}");
            assert!(screen.starts_with("\u{1b}[1m"), "{screen}");
            for line in without_colors(&screen).lines() {
                assert!(line.width() <= columns, "{command} in {columns}: {line}");
            }
            assert!(is_harmless(&screen), "{screen:?}");
        }
    }
    // A pipe has no width: nothing is cut.
    let assert = operator(&bench, &["topic", "list"]).assert().success();
    let table = text(&assert.get_output().stdout);
    assert!(table.contains(&"words ".repeat(15)), "{table}");
    server.stop();
}

#[test]
fn nothing_that_an_agent_says_is_obeyed_by_the_terminal() {
    let (bench, server, topic, job) = bench();
    let proposal = bench.show(&job)["proposal_id"].as_str().unwrap().to_owned();
    for command in [
        format!("job log {job}"),
        format!("job log {job} --stream stdout"),
        format!("job show {job}"),
        format!("job follow {job} --log"),
        format!("job prompt {job}"),
        format!("topic show {}", topic.id),
        format!("proposal show {proposal}"),
        format!("proposal show {proposal} --text"),
        format!("proposal diff {proposal}"),
        format!("proposal show {proposal} --json"),
        format!("proposal show {proposal} --field text"),
        format!("proposal show {proposal} --field proposal.summary"),
        format!("topic show {} --field messages.0.body", topic.id),
        format!("job create works topic_id={} --wait --log", topic.id),
    ] {
        let (code, screen) = in_terminal(&bench, 80, &command, &[("NO_COLOR", "1")], "");
        assert_eq!(code, 0, "{command}: {screen}");
        let screen = screen.replace("\r\u{1b}[K", "\n");
        assert!(!screen.trim().is_empty() && is_harmless(&screen), "{command}: {screen:?}");
    }
    server.stop();
}

#[test]
fn colors_are_for_terminals_that_want_them() {
    let bench = Bench::new();
    bench.word_kind("echoes", "timeout = \"20s\"", "exit 0");
    let server = bench.serve();
    let job = bench.ended(&bench.job("echoes", json!({})));
    let show = format!("job show {}", job["id"].as_str().unwrap());
    let is_colored = |line: &str, env: &[(&str, &str)]| {
        in_terminal(&bench, 80, line, env, "").1.contains('\u{1b}')
    };
    assert!(is_colored(&show, &[]));
    assert!(!is_colored(&show, &[("NO_COLOR", "1")]));
    assert!(is_colored(&show, &[("NO_COLOR", "")]));
    assert!(!is_colored(&show, &[("TERM", "dumb")]));
    assert!(!is_colored(&format!("{show} --color never"), &[]));
    assert!(is_colored(&format!("{show} --color always"), &[("NO_COLOR", "1")]));
    let args: Vec<&str> = show.split(' ').collect();
    let piped = operator(&bench, &args).assert().success();
    assert!(!text(&piped.get_output().stdout).contains('\u{1b}'));
    let forced = operator(&bench, &[&args[..], &["--color", "always"]].concat()).assert();
    assert!(text(&forced.get_output().stdout).contains("\u{1b}[32msucceeded\u{1b}[0m"));
    server.stop();
}

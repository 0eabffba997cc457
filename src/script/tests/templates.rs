//! `agents/NAME.md` with `engine`: inboxes of Markdown, and hostile front matter.

use std::time::{Duration, Instant};

use crate::script::tests::inboxes::fifo;
use crate::script::tests::{Site, brief, values};
use crate::script::{Autostart, OnLost, Prompt, is_template, prompt};

/// A template written by another system.
const LEAD: &str = r#"---
id: aws-account-lead
persistent: false
engine: claude
model: opus

# cwd_base is real & existing — used as create_session cwd.
cwd_base: /var/agentic/work/aws-account-lead
# cwd_template is per-message; prepare creates this directory.
cwd_template: /var/agentic/work/aws-account-lead/wt-{{message_id}}

# Host-shell hooks (run via proxy exec). NEW mechanism.
prepare: |
  git -C "$REPO_ROOT" worktree add "$WORKTREE_PATH" main
cleanup: |
  git -C "$REPO_ROOT" worktree remove --force "$WORKTREE_PATH"

# Tmux-paste hook (today's mechanism). Typed into the pane.
start: |
  cd "$WORKTREE_PATH" && claude --session-id "$MESSAGE_ID" < "$MESSAGE_PATH"

topics:
  - name: provision
    schema: ./schemas/provision.json
    reply_schema: ./schemas/provision-reply.json
    concurrency: 1
    monitor_template: aws-account-monitor
  - name: teardown
    schema: ./schemas/teardown.json
    prepare: ./teardown-prepare.sh         # optional per-topic override
---

# AWS Account Lead

You provision and tear down AWS accounts...
"#;

/// A monitor of the same system.
const MONITOR: &str = "---\nid: aws-account-monitor\npersistent: false\nengine: claude\n\
    prepare: \"true\"\nstart: claude\n---\nLook every minute.\n";

/// A long-running agent of another system.
const LIVE: &str = "---\nname: gitea-lead\nengine: live\nmodel: opus\nhook_exit: exit\n\
    autostart: on_message\nsends: [\"person:*\"]\n---\nYou lead {{gitea}}.\n";

/// A site with one engine and several slots.
fn site() -> Site {
    Site::with_head(
        "wb.engine \"claude\" { type = \"process\", command = { \"cat\" }, prompt = \"stdin\" }\n\
         wb.limits { jobs = 4 }\n",
    )
}

/// A site with a template `lead` whose front matter has these lines.
fn with(front: &str) -> Site {
    let site = site();
    site.write("agents/lead.md", &format!("---\n{front}\n---\nYou lead.\n"));
    site
}

/// A front matter with one topic, whose lines these are; they begin at line 6.
fn topic(lines: &str) -> String {
    format!("engine: claude\npersistent: false\ntopics:\n  - name: one\n    {lines}")
}

#[track_caller]
fn wrong(front: &str, expected: &[&str]) -> String {
    let errors = with(front).errors();
    let shown: Vec<String> = errors.iter().map(ToString::to_string).collect();
    assert_eq!(brief(&errors), expected, "{}", shown.join("\n"));
    shown.join("\n")
}

#[test]
fn what_is_hinted_can_be_typed_in_a_template() {
    for (line, typed, place) in [
        ("sends: person:*", "write sends: [\"", "6:12 wrong-type"),
        ("asks: yes", "write asks: true", "6:11 wrong-type"),
        ("verify: ./v.lua", "declare it in the script", "6:13 wrong-type"),
    ] {
        let said = wrong(&topic(line), &[place]);
        assert!(said.contains(typed), "{said}");
        assert!(!said.contains("sends = ") && !said.contains("asks = "), "{said}");
    }
    let said = wrong(
        "engine: claude\npersistent: false\nasks = true\ntopics:\n  - name: one",
        &["4:1 bad-persona"],
    );
    assert!(said.contains("write `field: value`"), "{said}");
    let said = wrong(&topic("about: Tidy: a page"), &["6:1 bad-persona"]);
    assert!(said.contains("put the value in quotes"), "{said}");
}

/// What it names may be declared in the part that was not reached.
#[test]
fn a_script_that_ends_in_the_middle_is_the_only_error() {
    let site = Site::with_head("local words = require \"words\"\nwords.load()\n");
    site.write("words.lua", "local M = {}\nfunction M.load() end\n");
    site.write("agents/lead.md", &format!("---\n{}\n---\nYou lead.\n", topic("concurrency: 1")));
    let errors = site.errors();
    assert_eq!(brief(&errors), ["5:1 runtime"]);
    assert!(errors[0].to_string().contains("with return M"), "{}", errors[0]);
}

#[tokio::test]
async fn a_template_of_another_system_loads_unchanged() {
    let site = site();
    site.write("agents/aws-account-lead.md", LEAD);
    for name in ["provision", "provision-reply", "teardown"] {
        site.write(&format!("agents/schemas/{name}.json"), r#"{"type": "object"}"#);
    }
    site.write("agents/teardown-prepare.sh", "#!/bin/sh\ntrue\n");
    site.write("agents/aws-account-monitor.md", MONITOR);
    let loaded = site.loaded();
    let warned = ["5:8 not-built-yet", "6:1 unknown-field"];
    assert_eq!(brief(&loaded.warnings), warned, "model, and a start of a monitor");
    let kinds = &loaded.config.kinds;
    let names: Vec<&str> = kinds.keys().map(String::as_str).collect();
    let inboxes = ["aws-account-lead/provision", "aws-account-lead/teardown"];
    assert_eq!(names, [&inboxes[..], &["aws-account-monitor"]].concat());
    let monitor = &kinds["aws-account-monitor"];
    assert_eq!((monitor.word(), monitor.inputs.len()), ("kind", 1));
    assert_eq!((monitor.timeout.as_secs(), &*monitor.inputs[0].name), (24 * 3_600, "worker"));
    let given = values(&[("worker", "W"), ("wb_agent", "wb-agent")]);
    let said = prompt(&loaded.vm, monitor, &given).await.unwrap();
    assert!(said.starts_with("Look every minute.\n\nYou watch the instance W"), "{said}");
    assert!(said.contains("wb-agent peek --worker W "), "{said}");
    let provision = &kinds["aws-account-lead/provision"];
    let inbox = provision.inbox.as_ref().unwrap();
    assert!(inbox.schema.is_some() && inbox.reply_schema.is_some());
    assert_eq!(inbox.monitor.as_deref(), Some("aws-account-monitor"));
    assert_eq!(kinds[inboxes[1]].inbox.as_ref().unwrap().monitor, None);
    assert_eq!((provision.max_running, inbox.on_lost), (Some(1), OnLost::Fail));
    assert_eq!(provision.at.to_string(), "agents/aws-account-lead.md:23");
    let hooks = &provision.hooks;
    let base = "/var/agentic/work/aws-account-lead";
    assert_eq!(hooks.cwd_base.as_deref().map(|it| it.as_str()), Some(base));
    assert_eq!(hooks.cwd_template.as_deref(), Some(&*format!("{base}/wt-{{{{message_id}}}}")));
    let add = "git -C \"$REPO_ROOT\" worktree add \"$WORKTREE_PATH\" main\n";
    assert_eq!(hooks.prepare.as_deref().unwrap(), ["/bin/sh", "-c", add]);
    assert!(hooks.start.as_ref().unwrap()[2].starts_with("cd \"$WORKTREE_PATH\" && claude"));
    let teardown = &kinds["aws-account-lead/teardown"].hooks;
    let file = loaded.config.folder.join("agents/teardown-prepare.sh");
    assert_eq!(teardown.prepare.as_ref().unwrap()[3], file.as_str());
    assert_eq!(teardown.cleanup, hooks.cleanup);
    let given = values(&[("banner", "B"), ("payload", "P")]);
    let said = prompt(&loaded.vm, provision, &given).await.unwrap();
    let body = "# AWS Account Lead\n\nYou provision and tear down AWS accounts...";
    assert_eq!(said, format!("{body}\n\nB\n\nP"));
    let texts: Vec<&str> = loaded.config.files.iter().map(|it| it.path.as_str()).collect();
    for path in ["agents/aws-account-lead.md", "agents/teardown-prepare.sh"] {
        assert!(texts.contains(&path), "{texts:?}");
    }
    site.write("agents/aws-account-lead.md", &LEAD.replace("accounts...", "nothing."));
    assert_ne!(site.loaded().config.digest, loaded.config.digest);
}

#[test]
fn braces_in_the_text_are_text() {
    let site = site();
    let front = topic("timeout: 5m");
    site.write("agents/lead.md", &format!("---\n{front}\n---\nWrite {{{{name}}}} {{{{{{x.\n"));
    let config = site.loaded().config;
    let Prompt::Template(text) = &config.kinds["lead/one"].prompt else { panic!() };
    let filled = crate::script::fill_template(text, &values(&[("banner", ""), ("payload", "")]));
    assert_eq!(filled.unwrap().trim(), "Write {{name}} {{{x.");
}

#[test]
fn every_mistake_has_its_line_and_what_to_type() {
    for (front, expected, note) in [
        (topic("shema: x.json"), "6:5 unknown-field", "did you mean `schema`?"),
        (topic("schema: x.json"), "6:13 missing-schema", "write x.json"),
        (topic("concurrency: many"), "6:18 wrong-type", "write concurrency: 4"),
        (topic("concurrency: 99"), "6:18 out-of-range", "lower it"),
        (topic("timeout: 30"), "6:14 bad-duration", "needs a unit"),
        (topic("on_lost: never"), "6:14 unknown-word", "requeue"),
        (topic("prepare: ./none.sh"), "6:14 missing-hook", "declares it"),
        (topic("prepare: [git, {a: b}]"), "6:14 wrong-type", "write prepare"),
        (topic("prompt: \"{{paylod}}\""), "6:13 unknown-name", "did you mean `payload`?"),
        (topic("verify: x"), "6:13 wrong-type", "function"),
        (
            "engine: cloud\npersistent: false\ntopics: [{name: one}]".to_owned(),
            "2:9 unknown-engine",
            "did you mean `claude`?",
        ),
        ("engine: clade".to_owned(), "2:9 unknown-engine", "did you mean `claude`?"),
        (
            "engine: claude\ntopics:\n- name: one".to_owned(),
            "3:1 broken-rule",
            "write persistent: false",
        ),
        (
            "engine: claude\npersistent: true\ntopics:\n- name: one".to_owned(),
            "4:1 broken-rule",
            "write persistent: false",
        ),
        (
            "engine: claude\npersistent: maybe".to_owned(),
            "3:13 wrong-type",
            "write persistent: false",
        ),
        (
            "engine: claude\npersistent: false\ntopics: one".to_owned(),
            "4:9 wrong-type",
            "- name: NAME",
        ),
        (
            "engine: claude\npersistent: false\ntopics:\n  - one".to_owned(),
            "5:1 wrong-type",
            "- name: NAME",
        ),
        (
            "engine: claude\npersistent: false\ntopics:\n  - name: a/b".to_owned(),
            "5:5 bad-name",
            "write name",
        ),
        (
            "engine: claude\npersistent: false\ntopics:\n  - timeout: 5m".to_owned(),
            "5:1 bad-name",
            "write name",
        ),
        ("engine: claude\nid: other".to_owned(), "3:1 bad-name", "write id: lead"),
        ("engine: claude\n  bad: indent".to_owned(), "3:1 bad-persona", "write `field: value`"),
        ("engine: claude\nengine: claude".to_owned(), "3:1 bad-persona", "occurs twice"),
        ("engine: !cmd claude".to_owned(), "2:1 bad-persona", "write `field: value`"),
        ("- engine: claude\nengine: x".to_owned(), "3:1 bad-persona", "write `field: value`"),
    ] {
        let text = wrong(&front, &[expected]);
        assert!(text.contains(note), "{front}: {text}");
    }
}

#[test]
fn a_finding_names_the_topic_that_it_is_about() {
    let head = "engine: claude\npersistent: false\ntopics:\n  # two\n  - name: one\n";
    let one = "    prepare: |\n      timeout: x\n    timeout: 5m\n\n";
    let two = "  -\n    name: two\n    timeout: 5x";
    let front = &format!("{head}{one}{two}");
    let text = wrong(front, &["13:14 bad-duration"]);
    assert!(text.contains("inbox \"lead/two\""), "{text}");
    // All on one line: there the place is that of the list.
    let flow = "engine: claude\npersistent: false\ntopics: [{name: one}, {name: two, timeout: 5x}]";
    wrong(flow, &["4:9 bad-duration"]);
}

#[test]
fn what_is_not_known_is_passed_over_with_a_warning() {
    let front = format!("hook_exit: true\n{}", topic("timeout: 5m"));
    let loaded = with(&front).loaded();
    assert_eq!(brief(&loaded.warnings), ["2:1 unknown-field"]);
    for (front, expected) in
        [("engine: claude", "2:1 no-agent"), ("engine: claude\nprepare: \"true\"", "2:1 no-agent")]
    {
        let loaded = with(front).loaded();
        let shown = brief(&loaded.warnings);
        assert!(shown.contains(&expected.to_owned()), "{front}: {shown:?}");
        assert!(loaded.config.kinds.is_empty());
    }
    let text = wrong("engine: claude\npersistent: true", &["2:1 broken-rule"]);
    assert!(text.contains("does not live on"), "{text}");
}

#[tokio::test]
async fn a_long_running_agent_is_one_file() {
    let site = Site::with_head(
        "wb.engine \"live\" { type = \"stream\", command = { \"cat\" }, speaks = \"lines\" }\n",
    );
    site.write("agents/gitea-lead.md", LIVE);
    let loaded = site.loaded();
    let warned = ["4:8 not-built-yet", "5:1 unknown-field"];
    assert_eq!(brief(&loaded.warnings), warned);
    let kind = &loaded.config.kinds["@gitea-lead"];
    let agent = kind.agent.as_ref().unwrap();
    assert_eq!((&*agent.name, agent.autostart), ("gitea-lead", Autostart::OnMessage));
    assert_eq!((&agent.sends[..], agent.is_kept), (&["person:*".to_owned()][..], true));
    assert_eq!(kind.at.to_string(), "agents/gitea-lead.md:3");
    let given = values(&[("banner", "B"), ("agent", "gitea-lead")]);
    let said = prompt(&loaded.vm, kind, &given).await.unwrap();
    assert_eq!(said, "You lead {{gitea}}.\n\nB");
    let front = |more: &str| format!("---\nengine: live\n{more}---\nx\n");
    for (more, expected) in [
        ("persistent: true\nautostart: later\n", "4:12 unknown-word"),
        ("sends: [everybody]\n", "3:8 bad-address"),
    ] {
        site.write("agents/gitea-lead.md", &front(more));
        assert_eq!(brief(&site.errors()), [expected], "{more}");
    }
}

#[test]
fn one_name_is_declared_once() {
    let site = with(&topic("timeout: 5m"));
    let script = std::fs::read_to_string(site.path().join("wiki-browser.lua")).unwrap();
    let own = "wb.inbox \"lead/one\" { about = \"a\", engine = \"claude\" }\n";
    site.write("wiki-browser.lua", &(script + own));
    let errors = site.errors();
    assert_eq!(brief(&errors), ["5:5 duplicate"]);
    assert!(
        errors[0].to_string().contains("first declared at wiki-browser.lua:6"),
        "{}",
        errors[0]
    );
}

#[test]
fn a_persona_stays_a_persona() {
    let site = site();
    for (name, text) in [
        ("critic", "---\nname: critic\n---\nengine: claude\n"),
        ("plain", "engine: claude\n"),
        ("open", "---\nengine: claude\n"),
        ("deep", "---\nabout: x\n  engine: claude\n---\n"),
    ] {
        assert!(!is_template(text), "{name}");
        site.write(&format!("agents/{name}.md"), text);
    }
    site.write("agents/sub/lead.md", LEAD);
    site.write("agents/.hidden.md", LEAD);
    site.write("agents/notes.txt", LEAD);
    assert!(site.loaded().config.kinds.is_empty());
}

/// Expects one error about the front matter, on any line, and returns its text.
#[track_caller]
fn refused(front: &str) -> String {
    let start = Instant::now();
    let errors = with(front).errors();
    assert!(start.elapsed() < Duration::from_secs(5), "{:?}", start.elapsed());
    assert_eq!(errors.len(), 1, "{errors:?}");
    assert_eq!(errors[0].code, "bad-persona");
    errors[0].to_string()
}

#[test]
fn hostile_front_matter_costs_little_and_harms_nobody() {
    let level = |number: usize| {
        let inner = match number {
            0 => "x".to_owned(),
            _ => vec![format!("*a{}", number - 1); 9].join(", "),
        };
        format!("a{number}: &a{number} [{inner}]\n")
    };
    let bomb: String = (0..9).map(level).collect();
    let text = refused(&format!("engine: claude\n{bomb}"));
    assert!(text.contains("more than 5000 values") || text.contains("nested"), "{text}");
    let flat: String = (0..2_000).map(|it| format!("f{it}: [a, b, c]\n")).collect();
    assert!(refused(&format!("engine: claude\n{flat}")).contains("more than 5000 values"));
    let deep = format!("engine: claude\nx: {}{}", "[".repeat(10_000), "]".repeat(10_000));
    refused(&deep);
    let wide = format!("engine: claude\nx: {}", "- ".repeat(10_000));
    refused(&wide);
    let large = format!("engine: claude\n# {}", "x".repeat(64 * 1024));
    assert!(refused(&large).contains("larger than 65536 bytes"));
    refused("engine: claude\nx: *nobody");
    refused("engine: claude\nx: &a [*a]");
    refused("engine: claude\n? [a]\n: b");
    refused("engine: claude\nx: \u{1}");
}

#[test]
fn what_is_no_file_is_passed_over() {
    use std::os::unix::fs::symlink;
    let site = with(&topic("timeout: 5m"));
    fifo(&site.path().join("agents/pipe.md"));
    symlink("lead.md", site.path().join("agents/link.md")).unwrap();
    std::fs::create_dir(site.path().join("agents/folder.md")).unwrap();
    std::fs::write(site.path().join("agents/bytes.md"), b"---\nengine: \xff\n---\n").unwrap();
    let kinds: Vec<String> = site.loaded().config.kinds.keys().cloned().collect();
    assert_eq!(kinds, ["lead/one"]);
    // A folder that is a link leads elsewhere.
    std::fs::rename(site.path().join("agents"), site.path().join("other")).unwrap();
    symlink("other", site.path().join("agents")).unwrap();
    assert!(site.loaded().config.kinds.is_empty());
}

proptest::proptest! {
    #![proptest_config(proptest::test_runner::Config::with_cases(64))]
    #[test]
    fn no_text_makes_the_loader_panic(words in proptest::collection::vec(0usize..22, 0..60)) {
        const WORDS: [&str; 22] = [
            "engine", "topics", "name", "- ", ":", "[", "]", "{", "}", "&a", "*a", "\"", "'", "|",
            "\n", " ", "é", "\t", "#", ",", "---", "\n  ",
        ];
        let front: String = words.iter().map(|word| WORDS[*word]).collect();
        if let Err(report) = with(&format!("engine: claude\n{front}")).load() {
            assert!(!report.to_string().is_empty());
        }
    }
}

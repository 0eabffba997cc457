//! Each recipe, pasted alone and run; and all of them together.

use serde_json::{Value, json};

use super::{cooked, kitchen, messages, paste, proposal, recipes, site};
use crate::script::{all_ended, jobs};
use crate::support::{Bench, wait_for};

/// What `check` says of a script that nobody has to look at again.
#[track_caller]
fn check_is_clean(bench: &Bench) {
    bench.write_script();
    let (code, out, err) = bench.cli(&["check", "--json"]);
    let said: Value = serde_json::from_str(&out).unwrap();
    // The secret of the webhook is the reader's.
    let warnings = said["warnings"].as_array().unwrap().iter();
    let is_here = |it: &&Value| {
        let message = it["message"].as_str().unwrap_or_default();
        // So is the program of an agent in a terminal.
        it["code"] != "secret-missing" && !message.contains("\"claude-tmux\"")
    };
    let warnings: Vec<&Value> = warnings.filter(is_here).collect();
    assert_eq!((code, &said["errors"], warnings), (0, &json!([]), vec![]), "{err}");
}

#[test]
fn each_recipe_is_a_block_and_a_skill_that_check_has_nothing_to_say_about() {
    let all = recipes();
    assert_eq!(all.len(), 14);
    let together = kitchen("");
    for recipe in &all {
        let alone = kitchen("");
        paste(&alone, recipe);
        paste(&together, recipe);
        // The book takes an engine as given, which not every recipe uses.
        let is_used = |it: &str| it.contains("= \"claude\",") || it.contains("engine: claude");
        if !is_used(&recipe.block) && !recipe.files.iter().any(|it| is_used(&it.1)) {
            alone.edit(|_| recipe.block.clone());
        }
        check_is_clean(&alone);
        let names: Vec<&str> = recipe.files.iter().map(|(path, _)| path.as_str()).collect();
        let has_skill = names.iter().any(|it| it.ends_with("/SKILL.md"));
        assert!(has_skill || names.is_empty(), "{names:?}");
        for (path, text) in recipe.files.iter().filter(|(path, _)| path.ends_with(".md")) {
            let words = text.split_whitespace().count();
            assert!(words < 900, "{path} has {words} words");
            assert!(text.lines().skip(4).all(|it| it.chars().count() <= 122), "{path}");
        }
    }
    check_is_clean(&together);
    // The program of the agent in a terminal is not on every machine.
    together.edit(|lua| lua.replace("{ \"claude\", \"--perm", "{ \"/bin/true\", \"--perm"));
    let server = together.serve();
    let config = together.get("/api/config").ok();
    let kinds = config["kinds"].as_array().unwrap().iter();
    let names: Vec<&str> = kinds.map(|it| it["name"].as_str().unwrap()).collect();
    let is_kind = |it: &&&str| !it.contains(['/', '@']);
    assert_eq!(names.iter().filter(is_kind).count(), 11, "{names:?}");
    for inbox in ["accounts/open", "tidy/page", "deploy/run"] {
        assert!(names.contains(&inbox), "{names:?}");
    }
    assert_eq!(config["webhooks"][0]["path"], "/hooks/issues");
    server.stop();
}

#[test]
fn a_page_is_translated_into_a_document_of_its_own() {
    let bench = site(
        1,
        "[ $n = 2 ] || exit 0\n\
         { sed 's/first/erste/; s/second/zweite/' \"$tmp/original\"; cat \"$tmp/earlier\"; } \
         > \"$tmp/translation\"",
    );
    let server = bench.serve();
    let inputs =
        json!({"original": "guide.md", "source_path": "de/guide.md", "language": "German"});
    let job = cooked(&bench, "translate", inputs.clone());
    assert_eq!(job["source_path"], "de/guide.md");
    let shown = proposal(&bench, &job);
    assert_eq!(shown["topic"]["title"], "Translation of guide.md");
    assert_eq!(shown["proposal"]["summary"], "guide.md in German");
    assert_eq!(bench.send(&bench.approval(&shown)).status, 200);
    let made = "# Guide\n\nThe erste line.\n\nThe zweite line.\n";
    assert_eq!(bench.read("de/guide.md"), made);
    // Again: it begins with the translation that is there.
    let shown = proposal(&bench, &cooked(&bench, "translate", inputs));
    assert_eq!((&shown["base_text"], &shown["text"]), (&json!(made), &json!(made.repeat(2))));
    server.stop();
}

#[test]
fn a_topic_is_summed_up_in_a_message() {
    let bench = site(
        2,
        "[ $n = 2 ] || exit 0\n\
         grep -q 'Why two' \"$tmp/topic.json\"\necho '**Asked**: why there are two.' \
         > \"$tmp/message\"",
    );
    let server = bench.serve();
    let topic = bench.topic("guide.md", "second", "Why two?");
    let job = cooked(&bench, "summarize", json!({"topic_id": topic.id}));
    let all = messages(&bench, &topic.id);
    assert_eq!(all[1]["body"], "**Asked**: why there are two.\n");
    assert_eq!(all[1]["author"], format!("job:{}", job["id"].as_str().unwrap()));
    server.stop();
}

#[test]
fn a_question_is_answered_by_itself_where_questions_are_asked() {
    let bench = site(
        3,
        "[ $n = 2 ] || exit 0\n\
         grep -q '\"notes.md\"' \"$tmp/sources.json\"\n\
         if grep -q 'What is kept' \"$tmp/topic.json\"; then\n\
           echo 'This is kept: [Notes](notes.md).' > \"$tmp/message\"\n\
         else echo 'No idea.' > \"$tmp/message\"; fi",
    );
    bench.write("questions.md", "# Questions\n\nAsk here.\n");
    bench.git(&["add", "questions.md"]);
    bench.git(&["commit", "-qm", "a place to ask"]);
    let server = bench.serve();
    let topic = bench.topic("questions.md", "Ask here.", "What is kept?");
    let job = all_ended(&bench, "answer", 1).remove(0);
    assert_eq!(
        (&job["status"], &job["requested_by"]),
        (&json!("succeeded"), &json!("script")),
        "{job:#}"
    );
    assert_eq!(messages(&bench, &topic.id)[1]["body"], "This is kept: [Notes](notes.md).\n");
    // Elsewhere nobody answers unasked, and an answer without a source is none.
    let other = bench.topic("guide.md", "first", "Which one?");
    let job = bench.ended(&bench.job("answer", json!({"topic_id": other.id})));
    assert_eq!((&job["status"], &job["reason"]), (&json!("failed"), &json!("verify_failed")));
    assert!(job["error_tail"].as_str().unwrap().contains("links to no document"), "{job:#}");
    assert_eq!(jobs(&bench, "answer").len(), 2);
    server.stop();
}

#[test]
fn dead_links_become_topics_and_without_any_it_says_so() {
    let bench = site(
        4,
        "[ $n = 2 ] || exit 0\n\
         i=0\n\
         while IFS=$(printf '\\t') read -r path link target; do\n\
           i=$((i + 1))\n\
           printf '%s\\n' \"$path\" > \"$tmp/$i.path\"\n\
           printf '%s\\n' \"$link\" > \"$tmp/$i.quote\"\n\
           echo \"$target is not there\" > \"$tmp/$i.message\"\n\
         done < \"$tmp/dead.tsv\"",
    );
    let server = bench.serve();
    let job = cooked(&bench, "check-links", json!({}));
    assert_eq!(
        (&job["result"], &job["opened_topics"]),
        (&json!("no link leads nowhere"), &json!([]))
    );
    bench.write(
        "docs/deep.md",
        "# Deep\n\n[up](../guide.md#x), [gone](gone.md), [away](https://example.org/) and\n\
         [the root](/nowhere.md)\n",
    );
    let job = cooked(&bench, "check-links", json!({}));
    assert_eq!(job["result"], Value::Null);
    let opened = job["opened_topics"].as_array().unwrap();
    assert_eq!(opened.len(), 2, "{job:#}");
    assert_eq!(
        (&opened[0]["title"], &opened[0]["source_path"], &opened[0]["status"]),
        (&json!("A link that leads nowhere"), &json!("docs/deep.md"), &json!("open"))
    );
    let topic = bench.get(&format!("/api/topics/{}", opened[0]["id"].as_str().unwrap())).ok();
    assert_eq!(topic["topic"]["anchor"]["quote"], "[gone](gone.md)");
    assert_eq!(topic["topic"]["created_by"], format!("job:{}", job["id"].as_str().unwrap()));
    assert_eq!(topic["messages"][0]["body"], "gone.md is not there\n");
    let planned = bench.get("/api/schedules").ok();
    assert_eq!(planned["items"][0]["when"], "monday at 07:00 (local)");
    server.stop();
}

#[test]
fn a_digest_is_proposed_when_its_time_comes() {
    let bench = site(
        5,
        "[ $n = 2 ] || exit 0\n\
         grep -q 'Una User' \"$tmp/log\" && grep -q 'Why two' \"$tmp/open.json\"\n\
         grep -q 'Why two' \"$tmp/topics.json\"\necho '# The week' > \"$tmp/page\"",
    );
    // Monday morning comes within a second.
    let time = "at = \"07:30\", days = { \"monday\" },";
    bench.edit(|it| {
        assert!(it.contains(time));
        it.replace(time, "every = \"1s\",")
    });
    bench.limits("jobs = 1, grace = \"1s\"");
    let server = bench.serve();
    bench.topic("guide.md", "second", "Why two?");
    let job = wait_for("a digest that saw the topic", || {
        jobs(&bench, "digest").into_iter().find(|it| it["status"] == "succeeded")
    });
    assert_eq!(job["requested_by"], "schedule:digest");
    let path = job["source_path"].as_str().unwrap();
    assert!(path.starts_with("digests/20") && path.contains("-W"), "{path}");
    let shown = proposal(&bench, &job);
    assert_eq!(shown["text"], "# The week\n");
    assert_eq!(bench.send(&bench.approval(&shown)).status, 200);
    assert_eq!(bench.read(path), "# The week\n");
    server.stop();
}

#[test]
fn release_notes_are_made_of_the_commits_since_a_tag() {
    let bench = site(
        6,
        "[ $n = 2 ] || exit 0\n\
         grep -q 'a third line' \"$tmp/log\" && ! grep -q 'commit .* first$' \"$tmp/log\"\n\
         echo '# 1.1' > \"$tmp/notes\"",
    );
    bench.git(&["tag", "v1.0"]);
    bench.git(&["commit", "-q", "--allow-empty", "-m", "a third line"]);
    let server = bench.serve();
    let inputs =
        |since: &str| json!({"version": "1.1", "since": since, "source_path": "releases/1.1.md"});
    let shown = proposal(&bench, &cooked(&bench, "release-notes", inputs("v1.0")));
    assert_eq!((&shown["text"], &shown["base_text"]), (&json!("# 1.1\n"), &json!("")));
    assert_eq!(shown["topic"]["title"], "Release notes of 1.1");
    // What is no tag, or pretends to be an option, is git's to refuse.
    for since in ["v9.9", "--output=/tmp/x"] {
        let job = bench.ended(&bench.job("release-notes", inputs(since)));
        assert_eq!(job["reason"], "exit_status", "{job:#}");
        assert!(job["error_tail"].as_str().unwrap().contains("fatal"), "{job:#}");
    }
    server.stop();
}

#[test]
fn a_glossary_is_proposed_from_all_documents() {
    let bench = site(
        7,
        "[ $n = 2 ] || exit 0\n\
         [ \"$(grep -c '\"path\"' \"$tmp/sources.json\")\" -ge 1 ]\n\
         printf '# Glossary\\n\\n## Deep\\nFar below: [Deep](docs/deep.md).\\n' \
         > \"$tmp/glossary\"",
    );
    let server = bench.serve();
    let job = cooked(&bench, "glossary", json!({"source_path": "glossary.md"}));
    let shown = proposal(&bench, &job);
    assert!(shown["text"].as_str().unwrap().contains("## Deep\n"), "{shown:#}");
    assert_eq!(bench.send(&bench.approval(&shown)).status, 200);
    server.stop();
}

#[test]
fn a_review_marks_passages_that_a_click_can_mend() {
    let bench = site(
        8,
        "[ $n = 2 ] || exit 0\n\
         grep -q second \"$tmp/document\" || exit 0\n\
         echo 'The second line.' > \"$tmp/1.quote\"\n\
         printf 'Rule 5.\\n\\n```suggestion\\nLine two.\\n```\\n' > \"$tmp/1.message\"",
    );
    bench.lua(
        "wb.engine \"suggestions\" { type = \"builtin\" }
         wb.kind \"apply\" { about = \"Apply\", engine = \"suggestions\", timeout = \"20s\",
           produces = \"proposal\", inputs = { topic_id = wb.input.topic(),
             source_path = wb.input.source { from = \"topic_id\" },
             base_source_sha = wb.input.blob { from = \"source_path\" } } }\n",
    );
    let server = bench.serve();
    let job = cooked(&bench, "style-review", json!({"source_path": "guide.md"}));
    let topic = job["opened_topics"][0]["id"].as_str().unwrap();
    assert_eq!(messages(&bench, topic)[0]["body"], "Rule 5.\n\n```suggestion\nLine two.\n```\n");
    let shown = proposal(&bench, &cooked(&bench, "apply", json!({"topic_id": topic})));
    assert_eq!(shown["text"], "# Guide\n\nThe first line.\n\nLine two.\n");
    let job = cooked(&bench, "style-review", json!({"source_path": "notes.md"}));
    assert_eq!(job["result"], "nothing breaks the rules");
    server.stop();
}

#[test]
fn a_shell_script_is_an_agent() {
    let bench = site(10, "exit 1");
    let server = bench.serve();
    let job = cooked(&bench, "measure", json!({"source_path": "guide.md", "longest": 20}));
    assert_eq!(job["result"], json!({"words": 8, "long_lines": 0}));
    assert_eq!(job["summary"], "8 words, 0 long lines");
    bench.write("notes.md", "\n");
    let job = bench.ended(&bench.job("measure", json!({"source_path": "notes.md"})));
    assert_eq!(job["reason"], "verify_failed", "{job:#}");
    server.stop();
}

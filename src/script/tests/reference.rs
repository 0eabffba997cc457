//! docs/lua.md and the editor stubs match the schema, and every example loads.

use std::fmt::Write;

use crate::base::EventKind;
use crate::script::schema::{
    BASE, CALLBACKS, Callback, DECLARATIONS, Declaration, FUNCTIONS, Field, Function, Member,
    RECORDS, Record, Shape, TEST_FUNCTIONS, TEST_RECORDS, event_data, input_fields,
};
use crate::script::tests::{Site, repository};
use crate::script::{EDITOR_SETTINGS, EngineBody, InputType, stubs, test_stubs};

/// Returns the rows of some fields, each with its path from the declaration.
fn rows(before: &str, fields: &[Field]) -> String {
    let row = |it: &Field| {
        let default = match (it.is_required, it.default) {
            (true, _) => "must be there".to_owned(),
            (false, Some(text)) => format!("`{text}`"),
            (false, None) => String::new(),
        };
        let (name, what) = (format!("{before}{}", it.name), it.shape.what());
        let row = format!("| `{name}` | {what} | {default} | `{}` | {} |\n", it.example, it.doc);
        match it.shape {
            Shape::Fields(fields) => row + &rows(&format!("{name}."), fields),
            _ => row,
        }
    };
    fields.iter().map(row).collect()
}

const HEAD: &str = "| field | holds | default | for example | |\n|---|---|---|---|---|\n";

/// Fields of a long-running engine.
const OF_STREAM: [&str; 3] = ["speaks", "proof_wait", "system"];
/// Fields of an engine that only a model has.
const OF_MODEL: [&str; 7] =
    ["model", "key", "base_url", "max_output", "context", "thinking", "price"];
/// Fields of an engine in a terminal.
const OF_TERMINAL: [&str; 5] = ["hooks", "submit", "input", "ready", "proof"];

/// Returns a declaration with all its fields.
fn whole(it: &Declaration) -> String {
    let name = match it.word {
        "engine" => " \"codex\"",
        "kind" => " \"answer\"",
        "inbox" => " \"accounts/teardown\"",
        "agent" => " \"robbo\"",
        "schedule" => " \"links\"",
        "webhook" => " \"issues\"",
        "channel_type" => " \"incident\"",
        _ => "",
    };
    let width = it.fields.iter().map(|it| it.name.len()).max().unwrap_or(0);
    let line = |field: &Field| format!("  {:<width$} = {},\n", field.name, field.example);
    // A schedule has either `every` or `at`, an inbox a worktree or a folder created by a hook; an
    // engine is a one-shot or a long-running process.
    let either =
        [&["every", "cwd_template", "provider"][..], &OF_STREAM, &OF_MODEL, &OF_TERMINAL].concat();
    let fields = it.fields.iter().filter(|it| !either.contains(&it.name));
    let lines: String = fields.map(line).collect();
    format!("```lua\nwb.{}{name} {{\n{lines}}}\n```\n", it.word)
}

fn fields() -> String {
    let mut text = String::new();
    for it in &DECLARATIONS {
        let name = if it.is_named { " \"NAME\"" } else { "" };
        let (rows, whole) = (rows("", it.fields), whole(it));
        write!(text, "\n## wb.{}{name}\n{}\n\n{whole}\n{HEAD}{rows}", it.word, it.doc).unwrap();
    }
    text += "\n## Inputs of a kind\nA value of `inputs` is `wb.input.TYPE()`, or \
        `wb.input.TYPE { … }` with these fields.\n\n";
    for ty in InputType::ALL {
        let rows = rows("", input_fields(ty));
        write!(text, "### wb.input.{}\n{HEAD}{rows}\n", ty.as_str()).unwrap();
    }
    text
}

fn members(head: &str, members: &[Member]) -> String {
    let row =
        |it: &Member| format!("| `{}` | `{}` | {} |\n", it.name, it.ty.replace('|', "\\|"), it.doc);
    let rows: String = members.iter().map(row).collect();
    if rows.is_empty() {
        String::new()
    } else {
        format!("| {head} | type | |\n|---|---|---|\n{rows}\n")
    }
}

fn function(prefix: &str, it: &Function) -> String {
    // Examples that need a test around them have their own test.
    let fence = if prefix == "t." { "lua test" } else { "lua" };
    let names: Vec<&str> = it.params.iter().map(|it| it.name).collect();
    let returns = it.returns.map(|it| format!(" It returns `{it}`.")).unwrap_or_default();
    format!(
        "### {prefix}{}({})\n{} It can be called {}.{returns}\n\n{}```{fence}\n{}\n```\n\n",
        it.name,
        names.join(", "),
        it.doc,
        it.when.as_str(),
        members("parameter", it.params),
        it.example
    )
}

fn callback(name: &str, it: &Callback) -> String {
    format!("### {name}\n`{}`: {}\n\n{}", it.signature(), it.doc, members("parameter", it.params))
}

fn record(it: &Record) -> String {
    let base =
        it.base.map(|base| format!(" It also has the names of `{base}`.")).unwrap_or_default();
    format!("### {}\n{}{base}\n\n{}", it.name, it.doc, members("name", it.members))
}

fn functions() -> String {
    let mut text = String::from("\n## Functions\n");
    for it in &FUNCTIONS {
        text += &function("wb.", it);
    }
    for it in &BASE {
        text += &function("", it);
    }
    text += "These parts of Lua are available: `assert`, `error`, `ipairs`, `next`, `pairs`, \
        `pcall`, `rawequal`, `rawget`, `rawlen`, `select`, `tonumber`, `tostring`, `type`, and the \
        libraries `math`, `string`, `table` and `utf8`. What `pcall` returns for an error of a \
        `wb` function is a text with file and line.\n\n## Functions of yours\nThey are called \
        with plain tables after the script has loaded, and return plain values.\n\n";
    for (name, it) in CALLBACKS {
        text += &callback(name, it);
    }
    for it in RECORDS {
        text += &record(&it);
    }
    text += "### `event.data`, by event\n[events.md](events.md) says when each occurs.\n\n\
        | event | `data` |\n|---|---|\n";
    for kind in EventKind::ALL {
        let names: Vec<String> =
            event_data(kind).iter().map(|it| format!("`{}: {}`", it.name, it.ty)).collect();
        writeln!(text, "| `{}` | {} |", kind.as_str(), names.join(" ")).unwrap();
    }
    text += "\n";
    text
}

/// Returns the reference of functions for tests.
fn testing() -> String {
    let mut text = String::from(
        "\n## Files of tests\nRun them with `wiki-browser test`; see [testing.md](testing.md). \
         They begin with `local t = require \"wb.test\"`, and have everything that a script has \
         except declarations.\n\n",
    );
    for it in &TEST_FUNCTIONS {
        text += &function("t.", it);
    }
    for it in TEST_RECORDS {
        text += &record(&it);
    }
    text
}

/// Compares a file of the repository with its expected content; `UPDATE_DOCS=1` writes it.
#[track_caller]
fn same(path: &str, make: impl FnOnce(&str) -> String) {
    let full = repository().join(path);
    let shown = std::fs::read_to_string(&full).unwrap_or_default();
    let text = make(&shown);
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::create_dir_all(full.parent().unwrap()).unwrap();
        std::fs::write(full, text).unwrap();
        return;
    }
    assert!(shown == text, "{path} is old: run this test once with UPDATE_DOCS=1");
}

#[test]
fn the_document_has_every_field_and_function() {
    same("docs/lua.md", |shown| {
        let mut text = shown.to_owned();
        for (name, tables) in
            [("fields", fields()), ("functions", functions()), ("tests", testing())]
        {
            let (start, end) = (format!("<!-- {name} -->\n"), format!("<!-- end of {name} -->\n"));
            let (before, rest) = text.split_once(&start).unwrap();
            let (_, after) = rest.split_once(&end).unwrap();
            text = format!("{before}{start}{tables}{end}{after}");
        }
        text
    });
}

#[test]
fn what_editors_read_is_that_of_this_version() {
    same(".wiki-browser/types/wb.lua", |_| stubs());
    same(".wiki-browser/types/wb/test.lua", |_| test_stubs());
    same(".luarc.json", |_| EDITOR_SETTINGS.to_owned());
    let settings: serde_json::Value = serde_json::from_str(EDITOR_SETTINGS).unwrap();
    assert_eq!(settings["workspace.library"][0], ".wiki-browser/types");
}

/// What an engine needs for input while it runs.
const STREAM: &str = "stream";
const MODEL: &str = "model";
const GATEWAY: &str = "gateway";
/// The same of one in a terminal.
const TERMINAL: &str = "terminal";

/// Required fields of a declaration besides the one shown.
fn around(word: &str) -> &'static [(&'static str, &'static str)] {
    match word {
        "identity" => &[("author_name", "\"A\""), ("author_email", "\"a@x\"")],
        "engine" => &[("type", "\"process\""), ("command", "{ \"cat\" }"), ("prompt", "\"stdin\"")],
        STREAM => &[("type", "\"stream\""), ("command", "{ \"cat\" }"), ("speaks", "\"lines\"")],
        GATEWAY => &[("type", "\"gateway\""), ("provider", "\"openai-codex\""), ("model", "\"m\"")],
        MODEL => &[("type", "\"anthropic\""), ("model", "\"m\""), ("key", "wb.secret.env \"K\"")],
        TERMINAL => &[
            ("type", "\"terminal\""),
            ("command", "{ \"cat\" }"),
            ("hooks", "{ \"{{hooks_file}}\" }"),
        ],
        "agent" => &[("about", "\"a\""), ("engine", "\"codex\"")],
        "assistant" => &[("runtimes", "{ claude_code = \"claude-chat\" }")],
        "channel_type" => &[("about", "\"a\"")],
        "webhook" => &[("secret", "wb.secret.env \"S\""), ("enqueue", "function() end")],
        "schedule" => &[("enqueue", "{ kind = \"links\" }"), ("at", "\"07:30\"")],
        "kind" => &[
            ("about", "\"a\""),
            ("engine", "\"codex\""),
            ("timeout", "\"20m\""),
            ("skill", "\"skills/answer\""),
            ("prompt", "\"{{topic_id}}\""),
            ("inputs", "{ topic_id = wb.input.topic() }"),
        ],
        "inbox" => &[
            ("about", "\"a\""),
            ("engine", "\"codex\""),
            ("skill", "\"skills/answer\""),
            ("cwd_base", "\"work\""),
        ],
        _ => &[],
    }
}

/// Returns a declaration with its required fields and these.
fn declared(word: &str, name: &str, fields: &[(&str, &str)]) -> String {
    let has = |name: &str| fields.iter().any(|it| it.0 == name);
    let given = |name: &str| has(name) || (name == "at" && has("every"));
    let is_of = |names: &[&str]| word == "engine" && fields.iter().any(|it| names.contains(&it.0));
    let word_of = match () {
        () if is_of(&OF_STREAM) => STREAM,
        () if is_of(&OF_TERMINAL) => TERMINAL,
        () if is_of(&["provider"]) => GATEWAY,
        () if is_of(&OF_MODEL) => MODEL,
        () => word,
    };
    let least = around(word_of).iter().filter(|it| !given(it.0));
    let lines: String = least.chain(fields).map(|it| format!("{} = {}, ", it.0, it.1)).collect();
    format!("wb.{word}{name} {{ {lines} }}\n")
}

/// Loads an example together with what it omits.
#[track_caller]
fn loads(example: &str) {
    let mut text = String::new();
    if !example.contains("require \"wb\"") {
        text += "local wb = require \"wb\"\nwb.api(1)\n";
    }
    text += example;
    text += "\n";
    if !example.contains("wb.identity") {
        text += &declared("identity", "", &[]);
    }
    for name in set_to(example, "engine") {
        if !example.contains(&format!("wb.engine \"{name}\"")) {
            let is_stream = example.contains("wb.agent");
            let fields = [("speaks", "\"lines\"")];
            let fields = if is_stream { &fields[..] } else { &[] };
            text += &declared("engine", &format!(" {name:?}"), fields);
        }
    }
    if example.contains("claude_code =") && !example.contains("wb.engine \"claude-chat\"") {
        let reads = [("reads", "\"claude-stream-json\"")];
        text += &declared("engine", " \"claude-chat\"", &reads);
    }
    if example.contains("anthropic_api_key =") && !example.contains("wb.engine \"sonnet\"") {
        text += &declared("engine", " \"sonnet\"", &[("model", "\"m\"")]);
    }
    if example.contains("gateway_subscription =") && !example.contains("wb.engine \"pi\"") {
        text += &declared("engine", " \"pi\"", &[("provider", "\"openai-codex\"")]);
    }
    if !example.contains("wb.engine \"e\"") {
        text += &declared("engine", " \"e\"", &[]);
    }
    for name in set_to(example, "kind") {
        if !example.contains(&format!("wb.kind \"{name}\"")) {
            let fields = [("engine", "\"e\""), ("inputs", "{}"), ("prompt", "\"x {{skill}}\"")];
            text += &declared("kind", &format!(" {name:?}"), &fields);
        }
    }
    for name in set_to(example, "monitor") {
        if !example.contains(&format!("wb.kind \"{name}\"")) {
            let inputs = ("inputs", "{ worker = wb.input.line() }");
            let fields = [("engine", "\"e\""), inputs, ("prompt", "\"x {{skill}}\"")];
            text += &declared("kind", &format!(" {name:?}"), &fields);
        }
    }
    let site = Site::new(&text);
    site.write("kinds/review.lua", "return {}\n");
    for path in after(example, "\"schemas/") {
        site.write(&format!("schemas/{path}"), "{}\n");
    }
    for name in after(example, "\"skills/").chain(["answer"]) {
        site.write(&format!("skills/{name}/SKILL.md"), &format!("---\nname: {name}\n---\n"));
    }
    for path in after(example, "\"channels/") {
        site.write(&format!("channels/{path}"), "a text\n");
    }
    for path in after(example, "wb.file \"") {
        site.write(path, "a text\n");
    }
    if let Err(report) = site.load() {
        panic!("{text}\n{report}");
    }
}

/// Returns the values that a field is set to, with any spacing: `engine = "x"`, not `wb.engine
/// "x"`.
fn set_to<'t>(text: &'t str, field: &str) -> std::collections::BTreeSet<&'t str> {
    let mut words = text.split_whitespace().peekable();
    let mut found = std::collections::BTreeSet::new();
    while let Some(word) = words.next() {
        if word.trim_start_matches('{') == field && words.next_if_eq(&"=").is_some() {
            found.extend(words.peek().and_then(|it| it.split('"').nth(1)));
        }
    }
    found
}

/// Returns the texts between a word and the next quote.
fn after<'t>(text: &'t str, word: &'t str) -> impl Iterator<Item = &'t str> {
    text.split(word).skip(1).filter_map(|rest| rest.split('"').next())
}

#[test]
fn the_example_of_every_field_loads() {
    for it in &DECLARATIONS {
        let name = match (it.is_named, it.word) {
            (false, _) => "",
            (true, "inbox") => " \"accounts/teardown\"",
            (true, _) => " \"codex\"",
        };
        for field in it.fields {
            loads(&declared(it.word, name, &[(field.name, field.example)]));
            let Shape::Fields(inner) = field.shape else { continue };
            for one in inner {
                let is_with = |it: &&Field| it.is_required && it.name != one.name;
                let with = inner.iter().filter(is_with);
                let with: String =
                    with.map(|it| format!("{} = {}, ", it.name, it.example)).collect();
                let table = format!("{{ {with}{} = {} }}", one.name, one.example);
                loads(&declared(it.word, name, &[(field.name, &table)]));
            }
        }
    }
}

#[test]
fn the_example_of_every_input_loads() {
    for ty in InputType::ALL {
        for field in input_fields(ty) {
            let others =
                input_fields(ty).iter().filter(|it| it.is_required && it.name != field.name);
            let fields: Vec<String> =
                others.chain([field]).map(|it| format!("{} = {}", it.name, it.example)).collect();
            let input = format!("wb.input.{} {{ {} }}", ty.as_str(), fields.join(", "));
            let mut inputs = vec![
                "topic_id = wb.input.topic()".to_owned(),
                "source_path = wb.input.source()".to_owned(),
                "persona_name = wb.input.persona()".to_owned(),
                format!("x = {input}"),
            ];
            let mut kind = vec![("prompt", "\"x\"")];
            if field.name == "new" {
                inputs.push("y = wb.input.blob { from = \"x\" }".to_owned());
                kind.push(("produces", "\"proposal\""));
            }
            let inputs = format!("{{ {} }}", inputs.join(", "));
            kind.push(("inputs", &inputs));
            loads(&declared("kind", " \"k\"", &kind));
        }
    }
}

#[test]
fn the_example_of_every_function_loads() {
    for it in FUNCTIONS.iter().chain(&BASE) {
        loads(it.example);
    }
}

#[test]
fn every_example_of_the_documents_loads() {
    let mut seen = 0;
    for path in [
        "docs/lua.md",
        "docs/callbacks.md",
        "docs/kinds.md",
        "docs/engines.md",
        "docs/events.md",
        "docs/inboxes.md",
    ] {
        let text = std::fs::read_to_string(repository().join(path)).unwrap();
        for block in text.split("```lua\n").skip(1) {
            let example = block.split("```").next().unwrap();
            loads(example);
            seen += 1;
        }
    }
    assert!(seen > 15, "{seen}");
}

/// Claude Code refuses calls that nobody allowed, and nobody is there to ask.
#[test]
fn claude_code_may_call_wb_agent_in_each_example_and_starts_nothing_else() {
    let mut seen = 0;
    for name in ["agents", "channels", "engines", "inboxes", "testing"] {
        let text = std::fs::read_to_string(repository().join(format!("docs/{name}.md"))).unwrap();
        let blocks = text.split("```lua\n").skip(1).map(|it| it.split("```").next().unwrap());
        for block in blocks.filter(|it| it.contains("wb.engine \"claude")) {
            // The engine alone: what uses it may need files.
            let engine = block.split_once("wb.engine \"claude").unwrap().1;
            let engine = engine.split("\n}\n").next().unwrap();
            let loaded = Site::with_head(&format!("wb.engine \"claude{engine}\n}}\n")).loaded();
            for engine in loaded.config.engines.values() {
                assert_eq!(engine.open_doors(), [""; 0], "docs/{name}.md: {engine:?}");
                let EngineBody::Process { command, .. } = &engine.body else { continue };
                let mut words = command.iter().chain(&engine.asks);
                let may =
                    engine.unasked().is_some() || words.any(|it| it.contains("Bash(wb-agent:*)"));
                assert!(may, "docs/{name}.md: {command:?}");
                seen += 1;
            }
        }
    }
    assert!(seen >= 6, "{seen}");
}

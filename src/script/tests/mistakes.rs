//! Forty common mistakes: each is reported with its place and a hint.

use crate::script::tests::{HEAD, Site, brief};
use crate::script::vm::budget::cpu_of;

/// An engine, on line 4.
const ENGINE: &str =
    "wb.engine \"e\" { type = \"process\", command = { \"cat\" }, prompt = \"stdin\" }\n";

/// A valid kind in two lines, with more fields on the second.
fn kind(more: &str) -> String {
    format!(
        "{ENGINE}wb.kind \"k\" {{ about = \"a\", engine = \"e\", timeout = \"1m\", \
         prompt = \"x\",\n\
         {more} }}\n"
    )
}

#[track_caller]
fn told(rest: &str, expected: &[&str], notes: &[&str]) {
    let errors = Site::with_head(rest).errors();
    let shown: Vec<String> = errors.iter().map(ToString::to_string).collect();
    assert_eq!(brief(&errors), expected, "{}", shown.join("\n"));
    for note in notes {
        assert!(shown.iter().any(|it| it.contains(note)), "{note}: {}", shown.join("\n"));
    }
}

#[test]
fn what_is_no_lua_is_told_with_what_to_type() {
    for (rest, place, note) in [
        (
            "wb.site {\n  root = \".\"\n  data = \"x\",\n}\n",
            "6:3",
            "a comma between `\".\"` and `data`",
        ),
        ("wb.site {\n  root: \".\",\n}\n", "5:9", "a field is set with `=`: write root = …"),
        ("wb.site {\n  root = \".\",\n", "4:9", "write `}`"),
        ("wb.site {\n  root = \".,\n}\n", "5:10", "close the text with the same quote"),
        ("wb.site {\n  root = \".\"\nwb.limits {}\n", "6:1", "a `}` is missing before it"),
        ("local f = function()\n", "4:11", "write `end`"),
        ("wb.on(\"x\" function(event) end)\n", "4:11", "a comma between `\"x\"` and `function`"),
        ("wb.on(\"x\", print\nlocal a = 1\n", "5:1", "write `)` here"),
        ("wb.site { root = “.” }\n", "4:18", "write the plain quote \""),
        ("if 1 != 2 then end\n", "4:6", "write `~=`"),
        ("if true && true then end\n", "4:10", "write `and`"),
        ("local x = 1\nx += 1\n", "5:3", "Lua has no `+=`"),
        ("local x = 1\nx++\n", "5:2", "Lua has no `++`"),
        ("if 1 <> 2 then end\n", "4:7", "write `~=`"),
        ("local x = true ? 1 : 2\n", "4:16", "write x and a or b"),
        ("if wb then\nelif wb then\nend\n", "5:6", "write `elseif`"),
        ("let x = 1\n", "4:5", "write `local`"),
        ("wb.on(\"x\", function()\nend\nend)\n", "6:1", "this `end` closes nothing"),
        ("local function f()\nend\nend\n", "6:1", "this `end` closes nothing"),
        ("// a comment\n", "4:1", "a comment begins with --"),
        ("if wb = 1 then end\n", "4:7", "compare with `==`"),
        ("local s = \"a\\qb\"\n", "4:11", "for a backslash"),
        ("wb.site {\n  \"root\": \".\",\n}\n", "5:9", "a field is set with `=`: write root = …"),
        ("wb.on(\"x\", (event) => {})\n", "4:20", "write function(…) … end"),
        (
            "wb.on(\"x\", function(event)\n  if event then print(1)\nend)\n",
            "6:4",
            "write `end` before `)`: `function` in line 4 is not closed",
        ),
        (
            "wb.on(\"x\", function(e)\n  if e then print(1) else if e.id then print(2) end\nend)\n",
            "6:4",
            "write `elseif` in line 5",
        ),
        ("wb.site { root = \"a\"\u{a0}}\n", "4:21", "a blank that Lua does not know"),
    ] {
        let expected = format!("{place} syntax");
        told(rest, &[&expected], &[note]);
    }
}

#[test]
fn what_another_language_would_say_is_told_too() {
    let json = Site::new("{ \"site\": { \"root\": \".\" } }\n").errors();
    assert_eq!(brief(&json), ["1:1 syntax"]);
    assert!(json[0].to_string().contains("this looks like JSON"), "{}", json[0]);
    for (rest, expected, note) in [
        ("local wb = nil\nwb.kind \"x\" {}\n", "5:1 runtime", "`wb` is another value here"),
        ("local wb = {}\nwb.kind \"x\" {}\n", "5:4 runtime", "`wb` is another value here"),
        ("wb:kind \"x\" {}\n", "4:1 no-name", "write a dot: wb.kind \"x\" { … }"),
        ("local k = wb.secret \"K\"\n", "4:14 runtime", "write wb.secret.env \"NAME\""),
        ("local p = \"a\" + \"b\"\n", "4:1 runtime", "joined with two dots: a .. b"),
        ("wb.enqueue { kind = \"x\" }\n", "4:4 runtime", "write wb.on(\"EVENT\", function"),
        ("local t = wb.file \"skills/s/SKIL.md\"\n", "4:14 runtime", "\"skills/s/SKILL.md\"?"),
        ("require \"kinds.review\"\n", "4:9 missing-module", "write kinds/review.lua"),
        ("wb.limits { jobs = 0 }\n", "4:20 out-of-range", "write 1"),
        ("wb.limits { agents = 201 }\n", "4:22 out-of-range", "lower it"),
    ] {
        told(rest, &[expected], &[note]);
    }
}

#[test]
fn what_a_kind_needs_is_written_out() {
    for (produces, note) in [
        ("proposal", "base_source_sha = wb.input.blob { from = \"source_path\" } }"),
        ("perspective", "persona_sha = wb.input.hash { from = \"persona_name\" } }"),
        ("message", "write inputs = { topic_id = wb.input.topic() }"),
    ] {
        told(&kind(&format!("produces = \"{produces}\"")), &["6:1 broken-rule"], &[note]);
    }
}

#[test]
fn a_global_that_is_not_there_is_told_with_what_to_write_for_it() {
    for (rest, expected, note) in [
        ("wb.site { root = null }\n", "4:18 undefined-global", "write nil"),
        ("wb.site { root = os.getenv(\"X\") }\n", "4:18 undefined-global", "cannot ask the system"),
        ("local t = setmetatable({}, {})\n", "4:11 undefined-global", "no metatables"),
        ("local t = jobs_now\n", "4:11 undefined-global", "write \"jobs_now\" for a text"),
        ("local t = tostrin(1)\n", "4:11 undefined-global", "did you mean `tostring`?"),
        ("wb.limits = { jobs = 3 }\n", "4:4 assignment", "write wb.limits { … }"),
        (
            "wb.on(\"job_finishd\", function() end)\n",
            "4:7 unknown-event",
            "did you mean `job_finished`?",
        ),
    ] {
        told(rest, &[expected], &[note]);
    }
    told(
        "wb.site {\n  timeout == \".\",\n}\n",
        &["5:3 undefined-global", "5:3 unknown-field"],
        &["write timeout = …"],
    );
}

#[test]
fn a_wrong_value_is_told_with_a_right_one() {
    for (rest, expected, note) in [
        ("idle = 30".to_owned(), "6:8 bad-duration", "write \"30s\""),
        ("idle = \"5 minutes\"".to_owned(), "6:8 bad-duration", "write \"5m\""),
        ("idle = \"1.5 hours\"".to_owned(), "6:8 bad-duration", "write \"90m\""),
        ("idle = true".to_owned(), "6:8 wrong-type", "write idle = \"3m\""),
        ("inputs = { \"topic_id\" }".to_owned(), "6:10 wrong-type", "write inputs = {"),
        (
            "skill = \"skills/z\"".to_owned(),
            "6:9 missing-skill",
            "write skills/z/SKILL.md, which begins with the lines ---, name: z, description: ",
        ),
        ("produces = \"propsal\"".to_owned(), "6:12 unknown-word", "did you mean `proposal`?"),
    ] {
        told(&kind(&rest), &[expected], &[note]);
    }
    let command = ENGINE.replace("{ \"cat\" }", "\"claude -p\"");
    told(&command, &["4:45 wrong-type"], &["write command = { \"claude\", \"-p\" }"]);
    let nil = kind("")
        .replace("engine = \"e\"", "engine = e")
        .replace(ENGINE, &format!("{ENGINE}local e\n"));
    told(&nil, &["6:37 nil-field"], &["`engine` of kind \"k\" is nil", "write engine = "]);
    told(
        &kind("").replace(ENGINE, ""),
        &["4:37 unknown-engine"],
        &["declare it: wb.engine \"e\" { … }"],
    );
    let beside = kind("skill = \"skills/ss\"");
    told(&beside, &["6:9 missing-skill"], &["did you mean `skills/s`?"]);
}

#[test]
fn a_wrong_schedule_or_callback_is_told_with_a_right_one() {
    for (more, expected, note) in [
        ("retry = \"5m\"", "6:9 wrong-type", "write retry = function(job)"),
        ("verify = true", "6:10 wrong-type", "write verify = function(job)"),
        ("lane = 5", "6:8 wrong-type", "must be a line of text or a function"),
    ] {
        told(&kind(more), &[expected], &[note]);
    }
    for (fields, expected, note) in [
        ("every = \"1h\"", "7:1 missing-field", "write enqueue = { kind = "),
        ("enqueue = { kind = \"k\" }", "7:1 missing-field", "write every = \"1h\" or at"),
        ("every = 60, enqueue = { kind = \"k\" }", "7:27 bad-duration", "write \"60s\""),
        (
            "evry = \"1h\", enqueue = { kind = \"k\" }",
            "7:19 unknown-field",
            "did you mean `every`?",
        ),
        ("at = \"7:30\", enqueue = { kind = \"k\" }", "7:24 bad-time", "write \"07:30\""),
        ("every = \"1h\", enqueue = { kind = \"j\" }", "7:52 unknown-kind", "names no kind: `j`"),
        ("every = \"1h\", enqueue = \"k\"", "7:43 wrong-type", "write enqueue = { kind = "),
    ] {
        let rest = format!("{}wb.schedule \"s\" {{ {fields} }}\n", kind(""));
        told(&rest, &[expected], &[note]);
    }
    told("wb.enqeue {}\n", &["4:4 unknown-function"], &["did you mean `enqueue`?"]);
    told("wb.secret.enw \"A\"\n", &["4:11 unknown-function"], &["did you mean `env`?"]);
}

#[test]
fn a_table_that_is_made_elsewhere_has_the_nearest_place() {
    let made = format!(
        "{ENGINE}local spec = {{ about = \"a\", engine = \"e\", timeout = \"1m\", \
         prompt = \"x\" }}\n\
         spec.idel = \"1s\"\nwb.kind \"k\" (spec)\n"
    );
    told(&made, &["7:1 unknown-field"], &["did you mean `idle`? (its table is made elsewhere)"]);
    let helper = format!(
        "{ENGINE}local function mk(name)\n\
         return wb.kind(name) {{ about = \"a\", engine = \"e\", timeout = \"1m\", prompt = \"x\", \
         idel = \"1s\" }}\n\
         end\nmk \"a\"\n"
    );
    told(&helper, &["6:81 unknown-field"], &["kind \"a\" has no field `idel`"]);
}

#[test]
fn what_is_wrong_in_several_files_is_told_at_once() {
    let site = Site::with_head(
        "require \"a\"\nrequire \"kinds.revew\"\nrequire \"b\"\nwb.site { rot = \".\" }\n",
    );
    site.write("a.lua", "local wb = require \"wb\"\nlocal x = = 2\n");
    site.write("b.lua", "require \"c\"\nlocal wb = require \"wb\"\nwb.limits { jbos = 2 }\n");
    site.write("c.lua", "require \"b\"\n");
    site.write("kinds/review.lua", "return 1\n");
    let errors = site.errors();
    assert_eq!(
        brief(&errors),
        [
            "5:9 missing-module",
            "7:11 unknown-field",
            "2:11 syntax",
            "3:13 unknown-field",
            "1:9 require-cycle",
        ]
    );
    let said = errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n");
    assert!(said.contains("did you mean \"kinds.review\"?"), "{said}");
    assert!(said.contains("leave this require out"), "{said}");
}

/// What a loop over it would declare is no mistake of its own.
#[test]
fn what_is_not_there_is_told_once_however_it_is_walked() {
    let declares = "wb.kind(\"say-\" .. it.code) { about = it.name }";
    for (missing, expected) in [
        ("wb.josn.decode(\"[1]\")", "4:16 unknown-function"),
        ("wb.names", "4:16 unknown-function"),
        ("names", "4:13 undefined-global"),
        ("require(\"lib.plan\").tongues", "3:3 syntax"),
        ("require(\"lib.plam\").tongues", "4:21 missing-module"),
    ] {
        for walk in [
            "for _, it in ipairs(all) do BODY end",
            "for _, it in pairs(all) do BODY end",
            "for it in all do BODY end",
            "for it in all:gmatch \"%a+\" do BODY end",
            "for i = 1, #all do local it = all[i] BODY end",
            "local i = 1 while all[i] do local it = all[i] BODY i = i + 1 end",
        ] {
            let walk = walk.replace("BODY", declares);
            let site = Site::with_head(&format!("local all = {missing}\n{walk}\n"));
            site.write("lib/plan.lua", "return {\n  tongues = {}\n  other = {},\n}\n");
            let errors = site.errors();
            assert_eq!(brief(&errors), [expected], "{walk}");
        }
    }
}

#[test]
fn the_bytes_of_a_file_move_no_caret() {
    let wrong = "wb.site {\n\troot\t= \".\", /* 日本 */ rot = \"é👍\" }\n"
        .replace("/* 日本 */", "[\"日本\"] = 1,");
    let plain = Site::with_head(&wrong);
    let expected = brief(&plain.errors());
    assert_eq!(expected, ["5:14 unknown-field", "5:26 unknown-field"]);
    let text = format!("{HEAD}{wrong}");
    for text in [text.replace('\n', "\r\n"), format!("\u{feff}{text}"), format!("#!x\n{text}")] {
        let errors = Site::new(&text).errors();
        let columns = |it: &[String]| -> Vec<String> {
            it.iter().map(|it| it.split_once(':').unwrap().1.to_owned()).collect()
        };
        assert_eq!(columns(&brief(&errors)), columns(&expected), "{text}");
    }
    let shown = plain.errors()[1].to_string();
    let lines: Vec<&str> = shown.lines().collect();
    let before = |line: &str, end: &str| {
        unicode_width::UnicodeWidthStr::width(line.split(end).next().unwrap())
    };
    assert_eq!(before(lines[3], "rot ="), before(lines[4], "^^^"), "{shown}");
}

#[test]
fn a_file_that_is_not_utf8_is_told_with_the_byte() {
    let site = Site::new("");
    std::fs::write(site.path().join("wiki-browser.lua"), b"local wb\n-- caf\xe9 x\n").unwrap();
    let errors = site.errors();
    assert_eq!(brief(&errors), ["2:7 not-utf8"]);
    let said = errors[0].to_string();
    assert!(
        said.contains("save the file as UTF-8") && said.contains("2 | -- caf\u{fffd} x"),
        "{said}"
    );
}

#[test]
fn warnings_are_about_what_is_hardly_meant() {
    for (more, expected) in [
        ("inputs = { a = wb.input.line() }", &["6:12 unused-input"][..]),
        ("inputs = { a = wb.input.line() }, lane = \"a\"", &[]),
        ("inputs = { a = wb.input.line() }, lane = function(i) return \"l=\" .. i.a end", &[]),
        ("inputs = { a = wb.input.line() }, verify = function() return true end", &[]),
        ("inputs = { a = wb.input.line() }, retry = function() return \"5m\" end", &[]),
        (
            "inputs = { a = wb.input.source(), b = wb.input.blob { from = \"a\" } }",
            &["6:35 unused-input"],
        ),
        ("skill = \"skills/s\"", &["6:1 unused-skill"]),
        ("on_busy = \"reject\"", &["6:1 shadowed"]),
        ("idle = \"2m\", start = \"1m\"", &["6:1 shadowed", "6:14 shadowed"]),
        ("linger = \"5s\"", &["6:1 shadowed"]),
        ("max_running = 3", &["6:1 shadowed"]),
        (
            "inputs = { a = wb.input.line { default = \"x\", required = true } }, lane = nil",
            &["6:12 unused-input", "6:47 shadowed"],
        ),
    ] {
        let loaded = Site::with_head(&kind(more)).loaded();
        assert_eq!(brief(&loaded.warnings), expected, "{more}");
    }
    // An input that a handler reads is used, and a function may give a lane any name.
    let (input, limits) =
        ("inputs = { a = wb.input.line() }", "wb.limits { lanes = { any = 1 } }\n");
    let handler = "wb.on(\"job_finished\", function(e) wb.log.info(e.job.inputs.a) end)\n";
    let read = Site::with_head(&format!("{}{handler}", kind(input))).loaded();
    assert!(read.warnings.is_empty(), "{:?}", read.warnings);
    let named = Site::with_head(&format!("{limits}{}", kind(input)));
    assert_eq!(brief(&named.loaded().warnings), ["4:23 unused", "7:12 unused-input"]);
    let lane = "lane = function() return \"any=1\" end";
    let any = Site::with_head(&format!("{limits}{}", kind(lane))).loaded();
    assert!(any.warnings.is_empty(), "{:?}", any.warnings);
    // A builtin engine needs no declaration; declaring one that no kind uses is fine.
    let builtin = format!("{}wb.engine \"suggestions\" {{ type = \"builtin\" }}\n", kind(""));
    assert!(Site::with_head(&builtin).loaded().warnings.is_empty());
    let unused = kind("").replace(ENGINE, &format!("{ENGINE}{}", ENGINE.replace("\"e\"", "\"f\"")));
    assert_eq!(brief(&Site::with_head(&unused).loaded().warnings), ["5:1 unused"]);
}

/// The waiting thread looks up the place of each declaration in the text. How that grows is
/// measured by the processor time of this thread, which other work does not increase.
#[test]
fn loading_grows_with_the_script_and_no_faster() {
    let script = |kinds: usize| {
        let one = |place: usize| {
            format!(
                "wb.kind \"k{place}\" {{ about = \"a\", engine = \"e\", timeout = \"1m\",\n\
                 lane = \"source_path\", inputs = {{ source_path = wb.input.source(),\n\
                 sha = wb.input.blob {{ from = \"source_path\" }} }}, produces = \"proposal\",\n\
                 prompt = [[\nPath: {{{{source_path}}}}\n{{{{sha}}}} {{{{wb_agent}}}}\n]] }}\n"
            )
        };
        Site::with_head(&format!("{ENGINE}{}", (0..kinds).map(one).collect::<String>()))
    };
    let (few, many) = (script(40), script(640));
    let best = |site: &Site, times: u32| {
        // A thread that has just started has no times yet.
        let spent = || cpu_of("thread-self").unwrap_or_default();
        let time = |_| {
            let before = spent();
            (0..times).for_each(|_| drop(site.loaded()));
            spent() - before
        };
        (0..4).map(time).min().unwrap()
    };
    // A single short load may not be measurable.
    let (short, long) = (best(&few, 16), best(&many, 1));
    // 16 times the kinds; a linear search for each would take 256 times as long.
    assert!(long < short * 4, "16 times 40 kinds: {short:?}, 640 kinds: {long:?}");
}

/// Returns `line:column` and the text of each warning about a field that is nil.
fn nils(rest: &str) -> Vec<String> {
    let site = Site::with_head(rest);
    site.write("lib/rules.lua", "local M = {}\nfunction M.verify() return \"bad\" end\nreturn M\n");
    let warnings = site.loaded().warnings;
    let found: Vec<_> = warnings.into_iter().filter(|it| it.code == "nil-field").collect();
    brief(&found).into_iter().zip(found).map(|(at, it)| format!("{at} {it}")).collect()
}

/// Asserts that one nil is told of a script, where it stands.
#[track_caller]
fn assert_nil(rest: &str, place: &str, says: &str, note: &str) {
    let found = nils(rest);
    assert_eq!(found.len(), 1, "{rest}: {found:?}");
    assert!(found[0].starts_with(&format!("{place} nil-field ")), "{found:?}");
    assert!(found[0].contains(says) && found[0].contains(note), "{found:?}");
}

#[test]
fn an_entry_that_a_mistake_makes_nil_is_told() {
    for (rest, place, says, note) in [
        (
            format!(
                "local cfg = {{}}\n{}wb.schedule \"s\" {{ at = \"07:00\", zone = \"UTC\",\n\
                 days = {{ cfg.dya }}, enqueue = {{ kind = \"k\" }} }}\n",
                kind("")
            ),
            "9:10",
            "an entry of `days` of schedule \"s\" is nil: `cfg.dya`",
            "correct the name; if nil is meant, write cfg.dya or nil, or leave it out",
        ),
        (
            kind("prepare = { \"/bin/echo\", wb.env(\"NO_SUCH_MODEL\") }"),
            "6:26",
            "an entry of `prepare` of kind \"k\" is nil: `wb.env(\"NO_SUCH_MODEL\")`",
            "set the variable; if nil is meant",
        ),
        (
            "local cfg = {}\nwb.engine \"f\" { type = \"process\", prompt = \"stdin\",\n\
             command = { \"/bin/echo\" }, env = { TONE = cfg.tone } }\n"
                .to_owned(),
            "6:43",
            "`TONE` of `env` of engine \"f\" is nil: `cfg.tone`",
            "write TONE = cfg.tone or nil",
        ),
    ] {
        assert_nil(&rest, place, says, note);
    }
}

#[test]
fn an_optional_field_that_a_mistake_makes_nil_is_told() {
    let rules = |more: &str| format!("local rules = require \"lib.rules\"\n{}", kind(more));
    for (rest, place, says, note) in [
        (
            rules("verify = rules.verfy"),
            "7:10",
            "`verify` of kind \"k\" is nil: `rules.verfy`",
            "correct the name; if nil is meant, write verify = rules.verfy or nil, or leave it out",
        ),
        (
            kind("max_running = tonumber(wb.env(\"NO_SUCH_NUMBER\"))"),
            "6:15",
            "`max_running` of kind \"k\" is nil",
            "set the variable to a number; if nil is meant, write max_running = tonumber(wb.env(",
        ),
        (
            format!("local plan = {{}}\n{}", kind("max_running = (tonumber(plan.most))")),
            "7:15",
            "`max_running` of kind \"k\" is nil: `(tonumber(plan.most))`",
            "make it a number; if nil is meant, write max_running = (tonumber(plan.most)) or nil",
        ),
        (
            format!(
                "local plan = {{}}\n{}",
                kind("daily = { tokens = 9000, cost_usd = plan.usd }")
            ),
            "7:37",
            "`cost_usd` of `daily` of kind \"k\" is nil: `plan.usd`",
            "write cost_usd = plan.usd or nil",
        ),
        (
            format!(
                "local caps = {{}}\n{ENGINE}for _, it in ipairs {{ \"a\" }} do\n\
                 wb.kind(it) {{ about = it,\nengine = \"e\", timeout = \"1m\",\n\
                 max_running = caps.clause, prompt = \"x\" }}\nend\n"
            ),
            "9:15",
            "`max_running` of kind \"a\" is nil: `caps.clause`",
            "correct the name",
        ),
    ] {
        assert_nil(&rest, place, says, note);
    }
    for rest in [
        rules("verify = rules.verfy or nil"),
        rules("produces = \"result\", verify = rules.verify"),
        rules("verify = wb and rules.verfy"),
        format!(
            "{ENGINE}local function kind(o) wb.kind(o.name) {{ about = \"a\", engine = \"e\",\n\
             timeout = \"1m\", prompt = \"x\", lane = o.lane, verify = o.verify }} end\n\
             kind {{ name = \"a\" }}\n"
        ),
    ] {
        assert_eq!(nils(&rest), Vec::<String>::new(), "{rest}");
    }
}

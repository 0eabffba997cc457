//! Reads of unknown fields in functions are reported, and nothing else is.

use crate::script::tests::Site;

/// Returns the warnings of a script with these lines: messages and hints.
fn warnings(lines: &str) -> Vec<String> {
    let site = Site::with_head(lines);
    let loaded = site.loaded();
    let found = loaded.warnings.iter().filter(|it| it.code == "unknown-read");
    found.map(|it| format!("{}: {}", it.message, it.note.as_deref().unwrap_or(""))).collect()
}

#[test]
fn a_read_in_vain_is_told_with_what_to_type() {
    for (body, expected) in [
        ("if e.kind == \"count\" then end", "is its name, job_finished: write e.job.kind"),
        ("print(e.status)", "an event job_finished has no `status`: write e.job.status"),
        ("print('x'..e.data.reson)", "has no `reson`: did you mean `reason`?"),
        ("print(e.job.topic)", "`e.job` of an event job_finished has no `topic`: did you mean"),
        ("print(e.data.exit_code)", "has no `exit_code`: write e.job.exit_code"),
        ("print(e.dta.id)", "has no `dta`: did you mean `data`?"),
        ("for i = 1, 2 do if i then repeat print(e.x) until i end end", "has no `x`"),
    ] {
        let found = warnings(&format!("wb.on(\"job_finished\", function(e) {body} end)\n"));
        assert!(found.len() == 1 && found[0].contains(expected), "{body}: {found:?}");
    }
}

#[test]
fn what_is_not_plain_is_left_alone() {
    for lines in [
        "wb.on(\"job_finished\", function(e) print(e.job.inputs.x, e.job.result.y, e.at) end)",
        "wb.on(\"job_finished\", function(e) if e.kind == \"job_finished\" then end end)",
        "wb.on(\"job_finished\", function(e) local e = { x = 1 } print(e.x) end)",
        "wb.on(\"job_finished\", function(e) e = e.data print(e.job_id) end)",
        "wb.on(\"job_finished\", function(e) pcall(function(e) print(e.x) end) end)",
        "wb.on(\"job_finished\", function(e) e.mine = 1 local t = { e = { x = 1 } } t.e.x = 2 end)",
        "local function f(e) print(e.data.topic_id, e.data.retry_at, e.data.message_id) end\n\
         wb.on(\"job_finished\", f) wb.on(\"message_posted\", f)",
        "wb.on(\"job_finished\", function() end) wb.on(\"job_queued\", function(e) end)",
        "wb.on(\"job_finished\", print)",
        "wb.on(\"job_finished\", function(e) local job = e.job job = { x = 1 } print(job.x) end)",
        "wb.on(\"job_finished\", function(e) local job = e.job or { x = 1 } print(job.x) end)",
        "local last\nwb.on(\"job_finished\", function(e) last = e.job end)\n\
         wb.on(\"job_queued\", function(e) last = { x = 1 } print(last.x) end)",
        "wb.on(\"job_finished\", function(e) for _, job in ipairs({ e.job }) do\n\
         print(job.x) end end)",
        "local f = function(a, e) print(e.x) end\nwb.on(\"job_finished\", function(e) f(1, e) end)",
    ] {
        assert_eq!(warnings(&format!("{lines}\n")), Vec::<String>::new(), "{lines}");
    }
}

#[test]
fn what_checks_and_repeats_jobs_is_looked_at_too() {
    let kind = "wb.engine \"e\" { type = \"process\", command = { \"true\" }, prompt = \
        \"stdin\" }\nwb.kind \"k\" { about = \"a\", engine = \"e\", timeout = \"5m\", prompt = \
        \"x\", produces = \"result\", inputs = {},\nverify = function(job) return \
        job.produced.txt == job.message end, retry = function(job) return job.atempt < 2 end }";
    let found = warnings(&format!("{kind}\n"));
    let expected = ["has no `txt`: expected `value`", "`message`", "mean `attempt`?"];
    assert_eq!(found.len(), expected.len(), "{found:?}");
    for (one, expected) in found.iter().zip(expected) {
        assert!(one.contains(expected), "{one}");
    }
}

/// Kinds whose functions request jobs.
const KINDS: &str = "wb.engine \"e\" { type = \"process\", command = { \"true\" }, prompt = \
    \"stdin\" }\nwb.kind \"digest\" { about = \"a\", engine = \"e\", timeout = \"5m\", prompt = \
    \"{{word}} {{more}}\", inputs = { word = wb.input.line(), \
    more = wb.input.line { default = \"x\" } } }\n";

/// Returns `code: message: note` of the only finding in the body of a function.
#[track_caller]
fn finding(before: &str, body: &str, after: &str) -> String {
    let site = Site::with_head(&format!("{KINDS}{before}{body}{after}"));
    let found = match site.load() {
        Ok(loaded) => loaded.warnings,
        Err(report) => report.errors,
    };
    assert_eq!(found.len(), 1, "{body}: {found:#?}");
    let line = found[0].line_text.as_deref().unwrap_or("");
    assert!(!line.is_empty(), "{body} has no line");
    format!("{}: {}: {}", found[0].code, found[0].message, found[0].note.as_deref().unwrap_or(""))
}

#[test]
fn what_a_function_can_never_do_is_told_before_it_is_called() {
    for (body, expected) in [
        ("print(job.status)", "undefined-global: undefined global `job`"),
        ("if later(e) then end local function later() end", "undefined-global"),
        ("count = 1", "global-assignment: assignment to global `count`: write local count"),
        ("wb.enqeue { kind = \"digest\" }", "wb has no function `enqeue`: did you mean `enqueue`?"),
        ("wb.log.warning(\"x\")", "wb.log has no function `warning`: did you mean `warn`?"),
        ("local job = e.job\nprint(job.state)", "`e.job` of an event job_finished has no `state`"),
        (
            "local data, job = e.data, e.job\n\
             if job then pcall(function() print(data.sub) end) end",
            "`e.data` of an event job_finished has no `sub`",
        ),
        ("if e.job.status == \"failure\" then end", "never \"failure\": did you mean `failed`?"),
        ("local why = e.data.reason\nif \"ratelimit\" ~= why then end", "mean `rate_limited`?"),
        (
            "wb.enqueue { kind = \"digst\", word = \"x\" }",
            "no kind: `digst`: did you mean `digest`?",
        ),
        (
            "wb.enqueue {\n kind = \"digest\",\n word = \"x\",\n wrd = \"y\" }",
            "no input `wrd`: did you mean",
        ),
        ("wb.enqueue { kind = \"digest\" }", "missing-input: kind \"digest\" needs `word`"),
        (
            "if e.job.kind == \"digest\" then\nwb.enqueue { kind = \"digest\" }\nend",
            "missing-input: kind \"digest\" needs `word`",
        ),
        (
            "for _, it in ipairs({ 1 }) do\nif it > 1 then wb.enqueue { kind = \"digst\" } end end",
            "no kind: `digst`: did you mean `digest`?",
        ),
        ("local state\nif e.id then\nstate = e.job.stat\nend", "has no `stat`"),
        ("local state = e.job.id and e.job.stat", "has no `stat`"),
        ("local enqueue = wb.enqueue\nenqueue { kind = \"no\" }", "names no kind: `no`"),
        ("wb.enqueue(\"digest\", { word = \"x\" })", "takes exactly one table: write wb.enqueue {"),
        (
            "return { kind = \"digest\", word = \"x\" }",
            "makes no job: write wb.enqueue { kind = \"digest\"",
        ),
    ] {
        let shown = finding("wb.on(\"job_finished\", function(e)\n", body, "\nend)\n");
        assert!(shown.contains(expected), "{body}: {shown}");
    }
}

#[test]
fn every_function_is_looked_at_by_what_it_is_given() {
    let kind =
        "wb.kind \"k\" { about = \"a\", engine = \"e\", timeout = \"5m\", produces = \"result\",
        inputs = { word = wb.input.line() }, prompt = \"{{word}}\",\n";
    for (before, body, after, expected) in [
        (
            kind,
            "prompt = function(job) return \"x\" .. job.persona end }\n",
            "",
            "what the prompt of kind \"k\" is given has no `persona`",
        ),
        (
            kind,
            "prompt = function(job) local text = \"x\" .. job.word end }\n",
            "",
            "no-return: the function of the prompt of kind \"k\" returns nothing",
        ),
        (
            kind,
            "lane = function(inputs) return \"word=\" .. inputs.wrd end }\n",
            "",
            "the lane of kind \"k\" is given has no `wrd`: did you mean `word`?",
        ),
        (
            kind,
            "verify = function(job) return #job.produced.text > 3 end }\n",
            "",
            "that verify is given has no `text`: write job.produced.value",
        ),
        (
            kind,
            "retry = function(job) return job.inputs.wrd == nil end }\n",
            "",
            "`job.inputs` of the job that retry is given has no `wrd`: did you mean `word`?",
        ),
        (
            "",
            "wb.schedule \"s\" { every = \"1h\",
               enqueue = function(time) print(time.planed) end }\n",
            "",
            "the time that a schedule is given has no `planed`: did you mean `planned`?",
        ),
        (
            "",
            "wb.webhook \"w\" { secret = wb.secret.env \"S\",
               enqueue = function(call) print(call.data) end }\n",
            "",
            "the call that a webhook is given has no `data`",
        ),
        (
            "",
            "wb.schedule \"s\" { every = \"1h\",
               enqueue = function() return { kind = \"digest\" } end }\n",
            "",
            "returned-request",
        ),
    ] {
        let before = match body.starts_with("prompt") {
            true => before.replace("prompt = \"{{word}}\",", ""),
            false => before.to_owned(),
        };
        let shown = finding(&before, body, after);
        assert!(shown.contains(expected), "{body}: {shown}");
    }
}

#[test]
fn what_a_function_answers_and_what_it_calls_is_looked_at_too() {
    let kind =
        "wb.kind \"k\" { about = \"a\", engine = \"e\", timeout = \"5m\", prompt = \"{{word}}\",
        produces = \"result\", inputs = { word = wb.input.line() },\n";
    let shown = |body: &str| {
        let before = match body.starts_with("prompt") {
            true => kind.replace("prompt = \"{{word}}\",", ""),
            false => kind.to_owned(),
        };
        finding(&before, &format!("{body} end }}\n"), "")
    };
    for (body, expected) in [
        (
            "verify = function(job) return false, \"too short\"",
            "wrong-return: nobody reads the reason beside false: write return \"too short\"",
        ),
        (
            "verify = function(job) local text = job.produced.value",
            "`verify` of kind \"k\" returns nothing: every result passes",
        ),
        (
            "verify = function(job) wb.enqueue { kind = \"digest\", word = \"x\" } return true",
            "wrong-phase: wb.enqueue works only inside of handlers",
        ),
        ("retry = function(job) return 5", "wrong-return: `retry` returns 5, which it cannot"),
        ("lane = function(inputs) return \"word\"", "wrong-return: `lane` returns \"word\""),
        ("lane = function(inputs) local x = inputs.word", "no-return: `lane` of kind \"k\""),
        (
            "prompt = function(job) return string.trim(job.word)",
            "unknown-function: Lua has no string.trim: write text:match(",
        ),
        (
            "prompt = function(job) return (\"x\"):startswith(job.word) and \"\" or \"y\"",
            "unknown-function: Lua has no string.startswith: write text:sub(",
        ),
        ("retry = function(job) return math.pow(2, 3) > 1", "Lua has no math.pow: write x ^ y"),
        (
            "prompt = function(job) return wb.file(\"x.txt\")",
            "wrong-phase: wb.file works only while the script loads",
        ),
    ] {
        assert!(shown(body).contains(expected), "{body}: {}", shown(body));
    }
    let agent = "wb.engine \"s\" { type = \"stream\", command = { \"x\" }, speaks = \"lines\" }
        wb.agent \"robbo\" { about = \"a\", engine = \"s\" }\n";
    for (body, expected) in [
        ("wb.kind(\"x\", {})", "wrong-phase: wb.kind works only while the script loads"),
        ("wb.enqueue { kind = \"digest\", word = 5 }", "bad-value: `word` of kind \"digest\""),
        (
            "wb.enqueue { kind = \"digest\", word = \"x\", priority = 101 }",
            "bad-value: `priority` of kind \"digest\" must be a whole number",
        ),
        (
            "wb.enqueue { kind = \"@robbo\" }",
            "takes-messages: agent \"robbo\" can't be started as a job",
        ),
    ] {
        let shown =
            finding(agent, &format!("wb.on(\"topic_created\", function() {body} end)\n"), "");
        assert!(shown.contains(expected), "{body}: {shown}");
    }
}

/// Two inboxes of which one has a schema, and an agent.
const RECEIVE: &str = "
wb.engine \"p\" { type = \"process\", command = { \"x\" }, prompt = \"stdin\" }
wb.engine \"s\" { type = \"stream\", command = { \"x\" }, speaks = \"lines\" }
wb.agent \"robbo\" { about = \"a\", engine = \"s\" }
wb.inbox \"accounts/open\" { about = \"a\", engine = \"p\", schema = \"open.json\" }
wb.inbox \"accounts/close\" { about = \"a\", engine = \"p\" }
";

fn sends(body: &str) -> String {
    let lines = format!("{RECEIVE}wb.on(\"topic_created\", function(e)\n{body}\nend)\n");
    let site = Site::with_head(&lines);
    site.write("open.json", r#"{"type": "object", "required": ["team"]}"#);
    let warnings = site.loaded().warnings;
    // That one job runs at a time is said of any script with inboxes.
    let of_calls = warnings.iter().filter(|it| it.code != "one-slot");
    of_calls.map(ToString::to_string).collect::<Vec<_>>().join("\n")
}

#[test]
fn a_message_that_would_be_refused_is_a_warning() {
    for (body, expected) in [
        (
            "wb.send { to = \"topic:accounts/opn\", payload = \"x\" }",
            "unknown-name]: wb.send names no inbox: `accounts/opn`",
        ),
        ("wb.send { to = \"operator\", payload = \"x\" }", "write \"person:operator\""),
        ("wb.send { to = \"mail:x\", payload = \"x\" }", "`mail:x` is not an address"),
        ("wb.send { payload = \"x\" }", "missing-field]: wb.send needs `to`"),
        ("wb.send { to = \"person:ada\", text = \"x\" }", "wb.send has no field `text`"),
        (
            "wb.send { to = \"topic:accounts/open\", payload = { name = \"x\" } }",
            "bad-value]: inbox \"accounts/open\" would refuse it",
        ),
        ("wb.send { to = \"topic:accounts/open\", payload = 5 }", "would refuse it"),
    ] {
        let shown = sends(body);
        assert!(shown.contains(expected), "{body}: {shown}");
    }
}

#[test]
fn a_message_that_may_be_right_is_left_alone() {
    for body in [
        "wb.send { to = \"topic:accounts/open\", payload = { team = \"a\" } }",
        "wb.send { to = \"topic:accounts/open\", payload = { name = e.subject } }",
        "local p = { name = \"x\" }\nlocal m = { to = \"topic:accounts/open\", payload = p }\n\
         p.team = \"a\"\nwb.send(m)",
        "wb.send { to = \"topic:accounts/close\", payload = {} }",
        "wb.send { to = \"robbo\", payload = \"x\" }",
        "wb.send { to = \"agent:robbo-2\", payload = \"x\" }",
        "wb.send { to = \"channel:incident\", payload = { \"a\", \"b\" } }",
        "local m = { to = \"person:ada\" }\nm.payload = e.data\nwb.send(m)",
    ] {
        let shown = sends(body);
        assert!(shown.is_empty(), "{body}: {shown}");
    }
}

#[test]
fn what_a_function_may_do_is_left_alone() {
    for body in [
        "local word = e.job.inputs.word\n\
         wb.enqueue { kind = \"digest\", word = word, priority = 3 }",
        "local job = { kind = \"digest\" }\njob.word = \"x\"\nwb.enqueue(job)",
        "for _, word in ipairs({ \"a\" }) do wb.enqueue { kind = \"digest\", word = word } end",
        "local kind = e.job.status == \"failed\" and \"digest\" or \"no\"\n\
         wb.enqueue { kind = kind, word = \"x\" }",
        "if e.job.reason == nil or e.data.reason == \"rate_limited\" then end",
        "local t = {}\nt.x = 1\nreturn t.x",
        "local function help(x) if x then return help(nil) end\n\
         return { kind = \"no\" } end\nhelp(e)",
        "wb.log.info(\"%s\", wb.date.format(e.at, \"%d\"))\nprint(wb.json.encode(e), utf8.char(1))",
    ] {
        let lines = format!("{KINDS}wb.on(\"job_finished\", function(e)\n{body}\nend)\n");
        let loaded = Site::with_head(&lines).loaded();
        assert!(loaded.warnings.is_empty(), "{body}: {:#?}", loaded.warnings);
    }
}

/// A bare word is an agent, and one may have the name of a label.
#[test]
fn the_channel_of_an_event_is_no_address() {
    let sends = |event: &str, to: &str| {
        let body = format!("wb.send {{ to = {to}, payload = \"x\" }}");
        finding("", &format!("wb.on(\"{event}\", function(e)\n{body}\nend)\n"), "")
    };
    for (event, what, note) in [
        ("approval_created", "the label of an approval", "write an address"),
        ("approval_decided", "the label of an approval", "write an address"),
        (
            "channel_message",
            "`e.data.channel` is no address, but the id of a channel",
            "write to = \"channel:\" .. e.data.number",
        ),
        ("turn_ended", "the id of a channel", "write to = \"channel:NAME\""),
    ] {
        let found = sends(event, "e.data.channel");
        assert!(found.contains("bad-value") && found.contains(what), "{event}: {found}");
        assert!(found.contains(note), "{event}: {found}");
    }
    for to in ["\"channel:\" .. e.data.number", "e.data.message_id"] {
        let body = format!("wb.send {{ to = {to}, payload = e.data.channel }}");
        let site =
            Site::with_head(&format!("wb.on(\"channel_message\", function(e) {body} end)\n"));
        assert!(site.loaded().warnings.iter().all(|it| it.code != "bad-value"), "{to}");
    }
}

//! Inputs and effects of functions of a script, without a server.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::base::{Clock, EventKind, Millis};
use crate::script::tests::{Site, check};
use crate::script::{Effect, EngineBody, EnvValue, Missed, Secret, Wanted};

#[tokio::test]
async fn an_event_goes_in_and_effects_come_out() {
    let site = Site::with_head(
        "wb.on(\"job_finished\", function(event)
           wb.enqueue { kind = \"a\", word = event.data.id, priority = 3 }
           wb.enqueue { kind = \"b\", when = wb.date.now() }
         end)
         wb.on(\"job_finished\", function(event)
           wb.enqueue { kind = \"lost\" }
           error(\"boom\")
         end)\n",
    );
    let loaded = site.loaded();
    let vm = loaded.vm.clone().with_clock(Clock::fixed(Millis(1_700_000_000_000)));
    let payload = json!({"data": {"id": "7"}});
    let told = vm.fire(EventKind::JobFinished, payload.clone()).await;
    assert_eq!(told.len(), 2);
    let effects = told[0].outcome.as_ref().unwrap();
    let Effect::Enqueue { request, at } = &effects[0] else { panic!("no job") };
    assert_eq!(Value::Object(request.clone()), json!({"kind": "a", "word": "7", "priority": 3}));
    assert_eq!((at.to_string().as_str(), effects.len()), ("wiki-browser.lua:5", 2));
    let Effect::Enqueue { request, .. } = &effects[1] else { panic!("no job") };
    assert_eq!(request["when"], "2023-11-14T22:13:20.000Z");
    let error = told[1].outcome.as_ref().unwrap_err();
    assert_eq!(error.message(), "wiki-browser.lua:10: boom");
    assert!(vm.fire(EventKind::JobQueued, payload).await.is_empty());
    let counted = vm.wear().functions();
    assert_eq!((counted[0].name.as_str(), counted[0].errors), ("on.job_finished", 1));
}

#[tokio::test]
async fn a_message_is_an_effect_with_its_line() {
    let site = Site::with_head(
        "wb.on(\"job_finished\", function(event)
           wb.send { to = \"person:ada\", payload = { id = event.data.id }, category = \"c\" }
         end)
         wb.on(\"job_finished\", function() wb.send { to = \"person:ada\" } end)
         wb.on(\"job_finished\", function() wb.send { to = \"x\", payload = 1, body = 2 } end)
         wb.on(\"job_finished\", function() wb.send(\"person:ada\", 1) end)
         wb.on(\"job_finished\", function()
           for i = 1, 21 do wb.send { to = \"x\", payload = i } end
         end)\n",
    );
    let told = site.loaded().vm.fire(EventKind::JobFinished, json!({"data": {"id": "7"}})).await;
    let effects = told[0].outcome.as_ref().unwrap();
    let Effect::Send { message, at } = &effects[0] else { panic!("no message") };
    let expected = json!({"to": "person:ada", "payload": {"id": "7"}, "category": "c"});
    assert_eq!(Value::Object(message.clone()), expected);
    assert_eq!(at.to_string(), "wiki-browser.lua:5");
    for (told, expected) in told[1..].iter().zip([
        "wb.send needs `payload`",
        "wb.send has no field `body`",
        "wb.send takes exactly one table",
        "20 jobs and messages at most",
    ]) {
        let error = told.outcome.as_ref().unwrap_err();
        assert!(error.message().contains(expected), "{}", error.message());
    }
}

#[tokio::test]
async fn a_request_that_is_returned_is_an_error() {
    let site = Site::with_head(
        "wb.on(\"job_finished\", function() return wb.json.decode('{\"kind\":\"a\"}') end)
         wb.on(\"job_finished\", function() return true end)\n",
    );
    let told = site.loaded().vm.fire(EventKind::JobFinished, Value::Null).await;
    let error = told[0].outcome.as_ref().unwrap_err();
    let expected = "wiki-browser.lua:4: the function returned a table, which nobody reads: \
                    write wb.enqueue { kind = \"a\", … }";
    assert_eq!(error.message(), expected);
    assert!(told[1].outcome.is_ok());
}

#[tokio::test]
async fn what_a_declaration_returns_stands_for_its_name() {
    let site = Site::with_head(
        "wb.engine \"e\" { type = \"process\", command = { \"cat\" }, prompt = \"stdin\" }
         local digest = wb.kind \"digest\" {
           about = \"a\", engine = \"e\", timeout = \"1m\", prompt = \"x\",
         }
         wb.schedule \"s\" { every = \"1h\", enqueue = { kind = digest } }
         wb.on(\"topic_created\", function() wb.enqueue { kind = digest } end)\n",
    );
    let loaded = site.loaded();
    let Wanted::Job(request) = &loaded.config.schedules["s"].enqueue else { panic!("no job") };
    assert_eq!(request["kind"], "digest");
    let told = loaded.vm.fire(EventKind::TopicCreated, Value::Null).await;
    let Effect::Enqueue { request, .. } = &told[0].outcome.as_ref().unwrap()[0] else {
        panic!("no job")
    };
    assert_eq!(request["kind"], "digest");
}

#[tokio::test]
async fn dates_and_json_are_plain_data() {
    let site = Site::with_head(
        "local words = wb.file \"words.txt\"
         local home = wb.env(\"NO_SUCH_VARIABLE\", \"none\")
         wb.on(\"job_queued\", function(x)
           return {
             day = wb.date.format(x.at, \"%A, %d %B %Y %H:%M\", \"Europe/Berlin\"),
             later = wb.date.add(x.at, \"36h\"), before = wb.date.add(x.at, \"-1m\"),
             seconds = wb.date.seconds(x.at),
             json = wb.json.encode { a = { 1, 2 }, b = \"x\" },
             back = wb.json.decode('{\"a\":[1,{\"b\":null}],\"c\":2.5}'),
             words = words, home = home,
           }
         end)\n",
    );
    site.write("words.txt", "some words\n");
    let loaded = site.loaded();
    // A file that was read belongs to the generation, whatever is on disk now.
    site.write("words.txt", "others");
    let slot = &loaded.config.handlers[0].slot;
    let answer = loaded.vm.ask("test", slot, json!({"at": "2026-01-02T23:04:05Z"})).await.unwrap();
    assert_eq!(answer["day"], "Saturday, 03 January 2026 00:04");
    assert_eq!(answer["later"], "2026-01-04T11:04:05.000Z");
    assert_eq!(answer["before"], "2026-01-02T23:03:05.000Z");
    assert_eq!(answer["seconds"], 1_767_395_045);
    let encoded: Value = serde_json::from_str(answer["json"].as_str().unwrap()).unwrap();
    assert_eq!(encoded, json!({"a": [1, 2], "b": "x"}));
    assert_eq!(answer["back"]["c"], 2.5);
    assert_eq!((&answer["words"], &answer["home"]), (&json!("some words\n"), &json!("none")));
    let files: Vec<&str> = loaded.config.files.iter().map(|it| it.path.as_str()).collect();
    assert_eq!(files, ["wiki-browser.lua", "words.txt"]);
}

#[tokio::test]
async fn a_list_stays_a_list() {
    let site = Site::with_head(
        "wb.on(\"job_queued\", function(x)
           local count = 0
           for _, one in ipairs(x.nulls) do count = count + 1 end
           local cut = wb.json.decode(\"[1]\")
           table.remove(cut)
           x.named.a = 1
           return {
             given = x.empty, other = {}, own = wb.json.list(), cut = cut, named = x.named,
             nulls = x.nulls, count = count, is_null = x.nulls[1] == wb.json.null(),
             shown = (\"%s\"):format(type(x.empty)), plain = x.empty ~= {},
             text = wb.json.encode { list = x.empty, null = wb.json.null() }, gone = x.gone == nil,
           }
         end)\n",
    );
    let loaded = site.loaded();
    let slot = &loaded.config.handlers[0].slot;
    let arg = json!({"empty": [], "nulls": [null, 1, null], "named": [], "gone": null});
    let answer = loaded.vm.ask("test", slot, arg).await.unwrap();
    let expected = json!({
        "given": [], "other": {}, "own": [], "cut": [], "named": {"a": 1},
        "nulls": [null, 1, null], "count": 3, "is_null": true, "shown": "table", "plain": true,
        "text": answer["text"], "gone": true,
    });
    assert_eq!(answer, expected);
    let text: Value = serde_json::from_str(answer["text"].as_str().unwrap()).unwrap();
    assert_eq!(text, json!({"list": [], "null": null}));
}

const KIND: &str = "wb.engine \"e\" { type = \"process\", command = { \"true\" }, \
    prompt = \"stdin\", env = { A = \"1\", DB_URL = wb.secret.env \"DB\" } }
local k = wb.kind \"k\" { about = \"K\", engine = \"e\", timeout = \"5m\", prompt = \"p\",
  inputs = { word = wb.input.line(), more = wb.input.line { required = false } },
  lane = function(inputs) return \"word=\" .. inputs.word end,
  verify = function() return true end, retry = function() return \"5m\" end }\n";

#[test]
fn a_schedule_and_the_functions_of_a_kind_are_declared() {
    let site = Site::with_head(&format!(
        "{KIND}wb.schedule \"s\" {{ at = \"07:30\", days = {{ \"monday\" }}, zone = \"UTC\",
           jitter = \"5m\", missed = \"skip\", enqueue = {{ kind = k, word = \"x\" }} }}
         wb.schedule \"t\" {{ every = \"1h\", enqueue = function() end }}\n"
    ));
    let config = site.loaded().config;
    let schedule = &config.schedules["s"];
    assert_eq!(schedule.describe(), "monday at 07:30 (UTC), up to 5m later");
    assert_eq!(schedule.missed, Missed::Skip);
    let Wanted::Job(request) = &schedule.enqueue else { panic!("{schedule:?}") };
    assert_eq!(request["kind"], "k");
    assert_eq!(config.schedules["t"].describe(), "every 1h");
    let kind = &config.kinds["k"];
    assert!(kind.verify.is_some() && kind.retry.is_some());
    assert!(kind.lane.as_ref().unwrap().input().is_none());
    let EngineBody::Process { env, .. } = &config.engines["e"].body else { panic!() };
    assert_eq!(env["DB_URL"], EnvValue::Secret(Secret::Env("DB".to_owned())));
    assert_eq!(serde_json::to_value(env).unwrap()["DB_URL"], "secret env:DB");
}

#[test]
fn a_jitter_that_drops_runs_is_warned_of() {
    let warned = |when: &str| {
        let enqueue = "enqueue = { kind = \"k\", word = \"x\" }";
        let site = Site::with_head(&format!("{KIND}wb.schedule \"s\" {{ {when}, {enqueue} }}\n"));
        let found = site.loaded().warnings;
        found.iter().map(ToString::to_string).filter(|it| it.contains("`jitter`")).count()
    };
    let week = "at = \"07:30\", days = { \"monday\", \"thursday\" }, jitter =";
    let once = "at = \"07:30\", days = { \"sunday\" }, jitter =";
    for (when, jitter, count) in [
        ("every = \"1h\", jitter =", "59m", 0),
        ("every = \"1h\", jitter =", "1h", 1),
        ("at = \"07:30\", jitter =", "23h", 0),
        ("at = \"07:30\", jitter =", "24h", 1),
        (week, "71h", 0),
        (week, "72h", 1),
        (once, "167h", 0),
        (once, "168h", 1),
    ] {
        assert_eq!(warned(&format!("{when} \"{jitter}\"")), count, "{when} {jitter}");
    }
}

#[test]
fn what_is_wrong_with_a_schedule_is_said_with_its_place() {
    let shown = check(
        &format!(
            "{KIND}wb.schedule \"a\" {{ enqueue = {{ kind = \"k\", word = \"x\" }} }}
wb.schedule \"b\" {{ every = \"1h\", at = \"07:30\", enqueue = {{ kind = \"k\", word = \"x\" }} }}
wb.schedule \"c\" {{ at = \"7:30\", zone = \"Mars\", enqueue = {{ kind = \"k\", word = \"x\" }} }}
wb.schedule \"d\" {{ at = \"07:30\", days = {{ \"mondey\" }}, enqueue = {{ kind = \"kk\" }} }}
wb.schedule \"e\" {{ every = \"1h\", enqueue = {{ kind = \"k\", wrod = \"x\" }} }}
wb.schedule \"f\" {{ every = \"1h\", enqueue = {{ kind = \"k\", word = {{}} }} }}
wb.schedule \"g\" {{ every = \"1h\", zone = \"UTC\", enqueue = function() end }}
"
        ),
        &[
            "9:1 missing-field",
            "10:33 broken-rule",
            "11:24 bad-time",
            "11:39 bad-zone",
            "12:42 unknown-word",
            "12:73 unknown-kind",
            "13:33 missing-input",
            "13:57 unknown-input",
            "14:64 wrong-type",
            "15:33 broken-rule",
        ],
    );
    let typed = "wb.engine \"e\" { type = \"process\", command = { \"x\" }, prompt = \"stdin\" }
wb.kind \"k\" { about = \"a\", engine = \"e\", timeout = \"5m\", prompt = \"x\",
  inputs = {
  n = wb.input.number { max = 3 }, f = wb.input.flag(),
  tone = wb.input.choice { choices = { \"short\", \"long\" } },
} }
wb.schedule \"s\" { every = \"1h\", enqueue = { kind = \"k\",
  n = 99,
  f = \"perhaps\",
  tone = \"medium\",
  priority = 5000,
  not_before = \"soon\",
  replace_proposals = 1,
} }
";
    let values = [11, 12, 13, 14, 15, 16].map(|line| format!("{line}:"));
    let found = Site::with_head(typed).errors();
    assert_eq!(found.len(), values.len(), "{found:#?}");
    for (it, line) in found.iter().zip(values) {
        assert_eq!(it.code, "bad-value", "{it}");
        assert!(it.to_string().contains(&format!("lua:{line}")), "{it}");
    }
    for words in ["did you mean `monday`?", "did you mean `k`?", "did you mean `word`?"] {
        assert!(shown.contains(words), "{words}: {shown}");
    }
}

/// The production limit, measured in the worst case: a debug build on a busy machine.
#[tokio::test]
async fn a_round_trip_is_quick() {
    let site = Site::with_head("wb.on(\"job_queued\", function(x) return x.id end)\n");
    let loaded = site.loaded();
    let slot = &loaded.config.handlers[0].slot;
    let mut times = Vec::new();
    for id in 0..500 {
        let started = Instant::now();
        assert_eq!(loaded.vm.ask("quick", slot, json!({"id": id})).await.unwrap(), id);
        times.push(started.elapsed());
    }
    times.sort();
    let (median, slow) = (times[250], times[475]);
    eprintln!("round trip: median {median:?}, 95 % {slow:?}");
    assert!(median < Duration::from_millis(2), "{median:?}");
}

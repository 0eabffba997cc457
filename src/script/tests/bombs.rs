//! A script cannot stop the program: not by loops, memory, patterns or tricks.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::base::{Error, EventKind};
use crate::script::tests::{Site, brief};
use crate::script::{Loaded, Slot};

/// A pattern that would take many seconds.
const PATTERN: &str = "string.find(string.rep(\"a\", 24), string.rep(\"a?\", 24) .. \
    string.rep(\"a\", 24) .. \"b\")";

/// Loads handlers of one event with these bodies.
fn functions(bodies: &[&str]) -> (Site, Loaded) {
    let handlers = bodies
        .iter()
        .map(|body| format!("wb.on(\"job_finished\", function(arg) {body} end)\n"))
        .collect::<String>();
    let site = Site::with_head(&handlers);
    let loaded = site.loaded();
    (site, loaded)
}

fn slot(loaded: &Loaded, index: usize) -> Slot {
    loaded.config.handlers[index].slot.clone()
}

async fn call(loaded: &Loaded, index: usize, arg: Value) -> Result<Value, Error> {
    loaded.vm.ask("test", &slot(loaded, index), arg).await
}

#[tokio::test]
async fn plain_data_goes_in_and_out() {
    let (_site, loaded) = functions(&[
        "return { got = arg.list[2], list = arg.list, none = arg.none, f = 1.5, t = true }",
        "return nil",
        "return print",
        "local t = {} for i = 1, 100 do t = { t } end return t",
        "return ('x'):rep(5) .. '\\255'",
        "return 0/0",
    ]);
    let answer = call(&loaded, 0, json!({ "list": ["a", "b"], "none": null })).await.unwrap();
    let expected = json!({ "got": "b", "list": ["a", "b"], "f": 1.5, "t": true });
    assert_eq!(answer, expected);
    assert_eq!(call(&loaded, 1, json!(1)).await.unwrap(), Value::Null);
    for index in 2..6 {
        let error = call(&loaded, index, json!(1)).await.unwrap_err();
        assert!(error.message().starts_with("wiki-browser.lua:"), "{error}");
    }
    assert_eq!(call(&loaded, 1, json!(1)).await.unwrap(), Value::Null);
}

#[tokio::test]
async fn an_error_says_what_to_type() {
    let (_site, loaded) = functions(&[
        "return arg.dta.topic_id",
        "return arg.text:fnd('x')",
        "return 'it was ' .. arg.reason",
        "return arg.none < 5",
        "wb.enqueue { knd = 'x' }",
        "return arg.job.id",
    ]);
    for (index, expected) in [
        "did you mean `data`?",
        "did you mean `find`?",
        "(reason or \"\"); in a handler it may be event.data.reason",
        "write (x or 0) for it",
        "this function answers; ask in wb.on(\"job_finished\", …)",
        "`job` is not there: write if job then … end, or (job or {}).name",
    ]
    .iter()
    .enumerate()
    {
        let error = call(&loaded, index, json!({"text": "x"})).await.unwrap_err();
        assert!(error.message().ends_with(expected), "{error}");
    }
}

#[tokio::test]
async fn an_error_names_its_line() {
    let (_site, loaded) = functions(&[
        "error(\"boom\")",
        "\nlocal x = nil + 1",
        "error({ code = 5, why = { 'a' } })",
        "local x = jbo",
        "error()",
        "wb.kind \"x\" {}",
        "require \"late\"",
        "y = 1",
        "local x <close> = {}",
        "wb.log.warn(\"%d\", \"x\")",
    ]);
    for (index, expected) in [
        "wiki-browser.lua:4: boom",
        "wiki-browser.lua:6: attempt to perform arithmetic on a nil value",
        "wiki-browser.lua:7: an error that is not text: {code = 5, why = {\"a\"}}",
        "wiki-browser.lua:8: undefined global `jbo`",
        "wiki-browser.lua:9: an error without a message",
        "wiki-browser.lua:10: wb.kind can only be called while the script loads",
        "wiki-browser.lua:11: require takes new modules only while the script loads",
        "wiki-browser.lua:12: assignment to global `y`, write local y",
        "wiki-browser.lua:13: variable 'x' got a non-closable value",
        "wiki-browser.lua:14: bad argument #2 to 'string.format'",
    ]
    .iter()
    .enumerate()
    {
        let error = call(&loaded, index, Value::Null).await.unwrap_err();
        assert!(error.message().starts_with(expected), "{}", error.message());
        assert_eq!(error.code_str(), "script_failed");
    }
}

#[tokio::test]
async fn g27_a_loop_ends_even_inside_pcall() {
    let (_site, loaded) = functions(&[
        "while true do pcall(function() while true do end end) end",
        "local function f() return pcall(f) end while true do f() end",
        "table.sort({ 3, 2, 1, 4 }, function() while true do end end)",
        "(('x'):rep(100)):gsub('.', function() while true do end end)",
        "for _ in next, { 1 }, nil, nil do while true do end end",
        "return 'fine'",
    ]);
    for index in 0..5 {
        let started = Instant::now();
        let error = call(&loaded, index, Value::Null).await.unwrap_err();
        let took = started.elapsed();
        assert!(took < Duration::from_secs(1), "{index}: {took:?}");
        assert!(error.message().contains("100 ms"), "{}", error.message());
        assert!(error.message().starts_with("wiki-browser.lua:"), "{}", error.message());
        assert_eq!(call(&loaded, 5, Value::Null).await.unwrap(), "fine");
    }
    assert!(!loaded.vm.stuck());
}

#[tokio::test]
async fn g27_a_loop_of_long_functions_ends_without_its_thread() {
    let (_site, loaded) = functions(&[
        "local s = ('x'):rep(4e6) while true do local y = s:lower() end",
        "local s = ('\\0'):rep(3e5) while true do local y = ('%q'):format(s) end",
        "local s = '[' .. ('1,'):rep(2e4) .. '1]' while true do wb.json.decode(s) end",
        "local t = {} for i = 1, 1e4 do t[i] = i % 7 end while true do table.sort(t) end",
        "local t = {} for i = 1, 4e5 do t[i] = i end while true do table.move(t, 1, 4e5, 2) end",
        "local t = {} for i = 1, 2e5 do t[i] = (i * 7919) % 100003 end \
         while true do table.sort(t) end",
        "return 'fine'",
    ]);
    for index in 0..6 {
        let error = call(&loaded, index, Value::Null).await.unwrap_err();
        let expected = format!("wiki-browser.lua:{}: used more than 100 ms", index + 4);
        assert!(error.message().starts_with(&expected), "{}", error.message());
        assert_eq!(call(&loaded, 6, Value::Null).await.unwrap(), "fine");
    }
    assert_eq!(loaded.vm.wear().abandoned(), 0);
}

#[tokio::test]
async fn deep_recursion_is_an_error_and_no_crash() {
    let (_site, loaded) = functions(&[
        "local function f() return (('x'):gsub('x', f)) end return f()",
        "local function f() table.sort({ 1, 2, 3 }, f) return false end return f()",
        "local function f() return pcall(pcall, f) end return f()",
        "local p = ('('):rep(1000) return ('x'):find(p)",
        "return ('x'):rep(300000):find(('(.-)'):rep(30) .. 'y')",
        "local t = {} t.t = t return t",
        "return 'fine'",
    ]);
    for index in 0..6 {
        let answer = call(&loaded, index, Value::Null).await;
        assert!(index == 2 || answer.is_err(), "{index}: {answer:?}");
    }
    assert_eq!(call(&loaded, 6, Value::Null).await.unwrap(), "fine");
}

#[tokio::test]
async fn g27_a_memory_bomb_costs_its_call_only() {
    let (_site, loaded) = functions(&[
        "return ('x'):rep(1e9)",
        "local t = {} for i = 1, 1e9 do t[i] = { i } end",
        "local function f(x) return 1 + f({ x }) end return f(1)",
        "local s = 'x' while true do s = s .. s end",
        "return ('x'):rep(5e6)",
    ]);
    for index in 0..4 {
        let error = call(&loaded, index, Value::Null).await.unwrap_err();
        assert_eq!(error.code_str(), "script_failed");
        let answer = call(&loaded, 4, Value::Null).await.unwrap();
        assert_eq!(answer.as_str().unwrap().len(), 5_000_000);
    }
    let error = call(&loaded, 0, Value::Null).await.unwrap_err();
    assert!(error.message().contains("16 MiB"), "{}", error.message());
    let large = json!("x".repeat(32 << 20));
    assert!(call(&loaded, 4, large).await.is_err());
    assert!(call(&loaded, 4, Value::Null).await.is_ok());
}

#[tokio::test]
async fn g27_no_function_of_lua_counts_without_an_end() {
    let (_site, loaded) = functions(&[
        "return (''):rep(1e18) .. string.rep('', math.maxinteger, '')",
        "table.move({}, 1, 1e18, 1)",
        "table.move({}, '1', '1e18', 1, {})",
        "table.move({}, math.mininteger, -2, 1)",
        "table.move({}, -9, math.maxinteger, 1)",
        "table.move({}, 1, 5, math.maxinteger)",
        "return table.concat({}, '', 1, math.maxinteger)",
        "return table.unpack({}, 1, 1e7)",
        "return select('#', table.unpack({}, 1, 2e5))",
        "return utf8.len(('x'):rep(100), 1, math.maxinteger)",
        "return utf8.offset('x', math.maxinteger)",
        "return string.pack('c2000000000', 'x')",
        "return ('%999d'):format(1)",
        "return ('x'):rep(3, ', ') .. ('y'):rep(0) .. ('z'):rep(2)",
        "return table.move({ 1, 2, 3 }, 2, 3, 1)",
    ]);
    let started = Instant::now();
    for (index, expected) in [
        Ok(json!("")),
        Err("wiki-browser.lua:5: table.move moves 1000000 values at most"),
        Err("wiki-browser.lua:6: table.move moves 1000000 values at most"),
        Err("wiki-browser.lua:7: table.move moves 1000000 values at most"),
        Err("too many elements to move"),
        Err("destination wrap around"),
        Err("invalid value (nil) at index 1"),
        Err("too many results to unpack"),
        Ok(json!(200_000)),
        Err("out of bounds"),
        Ok(Value::Null),
        Err("16 MiB"),
        Err("invalid conversion"),
        Ok(json!("x, x, xzz")),
        Ok(json!([2, 3, 3])),
    ]
    .into_iter()
    .enumerate()
    {
        match (call(&loaded, index, Value::Null).await, expected) {
            (Ok(got), Ok(expected)) => assert_eq!(got, expected, "{index}"),
            (Err(got), Err(expected)) => assert!(got.message().contains(expected), "{got}"),
            (got, expected) => panic!("{index}: {got:?} and not {expected:?}"),
        }
    }
    assert!(started.elapsed() < Duration::from_secs(3));
    assert_eq!(loaded.vm.wear().abandoned(), 0);
}

#[tokio::test]
async fn g27_a_giant_or_strange_result_is_refused_or_right() {
    let (_site, loaded) = functions(&[
        "local t = {} for i = 1, 30 do t = { t, t } end return t",
        "local t = { 1 } for i = 1, 25 do t = { t } end return t",
        "local s, t = ('x'):rep(1e6), {} for i = 1, 20 do t[i] = s end return t",
        "local s, t = ('x'):rep(2e6), { { { {} } } } t[1][1][1][1] = s return t",
        "local t = {} for i = 1, 2e5 do t[i] = true end return t",
        "return { [1] = 1, [3] = 3 }",
        "return { 1, x = 2 }",
        "return { [1.5] = 1 }",
        "return { [true] = 1 }",
        "return { ['\\255'] = 1 }",
        "return 1/0",
        "return -(0/0)",
        "return math.mininteger",
        "return 'a\\0b'",
        "return utf8.char(0x7FFFFFFF)",
        "return type(select(2, pcall(wb.kind)))",
        "return select(2, pcall(error, wb.secret.env 'X'))",
        "error(select(2, pcall(wb.kind)))",
        "error({ { { { {} } } }, ('x'):rep(1e6) })",
        "return wb",
        "return { f = string.rep }",
    ]);
    let deep = (0..25).fold(json!([1]), |inner, _| json!([inner]));
    let text = json!([[[["x".repeat(2_000_000)]]]]);
    for (index, expected) in [
        Err("too many values"),
        Ok(deep),
        Err("too much text"),
        Ok(text),
        Err("too many values"),
        Err("both a list and fields"),
        Err("both a list and fields"),
        Err("keys are no names"),
        Err("keys are no names"),
        Err("not UTF-8"),
        Err("not finite"),
        Err("not finite"),
        Ok(json!(i64::MIN)),
        Ok(json!("a\0b")),
        Err("not UTF-8"),
        Ok(json!("string")),
        Err("a userdata"),
        Err(""),
        Err("an error that is not text"),
        // Its functions stand behind it.
        Ok(json!({})),
        Err("a function"),
    ]
    .into_iter()
    .enumerate()
    {
        match (call(&loaded, index, Value::Null).await, expected) {
            (Ok(got), Ok(expected)) => assert!(got == expected, "{index}"),
            (Err(got), Err(expected)) => {
                assert!(got.message().contains(expected), "{index}: {got}");
                assert!(got.message().starts_with("wiki-browser.lua:"), "{index}: {got}");
                assert!(got.message().len() < 10_000, "{index}");
            }
            (got, expected) => panic!("{index}: {got:?} and not {expected:?}"),
        }
    }
    assert_eq!(loaded.vm.wear().abandoned(), 0);
}

#[tokio::test]
async fn g27_a_pattern_costs_its_call_only() {
    let (_site, loaded) = functions(&[
        PATTERN,
        "return (('a'):rep(7e5)):find(('a'):rep(3.5e5) .. 'b', 1, true)",
        "for it in (('a'):rep(8e4)):gmatch(('a'):rep(4e4) .. 'b') do return it end",
        "return pcall(string.find, ('a'):rep(200), ('a*'):rep(60) .. 'b')",
        "return arg",
    ]);
    for index in 0..3 {
        let error = call(&loaded, index, Value::Null).await.unwrap_err();
        let line = format!("wiki-browser.lua:{}: ", 4 + index);
        let why = error.message().strip_prefix(&line).unwrap_or_default();
        // A slow machine needs all of the call's time for the pattern's steps.
        let either = ["the text pattern takes too long", "used more than 100 ms"];
        assert!(either.iter().any(|it| why.starts_with(it)), "{error}");
        assert_eq!(call(&loaded, 4, json!("unharmed")).await.unwrap(), "unharmed");
    }
    assert!(call(&loaded, 3, Value::Null).await.is_ok());
    assert_eq!(loaded.vm.wear().abandoned(), 0);
}

#[tokio::test]
async fn a_caller_that_leaves_harms_nobody() {
    let (_site, loaded) = functions(&["while true do end", "return 1"]);
    for _ in 0..3 {
        let left = call(&loaded, 0, Value::Null);
        tokio::select! {
            biased;
            _ = left => panic!("it cannot be ready"),
            () = std::future::ready(()) => {}
        }
    }
    assert_eq!(call(&loaded, 1, Value::Null).await.unwrap(), 1);
}

#[tokio::test]
async fn a_failing_handler_does_not_keep_the_others_from_being_told() {
    let (_site, loaded) = functions(&[
        "error('first')",
        "while true do end",
        "for i = 1, 1e4 do wb.log.info('%s\\n%s', arg.id, {}) print(i, {}) end",
    ]);
    loaded.vm.fire(EventKind::JobFinished, json!({ "id": "7" })).await;
    loaded.vm.fire(EventKind::JobQueued, json!({})).await;
    assert!(!loaded.vm.stuck());
}

#[test]
fn a_handle_can_be_used_from_everywhere() {
    fn is_shared<T: Clone + Send + Sync + 'static>(_: &T) {}
    let (_site, loaded) = functions(&["return 1"]);
    is_shared(&loaded);
    fn is_sent<T: Send>(_: &T) {}
    is_sent(&loaded.vm.ask("test", &slot(&loaded, 0), Value::Null));
}

#[test]
fn loading_is_bounded_too() {
    for (text, code) in [
        ("while true do pcall(function() while true do end end) end", "4:1 limit"),
        ("local s = 'x' while true do s = s .. s end", "4:1 runtime"),
        ("while true do wb.site { a = { 1 } } end", "4:1 limit"),
        (&PATTERN.replace("24", "26"), "4:1 runtime"),
    ] {
        let started = Instant::now();
        let errors = Site::with_head(&format!("{text}\n")).errors();
        assert!(brief(&errors).iter().any(|it| it == code), "{text}: {:?}", brief(&errors));
        assert!(errors.len() <= 101, "{text}");
        assert!(started.elapsed() < Duration::from_secs(6), "{text}");
    }
}

/// For tables built elsewhere, places are searched for in the line of the call.
#[test]
fn what_takes_too_long_to_place_is_given_up_and_costs_no_thread() {
    let long = "t[1] = 1 ".repeat(12_000);
    let site = Site::with_head(&format!(
        "local t = {{}} for n = 1, 1900 do t[\"f\" .. n] = n end \
         for n = 1, 900 do wb.kind(\"k\" .. n)(t) end {long}\n"
    ));
    let started = Instant::now();
    let errors = site.errors();
    assert_eq!(brief(&errors), ["engine"]);
    assert!(errors[0].message.contains("too long to find"), "{}", errors[0]);
    assert!(started.elapsed() < Duration::from_secs(20));
}

#[test]
fn a_text_that_is_named_in_many_fields_does_not_fill_the_memory() {
    let head = "local long = string.rep(\"x\", 1024 * 1024)\nlocal env = {}\n";
    let engine = |count: u32| {
        format!(
            "{head}for n = 1, {count} do env[\"V\" .. n] = long end\n\
             wb.engine \"e\" {{ type = \"process\", command = {{ \"cat\" }}, prompt = \"stdin\",\n\
             env = env }}\n"
        )
    };
    Site::with_head(&engine(12)).loaded();
    let errors = Site::with_head(&engine(1_000)).errors();
    assert!(!errors.is_empty());
    for error in errors.iter().filter(|it| it.code != "more") {
        let why = "a text beyond the 16 MiB that a script may declare";
        assert!(error.message.contains(why), "{error}");
    }
}

#[test]
fn a_script_has_no_way_out() {
    for name in [
        "os",
        "io",
        "debug",
        "load",
        "loadstring",
        "loadfile",
        "dofile",
        "package",
        "coroutine",
        "collectgarbage",
        "xpcall",
        "rawset",
        "_G",
        "warn",
        "setmetatable",
        "getmetatable",
        "string.dump",
    ] {
        let text = format!("if {name} ~= nil then wb.site {{}} end\n");
        let errors = Site::with_head(&text).load();
        match errors {
            Err(report) => assert_eq!(brief(&report.errors), ["4:4 undefined-global"], "{name}"),
            Ok(_) => assert_eq!(name, "string.dump"),
        }
    }
    // Removed functions cannot be reached through the remaining ones.
    for text in [
        "assert(string.dump == nil and (\"\").dump == nil)",
        "assert(next(wb) == nil and next(wb.input) == nil)",
        "assert(rawget(_ENV, \"require\") == nil)",
    ] {
        Site::with_head(&format!("{text}\n")).loaded();
    }
}

//! Hostile scripts: none of them reads a file, starts a process, reaches the network, sees a
//! secret, or exceeds its deadline.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::base::EventKind;
use crate::script::tests::Site;

/// Evaluated while the script loads: each must end with an error that contains the words.
const AT_LOAD: &[(&str, &str)] = &[
    // Files.
    ("wb.file \"/etc/passwd\"", "is not a file below the script"),
    ("wb.file \"../secret\"", "is not a file below the script"),
    ("wb.file \"in/../../secret\"", "is not a file below the script"),
    ("wb.file \"in//x\"", "is not a file below the script"),
    ("wb.file \"./x\"", "is not a file below the script"),
    ("wb.file \"\"", "is not a file below the script"),
    ("wb.file \".env\"", "is not a file below the script"),
    ("wb.file \".git/config\"", "is not a file below the script"),
    ("wb.file \"in/.ssh/id\"", "is not a file below the script"),
    ("wb.file \"link\"", "is a link"),
    ("wb.file \"linked/x\"", "is reached through a link"),
    ("wb.file \"in\"", "is not a file"),
    ("wb.file \"large\"", "is larger than 256 KiB"),
    ("wb.file \"binary\"", "is not UTF-8"),
    ("wb.file \"data/operator.token\"", "is in the data of a site"),
    ("wb.file \"data/jobs/1/prompt\"", "is in the data of a site"),
    ("wb.file {}", "takes the path"),
    ("wb.file \"socket\"", "is not a file"),
    ("wb.file \"in/y\"", "there is no in/y"),
    ("wb.file \"data/operator.tokn\"", "is in the data of a site"),
    ("wb.file \"in/x\\0y\"", "cannot read"),
    ("require \"../x\"", "is not a module"),
    // Processes, the network, loading of code.
    ("os.execute(\"id\")", "undefined global `os`"),
    ("io.popen(\"id\")", "undefined global `io`"),
    ("package.loadlib(\"libc.so.6\", \"system\")", "undefined global `package`"),
    ("require \"socket\"", "cannot require"),
    ("load(\"return 1\")", "undefined global `load`"),
    ("debug.getregistry()", "undefined global `debug`"),
    ("string.dump(print)", "attempt to call a nil value"),
    ("coroutine.wrap(print)", "undefined global `coroutine`"),
    ("setmetatable({}, { __gc = print })", "undefined global `setmetatable`"),
    ("(\"\").dump(print)", "attempt to call a nil value"),
    ("require(\"wb\").require \"os\"", "has no function `require`"),
    ("_ENV.os.exit()", "undefined global `os`"),
    // Floods: each item counts, and none is kept.
    ("for i = 1, 1e6 do wb.on(\"job_queued\", function() end) end", "at most 1000 functions"),
    ("for i = 1, 1e6 do wb.kind(\"k\" .. i) {} end", "at most 1000 declarations"),
    ("for i = 1, 1e6 do local x = _ENV[\"x\" .. i] end", "only 100 findings"),
    ("error((\"x\"):rep(5e5))", "xxx"),
    // Secrets.
    ("wb.env \"WB_TOKEN\"", "may hold a secret"),
    ("wb.env \"ANTHROPIC_API_KEY\"", "may hold a secret"),
    ("wb.env \"db_password\"", "may hold a secret"),
    ("wb.env \"SSH_KEY\"", "may hold a secret"),
    ("wb.env \"DB_PASS\"", "may hold a secret"),
    ("wb.env \"MYSQL_PWD\"", "may hold a secret"),
    ("wb.env \"GITHUB_PAT\"", "may hold a secret"),
    ("wb.env \"database_url\"", "may hold a secret"),
    ("error(\"x\" .. wb.secret.env \"PATH\")", "hand it over whole, as in env = {"),
    ("error(wb.secret.env \"PATH\" .. \"x\")", "a secret cannot be read, joined or printed"),
    ("error(tostring(wb.secret.env \"PATH\"))", "hand it over whole"),
    ("error((\"%s\"):format(wb.secret.env \"PATH\"))", "hand it over whole"),
    ("error((\"%10q\"):format(wb.secret.env \"PATH\"))", "cannot have modifiers"),
    ("error(#wb.secret.env \"PATH\")", "hand it over whole"),
    ("wb.log.info(\"%s\", wb.secret.file \"/etc/passwd\")", "hand it over whole"),
    ("wb.json.encode { [wb.secret.env \"PATH\"] = 1 }", "wb.json.encode"),
    ("wb.env(wb.secret.env \"PATH\")", "takes the name of a variable"),
    ("wb.file(wb.secret.file \"in/x\")", "takes the path"),
    ("require(wb.secret.env \"PATH\")", "takes the name of a module"),
    ("next(wb.secret.env \"PATH\")", "table expected"),
    ("rawget(wb.secret.env \"PATH\", 1)", "table expected"),
    ("local x = (wb.secret.env \"PATH\").__index.x()", "attempt to index"),
    // Tricks.
    (
        "local t = {} for i = 1, 200 do t[i] = i end table.sort(t, function() return true end)",
        "inv",
    ),
    ("pcall = nil pcall(error)", "assignment to global `pcall`"),
    ("rawequal(_ENV, nil) rawset(_ENV, \"x\", 1)", "undefined global `rawset`"),
    ("getmetatable(\"\").__index = {}", "undefined global `getmetatable`"),
    ("collectgarbage(\"stop\")", "undefined global `collectgarbage`"),
    ("loadstring(\"return 1\")", "undefined global `loadstring`"),
    ("dofile(\"in/x\")", "undefined global `dofile`"),
    ("error(select(-5, 1))", "out of range"),
    ("error(('%99999999d'):format(1))", "invalid conversion"),
    ("error(utf8.char(-1))", "out of range"),
    ("error(utf8.codepoint('\\255'))", "invalid UTF-8"),
    ("for _ in utf8.codes('\\xff') do end", "invalid UTF-8"),
    ("require \"pipe\"", "is not a file"),
    ("require \"folder\"", "is not a file"),
    ("require \"leads-out\"", "is a link"),
    ("require \"linked.y\"", "is reached through a link"),
    ("require \"huge\"", "is larger than 1024 KiB"),
    ("require \"/etc/passwd\"", "is not a module"),
    ("require \"in.\"", "is not a module"),
    ("require \"wb.test\"", "is for files of tests"),
    ("error(wb.json.encode { x = 0/0 })", "wb.json.encode"),
    ("error(wb.json.encode { [1.5] = 1 })", "wb.json.encode"),
    ("error(wb.json.encode { \"\\xff\" })", "wb.json.encode"),
    ("error(wb.json.decode(\"1e999\"))", "wb.json.decode"),
    ("error(wb.json.encode { s = wb.secret.env \"PATH\" })", "a userdata"),
    ("error((wb.secret.env \"PATH\").name)", "attempt to index"),
    ("wb.secret.env \"WB_TOKEN\"", "that is not the server's"),
    // Available only while a function is called.
    ("wb.date.now()", "inside of functions only"),
    ("wb.enqueue { kind = \"x\" }", "inside of functions only"),
];

/// Evaluated in a handler: each ends with an error, and soon.
const AT_CALL: &[(&str, &str)] = &[
    ("wb.file \"in/x\"", "only while the script loads"),
    ("wb.env \"HOME\"", "only while the script loads"),
    ("wb.kind \"x\" {}", "only be called while the script loads"),
    ("wb.schedule \"x\" {}", "only be called while the script loads"),
    ("wb.on(\"job_queued\", print)", "only be called while the script loads"),
    ("while true do wb.enqueue { kind = \"x\" } end", "20 jobs and messages at most"),
    ("while true do pcall(wb.enqueue, { kind = \"x\" }) end", "100 ms"),
    ("error(function() end)", "a function"),
    ("local t = {} t[t] = t error(t)", "an error that is not text"),
    ("table.sort({ 3, 2, 1 }, function() error(nil) end)", "an error without a message"),
    ("error({ [wb.secret.env \"PATH\"] = wb.secret.env \"PATH\" })", "a userdata"),
    ("wb.enqueue \"x\"", "takes exactly one table"),
    ("wb.enqueue { \"x\" }", "not a list"),
    ("wb.enqueue { word = \"x\" }", "needs `kind`"),
    ("wb.enqueue { kind = \"x\", word = wb.secret.env \"PATH\" }", "a userdata"),
    ("wb.enqueue { kind = \"x\", word = print }", "a function"),
    ("local t = {} t.t = t wb.enqueue { kind = \"x\", t = t }", "nested deeper"),
    ("local t = {} t.t = t return wb.json.encode(t)", "nested deeper"),
    ("return wb.json.encode(('x'):rep(15e6))", "memory"),
    ("return wb.json.decode(('['):rep(1e6))", "wb.json.decode"),
    ("return wb.json.decode(('[1,'):rep(2e6))", "wb.json.decode takes at most 256 KiB"),
    ("return wb.date.format(\"2026-01-02T03:04:05Z\", \"%999999999d\")", "without widths"),
    ("return wb.date.format(\"2026-01-02T03:04:05Z\", (\"%c\"):rep(1000))", "a short pattern"),
    ("return wb.date.add(\"2026-01-02T03:04:05Z\", \"9999999999999d\")", "366d"),
    ("return wb.date.add(\"9999-12-30T00:00:00Z\", \"300d\")", "the years that there are"),
    ("return wb.date.format(\"now\", \"%Y\")", "is not a time like"),
    (
        "return wb.date.format(\"2026-01-02T03:04:05Z\", \"%Y\", \"../../etc/passwd\")",
        "unknown time zone",
    ),
    (
        "wb.log.info((\"%s\"):rep(9), table.unpack({}, 1, 9)) while true do wb.log.info(\"x\") end",
        "100 ms",
    ),
    ("while true do wb.date.now() end", "100 ms"),
    ("goto again ::again:: goto again", "100 ms"),
    ("wb.date.now = 1", "cannot be set"),
    ("wb.secret.peek()", "has no function `peek`"),
    ("string.format = function() return \"POISON\" end", "string.format cannot be set"),
    ("string.rep = nil", "string.rep cannot be set"),
    ("table.insert(table, 1)", "table.1 cannot be set"),
    ("table.move({ 1 }, 1, 1, 1, math)", "math.1 cannot be set"),
    ("math.floor = math.ceil", "math.floor cannot be set"),
    ("utf8.char = nil", "utf8.char cannot be set"),
    ("rawset(string, \"rep\", 1)", "undefined global `rawset`"),
    ("getmetatable(\"\").__index = {}", "undefined global `getmetatable`"),
    ("_ENV.string = {}", "assignment to global `string`"),
];

fn site() -> Site {
    let site = Site::new("");
    site.write("in/x", "x");
    site.write(".env", "K=hunter2");
    site.write("large", &"x".repeat(256 * 1024 + 1));
    std::fs::write(site.path().join("binary"), [0xff, 0xfe]).unwrap();
    for name in ["data/operator.token", "data/wiki.db", "data/jobs/1/prompt"] {
        site.write(name, "hunter2");
    }
    std::os::unix::fs::symlink("/etc/passwd", site.path().join("link")).unwrap();
    std::os::unix::fs::symlink("in", site.path().join("linked")).unwrap();
    // Like a pipe or a device, it is not a regular file, and reading it would block.
    for name in ["socket", "pipe.lua"] {
        std::os::unix::net::UnixListener::bind(site.path().join(name)).unwrap();
    }
    std::fs::create_dir(site.path().join("folder.lua")).unwrap();
    std::os::unix::fs::symlink("/etc/passwd", site.path().join("leads-out.lua")).unwrap();
    site.write("in/y.lua", "return 1");
    site.write("huge.lua", &"-".repeat(16 << 20));
    site
}

#[test]
fn g27_a_script_reaches_nothing_while_it_loads() {
    let site = site();
    for (attack, words) in AT_LOAD {
        // A reported value goes on as a value that stands for nothing.
        site.write("wiki-browser.lua", &format!("{}{attack}\n", crate::script::tests::HEAD));
        let started = Instant::now();
        let report = site.load().expect_err(attack);
        let shown = report.to_string();
        assert!(shown.contains(words), "{attack}: {shown}");
        assert!(shown.contains("wiki-browser.lua:4:"), "{attack}: {shown}");
        assert!(!shown.contains("hunter2") && !shown.contains("root:"), "{attack}: {shown}");
        assert!(!shown.contains("`in/x`") && shown.len() < 100_000, "{attack}: {shown}");
        assert!(started.elapsed() < Duration::from_secs(15), "{attack}");
    }
}

#[tokio::test]
async fn g27_a_function_reaches_nothing_and_ends_in_time() {
    let site = site();
    let handlers = AT_CALL
        .iter()
        .map(|(attack, _)| format!("wb.on(\"job_queued\", function(event) {attack} end)\n"))
        .collect::<String>();
    site.write("wiki-browser.lua", &format!("{}{handlers}", crate::script::tests::HEAD));
    let loaded = site.loaded();
    for (handler, (attack, words)) in loaded.config.handlers.iter().zip(AT_CALL) {
        let started = Instant::now();
        let answer = loaded.vm.tell("attack", &handler.slot, json!({})).await;
        assert!(started.elapsed() < Duration::from_secs(2), "{attack}");
        match answer {
            Err(error) => assert!(error.message().contains(words), "{attack}: {error}"),
            Ok(_) => panic!("{attack}: it was let through"),
        }
    }
    assert!(!loaded.vm.stuck());
    assert_eq!(loaded.vm.wear().abandoned(), 0);
}

/// Changes of one call to the libraries of Lua are not visible to the next. Fails with
/// `WB_WITHOUT=closed_libraries`.
#[tokio::test]
async fn no_call_changes_the_libraries_of_later_ones() {
    let spoils = [
        "string.format = function() return \"POISON\" end",
        "string.rep = nil",
        "function string.upper() end",
        "table.concat, math.max = nil, nil",
        "utf8.char = print",
        "for name in next, string do string[name] = nil end",
        "for name in pairs(math) do math[name] = nil end",
        "local t = table t.insert(t, t) t.sort = nil",
        "(\"x\").rep = nil",
        "local all = { string, table, math, utf8 } for _, it in ipairs(all) do it.x = 1 end",
    ];
    let handlers = spoils
        .iter()
        .map(|it| {
            let body = format!("pcall(function() {it} end) return string.rep(\"ok\", 1)");
            format!("wb.on(\"job_queued\", function() {body} end)\n")
        })
        .collect::<String>();
    let site = Site::with_head(&format!(
        "{handlers}wb.on(\"job_queued\", function()
           return string.format(\"%s %d\", (\"x\"):rep(2), math.max(1, math.floor(3.5)))
             .. table.concat({{ \"a\", (\"b\"):upper() }}) .. utf8.char(228)
             .. tostring(string.x) .. #(\"%d\"):format(10) end)\n"
    ));
    let loaded = site.loaded();
    let (last, spoiling) = loaded.config.handlers.split_last().unwrap();
    for (handler, spoil) in spoiling.iter().zip(spoils) {
        let answer = loaded.vm.ask("spoil", &handler.slot, Value::Null).await;
        assert_eq!(answer.unwrap(), json!("ok"), "{spoil}");
        let answer = loaded.vm.ask("last", &last.slot, Value::Null).await;
        assert_eq!(answer.unwrap(), json!("xx 3aBänil2"), "{spoil}");
    }
}

/// A function that only returns a value cannot act, whatever it tries.
#[tokio::test]
async fn only_handlers_and_schedules_ask_for_jobs() {
    let site = Site::with_head(
        "wb.on(\"job_queued\", function() wb.enqueue { kind = \"x\" } return 1 end)\n",
    );
    let loaded = site.loaded();
    let slot = &loaded.config.handlers[0].slot;
    let error = loaded.vm.ask("prompt", slot, Value::Null).await.unwrap_err();
    assert!(error.message().contains("in handlers, schedules and webhooks only"), "{error}");
    let told = loaded.vm.fire(EventKind::JobQueued, Value::Null).await;
    assert_eq!(told[0].outcome.as_ref().unwrap().len(), 1);
}

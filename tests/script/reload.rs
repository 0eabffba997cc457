//! G26: another script replaces the active one while jobs run and wait.

use serde_json::{Value, json};

use crate::pages::Browser;
use crate::script::events;
use crate::support::{Bench, Call, Server, until, wait_for};

const WAITS: &str = "echo ready > \"$OUT/ready.$word\"
while [ ! -e \"$OUT/go.$word\" ]; do sleep 0.05; done
\"$wb_agent\" finish --result - <<E
{\"x\": 1}
E";

/// How many threads a server has for its scripts.
fn threads(server: &Server) -> usize {
    let tasks = std::fs::read_dir(format!("/proc/{}/task", server.pid())).unwrap();
    let name = |it: std::fs::DirEntry| std::fs::read_to_string(it.path().join("comm"));
    tasks.flatten().filter_map(|it| name(it).ok()).filter(|it| it.starts_with("wb-script")).count()
}

/// A kind whose check refuses with a word.
fn kind(bench: &Bench, says: &str) {
    let fields = format!(
        "timeout = \"40s\", produces = \"result\", verify = function() return \"{says}\" end"
    );
    bench.word_kind("waits", &fields, WAITS);
}

#[track_caller]
fn reload(bench: &Bench, dry_run: bool) -> Value {
    bench.post("/api/config/reload", json!({"dry_run": dry_run})).ok()
}

fn let_go(bench: &Bench, word: &str) {
    std::fs::write(bench.out.join(format!("go.{word}")), "").unwrap();
}

#[test]
fn g26_a_running_job_keeps_its_script_and_the_old_one_is_gone_after_it() {
    let bench = Bench::new();
    kind(&bench, "the first script");
    let server = bench.serve();
    assert_eq!(threads(&server), 1);
    let running = bench.job("waits", json!({"word": "old"}));
    bench.wait_left("ready.old");
    bench.edit(|lua| lua.replace("the first script", "the second script"));
    bench.write_script();
    let done = reload(&bench, false);
    assert_eq!((&done["ok"], &done["generation"]), (&json!(true), &json!(2)), "{done:#}");
    assert_eq!(threads(&server), 2);
    let next = bench.job("waits", json!({"word": "new"}));
    bench.wait_left("ready.new");
    // Thrice more: a generation that no job holds is gone at once.
    for _ in 0..3 {
        assert_eq!(reload(&bench, false)["ok"], true);
    }
    until("two generations are left beside the newest", || threads(&server) == 3);
    let_go(&bench, "old");
    let old = bench.ended(&running);
    assert!(old["error_tail"].as_str().unwrap().ends_with("the first script"), "{old:#}");
    until("the first is gone", || threads(&server) == 2);
    let_go(&bench, "new");
    let new = bench.ended(&next);
    assert!(new["error_tail"].as_str().unwrap().ends_with("the second script"), "{new:#}");
    until("one generation is left", || threads(&server) == 1);
    let config = bench.get("/api/config").ok();
    assert_eq!(config["script"]["generation"], 5, "{config:#}");
    assert_eq!(config["digest"], done["digest"]);
    server.stop();
    let told = events(&bench, "config_reloaded");
    assert_eq!(told.len(), 4, "{told:?}");
    assert_eq!(told[0]["generation"], 2);
}

/// Its base, its clocks and what it may hand in are those of the script that it began with.
#[test]
fn g26_what_a_running_job_hands_in_is_judged_by_its_own_script() {
    let bench = Bench::new();
    let agent = "echo ready > \"$OUT/ready.better\"
while [ ! -e \"$OUT/go.better\" ]; do sleep 0.05; done
sed -e 's/The first line/The best line/' \"$root/$path\" | propose";
    bench.topic_kind("better", "timeout = \"40s\", produces = \"proposal\"", agent);
    let server = bench.serve();
    let topic = bench.topic("guide.md", "The first line.", "Say it better.");
    let job = bench.job_on("better", &topic);
    bench.wait_left("ready.better");
    bench.edit(|lua| lua.replace("wb.kind \"better\"", "wb.kind \"other\""));
    bench.write_script();
    assert_eq!(reload(&bench, false)["ok"], true);
    assert_eq!(bench.show(&job)["timeout_ms"], 40_000);
    let_go(&bench, "better");
    let ended = bench.ended(&job);
    assert_eq!(ended["status"], "succeeded", "{ended:#}");
    let proposal = bench.get(&format!("/api/proposals/{}", ended["proposal_id"].as_str().unwrap()));
    assert_eq!(bench.send(&bench.approval(&proposal.ok())).status, 200);
    server.stop();
}

#[test]
fn g26_a_broken_script_never_replaces_a_working_one() {
    let bench = Bench::new();
    kind(&bench, "no");
    let server = bench.serve();
    let before = bench.get("/api/config").ok();
    let good = bench.read("wiki-browser.lua");
    for (bad, code) in [
        ("wb.kind \"x\" {", "syntax"),
        ("wb.kind \"x\" { about = \"X\", engine = \"none\", timout = \"5m\" }", "unknown-field"),
        ("error(\"boom\")", "runtime"),
        ("while true do end", "limit"),
        (
            "local e = { type = \"process\", command = { \"/no/such\" }, prompt = \"stdin\" }\n\
             wb.engine \"e\" (e)\n\
             wb.kind \"x\" { about = \"X\", engine = \"e\", timeout = \"5m\", prompt = \"p\" }",
            "engine-missing",
        ),
    ] {
        bench.write("wiki-browser.lua", format!("{good}\n{bad}\n"));
        let refused = reload(&bench, false);
        assert_eq!(refused["ok"], false, "{bad}");
        let codes = refused["trouble"]["errors"].to_string();
        assert!(codes.contains(code), "{bad}: {codes}");
        let shown = bench.get("/api/config").ok();
        assert_eq!(shown["digest"], before["digest"], "{bad}");
        assert_eq!(shown["script"]["trouble"]["summary"], refused["trouble"]["summary"]);
        assert_eq!(shown["script"]["generation"], 1);
        let health = bench.get("/api/health").ok();
        assert_eq!(health["script"]["trouble"]["summary"], refused["trouble"]["summary"]);
    }
    // The settings judge the file on disk as the reload does.
    let settings = Browser::signed_in(&bench, &server).page("/settings");
    assert!(settings.contains("program `/no/such` not found"), "{settings}");
    // The command says what is wrong and where, and exits 1; so does `status`.
    let (code, out, _) = bench.cli(&["reload"]);
    assert_eq!(code, 1, "{out}");
    assert!(out.contains("program `/no/such` not found"), "{out}");
    let (_, out, _) = bench.cli(&["status"]);
    assert!(out.contains("not reloaded"), "{out}");
    bench.write("wiki-browser.lua", format!("{good}\n-- mended\n"));
    let (code, out, _) = bench.cli(&["reload"]);
    assert_eq!((code, out.contains("generation 2 is active")), (0, true), "{out}");
    assert_eq!(bench.get("/api/config").ok()["script"]["trouble"], json!(null));
    until("one generation is left", || threads(&server) == 1);
    // A persona is judged as well; it keeps a reload from happening, but no server from starting.
    std::fs::create_dir_all(bench.top.join("agents")).unwrap();
    bench.write("agents/odd.md", "---\nnam: x\n---\n");
    let (code, out, _) = bench.cli(&["reload"]);
    assert_eq!((code, out.contains("no field `nam`")), (1, true), "{out}");
    server.stop();
    let server = bench.serve();
    assert!(server.log().contains("agents/odd.md:2: a persona has no field `nam`"));
    server.stop();
}

#[test]
fn a_dry_run_says_what_would_be_different_and_changes_nothing() {
    let bench = Bench::new();
    bench.limits("jobs = 1, grace = \"1s\"");
    kind(&bench, "no");
    bench.word_kind("goes", "timeout = \"20s\"", "exit 0");
    let server = bench.serve();
    let running = bench.job("waits", json!({"word": "a"}));
    bench.wait_left("ready.a");
    let waiting = bench.job("goes", json!({}));
    bench.limits("jobs = 2, grace = \"3s\"");
    bench.edit(|lua| lua.replace("wb.kind \"goes\"", "wb.kind \"comes\""));
    bench.write_script();
    let script = bench
        .read("wiki-browser.lua")
        .replace("listen = \"127.0.0.1:0\"", "listen = \"127.0.0.1:1\"");
    bench.write("wiki-browser.lua", &script);
    let (code, out, err) = bench.cli(&["reload", "--dry-run"]);
    assert_eq!(code, 1, "{out}{err}");
    for said in [
        "removed  kind \"goes\": 1 job is waiting",
        "1 job of kind \"goes\" waits: the new script has no such kind",
        "write was = \"goes\" in the kind that takes its place; or type wiki-browser reload --drop",
        "1 job of kind \"goes\" waits and would be lost: generation 1 stays active",
        "added    kind \"comes\"",
        "changed  limits",
        "site.listen takes effect after a restart",
        "limits.grace takes effect after a restart",
    ] {
        assert!(out.contains(said), "{said}: {out}");
    }
    let shown = bench.get("/api/config").ok();
    assert_eq!((&shown["script"]["generation"], &shown["limits"]["jobs"]), (&json!(1), &json!(1)));
    // Nor for good, unless the operator says that the waiting job may go.
    let refused = reload(&bench, false);
    assert_eq!((&refused["ok"], &refused["lost"][0]["jobs"]), (&json!(false), &json!(1)));
    assert_eq!(bench.show(&waiting)["status"], "queued");
    let done = bench.post("/api/config/reload", json!({"drop": true})).ok();
    assert_eq!(done["difference"]["needs_restart"], json!(["site.listen", "limits.grace"]));
    let job = bench.ended(&waiting);
    assert_eq!((&job["status"], &job["reason"]), (&json!("cancelled"), &json!("cancelled")));
    assert_eq!(bench.show(&running)["status"], "running");
    let shown = bench.get("/api/config").ok();
    assert_eq!(shown["script"]["needs_restart"], json!(["site.listen", "limits.grace"]));
    assert_eq!((&shown["limits"]["jobs"], &shown["limits"]["grace"]), (&json!(2), &json!("1s")));
    let_go(&bench, "a");
    bench.ended(&running);
    server.stop();
    let told = events(&bench, "config_reloaded").remove(0);
    assert_eq!(told["removed_kinds"], json!([{"what": "kind \"goes\"", "waiting": 1}]));
}

/// Declares a kind of which one job runs and others wait; returns those that wait.
fn queue(bench: &Bench, server: &mut Option<Server>) -> Vec<String> {
    bench.limits("jobs = 1");
    kind(bench, "no");
    bench.word_kind("slow", "timeout = \"20s\"", "echo \"$word\" >> \"$OUT/done\"");
    *server = Some(bench.serve());
    bench.job("waits", json!({"word": "a"}));
    bench.wait_left("ready.a");
    ["x", "y", "z"].map(|word| bench.job("slow", json!({"word": word}))).to_vec()
}

#[test]
fn the_waiting_jobs_of_a_kind_go_on_under_its_new_name() {
    let (bench, mut server) = (Bench::new(), None);
    let waiting = queue(&bench, &mut server);
    let old = bench.read("wiki-browser.lua");
    let renamed = old.replace("wb.kind \"slow\" {", "wb.kind \"slower\" {");
    bench.write("wiki-browser.lua", &renamed);
    let (code, out, _) = bench.cli(&["reload"]);
    assert_eq!((code, out.contains("3 jobs of kind \"slow\" wait")), (1, true), "{out}");
    let (_, out, _) = bench.cli(&["status"]);
    assert!(out.contains("not reloaded: 3 jobs of kind \"slow\" wait and would be lost"), "{out}");
    for job in &waiting {
        assert_eq!(bench.show(job)["status"], "queued");
    }
    let with_name = renamed.replace("\"slower\" {", "\"slower\" { was = \"slow\",");
    bench.write("wiki-browser.lua", &with_name);
    assert_eq!(bench.cli(&["reload", "--dry-run"]).0, 0);
    let (code, out, err) = bench.cli(&["reload"]);
    assert_eq!(code, 0, "{out}{err}");
    for job in &waiting {
        assert_eq!(bench.show(job)["kind"], "slower");
    }
    let_go(&bench, "a");
    for job in &waiting {
        assert_eq!(bench.ended(job)["status"], "succeeded");
    }
    assert_eq!(bench.left("done").lines().collect::<Vec<_>>(), ["x", "y", "z"]);
    server.unwrap().stop();
}

#[test]
fn at_a_start_jobs_wait_for_a_kind_that_is_gone() {
    let (bench, mut server) = (Bench::new(), None);
    let waiting = queue(&bench, &mut server);
    server.unwrap().stop();
    let good = bench.read("wiki-browser.lua");
    bench.edit(|lua| lua.replace("wb.kind \"slow\" {", "wb.kind \"slower\" {"));
    let server = bench.serve();
    assert!(server.log().contains("3 jobs wait until the script has kind \"slow\" again"));
    let after = bench.ended(&bench.job("slower", json!({"word": "w"})));
    assert_eq!(after["status"], "succeeded", "others do not wait behind them");
    for job in &waiting {
        let job = bench.show(job);
        assert_eq!(
            (&job["status"], &job["waiting"]["code"]),
            (&json!("queued"), &json!("kind_gone"))
        );
    }
    // They have waited for it before: a reload loses nothing, and the kind that is back has them.
    still_waiting(&bench, "3 jobs wait until the script has kind \"slow\" again");
    bench.write("wiki-browser.lua", &good);
    assert_eq!(reload(&bench, false)["ok"], true);
    for job in &waiting {
        assert_eq!(bench.ended(job)["status"], "succeeded");
    }
    server.stop();
}

/// Expects a reload that goes well and says what waits on, as does one that only looks.
#[track_caller]
fn still_waiting(bench: &Bench, why: &str) {
    for args in [&["reload", "--dry-run"][..], &["reload"]] {
        let (code, out, err) = bench.cli(args);
        assert_eq!((code, format!("{out}{err}").contains(why)), (0, true), "{out}{err}");
    }
    let status = bench.cli(&["status"]).1;
    assert_eq!(status.matches(why).count(), 1, "{status}");
}

#[test]
fn a_reload_drops_jobs_whose_kind_was_gone_at_the_start() {
    let (bench, mut server) = (Bench::new(), None);
    let waiting = queue(&bench, &mut server);
    server.unwrap().stop();
    bench.edit(|lua| lua.replace("wb.kind \"slow\" {", "wb.kind \"slower\" {"));
    let server = bench.serve();
    let dry = bench.json(&["reload", "--dry-run", "--drop"]);
    assert_eq!((&dry["lost"][0]["kind"], &dry["lost"][0]["jobs"]), (&json!("slow"), &json!(3)));
    assert_eq!(bench.cli(&["reload", "--drop"]).0, 0);
    for job in &waiting {
        assert_eq!(bench.show(job)["status"], "cancelled");
    }
    server.stop();
}

/// Makes the kind of the waiting jobs take another input than theirs.
fn ask_for_text(bench: &Bench) {
    bench.edit(|lua| {
        let slow = lua.find("wb.kind \"slow\"").unwrap();
        format!("{}{}", &lua[..slow], lua[slow..].replace("word", "text"))
    });
    bench.write_script();
}

/// The script that a reload refuses is what the next start reads.
#[test]
fn at_a_start_jobs_wait_that_their_kind_no_longer_accepts() {
    let (bench, mut server) = (Bench::new(), None);
    let waiting = queue(&bench, &mut server);
    let good = bench.read("wiki-browser.lua");
    ask_for_text(&bench);
    assert_eq!(reload(&bench, false)["ok"], false);
    server.unwrap().stop();
    let server = bench.serve();
    let why = "3 jobs wait because kind \"slow\" can no longer run them (kind \"slow\" has no \
               input `word`)";
    assert!(server.log().contains(why), "{}", server.log());
    assert!(bench.cli(&["status"]).1.contains(why));
    let doctor = bench.cli(&["doctor"]).1;
    assert!(doctor.contains("3 jobs wait because kind \"slow\""), "{doctor}");
    let after = bench.ended(&bench.job("slow", json!({"text": "w"})));
    assert_eq!(after["status"], "succeeded", "others do not wait behind them");
    for job in &waiting {
        let job = bench.show(job);
        let code = &job["waiting"]["code"];
        assert_eq!((&job["status"], code), (&json!("queued"), &json!("kind_changed")), "{job:#}");
    }
    // They waited before: a reload goes well, unless it has as little place for others.
    still_waiting(&bench, why);
    bench.cli(&["job", "cancel", &waiting[0]]);
    assert_eq!(bench.show(&waiting[0])["status"], "cancelled");
    bench.write("wiki-browser.lua", &good);
    assert_eq!(reload(&bench, false)["ok"], true);
    for job in &waiting[1..] {
        assert_eq!(bench.ended(job)["status"], "succeeded");
    }
    server.stop();
}

#[test]
fn a_reload_drops_jobs_that_their_kind_has_not_accepted_since_the_start() {
    let (bench, mut server) = (Bench::new(), None);
    let waiting = queue(&bench, &mut server);
    server.unwrap().stop();
    ask_for_text(&bench);
    let server = bench.serve();
    let (code, out, err) = bench.cli(&["reload", "--drop"]);
    assert_eq!(code, 0, "{out}{err}");
    for job in &waiting {
        assert_eq!(bench.show(job)["status"], "cancelled");
    }
    assert!(!bench.cli(&["status"]).1.contains("no longer accepts"));
    server.stop();
}

#[test]
fn inputs_that_a_kind_takes_no_more_keep_it_from_being_reloaded() {
    let (bench, mut server) = (Bench::new(), None);
    let waiting = queue(&bench, &mut server);
    let good = bench.read("wiki-browser.lua");
    let slow = good.find("wb.kind \"slow\"").unwrap();
    let other = good[slow..].replace("word", "text");
    bench.write("wiki-browser.lua", format!("{}{other}", &good[..slow]));
    let refused = reload(&bench, false);
    assert_eq!(refused["ok"], false, "{refused:#}");
    let why = refused["lost"][0]["why"].as_str().unwrap();
    assert_eq!(why, "kind \"slow\" has no input `word`");
    bench.write("wiki-browser.lua", good.replace("wb_agent={{wb_agent}}", "x={{wb_agent}}"));
    assert_eq!(reload(&bench, true)["ok"], true, "only the prompt is another one");
    assert_eq!(bench.show(&waiting[0])["status"], "queued");
    server.unwrap().stop();
}

#[test]
fn a_signal_reloads_and_new_handlers_hear_of_it() {
    let bench = Bench::new();
    bench.word_kind("echoes", "timeout = \"20s\"", "exit 0");
    let server = bench.serve();
    bench.ended(&bench.job("echoes", json!({})));
    bench.lua(
        "wb.on(\"config_reloaded\", function(event)
           wb.log.info(\"heard of %s by %s\", event.data.generation, event.actor)
         end)
         wb.on(\"job_finished\", function(event) wb.log.info(\"heard of a job\") end)\n",
    );
    bench.write_script();
    server.signal("HUP");
    wait_for("the new handler is told", || {
        server.log().contains("heard of 2 by system").then_some(())
    });
    assert!(!server.log().contains("heard of a job"), "what was before the reload is not told");
    bench.ended(&bench.job("echoes", json!({})));
    wait_for("and of what comes", || server.log().contains("heard of a job").then_some(()));
    server.stop();
}

/// What was committed counts after the crash: the event is there, and the new script is read.
#[test]
fn g26_a_crash_after_a_reload_loses_nothing_of_it() {
    let bench = Bench::new();
    kind(&bench, "the first script");
    let mut server = bench.serve_with(&[("WB_CRASH_AT", "after_reload")]);
    bench.edit(|lua| lua.replace("the first script", "the second script"));
    bench.write_script();
    server.signal("HUP");
    let (status, _) = server.wait();
    assert_eq!(std::os::unix::process::ExitStatusExt::signal(&status), Some(6));
    let server = bench.serve();
    assert_eq!(events(&bench, "config_reloaded").len(), 1);
    let job = bench.job("waits", json!({"word": "new"}));
    let_go(&bench, "new");
    let ended = bench.ended(&job);
    assert!(ended["error_tail"].as_str().unwrap().ends_with("the second script"), "{ended:#}");
    server.stop();
}

#[test]
fn only_an_admin_who_is_there_may_reload() {
    let bench = Bench::new();
    let agent =
        "echo \"$WB_TOKEN\" > \"$OUT/token\"; while [ ! -e \"$OUT/go\" ]; do sleep 0.05; done";
    bench.word_kind("asks", "timeout = \"20s\"", agent);
    let server = bench.serve();
    let job = bench.job("asks", json!({}));
    let token = bench.wait_left("token");
    let ask =
        |token: &str| bench.send(&Call::post("/api/config/reload", json!({})).token(token)).status;
    assert_eq!((ask(&token), ask("wbx_none")), (403, 401));
    assert_eq!(ask(&bench.operator()), 200);
    std::fs::write(bench.out.join("go"), "").unwrap();
    bench.ended(&job);
    server.stop();
}

#[test]
fn a_script_that_is_watched_is_reloaded_when_it_is_saved() {
    let bench = Bench::new();
    bench.word_kind("echoes", "timeout = \"20s\"", "exit 0");
    bench.write_script();
    let server = Server::spawn_after(&bench, "set -- --watch; exec \"$0\" serve \"$@\"").ready();
    bench.lua("-- saved\n");
    bench.write_script();
    wait_for("generation 2 is active", || {
        (bench.get("/api/config").ok()["script"]["generation"] == 2).then_some(())
    });
    server.stop();
}

#[test]
fn a_script_that_is_wrong_is_shown_as_check_shows_it() {
    let bench = Bench::new();
    let server = bench.serve();
    let script = bench.read("wiki-browser.lua") + "wb.kind \"x\" {\n\ttiemout = \"日本\" }\n";
    bench.write("wiki-browser.lua", &script);
    let (code, told, _) = bench.cli(&["reload"]);
    let (_, checked, _) = bench.cli(&["check"]);
    assert_eq!(code, 1, "{told}");
    let mut blocks = checked.trim_end().split("\n\n").filter(|it| it.starts_with("error["));
    assert!(blocks.clone().count() > 2 && blocks.all(|it| told.contains(it)), "{told}\n{checked}");
    assert!(told.contains("   ^^^^^^^ did you mean `timeout`?"), "{told}");
    assert!(told.trim_end().ends_with("generation 1 stays active"), "{told}");
    server.stop();
}

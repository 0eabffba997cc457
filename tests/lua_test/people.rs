//! People's decisions on proposals, other people's commits, and reloads: the same as on a server.

use super::{Desk, all_pass};

/// Kinds that propose, and handlers that tell of what was decided.
const SCRIPT: &str = r#"
local wb = require "wb"
wb.api(1)
wb.identity { author_name = "A", author_email = "a@b",
  committer_name = "C", committer_email = "c@d" }
wb.engine "e" { type = "process", command = { "no-such-program" }, prompt = "stdin",
  env = { KEY = wb.secret.env "KEY" } }
wb.kind "word" { about = "a", engine = "e", timeout = "5m", priority = 2,
  inputs = { word = wb.input.line() }, prompt = wb.env("TONE", "plain") .. " {{word}}" }
wb.kind "change" { about = "a", engine = "e", timeout = "5m", produces = "proposal",
  inputs = { topic = wb.input.topic(), page = wb.input.source { from = "topic" },
    sha = wb.input.blob { from = "page" } }, prompt = "{{page}} {{sha}} {{topic}}" }
wb.kind "new" { about = "a", engine = "e", timeout = "5m", produces = "proposal",
  inputs = { page = wb.input.source { new = true }, sha = wb.input.blob { from = "page" } },
  prompt = "{{page}} {{sha}}" }
for _, name in ipairs { "proposal_created", "proposal_decided", "proposal_conflicted",
  "source_changed", "source_renamed", "topic_changed", "config_reloaded" } do
  wb.on(name, function(event) wb.log.info(name) end)
end
"#;

#[track_caller]
fn passes(body: &str) {
    let desk = Desk::new(SCRIPT);
    let head = "local wb = require \"wb\"\nlocal script = wb.file \"wiki-browser.lua\"\n\
        local function said(effects)\nlocal names = {}\nfor place, line in ipairs(effects.log) do \
        names[place] = line.text end\nreturn names\nend\n\
        local function changed(text)\nlocal topic = t.topic { source_path = \"a.md\" }\n\
        return t.run(\"change\", { topic = topic }, { proposal = text })\nend\n";
    desk.tests("a", &format!("{head}t.test(\"x\", function()\n{body}\nend)\n"));
    all_pass(&desk.run());
}

#[test]
fn an_approval_is_that_of_the_server() {
    passes(
        "local job = changed(\"# New\\n\")
        local decision = t.approve(job)
        t.eq(said(decision), { \"proposal_decided\", \"topic_changed\", \"source_changed\" })
        t.has(decision.commit, { author = \"A <a@b>\", committer = \"C <c@d>\",
          paths = { \"a.md\" } })
        t.eq(decision.events[3].data.commit, decision.commit.id)
        t.eq(decision.proposal.commit, decision.commit.id)
        t.eq(decision.proposal.decided_by_name, \"tester\")
        t.fails(function() t.approve(job) end, \"already\")
        t.fails(function() t.reject(job, \"no\") end, \"already\")
        -- The next job has the new text for its base.
        t.contains(changed(\"# Newer\\n\").prompt, decision.proposal.proposed_sha)",
    );
}

#[test]
fn a_page_that_comes_into_being_is_committed() {
    passes(
        "local job = t.run(\"new\", { page = \"b.md\" }, {
          proposal = { text = \"# B\\n\", title = \"B\" } })
        local decision = t.approve(job)
        t.eq(decision.commit.paths, { \"b.md\" })
        t.contains(t.render(\"new\", { page = \"b.md\" }), decision.proposal.proposed_sha)",
    );
}

#[test]
fn what_lies_uncommitted_on_a_page_stands_in_the_way_of_an_approval() {
    passes(
        "local job = changed(\"# New\\n\")
        local effects = t.edit(\"a.md\", \"# Mine\\n\")
        t.eq(said(effects), { \"source_changed\" })
        t.eq(effects.events[1].data.commit, nil)
        t.fails(function() t.approve(job) end, \"uncommitted\")
        t.eq(t.proposals()[1].status, \"open\")
        t.edit(\"a.md\", \"# a.md\\n\\nA page of a test.\\n\")
        t.approve(job)",
    );
}

#[test]
fn a_commit_of_somebody_else_is_noticed_as_on_a_server() {
    passes(
        "t.source(\"a.md\", \"one\\n\\ntwo\\n\\nthree\\n\")
        local job = changed(\"one\\n\\ntwo\\n\\nTHREE\\n\")
        local effects = t.commit { [\"a.md\"] = \"ONE\\n\\ntwo\\n\\nthree\\n\" }
        t.eq(said(effects), { \"source_changed\",
          \"proposal_decided\", \"proposal_created\" })
        t.eq(effects.commit.author, \"Somebody <somebody@example.org>\")
        t.has(t.proposals(), {
          { status = \"open\", text = \"ONE\\n\\ntwo\\n\\nTHREE\\n\", revision_number = 2 },
          { id = job.proposal_id, status = \"superseded\" } })
        t.eq(said(t.commit { [\"a.md\"] = \"1\\n\" }), {
          \"source_changed\", \"proposal_conflicted\" })
        t.fails(function() t.approve(t.proposals()[1]) end, \"a.md\")
        -- Back to what it was for: it can be approved.
        t.commit { [\"a.md\"] = \"ONE\\n\\ntwo\\n\\nthree\\n\" }
        t.eq(t.proposals()[1].has_conflict, false)
        t.approve(t.proposals()[1])",
    );
}

#[test]
fn a_page_that_holds_the_change_already_leaves_nothing_to_decide() {
    passes(
        "local job = changed(\"# New\\n\")
        t.commit { [\"a.md\"] = \"# New\\n\" }
        t.eq(t.proposals()[1].status, \"open\")
        t.eq(t.approve(job).commit.author, \"Somebody <somebody@example.org>\")
        t.source(\"b.md\", \"one\\n\\ntwo\\n\")
        local topic = t.topic { source_path = \"b.md\" }
        t.run(\"change\", { topic = topic }, { proposal = \"one\\n\\nTWO\\n\" })
        t.commit { [\"b.md\"] = \"ONE\\n\\nTWO\\n\" }
        t.eq(t.proposals()[1].status, \"stale\")",
    );
}

#[test]
fn a_page_that_moves_takes_its_topics_along() {
    passes(
        "t.source(\"a.md\", \"# A\\n\")
        t.topic { source_path = \"a.md\" }
        local effects = t.commit { [\"a.md\"] = false, [\"c.md\"] = \"# A\\n\" }
        t.contains(said(effects), \"source_renamed\")
        t.contains(effects.events, { kind = \"source_renamed\", data = {
          path = \"c.md\", from = \"a.md\", topics = 1 } })
        t.fails(function() t.topic { source_path = \"a.md\" } end, \"a.md\")",
    );
}

#[test]
fn a_job_that_is_asked_for_waits_for_its_time_and_its_turn() {
    passes(
        "local wait = function(word, asked) return t.enqueue(\"word\", { word = word }, asked) end
        t.has(wait(\"a\"), { status = \"queued\", priority = 2 })
        wait(\"b\", { priority = 9 })
        wait(\"c\", { priority = 99, not_before = \"2h\" })
        t.eq(t.next().inputs.word, \"b\")
        t.eq(t.next().inputs.word, \"a\")
        local before = wb.date.seconds(t.now())
        local job = t.next()
        t.eq(job.inputs.word, \"c\")
        t.ok(wb.date.seconds(job.started_at) - before > 7000)
        local job = t.run(\"word\", { word = \"d\" }, nil, { not_before = \"10m\", priority = -4 })
        t.eq(wb.date.seconds(job.started_at) - wb.date.seconds(job.created_at), 600)
        t.eq(job.priority, -4)",
    );
}

#[test]
fn a_reload_is_that_of_the_server() {
    passes(
        "t.enqueue(\"word\", { word = \"x\" })
        t.has(t.reload(), { generation = 2, changes = {}, removed_kinds = {} })
        local effects = t.reload { env = { TONE = \"warm\" }, secrets = { KEY = \"other\" } }
        t.eq(said(effects), { \"config_reloaded\" })
        t.eq(effects.changes, { 'kind \"word\" changed' })
        t.has(t.next(), { prompt = \"warm x\", env = { KEY = \"other\" } })
        local other = script:gsub('prompt = wb.env', 'prompt = wb.file \"p.md\" .. wb.env')
        t.fails(function() t.reload { script = other } end, \"p.md\")
        t.has(t.reload { script = other, files = { [\"p.md\"] = \"From a file: \" } }, {
           generation = 4 })
        t.eq(t.render(\"word\", { word = \"y\" }), \"From a file: warm y\")
        t.eq(t.reload { script = script .. '\\nwb.site { name = \"N\" }\\n' }.needs_restart, {
          \"site.name\" })",
    );
}

#[test]
fn a_wrong_script_leaves_the_one_before_and_says_where_it_is_wrong() {
    let desk = Desk::new(SCRIPT);
    desk.tests(
        "a",
        "local wb = require \"wb\"\nt.test(\"x\", function()\n  t.reload { script = \"local wb = \
         require 'wb'\\nwb.kid {}\" }\nend)\n",
    );
    let summary = desk.run();
    let told = summary.tests[0].ran.failure.as_ref().unwrap().finding.to_string();
    assert!(told.contains("generation 1 stays active"), "{told}");
    assert!(told.contains("wiki-browser.lua:2:"), "{told}");
    assert!(told.contains("did you mean `kind`?"), "{told}");
}

//! Every example of docs/testing.md and of the reference passes, and so do the tests of the script
//! of this repository.

use std::fs;

use camino::{Utf8Path, Utf8PathBuf};
use wiki_browser::flows::lab::{Suite, find};
use wiki_browser::script::TEST_FUNCTIONS;

use super::{Desk, all_pass, documented};

fn repository() -> &'static Utf8Path {
    Utf8Path::new(env!("CARGO_MANIFEST_DIR"))
}

#[test]
fn every_example_of_the_document_passes() {
    let text = fs::read_to_string(repository().join("docs/testing.md")).unwrap();
    let desk = Desk::new(&documented());
    let mut files = 0;
    for block in text.split("```lua test\n-- ").skip(1) {
        let (path, body) = block.split_once('\n').unwrap();
        desk.write(path, body.split("```").next().unwrap());
        files += 1;
    }
    let summary = desk.run();
    all_pass(&summary);
    assert_eq!((files, summary.tests.len()), (7, 31));
}

/// The room that the script speaks in, of the document on channels.
#[test]
fn the_example_of_a_room_passes() {
    let text = fs::read_to_string(repository().join("docs/channels.md")).unwrap();
    let block = |from: &str| {
        let rest = text.split(from).nth(1).unwrap_or_else(|| panic!("no {from}"));
        rest.split("```").next().unwrap().to_owned()
    };
    let schedule = format!("wb.schedule \"standup\" {{{}", block("wb.schedule \"standup\" {"));
    let desk = Desk::new(&(documented() + &schedule));
    desk.write("tests/rooms.lua", &block("```lua test\n"));
    let summary = desk.run();
    all_pass(&summary);
    assert_eq!(summary.tests.len(), 1);
}

#[test]
fn what_the_document_shows_of_a_failure_is_what_is_printed() {
    let desk = Desk::with_tests("");
    fs::remove_file(desk.path().join("tests/a.lua")).unwrap();
    desk.tests(
        "fails",
        "\nt.test(\"the agent is told to be brief\", function()\n  \
         local topic = t.topic { source_path = \"guide.md\" }\n  \
         local prompt = t.render(\"answer\", { topic_id = topic })\n  \
         t.eq(prompt, \"Answer topic \" .. topic.id .. \". Keep it brief.\")\nend)\n",
    );
    let (code, told) = desk.command(&[]);
    assert_eq!(code, 1, "{told}");
    let text = fs::read_to_string(repository().join("docs/testing.md")).unwrap();
    let shown = text.split("```\ntests/fails.lua: ").nth(1).unwrap().split("```").next().unwrap();
    assert!(told.contains(&format!("tests/fails.lua: {shown}")), "{told}");
}

#[test]
fn the_example_of_every_function_passes() {
    let desk = Desk::new(&documented());
    let mut body = String::new();
    for it in &TEST_FUNCTIONS {
        assert!(it.example.contains(&format!("t.{}", it.name)), "{}", it.name);
        match it.name {
            "test" => body += &format!("{}\n", it.example),
            name => body += &format!("t.test({name:?}, function()\n{}\nend)\n", it.example),
        }
    }
    desk.tests("examples", &body);
    let summary = desk.run();
    all_pass(&summary);
    assert_eq!(summary.tests.len(), TEST_FUNCTIONS.len());
}

#[test]
fn the_script_of_this_repository_passes_its_tests() {
    let script: Utf8PathBuf = repository().join("wiki-browser.lua");
    let files = find(&script, &[]).unwrap();
    let summary =
        Suite { script, files, filter: None }.run(&Suite::scratch().unwrap(), &mut |_| {});
    all_pass(&summary);
    assert!(summary.tests.len() >= 4, "{}", summary.tests.len());
}

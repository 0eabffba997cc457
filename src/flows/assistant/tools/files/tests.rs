//! What a call on files asks for, and what it is refused for.

use camino::Utf8Path;
use serde_json::json;

use super::*;

fn known() -> Known {
    let made = [("mine.md", "one two\n"), ("changed.md", "before\n")];
    let digest = |text: &str| crate::base::digest_hex(text);
    let made = made.map(|(path, text)| (path.to_owned(), digest(text)));
    Known { made: made.into(), has_read_others: true, ..Known::default() }
}

#[test]
fn what_cannot_be_taken_back_asks() {
    let folder = tempfile::tempdir().unwrap();
    let base = Utf8Path::from_path(folder.path()).unwrap();
    std::fs::create_dir_all(base.join("agent/actions")).unwrap();
    std::fs::create_dir_all(base.join("agent/scratch")).unwrap();
    let own = ["mine.md", "agents.md", "agent/scratch/x", "agent/memory.md"];
    for name in [&["a.md", "changed.md"][..], &own].concat() {
        std::fs::write(base.join(name), "one two\n").unwrap();
    }
    let vault = Vault::open(base, &[]).unwrap();
    let edit = |path: &str, new: &str| json!({"path": path, "old": "two", "new": new});
    let write = |path: &str| json!({"path": path, "content": "three\n"});
    for (tool, args, asks) in [
        ("read_file", json!({"path": "a.md"}), false),
        ("list_directory", json!({}), false),
        ("search_files", json!({"pattern": "ONE"}), false),
        ("write_file", write("new.md"), false),
        ("write_file", write("a.md"), true),
        ("write_file", write("mine.md"), false),
        // Somebody has changed it since.
        ("write_file", write("changed.md"), true),
        ("edit_file", edit("changed.md", "three"), true),
        ("write_file", write("agents.md"), true),
        ("write_file", write("agent/actions/New.md"), true),
        ("write_file", write("agent/scratch/x"), false),
        ("write_file", write("agent/memory.md"), true),
        ("edit_file", edit("a.md", "two three"), false),
        ("edit_file", edit("a.md", "three"), true),
        ("edit_file", edit("agents.md", "two three"), true),
        ("move_file", json!({"from": "a.md", "to": "b.md"}), false),
        ("move_file", json!({"from": "a.md", "to": "agent/actions/b.md"}), true),
        ("move_file", json!({"from": "a.md", "to": "agent/scratch/a.md"}), true),
        ("move_file", json!({"from": "mine.md", "to": "agent/scratch/a.md"}), false),
        ("move_file", json!({"from": "agent/memory.md", "to": "agent/scratch/old"}), true),
        ("delete_file", json!({"path": "a.md"}), true),
        ("delete_file", json!({"path": "agent/actions"}), true),
        ("delete_file", json!({"path": "agent/scratch/x"}), false),
    ] {
        let deed = plan(&vault, tool, &args, &known()).unwrap();
        assert_eq!(deed.asks.is_some(), asks, "{tool} {args}: {:?}", deed.asks);
    }
}

/// Forty gigabytes are not made to find that they are too many.
#[test]
fn an_edit_in_many_places_is_refused_before_it_is_made() {
    let folder = tempfile::tempdir().unwrap();
    let base = Utf8Path::from_path(folder.path()).unwrap();
    std::fs::write(base.join("a.md"), "a".repeat(FILE_BYTES_MAX)).unwrap();
    let vault = Vault::open(base, &[]).unwrap();
    let edit = |new: String| json!({"path": "a.md", "old": "a", "new": new, "all": true});
    let refused = plan(&vault, "edit_file", &edit("b".repeat(40_000)), &known()).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::TooLarge);
    assert!(plan(&vault, "edit_file", &edit(String::new()), &known()).is_ok());
    let same = plan(&vault, "edit_file", &edit("b".to_owned()), &known());
    assert!(same.is_ok() || same.unwrap_err().message().contains("a line of"));
}

/// What others wrote stays that where it was written to, moved to or copied to.
#[test]
fn a_file_with_text_of_others_is_known_by_its_name_and_by_its_content() {
    let folder = tempfile::tempdir().unwrap();
    let base = Utf8Path::from_path(folder.path()).unwrap();
    std::fs::create_dir_all(base.join("agent/runs")).unwrap();
    let files = [("a.md", "theirs"), ("copy.md", "theirs"), ("edited.md", "theirs, and mine")];
    let own = [("b.md", "my own"), ("agents.md", "theirs"), ("agent/runs/r.md", "an answer")];
    for (path, text) in [&files[..], &own].concat() {
        std::fs::write(base.join(path), format!("{text}\n")).unwrap();
    }
    let vault = Vault::open(base, &[]).unwrap();
    let theirs = crate::base::digest_hex("theirs\n");
    let marked = ["a.md", "edited.md"].map(|it| (it.to_owned(), theirs.clone()));
    let clean = || Known { of_others: marked.iter().cloned().collect(), ..Known::default() };
    let read = |path: &str| ("read_file", json!({"path": path}));
    let find = |words: &str| ("search_files", json!({"pattern": words}));
    let to = |from: &str| ("move_file", json!({"from": from, "to": "new.md"}));
    let edit = |path: &str| ("edit_file", json!({"path": path, "old": "\n", "new": "!\n"}));
    let write = |path: &str| ("write_file", json!({"path": path, "content": "x"}));
    for ((tool, args), is_of_others) in [
        (read("a.md"), true),
        (read("copy.md"), true),
        (read("edited.md"), true),
        (read("agent/runs/r.md"), true),
        (read("b.md"), false),
        // A person has seen and allowed whatever is in it.
        (read("agents.md"), false),
        (find("THEIRS"), true),
        (find("my own"), false),
        (to("copy.md"), true),
        (to("b.md"), false),
        (edit("copy.md"), true),
        (edit("b.md"), false),
        (write("new.md"), false),
        (("delete_file", json!({"path": "a.md"})), false),
    ] {
        let deed = plan(&vault, tool, &args, &clean()).unwrap();
        assert_eq!(deed.is_of_others, is_of_others, "{tool} {args}");
    }
    let deed = plan(&vault, "write_file", &write("new.md").1, &known()).unwrap();
    assert!(deed.is_of_others, "the answer has read what others wrote");
    for (from, asks) in [("copy.md", true), ("b.md", false)] {
        let args = json!({"from": from, "to": "agent/memory.md"});
        let deed = plan(&vault, "move_file", &args, &clean()).unwrap();
        assert_eq!((deed.asks.is_some(), deed.preview.contains('+')), (asks, asks), "{from}");
    }
}

#[test]
fn wrong_calls_are_refused_with_a_reason() {
    let folder = tempfile::tempdir().unwrap();
    let base = Utf8Path::from_path(folder.path()).unwrap();
    std::fs::write(base.join("a.md"), "x x\n").unwrap();
    std::fs::write(base.join("bin"), b"\xff\x00").unwrap();
    std::fs::create_dir_all(base.join("full")).unwrap();
    std::fs::write(base.join("full/.hidden"), "x").unwrap();
    let vault = Vault::open(base, &[]).unwrap();
    let large = "x".repeat(FILE_BYTES_MAX + 1);
    for (tool, args, code) in [
        ("read_file", json!({"path": "../etc/passwd"}), "bad_path"),
        ("read_file", json!({"path": "/etc/passwd"}), "bad_path"),
        ("read_file", json!({"path": "none.md"}), "file_gone"),
        ("read_file", json!({"path": "bin"}), "not_text"),
        ("read_file", json!({}), "bad_arguments"),
        ("read_file", json!({"path": "a.md", "more": 1}), "bad_arguments"),
        ("read_file", json!("a.md"), "bad_arguments"),
        ("edit_file", json!({"path": "a.md", "old": "x", "new": "y"}), "bad_edit"),
        ("edit_file", json!({"path": "a.md", "old": "z", "new": "y"}), "bad_edit"),
        ("edit_file", json!({"path": "a.md", "old": "", "new": "y"}), "bad_edit"),
        ("write_file", json!({"path": "b", "content": large}), "too_large"),
        ("write_file", json!({"path": "b", "content": "a\0b"}), "not_text"),
        ("move_file", json!({"from": "a.md", "to": "bin"}), "target_exists"),
        ("move_file", json!({"from": "none", "to": "b"}), "file_gone"),
        ("delete_file", json!({"path": "none"}), "file_gone"),
        // Before anybody is asked.
        ("delete_file", json!({"path": "full"}), "not_empty"),
        ("bash", json!({"command": "ls"}), "no_tool"),
    ] {
        let refused = plan(&vault, tool, &args, &known()).unwrap_err();
        assert_eq!(refused.code_str(), code, "{tool} {args}");
    }
}

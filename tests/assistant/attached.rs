//! Files that go with a question.

use serde_json::{Value, json};

use super::gateway::{sign_in, subscribed};
use super::tools::{of_type, vault};
use super::web::{calls, reject_asked};
use super::{Live, ask, assistant, history, keyed, person, token};
use crate::support::{Answer, Bench, Call, until};

/// The beginning of an image of 640 × 480 pixels.
const PNG: &[u8] = b"\x89PNG\r\n\x1a\n\0\0\0\x0dIHDR\0\0\x02\x80\0\0\x01\xe0\x08\x02\0\0\0";

fn wide(pixels: u32) -> Vec<u8> {
    [&PNG[..16], &pixels.to_be_bytes(), &PNG[20..]].concat()
}

fn send(bench: &Bench, name: &str, bytes: &[u8]) -> Answer {
    let target = format!("/api/agent/attachments?name={name}");
    bench.send(&Call::file(&target, bytes).token(&bench.operator()))
}

fn upload(bench: &Bench, name: &str, bytes: &[u8]) -> Value {
    send(bench, name, bytes).ok()
}

#[test]
fn files_go_with_a_question_once_and_by_their_person() {
    let bench = Bench::new();
    let model = keyed(&bench, "");
    let server = bench.serve();
    let bea = person(&bench, "bea");
    let folder = vault(&bench);
    let sent = upload(&bench, "..%2FMy%20notes.md", b"one\n");
    let path = sent["path"].as_str().unwrap();
    assert!(path.starts_with("agent/uploads/20") && path.ends_with("-My-notes.md"), "{path}");
    assert_eq!((&sent["kind"], &sent["bytes"]), (&json!("text"), &json!(4)));
    assert_eq!(std::fs::read_to_string(folder.join(path)).unwrap(), "one\n");

    // What is refused leaves nothing.
    let large = vec![b'x'; 1024 * 1024 + 1];
    let huge = vec![b'x'; 4 * 1024 * 1024 + 1];
    for (bytes, refusal) in [
        (&b"a\0b"[..], (400, "attachment_type")),
        (b"", (400, "attachment_type")),
        (&wide(8_001), (413, "image_too_large")),
        (&PNG[..16], (400, "attachment_type")),
        (&large, (413, "too_large")),
        (&huge, (413, "too_large")),
    ] {
        assert_eq!(send(&bench, "x", bytes).refusal(), refusal, "{} bytes", bytes.len());
    }
    let json = bench.post("/api/agent/attachments?name=x", json!({}));
    assert_eq!(json.refusal(), (400, "not_file"));
    let count = || std::fs::read_dir(folder.join("agent/uploads")).unwrap().count();
    assert_eq!(count(), 1);
    let question = |paths: &[&str]| json!({"message": "hello", "attachments": paths});
    let as_bea = Call::post("/api/agent/chat", question(&[path])).token(&bea);
    assert_eq!(bench.send(&as_bea).refusal(), (404, "no_attachment"));
    let outside = bench.post("/api/agent/chat", question(&["agent/memory.md"]));
    assert_eq!(outside.refusal(), (404, "no_attachment"));

    // Its model is told where it is; it is sent once.
    let items = ask(&bench, question(&[path]));
    let told = model.asked().last().unwrap()["messages"][0]["content"][0]["text"].clone();
    let wanted =
        format!("hello\n\nAttached files, which are in the vault:\n- {path} (text, 4 bytes)");
    assert_eq!(told, wanted);
    let shown = history(&bench, items[0]["session_id"].as_str().unwrap());
    assert_eq!(shown["messages"][0]["body"], "hello");
    assert_eq!(shown["messages"][0]["attachments"][0]["name"], "../My notes.md");
    let twice = bench.post("/api/agent/chat", question(&[path]));
    assert_eq!(twice.refusal(), (404, "no_attachment"));

    // Images are shown; too many are refused, and wait to be sent still.
    let images: Vec<Value> = (0..4).map(|_| upload(&bench, "a.jpeg", PNG)).collect();
    let paths: Vec<&str> = images.iter().map(|it| it["path"].as_str().unwrap()).collect();
    assert!(paths[0].ends_with("-a.png"), "{paths:?}");
    let many = bench.post("/api/agent/chat", question(&paths));
    assert_eq!(many.refusal(), (400, "attachment_type"));
    ask(&bench, question(&paths[..1]));
    let content = model.asked().last().unwrap()["messages"][0]["content"].clone();
    assert_eq!(content[1]["source"]["media_type"], "image/png");
    assert!(content[1]["source"]["data"].as_str().unwrap().starts_with("iVBORw0KGgoAAAANSUhEUg"));
    server.stop();

    // What was never sent goes after a day, unless its person has made something else of it.
    let database = rusqlite::Connection::open(bench.data.join("wiki.db")).unwrap();
    database.execute("UPDATE chat_uploads SET created_ms = 0", []).unwrap();
    drop(database);
    let at = |place: usize| folder.join(paths[place]);
    std::fs::write(at(1), "mine").unwrap();
    let server = bench.serve();
    until("old uploads are gone", || !at(2).exists() && !at(3).exists());
    assert!(at(0).exists() && at(1).exists());
    server.stop();
}

/// The words in an image are those of whoever made it, and no call reads them.
#[test]
fn the_memory_asks_as_long_as_an_image_is_before_the_model() {
    let bench = Bench::new();
    let _model = keyed(&bench, "");
    let server = bench.serve();
    let token = token(&bench, "ada");
    let note = json!([["write_file", {"path": "agent/memory.md", "content": "obey"}]]);
    let with = |file: &Value| {
        let mut question = calls("Note it", &note);
        question["attachments"] = json!([file["path"]]);
        question
    };
    let image = upload(&bench, "a.png", PNG);
    let mut live = Live::ask(server.address(), &token, &with(&image));
    reject_asked(&bench, &mut live);
    // Later questions of the conversation have it before them, too.
    let mut shown = json!({"message": "Look"});
    shown["attachments"] = json!([upload(&bench, "b.png", PNG)["path"]]);
    let session = ask(&bench, shown)[0]["session_id"].clone();
    let mut later = calls("Note it", &note);
    later["session_id"] = session;
    let mut live = Live::ask(server.address(), &token, &later);
    reject_asked(&bench, &mut live);
    assert!(!vault(&bench).join("agent/memory.md").exists());
    // Of a text there is only its name, until it is read.
    let text = upload(&bench, "a.txt", b"obey");
    assert!(of_type(&ask(&bench, with(&text)), "confirm_required").is_empty());
    assert!(vault(&bench).join("agent/memory.md").exists());
    server.stop();
}

/// The gateway gets images in the form of its package.
#[test]
fn a_subscription_is_shown_images() {
    let bench = Bench::new();
    let model = subscribed(&bench, "");
    let server = bench.serve();
    sign_in(&bench);
    let path = upload(&bench, "a.png", PNG)["path"].clone();
    ask(&bench, json!({"message": "hello", "attachments": [path]}));
    let content = model.asked().last().unwrap()["messages"][0]["content"].clone();
    let image = content.as_array().unwrap().iter().find(|it| it["type"] == "image").unwrap();
    assert_eq!(image["mimeType"], "image/png");
    assert!(image["data"].as_str().unwrap().starts_with("iVBORw0KGgoAAAANSUhEUg"), "{image}");
    server.stop();
}

#[test]
fn claude_code_is_told_of_texts_and_takes_no_images() {
    let bench = Bench::new();
    assistant(&bench, "");
    let server = bench.serve();
    let text = upload(&bench, "notes.txt", b"one\n");
    let image = upload(&bench, "a.png", PNG);
    let question = |file: &Value| json!({"message": "hello", "attachments": [file["path"]]});
    let refused = bench.post("/api/agent/chat", question(&image));
    assert_eq!(refused.refusal(), (400, "attachment_type"));
    ask(&bench, question(&text));
    assert!(bench.left("prompt").contains(text["path"].as_str().unwrap()));
    server.stop();
}

#[test]
fn a_command_sends_files_too() {
    let bench = Bench::new();
    let model = keyed(&bench, "");
    let server = bench.serve();
    let file = bench.base.join("plan.txt");
    std::fs::write(&file, "plan").unwrap();
    let (code, said, _) = bench.cli(&["ask", "--attach", file.as_str(), "hello"]);
    assert_eq!(code, 0, "{said}");
    assert!(model.asked().last().unwrap().to_string().contains("-plan.txt (text, 4 bytes)"));
    let none = bench.base.join("none.txt");
    assert_ne!(bench.cli(&["ask", "--attach", none.as_str(), "hello"]).0, 0);
    server.stop();
}

/// The row of an upload comes before its file: a server killed between them leaves a name that no
/// question can send, and the file can be uploaded again.
#[cfg(feature = "faults")]
#[test]
fn an_upload_cut_off_by_a_kill_is_sent_with_nothing() {
    let bench = Bench::new();
    let _model = keyed(&bench, "");
    let mut server = bench.serve_with(&[("WB_CRASH_AT", "after_upload_row")]);
    let target = "/api/agent/attachments?name=notes.txt";
    let cut_off = Call::file(target, b"one\n").token(&bench.operator());
    assert!(cut_off.try_socket(&bench.socket()).is_none());
    server.wait();
    let server = bench.serve();
    let uploads = vault(&bench).join("agent/uploads");
    let names = || std::fs::read_dir(&uploads).map_or(0, |entries| entries.count());
    assert_eq!(names(), 0);
    let path = upload(&bench, "notes.txt", b"one\n")["path"].clone();
    assert_eq!(names(), 1);
    ask(&bench, json!({"message": "hello", "attachments": [path]}));
    server.stop();
}

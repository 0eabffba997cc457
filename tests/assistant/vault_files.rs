//! Files of a vault as their person sees them, old ones, and what goes with a person.

use std::time::Duration;

use camino::Utf8Path;
use serde_json::json;

use super::gateway::{sign_in, subscribed};
use super::tools::vault;
use super::{keyed, person};
use crate::support::{Bench, Call, until};

fn address(path: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/.-_".contains(&byte);
    let write = |byte: u8| match plain(byte) {
        true => char::from(byte).to_string(),
        false => format!("%{byte:02X}"),
    };
    format!("/api/agent/vault/file?path={}", path.bytes().map(write).collect::<String>())
}

#[test]
fn a_person_reads_texts_and_images_of_their_own_vault() {
    let bench = Bench::new();
    let _model = keyed(&bench, "");
    let server = bench.serve();
    let bea = person(&bench, "bea");
    let folder = vault(&bench);
    // The folder is made when it is first used.
    assert_eq!(bench.get(&address("none.md")).refusal(), (404, "no_file"));
    let png = b"\x89PNG\r\n\x1a\n\0\0\0\x0dIHDR\0\0\x02\x80\0\0\x01\xe0\x08\x02\0\0\0";
    let html = "<script>alert(1)</script>";
    std::fs::write(folder.join("page.html"), html).unwrap();
    std::fs::write(folder.join("a b.png"), png).unwrap();
    std::fs::write(folder.join("program"), b"\x7fELF\0\0").unwrap();
    std::fs::write(folder.join(".hidden"), "x").unwrap();
    std::fs::create_dir(folder.join("sub")).unwrap();
    std::fs::write(folder.join("large.txt"), vec![b'x'; 4_000_000]).unwrap();
    std::os::unix::fs::symlink("/etc/passwd", folder.join("link")).unwrap();
    std::os::unix::fs::symlink("/etc", folder.join("up")).unwrap();
    let shown = bench.get(&address("page.html"));
    assert_eq!((shown.status, shown.body.as_str()), (200, Some(html)));
    let head = shown.head.to_ascii_lowercase();
    assert!(head.contains("content-type: text/plain; charset=utf-8"), "{head}");
    assert!(head.contains("x-content-type-options: nosniff"), "{head}");
    let image = bench.get(&address("a b.png"));
    assert!(image.head.to_ascii_lowercase().contains("content-type: image/png"), "{image:?}");
    for (path, refusal) in [
        ("program", (400, "file_type")),
        ("sub", (400, "not_a_file")),
        ("link", (400, "not_a_file")),
        ("up/passwd", (400, "path_is_link")),
        ("large.txt", (413, "too_large")),
        (".hidden", (400, "bad_path")),
        ("../x", (400, "bad_path")),
        ("sub/../page.html", (400, "bad_path")),
        ("/etc/passwd", (400, "bad_path")),
        ("page.html\0", (400, "bad_path")),
        ("", (400, "bad_path")),
    ] {
        assert_eq!(bench.get(&address(path)).refusal(), refusal, "{path}");
    }
    let other = bench.send(&Call::get(&address("page.html")).token(&bea));
    assert_eq!(other.refusal(), (404, "no_file"));
    server.stop();
}

/// Makes a file that was just written older.
fn age(path: &Utf8Path, days: u64) {
    let file = std::fs::File::options().write(true).open(path).unwrap();
    let written = file.metadata().unwrap().modified().unwrap();
    file.set_modified(written - Duration::from_secs(days * 24 * 3_600)).unwrap();
}

#[test]
fn old_files_in_scratch_are_deleted_as_they_were_listed() {
    let bench = Bench::new();
    let _model = keyed(&bench, "");
    let server = bench.serve();
    let bea = person(&bench, "bea");
    let list = || bench.get("/api/agent/scratch").ok();
    assert_eq!(list()["items"], json!([]));
    let scratch = vault(&bench).join("agent/scratch");
    std::fs::create_dir_all(scratch.join("deep")).unwrap();
    for (name, days) in [("old", 31), ("deep/older", 60), ("new", 29), ("changed", 40)] {
        std::fs::write(scratch.join(name), name).unwrap();
        age(&scratch.join(name), days);
    }
    std::os::unix::fs::symlink("old", scratch.join("link")).unwrap();
    let shown = list();
    let paths: Vec<&str> =
        shown["items"].as_array().unwrap().iter().map(|it| it["path"].as_str().unwrap()).collect();
    let wanted = ["agent/scratch/changed", "agent/scratch/old", "agent/scratch/deep/older"];
    assert_eq!((paths.as_slice(), &shown["bytes"]), (&wanted[..], &json!(7 + 3 + 10)));
    let page = bench.get("/assistant");
    assert!(page.body.as_str().unwrap().contains("3 old files in scratch"), "{page:?}");
    std::fs::write(scratch.join("changed"), "meanwhile").unwrap();
    let before = shown["before"].as_str().unwrap();
    let target = |before: &str| format!("/api/agent/scratch?before={before}");
    let delete = |target: &str| Call::new("DELETE", target).token(&bench.operator());
    let early = bench.send(&delete(&target("2999-01-01T00:00:00Z")));
    assert_eq!(early.refusal(), (400, "bad_parameter"));
    let as_bea = Call::new("DELETE", &target(before)).token(&bea);
    assert_eq!(bench.send(&as_bea).ok()["deleted"], 0);
    let gone = bench.send(&delete(&target(before))).ok();
    assert_eq!(gone, json!({"deleted": 2, "bytes": 13, "kept": 0}));
    let left = |name: &str| scratch.join(name).exists();
    assert!(left("new") && left("changed") && !left("old") && !left("deep/older"));
    let (code, out, _) = bench.cli(&["chat", "scratch", "--delete"]);
    assert_eq!((code, out.as_str()), (0, "deleted 0 files (0 bytes), kept 0\n"));
    server.stop();
}

/// Fails without the bell: the files would stay until the next start.
#[test]
fn a_disabled_person_leaves_no_sign_in_and_no_hold() {
    let bench = Bench::new();
    let _model = subscribed(&bench, "");
    let server = bench.serve();
    sign_in(&bench);
    person(&bench, "bea");
    bench.post("/api/persons", json!({"name": "boss", "role": "admin"})).ok();
    let id = |name: &str| {
        let people = bench.get("/api/persons").ok();
        let found = people["items"].as_array().unwrap().iter().find(|it| it["name"] == name);
        found.unwrap()["id"].as_str().unwrap().to_owned()
    };
    let (ada, bea) = (id("ada"), id("bea"));
    let auth = |person: &str| bench.data.join(format!("services/pi-gateway/auth/{person}.json"));
    let claude = bench.data.join("people").join(&bea);
    std::fs::copy(auth(&ada), auth(&bea)).unwrap();
    std::fs::create_dir_all(&claude).unwrap();
    std::fs::write(claude.join("claude.token"), "sk-of-bea").unwrap();
    let hold = "INSERT INTO engine_holds (engine, person_id, since_ms, until_ms, is_said, strikes)";
    server.stop();
    for (engine, person) in [("pi", &ada), ("pi", &bea), ("of-before", &bea)] {
        bench.sql(&format!("{hold} VALUES ('{engine}', '{person}', 0, 4000000000000, 1, 1)"));
    }
    let server = bench.serve();
    // An admin lifts the hold of one person, and of nobody else.
    let (code, _, err) = bench.cli(&["engine", "release", "pi", "--person", "bea"]);
    assert_eq!(code, 0, "{err}");
    let again = bench.post("/api/engines/pi/release?person=bea", json!({}));
    assert_eq!(again.refusal(), (409, "engine_not_held"));
    let nobody = bench.post("/api/engines/pi/release?person=nobody", json!({}));
    assert_eq!(nobody.refusal(), (404, "no_person"));
    let as_bea = Call::post("/api/engines/pi/release?person=ada", json!({}));
    let token = super::token(&bench, "bea");
    assert_eq!(bench.send(&as_bea.token(&token)).status, 403);
    bench.post("/api/persons/bea/disable", json!({})).ok();
    until("the sign-ins are gone", || {
        !auth(&bea).exists() && !claude.join("claude.token").exists()
    });
    assert!(auth(&ada).exists(), "those of others stay");
    server.stop();
    let database = rusqlite::Connection::open(bench.data.join("wiki.db")).unwrap();
    let mut statement = database.prepare("SELECT person_id FROM engine_holds").unwrap();
    let rows = statement.query_map([], |row| row.get::<_, String>(0)).unwrap();
    assert_eq!(rows.map(Result::unwrap).collect::<Vec<_>>(), [ada]);
}

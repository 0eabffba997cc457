//! No path leads out of a root, and no race does (G22).

use std::fs;
use std::os::unix::fs::symlink;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use camino::Utf8Path;
use wiki_browser::base::{ErrorKind, SourcePath};
use wiki_browser::process::Root;

use super::place::Place;

const SECRET: &str = "secret outside the root";

fn place() -> Place {
    let place = Place::new("inside");
    fs::create_dir(place.path.join("docs/sub")).unwrap();
    fs::write(place.outside.join("secret.md"), SECRET).unwrap();
    place
}

fn source(text: &str) -> SourcePath {
    text.parse().unwrap()
}

#[test]
fn g22_regular_files_are_read_with_their_facts() {
    let place = place();
    let (text, facts) = place.root.read(&source("docs/a.md"), 6).unwrap();
    assert_eq!((text.as_slice(), facts.bytes, facts.links), (&b"inside"[..], 6, 1));
    assert_eq!(facts, place.root.facts(&source("docs/a.md")).unwrap());
    assert!(facts.modified_ms > 1_600_000_000_000);
    fs::hard_link(place.outside.join("secret.md"), place.path.join("docs/hard.md")).unwrap();
    assert_eq!(place.root.facts(&source("docs/hard.md")).unwrap().links, 2);
    let (text, _) = place.root.read_relative(Utf8Path::new("docs/a.md"), 100).unwrap();
    assert_eq!(text, b"inside");
    assert_eq!(place.root.path(), place.path);
}

#[test]
fn g22_a_table_of_attacks_is_refused() {
    let place = place();
    let docs = place.path.join("docs");
    symlink("../../secret.md", docs.join("link.md")).unwrap();
    symlink(place.outside.join("secret.md"), docs.join("absolute.md")).unwrap();
    symlink("a.md", docs.join("harmless.md")).unwrap();
    symlink("../..", docs.join("up")).unwrap();
    symlink("/proc/self/root", docs.join("magic")).unwrap();
    symlink("loop.md", docs.join("loop.md")).unwrap();
    symlink("nowhere", docs.join("dangling.md")).unwrap();
    let fifo = docs.join("fifo.md");
    nix_mkfifo(&fifo);
    let _socket = std::os::unix::net::UnixListener::bind(docs.join("socket.md")).unwrap();
    let links = [
        "docs/link.md",
        "docs/absolute.md",
        "docs/harmless.md",
        "docs/up/secret.md",
        "docs/magic/etc/passwd",
        "docs/loop.md",
        "docs/dangling.md",
    ];
    for path in links {
        let refused = place.root.read(&source(path), 1_000).unwrap_err();
        assert_eq!(
            (refused.kind(), refused.code_str()),
            (ErrorKind::Invalid, "path_is_link"),
            "{path}"
        );
        assert!(place.root.facts(&source(path)).is_err());
        assert!(place.root.read_relative(Utf8Path::new(path), 1_000).is_err());
    }
    for path in ["docs/fifo.md", "docs/socket.md", "docs/sub", "docs"] {
        let refused = place.root.read(&source(path), 1_000).unwrap_err();
        assert_eq!(refused.code_str(), "not_a_file", "{path}");
    }
    for path in ["docs/no.md", "no/a.md", "docs/a.md/b.md", "docs/A.md"] {
        let refused = place.root.read(&source(path), 1_000).unwrap_err();
        assert_eq!((refused.kind(), refused.code_str()), (ErrorKind::NotFound, "source_gone"));
    }
    let long = "x".repeat(300);
    for path in ["/etc/passwd", "../secret.md", "docs/../docs/a.md", "./docs/a.md", "", "..", "."] {
        let refused = place.root.read_relative(Utf8Path::new(path), 1_000).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Invalid, "{path}");
    }
    assert!(place.root.read_relative(Utf8Path::new("docs/a\0b"), 1_000).is_err());
    assert!(place.root.read_relative(Utf8Path::new(&long), 1_000).is_err());
    let refused = place.root.read(&source("docs/a.md"), 5).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::TooLarge);
    assert_eq!(Root::open(&docs.join("a.md")).unwrap_err().kind(), ErrorKind::NotFound);
}

/// Lets one thread swap something all the time while this one reads.
fn race(place: &Place, path: &str, swap: impl Fn(&Utf8Path) + Send + 'static) {
    let is_over = Arc::new(AtomicBool::new(false));
    let (stop, folder) = (is_over.clone(), place.path.clone());
    let swapper = std::thread::spawn(move || {
        while !stop.load(Ordering::Relaxed) {
            swap(&folder);
        }
    });
    let (mut read, mut refused) = (0, 0);
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(10);
    while (read < 300 || refused < 300) && std::time::Instant::now() < deadline {
        match place.root.read(&source(path), 1_000) {
            Ok((text, _)) => {
                assert_eq!(text, b"inside", "read outside the root");
                read += 1;
            }
            Err(error) => {
                assert_ne!(error.kind(), ErrorKind::Internal, "{error}");
                refused += 1;
            }
        }
    }
    is_over.store(true, Ordering::Relaxed);
    swapper.join().unwrap();
    assert!(read > 0 && refused > 0, "the race took place: {read} read, {refused} refused");
}

#[test]
fn g22_no_race_between_a_file_and_a_link_leads_out() {
    let place = place();
    race(&place, "docs/swap.md", |root| {
        let path = root.join("docs/swap.md");
        let aside = root.join("docs/aside.md");
        symlink("../../secret.md", &aside).unwrap();
        fs::rename(&aside, &path).unwrap();
        fs::write(&aside, "inside").unwrap();
        fs::rename(&aside, &path).unwrap();
    });
}

#[test]
fn g22_no_race_between_a_folder_and_a_link_leads_out() {
    let place = place();
    fs::write(place.outside.join("a.md"), SECRET).unwrap();
    race(&place, "docs/a.md", |root| {
        fs::rename(root.join("docs"), root.join("kept")).unwrap();
        symlink("..", root.join("docs")).unwrap();
        fs::remove_file(root.join("docs")).unwrap();
        fs::rename(root.join("kept"), root.join("docs")).unwrap();
    });
}

#[test]
fn g22_a_folder_that_is_moved_out_leads_nowhere() {
    let place = place();
    fs::create_dir_all(place.path.join("docs/in")).unwrap();
    fs::write(place.path.join("docs/in/a.md"), "inside").unwrap();
    race(&place, "docs/in/a.md", |root| {
        fs::rename(root.join("docs/in"), root.join("../out")).unwrap();
        fs::rename(root.join("../out"), root.join("docs/in")).unwrap();
    });
}

#[allow(clippy::disallowed_methods, reason = "the standard library makes no fifo")]
fn nix_mkfifo(path: &Utf8Path) {
    assert!(std::process::Command::new("mkfifo").arg(path).status().unwrap().success());
}

//! Reading: which files are Sources, their versions, and the errors for other files.

use std::os::unix::fs::symlink;

use wiki_browser::api::sources::SourceState;
use wiki_browser::base::ErrorKind;
use wiki_browser::base::limit::SOURCE_BYTES_MAX;
use wiki_browser::documents::git::Repo;
use wiki_browser::process::Children;

use crate::git::support::{Site, path, program, read, site, site_of, write, write_program};

#[tokio::test]
async fn only_tracked_plain_files_that_the_globs_name_are_listed() {
    let site = site().await;
    write(&site.top, "untracked.md", "x");
    write(&site.top, "code.rs", "x");
    write(&site.top, ".hidden/x.md", "x");
    write(&site.top, "back\\slash.md", "x");
    write(&site.top, "line\nbreak.md", "x");
    write(&site.top, "added.md", "x");
    symlink("a.md", site.top.join("link.md")).unwrap();
    site.git(&["add", "code.rs", ".hidden", "link.md", "added.md", "back\\slash.md"]);
    site.git(&["add", "line\nbreak.md"]);
    std::fs::remove_file(site.top.join("b.md")).unwrap();
    write(&site.top, "docs/c.md", "changed\n");
    let listed = site.repo.list_sources().await.unwrap();
    let shown: Vec<_> = listed.iter().map(|it| (it.path.as_str(), it.state)).collect();
    let (clean, modified) = (SourceState::Clean, SourceState::Modified);
    assert_eq!(shown, [("a.md", clean), ("added.md", modified), ("docs/c.md", modified)]);
    for it in &listed {
        let source = site.repo.source(&it.path).await.unwrap();
        assert_eq!((&source.blob, source.state), (&it.blob, it.state));
        assert_eq!(
            source.blob.as_str(),
            site.git(&["hash-object", "--no-filters", it.path.as_str()])
        );
    }
}

#[tokio::test]
async fn a_source_has_the_text_and_version_of_the_working_tree() {
    let site = site().await;
    let clean = site.repo.source(&path("a.md")).await.unwrap();
    assert_eq!(clean.text, "one\ntwo\nthree\n");
    assert_eq!((clean.state, clean.bytes, clean.links), (SourceState::Clean, 14, 1));
    assert_eq!(clean.head_blob.as_ref(), Some(&clean.blob));
    write(&site.top, "a.md", "mine\n");
    let modified = site.repo.source(&path("a.md")).await.unwrap();
    assert_eq!((modified.text.as_str(), modified.state), ("mine\n", SourceState::Modified));
    assert_eq!(modified.head_blob.as_ref(), Some(&clean.blob));
    assert_eq!(modified.blob, site.repo.hash_text("mine\n").await.unwrap());
    site.git(&["add", "a.md"]);
    let staged = site.repo.source(&path("a.md")).await.unwrap();
    assert_eq!((staged.state, staged.head_blob), (SourceState::Modified, modified.head_blob));
}

#[tokio::test]
async fn what_is_not_a_source_is_refused_with_the_reason() {
    let site = site_of(&[("a.md", "a\n"), ("bin.md", "a\0b"), ("code.rs", "x")]).await;
    write(&site.top, "latin.md", b"caf\xe9\n");
    write(&site.top, "untracked.md", "x");
    symlink("/etc/passwd", site.top.join("out.md")).unwrap();
    write(&site.top, "big.md", vec![b'x'; SOURCE_BYTES_MAX + 1]);
    site.git(&["add", "latin.md", "out.md", "big.md"]);
    let cases = [
        ("none.md", "source_gone", ErrorKind::NotFound),
        ("untracked.md", "not_a_source", ErrorKind::NotFound),
        ("code.rs", "not_a_source", ErrorKind::NotFound),
        ("bin.md", "not_text", ErrorKind::Invalid),
        ("latin.md", "not_text", ErrorKind::Invalid),
        ("out.md", "path_is_link", ErrorKind::Invalid),
        ("big.md", "too_large", ErrorKind::TooLarge),
    ];
    for (name, code, kind) in cases {
        let error = site.repo.source(&path(name)).await.unwrap_err();
        assert_eq!((error.code_str(), error.kind()), (code, kind), "{name}: {error}");
    }
    std::fs::remove_file(site.top.join("a.md")).unwrap();
    let error = site.repo.source(&path("a.md")).await.unwrap_err();
    assert_eq!(error.code_str(), "source_gone");
}

#[tokio::test]
async fn a_version_is_that_of_the_bytes_also_where_git_converts() {
    let site = site_of(&[("a.md", "one\ntwo\n")]).await;
    write(&site.top, ".gitattributes", "*.md text eol=crlf\n");
    std::fs::remove_file(site.top.join("a.md")).unwrap();
    site.git(&["checkout", "--", "a.md"]);
    assert_eq!(read(&site.top, "a.md"), "one\r\ntwo\r\n");
    let source = site.repo.source(&path("a.md")).await.unwrap();
    let raw = site.git(&["hash-object", "--no-filters", "a.md"]);
    assert_eq!((source.blob.as_str(), source.state), (raw.as_str(), SourceState::Clean));
    assert_ne!(source.head_blob.as_ref(), Some(&source.blob));
    let listed = site.repo.list_sources().await.unwrap();
    assert_eq!((listed[0].blob.as_str(), listed[0].state), (raw.as_str(), SourceState::Clean));
}

#[tokio::test]
async fn objects_are_read_by_their_ids() {
    let site = site().await;
    let head = site.repo.head().await.unwrap().commit;
    let entry = site.repo.blob_at(&head, &path("docs/c.md")).await.unwrap().unwrap();
    assert_eq!(entry.mode, "100644");
    assert_eq!(site.repo.read_blob(&entry.blob, 100).await.unwrap(), b"c\n");
    assert_eq!(site.repo.blob_at(&head, &path("docs")).await.unwrap(), None);
    assert_eq!(site.repo.blob_at(&head, &path("docs/none.md")).await.unwrap(), None);
    let error = site.repo.read_blob(&entry.blob, 1).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::TooLarge);
    let gone = "0123456789".repeat(4).parse().unwrap();
    assert_eq!(site.repo.read_blob(&gone, 9).await.unwrap_err().code_str(), "blob_gone");
    assert_eq!(site.repo.read_blob(&head, 999).await.unwrap_err().code_str(), "not_a_blob");
}

#[tokio::test]
async fn many_sources_are_listed_by_few_calls() {
    let names: Vec<String> = (0..5_000).map(|it| format!("d{}/n{it}.md", it % 50)).collect();
    let files: Vec<(&str, &str)> = names.iter().map(|it| (it.as_str(), "x\n")).collect();
    let many = calls_of_a_list(&site_of(&files).await, 5_000).await;
    let few = calls_of_a_list(&site().await, 3).await;
    assert_eq!(many, few, "the calls do not grow with the sources");
    assert!((1..=6).contains(&many), "{many} calls of git");
}

/// Lists all sources, and returns how often git was called for it.
async fn calls_of_a_list(site: &Site, sources: usize) -> usize {
    let (count, git) = (site.data.join("calls"), site.data.join("git"));
    std::fs::create_dir_all(&site.data).unwrap();
    let program = program();
    let script = format!("#!/bin/sh\necho x >> '{count}'\nexec '{program}' \"$@\"\n");
    write_program(&git, &script);
    let globs = ["**/*.md".to_owned()];
    let repo = Repo::open(&site.root, git, &globs, Children::new()).await.unwrap();
    let calls = || std::fs::read_to_string(&count).unwrap().lines().count();
    let before = calls();
    assert_eq!(repo.list_sources().await.unwrap().len(), sources);
    calls() - before
}

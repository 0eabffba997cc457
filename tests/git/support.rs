//! A site in a temporary folder: a repository, a database, and proposals in it.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::sync::Arc;

use camino::{Utf8Path, Utf8PathBuf};
use rusqlite::named_params;
use tempfile::TempDir;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use wiki_browser::base::{
    Actor, BlobId, Clock, Error, Ids, Millis, PersonId, SourcePath, TopicId, digest_hex,
};
use wiki_browser::documents::commit::{
    Approval, Check, Committed, Person, Settle, Trailers, commit, commit_message,
};
use wiki_browser::documents::git::Repo;
use wiki_browser::documents::proposals::attempt;
use wiki_browser::process::Children;
use wiki_browser::store::{MIGRATIONS, Store, Tx};

pub(crate) const NOW: Millis = Millis(1_767_225_600_000);

/// A site; its folder goes when it is dropped.
pub(crate) struct Site {
    pub(crate) repo: Repo,
    pub(crate) store: Store,
    pub(crate) top: Utf8PathBuf,
    pub(crate) root: Utf8PathBuf,
    pub(crate) data: Utf8PathBuf,
    ids: Ids,
    person: PersonId,
    _writer: JoinSet<()>,
    _folder: TempDir,
}

/// Every file of the working tree and of the git folder but the objects.
pub(crate) type Snapshot = BTreeMap<String, Vec<u8>>;

pub(crate) fn folder() -> (TempDir, Utf8PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = Utf8PathBuf::from_path_buf(folder.path().canonicalize().unwrap()).unwrap();
    (folder, path)
}

pub(crate) fn program() -> Utf8PathBuf {
    let path = std::env::var("PATH").unwrap();
    wiki_browser::process::which("git", &path, Utf8Path::new("/")).unwrap()
}

/// Runs git as the user would, in a clean environment; returns what it printed.
pub(crate) fn git(folder: &Utf8Path, args: &[&str]) -> String {
    let (code, printed) = try_git(folder, args);
    assert_eq!(code, 0, "git {args:?}: {printed}");
    printed
}

#[allow(clippy::disallowed_methods, reason = "a test plays the user in a terminal")]
pub(crate) fn try_git(folder: &Utf8Path, args: &[&str]) -> (i32, String) {
    let output = std::process::Command::new(program())
        .args(args)
        .current_dir(folder)
        .env_clear()
        .env("PATH", "/usr/bin:/bin")
        .env("HOME", "/nonexistent")
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .env("GIT_AUTHOR_NAME", "Una User")
        .env("GIT_AUTHOR_EMAIL", "una@example.org")
        .env("GIT_COMMITTER_NAME", "Una User")
        .env("GIT_COMMITTER_EMAIL", "una@example.org")
        .env("GIT_EDITOR", "true")
        .output()
        .unwrap();
    let mut printed = String::from_utf8_lossy(&output.stdout).into_owned();
    if !output.status.success() {
        printed.push_str(&String::from_utf8_lossy(&output.stderr));
    }
    (output.status.code().unwrap_or(-1), printed.trim_end().to_owned())
}

pub(crate) fn write(folder: &Utf8Path, name: &str, text: impl AsRef<[u8]>) {
    let path = folder.join(name);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, text).unwrap();
}

pub(crate) fn read(folder: &Utf8Path, name: &str) -> String {
    std::fs::read_to_string(folder.join(name)).unwrap()
}

/// Makes a repository on `main` with some files committed.
pub(crate) fn init(top: &Utf8Path, files: &[(&str, &str)]) {
    std::fs::create_dir_all(top).unwrap();
    git(top, &["init", "-q", "-b", "main"]);
    for (name, text) in files {
        write(top, name, text);
    }
    git(top, &["add", "-A"]);
    git(top, &["commit", "-q", "--allow-empty", "-m", "first"]);
}

pub(crate) async fn open(root: &Utf8Path) -> Result<Repo, Error> {
    open_with(root, program()).await
}

/// The same with another program for git.
pub(crate) async fn open_with(root: &Utf8Path, git: Utf8PathBuf) -> Result<Repo, Error> {
    let globs = ["**/*.md".to_owned()];
    Repo::open(root, git, &globs, Children::new()).await
}

pub(crate) fn path(text: &str) -> SourcePath {
    text.parse().unwrap()
}

/// The usual small site: `a.md`, `b.md` and `docs/c.md`, all committed.
pub(crate) async fn site() -> Site {
    site_of(&[("a.md", "one\ntwo\nthree\n"), ("b.md", "b\n"), ("docs/c.md", "c\n")]).await
}

pub(crate) async fn site_of(files: &[(&str, &str)]) -> Site {
    let (folder, base) = folder();
    let top = base.join("wiki");
    init(&top, files);
    site_in(folder, &top, &top).await
}

/// Opens a site on a repository that is there already.
pub(crate) async fn site_in(folder: TempDir, top: &Utf8Path, root: &Utf8Path) -> Site {
    let base = Utf8PathBuf::from_path_buf(folder.path().canonicalize().unwrap()).unwrap();
    site_at(folder, top, root, &base.join("data")).await
}

/// The same with the data in another folder.
pub(crate) async fn site_at(
    folder: TempDir,
    top: &Utf8Path,
    root: &Utf8Path,
    data: &Utf8Path,
) -> Site {
    let site = open_site(folder, top, root, data).await;
    let id = site.person.clone();
    let insert = "INSERT INTO persons (id, name, display_name, role, created_ms)
        VALUES (:id, 'ada', 'Ada', 'admin', 0)";
    site.store
        .write(move |tx| Ok(tx.prepare_cached(insert)?.execute(named_params! {":id": id})?))
        .await
        .unwrap();
    site
}

/// Opens a site as it is, as a restarted server does.
pub(crate) async fn open_site(
    folder: TempDir,
    top: &Utf8Path,
    root: &Utf8Path,
    data: &Utf8Path,
) -> Site {
    std::fs::create_dir_all(data).unwrap();
    let clock = Clock::fixed(NOW);
    let (store, writer) = Store::open(&data.join("wb.db"), MIGRATIONS, clock.clone()).unwrap();
    let mut tasks = JoinSet::new();
    tasks.spawn(writer.serve(CancellationToken::new()));
    let ids = Ids::new(clock);
    Site {
        repo: open(root).await.unwrap(),
        store,
        top: top.to_owned(),
        root: root.to_owned(),
        data: data.to_owned(),
        person: ids.mint(),
        ids,
        _writer: tasks,
        _folder: folder,
    }
}

impl Site {
    pub(crate) fn git(&self, args: &[&str]) -> String {
        git(&self.top, args)
    }

    /// Writes a Topic and a proposal for the Source as it is in the working tree now.
    pub(crate) async fn propose(&self, name: &str, text: &str) -> Approval {
        let base = std::fs::read_to_string(self.root.join(name)).unwrap_or_default();
        self.propose_on(name, &base, text).await
    }

    pub(crate) async fn propose_on(&self, name: &str, base: &str, text: &str) -> Approval {
        let topic_id = self.ids.mint();
        let author = Person { name: "Wiki Agent".into(), email: "agent@example.org".into() };
        let approval = Approval {
            attempt: self.ids.mint(),
            proposal_id: self.ids.mint(),
            message: message(&topic_id),
            topic_id,
            path: path(name),
            text: text.to_owned(),
            text_digest: digest_hex(text),
            base_blob: self.repo.hash_text(base).await.unwrap(),
            proposed_blob: self.repo.hash_text(text).await.unwrap(),
            approver: Actor::Person(self.person.clone()),
            committer: author.clone(),
            author,
        };
        self.insert(approval.clone()).await;
        approval
    }

    async fn insert(&self, it: Approval) {
        let person = self.person.clone();
        let work = move |tx: &Tx<'_>| {
            tx.prepare_cached(
                "INSERT INTO topics (id, source_path, is_global, status, created_by, created_ms)
                 VALUES (:id, :path, 1, 'open', 'system', 0)",
            )?
            .execute(named_params! {":id": it.topic_id, ":path": it.path})?;
            tx.prepare_cached(
                "INSERT INTO incorporation_proposals (id, topic_id, revision_number, proposed_by,
                    source_path, base_source_sha, proposed_sha, text_digest, proposed_source,
                    status, created_ms)
                 VALUES (:id, :topic, 1, :person, :path, :base, :proposed, :digest, :text,
                    'open', 0)",
            )?
            .execute(named_params! {
                ":id": it.proposal_id, ":topic": it.topic_id, ":person": person,
                ":path": it.path, ":base": it.base_blob, ":proposed": it.proposed_blob,
                ":digest": it.text_digest, ":text": it.text,
            })?;
            Ok(())
        };
        self.store.write(work).await.unwrap();
    }

    pub(crate) async fn approve(&self, approval: &Approval) -> Result<Committed, Error> {
        self.approve_settling(approval, settle()).await
    }

    /// Approves with another last transaction.
    pub(crate) async fn approve_settling(
        &self,
        approval: &Approval,
        settle: Settle,
    ) -> Result<Committed, Error> {
        commit(&self.repo, &self.store, approval.clone(), check(approval), settle).await
    }

    /// Approves while `meanwhile` runs between the dry run and the step.
    pub(crate) async fn approve_while(
        &self,
        approval: &Approval,
        meanwhile: impl Fn() + Send + Sync + 'static,
    ) -> Result<Committed, Error> {
        let plain = check(approval);
        let check: Check = Arc::new(move |tx| {
            meanwhile();
            plain(tx)
        });
        commit(&self.repo, &self.store, approval.clone(), check, settle()).await
    }

    /// Returns the state of the journal's row and of the proposal.
    pub(crate) async fn rows(&self, approval: &Approval) -> (Option<String>, String) {
        let (attempt, proposal) = (approval.attempt.clone(), approval.proposal_id.clone());
        self.store
            .read(move |connection| {
                let state = connection
                    .prepare("SELECT state FROM incorporation_attempts WHERE id = :id")?
                    .query_map(named_params! {":id": attempt}, |row| row.get(0))?
                    .next()
                    .transpose()?;
                let status = connection
                    .prepare("SELECT status FROM incorporation_proposals WHERE id = :id")?
                    .query_row(named_params! {":id": proposal}, |row| row.get(0))?;
                Ok((state, status))
            })
            .await
            .unwrap()
    }

    /// Returns what is noted beside an approval.
    pub(crate) async fn note(&self, approval: &Approval) -> Option<String> {
        let id = approval.proposal_id.clone();
        self.store.read(move |c| attempt::note(c, &id)).await.unwrap()
    }

    pub(crate) fn status(&self) -> String {
        self.git(&["status", "--porcelain=v1"])
    }

    pub(crate) fn snapshot(&self) -> Snapshot {
        let mut files = Snapshot::new();
        collect(&self.top, &self.top, &mut files);
        files
    }

    /// Asserts that an approval is refused with a code and changes nothing at all.
    pub(crate) async fn refuses(&self, approval: &Approval, code: &str) {
        let (before, kept) = (self.snapshot(), self.kept());
        let error = self.approve(approval).await.unwrap_err();
        assert_eq!(error.code_str(), code, "{}", error.chain());
        assert!(before == self.snapshot(), "a refusal changed something");
        assert_eq!(kept, self.kept(), "a refusal replaced a file");
        assert_ne!(kept, Some(Snapshot::new()), "an earlier refusal left a folder");
        let (attempt, proposal) = self.rows(approval).await;
        assert!(attempt.is_none_or(|it| it == "dropped") && proposal == "open");
        let left = std::fs::read_dir(&self.data).unwrap().flatten();
        let is_other = |name: &str| !name.starts_with("wb.db") && name != "replaced";
        let left: Vec<_> = left.filter(|it| is_other(&it.file_name().to_string_lossy())).collect();
        assert!(left.is_empty(), "{left:?}");
    }

    /// Returns the files that earlier approvals replaced; nothing if there is no folder of them.
    fn kept(&self) -> Option<Snapshot> {
        let folder = self.data.join("replaced");
        let mut files = Snapshot::new();
        folder.exists().then(|| collect(&folder, &folder, &mut files))?;
        Some(files)
    }
}

fn check(approval: &Approval) -> Check {
    let id = approval.proposal_id.clone();
    Arc::new(move |tx| {
        let status: String = tx
            .prepare_cached("SELECT status FROM incorporation_proposals WHERE id = :id")?
            .query_row(named_params! {":id": id}, |row| row.get(0))?;
        match status.as_str() {
            "open" => Ok(()),
            _ => Err(Error::conflict("already_decided", format!("proposal {id} is {status}"))),
        }
    })
}

pub(crate) fn settle() -> Settle {
    Arc::new(|tx, settled| {
        let changed = tx
            .prepare_cached(
                "UPDATE incorporation_proposals SET status = 'approved', decided_ms = :now
                 WHERE id = :id AND status = 'open'",
            )?
            .execute(named_params! {":id": settled.proposal_id, ":now": tx.now()})?;
        assert_eq!(changed, 1, "a proposal is settled once");
        tx.prepare_cached(
            "UPDATE topics SET status = 'incorporated', closed_ms = :now WHERE id = :id",
        )?
        .execute(named_params! {":id": settled.topic_id, ":now": tx.now()})?;
        Ok(())
    })
}

fn collect(top: &Utf8Path, folder: &Utf8Path, files: &mut Snapshot) {
    for entry in folder.read_dir_utf8().unwrap().flatten() {
        let (path, kind) = (entry.path(), entry.file_type().unwrap());
        let name = path.strip_prefix(top).unwrap().to_string();
        if kind.is_symlink() {
            files.insert(name, path.read_link().unwrap().into_os_string().into_encoded_bytes());
        } else if kind.is_file() {
            let mode = path.metadata().unwrap().permissions();
            let mut bytes = format!("{mode:?}\n").into_bytes();
            bytes.extend(std::fs::read(path).unwrap());
            files.insert(name, bytes);
        } else if kind.is_dir() && !name.ends_with(".git/objects") {
            collect(top, path, files);
        }
    }
}

fn message(topic: &TopicId) -> String {
    let (approver, topics) = ("Ada <ada@example.org>", [topic.clone()]);
    let trailers = Trailers { editors: &[], suggesters: &[], approver, topics: &topics };
    commit_message("Say why", None, None, &trailers).unwrap()
}

/// Writes a text under the name of another one, as whoever can write to `.git` may.
pub(crate) fn forge(top: &Utf8Path, id: &BlobId, text: &str) {
    let file = top.join("../forged");
    std::fs::write(&file, text).unwrap();
    let own = git(top, &["hash-object", "-w", "--no-filters", file.as_str()]);
    put_under(top, id, &own.parse().unwrap());
}

/// Puts an object that is there under the name of another one; its own is free then.
pub(crate) fn put_under(top: &Utf8Path, id: &BlobId, own: &BlobId) {
    let (file, own) = (loose(top, id), loose(top, own));
    std::fs::create_dir_all(file.parent().unwrap()).unwrap();
    std::fs::rename(own, file).unwrap();
}

/// Returns the file of an object that is in no pack.
pub(crate) fn loose(top: &Utf8Path, id: &BlobId) -> Utf8PathBuf {
    let (folder, name) = id.as_str().split_at(2);
    top.join(".git/objects").join(folder).join(name)
}

/// Writes a program by another one: a process that a thread beside this one starts meanwhile would
/// hold the file open for writing, and nobody could start it.
#[allow(clippy::disallowed_methods, reason = "a test writes a program")]
pub(crate) fn write_program(path: &Utf8Path, text: &str) {
    let mut writer = std::process::Command::new("/bin/sh")
        .args(["-c", "cat > \"$0\" && chmod 755 \"$0\"", path.as_str()])
        .stdin(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    writer.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    assert!(writer.wait().unwrap().success());
}

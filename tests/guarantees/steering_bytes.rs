//! G31, for files that steer agents and whose change neither a time nor git's listing tells: a
//! write through a mapping into memory, forged objects, and a rule that hides the new file.

use serde_json::json;
use sha1::Digest as _;

use crate::guarantees::looks::{WAITS, declare, is_held, told};
use crate::support::{Bench, shell, until};

/// A file of the test's own, mapped into memory to be written to.
struct Mapped(std::ptr::NonNull<std::ffi::c_void>);

const PAGE: std::num::NonZeroUsize = std::num::NonZeroUsize::new(4_096).unwrap();

#[allow(unsafe_code, reason = "there is no other way to write without setting a time")]
impl Mapped {
    fn open(path: &camino::Utf8Path) -> Mapped {
        use nix::sys::mman::{MapFlags, ProtFlags, mmap};
        let file = std::fs::File::options().read(true).write(true).open(path).unwrap();
        let access = ProtFlags::PROT_READ | ProtFlags::PROT_WRITE;
        // SAFETY: a new mapping, which nobody else knows of.
        Mapped(unsafe { mmap(None, PAGE, access, MapFlags::MAP_SHARED, &file, 0) }.unwrap())
    }

    /// Writes over the beginning of the file, which must be as long.
    fn put(&self, text: &[u8]) {
        assert!(text.len() <= PAGE.get());
        // SAFETY: it is mapped to be written to, a page long, and lives until the drop.
        unsafe { self.0.cast::<u8>().as_ptr().copy_from(text.as_ptr(), text.len()) };
    }
}

#[allow(unsafe_code, reason = "as above")]
impl Drop for Mapped {
    fn drop(&mut self) {
        // SAFETY: it was mapped with this length, and is not used any more.
        unsafe { nix::sys::mman::munmap(self.0, PAGE.get()) }.unwrap();
    }
}

/// Fails with `WB_WITHOUT=steering_bytes`.
#[test]
fn g31_what_no_time_tells_is_read() {
    use std::os::unix::fs::MetadataExt as _;
    let bench = Bench::new();
    let rules = "be good, please!\nmore\n";
    for file in ["CLAUDE.md", "docs/agent.txt", "tools/hooks/post-checkout"] {
        std::fs::create_dir_all(bench.top.join(file).parent().unwrap()).unwrap();
        bench.write(file, rules);
    }
    std::os::unix::fs::symlink("docs/agent.txt", bench.top.join("AGENTS.md")).unwrap();
    bench.git(&["config", "core.hooksPath", "tools/hooks"]);
    bench.git(&["add", "-A"]);
    bench.git(&["commit", "-q", "-m", "rules"]);
    declare(&bench, "waits", WAITS);
    declare(&bench, "next", "exit 0");
    let server = bench.serve();
    // A file of an agent, the target of a link that is one, and what git's settings name.
    for file in ["CLAUDE.md", "docs/agent.txt", "tools/hooks/post-checkout"] {
        let path = bench.top.join(file);
        let mapped = Mapped::open(&path);
        mapped.put(b"b");
        let times = || path.metadata().map(|it| (it.ctime(), it.ctime_nsec())).unwrap();
        let before = times();
        for left in ["ready", "go"] {
            std::fs::remove_file(bench.out.join(left)).ok();
        }
        let slow = bench.job("waits", json!({}));
        bench.wait_left("ready");
        // Other jobs: their looks are those that the slow one may find again.
        for _ in 0..2 {
            bench.ended(&bench.job("next", json!({})));
        }
        mapped.put(b"obey the agent!!");
        if times() != before {
            // The kernel has written the page to the disk meanwhile: an ordinary write, then.
            eprintln!("the second write has set a time");
        }
        let next = bench.job("next", json!({}));
        assert!(is_held(&bench, &next, &slow).contains(file));
        std::fs::write(bench.out.join("go"), "").unwrap();
        let ended = bench.ended(&slow);
        let named = format!("agent_files: {file} can control agents");
        assert!(told(&ended).contains(&named), "{ended:#}");
        let (code, out, err) = bench.cli(&["job", "restore", &slow]);
        assert_eq!(code, 0, "{out}{err}");
        assert_eq!(bench.read(file), rules);
        assert_eq!(bench.ended(&next)["status"], "succeeded");
    }
    server.stop();
}

/// Git's shortcut to a commit's tree is not read: nothing compares it with the commit.
#[test]
fn g31_a_false_commit_graph_hides_nothing() {
    let bench = Bench::new();
    bench.write("CLAUDE.md", "be good\n");
    bench.git(&["add", "-A"]);
    bench.git(&["commit", "-q", "-m", "rules"]);
    declare(&bench, "waits", WAITS);
    declare(&bench, "next", "exit 0");
    let server = bench.serve();
    let job = bench.job("waits", json!({}));
    bench.wait_left("ready");
    bench.write("CLAUDE.md", "obey\n");
    bench.git(&["add", "-A"]);
    let was = bytes(&bench.git(&["rev-parse", "HEAD^{tree}"]));
    let is = bytes(&bench.git(&["write-tree"]));
    bench.git(&["commit-graph", "write", "--reachable"]);
    let path = bench.top.join(".git/objects/info/commit-graph");
    let mut graph = std::fs::read(&path).unwrap();
    let place = graph.windows(20).position(|it| it == was).unwrap();
    graph[place..place + 20].copy_from_slice(&is);
    let end = graph.len() - 20;
    let sum = sha1::Sha1::digest(&graph[..end]);
    graph[end..].copy_from_slice(&sum);
    std::fs::remove_file(&path).unwrap();
    std::fs::write(&path, graph).unwrap();
    assert_eq!(bench.status(), "", "git is deceived");
    std::fs::write(bench.out.join("go"), "").unwrap();
    let named = told(&bench.ended(&job));
    assert!(named.contains("agent_files: CLAUDE.md can control"), "{named}");
    is_held(&bench, &bench.job("next", json!({})), &job);
    server.stop();
}

/// Returns the bytes of an object's id.
fn bytes(id: &str) -> Vec<u8> {
    let id = id.trim();
    (0..id.len()).step_by(2).map(|at| u8::from_str_radix(&id[at..at + 2], 16).unwrap()).collect()
}

/// Puts the object of what the job has staged under the name of another one.
const FORGES: &str = "forge() { chmod u+w .git/objects/$(echo $1 | sed 's|..|&/|'); \
                      cp .git/objects/$(echo $2 | sed 's|..|&/|') \
                      .git/objects/$(echo $1 | sed 's|..|&/|'); }\n\
                      echo obey > docs/CLAUDE.md; git add docs/CLAUDE.md; new=$(git write-tree)\n";

/// Fails with `WB_WITHOUT=object_proof`.
#[test]
fn g31_a_commit_that_is_forged_hides_nothing() {
    let bench = Bench::new();
    bench.write("docs/CLAUDE.md", "be good\n");
    bench.git(&["add", "-A"]);
    bench.git(&["commit", "-q", "-m", "rules"]);
    let tree = format!("{FORGES}forge $(git rev-parse HEAD:docs) $(git rev-parse $new:docs)");
    let commit = format!("{FORGES}forge $(git rev-parse HEAD) $(git commit-tree -m x $new)");
    declare(&bench, "tree", &tree);
    declare(&bench, "commit", &commit);
    declare(&bench, "next", "exit 0");
    let server = bench.serve();
    for (kind, object) in [("tree", "HEAD:docs"), ("commit", "HEAD")] {
        let id = bench.git(&["rev-parse", object]);
        let (id, file) = (id.trim(), bench.top.join(".git/objects"));
        let file = file.join(&id[..2]).join(&id[2..]);
        let good = std::fs::read(&file).unwrap();
        let job = bench.job(kind, json!({}));
        let ended = bench.ended(&job);
        assert_eq!(bench.status(), "", "git is deceived");
        let named = told(&ended);
        assert!(named.contains("touched_git: ") && named.contains(id), "{kind}: {named}");
        let next = bench.job("next", json!({}));
        is_held(&bench, &next, &job);
        // Once the object is what it was, the edit is named, and can be put back.
        std::fs::write(&file, good).unwrap();
        until("the edit is named", || {
            bench.show(&next)["waiting"]["message"].to_string().contains("docs/CLAUDE.md")
        });
        let (code, out, err) = bench.cli(&["job", "restore", &job]);
        assert_eq!(code, 0, "{kind}: {out}{err}");
        assert_eq!(bench.read("docs/CLAUDE.md"), "be good\n");
        assert_eq!(bench.ended(&next)["status"], "succeeded");
    }
    server.stop();
}

/// Fails with `WB_WITHOUT=steering_bytes`.
#[test]
fn g31_what_git_ignores_is_read_and_not_kept() {
    let bench = Bench::new();
    bench.write(".gitignore", "data/\nwiki-browser.lua\n.env\nnode_modules/\n");
    bench.write(".env", "KEY=of-a-person\n");
    bench.git(&["add", "-A"]);
    bench.git(&["commit", "-q", "-m", "rules"]);
    declare(&bench, "installs", "mkdir -p node_modules/x; echo hi > node_modules/x/AGENTS.md");
    declare(&bench, "hides", "echo CLAUDE.md >> .gitignore; echo obey > CLAUDE.md");
    declare(
        &bench,
        "excludes",
        "echo .claude >> .git/info/exclude; mkdir -p .claude/agents; echo x > .claude/agents/a.md",
    );
    declare(&bench, "edits", "echo OTHER=1 >> .env");
    declare(&bench, "next", "exit 0");
    let server = bench.serve();
    // What is installed instructs nobody here.
    assert_eq!(bench.ended(&bench.job("installs", json!({})))["warnings"], json!([]));
    for (kind, file) in [("hides", "CLAUDE.md"), ("excludes", ".claude/agents/a.md")] {
        let job = bench.job(kind, json!({}));
        let named = told(&bench.ended(&job));
        assert!(named.contains(&format!("agent_files: {file} can control")), "{named}");
        let next = bench.job("next", json!({}));
        assert!(is_held(&bench, &next, &job).contains(file));
        let (code, out, err) = bench.cli(&["job", "restore", &job]);
        assert_eq!(code, 0, "{out}{err}");
        assert!(!bench.top.join(file).exists(), "{file}");
        assert_eq!(bench.ended(&next)["status"], "succeeded");
    }
    // An ignored file of a person is compared, and its text is stored nowhere.
    let job = bench.job("edits", json!({}));
    let named = told(&bench.ended(&job));
    assert!(named.contains("agent_files: .env can control"), "{named}");
    let (code, _, err) = bench.cli(&["job", "restore", &job]);
    assert!(code == 5 && err.contains("its earlier text was not kept"), "{code} {err}");
    assert_eq!(bench.cli(&["job", "keep", &job]).0, 0);
    assert_eq!(bench.ended(&bench.job("next", json!({})))["status"], "succeeded");
    let stored = shell(&format!(
        "cd '{}' && grep -rl of-a-person data/kept; git log --all -p --format= -- .env",
        bench.top
    ));
    assert_eq!(stored, "");
    server.stop();
}

/// What git ignores takes no room from what a person has, and cannot be hidden by its number.
#[test]
fn g31_many_ignored_files_hide_nothing_and_cost_nothing() {
    let bench = Bench::new();
    bench.write(".gitignore", "data/\nwiki-browser.lua\nnode_modules/\n.claude/\n");
    bench.git(&["commit", "-q", "-am", "rules"]);
    let modules = bench.top.join("skills/pdf/node_modules");
    std::fs::create_dir_all(&modules).unwrap();
    for number in 0..2_100 {
        std::fs::write(modules.join(format!("{number}.js")), "x").unwrap();
    }
    bench.write("notes.md", "# Notes\n\nMine, not committed.\n");
    declare(&bench, "overwrites", "echo gone > notes.md");
    declare(
        &bench,
        "floods",
        "mkdir -p .agents .claude/commands; echo obey > .claude/commands/e.md; cd .agents; \
         seq 1 20001 | xargs mkdir",
    );
    declare(&bench, "next", "exit 0");
    let server = bench.serve();
    let job = bench.job("overwrites", json!({}));
    bench.ended(&job);
    let (code, out, err) = bench.cli(&["job", "restore", &job]);
    assert_eq!(code, 0, "{out}{err}");
    assert_eq!(bench.read("notes.md"), "# Notes\n\nMine, not committed.\n");
    let job = bench.job("floods", json!({}));
    let named = told(&bench.ended(&job));
    assert!(named.contains("agent_files: .agents, .claude/commands/e.md can control"), "{named}");
    is_held(&bench, &bench.job("next", json!({})), &job);
    // A folder that nobody has searched is not removed.
    let (code, _, err) = bench.cli(&["job", "restore", &job]);
    assert!(code == 5 && err.contains("more names than can be searched"), "{code} {err}");
    server.stop();
}

/// What steers an agent or git through several links, or settings that include further ones.
#[test]
fn g31_what_links_and_settings_lead_to_is_watched() {
    let bench = Bench::new();
    bench.write(".gitignore", "data/\nwiki-browser.lua\nown/\n");
    shell(&format!(
        "cd '{}' && mkdir -p .claude tools/hooks lib/x skills cmds notes own/deep && \
         for it in tools/hooks/pre-commit tools/b lib/x/helper.py notes/e.md own/deep/f; do \
         echo good > $it; done && \
         ln -s ../skills .claude/skills && ln -s ../lib/x skills/x && \
         ln -s ../cmds .claude/commands && ln -s ../notes/e.md cmds/e.md && \
         ln -s ../own/deep/f cmds/f.md && \
         ln -s ../../tools/hooks/pre-commit .git/hooks/pre-commit && \
         printf '[include]\\n\\tpath = b\\n' > tools/gitcfg && : > tools/b && \
         mkdir -p .husky/_ && echo good > .husky/pre-push && echo good > 'tools/a.sh' && \
         echo good > .husky/_/h && git config core.hooksPath .husky/_ && \
         git config alias.zz '!f() {{ sh tools/a.sh; }}; f' && \
         mkdir -p bin tpl/hooks pkg && for it in bin/in.sh bin/found.sh bin/Makefile run \
         tpl/hooks/post-checkout pkg/__main__.py; do echo good > $it; done && \
         git config alias.in '!cd bin && ./in.sh' && git config alias.make '!make -C bin x' && \
         git config alias.path '!PATH=./bin:$PATH found.sh' && git config alias.sh '!sh run' && \
         git config alias.py '!python3 pkg' && git config init.templateDir \"$PWD/tpl\" && \
         git config include.path ../tools/gitcfg",
        bench.top
    ));
    bench.git(&["add", "-A"]);
    bench.git(&["commit", "-q", "--no-verify", "-m", "rules"]);
    let edited = [
        "tools/hooks/pre-commit",
        "tools/b",
        "tools/a.sh",
        ".husky/pre-push",
        "lib/x/helper.py",
        "notes/e.md",
        "own/deep/f",
        "bin/in.sh",
        "bin/Makefile",
        "bin/found.sh",
        "run",
        "pkg/__main__.py",
        "tpl/hooks/post-checkout",
    ];
    let name = |file: &str| format!("edits-{}", file.replace(['/', '.'], "-").to_lowercase());
    for file in edited {
        declare(&bench, &name(file), &format!("echo '# obey' >> {file}"));
    }
    declare(&bench, "links", "ln -s ../notes skills/y");
    declare(&bench, "plants", "git init -q docs; git -C docs config core.fsmonitor evil");
    let server = bench.serve();
    for file in edited {
        let job = bench.job(&name(file), json!({}));
        let named = told(&bench.ended(&job));
        assert!(named.contains(&format!("agent_files: {file} can control")), "{file}: {named}");
        // The text of an ignored file was not kept.
        let decision = if file.starts_with("own/") { "keep" } else { "restore" };
        let (code, out, err) = bench.cli(&["job", decision, &job]);
        assert_eq!(code, 0, "{file}: {out}{err}");
    }
    let links = bench.job("links", json!({}));
    let named = told(&bench.ended(&links));
    assert!(named.contains("agent_files: skills/y can control"), "{named}");
    assert_eq!(bench.cli(&["job", "restore", &links]).0, 0);
    // A repository in a folder of ours: git would run its settings there, and the site open it.
    let named = told(&bench.ended(&bench.job("plants", json!({}))));
    assert!(named.contains("agent_files: docs/.git, docs/.git/config can control"), "{named}");
    server.stop();
}

/// A folder in which git finds `HEAD`, `objects` and `refs` is a repository: it reads the settings.
#[test]
fn g31_a_repository_without_a_working_tree_of_its_own_is_watched() {
    let bench = Bench::new();
    for folder in ["docs", "notes"] {
        std::fs::create_dir_all(bench.top.join(folder)).unwrap();
        bench.write(&format!("{folder}/a.md"), "a\n");
    }
    bench.git(&["add", "-A"]);
    bench.git(&["commit", "-q", "-m", "documents"]);
    let plant = "mkdir -p objects refs; echo 'ref: refs/heads/main' > HEAD; \
                 printf '[core]\\nbare = false\\nworktree = .\\nfsmonitor = evil\\n' > config";
    declare(&bench, "plants", &format!("cd docs && {plant}"));
    declare(&bench, "hides", &format!("cd notes && {plant} && echo '*' > .gitignore"));
    let server = bench.serve();
    for (kind, folder) in [("plants", "docs"), ("hides", "notes")] {
        let job = bench.job(kind, json!({}));
        let named = told(&bench.ended(&job));
        let expected = format!("agent_files: {folder}/HEAD, {folder}/config can control");
        assert!(named.contains(&expected), "{named}");
        let (code, out, err) = bench.cli(&["job", "restore", &job]);
        assert_eq!(code, 0, "{out}{err}");
        for file in ["HEAD", "config"] {
            assert!(!bench.top.join(folder).join(file).exists(), "{folder}/{file}");
        }
    }
    server.stop();
}

/// A `commondir` in git's folder leads to another repository, to which an approval would go.
#[test]
fn g31_a_repository_is_not_exchanged_for_another() {
    let bench = Bench::new();
    let divert = "cp -r .git \"$WB_SITE/ev\" && echo \"$WB_SITE/ev\" > .git/commondir";
    declare(&bench, "diverts", &divert.replace("$WB_SITE", bench.out.as_str()));
    let link =
        format!("cp -r .git '{0}/copy' && mv .git '{0}/old' && ln -s '{0}/copy' .git", bench.out);
    declare(&bench, "links", &link);
    let server = bench.serve();
    let before = bench.git(&["rev-parse", "HEAD"]);
    let job = bench.job("diverts", json!({}));
    let named = told(&bench.ended(&job));
    assert!(named.contains("agent_files: .git/commondir can control"), "{named}");
    let (code, out, err) = bench.cli(&["job", "restore", &job]);
    assert_eq!(code, 0, "{out}{err}");
    assert!(!bench.top.join(".git/commondir").exists());
    assert_eq!(bench.git(&["rev-parse", "HEAD"]), before);
    // The same by a link in its place.
    let linked = bench.job("links", json!({}));
    let named = told(&bench.ended(&linked));
    assert!(named.contains("agent_files: .git can control"), "{named}");
    std::fs::remove_file(bench.top.join(".git")).unwrap();
    std::fs::rename(bench.out.join("old"), bench.top.join(".git")).unwrap();
    assert_eq!(bench.git(&["rev-parse", "HEAD"]), before);
    server.stop();
}

//! Files that steer agents are read at each look, whatever git says of them.
//!
//! Git reads a tracked file again only if its times have changed. They do not always: through a
//! mapping into memory, only the first write to a page sets them until the page is on the disk. And
//! what git ignores it does not list, while a job can write the rule that ignores its own file.
//!
//! **Invariant:** whether a file that steers agents is as it was depends on its bytes and mode, in
//! each folder that holds anything that git tracks or lists. Folders that git ignores as a whole,
//! such as those of installed packages, are not searched.

use std::collections::{BTreeSet, VecDeque};

use camino::Utf8Path;

use crate::base::limit::SOURCE_BYTES_MAX;
use crate::base::{AGENT_NAMES, ErrorKind, Result, fault, is_agent_file, links_skills, may_steer};
use crate::documents::git::{Checkout, Repo, blocking};
use crate::documents::snapshot::own_index::Listed;
use crate::documents::snapshot::status::{self, Found, Status};
use crate::documents::snapshot::steering::followed;
use crate::documents::snapshot::{GIT, Staged, Steering, name};
use crate::process::{Root, Standing};

/// Most folders searched for ignored files; those nearest to the top come first.
const FOLDERS_MAX: usize = 100_000;
/// Most names listed in a folder; in a larger one, only the usual spellings are looked for.
const NAMES_MAX: usize = 1_000;
/// Most names searched in the folders of agents, and in what is named.
const WITHIN_MAX: usize = 20_000;
/// Most times that links are followed to further ones.
const ROUNDS_MAX: usize = 16;
/// By what git knows a repository in a folder.
const REPOSITORY: [&str; 5] = [".git", "HEAD", "objects", "refs", "commondir"];
/// What stands for the folders that are not searched.
const ELSEWHERE: &str = "(further folders)";
/// Where agents put worktrees, in their own folder: other checkouts, whose files steer nobody here.
const WORKTREES: &str = "worktrees";

/// A tracked file with its bytes, if only they are not those of its entry.
type Other = (String, Staged, Option<Vec<u8>>);

impl Repo {
    /// Marks the tracked files that steer agents and that are not as indexed, although git has not
    /// said so. `named` are files and folders by which a script steers its agents.
    pub(super) async fn read_steering(&self, status: &mut Status, named: &[String]) -> Result<()> {
        if fault::is_off("steering_bytes") {
            return Ok(());
        }
        let listed = self.listed().await?;
        let is_told = |path: &str| status.paths.get(path).is_some_and(|it| !it.is_work_as_indexed);
        let asked = listed.steering(named)?;
        let asked: Vec<_> = asked.into_iter().filter(|it| !is_told(&it.0)).collect();
        let repo = self.clone();
        let others = blocking(move || repo.others(asked)).await??;
        // What a filter has made is never as indexed, and is listed if it is an agent's.
        let named: BTreeSet<String> = others.iter().map(|it| it.0.clone()).collect();
        let made = self.checkouts(&named, None).await?;
        let is_made = |it: &str| made.get(it) == Some(&Checkout::Filtered) && !is_agent_file(it);
        for (path, staged, bytes) in others.into_iter().filter(|it| !is_made(&it.0)) {
            // It may have been converted when it was checked out.
            if let Some(bytes) = bytes
                && self.cleaned(&path, &bytes, None).await? == staged.spot.blob
            {
                continue;
            }
            let found = Found {
                head: Some(staged.spot.clone()),
                index: vec![staged],
                is_work_as_indexed: false,
            };
            status.paths.entry(path).or_insert(found).is_work_as_indexed = false;
        }
        Ok(())
    }

    /// Finds what steers agents: `named` by the script, by git's settings, behind links, and the
    /// files that git neither tracks nor lists. `own` is our data folder, with a trailing `/`.
    pub(super) async fn find_steering(
        &self,
        status: &Status,
        named: &[String],
        own: Option<String>,
    ) -> Result<Steering> {
        let mut found = Steering { named: named.to_vec(), ..Steering::default() };
        if fault::is_off("steering_bytes") {
            return Ok(found);
        }
        let mut of_git = Vec::new();
        match self.named_by_settings().await {
            // Git's own files are read with the others of git's.
            Ok(more) => {
                let is_own = |it: &String| Utf8Path::new(it).starts_with(GIT);
                let (git, tree): (Vec<_>, Vec<_>) = more.into_iter().partition(is_own);
                found.named.extend(tree);
                of_git = git;
            }
            // Its file is compared all the same.
            Err(cause) => tracing::debug!("git's settings cannot be read: {}", cause.chain()),
        }
        let (listed, top) = (self.listed().await?, self.git().folder().to_owned());
        let is_loose = |it: &Found| it.index.is_empty() || !it.is_work_as_indexed;
        let loose = status.paths.iter().filter(|it| is_loose(it.1)).map(|it| it.0.clone());
        let loose: BTreeSet<String> = loose.collect();
        let known: BTreeSet<String> = status.paths.keys().cloned().collect();
        blocking(move || {
            let root = Root::open(&top)?;
            let links = listed.links().chain(loose).collect();
            let mut search = Search { top: root, own, left: WITHIN_MAX, found, links };
            search.folders_of(&listed, &known);
            search.follow(&top);
            let mut found = search.end(&listed, &known);
            found.named.extend(of_git);
            Ok(found)
        })
        .await?
    }

    /// Returns the files whose bytes or modes are not those of their entry.
    fn others(&self, asked: Vec<(String, Staged)>) -> Result<Vec<Other>> {
        let top = Root::open(self.git().folder())?;
        let mut others = Vec::new();
        for (path, staged) in asked {
            let blob = &staged.spot.blob;
            let is_link = staged.spot.mode == "120000";
            let bytes = match top.standing(name::path(&path), SOURCE_BYTES_MAX)? {
                Standing::Nothing => None,
                Standing::Link { target } if is_link && self.hash(target.as_bytes()) == *blob => {
                    continue;
                }
                Standing::Link { .. } => None,
                // Git may have been told not to look at modes (`core.filemode`).
                Standing::File { mode, .. } if !is_link && is_other_mode(&staged, mode) => None,
                Standing::File { bytes, .. } if !is_link && self.hash(&bytes) == *blob => continue,
                Standing::File { bytes, .. } => (!is_link).then_some(bytes),
                // Too large, or closed to us: its facts are compared.
                Standing::Other { .. } => continue,
            };
            others.push((path, staged, bytes));
        }
        Ok(others)
    }
}

impl Listed {
    /// Returns the entries of files that steer agents.
    fn steering(&self, named: &[String]) -> Result<Vec<(String, Staged)>> {
        let is_in = |path: &str, it: &String| {
            let rest = path.strip_prefix(it.as_str());
            rest.is_some_and(|it| it.is_empty() || it.starts_with('/'))
        };
        let mut found = Vec::new();
        for record in self.records().filter(|it| !it.starts_with(b"160000 ")) {
            let path = name::shown(status::path_of(record));
            if self.steering.contains(&*path) || named.iter().any(|it| is_in(&path, it)) {
                // In the format of a listing with tags.
                let (path, staged) = status::entry(&[b"H ", record].concat())?;
                if staged.stage == 0 {
                    found.push((path, staged));
                }
            }
        }
        Ok(found)
    }
}

/// Returns whether a file can be executed and its entry cannot, or the other way round.
fn is_other_mode(staged: &Staged, mode: u32) -> bool {
    (staged.spot.mode == "100755") != (mode & 0o111 != 0)
}

/// Returns the folders that hold something that git tracks or lists, nearest to the top first.
fn folders(listed: &Listed, known: &BTreeSet<String>) -> Vec<String> {
    let mut found: BTreeSet<(usize, String)> = BTreeSet::from([(0, String::new())]);
    let mut last = String::new();
    let mut note = |path: &str| {
        let folder = path.rsplit_once('/').map_or("", |it| it.0);
        if folder == last {
            return;
        }
        for (depth, (at, _)) in path.match_indices('/').enumerate() {
            found.insert((depth + 1, path[..at].to_owned()));
        }
        folder.clone_into(&mut last);
    };
    listed.records().for_each(|it| note(&name::shown(status::path_of(it))));
    // A nested repository is listed with a slash, and looked at by itself.
    known.iter().for_each(|it| note(it.trim_end_matches('/')));
    found.into_iter().take(FOLDERS_MAX).map(|it| it.1).collect()
}

struct Search {
    top: Root,
    own: Option<String>,
    left: usize,
    found: Steering,
    /// Paths that may be links.
    links: BTreeSet<String>,
}

impl Search {
    /// Searches the folders that hold something that git tracks or lists.
    fn folders_of(&mut self, listed: &Listed, known: &BTreeSet<String>) {
        let found = folders(listed, known);
        if found.len() == FOLDERS_MAX {
            self.found.large.push(ELSEWHERE.to_owned());
        }
        let mut entries = Vec::new();
        for folder in &found {
            let names = self.names(folder);
            let is_own = self.own.as_ref().is_some_and(|own| format!("{folder}/").starts_with(own));
            if !folder.is_empty() && !is_own {
                self.repository_in(folder, &names);
            }
            entries
                .extend(names.into_iter().filter(|it| may_steer(it)).map(|it| join(folder, &it)));
        }
        self.take(entries, is_agent_file);
    }

    /// Notes a repository that somebody has put into a folder: git runs its settings there, and
    /// the site may open it at its next start. Git lists one of the usual form nowhere.
    fn repository_in(&mut self, folder: &str, names: &[String]) {
        let has = |name: &str| names.iter().any(|it| it == name);
        if has(".git") {
            for name in [".git", ".git/config", ".git/config.worktree", ".git/commondir"] {
                let path = join(folder, name);
                let standing = self.top.standing(name::path(&path), 0);
                if !matches!(standing, Ok(Standing::Nothing) | Err(_)) {
                    self.found.ignored.push(path);
                }
            }
        }
        // One without a working tree of its own is listed, file by file, unless it is ignored.
        if has("HEAD") && (has("objects") || has("refs") || has("commondir")) {
            let parts = ["HEAD", "config", "config.worktree", "commondir"];
            self.found.named.extend(parts.map(|it| join(folder, it)));
        }
    }

    /// Searches what is named, and what the links lead to that steer agents, and so on.
    fn follow(&mut self, top: &Utf8Path) {
        self.left = WITHIN_MAX;
        let mut known: BTreeSet<String> = BTreeSet::new();
        let mut new: Vec<String> = std::mem::take(&mut self.found.named);
        for _ in 0..ROUNDS_MAX {
            new.retain(|it| known.insert(it.clone()));
            self.take(new, |_| true);
            let is_in = |it: &str| it.match_indices('/').any(|(at, _)| known.contains(&it[..at]));
            let steers = |it: &&String| {
                is_agent_file(it) || links_skills(it) || known.contains(*it) || is_in(it)
            };
            let targets = self.links.iter().filter(steers).flat_map(|it| followed(top, it));
            new = targets.filter(|it| !known.contains(it)).collect();
            if new.is_empty() {
                break;
            }
        }
        self.found.named = known.into_iter().collect();
    }

    /// Returns what was found, without what git tracks or lists; nearest to the top first.
    fn end(self, listed: &Listed, known: &BTreeSet<String>) -> Steering {
        let mut ignored: BTreeSet<String> = self.found.ignored.into_iter().collect();
        ignored.retain(|it| !known.contains(it));
        if !ignored.is_empty() {
            for record in listed.records() {
                ignored.remove(&*name::shown(status::path_of(record)));
            }
        }
        let mut ignored: Vec<String> = ignored.into_iter().collect();
        ignored.sort_by_cached_key(|it| (it.matches('/').count(), it.clone()));
        Steering { ignored, ..self.found }
    }

    /// Returns the names in a folder that may steer agents, or be of a repository.
    fn names(&self, folder: &str) -> Vec<String> {
        let place = if folder.is_empty() { ".".into() } else { name::path(folder) };
        let listed = self.top.raw_names(&place, NAMES_MAX);
        let Ok(listed) = listed else {
            return AGENT_NAMES.iter().chain(&REPOSITORY).map(|it| (*it).to_owned()).collect();
        };
        let mut names: Vec<String> = listed.iter().map(|it| name::shown(it).into_owned()).collect();
        names.retain(|it| may_steer(it) || REPOSITORY.contains(&it.as_str()));
        names.sort_unstable();
        names
    }

    /// Notes files, and those in folders, nearest to the top first.
    fn take(&mut self, paths: Vec<String>, is_wanted: fn(&str) -> bool) {
        let mut paths = VecDeque::from(paths);
        while let Some(path) = paths.pop_front() {
            let is_own = |own: &String| format!("{path}/").starts_with(own.as_str());
            if self.own.as_ref().is_some_and(is_own) {
                continue;
            }
            match self.top.standing(name::path(&path), 0) {
                Ok(Standing::Nothing) | Err(_) => {}
                Ok(Standing::Other { facts }) if facts.starts_with("folder") => {
                    paths.extend(self.within(&path));
                }
                Ok(standing) => {
                    let is_link = matches!(standing, Standing::Link { .. });
                    if is_link {
                        self.links.insert(path.clone());
                    }
                    if is_wanted(&path) || (is_link && links_skills(&path)) {
                        self.found.ignored.push(path);
                    }
                }
            }
        }
    }

    /// Returns what is in a folder.
    fn within(&mut self, folder: &str) -> Vec<String> {
        let mut names = match self.top.raw_names(name::path(folder), self.left) {
            Ok(names) => names,
            Err(cause) if cause.kind() == ErrorKind::TooLarge => {
                self.found.large.push(folder.to_owned());
                return Vec::new();
            }
            // Closed to us, or gone meanwhile.
            Err(_) => return Vec::new(),
        };
        self.left -= names.len();
        names.sort_unstable();
        let is_agents = is_agent_file(folder.rsplit('/').next().unwrap_or_default());
        let names = names.iter().map(|it| name::shown(it));
        let names = names.filter(|it| it != ".git" && !(is_agents && it == WORKTREES));
        names.map(|it| join(folder, &it)).collect()
    }
}

fn join(folder: &str, name: &str) -> String {
    if folder.is_empty() { name.to_owned() } else { format!("{folder}/{name}") }
}

//! Restores what changed while a job ran, and nothing else.
//!
//! Each change is compared with the current state when planning, and again when restoring: later
//! edits stay. Before anything is written, the job's result is stored in the repository
//! (`refs/wiki-browser/jobs/ID/after`), so that the restore can be undone too. Every step is
//! repeatable: after a crash the remaining changes can still be restored.

use std::collections::BTreeMap;

use crate::api::changes::{Item, Outcome};
use crate::base::limit::SOURCE_BYTES_MAX;
use crate::base::{Error, JobId, Result, fault};
use crate::documents::changes::attributes::End;
use crate::documents::changes::modes::ModeSince;
use crate::documents::changes::plan::{FOLDER, Plan, Present, Want, clash, plain, want_of};
use crate::documents::changes::spare::spare_of;
use crate::documents::changes::{Changes, FileChange, PrivateChange, RefChange, aside, astray};
use crate::documents::git::{Repo, blocking};
use crate::documents::snapshot::{
    GIT, Kept, STASH, Snapshot, Staged, Work, git_root, is_removable, link_at, name,
};
use crate::process::{Root, Standing};

/// The files whose settings decide how git converts others.
const CONVERT: [&str; 3] = [".git/config", ".git/config.worktree", ".git/info/attributes"];

/// A request to restore changes.
#[derive(Clone, Debug)]
pub struct Wish {
    /// The job.
    pub job: JobId,
    /// Names of the changes to restore; if empty, all of them or nothing.
    pub names: Vec<String>,
    /// Whether all of them includes branches that got commits.
    pub with_commits: bool,
    /// Whether this is only a dry run.
    pub is_rehearsal: bool,
}

impl Changes {
    /// Restores the changes that `wish` selects.
    ///
    /// # Errors
    /// `conflict` with code `changed_since` or `not_kept` if all were requested and one cannot be
    /// restored: nothing was changed then. `not_found` with code `no_change` for a name without a
    /// change. `conflict` with code `planted_repository` if git would write elsewhere. Errors of
    /// git or the disk: some changes may then be restored, and repeating the request restores the
    /// rest.
    pub async fn restore(&self, repo: &Repo, kept: &Kept, wish: &Wish) -> Result<Plan> {
        let (_turn, _still) = match wish.is_rehearsal {
            true => (None, Some(repo.stillness().await)),
            false => (Some(repo.turn_to_restore().await?), None),
        };
        self.refuse_unknown(&wish.names)?;
        if !wish.is_rehearsal {
            self.clear_spares(repo, kept, &wish.job).await?;
        }
        let mut present = Present::of(repo, self, (kept, &wish.job)).await?;
        let is_wanted = |it: &Item| {
            wish.names.is_empty() || wish.names.iter().any(|name| is_named(&it.name, name))
        };
        let mut plan = self.plan(repo, &mut present, is_wanted).await?;
        plan.items.retain(is_wanted);
        present.refuse_folders(self, &mut plan).await?;
        present.refuse_clashes(self, &mut plan);
        if wish.names.is_empty() && !wish.with_commits {
            present.leave_commits(repo, self, &mut plan).await?;
        }
        if wish.is_rehearsal {
            return Ok(plan);
        }
        self.refuse_astray(repo, &wish.job, is_removable).await?;
        self.refuse_linked_aside(repo, &wish.job, &plan).await?;
        if wish.names.is_empty() && !fault::is_off("restore_compare") {
            refuse_in_part(&plan, self, &wish.job)?;
        }
        if !self.is_held {
            // It could not be stored after the job: perhaps there was another repository.
            self.store_contents(repo, kept).await?;
        }
        let expected = BTreeMap::new();
        let putting = Putting { repo, kept, changes: self, present, job: &wish.job, expected };
        let put = putting.all(&mut plan).await;
        let now = repo.look_within(kept, &[]).await;
        if let Ok(now) = &now {
            repo.looks().amend(|before| self.amend(before, now, &plan));
        }
        put.map_err(|cause| half_way(cause, &plan, wish))?;
        now.map(|_| plan)
    }

    async fn plan(
        &self,
        repo: &Repo,
        present: &mut Present,
        is_wanted: impl Fn(&Item) -> bool,
    ) -> Result<Plan> {
        let mut items = Vec::new();
        if let Some((was, is)) = &self.folder {
            items.push(astray::repository(repo, was, is).await?);
        }
        for it in &self.private {
            items.push(present.private(repo, it).await?);
        }
        present.is_settings_due = items
            .iter()
            .any(|it| CONVERT.contains(&it.name.as_str()) && is_put(it) && is_wanted(it));
        items.extend(self.tip.iter().map(|it| present.head(it)));
        for it in &self.refs {
            items.push(present.branch(repo, it).await?);
        }
        for it in &self.files {
            items.push(present.file(repo, it).await?);
        }
        Ok(Plan { items })
    }

    fn refuse_unknown(&self, names: &[String]) -> Result<()> {
        let all = self.names();
        match names.iter().find(|name| !all.iter().any(|it| is_named(it, name))) {
            None => Ok(()),
            Some(name) => {
                let shown = crate::base::truncate_chars(name, 120);
                Err(Error::not_found(format!("nothing named {shown} changed during the job"))
                    .code("no_change")
                    .hint("list the changes: `wiki-browser job show`"))
            }
        }
    }

    fn names(&self) -> Vec<String> {
        let private = self.private.iter().map(|it| format!(".git/{}", it.name));
        let head = self.tip.iter().map(|_| "HEAD".to_owned());
        let refs = self.refs.iter().map(|it| it.name.clone());
        let files = self.files.iter().map(|it| it.path.clone());
        let folder = self.folder.iter().map(|_| GIT.to_owned());
        folder.chain(private).chain(head).chain(refs).chain(files).collect()
    }

    /// Adds the restored state to the snapshot of a job that is running: it is not that job's
    /// doing.
    fn amend(&self, before: &mut Snapshot, now: &Snapshot, plan: &Plan) {
        let is_done = |name: &str| {
            let is = |it: &&Item| it.name == name && it.outcome == Outcome::Restored;
            plan.items.iter().find(is).is_some()
        };
        if is_done("HEAD") {
            before.tip = now.tip.clone();
        }
        for it in self.refs.iter().filter(|it| is_done(&it.name)) {
            swap(&mut before.refs, &now.refs, &it.name);
            if before.tip.branch.as_ref() == Some(&it.name) {
                before.tip.commit = now.refs.get(&it.name).cloned();
            }
            if it.name == STASH {
                before.stash.clone_from(&now.stash);
            }
        }
        for it in self.files.iter().filter(|it| is_done(&it.path)) {
            swap(&mut before.paths, &now.paths, &it.path);
        }
        for it in self.private.iter().filter(|it| is_done(&format!(".git/{}", it.name))) {
            swap(&mut before.private, &now.private, &it.name);
        }
    }
}

fn swap<T: Clone>(
    into: &mut std::collections::BTreeMap<String, T>,
    from: &std::collections::BTreeMap<String, T>,
    name: &str,
) {
    match from.get(name) {
        Some(it) => into.insert(name.to_owned(), it.clone()),
        None => into.remove(name),
    };
}

/// Branches may be named by their short name.
fn is_named(own: &str, asked: &str) -> bool {
    own == asked || own.strip_prefix("refs/heads/") == Some(asked)
}

fn refuse_in_part(plan: &Plan, changes: &Changes, job: &JobId) -> Result<()> {
    if changes.more > 0 {
        let message = format!("more changed while job {job} ran than can be put back by itself");
        return Err(Error::conflict("not_kept", message).hint(format!(
            "all of it is in refs/wiki-browser/jobs/{job}/before; see `git diff` against it"
        )));
    }
    let refused = |it: &&Item| matches!(it.outcome, Outcome::ChangedSince | Outcome::NotKept);
    let all: Vec<&Item> = plan.items.iter().filter(refused).collect();
    let Some(first) = all.first() else { return Ok(()) };
    let more = match all.len() {
        1 => String::new(),
        count => format!(" (and {} more)", count - 1),
    };
    let why = first.why.as_deref().unwrap_or_default();
    let (code, message) = match first.outcome {
        Outcome::NotKept => ("not_kept", format!("{} cannot be put back: {why}", first.name)),
        _ => ("changed_since", format!("{} was changed since the job: {why}", first.name)),
    };
    let hint = format!(
        "nothing was touched; `wiki-browser job restore {job} --dry-run` lists what can be put \
         back, and names behind the id choose from it"
    );
    Err(Error::conflict(code, format!("{message}{more}")).hint(hint))
}

/// Says how far it came: what is put back stays so.
fn half_way(cause: Error, plan: &Plan, wish: &Wish) -> Error {
    let done = plan.items.iter().filter(|it| it.outcome == Outcome::Restored).count();
    if done == 0 {
        return cause;
    }
    let rest = plan.items.iter().filter(|it| is_put(it)).count();
    let message = format!("{} ({done} changes were put back before, {rest} not)", cause.message());
    let option = if wish.with_commits { " --commits" } else { "" };
    let again =
        format!("then repeat `wiki-browser job restore {}{option}`: it does the rest", wish.job);
    let hint = match cause.hint_str() {
        Some(hint) => format!("{hint}; {again}"),
        None => format!("the server’s log says why; {again}"),
    };
    let (kind, code) = (cause.kind(), cause.code_str().to_owned());
    Error::new(kind, message).code(code).hint(hint).source(cause)
}

fn is_put(it: &Item) -> bool {
    it.outcome == Outcome::Ready
}

/// A restore in progress.
struct Putting<'a> {
    repo: &'a Repo,
    kept: &'a Kept,
    changes: &'a Changes,
    present: Present,
    job: &'a JobId,
    /// What may stand at the files, as judged by the job's settings, if they are put back first.
    expected: BTreeMap<String, Vec<Want>>,
}

impl Putting<'_> {
    /// Restores what is ready, in the order of the plan: locks first, files last.
    async fn all(mut self, plan: &mut Plan) -> Result<()> {
        let is_ready = |plan: &Plan, name: &str| {
            plan.items.iter().any(|it| it.name == name && it.outcome == Outcome::Ready)
        };
        let files: Vec<&FileChange> =
            self.changes.files.iter().filter(|it| is_ready(plan, &it.path)).collect();
        if self.present.is_settings_due {
            for it in &files {
                self.expected.insert(it.path.clone(), self.expected_at(it).await?);
            }
        }
        // Links first: something may be put aside in their place.
        let (links, rest): (Vec<_>, Vec<_>) =
            self.changes.private.iter().partition(|it| it.is_removed());
        for it in links.into_iter().chain(rest) {
            let name = format!(".git/{}", it.name);
            if is_ready(plan, &name) {
                let done = self.private(it).await?;
                note(plan, &name, done);
            }
        }
        if self.present.is_settings_due {
            // From here on, files are judged by the settings of the start.
            self.present = Present::of(self.repo, self.changes, (self.kept, self.job)).await?;
        }
        if let Some((was, _)) = self.changes.tip.as_ref().filter(|_| is_ready(plan, "HEAD")) {
            self.own_log("HEAD").await?;
            let why = self.why();
            match (&was.branch, &was.commit) {
                (Some(branch), _) => self.repo.point_head(branch, &why).await?,
                (None, Some(commit)) => {
                    self.repo.move_refs(format!("update HEAD {commit}\n"), &why).await?;
                }
                (None, None) => {}
            }
            note(plan, "HEAD", true);
        }
        self.refs(plan, is_ready).await?;
        if files.is_empty() {
            return Ok(());
        }
        self.index(&files).await?;
        // Removals first: a folder may be in the place of a file.
        let (gone, written): (Vec<_>, Vec<_>) =
            files.iter().copied().partition(|it| it.before.work == Work::Nothing);
        for it in gone.into_iter().chain(written) {
            let done = self.file(it).await?;
            note(plan, &it.path, done);
        }
        let is_announced = |it: &&&FileChange| it.before.staged().is_some_and(Staged::is_announced);
        let announced: Vec<&str> =
            files.iter().filter(is_announced).map(|it| it.path.as_str()).collect();
        if !announced.is_empty() {
            self.repo.announce(&announced).await?;
        }
        self.repo.refresh_all().await
    }

    fn why(&self) -> String {
        format!("wiki-browser: job restore {}", self.job)
    }

    async fn refs(&self, plan: &mut Plan, is_ready: impl Fn(&Plan, &str) -> bool) -> Result<()> {
        let ready: Vec<_> =
            self.changes.refs.iter().filter(|it| is_ready(plan, &it.name)).collect();
        let (stash, plain): (Vec<&RefChange>, Vec<&RefChange>) =
            ready.iter().copied().partition(|it| !it.entries_before.is_empty());
        if !ready.is_empty() {
            // Git also tells it there, if the branch is checked out.
            self.own_log("HEAD").await?;
        }
        for it in &ready {
            self.own_log(&it.name).await?;
        }
        let orders: Vec<(&str, String)> = plain.iter().filter_map(|it| order(it)).collect();
        let gone: Vec<&str> =
            orders.iter().filter(|it| it.1.starts_with("delete")).map(|it| it.0).collect();
        // Git cannot replace `a` by `a/b` in one transaction.
        let is_later = |it: &&(&str, String)| {
            it.1.starts_with("create") && gone.iter().any(|name| clash(name, it.0))
        };
        let (later, first): (Vec<_>, Vec<_>) = orders.iter().partition(is_later);
        let text = |orders: &[&(&str, String)]| -> String {
            orders.iter().map(|it| it.1.as_str()).collect()
        };
        for orders in [text(&first), text(&later)].into_iter().filter(|it| !it.is_empty()) {
            self.repo.move_refs(orders, &self.why()).await?;
        }
        if let Some(it) = stash.first() {
            self.stash(it).await?;
        }
        for it in ready {
            note(plan, &it.name, true);
        }
        Ok(())
    }

    /// Restores the stash entries, oldest first. Those still there stay.
    async fn stash(&self, it: &RefChange) -> Result<()> {
        let (was, now) = (&it.entries_before, &self.present.stash);
        // The ref stays where its log has expired, and then names what no entry does.
        let at = self.present.refs.get(&it.name);
        let stays = match was.ends_with(now) && at == now.first().map(|it| &it.commit) {
            true => now.len(),
            false => {
                if let Some(at) = at {
                    let orders = format!("delete {} {at}\n", it.name);
                    self.repo.move_refs(orders, &self.why()).await?;
                }
                0
            }
        };
        let mut last = now.first().filter(|_| stays > 0).map(|it| it.commit.clone());
        for entry in was[..was.len() - stays].iter().rev() {
            self.repo.push_stash((&it.name, entry), last.as_ref()).await?;
            last = Some(entry.commit.clone());
        }
        Ok(())
    }

    /// Restores the index entries; their files follow.
    async fn index(&self, files: &[&FileChange]) -> Result<()> {
        let (mut lines, none) = (Vec::new(), self.repo.no_object());
        for it in files {
            // First remove all entries of the path, including the sides of a conflict.
            let path = name::bytes(&it.path);
            let mut tell = |about: String| {
                lines.extend_from_slice(about.as_bytes());
                lines.extend_from_slice(&path);
                lines.push(0);
            };
            tell(format!("0 {none}\t"));
            for Staged { spot, stage, .. } in it.before.index.iter().filter(|it| !it.is_announced())
            {
                tell(format!("{} {} {stage}\t", spot.mode, spot.blob));
            }
        }
        self.repo.write_entries(lines).await?;
        for flag in ["assume-unchanged", "skip-worktree"] {
            let is_set = |it: &&&FileChange| {
                it.before.staged().and_then(|it| it.flag.as_deref()) == Some(flag)
            };
            let set: Vec<&str> = files.iter().filter(is_set).map(|it| it.path.as_str()).collect();
            if !set.is_empty() {
                self.repo.flag_entries(&format!("--{flag}"), &set).await?;
            }
        }
        Ok(())
    }

    async fn expected_at(&self, it: &FileChange) -> Result<Vec<Want>> {
        let was = self.present.want(self.repo, it, End::Before).await?;
        let is = self.present.want(self.repo, it, End::After).await?;
        self.present.expected(self.repo, it, (&was, &is)).await
    }

    async fn file(&self, it: &FileChange) -> Result<bool> {
        let present = &self.present;
        let was = present.want(self.repo, it, End::Before).await?;
        let is = present.want(self.repo, it, End::After).await?;
        let is_as_left = present.mode_since(it).await? == Some(ModeSince::AsLeft);
        if was == is && !is_as_left && self.expected.is_empty() {
            return Ok(true);
        }
        if let Some(mode) = present.mode_alone(self.repo, it, &was).await? {
            let (top, path) = (present.top().clone(), name::path(&it.path));
            return blocking(move || top.set_mode(&path, mode, SOURCE_BYTES_MAX)).await?;
        }
        let Some(new) = present.standing_before(self.repo, it, &was).await? else {
            return Ok(false);
        };
        let mut expected = match self.expected.get(&it.path) {
            Some(known) => known.clone(),
            None => present.expected(self.repo, it, (&was, &is)).await?,
        };
        if expected[0] == Want::Seen(FOLDER.to_owned()) {
            // Its contents were removed before, and the folder with them.
            expected.push(Want::Nothing);
        }
        self.replace(present.top().clone(), &it.path, expected, new).await
    }

    async fn private(&self, it: &PrivateChange) -> Result<bool> {
        let root = git_root(self.repo, &it.name)?;
        let new = match &it.before {
            Work::Nothing if it.is_removed() && !it.has_other_name() => Standing::Nothing,
            Work::Nothing => {
                aside::put(self.repo, self.job, (root, &it.name)).await?;
                return Ok(true);
            }
            Work::Link { target } => Standing::Link { target: target.clone() },
            Work::File { blob, mode } => {
                let bytes = self.repo.read_blob(blob, SOURCE_BYTES_MAX).await?;
                Standing::File { bytes, mode: *mode }
            }
            Work::Seen { .. } | Work::Indexed => return Ok(false),
        };
        self.replace(root, &it.name, vec![plain(&it.after)], new).await
    }

    async fn replace(
        &self,
        root: Root,
        path: &str,
        expected: Vec<Want>,
        new: Standing,
    ) -> Result<bool> {
        let (repo, path) = (self.repo.clone(), path.to_owned());
        let spare = spare_of(self.job, &path);
        let work = move || {
            let is_off = fault::is_off("restore_compare");
            let is_expected = |it: &Standing| is_off || expected.contains(&want_of(&repo, it));
            let place = (&*name::path(&path), spare.as_str());
            root.swap_aside(place, SOURCE_BYTES_MAX, is_expected, &new)
        };
        blocking(work).await?
    }

    /// Puts links aside where git would write the log of a ref: what they lead to is not git's.
    async fn own_log(&self, reference: &str) -> Result<()> {
        let log = format!("logs/{reference}");
        let ends = log.match_indices('/').map(|(at, _)| at).chain([log.len()]);
        for part in ends.map(|end| &log[..end]) {
            if link_at(self.repo, part)?.is_some() {
                let root = git_root(self.repo, part)?;
                aside::put(self.repo, self.job, (root, part)).await?;
            }
        }
        Ok(())
    }
}

/// Returns the `update-ref` order that restores a branch or tag, with its name.
fn order(it: &RefChange) -> Option<(&str, String)> {
    let name = &it.name;
    let order = match (&it.before, &it.after) {
        (Some(was), Some(is)) => format!("update {name} {was} {is}\n"),
        (Some(was), None) => format!("create {name} {was}\n"),
        (None, Some(is)) => format!("delete {name} {is}\n"),
        (None, None) => return None,
    };
    Some((name, order))
}

fn note(plan: &mut Plan, name: &str, is_done: bool) {
    let outcome = if is_done { Outcome::Restored } else { Outcome::ChangedSince };
    for it in plan.items.iter_mut().filter(|it| it.name == name) {
        it.outcome = outcome;
    }
}

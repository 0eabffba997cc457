//! Outside changes in a test: commits of other people, and reloads of the script.

use std::collections::BTreeMap;

use camino::Utf8PathBuf;
use serde_json::{Value, json};

use crate::base::{BlobId, Error, Result, SourcePath};
use crate::documents::git::Person;
use crate::documents::seen::Hint;
use crate::flows::automation::reload as reloading;
use crate::flows::automation::reload::ReloadRequest;
use crate::flows::lab::site::Ground;
use crate::flows::repository::watch;
use crate::script::Report;

/// Default message of a commit by somebody else.
const MESSAGE: &str = "Change the pages";

/// Looks at the repository as the server does after a change.
pub(super) async fn look(ground: &Ground) -> Result<()> {
    let told = [watch::placing(), watch::following()];
    // Never a full comparison: no commit of a test disappears.
    watch::look_once(&ground.site, &Hint::All, &told).await.map(drop)
}

/// Commits texts as somebody else; returns the result.
pub(super) async fn commit(ground: &Ground, files: &Value, message: Option<&str>) -> Result<Value> {
    let mut texts = BTreeMap::new();
    for (path, text) in files.as_object().into_iter().flatten() {
        texts.insert(path.parse::<SourcePath>()?, text.as_str().map(str::to_owned));
    }
    if texts.is_empty() {
        return Err(Error::invalid("the commit has no page")
            .hint("write t.commit { [\"guide.md\"] = \"its whole new text\" }; false deletes"));
    }
    let by = Person { name: "Somebody".to_owned(), email: "somebody@example.org".to_owned() };
    let change = || {
        let message = message.unwrap_or(MESSAGE);
        ground.site.repo.put_commit(&texts, (&by, &by), message).map(|it| it.id)
    };
    let (id, mut told) = changed(ground, change).await?;
    told["commit"] = commit_json(ground, &id);
    Ok(told)
}

/// Changes a page without committing it; returns the result.
pub(super) async fn edit(ground: &Ground, path: &str, text: &str) -> Result<Value> {
    let path: SourcePath = path.parse()?;
    // Only existing pages can be changed.
    ground.site.repo.present(&path).await?;
    changed(ground, || ground.site.repo.put_edit(&path, text)).await.map(|(_, told)| told)
}

/// Changes the repository, and makes the server notice it.
async fn changed<T>(ground: &Ground, change: impl FnOnce() -> Result<T>) -> Result<(T, Value)> {
    // The earlier state must be known.
    look(ground).await?;
    ground.pass_over().await?;
    let mark = ground.mark();
    ground.take_a_moment();
    let done = change()?;
    look(ground).await?;
    ground.tell().await?;
    Ok((done, ground.effects(&mark).await?))
}

/// Returns a commit as a test sees it; `None` for the one before the first.
pub(super) fn commit_json(ground: &Ground, id: &BlobId) -> Value {
    let Some(commit) = ground.site.repo.paper_commit(id) else { return Value::Null };
    let person = |it: &Person| format!("{} <{}>", it.name, it.email);
    json!({
        "id": commit.id, "author": person(&commit.author),
        "committer": person(&commit.committer), "message": commit.message,
        "paths": commit.paths(),
    })
}

/// Reloads the script with other texts, variables or secrets; returns the result.
pub(super) async fn reload(ground: &mut Ground, fields: &Value) -> Result<Value> {
    let mut wanted = ground.wanted.clone();
    wanted.read_again(fields);
    let mut files = BTreeMap::new();
    for (path, text) in fields["files"].as_object().into_iter().flatten() {
        files.insert(Utf8PathBuf::from(path), text.as_str().unwrap_or_default().to_owned());
    }
    if let (Some(text), Some(name)) = (fields["script"].as_str(), wanted.script.file_name()) {
        files.insert(Utf8PathBuf::from(name), text.to_owned());
    }
    ground.pass_over().await?;
    let mark = ground.mark();
    ground.take_a_moment();
    let loaded = wanted
        .load(files)
        .map_err(|report| refused(&report, ground.site.scripts.current().number))?;
    let data = ground.site.config.site.data.clone();
    let (loaded, engines) = wanted.ready(loaded, data, &ground.clock);
    let drop = fields["drop"] == true;
    let (by, request) = (ground.caller.actor(), ReloadRequest { dry_run: false, drop });
    let reloaded = reloading::replace(&ground.site, &by, request, (loaded, engines)).await?;
    if let Some(trouble) = reloaded.trouble {
        let message = format!("{}; generation {} stays", trouble.summary, reloaded.generation);
        let note = "write was = \"OLD-NAME\" in the kind that takes its place, or drop = true here";
        return Err(Error::conflict("waiting_jobs", message).hint(note));
    }
    ground.wanted = wanted;
    let current = ground.site.scripts.current();
    ground.site.works.config = current.config.clone();
    ground.tell().await?;
    let mut told = ground.effects(&mark).await?;
    let difference = reloaded.difference.unwrap_or_default();
    told["generation"] = json!(reloaded.generation);
    told["changes"] = json!(difference.names());
    told["needs_restart"] = json!(difference.needs_restart);
    told["removed_kinds"] = difference.removed_kinds();
    Ok(told)
}

/// Describes the errors of a script that was to be reloaded.
fn refused(report: &Report, in_force: u64) -> Error {
    let first = report.errors.first();
    let what = first.map_or_else(String::new, |it| it.headline());
    let message = format!(
        "the script has {}, and generation {in_force} stays active: {what}",
        report.summary()
    );
    let told = Error::invalid(message);
    match first {
        Some(it) => {
            let at = it.at.as_ref().map_or_else(String::new, |at| format!("{at}\n"));
            told.hint(format!("{at}{}", it.note.clone().unwrap_or_default()))
        }
        None => told,
    }
}

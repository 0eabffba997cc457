//! Documents that `sources` of a script does not name or that are not there yet, personas that are
//! gone, broken or not for a document, and what waits for them.

use std::collections::BTreeSet;
use std::slice;

use camino::Utf8Path;
use rusqlite::Connection;
use serde_json::{Map, Value};

use crate::base::{JobId, Result, SourcePath};
use crate::documents::proposals::proposal::{self, ProposalFilter};
use crate::documents::{KnownSources, ProposalStatus, Repo, SourceGlobs, search};
use crate::flows::perspectives::personas::{self, Cast};
use crate::flows::requests::prepare;
use crate::jobs::{self, NO_NEW, RESTART_ONLY, Unfit};
use crate::script::{Config, Input, InputType, Kind};

/// Proposals read at once.
const PAGE: u32 = 200;

/// What the inputs of waiting jobs name, read before the database is.
pub struct Around {
    personas: Cast,
    /// The documents, unless no git can list them.
    documents: Option<KnownSources>,
}

impl Around {
    /// Reads it for a site.
    ///
    /// # Errors
    /// As reading the personas or asking git.
    pub(super) async fn of(config: &Config, repo: &Repo) -> Result<Around> {
        let personas = personas::known(&config.folder, repo).await?;
        let documents = match repo.is_of_texts() {
            true => None,
            false => Some(repo.known_sources().await?),
        };
        Ok(Around { personas, documents })
    }

    /// Reads it beside a script, for these documents.
    ///
    /// # Errors
    /// As reading the personas.
    pub fn beside(folder: &Utf8Path, documents: Option<KnownSources>) -> Result<Around> {
        Ok(Around { personas: personas::on_disk(folder)?, documents })
    }
}

/// Returns the waiting jobs on documents that a script does not name, each with the reason. Later
/// legs go on where the first one began.
///
/// # Errors
/// As any read; `invalid` for a glob that is none.
pub(super) fn unnamed(c: &Connection, config: &Config) -> Result<Vec<Unfit>> {
    let globs = SourceGlobs::of(&config.site.sources)?;
    let concerns = |_: &str, it: &Input| it.ty == InputType::Source;
    first_legs(c, config, concerns, |_, inputs, given| {
        texts(inputs, given).find(|(_, path)| !globs.is_match(path)).map(|(_, path)| {
            format!("`sources` of wb.site does not name {path}, and {RESTART_ONLY}")
        })
    })
}

/// Returns the waiting jobs whose persona could not be had at their start, each with the reason: it
/// is gone, broken, or not for their document. Later legs have had it.
///
/// # Errors
/// As any read.
pub(super) fn unspoken(c: &Connection, config: &Config, around: &Around) -> Result<Vec<Unfit>> {
    let concerns = |_: &str, it: &Input| it.ty == InputType::Persona;
    first_legs(c, config, concerns, |kind, inputs, given| {
        let sources = prepare::sources(kind, given).into_iter().map(|it| it.1);
        let sources: Vec<SourcePath> = sources.collect();
        texts(inputs, given).find_map(|(_, name)| match around.personas.get(name) {
            None => Some(format!("there is no persona {name} any more")),
            Some(Err(cause)) => Some(cause.message().to_owned()),
            Some(Ok(persona)) => {
                let refused = personas::require_all_for(slice::from_ref(persona), &sources).err();
                refused.map(|it| it.message().to_owned())
            }
        })
    })
}

/// Returns the waiting jobs on documents that do not exist yet, as their kind no longer allows,
/// each with the reason. Without an earlier script, a document that was there once does not count:
/// their start says what has become of it.
///
/// # Errors
/// As any read.
pub(super) fn missing(
    c: &Connection,
    (old, new): (Option<&Config>, &Config),
    around: &Around,
) -> Result<Vec<Unfit>> {
    let Some(documents) = &around.documents else { return Ok(Vec::new()) };
    let marked = jobs::unfit(c)?;
    let was_new = |kind: &str, input: &Input| {
        let before = old.and_then(|it| it.kind(kind)?.input(&input.name));
        before.is_some_and(|it| it.new)
    };
    let is_back = |kind: &str| new.kind(kind).is_some_and(|it| is_back(old, it));
    let seen: BTreeSet<String> = match !marked.is_empty() || new.kinds.keys().any(|it| is_back(it))
    {
        true => search::known_sources(c)?.into_iter().map(|it| it.0.to_string()).collect(),
        false => BTreeSet::new(),
    };
    let is_there = |path: &str| documents.binary_search_by(|it| it.0.as_str().cmp(path)).is_ok();
    let concerns = |kind: &str, it: &Input| {
        let may_have_been =
            is_back(kind) || marked.iter().any(|it| it.kind == kind) || was_new(kind, it);
        it.ty == InputType::Source && !it.new && may_have_been
    };
    let mut found = first_legs(c, new, concerns, |kind, inputs, given| {
        let is_missing = |it: &Input, path: &str| {
            !is_there(path) && (was_new(&kind.name, it) || !seen.contains(path))
        };
        texts(inputs, given)
            .find(|(it, path)| is_missing(it, path))
            .map(|(it, path)| format!("{path} is not there, and `{}` {NO_NEW}", it.name))
    })?;
    let lost_new = |kind: &str| {
        let inputs = new.kind(kind).into_iter().flat_map(|it| &it.inputs);
        inputs.filter(|it| !it.new).any(|it| was_new(kind, it))
    };
    let waited: BTreeSet<&JobId> = marked.iter().map(|it| &it.id).collect();
    // Of a kind that took none before, those wait on that waited; the others start and say why not.
    found.retain(|it| is_back(&it.kind) || waited.contains(&it.id) || lost_new(&it.kind));
    Ok(found)
}

/// Returns whether jobs of a kind may have waited for it under an earlier script, if there is one:
/// they are judged as at a start.
pub(super) fn is_back(old: Option<&Config>, kind: &Kind) -> bool {
    let name = kind.was.as_ref().unwrap_or(&kind.name);
    old.is_none_or(|old| old.kind(name).is_none())
}

/// Returns those of the inputs that are given as texts.
fn texts<'i>(
    inputs: &'i [&'i Input],
    given: &'i Map<String, Value>,
) -> impl Iterator<Item = (&'i Input, &'i str)> {
    inputs.iter().filter_map(|it| Some((*it, given.get(&it.name)?.as_str()?)))
}

/// Returns the waiting first legs with a reason against the inputs that are concerned.
fn first_legs(
    c: &Connection,
    config: &Config,
    concerns: impl Fn(&str, &Input) -> bool,
    against: impl Fn(&Kind, &[&Input], &Map<String, Value>) -> Option<String>,
) -> Result<Vec<Unfit>> {
    let mut found = Vec::new();
    for (name, _) in jobs::queue_counts(c, &jobs::Viewer::Site)?.queued {
        let Some(kind) = config.kind(&name) else { continue };
        let inputs: Vec<&Input> = kind.inputs.iter().filter(|it| concerns(&name, it)).collect();
        if inputs.is_empty() {
            continue;
        }
        jobs::each_waiting(c, &name, |id, given| {
            if let Some(why) = against(kind, &inputs, &given) {
                found.push(Unfit { id, kind: name.clone(), why });
            }
        })?;
    }
    let mut first = Vec::new();
    for it in found {
        if jobs::find_brief(c, &jobs::Viewer::Program, &it.id)?.resumes.is_none() {
            first.push(it);
        }
    }
    Ok(first)
}

/// Returns a warning about the open proposals that nobody could approve after a restart with a new
/// script, because it no longer names their documents; `None` if there are none.
///
/// # Errors
/// Same as [`unnamed`].
pub(super) fn unapprovable(c: &Connection, old: &Config, new: &Config) -> Result<Option<String>> {
    if old.site.sources == new.site.sources {
        return Ok(None);
    }
    let (before, after) =
        (SourceGlobs::of(&old.site.sources)?, SourceGlobs::of(&new.site.sources)?);
    let status = Some(ProposalStatus::Open);
    let mut filter = ProposalFilter { status, limit: PAGE, ..ProposalFilter::default() };
    let (mut count, mut path) = (0_usize, None);
    loop {
        let page = proposal::list(c, &filter)?;
        let paths = page.items.iter().map(|it| it.source_path.as_str());
        for it in paths.filter(|it| before.is_match(it) && !after.is_match(it)) {
            count += 1;
            path.get_or_insert_with(|| it.to_owned());
        }
        filter.after = page.items.last().map(|it| it.id.clone());
        if page.next.is_none() {
            break;
        }
    }
    let proposals = if count == 1 { "proposal" } else { "proposals" };
    Ok(path.map(|path| {
        format!(
            "after a restart, {count} open {proposals} cannot be approved: `sources` of wb.site \
             no longer names {path}"
        )
    }))
}

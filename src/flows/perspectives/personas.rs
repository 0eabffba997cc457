//! Personas: the files `agents/NAME.md` beside the script, read when they are needed.
//!
//! They are no part of the script: a changed file counts at once, and its version is the blob id of
//! its bytes. Agents can write there; what is read is a plain file below the script's folder.

use std::collections::BTreeMap;

use camino::{Utf8Path, Utf8PathBuf};
use serde::Deserialize;

use crate::api::perspectives::{PersonaRow, PersonaText, Personas};
use crate::base::limit::{PERSONA_BYTES_MAX, PERSONA_NAME_BYTES_MAX, PERSONAS_MAX};
use crate::base::{BlobId, Error, ErrorKind, Page, Result, SourcePath, truncate_chars};
use crate::documents::Repo;
use crate::flows::requests::inputs::BAD_INPUT;
use crate::flows::{Site, Works};
use crate::jobs::{self, Job, Verb};
use crate::people::{Caller, Persona, PersonaFault, is_persona_name, parse_persona};
use crate::process::Root;
use crate::script::{Diagnostic, InputType, is_template};

/// The folder of the personas, next to the script.
const FOLDER: &str = "agents";
/// Most findings reported at once.
const FINDINGS_MAX: usize = 100;

/// A persona and its version.
#[derive(Clone, Debug)]
pub struct Found {
    /// The persona.
    pub persona: Persona,
    /// The blob id of its file.
    pub sha: BlobId,
}

/// A file in the folder of personas.
#[derive(Debug)]
pub struct Listed {
    /// Its name without the extension.
    pub name: String,
    /// The persona, or its error.
    pub found: Result<Found>,
}

/// Returns a persona.
///
/// # Errors
/// `invalid` with code `bad_input` for a name that is no file name, `bad_persona` for a file that
/// is none; `not_found` with code `no_persona`; as reading the file.
pub async fn find(repo: &Repo, folder: &Utf8Path, name: &str) -> Result<Found> {
    if !is_persona_name(name) {
        return Err(Error::invalid(format!(
            "a persona name must be 1 to {PERSONA_NAME_BYTES_MAX} letters, digits, `-` and `_`"
        ))
        .code(BAD_INPUT)
        .hint("list them: wiki-browser persona list"));
    }
    let text = match repo.text_beside(&path_of(name)) {
        Some(text) => text,
        None => {
            let (root, asked) = (Root::open(folder)?, name.to_owned());
            blocking(move || read(&root, &asked)).await?
        }
    };
    if is_template(&text) {
        return Err(Error::not_found(format!("{} is a template of inboxes", path_of(name)))
            .code("no_persona")
            .hint("a persona cannot set `engine` in its front matter"));
    }
    let persona = persona_of(name, &text)?;
    Ok(Found { persona, sha: repo.hash_text(&text).await? })
}

pub(in crate::flows) fn path_of(name: &str) -> Utf8PathBuf {
    Utf8PathBuf::from(format!("{FOLDER}/{name}.md"))
}

fn read(root: &Root, name: &str) -> Result<String> {
    let path = path_of(name);
    let (bytes, _) =
        root.read_relative(&path, PERSONA_BYTES_MAX).map_err(|cause| match cause.kind() {
            ErrorKind::NotFound => Error::not_found(format!("no persona {name}"))
                .code("no_persona")
                .hint(format!("create {path} next to the script")),
            _ => cause,
        })?;
    String::from_utf8(bytes)
        .map_err(|_| Error::invalid(format!("{path} is not UTF-8")).code("not_text"))
}

fn refusal(name: &str, fault: &PersonaFault) -> Error {
    let path = path_of(name);
    Error::invalid(format!("{path}:{}: {}", fault.line, fault.message))
        .code("bad_persona")
        .hint(fault.hint.clone())
}

/// Returns all personas by name, including invalid ones; templates of inboxes are left out.
///
/// # Errors
/// `unavailable` if the folder cannot be read; `conflict` with code `too_many_personas`.
pub async fn all(works: &Works) -> Result<Vec<Listed>> {
    let (root, repo) = (Root::open(&works.config.folder)?, works.repo.clone());
    let read_all = blocking(move || {
        let names = names(&root)?;
        Ok(names.into_iter().map(|it| (read_file(&root, &it), it)).collect::<Vec<_>>())
    });
    let mut listed = Vec::new();
    for (text, file) in read_all.await? {
        let name = file.strip_suffix(".md").unwrap_or(&file).to_owned();
        let found = match text {
            Err(cause) => Err(cause),
            Ok(text) if is_template(&text) => continue,
            Ok(text) => match parse_persona(&name, &text) {
                Err(fault) => Err(refusal(&name, &fault)),
                Ok(persona) => repo.hash_text(&text).await.map(|sha| Found { persona, sha }),
            },
        };
        listed.push(Listed { name, found });
    }
    Ok(listed)
}

/// Returns the names of the files, in order. Hidden files, and those that do not end in `.md`, are
/// ignored.
fn names(root: &Root) -> Result<Vec<String>> {
    let mut names = match root.names(Utf8Path::new(FOLDER), 4 * PERSONAS_MAX) {
        Ok(names) => names,
        Err(cause) if cause.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        Err(cause) => return Err(cause),
    };
    names.retain(|it| it.ends_with(".md") && !it.starts_with('.'));
    if names.len() > PERSONAS_MAX {
        let message = format!("there are more than {PERSONAS_MAX} files in {FOLDER}/");
        return Err(Error::conflict("too_many_personas", message).hint("remove unused ones"));
    }
    names.sort();
    Ok(names)
}

/// Reads one of the files, whatever its name.
fn read_file(root: &Root, file: &str) -> Result<String> {
    let name = file.strip_suffix(".md").unwrap_or(file);
    if !is_persona_name(name) {
        let shown = truncate_chars(name, 80);
        let message = format!("{FOLDER}/{}.md is no name of a persona", shown.escape_debug());
        return Err(Error::invalid(message)
            .code("bad_persona")
            .hint("use letters, digits, `-` and `_`; keep other files out of that folder"));
    }
    read(root, name)
}

/// Returns whether a text can be the name of a persona.
pub fn is_name(name: &str) -> bool {
    is_persona_name(name)
}

/// Refuses a text that is not a valid file of this persona.
///
/// # Errors
/// `invalid` with code `bad_persona`.
pub fn judge(name: &str, text: &str) -> Result<()> {
    persona_of(name, text).map(drop)
}

fn persona_of(name: &str, text: &str) -> Result<Persona> {
    parse_persona(name, text).map_err(|it| refusal(name, &it))
}

/// The code of an invalid persona.
pub(in crate::flows) const BAD: &str = "bad-persona";

/// Checks all personas next to a script; having none is fine.
pub fn check(folder: &Utf8Path) -> Vec<Diagnostic> {
    let names = Root::open(folder).and_then(|root| Ok((names(&root)?, root)));
    let (names, root) = match names {
        Ok(found) => found,
        Err(cause) => return vec![Diagnostic::error(BAD, cause.chain())],
    };
    let mut findings = Vec::new();
    for file in names {
        if findings.len() >= FINDINGS_MAX {
            break;
        }
        let name = file.strip_suffix(".md").unwrap_or(&file);
        let text = match read_file(&root, &file) {
            Ok(text) => text,
            Err(cause) => {
                let finding = Diagnostic::error(BAD, cause.message());
                findings.push(finding.note(cause.hint_str().unwrap_or_default()));
                continue;
            }
        };
        // The script's own check covers templates.
        if is_template(&text) {
            continue;
        }
        if let Err(fault) = parse_persona(name, &text) {
            let line = text.lines().nth(fault.line.saturating_sub(1) as usize);
            let finding = Diagnostic::error(BAD, fault.message);
            findings.push(finding.in_file(&path_of(name), fault.line, line).note(fault.hint));
        }
    }
    findings
}

/// Returns the files in the folder of personas that are no personas, as paths relative to the
/// folder of a new script. A template declares what that script does not know yet.
///
/// # Errors
/// `unavailable` if the folder cannot be read.
pub fn unfit(folder: &Utf8Path) -> Result<Vec<Utf8PathBuf>> {
    let root = Root::open(folder)?;
    let is_fit = |file: &String| {
        let name = file.strip_suffix(".md").unwrap_or(file);
        read_file(&root, file).is_ok_and(|it| !is_template(&it) && parse_persona(name, &it).is_ok())
    };
    let files = names(&root)?.into_iter().filter(|it| !is_fit(it));
    Ok(files.map(|it| Utf8Path::new(FOLDER).join(it)).collect())
}

/// Returns why a file in the folder of personas is neither a persona nor a template; `None` if it
/// is one, or is not there.
pub(in crate::flows) fn fault(folder: &Utf8Path, file: &str) -> Option<Error> {
    let text = match Root::open(folder).and_then(|root| read_file(&root, file)) {
        Ok(text) => text,
        Err(cause) => return Some(cause).filter(|it| it.kind() != ErrorKind::NotFound),
    };
    let name = file.strip_suffix(".md").unwrap_or(file);
    match is_template(&text) {
        true => None,
        false => judge(name, &text).err(),
    }
}

/// All personas by name, each with its error if it has one.
pub(in crate::flows) type Cast = BTreeMap<String, Result<Persona>>;

/// Returns the personas next to a script, or in place of its files.
///
/// # Errors
/// As [`on_disk`].
pub(in crate::flows) async fn known(folder: &Utf8Path, repo: &Repo) -> Result<Cast> {
    let folder = folder.to_owned();
    let mut known = blocking(move || on_disk(&folder)).await?;
    for path in repo.paths_beside().into_iter().filter(|it| it.starts_with(FOLDER)) {
        let text = repo.text_beside(&path).filter(|it| !is_template(it));
        if let (Some(name), Some(text)) = (path.file_stem(), text) {
            known.insert(name.to_owned(), persona_of(name, &text));
        }
    }
    Ok(known)
}

/// Returns the personas next to a script.
///
/// # Errors
/// `unavailable` if the folder cannot be read.
pub(in crate::flows) fn on_disk(folder: &Utf8Path) -> Result<Cast> {
    let root = Root::open(folder)?;
    let mut cast = Cast::new();
    for file in names(&root)? {
        let name = file.strip_suffix(".md").unwrap_or(&file);
        let persona = match read_file(&root, &file) {
            Ok(text) if is_template(&text) => continue,
            Ok(text) => persona_of(name, &text),
            Err(cause) => Err(cause),
        };
        cast.insert(name.to_owned(), persona);
    }
    Ok(cast)
}

/// Refuses personas that are not for the requested Sources.
///
/// # Errors
/// `invalid` with code `not_for_source`.
pub fn require_all_for(personas: &[Persona], sources: &[SourcePath]) -> Result<()> {
    for persona in personas {
        if let Some(path) = sources.iter().find(|it| !persona.is_for(it)) {
            let message = format!("the persona {} is not for {path}", persona.name);
            return Err(Error::invalid(message).code("not_for_source").hint(format!(
                "it covers {}; see `paths` in {}",
                persona.paths.join(", "),
                path_of(&persona.name)
            )));
        }
    }
    Ok(())
}

/// The query of `GET /api/personas`.
#[derive(Clone, Debug, Default, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct PersonaQuery {
    /// Only those for this Source.
    pub source_path: Option<SourcePath>,
    /// Only this one, with the text that its agent gets.
    pub name: Option<String>,
}

/// Returns the personas, or one by its name.
///
/// # Errors
/// As [`find`]; for a job `forbidden` with code `not_granted` unless it was started for this Source
/// and this persona, and `conflict` with code `persona_changed` if the file is not the one that the
/// job was given any more.
pub async fn show(site: &Site, caller: &Caller, query: PersonaQuery) -> Result<Personas> {
    if let Caller::Job { id, .. } = caller {
        let id = id.clone();
        let job = site.store.read(move |c| jobs::find(c, &jobs::Viewer::Program, &id)).await?;
        return for_job(site, &job, &query).await.map(Personas::One);
    }
    caller.person()?;
    let Some(name) = &query.name else {
        return list(site, query.source_path.as_ref()).await.map(Personas::All);
    };
    let found = find(&site.repo, &site.config.folder, name).await?;
    if let Some(path) = query.source_path {
        require_all_for(std::slice::from_ref(&found.persona), &[path])?;
    }
    Ok(Personas::One(with_body(found)))
}

async fn for_job(site: &Site, job: &Job, query: &PersonaQuery) -> Result<PersonaText> {
    let (Some(path), Some(name)) = (&query.source_path, &query.name) else {
        return Err(Error::invalid("request one persona of one source per job")
            .code("missing_parameter")
            .hint("send `source_path` and `name`"));
    };
    job.require_source(path, Verb::Read)?;
    job.require_persona(name)?;
    let found = find(&site.repo, &site.config.folder, name).await?;
    require_all_for(std::slice::from_ref(&found.persona), std::slice::from_ref(path))?;
    let own = own_versions(site, job, InputType::Hash, name);
    if !own.is_empty() && !own.contains(&found.sha.to_string()) {
        let message = format!("the persona {name} has changed since job {} began", job.id);
        return Err(Error::conflict("persona_changed", message)
            .hint("stop; start a new job to use the new persona"));
    }
    Ok(with_body(found))
}

/// Returns the versions of a Source (`Blob`) or a persona (`Hash`) that a job was given.
pub(in crate::flows) fn own_versions(
    works: &Works,
    job: &Job,
    ty: InputType,
    of: &str,
) -> Vec<String> {
    let config = works.config_of(&job.id);
    let kind = config.kinds.get(&job.kind);
    let is_of = |name: &String| job.input_text(name).as_deref() == Some(of);
    let inputs = kind.into_iter().flat_map(|it| &it.inputs);
    inputs
        .filter(|it| it.ty == ty && it.from.as_ref().is_some_and(is_of))
        .filter_map(|it| job.input_text(&it.name))
        .collect()
}

fn with_body(Found { persona, sha }: Found) -> PersonaText {
    let Persona { name, about, paths, body, .. } = persona;
    PersonaText { name, about, paths, sha, body }
}

async fn list(site: &Site, path: Option<&SourcePath>) -> Result<Page<PersonaRow>> {
    let items = all(site)
        .await?
        .into_iter()
        .filter(|it| match (&it.found, path) {
            (Ok(found), Some(path)) => found.persona.is_for(path),
            (_, None) => true,
            (Err(_), Some(_)) => false,
        })
        .map(|it| match it.found {
            Ok(Found { persona, sha }) => PersonaRow {
                name: it.name,
                about: persona.about,
                paths: persona.paths,
                sha: Some(sha),
                problem: None,
            },
            Err(cause) => PersonaRow {
                name: truncate_chars(&it.name, 80),
                about: None,
                paths: Vec::new(),
                sha: None,
                problem: Some(cause.message().to_owned()),
            },
        })
        .collect();
    Ok(Page { items, next: None })
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<T> {
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|cause| Error::internal("reading a persona panicked").source(cause))?
}

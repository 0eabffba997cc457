//! `wiki-browser init`: the files of a new site.

mod template;

use camino::{Utf8Path, Utf8PathBuf};
use clap::Args;
use serde_json::json;

use crate::base::{Error, Result};
use crate::cli::init::template::{Answers, Choice};
use crate::cli::new::files::{self, Item};
use crate::cli::terminal::screen::{Screen, Style};
use crate::cli::terminal::{escape, question};
use crate::client::working_folder;
use crate::documents::work_tree;
use crate::flows::check::engines;
use crate::flows::lab;
use crate::flows::perspectives::personas;
use crate::script::{self, Diagnostic};

/// The name of the script.
const SCRIPT: &str = "wiki-browser.lua";
/// The data folder named in the new script.
const DATA: &str = "data";
/// The default author; no mail reaches this address.
const AUTHOR: (&str, &str) = ("Wiki Agent", "agent@wiki.invalid");
/// Longest name or address of an author, in bytes.
const AUTHOR_BYTES_MAX: usize = 200;

/// Skills and a persona for every site, from this repository.
const FILES: [(&str, &str); 4] = [
    ("skills/wb-incorporate/SKILL.md", include_str!("../../../skills/wb-incorporate/SKILL.md")),
    ("skills/wb-perspective/SKILL.md", include_str!("../../../skills/wb-perspective/SKILL.md")),
    ("agents/plain-reader.md", include_str!("../../../agents/plain-reader.md")),
    ("tests/incorporate.lua", include_str!("../../../tests/incorporate.lua")),
];

/// `init`.
#[derive(Args, Debug)]
#[command(after_help = "\
On a terminal, asks up to three questions that no option answers; elsewhere the defaults apply.
Existing files are never changed, except for a line added to .gitignore. If a file is in the way,
init names it and writes nothing.

Examples:
  wiki-browser init                               a site about the repository of this folder
  wiki-browser init wiki --root ..                its own folder, about the repository around it
  wiki-browser init --engine codex                with Codex instead of Claude Code
  wiki-browser init --engine gemini               also: opencode, pi
  wiki-browser init --engine suggestions          without a model
  wiki-browser init --dry-run                     only list what would be written")]
pub(super) struct InitArgs {
    /// Folder of the site, in a git repository
    #[arg(default_value = ".")]
    dir: Utf8PathBuf,
    /// Engine that edits sources [default: claude]
    #[arg(long, value_enum)]
    engine: Option<Choice>,
    /// Folder of the git repository with the sources, relative to the site's folder [default: .]
    #[arg(long, value_name = "PATH")]
    root: Option<Utf8PathBuf>,
    /// Author name for commits of agents' texts [default: Wiki Agent]
    #[arg(long, value_name = "TEXT")]
    name: Option<String>,
    // Its brackets would be a link in the documentation.
    #[arg(
        long,
        value_name = "ADDRESS",
        help = "Email address of that author [default: agent@wiki.invalid]"
    )]
    email: Option<String>,
    /// Only list what would be written
    #[arg(long)]
    dry_run: bool,
}

/// Creates a site.
///
/// # Errors
/// `invalid` outside of a git work tree or for words that no script can hold, `in_the_way`.
pub(super) fn run(screen: &Screen, args: &InitArgs) -> Result<()> {
    let here = working_folder()?;
    let folder = plain(&here.join(&args.dir));
    check_work_tree(&folder)?;
    let answers = answers(screen, args, &folder)?;
    let items = items(&answers);
    let mut found = files::in_the_way(&folder, &items);
    found.extend(data_in_the_way(&folder));
    found.extend(misread(&folder)?);
    found.sort();
    found.dedup();
    if !found.is_empty() {
        return Err(files::refusal(
            &folder,
            &found,
            "move them (a site reads agents/*.md and tests/*.lua as its own), or keep yours: \
             wiki-browser init wiki --root ..",
        ));
    }
    let written = if args.dry_run {
        items.iter().map(Item::describe).collect()
    } else {
        files::write(&folder, &items)?
    };
    let next = next_commands(&here, &folder, &items);
    let value = json!({
        "folder": folder.as_str(), "written": written, "dry_run": args.dry_run, "next": next,
    });
    screen.answer(&value, |screen, _| {
        let verb = if args.dry_run { "would write" } else { "wrote" };
        screen.put(&format!("{verb} in {}:", escape::line(folder.as_str())))?;
        for line in &written {
            screen.put(&format!("  {}", escape::line(line)))?;
        }
        if args.dry_run {
            return Ok(());
        }
        for warning in check(&folder.join(SCRIPT))? {
            screen.note(&format!("\n{warning}"));
        }
        screen.put(&screen.paint(Style::Bold, "\nnext:"))?;
        next.iter().try_for_each(|line| screen.put(&format!("  {}", escape::line(line))))
    })
}

/// Returns the name of the data folder if it exists without having been created by a server: the
/// server would obey files that others put there.
fn data_in_the_way(folder: &Utf8Path) -> Option<Utf8PathBuf> {
    let data = folder.join(DATA);
    let is_ours = data.join("wiki.db").is_file() || data.join("lock").is_file();
    let is_empty = data.read_dir().is_ok_and(|mut it| it.next().is_none());
    (data.symlink_metadata().is_ok() && !is_ours && !is_empty).then(|| DATA.into())
}

/// Returns files that the site would read as its personas, templates or tests, and refuse.
fn misread(folder: &Utf8Path) -> Result<Vec<Utf8PathBuf>> {
    // Anything else by these names is in the way itself.
    let is_folder = |name: &str| folder.join(name).symlink_metadata().is_ok_and(|it| it.is_dir());
    let of_agents = if is_folder("agents") { personas::unfit(folder)? } else { Vec::new() };
    let of_tests = if is_folder("tests") { lab::foreign(folder)? } else { Vec::new() };
    Ok(of_agents.into_iter().chain(of_tests).collect())
}

/// Loads what was written, and returns what is missing on this machine.
fn check(script: &Utf8Path) -> Result<Vec<Diagnostic>> {
    let loaded = script::load(script)
        .map_err(|report| Error::internal(format!("the new script is wrong: {report}")))?;
    let programs = std::env::var("PATH").unwrap_or_default();
    let mut warnings = engines::check(&loaded.config, &programs);
    warnings.extend(engines::open_doors(&loaded.config));
    Ok(warnings)
}

/// The three questions: the engine, the folder of the sources, the author.
fn answers(screen: &Screen, args: &InitArgs, folder: &Utf8Path) -> Result<Answers> {
    let can_ask = question::can(screen);
    let engine = match args.engine {
        Some(engine) => engine,
        None if can_ask => {
            let words = Choice::ALL.map(|it| (it.as_str(), it.meaning()));
            Choice::ALL[question::choice(screen, "What should edit your documents?", &words, 0)?]
        }
        None => Choice::ALL[0],
    };
    let root = match &args.root {
        Some(root) => root.clone(),
        None if can_ask => {
            let question =
                "Where are the documents? Enter a git repository, relative to this folder.";
            let check = |it: &str| check_root(folder, Utf8Path::new(it));
            Utf8PathBuf::from(question::line(screen, question, ".", check)?)
        }
        None => Utf8PathBuf::from("."),
    };
    check_root(folder, &root)?;
    let (mut name, mut email) = (AUTHOR.0.to_owned(), AUTHOR.1.to_owned());
    if can_ask && args.name.is_none() && args.email.is_none() {
        let question = "Who is the author of agents' commits? Enter a name and an email address.";
        let default = format!("{name} <{email}>");
        let answer = question::line(screen, question, &default, |it| author(it).map(drop))?;
        (name, email) = author(&answer)?;
    }
    let name = args.name.clone().unwrap_or(name);
    let email = args.email.clone().unwrap_or(email);
    check_author("name", &name)?;
    check_author("email", &email)?;
    let top = plain(&folder.join(&root));
    let below = folder.strip_prefix(&top).ok().map(|it| match it.as_str() {
        "" => String::new(),
        path => format!("{path}/"),
    });
    let root = root.to_string();
    Ok(Answers { engine, root, below, author_name: name, author_email: email })
}

/// Parses `Name <mail>`.
fn author(text: &str) -> Result<(String, String)> {
    let hint = format!("write {} <{}>", AUTHOR.0, AUTHOR.1);
    let parts = text.trim().strip_suffix('>').and_then(|it| it.split_once('<'));
    let Some((name, email)) = parts else {
        return Err(Error::invalid("expected a name and an email address").hint(hint));
    };
    let (name, email) = (name.trim().to_owned(), email.trim().to_owned());
    check_author("name", &name).and_then(|()| check_author("email", &email))?;
    Ok((name, email))
}

fn items(answers: &Answers) -> Vec<Item> {
    let mut items = vec![Item::File(SCRIPT.into(), template::script(answers))];
    items.extend(FILES.map(|(path, text)| Item::File(path.into(), text.to_owned())));
    // One real folder of skills serves every engine; each looks in its own place, which is a link.
    items.push(Item::Link(".claude/skills".into(), "../skills"));
    items.push(Item::Link(".agents/skills".into(), "../skills"));
    items.push(Item::Line(".gitignore".into(), "/data/"));
    items
}

/// Returns the next steps: commit, and serve.
fn next_commands(here: &Utf8Path, folder: &Utf8Path, items: &[Item]) -> Vec<String> {
    let place = folder.strip_prefix(here).unwrap_or(folder);
    let option = match here == folder {
        true => String::new(),
        false => format!(" --config {}", quoted(place.join(SCRIPT).as_str())),
    };
    // The folder may be in another work tree than the one in which this is typed.
    let git = match here == folder {
        true => "git".to_owned(),
        false => format!("git -C {}", quoted(place.as_str())),
    };
    let files: Vec<String> = items.iter().map(|it| quoted(it.path().as_str())).collect();
    vec![
        format!("{git} add {} && {git} commit -m \"A wiki-browser site\"", files.join(" ")),
        format!("wiki-browser serve{option}"),
    ]
}

/// Quotes a word for a shell.
fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./".contains(c);
    if word.chars().all(is_plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', "'\\''"))
}

fn check_author(what: &str, text: &str) -> Result<()> {
    let why = if text.trim().is_empty() {
        "is empty"
    } else if text.len() > AUTHOR_BYTES_MAX {
        "is too long"
    } else if text.chars().any(|c| c.is_control() || matches!(c, '<' | '>')) {
        "has a character that git drops from author names"
    } else {
        return Ok(());
    };
    Err(Error::invalid(format!("the {what} of the author {why}")))
}

/// Refuses a folder outside a git work tree.
fn check_work_tree(folder: &Utf8Path) -> Result<()> {
    if folder.is_file() {
        return Err(Error::invalid(format!("{folder} is a file"))
            .hint("give a folder, which may be new: wiki-browser init wiki"));
    }
    if folder.components().any(|part| part.as_str() == ".git") {
        return Err(Error::invalid(format!("{folder} belongs to git itself")));
    }
    if work_tree(folder).is_some() {
        return Ok(());
    }
    let is_bare = |it: &&Utf8Path| {
        it.join("HEAD").is_file() && it.join("objects").is_dir() && it.join("refs").is_dir()
    };
    if let Some(bare) = folder.ancestors().find(is_bare) {
        return Err(Error::invalid(format!("{bare} is a bare repository: it has no files"))
            .code("no_work_tree")
            .hint("clone it, and create the site in the clone"));
    }
    Err(Error::invalid(format!("{folder} is not in a git work tree"))
        .code("no_work_tree")
        .hint("sources are files of a git repository; run git init, or change to a repository"))
}

fn check_root(folder: &Utf8Path, root: &Utf8Path) -> Result<()> {
    let refuse = |why: &str| {
        Err(Error::invalid(format!("the root `{}` {why}", escape::line(root.as_str())))
            .hint("give it relative to the site's folder, for example: --root .."))
    };
    if root.as_str().is_empty() {
        return refuse("is empty");
    }
    let root = plain(&folder.join(root));
    if root != *folder && !root.is_dir() {
        return refuse("is not a folder");
    }
    if work_tree(&root).is_none() {
        return refuse("is not in a git work tree");
    }
    Ok(())
}

/// Returns an absolute path without `.` and `..`, as a shell reads it.
fn plain(path: &Utf8Path) -> Utf8PathBuf {
    let mut plain = Utf8PathBuf::new();
    for part in path.components() {
        match part {
            camino::Utf8Component::CurDir => {}
            camino::Utf8Component::ParentDir => {
                plain.pop();
            }
            other => plain.push(other),
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_author_is_one_that_git_keeps() {
        assert!(check_author("name", "Ana O'Hara").is_ok());
        for bad in ["", "  ", "a\nb", "a <b>", &"x".repeat(201)] {
            assert!(check_author("name", bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn an_author_is_a_name_with_an_address() {
        let (name, email) = author(" Ana B. <a@b.c> ").unwrap();
        assert_eq!((name.as_str(), email.as_str()), ("Ana B.", "a@b.c"));
        for bad in ["", "Ana", "<a@b>", "Ana <>", "Ana a@b", "A <a> <b>"] {
            assert!(author(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn the_next_commands_can_be_pasted() {
        let next = next_commands("/a".into(), "/a".into(), &[]);
        assert_eq!(next[1], "wiki-browser serve");
        let next = next_commands("/a".into(), "/a/my site".into(), &[]);
        assert_eq!(next[1], "wiki-browser serve --config 'my site/wiki-browser.lua'");
        assert_eq!(quoted("it's"), "'it'\\''s'");
        assert_eq!(plain("/a/./b/../c".into()), "/a/c");
    }
}

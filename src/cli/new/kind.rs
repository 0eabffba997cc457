//! `wiki-browser new kind`: asks, composes, checks the script with the kind, and only then writes.

use camino::{Utf8Path, Utf8PathBuf};

use crate::base::{Context, Error, ErrorKind, Result};
use crate::cli::commands::Desk;
use crate::cli::new::addition::{Addition, INSTEAD, loaded};
use crate::cli::new::files::Item;
use crate::cli::new::shape::{Block, Produce, Wanted, complete, slug};
use crate::cli::new::{KindArgs, check_line, first_test, folder_of, skill};
use crate::cli::terminal::question;
use crate::cli::terminal::screen::Screen;
use crate::script::{Config, Engine, InputType, is_name};

/// Writes the block and the skill of a new kind.
pub(super) fn add(desk: &Desk, args: &KindArgs) -> Result<()> {
    let path = desk.script()?;
    check_name(&args.name)?;
    let loaded = loaded(&path)?;
    let (config, folder) = (&*loaded.config, folder_of(&path));
    check_free(config, &folder, &args.name)?;
    let block = block(&desk.screen, config, args)?;
    let items = items(config, &folder, args, &block)?;
    let addition = Addition {
        noun: "kind",
        name: &block.name,
        items: &items,
        instead: INSTEAD,
        next: &next(&block),
        is_dry_run: args.dry_run,
    };
    addition.add(desk, &path)
}

/// The next steps.
fn next(block: &Block) -> Vec<String> {
    let name = &block.name;
    let is_computed = |ty: InputType| matches!(ty, InputType::Blob | InputType::Hash);
    let has_topic = block.input(InputType::Topic).is_some();
    let inputs: Vec<String> = block
        .inputs
        .iter()
        .filter(|it| !is_computed(it.ty))
        .filter(|it| !(has_topic && it.ty == InputType::Source && it.follows()))
        .map(|it| match it.ty {
            InputType::Topic => format!("{}=ID", it.name),
            InputType::Source => format!("{}=PATH", it.name),
            _ => format!("{}=…", it.name),
        })
        .collect();
    let inputs: String = inputs.iter().map(|it| format!(" {it}")).collect();
    let mut next = Vec::new();
    if !block.is_builtin {
        next.push(format!("edit skills/{name}/SKILL.md: say at its top what the agent does"));
    }
    next.push(format!("wiki-browser check && wiki-browser test tests/{name}.lua"));
    next.push("wiki-browser reload, or wiki-browser serve if no server is running".to_owned());
    next.push(format!("wiki-browser job create {name}{inputs} --wait"));
    next
}

fn check_name(name: &str) -> Result<()> {
    if is_name(name) {
        return Ok(());
    }
    Err(Error::invalid(format!("`{}` is not a name for a kind", name.escape_debug()))
        .code("bad_name")
        .hint(format!("use a-z, digits, `-` and `_`: wiki-browser new kind {}", slug(name))))
}

fn check_free(config: &Config, folder: &Utf8Path, name: &str) -> Result<()> {
    if let Some(kind) = config.kinds.get(name) {
        let message = format!("kind \"{name}\" is already declared at {}", kind.at);
        return Err(
            Error::conflict("exists", message).hint("choose another name, or change it there")
        );
    }
    let skill = format!("skills/{name}");
    if folder.join(&skill).symlink_metadata().is_ok() {
        let message = format!("{skill} is there already, and no kind has its name");
        return Err(Error::conflict("exists", message)
            .hint(format!("choose another name, or move it: mv {skill} {skill}.old")));
    }
    Ok(())
}

/// Composes the kind, and asks for missing answers.
fn block(screen: &Screen, config: &Config, args: &KindArgs) -> Result<Block> {
    // Errors are reported before any question.
    wanted(args.inputs.iter().map(String::as_str))?;
    let (engine, is_builtin) = engine(screen, config, args.engine.as_deref())?;
    let is_of_site = args.inputs.iter().any(|it| it.trim() == "none");
    let produce = match args.produces {
        Some(produce) => produce,
        // The others need a Topic, a Source or a persona.
        None if is_of_site && !is_builtin => Produce::Result,
        None if is_builtin => Produce::Proposal,
        None if question::can(screen) => {
            let words = Produce::ALL.map(|it| (it.as_str(), it.meaning()));
            let question = format!("What does a job of \"{}\" leave behind?", args.name);
            Produce::ALL[question::choice(screen, &question, &words, 0)?]
        }
        None => Produce::Message,
    };
    if is_builtin && produce != Produce::Proposal {
        let message = format!("engine \"{engine}\" is builtin: it makes proposals, nothing else");
        return Err(Error::invalid(message).code("bad_input").hint(NO_ENGINE));
    }
    let default = match produce {
        Produce::Result if is_of_site => "Look at the site and report",
        Produce::Topic if is_of_site => "Open topics on passages of sources",
        Produce::Message => "Answer in a topic",
        Produce::Proposal => "Propose a new text of a source",
        Produce::Perspective => "Show a source as a persona needs it",
        Produce::Result => "Look at a source and report",
        Produce::Topic => "Open topics on passages of a source",
    };
    let about = match &args.about {
        Some(about) => about.clone(),
        None if question::can(screen) => {
            let question = "What does it do, in one line? People read it on the button.";
            question::line(screen, question, default, |it| check_line("`about`", it))?
        }
        None => default.to_owned(),
    };
    check_line("`about`", &about)?;
    let inputs = inputs(screen, args, produce, is_builtin)?;
    for (place, input) in inputs.iter().enumerate() {
        if inputs[..place].iter().any(|it| it.name == input.name) {
            let message = format!("the input `{}` is there twice", input.name);
            return Err(Error::invalid(message).code("bad_input").hint(format!(
                "--produces {} adds it: leave it out, or rename yours",
                produce.as_str()
            )));
        }
    }
    Ok(Block { name: args.name.clone(), about, engine, is_builtin, produce, inputs })
}

/// Returns the inputs, all of them.
fn inputs(
    screen: &Screen,
    args: &KindArgs,
    produce: Produce,
    is_builtin: bool,
) -> Result<Vec<Wanted>> {
    let given = match args.inputs.is_empty() && question::can(screen) && !is_builtin {
        true => {
            let musts: Vec<String> =
                complete(produce, Vec::new()).iter().map(Wanted::text).collect();
            let check = |it: &str| wanted(it.split(',')).map(drop);
            let answer = question::line(screen, &question(produce), &musts.join(","), check)?;
            wanted(answer.split(','))?
        }
        false => wanted(args.inputs.iter().map(String::as_str))?,
    };
    Ok(match given {
        Some(given) => complete(produce, given),
        None if matches!(produce, Produce::Result | Produce::Topic) => Vec::new(),
        None => complete(produce, Vec::new()),
    })
}

/// Parses inputs; `None` means that there are none.
fn wanted<'a>(texts: impl Iterator<Item = &'a str>) -> Result<Option<Vec<Wanted>>> {
    let texts: Vec<&str> = texts.map(str::trim).filter(|it| !it.is_empty()).collect();
    match texts.as_slice() {
        ["none"] => Ok(None),
        texts => texts.iter().map(|it| Wanted::parse(it)).collect::<Result<_>>().map(Some),
    }
}

/// Returns the question for the inputs.
fn question(produce: Produce) -> String {
    let more = match produce {
        Produce::Proposal => {
            "\n  source_path=source      any document, without a topic\
             \n  source_path=source:new  a page that need not exist"
        }
        Produce::Result | Produce::Topic => "\n  none                    about the whole site",
        Produce::Message | Produce::Perspective => "",
    };
    format!(
        "Which inputs does it take? NAME=TYPE, separated by commas; required ones are added.\
         \n  language=line           a line that is asked for, also text, number, \
         choice:ONE/TWO, flag{more}"
    )
}

/// The hint if no engine runs an agent.
const NO_ENGINE: &str = "declare one that runs an agent, for example: \
    wb.engine \"claude\" { type = \"process\", command = { \"claude\", \"-p\" }, \
    prompt = \"stdin\" }";

/// Returns whether an engine starts a program for each job.
fn runs_a_kind(engine: &&Engine) -> bool {
    !engine.is_builtin() && engine.speech.is_none() && !engine.is_model()
}

/// Returns the engine's name, and whether it is built in.
pub(super) fn engine(
    screen: &Screen,
    config: &Config,
    wanted: Option<&str>,
) -> Result<(String, bool)> {
    let names: Vec<&str> = config.engines.keys().map(String::as_str).collect();
    if let Some(name) = wanted {
        let Some(engine) = config.engines.get(name) else {
            let message = format!("the script has no engine \"{}\"", name.escape_debug());
            let hint = match names.as_slice() {
                [] => NO_ENGINE.to_owned(),
                names => {
                    format!(
                        "it has {}; declare another with wb.engine \"…\" {{ … }}",
                        names.join(", ")
                    )
                }
            };
            return Err(Error::invalid(message).code("unknown_engine").hint(hint));
        };
        return Ok((name.to_owned(), engine.is_builtin()));
    }
    let agents: Vec<&str> =
        config.engines.values().filter(runs_a_kind).map(|it| it.name.as_str()).collect();
    match agents.as_slice() {
        [one] => Ok(((*one).to_owned(), false)),
        [] => Err(Error::invalid("no engine of the script runs an agent")
            .code("unknown_engine")
            .hint(NO_ENGINE)),
        several if question::can(screen) => {
            let words: Vec<(&str, &str)> = several.iter().map(|it| (*it, "")).collect();
            let place = question::choice(screen, "Which engine runs it?", &words, 0)?;
            Ok((several[place].to_owned(), false))
        }
        several => {
            Err(Error::invalid(format!("which engine? the script has {}", several.join(", ")))
                .code("unknown_engine")
                .hint(format!("add --engine {}", several[0])))
        }
    }
}

/// Returns the files to write.
fn items(config: &Config, folder: &Utf8Path, args: &KindArgs, block: &Block) -> Result<Vec<Item>> {
    let script = config.files.first().map(|file| file.path.clone()).unwrap_or_default();
    let path = args.file.clone().unwrap_or(script);
    if !config.files.iter().any(|file| file.path == path) {
        let files: Vec<&str> = config.files.iter().map(|file| file.path.as_str()).collect();
        let message = format!("{path} is not a file of this script");
        return Err(Error::invalid(message)
            .code("bad_input")
            .hint(format!("it has {}; require \"name\" adds name.lua", files.join(", "))));
    }
    let before = std::fs::read_to_string(folder.join(&path))
        .context(ErrorKind::Unavailable, || format!("cannot read {path}"))?;
    let after = with_block(&before, |wb| block.lua(wb));
    let mut items = Vec::new();
    if !block.is_builtin {
        let file = Utf8PathBuf::from(format!("skills/{}/SKILL.md", block.name));
        items.push(Item::File(file, skill::text(block)));
    }
    items.push(Item::Text { path, before: Some(before), after });
    let test = Utf8PathBuf::from(format!("tests/{}.lua", block.name));
    items.push(Item::File(test, first_test::of_kind(block, &config.site.sources)));
    Ok(items)
}

/// Returns a file with the block at its end; before a final `return`.
pub(super) fn with_block(before: &str, block: impl Fn(&str) -> String) -> String {
    let name = before.lines().find_map(wb_name);
    let mut added = block(name.unwrap_or("wb"));
    if name.is_none() {
        added = format!("\nlocal wb = require \"wb\"{added}");
    }
    let body = before.trim_end();
    let last = body.rfind('\n').map_or(0, |at| at + 1);
    let returns = body[last..].starts_with("return");
    let (head, tail) = if returns { (&before[..last], &before[last..]) } else { (before, "") };
    let gap = if head.is_empty() || head.ends_with('\n') { "" } else { "\n" };
    let between = if tail.is_empty() { "" } else { "\n" };
    let is_crlf = before.contains("\r\n");
    let added = format!("{gap}{added}{between}");
    let added = if is_crlf { added.replace('\n', "\r\n") } else { added };
    format!("{head}{added}{tail}")
}

/// Returns the name that a file uses for our table: `wb` in `local wb = require "wb"`.
fn wb_name(line: &str) -> Option<&str> {
    let (name, value) = line.trim_start().strip_prefix("local ")?.split_once('=')?;
    let value = value.trim().strip_prefix("require")?.trim_start().trim_start_matches('(');
    let is_wb = ["\"wb\"", "'wb'"].iter().any(|it| value.trim_start().starts_with(it));
    let name = name.trim();
    let is_plain = name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    (is_wb && is_plain && !name.is_empty()).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block() -> Block {
        Block {
            name: "k".to_owned(),
            about: "a".to_owned(),
            engine: "e".to_owned(),
            is_builtin: true,
            produce: Produce::Result,
            inputs: complete(Produce::Result, Vec::new()),
        }
    }

    fn lua(wb: &str) -> String {
        block().lua(wb)
    }

    #[test]
    fn the_block_stands_at_the_end_by_the_files_own_names() {
        let after = with_block("local w = require('wb')\nw.api(1)", lua);
        assert!(
            after.starts_with("local w = require('wb')\nw.api(1)\n\nw.kind \"k\" {\n"),
            "{after}"
        );
        assert!(after.contains("w.input.source()") && after.ends_with("}\n"), "{after}");
        let after = with_block("local M = {}\nreturn M\n", lua);
        assert!(after.ends_with("}\n\nreturn M\n"), "{after}");
        assert!(after.contains("local wb = require \"wb\"\nwb.kind"), "{after}");
        let after = with_block("local wb = require \"wb\"\r\n", lua);
        assert!(!after.replace("\r\n", "").contains('\n'), "{after:?}");
    }
}

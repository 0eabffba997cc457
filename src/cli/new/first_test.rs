//! The first tests of a new kind or persona, which pass at once.

use crate::cli::new::shape::{Block, Produce, key};
use crate::cli::terminal::escape::lua as quoted;
use crate::script::{Config, InputType, Kind, Produces};

/// The source of the tests.
const PAGE: &str = "# Guide\n\nSome words.\n";
/// The persona of the tests.
const READER: &str = "---\nname: reader\nabout: A reader\n---\nYou read.\n";

/// Returns the tests of a kind; `sources` are the globs of the site.
pub(super) fn of_kind(block: &Block, sources: &[String]) -> String {
    let name = quoted(&block.name);
    let path = sample_path(sources, "guide");
    let (setup, inputs, sign) = given(block, &path, &sample_path(sources, "page"));
    let topics = format!(
        "topics = {{ {{ source_path = {}, body = \"This is not clear.\" }} }}",
        quoted(&path)
    );
    let (does, left) = match block.produce {
        Produce::Message => ("message = \"An answer.\"", "t.eq(job.message, \"An answer.\")"),
        Produce::Proposal => {
            ("proposal = \"# New\\n\\nWords.\\n\"", "t.contains(job.proposal, \"Words.\")")
        }
        Produce::Perspective => ("view = \"# As seen\\n\"", "t.contains(job.view, \"# As seen\")"),
        Produce::Result => ("result = { fine = true }", "t.eq(job.result, { fine = true })"),
        Produce::Topic => (topics.as_str(), "t.eq(#job.topics, 1)"),
    };
    let mut text = format!(
        "-- Tests of kind {name}, with a fake agent and a fake clock: `wiki-browser test` runs \
         them.\nlocal t = require \"wb.test\"\n"
    );
    if !block.is_builtin {
        text.push_str(&format!(
            "\nt.test(\"{title}: the agent is told what it is about\", function()\n{setup}  \
             local prompt = t.render({name}, {inputs})\n  t.contains(prompt, {sign})\nend)\n",
            title = block.name
        ));
    }
    text.push_str(&format!(
        "\nt.test(\"{title}: a job produces its result\", function()\n{setup}  \
         local job = t.run({name}, {inputs}, {{ {does} }})\n  \
         t.eq(job.status, \"succeeded\")\n  {left}\nend)\n\n\
         t.test(\"{title}: an agent that produces nothing has failed\", function()\n{setup}  \
         local job = t.run({name}, {inputs}, {{ exit = 0 }})\n  \
         t.has(job, {{ status = \"failed\", reason = \"no_result\" }})\nend)\n",
        title = block.name
    ));
    text
}

/// Returns the lines before a job, the table of its inputs, and what its prompt must contain.
/// `free` is the path of a page that need not exist.
fn given(block: &Block, path: &str, free: &str) -> (String, String, String) {
    let has_topic = block.input(InputType::Topic).is_some();
    let (mut setup, mut sign) = (String::new(), String::new());
    let mut inputs = Vec::new();
    for input in block.inputs.iter().filter(|it| !it.is_optional()) {
        let value = match input.ty {
            InputType::Topic => {
                setup.push_str(&format!(
                    "  local topic = t.topic {{ source_path = {}, body = \"Why?\" }}\n",
                    quoted(path)
                ));
                sign = "topic.id".to_owned();
                "topic".to_owned()
            }
            InputType::Source if has_topic && input.follows() => continue,
            InputType::Source if input.is_new() => quoted(free),
            InputType::Source => {
                let line = format!("  t.source({}, {})\n", quoted(path), lua_text(PAGE));
                if !has_topic && !setup.contains(&line) {
                    setup.push_str(&line);
                }
                quoted(path)
            }
            InputType::Persona => {
                setup.push_str(&format!("  t.persona(\"reader\", {})\n", lua_text(READER)));
                "\"reader\"".to_owned()
            }
            InputType::Blob | InputType::Hash => continue,
            InputType::Line => "\"some words\"".to_owned(),
            InputType::Text => "\"some lines\\nof text\"".to_owned(),
            InputType::Number => "1".to_owned(),
            InputType::Flag => "true".to_owned(),
            InputType::Choice => quoted(input.words().first().unwrap_or(&"")),
        };
        if sign.is_empty() {
            sign = if value == "true" || value == "1" { quoted(&value) } else { value.clone() };
        }
        inputs.push(format!("{} = {value}", key(&input.name)));
    }
    let inputs = match inputs.is_empty() {
        true => "{}".to_owned(),
        false => format!("{{ {} }}", inputs.join(", ")),
    };
    if sign.is_empty() {
        sign = quoted(&block.name);
    }
    (setup, inputs, sign)
}

/// Returns the test of a persona: the kind that makes views accepts it. `None` without such a kind.
pub(super) fn of_persona(name: &str, globs: &[String], config: &Config) -> Option<String> {
    let kind = config.kinds.values().find(|it| it.produces == Some(Produces::Perspective))?;
    let (source, persona) = (of(kind, InputType::Source)?, of(kind, InputType::Persona)?);
    let others = kind.inputs.iter().any(|it| {
        let is_known = matches!(it.ty, InputType::Source | InputType::Persona);
        it.required && it.default.is_none() && it.from.is_none() && !is_known
    });
    if others {
        return None;
    }
    let path = sample_path(if globs.is_empty() { &config.site.sources } else { globs }, "guide");
    let (kind, own) = (quoted(&kind.name), quoted(name));
    Some(format!(
        "-- Tests of persona {name}, with a fake agent: `wiki-browser test` runs them.\n\
         local t = require \"wb.test\"\n\n\
         t.test(\"{name}: a page can be shown to this reader\", function()\n  \
         local inputs = {{ {} = {}, {} = {own} }}\n  \
         local job = t.run({kind}, inputs, {{ view = \"# As seen\\n\" }})\n  \
         t.eq(job.status, \"succeeded\")\nend)\n",
        key(source),
        quoted(&path),
        key(persona),
    ))
}

fn of(kind: &Kind, ty: InputType) -> Option<&str> {
    kind.inputs.iter().find(|it| it.ty == ty).map(|it| it.name.as_str())
}

/// Returns a multi-line text as a single-line Lua string.
fn lua_text(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n"))
}

/// Returns a path that matches the first glob.
fn sample_path(globs: &[String], word: &str) -> String {
    let file = format!("{word}.md");
    let plain = |glob: &String| {
        let path = glob.replace("**/", "").replace("**", &file).replace('*', word);
        let is_plain = !path.contains(['?', '[', '{', '!', '\\']) && !path.is_empty();
        is_plain.then_some(path)
    };
    globs.iter().find_map(plain).unwrap_or(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_one_that_the_globs_mean() {
        for (glob, path) in [
            ("**/*.md", "guide.md"),
            ("docs/**/*.md", "docs/guide.md"),
            ("README.md", "README.md"),
            ("wiki/*.txt", "wiki/guide.txt"),
            ("a/**", "a/guide.md"),
            ("*.{md,txt}", "guide.md"),
        ] {
            assert_eq!(sample_path(&[glob.to_owned()], "guide"), path, "{glob}");
        }
    }
}

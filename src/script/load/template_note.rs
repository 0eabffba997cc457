//! Hints about templates: what a script would write is written as front matter.

use crate::script::source::diagnostic::Diagnostic;

/// The hint for a value that YAML does not have.
const ONLY_IN_A_SCRIPT: &str =
    "a template cannot have it: declare it in the script, with wb.inbox, wb.agent or wb.kind";

/// What a hint contains that is about the script and not about the template.
const OF_THE_SCRIPT: [&str; 2] = ["wb.limits {", "wb.input."];

/// Rewrites the hints of findings in templates as front matter.
pub(crate) fn rewrite(findings: &mut [Diagnostic]) {
    let is_template = |it: &&mut Diagnostic| {
        let file = it.at.as_ref().map(|at| &at.file);
        file.is_some_and(|it| it.starts_with("agents") && it.extension() == Some("md"))
    };
    for finding in findings.iter_mut().filter(is_template) {
        finding.note = finding.note.take().map(|note| front_matter(&note));
    }
}

/// Returns a hint with `name: value` for each `name = value`.
fn front_matter(note: &str) -> String {
    if OF_THE_SCRIPT.iter().any(|it| note.contains(it)) {
        return note.to_owned();
    }
    let (mut text, mut rest) = (String::new(), note);
    while let Some((before, after)) = rest.split_once(" = ") {
        let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let name = &before[before.trim_end_matches(is_name).len()..];
        let mut value = Value { rest: after };
        match value.read().filter(|_| !name.is_empty()) {
            Some(yaml) => {
                // The template has this field of an inbox under its own name.
                let own = if name == "repo" { "repo_root" } else { name };
                text.push_str(&before[..before.len() - name.len()]);
                text.push_str(&format!("{own}: {yaml}"));
                rest = value.rest;
            }
            None if after.starts_with("function") || after.starts_with("wb.") => {
                return ONLY_IN_A_SCRIPT.to_owned();
            }
            None => {
                text.push_str(before);
                text.push_str(" = ");
                rest = after;
            }
        }
    }
    text + rest
}

/// A text that begins with a value of Lua.
struct Value<'t> {
    rest: &'t str,
}

impl Value<'_> {
    /// Takes a text, a number, a flag or a table of those, and returns it as YAML.
    fn read(&mut self) -> Option<String> {
        match self.rest.chars().next()? {
            '"' => self.quoted(),
            '{' => self.table(),
            _ => {
                let is_word = |c: char| c.is_ascii_alphanumeric() || c == '.' || c == '-';
                let word = self.rest.split(|c: char| !is_word(c)).next()?.trim_end_matches('.');
                let is_value = word.parse::<f64>().is_ok() || ["true", "false"].contains(&word);
                is_value.then(|| self.take(word.len()).to_owned())
            }
        }
    }

    fn take(&mut self, len: usize) -> &str {
        let (taken, rest) = self.rest.split_at(len);
        self.rest = rest;
        taken
    }

    fn quoted(&mut self) -> Option<String> {
        let mut is_escaped = false;
        let end = self.rest[1..].find(|c: char| {
            let is_end = c == '"' && !is_escaped;
            is_escaped = c == '\\' && !is_escaped;
            is_end
        })?;
        Some(self.take(end + 2).to_owned())
    }

    fn table(&mut self) -> Option<String> {
        self.take(1);
        let (mut parts, mut is_list) = (Vec::new(), true);
        loop {
            self.rest = self.rest.trim_start();
            if self.rest.starts_with('}') {
                self.take(1);
                let parts = parts.join(", ");
                return Some(if is_list { format!("[{parts}]") } else { format!("{{ {parts} }}") });
            }
            let name = self.rest.split_once(" = ").map(|it| it.0).filter(|it| {
                !it.is_empty() && it.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
            });
            let name = name.map(str::to_owned);
            if let Some(name) = &name {
                self.take(name.len() + " = ".len());
            }
            let value = self.read()?;
            is_list &= name.is_none();
            parts.push(name.map_or(value.clone(), |name| format!("{name}: {value}")));
            self.rest = self.rest.trim_start();
            if self.rest.starts_with(',') {
                self.take(1);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hint_is_front_matter() {
        for (lua, yaml) in [
            ("write first_output = \"30s\"", "write first_output: \"30s\""),
            ("write sends = { \"person:*\" }", "write sends: [\"person:*\"]"),
            (
                "write daily = { cost_usd = 20, time = \"2h\" }",
                "write daily: { cost_usd: 20, time: \"2h\" }",
            ),
            ("write asks = true, or leave it out", "write asks: true, or leave it out"),
            (
                "write every = \"1h\" or at = \"a \\\" b\"",
                "write every: \"1h\" or at: \"a \\\" b\"",
            ),
            ("write repo = \"..\"", "write repo_root: \"..\""),
            ("write max_running = 2.", "write max_running: 2."),
            ("write verify = function(job) … end", ONLY_IN_A_SCRIPT),
            ("write NAME = …", "write NAME = …"),
            ("write wb.limits { jobs = 4 }", "write wb.limits { jobs = 4 }"),
            ("write inputs = { w = wb.input.line() }", "write inputs = { w = wb.input.line() }"),
            ("did you mean `about`?", "did you mean `about`?"),
        ] {
            assert_eq!(front_matter(lua), yaml);
        }
    }
}

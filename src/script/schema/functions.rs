//! Every function that a script can call, and the signatures of its own functions that are called.

use crate::script::schema::{Callback, Member};

/// When a function can be called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// Only while the script loads.
    Loading,
    /// Always.
    Always,
}

impl When {
    /// Returns it in words.
    pub fn as_str(self) -> &'static str {
        match self {
            When::Loading => "while the script loads",
            When::Always => "always",
        }
    }
}

/// A function that a script can call. Declarations and inputs are described by their fields.
#[derive(Clone, Copy, Debug)]
pub struct Function {
    /// Its name after `wb.`, or alone if it is one of `BASE`: `log.info`, `require`.
    pub name: &'static str,
    /// What it takes, in this order; the last one may be `...`.
    pub params: &'static [Member],
    /// The type of what it returns.
    pub returns: Option<&'static str>,
    /// When it can be called.
    pub when: When,
    /// Lines of a script that use it.
    pub example: &'static str,
    /// One line for people.
    pub doc: &'static str,
}

const FORMAT: [Member; 2] = [
    Member { name: "format", ty: "any", doc: "A text, as `string.format` takes it." },
    Member { name: "...", ty: "any", doc: "What stands for its `%s` and `%d`." },
];

const fn log(name: &'static str, example: &'static str, doc: &'static str) -> Function {
    Function { name, params: &FORMAT, returns: None, when: When::Always, example, doc }
}

/// The functions of `wb`.
pub const FUNCTIONS: [Function; 6] = [
    Function {
        name: "api",
        params: &[Member { name: "version", ty: "1", doc: "The version." }],
        returns: None,
        when: When::Loading,
        example: "wb.api(1)",
        doc: "Says for which version of this interface the script is written; comes first.",
    },
    Function {
        name: "on",
        params: &[
            Member { name: "event", ty: "wb.EventName", doc: "The name of an event." },
            Member { name: "handler", ty: "fun(event: wb.Event)", doc: "What is called then." },
        ],
        returns: None,
        when: When::Loading,
        example: "wb.on(\"job_finished\", function(event)\n  \
            wb.log.info(\"%s is %s\", event.job.kind, event.job.status)\nend)",
        doc: "Has a function called after each event of one name.",
    },
    log("log.debug", "wb.log.debug(\"loaded\")", "Writes to the log if WB_LOG=debug is set."),
    log("log.info", "wb.log.info(\"%d kinds\", 3)", "Writes to the server's log."),
    log("log.warn", "wb.log.warn(\"%s is missing\", \"x\")", "Writes a warning to the log."),
    log("log.error", "wb.log.error({ a = 1 })", "Writes an error to the log."),
];

/// Functions that are no part of `wb`, where they differ from those of Lua.
#[cfg(test)]
pub(crate) const BASE: [Function; 2] = [
    Function {
        name: "require",
        params: &[Member { name: "name", ty: "string", doc: "`a.b` is `a/b.lua`." }],
        returns: Some("any"),
        when: When::Loading,
        example: "require \"kinds.review\"",
        doc: "Reads a file below the folder of the script, once, without following links.",
    },
    Function {
        name: "print",
        params: &[Member { name: "...", ty: "any", doc: "What is written." }],
        returns: None,
        when: When::Always,
        example: "print(\"loaded\", 3)",
        doc: "Writes to the log, as `wb.log.info` does.",
    },
];

/// `kind.prompt` as a function.
pub(crate) const PROMPT: Callback = Callback {
    params: &[Member {
        name: "job",
        ty: "wb.PromptValues",
        doc: "The names of a template, with the inputs of the kind.",
    }],
    returns: Some("string"),
    doc: "Returns what the agent is told.",
};

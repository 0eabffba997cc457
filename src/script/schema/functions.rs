//! Every function that a script can call, and the signatures of its own functions that are called.

use crate::script::schema::{Callback, Member};

/// When a function can be called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// Only while the script loads.
    Loading,
    /// Only inside of functions that are called later.
    Called,
    /// Only inside of handlers, of schedules and of webhooks.
    Acting,
    /// Only in a file of tests, outside of its tests.
    File,
    /// Only inside of a test.
    Testing,
    /// Always.
    Always,
}

impl When {
    /// Returns it in words.
    pub fn as_str(self) -> &'static str {
        match self {
            When::Loading => "while the script loads",
            When::Called => "inside of functions that are called later",
            When::Acting => "inside of handlers and of the functions of schedules and webhooks",
            When::File => "in a file of tests",
            When::Testing => "inside of a test",
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
    Member { name: "...", ty: "any", doc: "Values for its `%s` and `%d`." },
];

const fn log(name: &'static str, example: &'static str, doc: &'static str) -> Function {
    Function { name, params: &FORMAT, returns: None, when: When::Always, example, doc }
}

/// A time.
const AT: Member = Member { name: "at", ty: "string", doc: "A time (RFC 3339)." };

/// The functions of `wb`.
pub const FUNCTIONS: [Function; 17] = [
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
    Function {
        name: "enqueue",
        params: &[Member { name: "request", ty: "wb.Request", doc: "A kind with its inputs." }],
        returns: None,
        when: When::Acting,
        example: "wb.on(\"topic_created\", function(event)\n  \
            wb.enqueue { kind = \"answer\", topic_id = event.data.topic_id }\nend)",
        doc: "Asks for a job, which is accepted when the function has returned without an error.",
    },
    Function {
        name: "file",
        params: &[Member { name: "path", ty: "string", doc: "A path below the script's folder." }],
        returns: Some("string"),
        when: When::Loading,
        example: "local rules = wb.file \"prompts/rules.md\"",
        doc: "Returns the text of a file, which belongs to the script from then on.",
    },
    Function {
        name: "env",
        params: &[
            Member { name: "name", ty: "string", doc: "A variable that holds no secret." },
            Member { name: "default", ty: "any?", doc: "Returned if it is not set." },
        ],
        returns: Some("any"),
        when: When::Loading,
        example: "local tone = wb.env(\"WIKI_TONE\", \"plain\")",
        doc: "Returns a variable of the server's environment.",
    },
    Function {
        name: "secret.env",
        params: &[Member { name: "name", ty: "string", doc: "A variable of the server." }],
        returns: Some("wb.Secret"),
        when: When::Always,
        example: "local key = wb.secret.env \"API_KEY\"",
        doc: "Names a secret for `env` of an engine, or for a webhook; it is read when it is used.",
    },
    Function {
        name: "secret.file",
        params: &[Member {
            name: "path",
            ty: "string",
            doc: "A file: absolute, or seen from the script's folder.",
        }],
        returns: Some("wb.Secret"),
        when: When::Always,
        example: "local key = wb.secret.file \"/run/secrets/api_key\"",
        doc: "The same, from a file that is read when it is used.",
    },
    Function {
        name: "json.encode",
        params: &[Member { name: "value", ty: "any", doc: "Plain data." }],
        returns: Some("string"),
        when: When::Always,
        example: "local text = wb.json.encode({ a = 1 })",
        doc: "Writes plain data as JSON.",
    },
    Function {
        name: "json.decode",
        params: &[Member { name: "text", ty: "string", doc: "JSON of at most 256 KiB." }],
        returns: Some("any"),
        when: When::Always,
        example: "local value = wb.json.decode(\"[1, 2]\")",
        doc: "Reads JSON.",
    },
    Function {
        name: "date.now",
        params: &[],
        returns: Some("string"),
        when: When::Called,
        example: "wb.on(\"job_finished\", function() wb.log.info(wb.date.now()) end)",
        doc: "Returns the time of the call (RFC 3339 in UTC), which does not change during it.",
    },
    Function {
        name: "date.format",
        params: &[
            AT,
            Member { name: "pattern", ty: "string", doc: "As in `%Y-%m-%d`, without widths." },
            Member { name: "zone", ty: "string?", doc: "As in `Europe/Berlin`; UTC without it." },
        ],
        returns: Some("string"),
        when: When::Always,
        example: "local day = wb.date.format(\"2026-01-02T03:04:05Z\", \"%A\", \"UTC\")",
        doc: "Writes a time as people do.",
    },
    Function {
        name: "date.add",
        params: &[
            AT,
            Member { name: "duration", ty: "string", doc: "As in `1h`, and `-7d` to go back." },
        ],
        returns: Some("string"),
        when: When::Always,
        example: "local before = wb.date.add(\"2026-01-02T03:04:05Z\", \"-7d\")",
        doc: "Returns another time.",
    },
    Function {
        name: "date.seconds",
        params: &[AT],
        returns: Some("integer"),
        when: When::Always,
        example: "local seconds = wb.date.seconds(\"2026-01-02T03:04:05Z\")",
        doc: "Returns the seconds since 1970, to compare times with.",
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
    doc: "Returns the prompt.",
};

/// `kind.lane` as a function.
pub(crate) const LANE: Callback = Callback {
    params: &[Member {
        name: "inputs",
        ty: "table<string, any>",
        doc: "The inputs that are known when the job is accepted.",
    }],
    returns: Some("string?"),
    doc: "Returns the lane as `NAME=VALUE`, or nil for none.",
};

/// `kind.verify`.
pub(crate) const VERIFY: Callback = Callback {
    params: &[Member { name: "job", ty: "wb.ProducedJob", doc: "The job with what it left." }],
    returns: Some("string|boolean|nil"),
    doc: "Returns true or nil for a good result; false, or the reason, to refuse it.",
};

/// `kind.retry`.
pub(crate) const RETRY: Callback = Callback {
    params: &[Member { name: "job", ty: "wb.FailedJob", doc: "The job that failed." }],
    returns: Some("string|boolean|nil"),
    doc: "Returns when to retry: `5m`, a time, or true for immediately; nil or false for never.",
};

/// `schedule.enqueue` as a function.
pub(crate) const DUE: Callback = Callback {
    params: &[Member { name: "time", ty: "wb.Due", doc: "The time that has come." }],
    returns: None,
    doc: "Asks for its jobs by `wb.enqueue`.",
};

/// `webhook.enqueue`.
pub(crate) const CALLED: Callback = Callback {
    params: &[Member { name: "call", ty: "wb.Call", doc: "The call, whose signature is right." }],
    returns: None,
    doc: "Asks for its jobs by `wb.enqueue`.",
};

/// All functions of the script that are called, by their place.
#[cfg(test)]
pub(crate) const CALLBACKS: [(&str, &Callback); 6] = [
    ("kind.prompt", &PROMPT),
    ("kind.lane", &LANE),
    ("kind.verify", &VERIFY),
    ("kind.retry", &RETRY),
    ("schedule.enqueue", &DUE),
    ("webhook.enqueue", &CALLED),
];

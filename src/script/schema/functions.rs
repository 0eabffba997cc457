//! Every function that a script can call, and the signatures of its callbacks.

use crate::script::schema::{Callback, Member};

/// When a function can be called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// Only while the script loads.
    Loading,
    /// Only inside callbacks.
    Called,
    /// Only inside handlers, and functions of schedules and webhooks.
    Acting,
    /// Only in a file of tests, outside its tests.
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
    /// Its parameters, in order; the last one may be `...`.
    pub params: &'static [Member],
    /// Its return type.
    pub returns: Option<&'static str>,
    /// When it can be called.
    pub when: When,
    /// An example of its use.
    pub example: &'static str,
    /// One line for people.
    pub doc: &'static str,
}

const FORMAT: [Member; 2] = [
    Member { name: "format", ty: "any", doc: "A format, as for `string.format`." },
    Member { name: "...", ty: "any", doc: "Values for its `%s` and `%d`." },
];

const fn log(name: &'static str, example: &'static str, doc: &'static str) -> Function {
    Function { name, params: &FORMAT, returns: None, when: When::Always, example, doc }
}

/// A time.
const AT: Member = Member { name: "at", ty: "string", doc: "A time (RFC 3339)." };

/// The functions of `wb`.
pub const FUNCTIONS: [Function; 20] = [
    Function {
        name: "api",
        params: &[Member { name: "version", ty: "1", doc: "The version." }],
        returns: None,
        when: When::Loading,
        example: "wb.api(1)",
        doc: "Declares the version of this interface that the script uses; must come first.",
    },
    Function {
        name: "on",
        params: &[
            Member { name: "event", ty: "wb.EventName", doc: "The name of an event." },
            Member { name: "handler", ty: "fun(event: wb.Event)", doc: "The function to call." },
        ],
        returns: None,
        when: When::Loading,
        example: "wb.on(\"job_finished\", function(event)\n  \
            wb.log.info(\"%s is %s\", event.job.kind, event.job.status)\nend)",
        doc: "Calls a function after each event of this name.",
    },
    Function {
        name: "enqueue",
        params: &[Member { name: "request", ty: "wb.Request", doc: "A kind with its inputs." }],
        returns: None,
        when: When::Acting,
        example: "wb.on(\"topic_created\", function(event)\n  \
            wb.enqueue { kind = \"answer\", topic_id = event.data.topic_id }\nend)",
        doc: "Requests a job; it is queued once the function returns without an error.",
    },
    Function {
        name: "send",
        params: &[Member { name: "message", ty: "wb.Message", doc: "A message." }],
        returns: None,
        when: When::Acting,
        example: "wb.on(\"approval_created\", function(event)\n  \
            wb.send { to = \"person:operator\", payload = { approval = event.data.id } }\nend)",
        doc: "Sends a message to a person, an agent or an inbox, once the function returns without \
            an error.",
    },
    Function {
        name: "file",
        params: &[Member { name: "path", ty: "string", doc: "A path below the script's folder." }],
        returns: Some("string"),
        when: When::Loading,
        example: "local rules = wb.file \"prompts/rules.md\"",
        doc: "Returns the text of a file, which becomes part of the script.",
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
        doc: "Refers to a secret in an environment variable, for `env` of an engine or for a \
            webhook; read when it is used.",
    },
    Function {
        name: "secret.file",
        params: &[Member {
            name: "path",
            ty: "string",
            doc: "A file: absolute, or relative to the script's folder.",
        }],
        returns: Some("wb.Secret"),
        when: When::Always,
        example: "local key = wb.secret.file \"/run/secrets/api_key\"",
        doc: "Refers to a secret in a file, which is read when it is used.",
    },
    Function {
        name: "json.encode",
        params: &[Member { name: "value", ty: "any", doc: "Plain data." }],
        returns: Some("string"),
        when: When::Always,
        example: "local text = wb.json.encode({ a = 1 })",
        doc: "Encodes plain data as JSON.",
    },
    Function {
        name: "json.decode",
        params: &[Member { name: "text", ty: "string", doc: "JSON of at most 256 KiB." }],
        returns: Some("any"),
        when: When::Always,
        example: "local value = wb.json.decode(\"[1, 2]\")",
        doc: "Decodes JSON. In a list, `null` is `wb.json.null()`; as a field, it is nil.",
    },
    Function {
        name: "json.list",
        params: &[],
        returns: Some("any[]"),
        when: When::Always,
        example: "local labels = wb.json.list()",
        doc: "Returns a new empty list: empty, it is `[]` as JSON, where `{}` is an object. Lists \
            from JSON are like it.",
    },
    Function {
        name: "json.null",
        params: &[],
        returns: Some("any"),
        when: When::Always,
        example: "local is_null = wb.json.decode(\"[null]\")[1] == wb.json.null()",
        doc: "Returns the value that stands for `null` in a list; it equals itself only.",
    },
    Function {
        name: "date.now",
        params: &[],
        returns: Some("string"),
        when: When::Called,
        example: "wb.on(\"job_finished\", function() wb.log.info(wb.date.now()) end)",
        doc: "Returns the time of the call (RFC 3339 in UTC); it does not change during the call.",
    },
    Function {
        name: "date.format",
        params: &[
            AT,
            Member { name: "pattern", ty: "string", doc: "Such as `%Y-%m-%d`, without widths." },
            Member { name: "zone", ty: "string?", doc: "Such as `Europe/Berlin`; UTC by default." },
        ],
        returns: Some("string"),
        when: When::Always,
        example: "local day = wb.date.format(\"2026-01-02T03:04:05Z\", \"%A\", \"UTC\")",
        doc: "Formats a time.",
    },
    Function {
        name: "date.add",
        params: &[
            AT,
            Member { name: "duration", ty: "string", doc: "Such as `1h`, or `-7d` to go back." },
        ],
        returns: Some("string"),
        when: When::Always,
        example: "local before = wb.date.add(\"2026-01-02T03:04:05Z\", \"-7d\")",
        doc: "Adds a duration to a time.",
    },
    Function {
        name: "date.seconds",
        params: &[AT],
        returns: Some("integer"),
        when: When::Always,
        example: "local seconds = wb.date.seconds(\"2026-01-02T03:04:05Z\")",
        doc: "Returns the seconds since 1970, for comparing times.",
    },
    log("log.debug", "wb.log.debug(\"loaded\")", "Writes to the log if WB_LOG=debug is set."),
    log("log.info", "wb.log.info(\"%d kinds\", 3)", "Writes to the server's log."),
    log("log.warn", "wb.log.warn(\"%s is missing\", \"x\")", "Writes a warning to the log."),
    log("log.error", "wb.log.error({ a = 1 })", "Writes an error to the log."),
];

/// Functions outside `wb` that differ from those of Lua.
#[cfg(test)]
pub(crate) const BASE: [Function; 2] = [
    Function {
        name: "require",
        params: &[Member { name: "name", ty: "string", doc: "`a.b` is `a/b.lua`." }],
        returns: Some("any"),
        when: When::Loading,
        example: "require \"kinds.review\"",
        doc: "Loads a file below the script's folder once, without following links.",
    },
    Function {
        name: "print",
        params: &[Member { name: "...", ty: "any", doc: "The values to write." }],
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
        doc: "The values of a template, with the inputs of the kind.",
    }],
    returns: Some("string"),
    doc: "Returns the prompt.",
};

/// `kind.lane` as a function.
pub(crate) const LANE: Callback = Callback {
    params: &[Member {
        name: "inputs",
        ty: "table<string, any>",
        doc: "The inputs known when the job is queued.",
    }],
    returns: Some("string?"),
    doc: "Returns the lane as `NAME=VALUE`, or nil for none.",
};

/// `kind.verify`.
pub(crate) const VERIFY: Callback = Callback {
    params: &[Member { name: "job", ty: "wb.ProducedJob", doc: "The job with its output." }],
    returns: Some("string|boolean|nil"),
    doc: "Returns true or nil to accept the result; false, or a reason, to reject it.",
};

/// `kind.retry`.
pub(crate) const RETRY: Callback = Callback {
    params: &[Member { name: "job", ty: "wb.FailedJob", doc: "The job that failed." }],
    returns: Some("string|boolean|nil"),
    doc: "Returns when to retry: `5m`, a time, or true for immediately; nil or false for never.",
};

/// `schedule.enqueue` as a function.
pub(crate) const DUE: Callback = Callback {
    params: &[Member { name: "time", ty: "wb.Due", doc: "The run that is due." }],
    returns: None,
    doc: "Requests jobs with `wb.enqueue`, and sends messages with `wb.send`.",
};

/// `webhook.enqueue`.
pub(crate) const CALLED: Callback = Callback {
    params: &[Member {
        name: "call",
        ty: "wb.Call",
        doc: "The call; its signature has been verified.",
    }],
    returns: None,
    doc: "Requests jobs with `wb.enqueue`, and sends messages with `wb.send`.",
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

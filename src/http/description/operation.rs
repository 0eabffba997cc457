//! The description of one route.

use schemars::{JsonSchema, Schema, SchemaGenerator};

use crate::http::access::table::Verb;

/// Makes the schema of a type.
pub(super) type Make = fn(&mut SchemaGenerator) -> Schema;

/// The body of a successful response.
#[derive(Clone, Copy)]
pub(super) enum Content {
    /// JSON of a type.
    Json(Make),
    /// Another content type.
    Other(&'static str),
}

/// A route with its input and its responses.
pub(super) struct Operation {
    pub(super) verb: Verb,
    pub(super) path: &'static str,
    pub(super) summary: &'static str,
    pub(super) query: Option<Make>,
    pub(super) body: Option<(Make, bool)>,
    /// Whether its body is a file.
    pub(super) is_of_file: bool,
    pub(super) has_key: bool,
    pub(super) answers: Vec<(u16, Content)>,
}

fn make<T: JsonSchema>(schemas: &mut SchemaGenerator) -> Schema {
    schemas.subschema_for::<T>()
}

pub(super) fn get(path: &'static str, summary: &'static str) -> Operation {
    Operation::new(Verb::Get, path, summary)
}

pub(super) fn post(path: &'static str, summary: &'static str) -> Operation {
    Operation::new(Verb::Post, path, summary)
}

pub(super) fn delete(path: &'static str, summary: &'static str) -> Operation {
    Operation::new(Verb::Delete, path, summary)
}

impl Operation {
    fn new(verb: Verb, path: &'static str, summary: &'static str) -> Operation {
        let (query, body, answers) = (None, None, Vec::new());
        let is_of_file = false;
        Operation { verb, path, summary, query, body, is_of_file, has_key: false, answers }
    }

    /// The type of its query.
    pub(super) fn asks<T: JsonSchema>(mut self) -> Operation {
        self.query = Some(make::<T>);
        self
    }

    /// The type of its body.
    pub(super) fn takes<T: JsonSchema>(mut self) -> Operation {
        self.body = Some((make::<T>, true));
        self
    }

    /// The type of its optional body.
    pub(super) fn may_take<T: JsonSchema>(mut self) -> Operation {
        self.body = Some((make::<T>, false));
        self
    }

    /// The body is the bytes of a file.
    pub(super) fn takes_file(mut self) -> Operation {
        self.is_of_file = true;
        self
    }

    /// The route accepts an `Idempotency-Key` and stores its response under it.
    pub(super) fn once(mut self) -> Operation {
        self.has_key = true;
        self
    }

    /// The type of its response.
    pub(super) fn answers<T: JsonSchema>(self) -> Operation {
        self.answers_with::<T>(200)
    }

    /// The type of its response with a status.
    pub(super) fn answers_with<T: JsonSchema>(mut self, status: u16) -> Operation {
        self.answers.push((status, Content::Json(make::<T>)));
        self
    }

    /// The response has another content type, described elsewhere.
    pub(super) fn other(mut self, kind: &'static str) -> Operation {
        self.answers.push((200, Content::Other(kind)));
        self
    }
}

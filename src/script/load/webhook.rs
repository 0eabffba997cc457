//! `wb.webhook "name" { … }`: who may call from outside, and which function handles the call.

use serde::Serialize;

use crate::script::config::secret::Secret;
use crate::script::load::extract::{Checked, Given};
use crate::script::load::node::Declared;
use crate::script::source::location::{Location, Slot};

/// A webhook.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Webhook {
    /// Its name, which is also the end of its URL.
    pub name: String,
    /// Its purpose, for people.
    pub about: Option<String>,
    /// The secret that signs its calls.
    pub secret: Secret,
    /// The function that handles a call.
    pub enqueue: Slot,
    /// Where it is declared.
    pub at: Location,
}

/// Builds a webhook from its declaration; `None` if it is invalid, which was reported.
pub(crate) fn build(declared: &Declared, checked: &Checked) -> Option<Webhook> {
    let Some(Given::Secret(secret)) = checked.given("secret") else { return None };
    let Some(Given::Function(enqueue)) = checked.given("enqueue") else { return None };
    Some(Webhook {
        name: declared.name.clone()?,
        about: checked.text("about").map(str::to_owned),
        secret: secret.clone(),
        enqueue: enqueue.clone(),
        at: declared.spot.at(),
    })
}

//! `wb.webhook "name" { … }`: who may call from outside, and what is done with a call.

use serde::Serialize;

use crate::script::config::secret::Secret;
use crate::script::load::extract::{Checked, Given};
use crate::script::load::node::Declared;
use crate::script::source::location::{Location, Slot};

/// Something outside that may ask for jobs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Webhook {
    /// Its name, which is also the end of its address.
    pub name: String,
    /// What it is for, for people.
    pub about: Option<String>,
    /// What its calls are signed with.
    pub secret: Secret,
    /// What is done with a call.
    pub enqueue: Slot,
    /// Where it is declared.
    pub at: Location,
}

/// Makes a webhook of its declaration; nothing if that is wrong, which was reported.
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

//! The site itself, its people, and what the operator does.

use crate::api::Done;
use crate::api::backups::{BackupList, Made};
use crate::api::config::{ConfigView, ScheduleView, WebhookTaken};
use crate::api::health::{Health, Report};
use crate::api::people::{LoggedIn, LoginLink, Me, TokenMade, TokenRevoked, TokenView};
use crate::base::Page;
use crate::flows::automation::reload::{ReloadRequest, Reloaded};
use crate::flows::people::tokens::TokenRequest;
use crate::flows::people::{PersonRequest, ProfileRequest};
use crate::flows::site::backup::BackupRequest;
use crate::flows::site::housekeeping::Cleaned;
use crate::http::description::operation::{Operation, delete, get, post};
use crate::http::live::events;
use crate::http::resources::{login, operations, people};
use crate::people::Person;

/// How a stream of events is written.
const EVENTS: &str = "text/event-stream";

pub(super) fn all() -> Vec<Operation> {
    let mut all = around();
    all.extend(of_people());
    all.extend(of_operator());
    all
}

fn around() -> Vec<Operation> {
    vec![
        get("/healthz", "Checks that the process is serving").answers::<Health>(),
        get("/readyz", "Checks that the site is ready").answers::<Health>(),
        get("/metrics", "Returns metrics").other("text/plain"),
        get("/api/openapi.json", "Describes this API").other("application/json"),
        get("/api/health", "Shows the health of the site").answers::<Report>(),
        get("/api/me", "Returns the caller's identity").answers::<Me>(),
        get("/api/events", "Streams events").asks::<events::Query>().other(EVENTS),
        post("/api/login", "Signs in with a one-time code")
            .takes::<login::Code>()
            .answers::<LoggedIn>(),
        post("/api/logout", "Signs out").answers::<Done>(),
        post("/api/login-links", "Creates a one-time link")
            .may_take::<login::LinkRequest>()
            .answers::<LoginLink>(),
        get("/api/config", "Returns the active script").answers::<ConfigView>(),
        post("/api/config/reload", "Reloads the script")
            .may_take::<ReloadRequest>()
            .answers::<Reloaded>(),
        get("/api/schedules", "Lists the schedules").answers::<Page<ScheduleView>>(),
        post("/hooks/{name}", "Receives a webhook request").answers_with::<WebhookTaken>(202),
    ]
}

fn of_people() -> Vec<Operation> {
    vec![
        get("/api/persons", "Lists the people").answers::<Page<Person>>(),
        post("/api/persons", "Adds a person").takes::<PersonRequest>().answers_with::<Person>(201),
        post("/api/persons/{name}/disable", "Disables a person").answers::<Person>(),
        post("/api/persons/{name}/enable", "Enables a person").answers::<Person>(),
        post("/api/persons/{name}/role", "Changes a person's role")
            .takes::<people::RoleRequest>()
            .answers::<Person>(),
        post("/api/persons/{name}/profile", "Changes a person's profile")
            .takes::<ProfileRequest>()
            .answers::<Person>(),
        get("/api/tokens", "Lists tokens")
            .asks::<people::TokenQuery>()
            .answers::<Page<TokenView>>(),
        post("/api/tokens", "Makes a token").takes::<TokenRequest>().answers_with::<TokenMade>(201),
        delete("/api/tokens/{id}", "Revokes a token").answers::<TokenRevoked>(),
    ]
}

fn of_operator() -> Vec<Operation> {
    vec![
        get("/api/backups", "Lists the backups").answers::<BackupList>(),
        post("/api/backups", "Creates a backup").takes::<BackupRequest>().answers::<Made>(),
        post("/api/cleanup", "Removes expired data")
            .takes::<operations::CleanupRequest>()
            .answers::<Cleaned>(),
    ]
}

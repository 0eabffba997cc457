//! Routes that write with a job's token go through `jobs::fence`, in the writing transaction.

use std::fs;

use wiki_browser::http::{ROUTES, Verb, Who};

use crate::architecture::root;

/// Each such route, and the function that serves it.
const FENCED: &[(&str, &str, &str)] = &[
    ("/api/topics", "src/flows/topics/mod.rs", "create"),
    ("/api/topics/{id}/messages", "src/flows/topics/mod.rs", "post_message"),
    ("/api/topics/{id}/proposals", "src/flows/proposals/submit.rs", "propose"),
    ("/api/agent/jobs/{id}/result", "src/flows/jobs/mod.rs", "finish"),
    ("/api/agent/jobs/{id}/verdict", "src/flows/instances/verdict.rs", "give"),
    ("/api/agent/tools/execute", "src/flows/assistant/perform.rs", "start"),
    ("/api/agent/inbox", "src/flows/mail/pull.rs", "pull"),
    ("/api/messages", "src/flows/mail/send.rs", "send"),
    ("/api/handoffs", "src/flows/agents/handover.rs", "write"),
    ("/api/channels/{slug}/messages", "src/flows/channels/speak.rs", "post"),
    ("/api/channels/{slug}/attachments", "src/flows/channels/upload.rs", "attach"),
    ("/api/channels", "src/flows/channels/create.rs", "create"),
    ("/api/channels/{slug}/change", "src/flows/channels/life.rs", "changing"),
    ("/api/channels/{slug}/complete", "src/flows/channels/life.rs", "changing"),
    ("/api/channels/{slug}/leave", "src/flows/channels/members.rs", "leave"),
    ("/api/channels/{slug}/members", "src/flows/channels/members.rs", "add"),
    ("/api/channels/{slug}/members/{handle}/remove", "src/flows/channels/members.rs", "set_member"),
    ("/api/channels/{slug}/members/{handle}/mute", "src/flows/channels/members.rs", "set_member"),
    ("/api/channels/{slug}/members/{handle}/unmute", "src/flows/channels/members.rs", "set_member"),
    ("/api/proposals", "src/flows/requests/without_topic.rs", "propose"),
    ("/api/approvals", "src/flows/approvals/ask.rs", "ask"),
    ("/api/approvals/{id}/withdraw", "src/flows/approvals/withdraw.rs", "withdraw"),
    ("/api/perspectives", "src/flows/perspectives/mod.rs", "put"),
    ("/api/agent/permissions", "src/flows/approvals/permission.rs", "request"),
    ("/api/agent/permissions/{id}/answer", "src/flows/approvals/permission.rs", "answer"),
];

#[test]
fn every_writing_route_of_a_job_calls_the_fence_first() {
    let of_jobs = ROUTES
        .iter()
        .filter(|it| it.verb != Verb::Get && matches!(it.who, Who::Job | Who::WriteOrJob));
    for route in of_jobs {
        let listed = FENCED.iter().find(|(path, _, _)| *path == route.path);
        let Some((_, file, function)) = listed else {
            panic!("{} takes a job's token and is not in the list", route.path);
        };
        let text = fs::read_to_string(root().join(file)).unwrap();
        let head = format!("async fn {function}(");
        let (_, rest) = text.split_once(&head).unwrap_or_else(|| panic!("{file}: no {function}"));
        let body = rest.split("\n}\n").next().unwrap();
        let (_, inside) = body.split_once(".write(").unwrap_or_else(|| panic!("{function}"));
        let fence = inside.find("jobs::fence(tx").unwrap_or_else(|| panic!("{function}: no fence"));
        for writing in [
            "proposal::insert",
            "topic::create",
            "message::post",
            "jobs::keep_result",
            "jobs::give_verdict",
            "mail::pull",
            "post_in_room",
            "channels::create",
            "channels::join",
            "take_out",
            "set_muted",
            "perspective::put",
            "approvals::insert",
            "approvals::decide",
        ] {
            if let Some(place) = inside.find(writing) {
                assert!(fence < place, "{function} writes before the fence");
            }
        }
    }
}

#[test]
fn the_list_names_routes_that_are_there() {
    for (path, _, _) in FENCED {
        assert!(ROUTES.iter().any(|it| it.path == *path), "{path} is no route");
    }
}

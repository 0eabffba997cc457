//! The script in force, as the page and the command line see it.

use serde_json::{Value, json};

use crate::base::limit::format_duration;
use crate::flows::Site;
use crate::flows::automation::reload;
use crate::script::{Config, Kind, Lane, Schedule, Webhook};

/// Returns the effective configuration (docs/http.md, `GET /api/config`).
pub fn show(site: &Site) -> Value {
    let config = &site.config;
    let engines: Vec<Value> = config
        .engines
        .values()
        .map(|it| json!({"name": it.name, "type": it.body.word()}))
        .collect();
    json!({
        "version": env!("CARGO_PKG_VERSION"),
        "digest": config.digest,
        "site": {
            "name": config.site.name, "root": config.site.root, "listen": config.site.listen,
            "sources": config.site.sources,
        },
        "identity": config.identity,
        "limits": {
            "jobs": config.limits.jobs, "agents": config.limits.agents,
            "grace": format_duration(config.limits.grace),
            "lanes": config.limits.lanes,
        },
        "channel_types": config.channels.types.keys().collect::<Vec<_>>(),
        "engines": engines,
        "kinds": config.kinds.values().map(kind).collect::<Vec<_>>(),
        "warnings": *site.warnings,
        "script_stuck": site.vm().stuck(),
        "script": reload::facts(site),
        "schedules": config.schedules.values().map(schedule).collect::<Vec<_>>(),
        "handlers": handlers(config),
        "webhooks": config.webhooks.values().map(webhook).collect::<Vec<_>>(),
    })
}

fn schedule(it: &Schedule) -> Value {
    json!({"name": it.name, "about": it.about, "when": it.describe(), "missed": it.missed})
}

fn webhook(it: &Webhook) -> Value {
    json!({"name": it.name, "about": it.about, "path": format!("/hooks/{}", it.name)})
}

/// Which events the script is told of, and where its handlers stand.
fn handlers(config: &Config) -> Vec<Value> {
    let one =
        |it: &crate::script::Handler| json!({"event": it.event, "at": it.slot.at.to_string()});
    config.handlers.iter().map(one).collect()
}

/// An input's name, or that a function says it.
fn lane(lane: &Lane) -> String {
    match lane {
        Lane::Input(name) => name.clone(),
        Lane::Function(slot) => format!("(function at {})", slot.at),
    }
}

fn kind(kind: &Kind) -> Value {
    let inputs: Vec<Value> = kind
        .inputs
        .iter()
        .map(|it| {
            json!({
                "name": it.name, "type": it.ty.as_str(), "from": it.from, "required": it.required,
                "about": it.about, "choices": it.choices, "default": it.default,
                "computed": it.ty.is_computed(), "new": it.new,
            })
        })
        .collect();
    json!({
        "name": kind.name, "about": kind.about, "engine": kind.engine,
        "skill": kind.skill.as_ref().map(|it| &it.name),
        "produces": kind.produces.map(|it| it.as_str()), "sees_site": kind.sees_site,
        "asks": kind.asks,
        "lane": kind.lane.as_ref().map(lane),
        "on_busy": kind.on_busy.as_str(), "timeout": format_duration(kind.timeout),
        "max_running": kind.max_running, "inputs": inputs,
        "verify": kind.verify.as_ref().map(|it| it.at.to_string()),
        "retry": kind.retry.as_ref().map(|it| it.at.to_string()),
    })
}

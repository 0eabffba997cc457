//! The active script, for the page and the command line.

use std::sync::Arc;

use crate::api::config::{
    ConfigView, EngineName, HandlerView, IdentityView, InputView, KindView, LimitsView,
    ScheduleBrief, SiteView, WebhookView,
};
use crate::base::limit::format_duration;
use crate::base::{Millis, Result};
use crate::flows::Site;
use crate::flows::automation::reload;
use crate::flows::proposals::unfinished;
use crate::jobs::Requested;
use crate::script::{Config, Handler, Input, Kind, Lane, Schedule, Webhook};

/// Returns the active configuration (docs/http.md, `GET /api/config`). `address` is the real
/// address; `listen` in the script may have port 0.
///
/// # Errors
/// As reading what is at `.git`, and as any read.
pub async fn show(site: &Site, address: Option<String>) -> Result<ConfigView> {
    let replaced = site.repo.replacement().await?;
    let blocked = site.repo.refuse_special().await.err().map(|cause| match cause.hint_str() {
        Some(hint) => format!("{}: {hint}", cause.message()),
        None => cause.message().to_owned(),
    });
    let active = Arc::clone(&site.config);
    let (stranded, waiting) = site
        .store
        .read(move |c| Ok((reload::stranded(c, &active)?, unfinished::waiting(c)?)))
        .await?;
    let found = replaced.into_iter().chain(blocked).chain(waiting).chain(stranded);
    Ok(view(site, address, found))
}

fn view(site: &Site, address: Option<String>, found: impl Iterator<Item = String>) -> ConfigView {
    let config = &site.config;
    let engine = |it: &crate::script::Engine| EngineName {
        name: it.name.clone(),
        kind: it.body.word().to_owned(),
    };
    ConfigView {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        digest: config.digest.clone(),
        site: SiteView {
            name: config.site.name.clone(),
            root: config.site.root.clone(),
            listen: config.site.listen,
            sources: config.site.sources.clone(),
            address,
        },
        identity: identity(config),
        limits: LimitsView {
            jobs: config.limits.jobs,
            agents: config.limits.agents,
            grace: format_duration(config.limits.grace),
            lanes: config.limits.lanes.clone(),
        },
        channel_types: config.channels.types.keys().cloned().collect(),
        engines: config.engines.values().map(engine).collect(),
        kinds: config.kinds.values().map(kind).collect(),
        warnings: site.warnings.iter().cloned().chain(refused(site)).chain(found).collect(),
        script_stuck: site.vm().stuck(),
        script: reload::facts(site),
        schedules: config.schedules.values().map(schedule).collect(),
        handlers: handlers(config),
        webhooks: config.webhooks.values().map(webhook).collect(),
    }
}

/// Returns a warning for each handler whose jobs or messages are refused.
fn refused(site: &Site) -> Vec<String> {
    let most = site.config.limits.script_jobs;
    let tell = |(handler, what, until): (Arc<str>, Requested, Millis)| {
        let (has, nouns) = what.words();
        format!(
            "{handler} has {has} {most} {nouns} within an hour; more of its {nouns} are refused \
             until {} UTC: raise script_jobs in wb.limits, or change it and reload",
            until.minute()
        )
    };
    site.shares().refused(most, site.store.clock().now()).into_iter().map(tell).collect()
}

fn identity(config: &Config) -> IdentityView {
    let it = config.identity.clone();
    IdentityView {
        author_name: it.author_name,
        author_email: it.author_email,
        committer_name: it.committer_name,
        committer_email: it.committer_email,
    }
}

fn schedule(it: &Schedule) -> ScheduleBrief {
    let (name, about, missed) = (it.name.clone(), it.about.clone(), it.missed.as_str().to_owned());
    ScheduleBrief { name, about, when: it.describe(), missed }
}

fn webhook(it: &Webhook) -> WebhookView {
    let path = format!("/hooks/{}", it.name);
    WebhookView { name: it.name.clone(), about: it.about.clone(), path }
}

/// The events that the script handles, and the position of its handlers.
fn handlers(config: &Config) -> Vec<HandlerView> {
    let one = |it: &Handler| HandlerView {
        event: it.event.as_str().to_owned(),
        at: it.place.to_string(),
    };
    config.handlers.iter().map(one).collect()
}

/// An input's name, or that a function computes it.
fn lane(lane: &Lane) -> String {
    match lane {
        Lane::Input(name) => name.clone(),
        Lane::Function(slot) => format!("(function at {})", slot.at),
    }
}

fn input(it: &Input) -> InputView {
    InputView {
        name: it.name.clone(),
        kind: it.ty.as_str().to_owned(),
        from: it.from.clone(),
        required: it.required,
        about: it.about.clone(),
        choices: it.choices.clone(),
        default: it.default.clone(),
        computed: it.ty.is_computed(),
        new: it.new,
    }
}

fn kind(kind: &Kind) -> KindView {
    KindView {
        name: kind.name.clone(),
        about: kind.about.clone(),
        engine: kind.engine.clone(),
        skill: kind.skill.as_ref().map(|it| it.name.clone()),
        produces: kind.produces.map(|it| it.as_str().to_owned()),
        sees_site: kind.sees_site,
        asks: kind.asks,
        lane: kind.lane.as_ref().map(lane),
        on_busy: kind.on_busy.as_str().to_owned(),
        timeout: format_duration(kind.timeout),
        max_running: kind.max_running,
        address: kind.address(),
        inputs: kind.inputs.iter().map(input).collect(),
        verify: kind.verify.as_ref().map(|it| it.at.to_string()),
        retry: kind.retry.as_ref().map(|it| it.at.to_string()),
    }
}

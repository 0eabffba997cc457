//! Scheduling options of a request: priority, earliest time, and retries.

use serde_json::{Map, Value};

use crate::base::limit::PRIORITY_MAX;
use crate::base::{Actor, Error, ErrorKind, Millis, Result};
use crate::flows::Site;
use crate::flows::repository::renames;
use crate::flows::requests::{inputs, new_job, without_topic};
use crate::jobs::{self, Job, NewJob};
use crate::people::{Person, Role};
use crate::script::{Kind, OnBusy};

/// Everybody may lower the priority of a job; only an admin may raise it above the kind's.
pub(in crate::flows) fn priority(kind: &Kind, person: &Person, asked: Option<i64>) -> Result<i64> {
    let Some(asked) = asked else { return Ok(kind.priority) };
    if !(-PRIORITY_MAX..=PRIORITY_MAX).contains(&asked) {
        let message = format!("a priority is between -{PRIORITY_MAX} and {PRIORITY_MAX}");
        return Err(Error::invalid(message)
            .hint("higher runs first; without one, the kind's default applies")
            .of_input("priority"));
    }
    if asked > kind.priority && person.role != Role::Admin {
        let message = format!(
            "{asked} is above the priority of kind \"{}\", which is {}",
            kind.name, kind.priority
        );
        return Err(Error::new(ErrorKind::Forbidden, message)
            .code("priority_not_allowed")
            .hint("only admins can raise the priority; leave it out")
            .of_input("priority"));
    }
    Ok(asked)
}

/// Parses a time of a request.
pub(in crate::flows) fn parse_time(text: &str) -> Result<Millis> {
    let at: jiff::Timestamp = text.parse().map_err(|_| {
        Error::invalid("not_before must be a time such as 2026-01-02T03:04:05Z")
            .code("bad_time")
            .hint("give date, time and zone; Z is UTC")
            .of_input("not_before")
    })?;
    Ok(Millis(at.as_millisecond()))
}

/// Returns a copy of an earlier job, of the active kind, which always queues. Computed inputs are
/// computed again when it starts.
///
/// # Errors
/// What is wrong with the kind or an input now.
pub(in crate::flows) async fn repeated<'a>(
    site: &'a Site,
    old: &Job,
    person: &Person,
) -> Result<(&'a Kind, NewJob)> {
    let kind = inputs::repeated_kind(site, &old.kind)?;
    let mut new = like(site, kind, old, Actor::Person(person.id.clone())).await?;
    // A priority raised by an admin is not kept if somebody else retries the job.
    let is_admin = person.role == Role::Admin;
    new.priority = if is_admin { old.priority } else { old.priority.min(kind.priority) };
    Ok((kind, new))
}

/// Returns a job of a kind with the inputs of an earlier one, which always queues. It keeps the
/// Topic that the earlier one opened.
///
/// # Errors
/// What is wrong with an input now; `unavailable` with code `stopping`.
pub(in crate::flows) async fn like(
    site: &Site,
    kind: &Kind,
    old: &Job,
    by: Actor,
) -> Result<NewJob> {
    // Right after a commit, its documents may have other names that are not known yet.
    site.freshness.catch_up(&site.repo).await?;
    let mut sent: Map<String, Value> = old
        .inputs
        .iter()
        .filter(|(name, _)| kind.input(name).is_none_or(|it| !it.ty.is_computed()))
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect();
    renames::follow(site, (kind, old), &mut sent).await?;
    let checked = inputs::check(site, kind, &sent).await?;
    let mut new = new_job::new_job(site, kind, checked, by).await?;
    new.on_busy = OnBusy::Queue;
    if kind.inbox.is_some() {
        new.message_id = old.message_id.clone();
        new.grants = inputs::grants(kind, &Default::default());
    }
    let old = old.clone();
    let inherited = site.store.read(move |c| {
        let mut new = new.clone();
        without_topic::inherit(c, &old, &mut new)?;
        Ok(new)
    });
    inherited.await
}

/// Returns when a retry of a job may start: at a given time, and, if asked for, not before its
/// provider allows it.
///
/// # Errors
/// As any read.
pub(in crate::flows) async fn earliest(
    site: &Site,
    old: &Job,
    kind: &Kind,
    (not_before, when_allowed): (Option<Millis>, bool),
) -> Result<Option<Millis>> {
    match when_allowed {
        true => Ok(not_before.max(allowed_at(site, old, &kind.engine).await?)),
        false => Ok(not_before),
    }
}

/// Returns when an engine's job may be retried; `None` if at once.
pub(in crate::flows) async fn allowed_at(
    site: &Site,
    old: &Job,
    engine: &str,
) -> Result<Option<Millis>> {
    let is_held = site.config.engines.get(engine).is_some_and(|it| it.is_held_by_limits);
    let (now, engine) = (site.store.clock().now(), engine.to_owned());
    // A time written by a clock that was ahead does not count.
    let retry_at = old.retry_at.filter(|_| old.completed_at.is_none_or(|it| it <= now));
    let hold = site.store.read(move |c| jobs::hold_of(c, &engine)).await?;
    let until = match (hold, is_held) {
        (Some(hold), _) => retry_at.max(Some(hold.until)),
        // The hold was written with the job: a person has released it, or another job succeeded.
        (None, true) => None,
        (None, false) => retry_at,
    };
    Ok(until.filter(|it| *it > now))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::script::{Location, Prompt};

    fn kind(priority: i64) -> Kind {
        Kind {
            name: "k".to_owned(),
            about: String::new(),
            engine: "e".to_owned(),
            skill: None,
            prompt: Prompt::Template(String::new()),
            inputs: Vec::new(),
            lane: None,
            on_busy: OnBusy::Queue,
            max_running: None,
            priority,
            daily: None,
            produces: None,
            sees_site: false,
            asks: false,
            permission_wait: std::time::Duration::ZERO,
            verify: None,
            retry: None,
            timeout: Default::default(),
            start: None,
            idle: None,
            linger: Default::default(),
            hooks: Default::default(),
            inbox: None,
            agent: None,
            is_kept: false,
            was: None,
            at: Location { file: camino::Utf8Path::new("x").into(), line: 1, column: 1 },
        }
    }

    fn person(role: Role) -> Person {
        Person {
            id: "01a20055-441c-7543-b08c-8b3d2fe49395".parse().unwrap(),
            name: "ada".to_owned(),
            display_name: "Ada".to_owned(),
            email: None,
            role,
            created_at: Millis(0),
            is_external: false,
            disabled_at: None,
        }
    }

    #[test]
    fn only_an_admin_puts_a_job_before_what_its_kind_says() {
        let (member, admin) = (person(Role::Member), person(Role::Admin));
        let kind = kind(5);
        assert_eq!(priority(&kind, &member, None).unwrap(), 5);
        for lower in [5, 0, -100] {
            assert_eq!(priority(&kind, &member, Some(lower)).unwrap(), lower);
        }
        let refused = priority(&kind, &member, Some(6)).unwrap_err();
        assert_eq!(refused.code_str(), "priority_not_allowed");
        assert_eq!(refused.kind(), ErrorKind::Forbidden);
        assert_eq!(priority(&kind, &admin, Some(100)).unwrap(), 100);
        for wrong in [101, -101, i64::MIN] {
            assert!(priority(&kind, &admin, Some(wrong)).is_err());
        }
    }
}

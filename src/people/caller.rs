//! Who sends a request, and what they may do.

use crate::base::{Actor, Error, ErrorKind, JobId, Result};
use crate::people::{Person, Role, TokenScope};

/// How a person proved to be that person.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Via {
    /// A browser's session.
    Cookie,
    /// A token of their own.
    Token,
    /// The token of `data/operator.token`, over the socket.
    Operator,
}

/// Who sends a request.
#[derive(Clone, Debug)]
pub enum Caller {
    /// A human, or a program with a human's token.
    Person {
        /// Who.
        person: Person,
        /// Proved by what.
        via: Via,
        /// What the credential may be used for.
        scopes: Vec<TokenScope>,
    },
    /// The agent of a running job. Its grants are checked in the writing transaction.
    Job {
        /// Which.
        id: JobId,
        /// The digest of its token, for the fence.
        token_hash: String,
    },
}

impl Caller {
    /// Returns who did it, for rows and events.
    pub fn actor(&self) -> Actor {
        match self {
            Caller::Person { person, .. } => Actor::Person(person.id.clone()),
            Caller::Job { id, .. } => Actor::Job(id.clone()),
        }
    }

    /// Returns the person.
    ///
    /// # Errors
    /// `forbidden` with code `agent_forbidden` for a job.
    pub fn person(&self) -> Result<&Person> {
        match self {
            Caller::Person { person, .. } => Ok(person),
            Caller::Job { id, .. } => {
                Err(forbidden("agent_forbidden", format!("job {id} may not do what people do")))
            }
        }
    }

    /// Returns the job and the digest of its token.
    ///
    /// # Errors
    /// `forbidden` with code `job_only` for a person.
    pub fn job(&self) -> Result<(&JobId, &str)> {
        match self {
            Caller::Job { id, token_hash } => Ok((id, token_hash)),
            Caller::Person { .. } => {
                Err(forbidden("job_only", "only the agent of a running job does this"))
            }
        }
    }

    /// Returns the person, if they may write.
    ///
    /// # Errors
    /// `forbidden`: `agent_forbidden` for a job, `viewer` for a viewer, `scope` for a token that is
    /// not for writing.
    pub fn may_write(&self) -> Result<&Person> {
        self.may(TokenScope::Write)
    }

    /// Returns the person, if they may decide.
    ///
    /// # Errors
    /// As [`Caller::may_write`], for deciding.
    pub fn may_decide(&self) -> Result<&Person> {
        self.may(TokenScope::Decide)
    }

    fn may(&self, scope: TokenScope) -> Result<&Person> {
        let person = self.person()?;
        let Caller::Person { scopes, .. } = self else { return Ok(person) };
        if person.role == Role::Viewer {
            let message = format!("{} may read, not write", person.name);
            return Err(forbidden("viewer", message).hint("ask an admin for the role `member`"));
        }
        if !scopes.contains(&scope) {
            let word = if scope == TokenScope::Decide { "decide" } else { "write" };
            return Err(forbidden("scope", format!("this token has no scope `{word}`"))
                .hint("use a browser, or make a token with that scope"));
        }
        Ok(person)
    }
}

fn forbidden(code: &'static str, message: impl Into<String>) -> Error {
    Error::new(ErrorKind::Forbidden, message).code(code)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::people::for_test::START;

    fn person(role: Role, scopes: &[TokenScope]) -> Caller {
        let person = Person {
            id: "018bcfe5-6800-7000-8000-000000000001".parse().unwrap(),
            name: "ada".to_owned(),
            display_name: "Ada".to_owned(),
            email: None,
            role,
            created_at: START,
            disabled_at: None,
        };
        Caller::Person { person, via: Via::Token, scopes: scopes.to_vec() }
    }

    #[test]
    fn a_scope_and_a_role_are_both_needed() {
        use TokenScope::{Decide, Read, Write};
        let word = |outcome: Result<&Person>| match outcome {
            Ok(_) => "ok".to_owned(),
            Err(error) => error.code_str().to_owned(),
        };
        for (role, scopes, write, decide) in [
            (Role::Admin, vec![Read, Write, Decide], "ok", "ok"),
            (Role::Member, vec![Write], "ok", "scope"),
            (Role::Member, vec![Decide], "scope", "ok"),
            (Role::Member, vec![Read], "scope", "scope"),
            (Role::Viewer, vec![Read, Write, Decide], "viewer", "viewer"),
        ] {
            let caller = person(role, &scopes);
            assert_eq!(word(caller.may_write()), write, "{role:?} {scopes:?}");
            assert_eq!(word(caller.may_decide()), decide, "{role:?} {scopes:?}");
        }
    }

    #[test]
    fn a_job_is_no_person() {
        let id: JobId = "018bcfe5-6800-7000-8000-000000000002".parse().unwrap();
        let job = Caller::Job { id, token_hash: "x".to_owned() };
        for outcome in [job.person(), job.may_write(), job.may_decide()] {
            assert_eq!(outcome.unwrap_err().code_str(), "agent_forbidden");
        }
        assert!(job.job().is_ok() && person(Role::Admin, &[]).job().is_err());
    }
}

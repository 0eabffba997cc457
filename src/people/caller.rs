//! The sender of a request, and what they may do.

use crate::base::{Actor, Error, ErrorKind, JobId, Result};
use crate::people::{Person, Role, TokenScope};

/// How a person authenticated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Via {
    /// A browser session.
    Cookie,
    /// A personal token.
    Token,
    /// The token in `data/operator.token`, over the socket.
    Operator,
}

/// The sender of a request.
#[derive(Clone, Debug)]
pub enum Caller {
    /// A human, or a program with a human's token.
    Person {
        /// The person.
        person: Person,
        /// How they authenticated.
        via: Via,
        /// The scopes of the credential.
        scopes: Vec<TokenScope>,
    },
    /// The agent of a running job. Its grants are checked in the writing transaction.
    Job {
        /// The job.
        id: JobId,
        /// The digest of the job's token, for the fence.
        token_hash: String,
    },
}

impl Caller {
    /// Returns whether the caller is a job's agent.
    pub fn is_job(&self) -> bool {
        matches!(self, Caller::Job { .. })
    }

    /// Whether it is somebody from outside, who takes part in channels and does nothing else.
    pub fn is_outside(&self) -> bool {
        matches!(self, Caller::Person { person, .. } if person.is_external)
    }

    /// Refuses somebody from outside.
    ///
    /// # Errors
    /// `forbidden` with code `outside_forbidden`.
    pub fn from_inside(&self) -> Result<()> {
        match self.is_outside() {
            true => Err(forbidden("outside_forbidden", "members from outside may not do this")
                .hint("they read and write in their channels")),
            false => Ok(()),
        }
    }

    /// Returns whether the caller may look at channels: whoever reads the site, and somebody from
    /// outside at those in which it takes part.
    ///
    /// # Errors
    /// As [`Caller::may_read`]; `forbidden` with code `scope` for a token that is for something
    /// else.
    pub fn may_listen(&self) -> Result<()> {
        match self.is_outside() {
            true => self.may_speak().map(|_| ()),
            false => self.may_read(),
        }
    }

    /// Returns the person, if they may speak in channels in which they take part.
    ///
    /// # Errors
    /// As [`Caller::may_write`].
    pub fn may_speak(&self) -> Result<&Person> {
        match self {
            Caller::Person { person, via: Via::Token, scopes } if person.is_external => {
                if scopes.contains(&TokenScope::Channel) {
                    return Ok(person);
                }
                Err(no_scope(TokenScope::Channel))
            }
            _ => self.may_write(),
        }
    }

    /// Returns the actor for rows and events.
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
    /// `forbidden`: `agent_forbidden` for a job, `viewer` for a viewer, `scope` for a token without
    /// the scope.
    pub fn may_write(&self) -> Result<&Person> {
        self.may(TokenScope::Write)
    }

    /// Returns the person, if they may decide.
    ///
    /// # Errors
    /// Same as [`Caller::may_write`], with the scope for decisions.
    pub fn may_decide(&self) -> Result<&Person> {
        self.may(TokenScope::Decide)
    }

    /// Checks that the caller may read; so may a job.
    ///
    /// # Errors
    /// `forbidden` with code `scope` for a token without a scope that includes reading.
    pub fn may_read(&self) -> Result<()> {
        self.from_inside()?;
        match self {
            Caller::Person { scopes, .. } if scopes.iter().all(|it| !it.includes_reading()) => {
                Err(no_scope(TokenScope::Read))
            }
            _ => Ok(()),
        }
    }

    /// Returns the person, if they act in person: in a browser, or as the operator on the command
    /// line. Tokens can leak, so they cannot be used to get further credentials.
    ///
    /// # Errors
    /// `forbidden`: `agent_forbidden` for a job, `token_forbidden` for a token.
    pub fn in_person(&self) -> Result<&Person> {
        self.from_inside()?;
        let person = self.person()?;
        match self {
            Caller::Person { via: Via::Token, .. } => {
                Err(forbidden("token_forbidden", "this is not for tokens")
                    .hint("use a browser, or the command line of the operator"))
            }
            _ => Ok(person),
        }
    }

    /// Returns the person, if they are an admin acting in person.
    ///
    /// # Errors
    /// Same as [`Caller::in_person`]; `forbidden` with code `admin_only` for anybody but an admin.
    pub fn may_administer(&self) -> Result<&Person> {
        let person = self.in_person()?;
        if person.role == Role::Admin {
            return Ok(person);
        }
        let hint = match self {
            Caller::Person { via: Via::Operator, .. } => {
                "restart the server: it picks the next admin for the command line"
            }
            _ => "ask an admin of this site",
        };
        Err(forbidden("admin_only", format!("{} is not an admin", person.name)).hint(hint))
    }

    /// Checks that the caller may read the program's metrics.
    ///
    /// # Errors
    /// `forbidden`: as for [`Caller::may_administer`], and `scope` for a token without `metrics`.
    pub fn may_measure(&self) -> Result<()> {
        match self {
            Caller::Person { via: Via::Token, scopes, .. } => {
                if scopes.contains(&TokenScope::Metrics) {
                    Ok(())
                } else {
                    Err(no_scope(TokenScope::Metrics))
                }
            }
            _ => self.may_administer().map(|_| ()),
        }
    }

    fn may(&self, scope: TokenScope) -> Result<&Person> {
        self.from_inside()?;
        let person = self.person()?;
        let Caller::Person { scopes, .. } = self else { return Ok(person) };
        if person.role == Role::Viewer {
            let message = "your role (viewer) can't do this";
            return Err(forbidden("viewer", message).hint("ask an admin for the role `member`"));
        }
        if !scopes.contains(&scope) {
            return Err(no_scope(scope));
        }
        Ok(person)
    }
}

fn no_scope(scope: TokenScope) -> Error {
    forbidden("scope", format!("this token has no scope `{}`", scope.as_str()))
        .hint("use a browser, or create a token with that scope")
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
            is_external: false,
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
    fn what_leads_to_credentials_is_for_people_themselves() {
        use TokenScope::{Metrics, Read};
        let as_token = person(Role::Admin, &TokenScope::ALL);
        assert_eq!(as_token.in_person().unwrap_err().code_str(), "token_forbidden");
        assert_eq!(as_token.may_administer().unwrap_err().code_str(), "token_forbidden");
        let Caller::Person { person: ada, scopes, .. } = as_token else { unreachable!() };
        for via in [Via::Cookie, Via::Operator] {
            let there = Caller::Person { person: ada.clone(), via, scopes: scopes.clone() };
            assert!(there.may_administer().is_ok() && there.may_measure().is_ok());
            let person = Person { role: Role::Member, ..ada.clone() };
            let member = Caller::Person { person, via, scopes: scopes.clone() };
            assert!(member.in_person().is_ok());
            assert_eq!(member.may_administer().unwrap_err().code_str(), "admin_only");
            assert_eq!(member.may_measure().unwrap_err().code_str(), "admin_only");
        }
        // A metrics token reads nothing else, and no other token reads metrics.
        let measures = person(Role::Member, &[Metrics]);
        assert!(measures.may_measure().is_ok());
        assert_eq!(measures.may_read().unwrap_err().code_str(), "scope");
        let reads = person(Role::Admin, &[Read]);
        assert!(reads.may_read().is_ok());
        assert_eq!(reads.may_measure().unwrap_err().code_str(), "scope");
    }

    #[test]
    fn somebody_from_outside_takes_part_in_channels_and_does_nothing_else() {
        use TokenScope::{Channel, Metrics, Read, Write};
        let outside = |scopes: &[TokenScope], via| {
            let Caller::Person { person, .. } = person(Role::Viewer, &[]) else { unreachable!() };
            let person = Person { is_external: true, ..person };
            Caller::Person { person, via, scopes: scopes.to_vec() }
        };
        let guest = outside(&[Channel], Via::Token);
        assert!(guest.is_outside() && guest.may_speak().is_ok() && guest.may_listen().is_ok());
        // Whatever its credential claims.
        for via in [Via::Token, Via::Cookie, Via::Operator] {
            let all = outside(&[Read, Write, Metrics, Channel], via);
            let refused = [
                all.may_read().err(),
                all.may_write().err(),
                all.may_decide().err(),
                all.in_person().err(),
                all.may_administer().err(),
                all.from_inside().err(),
            ];
            for cause in refused {
                assert_eq!(cause.unwrap().code_str(), "outside_forbidden");
            }
            assert_eq!(all.may_speak().is_ok(), via == Via::Token);
        }
        let other = outside(&[Read], Via::Token);
        assert_eq!(other.may_speak().unwrap_err().code_str(), "scope");
        // The scope is for nobody else.
        let inside = person(Role::Admin, &[Channel]);
        assert_eq!(inside.may_speak().unwrap_err().code_str(), "scope");
        assert_eq!(inside.may_listen().unwrap_err().code_str(), "scope");
    }

    #[test]
    fn a_job_is_no_person() {
        let id: JobId = "018bcfe5-6800-7000-8000-000000000002".parse().unwrap();
        let job = Caller::Job { id, token_hash: "x".to_owned() };
        assert_eq!(job.may_measure().unwrap_err().code_str(), "agent_forbidden");
        let persons = [job.person(), job.may_write(), job.may_decide(), job.may_administer()];
        for outcome in persons {
            assert_eq!(outcome.unwrap_err().code_str(), "agent_forbidden");
        }
        assert!(job.job().is_ok() && person(Role::Admin, &[]).job().is_err());
    }
}

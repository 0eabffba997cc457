//! The people of a site, their tokens and browser sessions.
//!
//! **Invariant:** no secret is stored: tokens, cookies and login codes are kept as SHA-256 digests
//! (they have 256 random bits, so a slow hash would add nothing).
//! **Invariant:** jobs are only referred to; their tokens belong to `jobs`.

mod browser_session;
mod caller;
mod login_link;
mod operator;
mod person;
mod persona;
mod token;

pub use crate::api::people::{Person, Role, Token, TokenScope};
pub use browser_session::{
    LOGIN_TTL_MS, Login, create_login, end_login, end_logins, find_login, prunable_logins,
    prune_logins, touch_login,
};
pub use caller::{Caller, Via};
pub use login_link::{BAD_CODE, CODE_TTL_MS, LoginCodes};
pub use operator::keep_operator_token;
pub use person::{
    NewPerson, actor_name, create_person, disable, display_name, enable, ensure_operator, find,
    find_by_name, has_other_admin, is_address, list, names, set_external, set_profile, set_role,
};
pub use persona::{Persona, PersonaFault, is_persona_name, parse_persona};
pub use token::{
    OPERATOR_TOKEN_NAME, TokenOwner, create_token, ensure_operator_token, find_by_secret,
    is_operator_secret, list_tokens, revoke_all_tokens, revoke_token, revoke_tokens,
    revoked_tokens, set_token_maker, touch_token,
};

/// The statements of this module, for the schema test.
pub const STATEMENTS: &[&[(&str, &str)]] =
    &[person::STATEMENTS, token::STATEMENTS, browser_session::STATEMENTS];

#[cfg(test)]
pub(crate) mod for_test {
    //! What tests of people have in common.
    use crate::base::Millis;

    /// The time at which the tests of this module start.
    pub(crate) const START: Millis = Millis(1_700_000_000_000);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Tables that are scanned on purpose: a site has few people.
    const WHOLE: &[&str] = &[
        "person::list",
        "person::first_admin",
        "person::other_admin",
        "token::revoke_former",
        "token::revoked",
        "token::revoke_all",
    ];

    #[test]
    fn every_statement_is_sql_and_none_scans_a_table() {
        let connection = crate::store::in_memory();
        for (name, sql) in STATEMENTS.iter().copied().flatten() {
            let mut plan = connection.prepare(&format!("EXPLAIN QUERY PLAN {sql}")).unwrap();
            let rows: Vec<String> =
                plan.raw_query().mapped(|row| row.get("detail")).map(Result::unwrap).collect();
            let scans = rows.iter().any(|row| row.starts_with("SCAN"));
            assert!(!scans || WHOLE.contains(name), "{name}: {rows:?}");
        }
    }
}

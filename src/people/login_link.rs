//! One-time codes of login links.
//!
//! **Invariant:** codes live in memory only: after a restart a new link is printed, so that no file
//! and no backup ever contains one.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use crate::base::{Error, ErrorKind, Millis, PersonId, Result, digest_hex, random_token};

/// The error code for a login link that is used, expired or unknown.
pub const BAD_CODE: &str = "bad_code";
/// Lifetime of a code.
pub const CODE_TTL_MS: i64 = 10 * 60 * 1000;
/// Most active codes; one more ends the oldest.
const CODES_MAX: usize = crate::base::limit::LOGIN_CODES_MAX;
/// Longest code that is examined, in bytes.
const CODE_BYTES_MAX: usize = crate::base::limit::CREDENTIAL_BYTES_MAX;
/// Most wrong codes within [`WRONG_WINDOW_MS`].
const WRONG_MAX: usize = crate::base::limit::WRONG_CODES_MAX;
/// How long a wrong code counts.
const WRONG_WINDOW_MS: i64 = 60 * 1000;

/// A handle to the active codes, shared by its clones.
#[derive(Clone, Default)]
pub struct LoginCodes(Arc<Mutex<Codes>>);

#[derive(Default)]
struct Codes {
    alive: VecDeque<Code>,
    wrong: VecDeque<Millis>,
}

struct Code {
    hash: String,
    person: PersonId,
    expires: Millis,
}

impl LoginCodes {
    /// Returns a new code for a person, and when it expires.
    ///
    /// # Errors
    /// `unavailable` if the kernel provides no randomness.
    pub fn issue(&self, person: &PersonId, now: Millis) -> Result<(String, Millis)> {
        let code = random_token("")?;
        let expires = now.plus(CODE_TTL_MS);
        let mut codes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        codes.drop_dead(now);
        while codes.alive.len() >= CODES_MAX {
            codes.alive.pop_front();
        }
        codes.alive.push_back(Code { hash: digest_hex(&code), person: person.clone(), expires });
        Ok((code, expires))
    }

    /// Returns whether a code is active, without using it.
    pub fn is_alive(&self, code: &str, now: Millis) -> bool {
        let mut codes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        codes.drop_dead(now);
        codes.place(code).is_some()
    }

    /// Redeems a code and returns its person.
    ///
    /// # Errors
    /// `unauthenticated` with code `bad_code`; `busy` with code `too_many_attempts` for wrong codes
    /// after ten within a minute.
    pub fn redeem(&self, code: &str, now: Millis) -> Result<PersonId> {
        let mut codes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        codes.drop_dead(now);
        let found = codes.place(code).and_then(|place| codes.alive.remove(place));
        match found {
            // A right code works even while others guess: 256 bits cannot be guessed, but a lockout
            // would be easy to provoke.
            Some(code) => Ok(code.person),
            None if codes.wrong.len() >= WRONG_MAX => {
                Err(Error::new(ErrorKind::Busy, "too many wrong codes")
                    .code("too_many_attempts")
                    .hint("wait a minute"))
            }
            None => {
                codes.wrong.push_back(now);
                Err(Error::new(
                    ErrorKind::Unauthenticated,
                    "this link was already used or has expired",
                )
                .code(BAD_CODE)
                .hint("links work once and expire after ten minutes; request a new one"))
            }
        }
    }
}

impl Codes {
    fn drop_dead(&mut self, now: Millis) {
        // If the clock was set back, a code must not live longer than intended.
        let longest = now.plus(CODE_TTL_MS);
        self.alive.retain(|code| code.expires > now && code.expires <= longest);
        // Likewise: nothing may block for longer than the window.
        self.wrong.retain(|at| (now.0.saturating_sub(at.0)).abs() < WRONG_WINDOW_MS);
    }

    /// Compares digests, so that the time of the comparison reveals nothing about a code.
    fn place(&self, code: &str) -> Option<usize> {
        if code.len() > CODE_BYTES_MAX {
            return None;
        }
        let hash = digest_hex(code);
        self.alive.iter().position(|it| it.hash == hash)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::people::for_test::START;

    fn ada() -> PersonId {
        "018bcfe5-6800-7000-8000-000000000001".parse().unwrap()
    }

    #[test]
    fn a_code_works_once() {
        let codes = LoginCodes::default();
        let (code, _) = codes.issue(&ada(), START).unwrap();
        assert!(codes.is_alive(&code, START) && codes.is_alive(&code, START));
        assert_eq!(codes.redeem(&code, START).unwrap(), ada());
        assert_eq!(codes.redeem(&code, START).unwrap_err().code_str(), "bad_code");
    }

    #[test]
    fn a_code_ends_after_ten_minutes() {
        let codes = LoginCodes::default();
        let (code, expires) = codes.issue(&ada(), START).unwrap();
        assert!(codes.is_alive(&code, expires.plus(-1)));
        assert!(codes.redeem(&code, expires).is_err());
    }

    #[test]
    fn the_oldest_code_makes_room() {
        let codes = LoginCodes::default();
        let all: Vec<String> =
            (0..=CODES_MAX).map(|_| codes.issue(&ada(), START).unwrap().0).collect();
        assert!(!codes.is_alive(&all[0], START) && codes.is_alive(&all[1], START));
    }

    #[test]
    fn guessing_is_slowed_down_and_locks_nobody_out() {
        let codes = LoginCodes::default();
        let (code, _) = codes.issue(&ada(), START).unwrap();
        for _ in 0..WRONG_MAX {
            assert_eq!(codes.redeem("x", START).unwrap_err().code_str(), "bad_code");
        }
        assert_eq!(codes.redeem("x", START).unwrap_err().code_str(), "too_many_attempts");
        assert_eq!(codes.redeem(&code, START).unwrap(), ada());
        let later = START.plus(WRONG_WINDOW_MS);
        assert_eq!(codes.redeem("x", later).unwrap_err().code_str(), "bad_code");
    }
}

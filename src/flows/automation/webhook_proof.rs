//! Proof that a caller knows the secret of a webhook.

use sha2::{Digest as _, Sha256};

use crate::base::{Error, ErrorKind, Result};

/// Block size of SHA-256, in bytes.
const BLOCK_BYTES: usize = 64;

/// The proof sent by a caller.
#[derive(Clone)]
pub enum Proof {
    /// The HMAC of the body, in `X-Hub-Signature-256`.
    Signature([u8; 32]),
    /// The secret itself, in `X-Gitlab-Token`.
    Token(String),
}

impl Proof {
    /// Reads the proof from two headers.
    ///
    /// # Errors
    /// `unauthenticated` with code `bad_signature`: none, both, or no `sha256=HEX`.
    pub fn of(signature: Option<String>, token: Option<String>) -> Result<Proof> {
        match (signature, token) {
            (Some(text), None) => {
                text.strip_prefix("sha256=").and_then(parse_hex).map(Proof::Signature)
            }
            (None, Some(token)) => Some(Proof::Token(token)),
            _ => None,
        }
        .ok_or_else(unproven)
    }

    /// Returns whether the sender of a body knows the secret.
    pub(super) fn holds(&self, secret: &str, body: &[u8]) -> bool {
        match self {
            Proof::Signature(given) => is_same(given, &hmac(secret.as_bytes(), body)),
            // Of equal length, whatever was sent.
            Proof::Token(given) => {
                is_same(&Sha256::digest(given).into(), &Sha256::digest(secret).into())
            }
        }
    }
}

/// Returns the refusal of a call without a proof.
pub(super) fn unproven() -> Error {
    Error::new(ErrorKind::Unauthenticated, "the request is not signed with the webhook's secret")
        .code("bad_signature")
        .hint("sign the body: X-Hub-Signature-256: sha256=HMAC, or send X-Gitlab-Token")
}

fn parse_hex(text: &str) -> Option<[u8; 32]> {
    let mut bytes = [0; 32];
    if text.len() != 2 * bytes.len() || !text.bytes().all(|it| it.is_ascii_hexdigit()) {
        return None;
    }
    for (at, byte) in bytes.iter_mut().enumerate() {
        *byte = u8::from_str_radix(text.get(2 * at..2 * at + 2)?, 16).ok()?;
    }
    Some(bytes)
}

/// Compares all bytes, so that the time reveals nothing.
fn is_same(one: &[u8; 32], other: &[u8; 32]) -> bool {
    one.iter().zip(other).fold(0, |all, (a, b)| all | (a ^ b)) == 0
}

/// Returns the HMAC-SHA-256 of RFC 2104.
fn hmac(key: &[u8], text: &[u8]) -> [u8; 32] {
    let mut block = [0; BLOCK_BYTES];
    match key.len() > BLOCK_BYTES {
        true => block[..32].copy_from_slice(&Sha256::digest(key)),
        false => block[..key.len()].copy_from_slice(key),
    }
    let pad = |with: u8| block.map(|it| it ^ with);
    let inner = Sha256::new().chain_update(pad(0x36)).chain_update(text).finalize();
    Sha256::new().chain_update(pad(0x5c)).chain_update(inner).finalize().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Cases 1, 2 and 6 of RFC 4231.
    #[test]
    fn a_body_is_signed_as_the_rfc_says() {
        let long = vec![0xaa; 131];
        let cases: [(&[u8], &[u8], &str); 3] = [
            (
                &[0x0b; 20],
                b"Hi There",
                "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7",
            ),
            (
                b"Jefe",
                b"what do ya want for nothing?",
                "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843",
            ),
            (
                &long,
                b"Test Using Larger Than Block-Size Key - Hash Key First",
                "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54",
            ),
        ];
        for (key, text, expected) in cases {
            assert_eq!(parse_hex(expected), Some(hmac(key, text)));
        }
    }

    #[test]
    fn a_proof_is_one_header_that_can_be_read() {
        let right = format!("sha256={}", "0a".repeat(32));
        assert!(Proof::of(Some(right.clone()), None).is_ok());
        assert!(Proof::of(None, Some("x".to_owned())).is_ok());
        for (signature, token) in [
            (None, None),
            (Some(right.clone()), Some("x".to_owned())),
            (Some(right[7..].to_owned()), None),
            (Some(format!("{right}0")), None),
            (Some(format!("sha256={}", "+1".repeat(32))), None),
            (Some(format!("sha256={}", "é".repeat(32))), None),
        ] {
            let said = format!("{signature:?} {token:?}");
            let refused = Proof::of(signature, token).map(|_| ()).unwrap_err();
            assert_eq!(refused.code_str(), "bad_signature", "{said}");
        }
        assert!(Proof::Token("s3cret".to_owned()).holds("s3cret", b""));
        assert!(!Proof::Token("s3cre".to_owned()).holds("s3cret", b""));
    }
}

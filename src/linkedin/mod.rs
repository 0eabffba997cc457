//! LinkedIn: a person's sign-in, and what is read and published in their name.
//!
//! **Invariant:** a request that publishes is sent at most once, whatever its answer.
//! **Invariant:** a token is in a file that only the server's account can read, and in no message.

mod account;
mod api;
mod fault;
mod sign_in;
mod urn;

pub use account::{Account, Pending};
pub use api::{Api, Comment, Comments, Publish};
pub use fault::{LINKEDIN_SIGNED_OUT, LINKEDIN_UNKNOWN, signed_out};
pub use sign_in::{App, authorize_url, exchange};
pub use urn::{CommentUrn, PostUrn};

use crate::base::{BaseUrl, Result};

/// Returns the base URL of one of LinkedIn's hosts.
fn base(host: &str) -> Result<BaseUrl> {
    #[cfg(feature = "faults")]
    if let Ok(stand_in) = std::env::var("WB_LINKEDIN") {
        return stand_in.parse();
    }
    format!("https://{host}").parse()
}

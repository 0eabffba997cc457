//! The message on standard output once a site is being served.

use std::net::SocketAddr;

use camino::Utf8Path;

use crate::base::Result;
use crate::http::{Edge, login_link};
use crate::people::Person;

/// Returns the address, with a new one-time link for the operator or how to get one.
pub(super) fn greeting(
    edge: &Edge,
    root: &Utf8Path,
    address: SocketAddr,
    operator: Option<&Person>,
) -> Result<String> {
    let page = match operator {
        Some(operator) => {
            let link = login_link(edge, &operator.id)?;
            format!("{}   (one-time link, {})", link.url, operator.name)
        }
        None => format!("http://{address}   (wiki-browser login prints a one-time link)"),
    };
    Ok(format!(
        "wiki-browser serves {root}\n  page     {page}\n  \
         commands wiki-browser status, wiki-browser --help"
    ))
}

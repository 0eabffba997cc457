//! TLS roots: the machine's, or the built-in ones if it has none.

use std::sync::Arc;

use rustls::crypto::ring;
use rustls::{ClientConfig, RootCertStore};

use crate::base::{Error, Result};

/// Returns the TLS configuration. It reads files, so it must not run in an asynchronous task.
pub(super) fn config() -> Result<ClientConfig> {
    let mut roots = RootCertStore::empty();
    let found = rustls_native_certs::load_native_certs();
    for cause in &found.errors {
        tracing::warn!("a root certificate of this machine cannot be read: {cause}");
    }
    let (count, _) = roots.add_parsable_certificates(found.certs);
    if count == 0 {
        tracing::info!("this machine has no root certificates: those of the program are used");
        roots.extend(webpki_roots::TLS_SERVER_ROOTS.iter().cloned());
    }
    let provider = Arc::new(ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|cause| Error::internal("TLS cannot be set up").source(cause))?;
    Ok(config.with_root_certificates(roots).with_no_client_auth())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_are_roots_on_every_machine() {
        assert!(config().is_ok());
        assert!(!webpki_roots::TLS_SERVER_ROOTS.is_empty());
    }
}

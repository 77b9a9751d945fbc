//! TLS of the public listener.
//!
//! - [`certificate`] contains the certificate of new connections, and reloads it when its files change.
//! - [`socket`] is a connection with or without TLS.

mod certificate;
mod socket;

use std::path::PathBuf;
use std::time::Duration;

use folio_types::settings::Problems;
use serde::{Deserialize, Serialize};

pub(crate) use certificate::Certificates;
pub(crate) use socket::Socket;

/// Certificate and key of the public listener: PEM files, both or neither.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct TlsOptions {
    /// The certificate chain up to an authority that callers trust. None: plain text.
    pub certificate: Option<PathBuf>,
    pub key: Option<PathBuf>,
    /// Interval at which the files are read. A change applies to new connections. Unusable files are logged, and the
    /// previous certificate remains in use.
    #[serde(rename = "reload_interval_seconds", with = "folio_types::seconds")]
    pub reload_interval: Duration,
}

impl Default for TlsOptions {
    fn default() -> Self {
        Self { certificate: None, key: None, reload_interval: Duration::from_secs(5) }
    }
}

impl TlsOptions {
    pub fn is_enabled(&self) -> bool {
        self.certificate.is_some() || self.key.is_some()
    }

    pub(crate) fn check(&self, problems: &mut Problems) {
        let both = self.certificate.is_some() == self.key.is_some();
        problems.check(both, "tls", "requires both a certificate and a key");
        let (min, max) = (Duration::from_millis(10), Duration::from_secs(24 * 60 * 60));
        problems.seconds("tls.reload_interval_seconds", self.reload_interval, min, max);
    }
}

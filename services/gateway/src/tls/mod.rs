//! TLS of the public listener: its certificate is read again when its files change.
//!
//! - [`certificate`] holds the certificate that new connections are shown, and looks after its files.
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
    /// The certificate, with what leads to an authority that callers know. None: plain text.
    pub certificate: Option<PathBuf>,
    /// Its private key.
    pub key: Option<PathBuf>,
    /// How often the files are looked at. What has changed is shown to connections made from then on; what cannot be used
    /// is reported, and the one before stays.
    #[serde(rename = "reload_interval_seconds", with = "folio_types::seconds")]
    pub reload_interval: Duration,
}

impl Default for TlsOptions {
    fn default() -> Self {
        Self { certificate: None, key: None, reload_interval: Duration::from_secs(5) }
    }
}

impl TlsOptions {
    /// Whether connections are encrypted.
    pub fn is_on(&self) -> bool {
        self.certificate.is_some() || self.key.is_some()
    }

    pub(crate) fn check(&self, problems: &mut Problems) {
        let both = self.certificate.is_some() == self.key.is_some();
        problems.check(both, "tls", "certificate and key are needed together");
        let (least, most) = (Duration::from_millis(10), Duration::from_secs(24 * 60 * 60));
        problems.seconds("tls.reload_interval_seconds", self.reload_interval, least, most);
    }
}

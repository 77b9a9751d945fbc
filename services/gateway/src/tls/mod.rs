//! TLS of the public listener.
//!
//! - [`certificate`] contains the certificate of new connections, and reloads it when its files change.
//! - [`socket`] is a connection with or without TLS.

mod certificate;
mod socket;

use std::path::PathBuf;
use std::time::Duration;

use folio_types::settings::Problems;

pub(crate) use certificate::Certificates;
pub(crate) use socket::Socket;

folio_types::settings! {
    /// Certificate and key of the public listener: PEM files, both or neither.
    pub struct TlsOptions {
        /// The certificate chain up to an authority that callers trust. None: plain text.
        pub certificate: Option<PathBuf> = None,
        pub key: Option<PathBuf> = None,
        /// Interval at which the files are read. A change applies to new connections. Unusable files are logged, and
        /// the previous certificate remains in use.
        pub reload_interval: Duration as "reload_interval_seconds" = Duration::from_secs(5),
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

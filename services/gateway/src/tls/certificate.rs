//! The certificate of new connections. It is reloaded when its files change.

use std::path::PathBuf;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use folio_types::{Error, Reason, Result};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::{CryptoProvider, aws_lc_rs};
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::server::{ClientHello, ResolvesServerCert};
use tokio_rustls::rustls::sign::CertifiedKey;

use super::TlsOptions;

pub(crate) struct Certificates {
    files: Files,
    loaded: Pem,
    provider: Arc<CryptoProvider>,
    resolver: Arc<CertificateResolver>,
}

#[derive(Debug)]
struct Files {
    certificate: PathBuf,
    key: PathBuf,
}

/// Content of the files.
#[derive(PartialEq, Eq)]
struct Pem {
    certificate: Vec<u8>,
    key: Vec<u8>,
}

#[derive(Debug)]
struct CertificateResolver(RwLock<Arc<CertifiedKey>>);

impl ResolvesServerCert for CertificateResolver {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(Arc::clone(&self.0.read().unwrap_or_else(PoisonError::into_inner)))
    }
}

impl Certificates {
    /// Reads the files. None: the settings name no file.
    ///
    /// # Errors
    /// A file is missing or unusable, or the key does not belong to the certificate.
    pub(crate) fn load(options: &TlsOptions) -> Result<Option<Self>> {
        let (certificate, key) = match (&options.certificate, &options.key) {
            (None, None) => return Ok(None),
            (Some(certificate), Some(key)) => (certificate.clone(), key.clone()),
            _ => return Err(unusable("gateway.tls requires both certificate and key".to_owned())),
        };
        let files = Files { certificate, key };
        let provider = Arc::new(aws_lc_rs::default_provider());
        let loaded = files.read()?;
        let resolver = Arc::new(CertificateResolver(RwLock::new(loaded.parse(&files, &provider)?)));
        Ok(Some(Self { files, loaded, provider, resolver }))
    }

    /// Error: the library supports no version of TLS.
    pub(crate) fn acceptor(&self) -> Result<TlsAcceptor> {
        let config = ServerConfig::builder_with_provider(Arc::clone(&self.provider))
            .with_safe_default_protocol_versions()
            .map_err(|error| Error::internal(format!("TLS cannot be used: {error}")))?;
        let mut config = config.with_no_client_auth().with_cert_resolver(Arc::clone(&self.resolver) as _);
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(TlsAcceptor::from(Arc::new(config)))
    }

    /// Reads the files every `interval`, and reloads the certificate if they have changed. Never returns.
    pub(crate) async fn watch_files(mut self, interval: Duration) {
        let mut ticks = tokio::time::interval(interval);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            match self.reload() {
                Ok(false) => {}
                Ok(true) => tracing::info!(file = %self.files.certificate.display(), "the certificate was reloaded"),
                Err(error) => {
                    tracing::warn!(%error, "the certificate cannot be reloaded; the previous one stays in use")
                }
            }
        }
    }

    /// Reloads the certificate. Returns true if the files have changed.
    fn reload(&mut self) -> Result<bool> {
        let current = self.files.read()?;
        if current == self.loaded {
            return Ok(false);
        }
        // While only one of the two files is replaced, the key does not belong to the certificate. The next reload
        // reads both new files.
        let key = current.parse(&self.files, &self.provider)?;
        *self.resolver.0.write().unwrap_or_else(PoisonError::into_inner) = key;
        self.loaded = current;
        Ok(true)
    }
}

/// Returns the error for files that the operator must correct.
fn unusable(message: String) -> Error {
    Error::invalid(Reason::InvalidField, message)
}

impl Files {
    fn read(&self) -> Result<Pem> {
        let read = |path: &PathBuf| {
            std::fs::read(path).map_err(|error| unusable(format!("{} cannot be read: {error}", path.display())))
        };
        Ok(Pem { certificate: read(&self.certificate)?, key: read(&self.key)? })
    }
}

impl Pem {
    fn parse(&self, files: &Files, provider: &CryptoProvider) -> Result<Arc<CertifiedKey>> {
        let bad = |path: &PathBuf, why: String| unusable(format!("{} cannot be used: {why}", path.display()));
        let chain = CertificateDer::pem_slice_iter(&self.certificate).collect::<std::result::Result<Vec<_>, _>>();
        let chain = chain.map_err(|error| bad(&files.certificate, error.to_string()))?;
        if chain.is_empty() {
            return Err(bad(&files.certificate, "it contains no certificate".to_owned()));
        }
        let key = PrivateKeyDer::from_pem_slice(&self.key).map_err(|error| bad(&files.key, error.to_string()))?;
        let key = CertifiedKey::from_der(chain, key, provider);
        Ok(Arc::new(key.map_err(|error| bad(&files.key, error.to_string()))?))
    }
}

//! The address of a server on a command line, with or without TLS.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use tonic::transport::{Certificate, ClientTlsConfig, Endpoint};

/// Files of common systems with the trusted certificate authorities. `SSL_CERT_FILE` takes precedence.
const SYSTEM_BUNDLES: [&str; 3] =
    ["/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/cert.pem"];

/// The trusted authorities of a server.
#[derive(Debug, Clone, Default, clap::Args)]
pub(crate) struct TlsArguments {
    /// PEM file with the certificate authorities to trust for a server with TLS (https://) [default: the system's].
    #[arg(long, value_name = "FILE")]
    tls_ca: Option<PathBuf>,
}

impl TlsArguments {
    /// Returns the file with the trusted authorities. None: the system's.
    pub(crate) fn authority(&self) -> Option<&Path> {
        self.tls_ca.as_deref()
    }

    /// Uses `authority` unless the command line names another one.
    #[must_use]
    pub(crate) fn or(self, authority: Option<PathBuf>) -> Self {
        Self { tls_ca: self.tls_ca.or(authority) }
    }

    /// Returns the endpoint of `http://HOST:PORT`, `https://HOST:PORT` or `HOST:PORT` (TLS only with `--tls-ca`).
    pub(crate) fn endpoint(&self, server: &str) -> Result<Endpoint> {
        let scheme = if self.tls_ca.is_some() { "https" } else { "http" };
        let url = if server.contains("://") { server.to_owned() } else { format!("{scheme}://{server}") };
        let invalid =
            || format!("invalid address {server:?}: expected HOST:PORT, http://HOST:PORT or https://HOST:PORT");
        anyhow::ensure!(url.starts_with("http://") || url.starts_with("https://"), "{}", invalid());
        let endpoint = Endpoint::from_shared(url.clone()).with_context(invalid)?;
        if !url.starts_with("https://") {
            anyhow::ensure!(self.tls_ca.is_none(), "--tls-ca requires an https:// address, got {url}");
            return Ok(endpoint);
        }
        let authorities = match &self.tls_ca {
            Some(file) => read(file)?,
            None => system()?,
        };
        Ok(endpoint.tls_config(ClientTlsConfig::new().ca_certificate(Certificate::from_pem(authorities)))?)
    }
}

fn system() -> Result<Vec<u8>> {
    let configured = std::env::var_os("SSL_CERT_FILE").map(PathBuf::from);
    let bundle = SYSTEM_BUNDLES.iter().map(PathBuf::from).find(|file| file.is_file());
    read(
        &configured
            .or(bundle)
            .context("no file with trusted certificate authorities found: set SSL_CERT_FILE or pass --tls-ca")?,
    )
}

fn read(file: &Path) -> Result<Vec<u8>> {
    std::fs::read(file).with_context(|| format!("{} cannot be read", file.display()))
}

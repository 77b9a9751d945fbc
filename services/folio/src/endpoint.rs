//! The address of a server on a command line, with or without TLS.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, anyhow};
use folio_client::ConnectError;
use tonic::transport::Endpoint;

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

    /// Returns the trusted authorities as PEM. None: the system's.
    pub(crate) fn read(&self) -> Result<Option<Vec<u8>>> {
        let read = |file: &PathBuf| std::fs::read(file).with_context(|| format!("{} cannot be read", file.display()));
        self.tls_ca.as_ref().map(read).transpose()
    }

    /// Returns the endpoint of `http://HOST:PORT`, `https://HOST:PORT` or `HOST:PORT` (TLS only with `--tls-ca`).
    pub(crate) fn endpoint(&self, server: &str) -> Result<Endpoint> {
        folio_client::endpoint(server, self.read()?).map_err(explain)
    }
}

/// Returns an error with the arguments that remedy it.
pub(crate) fn explain(error: ConnectError) -> anyhow::Error {
    let remedy = match &error {
        ConnectError::AuthoritiesWithoutTls(url) => return anyhow!("--tls-ca requires an https:// address, got {url}"),
        ConnectError::NoAuthorities => {
            return anyhow!("no file with trusted certificate authorities found: set SSL_CERT_FILE or pass --tls-ca");
        }
        ConnectError::Unreachable { uri, .. } if uri.scheme_str() == Some("https") => {
            "; check the address and --tls-ca, or use http:// for a server without a certificate"
        }
        ConnectError::Unreachable { .. } => "; start folio serve, or pass the address with --server",
        _ => "",
    };
    anyhow!("{error}{remedy}")
}

//! Mutual TLS between processes: both sides present a certificate of the cluster's own authority.
//!
//! The files are reloaded periodically; a change applies to new connections.

use std::path::Path;
use std::time::Duration;

use folio_types::{Error, Reason, Result};
use tonic::transport::{Certificate, ClientTlsConfig, Identity, Server, ServerTlsConfig};

use crate::options::{Options, TlsOptions};

#[derive(Clone)]
pub(crate) struct Tls {
    pem: Pem,
    server_name: String,
    handshake_timeout: Duration,
}

#[derive(Clone, PartialEq, Eq)]
struct Pem {
    ca: Vec<u8>,
    certificate: Vec<u8>,
    key: Vec<u8>,
}

impl Tls {
    /// Reads the files. None: no certificates are configured.
    pub(crate) fn load(options: &Options) -> Result<Option<Self>> {
        let TlsOptions { ca, certificate, key, server_name, .. } = &options.tls;
        if !options.tls.is_enabled() {
            return Ok(None);
        }
        let pem = Pem {
            ca: read("ca", ca.as_deref())?,
            certificate: read("certificate", certificate.as_deref())?,
            key: read("key", key.as_deref())?,
        };
        Ok(Some(Self { pem, server_name: server_name.clone(), handshake_timeout: options.connect_timeout }))
    }

    /// Waits until the files contain other valid certificates. Never returns if no certificates are configured. While
    /// the files are invalid, for example because only one of them has been replaced, the wait continues.
    pub(crate) async fn wait_for_change(options: &Options, current: Option<&Self>) -> Self {
        let Some(current) = current else { return std::future::pending().await };
        loop {
            tokio::time::sleep(options.tls.reload_interval).await;
            match Self::load(options) {
                Ok(Some(next)) if next.pem != current.pem => match Server::builder().tls_config(next.server()) {
                    Ok(_) => {
                        tracing::info!("the cluster certificates were reloaded");
                        return next;
                    }
                    Err(error) => tracing::warn!(?error, "the new cluster certificates are invalid"),
                },
                Ok(_) => {}
                Err(error) => tracing::warn!(%error, "cannot reload the cluster certificates"),
            }
        }
    }

    /// Returns the configuration of a node: clients need a certificate of the authority.
    pub(crate) fn server(&self) -> ServerTlsConfig {
        ServerTlsConfig::new()
            .identity(self.identity())
            .client_ca_root(Certificate::from_pem(&self.pem.ca))
            .timeout(self.handshake_timeout)
    }

    /// Returns the configuration of a client: any node with a certificate of the authority is trusted, regardless of
    /// its address.
    pub(crate) fn client(&self) -> ClientTlsConfig {
        ClientTlsConfig::new()
            .identity(self.identity())
            .ca_certificate(Certificate::from_pem(&self.pem.ca))
            .domain_name(&self.server_name)
            .timeout(self.handshake_timeout)
    }

    fn identity(&self) -> Identity {
        Identity::from_pem(&self.pem.certificate, &self.pem.key)
    }
}

fn read(name: &str, path: Option<&Path>) -> Result<Vec<u8>> {
    let invalid = |problem: String| Error::invalid(Reason::InvalidField, problem);
    let path = path.ok_or_else(|| invalid(format!("cluster.tls.{name} is missing")))?;
    std::fs::read(path).map_err(|error| invalid(format!("cannot read cluster.tls.{name} {}: {error}", path.display())))
}

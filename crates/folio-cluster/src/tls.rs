//! Mutual TLS between processes: either side shows a certificate of the cluster's own authority.

use std::path::Path;

use folio_types::{Error, Result};
use tonic::transport::{Certificate, ClientTlsConfig, Identity, ServerTlsConfig};

use crate::options::{Options, TlsOptions};

/// The certificates of this process.
#[derive(Clone)]
pub(crate) struct Tls {
    ca: Certificate,
    identity: Identity,
    server_name: String,
    handshake_within: std::time::Duration,
}

impl Tls {
    /// Reads the files; none where settings name none.
    pub(crate) fn load(options: &Options) -> Result<Option<Self>> {
        let TlsOptions { ca, certificate, key, server_name } = &options.tls;
        if !options.tls.is_on() {
            return Ok(None);
        }
        Ok(Some(Self {
            ca: Certificate::from_pem(read("ca", ca.as_deref())?),
            identity: Identity::from_pem(read("certificate", certificate.as_deref())?, read("key", key.as_deref())?),
            server_name: server_name.clone(),
            handshake_within: options.connect_timeout,
        }))
    }

    /// For a node: who shows no certificate of the authority is not let in.
    pub(crate) fn server(&self) -> ServerTlsConfig {
        ServerTlsConfig::new()
            .identity(self.identity.clone())
            .client_ca_root(self.ca.clone())
            .timeout(self.handshake_within)
    }

    /// For whoever calls a node: only a node of the authority is believed, whatever its address.
    pub(crate) fn client(&self) -> ClientTlsConfig {
        ClientTlsConfig::new()
            .identity(self.identity.clone())
            .ca_certificate(self.ca.clone())
            .domain_name(&self.server_name)
            .timeout(self.handshake_within)
    }
}

fn read(name: &str, path: Option<&Path>) -> Result<Vec<u8>> {
    let path = path.ok_or_else(|| Error::internal(format!("cluster.tls.{name} is missing")))?;
    std::fs::read(path).map_err(|error| Error::internal(format!("cluster.tls.{name} {}: {error}", path.display())))
}

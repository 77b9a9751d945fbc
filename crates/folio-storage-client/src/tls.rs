//! TLS of the connections to storage servers.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use tokio_rustls::rustls::crypto::aws_lc_rs;
use tokio_rustls::rustls::pki_types::pem::{Error as PemError, PemObject as _};
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::{ClientConfig, Error, RootCertStore};

/// PEM files with the trusted authorities and the client certificate. The first connection reads the files.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tls {
    /// The authorities that the server's certificate must chain to. None: the public authorities.
    pub authorities: Option<PathBuf>,
    /// The client's certificate chain and its key, for servers that require a client certificate.
    pub client: Option<(PathBuf, PathBuf)>,
}

/// The content of the files of [`Tls`].
#[derive(Default)]
pub struct Material {
    /// The PEM of the trusted authorities. None: the public authorities.
    pub authorities: Option<Vec<u8>>,
    /// The PEM of the client's certificate chain, and of its key.
    pub client: Option<(Vec<u8>, Vec<u8>)>,
}

impl Tls {
    /// The error contains the path of the unreadable file.
    pub async fn read(&self) -> Result<Material, String> {
        let mut material = Material::default();
        if let Some(authorities) = &self.authorities {
            material.authorities = Some(read(authorities).await?);
        }
        if let Some((chain, key)) = &self.client {
            material.client = Some((read(chain).await?, read(key).await?));
        }
        Ok(material)
    }
}

async fn read(path: &Path) -> Result<Vec<u8>, String> {
    tokio::fs::read(path).await.map_err(|error| format!("{}: {error}", path.display()))
}

impl Material {
    /// Returns the configuration for rustls. The error is the reason why a certificate or the key is refused.
    pub fn client_config(&self) -> Result<Arc<ClientConfig>, String> {
        let mut roots = RootCertStore::empty();
        match &self.authorities {
            Some(pem) => {
                for authority in certificates(pem)? {
                    roots.add(authority).map_err(refused)?;
                }
                if roots.is_empty() {
                    return Err("the file of the authorities contains no certificate".to_owned());
                }
            }
            None => roots.extend(webpki_roots::TLS_SERVER_ROOTS.iter().cloned()),
        }
        let builder = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(refused)?
            .with_root_certificates(roots);
        let Some((chain, key)) = &self.client else { return Ok(Arc::new(builder.with_no_client_auth())) };
        let key = PrivateKeyDer::from_pem_slice(key).map_err(unreadable)?;
        builder.with_client_auth_cert(certificates(chain)?, key).map(Arc::new).map_err(refused)
    }
}

fn certificates(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, String> {
    CertificateDer::pem_slice_iter(pem).collect::<Result<_, _>>().map_err(unreadable)
}

fn unreadable(error: PemError) -> String {
    format!("invalid PEM: {error}")
}

fn refused(error: Error) -> String {
    error.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn malformed_certificates_are_refused_and_the_public_authorities_are_the_default() {
        Tls::default().read().await.unwrap().client_config().unwrap();
        for pem in ["", "nothing", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"] {
            let material = Material { authorities: Some(pem.as_bytes().to_vec()), client: None };
            assert!(material.client_config().is_err(), "{pem:?}");
        }
        let missing = Tls { authorities: Some("/nowhere/ca.pem".into()), client: None };
        assert!(missing.read().await.err().is_some_and(|error| error.contains("/nowhere/ca.pem")));
    }
}

//! TLS identity of a server.

use std::path::Path;

use anyhow::{Context as _, Result};

/// A server's certificate with its key, and the authority that signed it and its clients' certificates, in PEM.
#[derive(Debug, Clone)]
pub struct Identity {
    pub authority_pem: String,
    /// Certificate of the server, for 127.0.0.1.
    pub certificate_pem: String,
    /// Private key of the server, as PKCS 8.
    pub key_pem: String,
}

impl Identity {
    /// Writes `ca.pem`, `server.pem`, `key.pem`, and `both.pem` with key and certificate.
    pub(crate) fn write(&self, folder: &Path) -> Result<()> {
        let both = format!("{}{}", self.key_pem, self.certificate_pem);
        for (name, text) in [
            ("ca.pem", &self.authority_pem),
            ("server.pem", &self.certificate_pem),
            ("key.pem", &self.key_pem),
            ("both.pem", &both),
        ] {
            std::fs::write(folder.join(name), text).context("cannot write a certificate")?;
        }
        Ok(())
    }
}

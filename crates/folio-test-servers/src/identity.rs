//! Who a server says that it is.

use std::path::Path;

use anyhow::{Context as _, Result};

/// A server's certificate with its key, and the authority that signed it and whoever may connect: PEM text.
#[derive(Debug, Clone)]
pub struct Identity {
    /// The authority.
    pub authority_pem: String,
    /// The server's certificate; it names 127.0.0.1.
    pub certificate_pem: String,
    /// Its key (PKCS 8).
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
            std::fs::write(folder.join(name), text).context("a certificate cannot be written")?;
        }
        Ok(())
    }
}

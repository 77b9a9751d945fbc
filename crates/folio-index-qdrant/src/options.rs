//! Settings of the connection.

use std::net::IpAddr;
use std::time::Duration;

use folio_breaker::BreakerOptions;
use folio_storage_client::Tls;
use folio_types::{Error, Result, Secret};
use tonic::transport::{Certificate, ClientTlsConfig, Endpoint, Identity};

/// Maximum length of the name of a collection, in characters.
const NAME_CHARS: usize = 64;
/// Bounds of the time limit of a call.
const TIMEOUT_MIN: Duration = Duration::from_millis(100);
const TIMEOUT_MAX: Duration = Duration::from_secs(300);

/// Settings of the index on a Qdrant server.
#[derive(Debug, Clone, PartialEq)]
pub struct QdrantOptions {
    /// The gRPC address of the server: `https://HOST:PORT` or `http://HOST:PORT`.
    pub url: String,
    /// The API key of the server. Empty: none.
    pub api_key: Secret,
    /// The collection, which is created if it is missing. Clusters that share a server use different collections.
    pub collection: String,
    /// If true, an API key is sent without encryption to servers on other machines, too.
    pub insecure: bool,
    /// PEM files of an `https` connection.
    pub tls: Tls,
    /// Time limit of a call. A repeated call has the limit for each attempt.
    pub timeout: Duration,
    pub breaker: BreakerOptions,
}

impl QdrantOptions {
    /// Returns the defaults for a server.
    pub fn at(url: &str) -> Self {
        Self {
            url: url.to_owned(),
            api_key: Secret::default(),
            collection: "folio".to_owned(),
            insecure: false,
            tls: Tls::default(),
            timeout: Duration::from_secs(10),
            breaker: BreakerOptions::default(),
        }
    }

    /// Checks the settings.
    ///
    /// # Errors
    /// `INVALID_FIELD` with the name of the setting.
    pub fn validate(&self) -> Result<()> {
        self.address().map(drop)
    }

    fn address(&self) -> Result<Endpoint> {
        let is_letter = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
        let is_name = (1..=NAME_CHARS).contains(&self.collection.len()) && self.collection.chars().all(is_letter);
        if !is_name {
            let rule = format!("must be 1 to {NAME_CHARS} letters, digits, `-` and `_`");
            return Err(Error::invalid_field("qdrant_collection", rule));
        }
        if !(TIMEOUT_MIN..=TIMEOUT_MAX).contains(&self.timeout) {
            return Err(Error::invalid_field("qdrant_timeout_seconds", "must be from 0.1 to 300 seconds"));
        }
        let malformed = || Error::invalid_field("qdrant_url", "expected https://HOST:PORT or http://HOST:PORT");
        let endpoint = Endpoint::from_shared(self.url.clone()).map_err(|_| malformed())?;
        let host = endpoint.uri().host().ok_or_else(malformed)?;
        let is_encrypted = match endpoint.uri().scheme_str() {
            Some("https") => true,
            Some("http") => false,
            _ => return Err(malformed()),
        };
        if !is_encrypted && !self.api_key.is_empty() && !self.insecure && !is_loopback(host) {
            let remedy = "requires https: expected an https address, or qdrant_insecure";
            return Err(Error::invalid_field("qdrant_api_key", remedy));
        }
        if !is_encrypted && self.tls != Tls::default() {
            return Err(Error::invalid_field("qdrant_tls", "has no effect without an https address"));
        }
        Ok(endpoint)
    }

    /// Returns the address with its certificates.
    ///
    /// # Errors
    /// `INVALID_FIELD` if a setting is out of bounds, or a PEM file cannot be read.
    pub(crate) async fn endpoint(&self) -> Result<Endpoint> {
        let endpoint = self.address()?.connect_timeout(self.timeout).tcp_nodelay(true);
        let endpoint = endpoint.http2_keep_alive_interval(Duration::from_secs(20)).keep_alive_while_idle(true);
        if endpoint.uri().scheme_str() != Some("https") {
            return Ok(endpoint);
        }
        let files = self.tls.read().await.map_err(|error| Error::invalid_field("qdrant_tls", error))?;
        let mut tls = match files.authorities {
            Some(pem) => ClientTlsConfig::new().ca_certificate(Certificate::from_pem(pem)),
            None => ClientTlsConfig::new().trust_anchors(webpki_roots::TLS_SERVER_ROOTS.iter().cloned()),
        };
        if let Some((chain, key)) = files.client {
            tls = tls.identity(Identity::from_pem(chain, key));
        }
        endpoint.tls_config(tls).map_err(|error| Error::invalid_field("qdrant_tls", format!("is refused: {error:?}")))
    }
}

fn is_loopback(host: &str) -> bool {
    let address = host.trim_matches(['[', ']']).parse::<IpAddr>();
    host == "localhost" || address.is_ok_and(|address| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_out_of_bounds_are_refused() {
        let key = Secret::new("key");
        let at = QdrantOptions::at;
        for accepted in [
            at("http://127.0.0.1:6334"),
            at("http://qdrant:6334"),
            QdrantOptions { api_key: key.clone(), ..at("http://[::1]:6334") },
            QdrantOptions { api_key: key.clone(), ..at("https://qdrant.example:6334") },
            QdrantOptions { api_key: key.clone(), insecure: true, ..at("http://qdrant:6334") },
        ] {
            assert_eq!(accepted.validate(), Ok(()), "{accepted:?}");
        }
        let tls = Tls { authorities: Some("ca.pem".into()), client: None };
        for (refused, setting) in [
            (at(""), "qdrant_url"),
            (at("qdrant:6334"), "qdrant_url"),
            (at("ftp://qdrant"), "qdrant_url"),
            (QdrantOptions { api_key: key, ..at("http://qdrant:6334") }, "qdrant_api_key"),
            (QdrantOptions { collection: "a/b".to_owned(), ..at("http://qdrant") }, "qdrant_collection"),
            (QdrantOptions { collection: String::new(), ..at("http://qdrant") }, "qdrant_collection"),
            (QdrantOptions { timeout: Duration::ZERO, ..at("http://qdrant") }, "qdrant_timeout_seconds"),
            (QdrantOptions { tls, ..at("http://qdrant") }, "qdrant_tls"),
        ] {
            let error = refused.validate().unwrap_err();
            assert!(error.message.starts_with(setting), "{refused:?}: {error}");
            assert!(!format!("{refused:?}").contains("\"key\""), "a key is shown");
        }
    }
}

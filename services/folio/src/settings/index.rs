//! Settings of the index of passages.

use std::path::PathBuf;
use std::time::Duration;

use folio_breaker::BreakerOptions;
use folio_index_qdrant::QdrantOptions;
use folio_storage_client::Tls;
use folio_types::Secret;
use folio_types::settings::{InvalidSettings, Problems};

folio_types::settings! {
    /// The settings section `index`: the Qdrant server that contains the index of passages.
    pub(crate) struct IndexOptions {
        /// The gRPC address of a Qdrant server: `http://HOST:PORT` or `https://HOST:PORT`. Empty: the index is in
        /// folders of the processes.
        pub(crate) qdrant_url: String = String::new(),
        /// The API key of the server. Empty: none.
        pub(crate) qdrant_api_key: Secret = Secret::default(),
        /// The collection, which is created if it is missing.
        pub(crate) qdrant_collection: String = "folio".to_owned(),
        /// If true, the API key is sent to other machines without encryption, too.
        pub(crate) qdrant_insecure: bool = false,
        /// The authorities of the server's certificate. None: the public authorities.
        pub(crate) qdrant_ca: Option<PathBuf> = None,
        /// Time limit of a call.
        pub(crate) qdrant_timeout: Duration as "qdrant_timeout_seconds" = Duration::from_secs(10),
    }
}

impl IndexOptions {
    /// Returns the settings of the adapter. None: there is no Qdrant server.
    pub(crate) fn qdrant(&self) -> Option<QdrantOptions> {
        if self.qdrant_url.is_empty() {
            return None;
        }
        Some(QdrantOptions {
            url: self.qdrant_url.clone(),
            api_key: self.qdrant_api_key.clone(),
            collection: self.qdrant_collection.clone(),
            insecure: self.qdrant_insecure,
            tls: Tls { authorities: self.qdrant_ca.clone(), client: None },
            timeout: self.qdrant_timeout,
            breaker: BreakerOptions::default(),
        })
    }

    pub(crate) fn check(&self) -> Result<(), InvalidSettings> {
        let mut problems = Problems::of("index");
        let refused = self.qdrant().and_then(|options| options.validate().err());
        for violation in refused.into_iter().flat_map(|error| error.violations) {
            problems.add(violation.field, violation.description);
        }
        let has_server = !self.qdrant_url.is_empty();
        problems.check(has_server || self.qdrant_api_key.is_empty(), "qdrant_api_key", "requires index.qdrant_url");
        problems.check(has_server || self.qdrant_ca.is_none(), "qdrant_ca", "requires index.qdrant_url");
        problems.into_result()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_without_a_server_and_keys_without_encryption_are_refused() {
        let problems = |options: IndexOptions| options.check().err().map_or(String::new(), |error| error.to_string());
        assert_eq!(IndexOptions::default().qdrant(), None);
        let key = Secret::new("key");
        let alone = IndexOptions { qdrant_api_key: key.clone(), ..IndexOptions::default() };
        assert!(problems(alone).contains("index.qdrant_api_key: requires index.qdrant_url"));
        let plain = IndexOptions {
            qdrant_url: "http://qdrant:6334".to_owned(),
            qdrant_api_key: key,
            ..IndexOptions::default()
        };
        assert!(problems(plain.clone()).contains("index.qdrant_api_key"));
        assert_eq!(problems(IndexOptions { qdrant_url: "https://qdrant:6334".to_owned(), ..plain.clone() }), "");
        assert_eq!(problems(IndexOptions { qdrant_insecure: true, ..plain }), "");
    }
}

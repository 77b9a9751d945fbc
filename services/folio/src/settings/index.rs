//! The Qdrant server of the settings section `index`.

use folio_breaker::BreakerOptions;
use folio_index_qdrant::QdrantOptions;
use folio_knowledge::Options;
use folio_storage_client::Tls;
use folio_types::settings::{InvalidSettings, Problems};

/// Returns the settings of the adapter for Qdrant. None: there is no server.
pub(crate) fn qdrant(options: &Options) -> Option<QdrantOptions> {
    if options.qdrant_url.is_empty() {
        return None;
    }
    Some(QdrantOptions {
        url: options.qdrant_url.clone(),
        api_key: options.qdrant_api_key.clone(),
        collection: options.qdrant_collection.clone(),
        insecure: options.qdrant_insecure,
        tls: Tls { authorities: options.qdrant_ca.clone(), client: None },
        timeout: options.qdrant_timeout,
        breaker: BreakerOptions::default(),
    })
}

/// Returns every invalid setting of the server.
pub(crate) fn check(options: &Options) -> Result<(), InvalidSettings> {
    let mut problems = Problems::of("index");
    let refused = qdrant(options).and_then(|options| options.validate().err());
    for violation in refused.into_iter().flat_map(|error| error.violations) {
        problems.add(violation.field, violation.description);
    }
    let has_server = !options.qdrant_url.is_empty();
    problems.check(has_server || options.qdrant_api_key.is_empty(), "qdrant_api_key", "requires index.qdrant_url");
    problems.check(has_server || options.qdrant_ca.is_none(), "qdrant_ca", "requires index.qdrant_url");
    problems.into_result()
}

#[cfg(test)]
mod tests {
    use folio_types::Secret;

    use super::*;

    #[test]
    fn settings_without_a_server_and_keys_without_encryption_are_refused() {
        let problems = |options: Options| check(&options).err().map_or(String::new(), |error| error.to_string());
        assert_eq!(qdrant(&Options::default()), None);
        let key = Secret::new("key");
        let alone = Options { qdrant_api_key: key.clone(), ..Options::default() };
        assert!(problems(alone).contains("index.qdrant_api_key: requires index.qdrant_url"));
        let plain = Options { qdrant_url: "http://qdrant:6334".to_owned(), qdrant_api_key: key, ..Options::default() };
        assert!(problems(plain.clone()).contains("index.qdrant_api_key"));
        assert_eq!(problems(Options { qdrant_url: "https://qdrant:6334".to_owned(), ..plain.clone() }), "");
        assert_eq!(problems(Options { qdrant_insecure: true, ..plain }), "");
    }
}

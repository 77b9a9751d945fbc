//! The endpoints of a process: whoever calls the same URL with the same key shares its connections, places and breaker.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use folio_types::Environment;
use folio_types::settings::InvalidSettings;
use sha2::{Digest as _, Sha256};

use super::endpoint::{Endpoint, EndpointStatus, Owned};
use super::list;
use crate::model::ModelError;
use crate::network::Reach;
use crate::options::{Options, ProviderOptions};

/// The endpoints that some table holds at the moment. Cheap to clone.
#[derive(Clone)]
pub struct Endpoints {
    shared: Arc<Shared>,
}

struct Shared {
    /// Time-outs, retries and breaker of all of them.
    options: Options,
    /// Where those of tenants may lead.
    reach: Reach,
    environment: Arc<dyn Environment>,
    known: Mutex<HashMap<[u8; 32], Weak<Endpoint>>>,
}

impl Endpoints {
    /// None yet. Of the options only time-outs, retries and the breaker count.
    pub fn new(options: &Options, reach: Reach, environment: Arc<dyn Environment>) -> Self {
        let options = Options { providers: std::collections::BTreeMap::new(), ..options.clone() };
        Self { shared: Arc::new(Shared { options, reach, environment, known: Mutex::default() }) }
    }

    /// The endpoint of a provider. The name is a part of what makes two the same: it stands in errors, and one tenant's
    /// name is nothing for another.
    pub(super) fn endpoint(
        &self,
        name: &str,
        provider: &ProviderOptions,
        owned: Owned,
    ) -> Result<Arc<Endpoint>, InvalidSettings> {
        let key = identity(name, provider, owned);
        let mut known = self.shared.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(there) = known.get(&key).and_then(Weak::upgrade) {
            return Ok(there);
        }
        let made = Arc::new(self.made(name, provider, owned)?);
        known.retain(|_, there| there.strong_count() > 0);
        known.insert(key, Arc::downgrade(&made));
        Ok(made)
    }

    /// How each endpoint in use stands. Several have one name where organizations call it with keys of their own.
    pub fn status(&self) -> Vec<EndpointStatus> {
        let known = self.shared.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.values().filter_map(Weak::upgrade).map(|endpoint| endpoint.status()).collect()
    }

    /// What the endpoint's model list names, in order.
    ///
    /// # Errors
    /// Those of a call.
    pub async fn available(
        &self,
        name: &str,
        provider: &ProviderOptions,
        owned: Owned,
    ) -> Result<Vec<String>, ModelError> {
        let endpoint = self.endpoint(name, provider, owned);
        list::models(&*endpoint.map_err(|error| ModelError::Failed(error.to_string()))?).await
    }

    fn made(&self, name: &str, provider: &ProviderOptions, owned: Owned) -> Result<Endpoint, InvalidSettings> {
        let Shared { options, reach, environment, .. } = &*self.shared;
        Endpoint::new(name, provider, options, Arc::clone(environment), owned, reach)
    }
}

/// What makes two endpoints the same.
fn identity(name: &str, provider: &ProviderOptions, owned: Owned) -> [u8; 32] {
    let ProviderOptions { base_url, api_key, max_concurrent_calls, max_waiting_calls, .. } = provider;
    let how = format!(
        "{max_concurrent_calls} {max_waiting_calls} {:?} {}",
        provider.output_limit_field, provider.stream_usage
    );
    let mut hash = Sha256::new();
    for part in [name, base_url.trim_end_matches('/'), api_key.reveal(), &how, &format!("{owned:?}")] {
        hash.update((part.len() as u64).to_be_bytes());
        hash.update(part.as_bytes());
    }
    hash.finalize().into()
}

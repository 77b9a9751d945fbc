//! Endpoints of a process. Calls to the same URL with the same key share connections, permits and circuit breaker.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use folio_types::settings::InvalidSettings;
use folio_types::{Environment, hash_parts};

use super::endpoint::{AccountOwner, Endpoint, EndpointStatus};
use super::list::{self, ListedModel};
use crate::model::ModelError;
use crate::network::AddressPolicy;
use crate::options::{Options, ProviderOptions};

/// Registry of the endpoints in use. Clones share the registry.
#[derive(Clone)]
pub struct Endpoints {
    state: Arc<RegistryState>,
}

struct RegistryState {
    /// Settings that all endpoints share. The provider table is empty.
    options: Options,
    /// Address restrictions of tenants' endpoints.
    policy: AddressPolicy,
    environment: Arc<dyn Environment>,
    endpoints: Mutex<HashMap<[u8; 32], Weak<Endpoint>>>,
}

impl Endpoints {
    /// Creates an empty registry. The provider table of the options is ignored.
    pub fn new(options: &Options, policy: AddressPolicy, environment: Arc<dyn Environment>) -> Self {
        let options = Options { providers: std::collections::BTreeMap::new(), ..options.clone() };
        Self { state: Arc::new(RegistryState { options, policy, environment, endpoints: Mutex::default() }) }
    }

    /// Returns the endpoint of a provider, creating it if necessary. The provider's name is part of the endpoint's
    /// identity, because errors contain the name, and a name that one tenant chose must not reach another tenant.
    pub(super) fn endpoint(
        &self,
        name: &str,
        provider: &ProviderOptions,
        owner: AccountOwner,
    ) -> Result<Arc<Endpoint>, InvalidSettings> {
        let key = identity(name, provider, owner);
        let mut endpoints = self.state.endpoints.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(endpoint) = endpoints.get(&key).and_then(Weak::upgrade) {
            return Ok(endpoint);
        }
        let created = Arc::new(self.create(name, provider, owner)?);
        endpoints.retain(|_, endpoint| endpoint.strong_count() > 0);
        endpoints.insert(key, Arc::downgrade(&created));
        Ok(created)
    }

    /// Returns the state of each endpoint in use. Several endpoints have the same name if organizations use their own
    /// keys.
    pub fn status(&self) -> Vec<EndpointStatus> {
        let endpoints = self.state.endpoints.lock().unwrap_or_else(PoisonError::into_inner);
        endpoints.values().filter_map(Weak::upgrade).map(|endpoint| endpoint.status()).collect()
    }

    /// Returns the models in the endpoint's list, sorted by name.
    pub async fn available(
        &self,
        name: &str,
        provider: &ProviderOptions,
        owner: AccountOwner,
    ) -> Result<Vec<ListedModel>, ModelError> {
        let endpoint = self.endpoint(name, provider, owner);
        list::models(&endpoint.map_err(|error| ModelError::Failed(error.to_string()))?).await
    }

    fn create(&self, name: &str, provider: &ProviderOptions, owner: AccountOwner) -> Result<Endpoint, InvalidSettings> {
        let RegistryState { options, policy, environment, .. } = &*self.state;
        Endpoint::new(name, provider, options, Arc::clone(environment), owner, policy)
    }
}

/// Returns the identity of an endpoint: a digest of its settings.
fn identity(name: &str, provider: &ProviderOptions, owner: AccountOwner) -> [u8; 32] {
    let ProviderOptions { base_url, api_key, max_concurrent_calls, max_waiting_calls, .. } = provider;
    let settings = format!(
        "{max_concurrent_calls} {max_waiting_calls} {:?} {}",
        provider.output_limit_field, provider.stream_usage
    );
    hash_parts([name, base_url.trim_end_matches('/'), api_key.reveal(), &settings, &format!("{owner:?}")])
}

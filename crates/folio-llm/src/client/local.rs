//! Model lists that are requested at start: those of endpoints on this machine, and those of endpoints that may state the
//! context sizes of their models.

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;

use folio_types::Environment;
use futures::future::join_all;
use tokio::time::timeout;

use super::endpoint::AccountOwner;
use super::endpoints::Endpoints;
use super::list::ListedModel;
use crate::network::AddressPolicy;
use crate::options::{Options, ProviderOptions, complete_sizes, is_context_size};

/// Time limit for the list of an endpoint on this machine.
const LOCAL_TIMEOUT: Duration = Duration::from_secs(1);
/// Time limit for the list of a configured endpoint.
const LIST_TIMEOUT: Duration = Duration::from_secs(2);

/// A server with the OpenAI protocol, and its usual port.
#[derive(Debug, Clone, Copy)]
pub struct LocalEndpoint {
    pub product: &'static str,
    pub port: u16,
    /// Context size that the server gives a model unless [`CONTEXT_VARIABLE`] states another, in tokens. None: the server
    /// uses the size of the model.
    pub context_tokens: Option<u32>,
}

/// Environment variable with the context size of Ollama's models, in tokens.
pub const CONTEXT_VARIABLE: &str = "OLLAMA_CONTEXT_LENGTH";

pub const LOCAL_ENDPOINTS: [LocalEndpoint; 4] = [
    // Ollama cuts longer prompts without an error. With much graphics memory its default is larger.
    LocalEndpoint { product: "Ollama", port: 11_434, context_tokens: Some(4_096) },
    LocalEndpoint { product: "LM Studio", port: 1_234, context_tokens: None },
    LocalEndpoint { product: "llama.cpp", port: 8_080, context_tokens: None },
    LocalEndpoint { product: "vLLM", port: 8_000, context_tokens: None },
];

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DetectedEndpoint {
    /// Product whose usual port this is.
    pub product: &'static str,
    pub base_url: String,
    /// Models, sorted by name.
    pub models: Vec<ListedModel>,
    /// Context size of the models whose size the list does not state, in tokens. None: the size of the model applies.
    pub context_tokens: Option<u32>,
}

/// Requests the model lists of these ports of 127.0.0.1 concurrently. A port that returns no list within a second is
/// skipped.
pub async fn detect_local(ports: &[LocalEndpoint], environment: Arc<dyn Environment>) -> Vec<DetectedEndpoint> {
    let registry = Endpoints::new(&Options::default(), AddressPolicy::default(), environment);
    let lists = ports.iter().map(|local| detect(&registry, *local));
    join_all(lists).await.into_iter().flatten().collect()
}

async fn detect(registry: &Endpoints, local: LocalEndpoint) -> Option<DetectedEndpoint> {
    let LocalEndpoint { product, port, context_tokens } = local;
    let base_url = format!("http://{}:{port}/v1", Ipv4Addr::LOCALHOST);
    let provider = ProviderOptions { base_url: base_url.clone(), ..ProviderOptions::default() };
    let list = registry.available(product, &provider, AccountOwner::Platform);
    let models = timeout(LOCAL_TIMEOUT, list).await.ok()?.ok()?;
    let variable = std::env::var(CONTEXT_VARIABLE).ok();
    let context_tokens = context_tokens.map(|default| server_context(default, variable.as_deref()));
    Some(DetectedEndpoint { product, base_url, models, context_tokens })
}

/// Returns the context size that the server gives its models: the value of the variable, or the default of the server.
fn server_context(default: u32, variable: Option<&str>) -> u32 {
    let stated = variable.and_then(|text| text.trim().parse().ok());
    stated.filter(|tokens| is_context_size(*tokens)).unwrap_or(default)
}

/// Sets the context sizes that the endpoints of the table state, of models whose settings state none. An endpoint that
/// returns no list within two seconds is skipped. Invalid settings are returned unchanged.
pub async fn discover_context_sizes(mut options: Options, environment: Arc<dyn Environment>) -> Options {
    let Ok(resolved) = options.clone().resolve(|name| std::env::var(name).ok()) else { return options };
    let registry = &Endpoints::new(&resolved, AddressPolicy::default(), environment);
    let unset = options.providers.iter().filter(|(_, provider)| has_unset(provider));
    let lists =
        unset.filter_map(|(name, _)| resolved.providers.get_key_value(name)).map(|(name, provider)| async move {
            let list = timeout(LIST_TIMEOUT, registry.available(name, provider, AccountOwner::Platform)).await;
            (name, list.ok().and_then(Result::ok).unwrap_or_default())
        });
    for (name, listed) in join_all(lists).await {
        let Some(provider) = options.providers.get_mut(name) else { continue };
        for (model, settings) in &mut provider.models {
            let upstream = settings.upstream_of(model);
            let stated = listed.iter().find(|listed| listed.name == upstream).and_then(|listed| listed.context_tokens);
            if stated.is_some() {
                complete_sizes(model, settings, stated);
            }
        }
    }
    options
}

/// Returns true if an enabled model of the provider has no context size in the settings.
fn has_unset(provider: &ProviderOptions) -> bool {
    provider.enabled && provider.models.values().any(|model| model.enabled && model.context_tokens == 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_context_of_a_server_is_that_of_its_variable_or_its_default() {
        for (variable, expected) in [
            (None, 4_096),
            (Some(""), 4_096),
            (Some("0"), 4_096),
            (Some("many"), 4_096),
            (Some("-1"), 4_096),
            (Some(" 16384 "), 16_384),
        ] {
            assert_eq!(server_context(4_096, variable), expected, "{variable:?}");
        }
    }
}

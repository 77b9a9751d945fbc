//! The routes of the platform's model providers.

use std::collections::{BTreeMap, BTreeSet};
use std::str::FromStr;

use folio_operations::providers::{ListProviders, ProviderList, ProviderOwner, ProviderView, UpdateProvider};
use folio_operations::{Declaration, ListRequest, Operation as _};
use folio_resources::Provider;
use folio_types::models::ModelOptions;
use folio_types::{Error, Secret, Timestamp};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::endpoint::{get, put};
use super::extract::{Client, Id, Json, PathId};
use super::failure::Failure;
use super::reply::{Message, Reply, Versioned};
use super::routes::{Level, Route, restricted_route};

static LIST: Declaration = ListProviders::DECLARATION.platform();
static UPDATE: Declaration = UpdateProvider::DECLARATION.platform();

pub(super) fn routes() -> Vec<Route> {
    vec![
        restricted_route(Level::One, get("/v0/account/llm/providers", list), &LIST),
        restricted_route(Level::One, put("/v0/account/llm/provider/{provider_name}", update), &UPDATE),
    ]
}

/// The name of a provider in a path. The handler refuses an unknown name with status 400.
struct ProviderName(String);

impl FromStr for ProviderName {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        Ok(Self(text.to_owned()))
    }
}

impl PathId for ProviderName {
    const KIND: &'static str = "provider";
}

/// The providers of the platform.
#[derive(Debug, Serialize, ToSchema)]
struct Providers {
    /// By name.
    providers: Vec<ProviderBody>,
}

/// A provider.
#[derive(Debug, Serialize, ToSchema)]
struct ProviderBody {
    /// The name.
    name: String,
    /// The name.
    display_name: String,
    /// The name.
    litellm_provider: String,
    /// The models that the endpoint listed, and those of the settings.
    litellm_models_available: Vec<String>,
    /// The models that requests may use.
    litellm_models_enabled: Vec<String>,
    /// The enabled models that the document chat may use.
    litellm_models_chat_agent: Vec<String>,
    /// True if the provider is used.
    enabled: bool,
    /// Always null: API keys are never returned.
    token: Option<String>,
    /// The time at which the API key was stored; 1970 if the time is unknown. Null: no key is stored.
    #[schema(value_type = Option<String>, format = DateTime)]
    token_created_at: Option<Timestamp>,
}

impl From<&ProviderView> for ProviderBody {
    fn from(view: &ProviderView) -> Self {
        let ProviderView { name, has_api_key, provider } = view;
        let models = |is_listed: fn(&ModelOptions) -> bool| -> Vec<String> {
            let models = provider.models.iter().filter(|(_, model)| model.enabled && is_listed(model));
            models.map(|(name, _)| name.clone()).collect()
        };
        let stored_at = provider.key_stored_at.unwrap_or(Timestamp::UNIX_EPOCH);
        Self {
            name: name.clone(),
            display_name: name.clone(),
            litellm_provider: name.clone(),
            litellm_models_available: available(provider).into_iter().map(str::to_owned).collect(),
            litellm_models_enabled: models(|_| true),
            litellm_models_chat_agent: models(|model| model.chat),
            enabled: provider.enabled,
            token: None,
            token_created_at: has_api_key.then_some(stored_at),
        }
    }
}

/// The new settings of a provider. Null: unchanged.
#[derive(Debug, Deserialize, ToSchema)]
struct ProviderFields {
    /// The models that requests may use. The others are disabled.
    litellm_models_enabled: Option<Vec<String>>,
    /// The models that the document chat may use, if they are enabled.
    litellm_models_chat_agent: Option<Vec<String>>,
    /// True if the provider is used.
    enabled: Option<bool>,
    /// The API key. Empty: the stored key is deleted.
    #[schema(value_type = Option<String>)]
    token: Option<Secret>,
}

/// Returns the names of the models that a provider may enable.
fn available(provider: &Provider) -> BTreeSet<&str> {
    provider.available.iter().chain(provider.models.keys()).map(String::as_str).collect()
}

/// Returns the models of a provider after a change. None: the change names no models.
///
/// # Errors
/// The first name that is no model of the provider.
fn changed_models<'a>(
    provider: &Provider,
    enabled: Option<&'a [String]>,
    chat: Option<&'a [String]>,
) -> Result<Option<BTreeMap<String, ModelOptions>>, &'a str> {
    if enabled.is_none() && chat.is_none() {
        return Ok(None);
    }
    let (known, mut models) = (available(provider), provider.models.clone());
    for name in [enabled, chat].into_iter().flatten().flatten() {
        if !known.contains(name.as_str()) {
            return Err(name.as_str());
        }
        let added = || ModelOptions { enabled: false, chat: false, ..ModelOptions::default() };
        models.entry(name.clone()).or_insert_with(added);
    }
    for (name, model) in &mut models {
        model.enabled = enabled.map_or(model.enabled, |names| names.contains(name));
        model.chat = chat.map_or(model.chat, |names| names.contains(name));
    }
    Ok(Some(models))
}

async fn read(client: &Client) -> Result<ProviderList, Failure> {
    let list = ListRequest { page_size: 1, ..ListRequest::default() };
    client.run(ListProviders { owner: ProviderOwner::Platform, list }).await
}

async fn list(client: Client) -> Reply<Versioned<Providers>> {
    let found = read(&client).await?;
    let providers = found.effective.iter().map(Into::into).collect();
    Ok(Versioned { version: found.version, body: Providers { providers } })
}

async fn update(
    client: Client,
    Id(ProviderName(name)): Id<ProviderName>,
    Json(fields): Json<ProviderFields>,
) -> Reply<Json<Message>> {
    let found = read(&client).await?.effective.into_iter().find(|view| view.name == name);
    let shown = || name.chars().take(80).collect::<String>();
    let view = found.ok_or_else(|| Failure::bad_request(format!("Provider '{}' not found", shown())))?;
    let (enabled, chat) = (fields.litellm_models_enabled, fields.litellm_models_chat_agent);
    let models = changed_models(&view.provider, enabled.as_deref(), chat.as_deref()).map_err(|model| {
        let model: String = model.chars().take(80).collect();
        Failure::bad_request(format!("Model '{model}' is not available for provider '{}'", shown()))
    })?;
    let operation = UpdateProvider {
        owner: ProviderOwner::Platform,
        name,
        enabled: fields.enabled,
        base_url: None,
        api_key: fields.token,
        output_limit_field: None,
        stream_usage: None,
        models,
        etag: client.etag,
    };
    client.run(operation).await?;
    Ok(Message::new("LLM provider config updated successfully"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn provider() -> Provider {
        let model = |enabled, chat| ModelOptions { enabled, chat, ..ModelOptions::default() };
        Provider {
            models: [("a".to_owned(), model(true, true)), ("b".to_owned(), model(true, false))].into(),
            available: vec!["b".to_owned(), "c".to_owned()],
            ..Provider::default()
        }
    }

    #[test]
    fn a_provider_lists_its_models_by_their_use_and_no_key() {
        let view = |has_api_key| ProviderView { name: "p".to_owned(), has_api_key, provider: provider() };
        let body = ProviderBody::from(&view(true));
        assert_eq!(body.litellm_models_available, ["a", "b", "c"]);
        assert_eq!((body.litellm_models_enabled.len(), body.litellm_models_chat_agent), (2, vec!["a".to_owned()]));
        assert_eq!((body.token, body.token_created_at), (None, Some(Timestamp::UNIX_EPOCH)));
        assert_eq!(ProviderBody::from(&view(false)).token_created_at, None);
    }

    #[test]
    fn a_change_enables_the_models_that_it_names() {
        let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        type Changed = Result<Option<Vec<(String, bool, bool)>>, String>;
        let changed = |enabled: Option<&[&str]>, chat: Option<&[&str]>| -> Changed {
            let (enabled, chat) = (enabled.map(names), chat.map(names));
            let models = changed_models(&provider(), enabled.as_deref(), chat.as_deref()).map_err(str::to_owned)?;
            let state = |(name, model): (String, ModelOptions)| (name, model.enabled, model.chat);
            Ok(models.map(|models| models.into_iter().map(state).collect::<Vec<_>>()))
        };
        let row = |name: &str, enabled, chat| (name.to_owned(), enabled, chat);
        assert_eq!(changed(None, None), Ok(None));
        let expected = vec![row("a", false, true), row("b", false, false), row("c", true, false)];
        assert_eq!(changed(Some(&["c"]), None), Ok(Some(expected)));
        let expected = vec![row("a", true, false), row("b", true, true)];
        assert_eq!(changed(None, Some(&["b"])), Ok(Some(expected)));
        assert_eq!(changed(Some(&["a", "x"]), None), Err("x".to_owned()));
    }
}

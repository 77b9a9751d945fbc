//! ProviderService: what an organization, or the platform, sets of model providers.

use std::collections::BTreeMap;

use folio_llm::options::check_url;
use folio_llm::{ModelInfo, ModelOptions, ModelRequest, Progress, Tools};
use folio_metering::MeteredCall;
use folio_proto::{fields, time, v1};
use folio_providers::ProviderChange;
use folio_tools::extraction;
use folio_types::message::Message;
use folio_types::models::{ModelSettings, OutputLimitField, Provider};
use folio_types::{Code, Error, OrgId, Principal, Reason, Result, Secret};
use serde_json::{Value, json};
use tonic::{Request, Response, Status};
use v1::provider_service_server::ProviderService;

use super::{Api, answer, answer_caller, permit};
use crate::audit::Made;
use folio_operations::Caller;

/// Tokens of the answer to a test.
const TEST_TOKENS: u32 = 16;
/// Tokens of the question, with what a template puts around it: an upper estimate.
const TEST_PROMPT_TOKENS: u64 = 64;

#[tonic::async_trait]
impl ProviderService for Api {
    async fn list_providers(
        &self,
        request: Request<v1::ListProvidersRequest>,
    ) -> Result<Response<v1::ListProvidersResponse>, Status> {
        answer_caller(request, async |caller, request| {
            let owner = owner(&caller, request.owner)?;
            let settings = self.gateway.providers.settings(&owner).await?;
            let platform = self.gateway.providers.platform_names(&owner).await?;
            Ok(v1::ListProvidersResponse {
                providers: settings.providers.iter().map(|(name, provider)| shown(name, provider)).collect(),
                default_model: settings.default_model,
                fallbacks: settings.fallbacks,
                version: settings.version,
                platform_providers: platform,
            })
        })
        .await
    }

    async fn update_provider(
        &self,
        request: Request<v1::UpdateProviderRequest>,
    ) -> Result<Response<v1::UpdateProviderResponse>, Status> {
        self.changes(request, async |api, caller, request| {
            let owner = owner(&caller, request.owner)?;
            let change = ProviderChange {
                enabled: request.enabled,
                base_url: request.base_url,
                api_key: request.api_key.as_deref().map(Secret::new),
                output_limit_field: limit_field(request.output_limit_field)?,
                stream_usage: request.stream_usage,
                models: request.models.map(|models| read_models(models.models)).transpose()?,
            };
            let (name, expected) = (request.name, request.expected_version);
            if let Some(text) = change.base_url.as_deref().map(str::trim).filter(|text| !text.is_empty()) {
                // Before anything is recorded: a URL may hold a password.
                check_url(text).map_err(|what| Error::invalid_field("base_url", what))?;
            }
            let asked = ("ProviderService.UpdateProvider", "", told_change(&owner, &name, expected, &change));
            let made = |_: &ModelSettings| Made::here("model_provider", &name);
            let update = api.gateway.providers.update(&owner, &name, expected, change);
            let settings = api.recorded(&caller.principal, asked, update, made).await?;
            Ok(v1::UpdateProviderResponse { provider: one(&settings, &name), version: settings.version })
        })
        .await
    }

    async fn delete_provider(
        &self,
        request: Request<v1::DeleteProviderRequest>,
    ) -> Result<Response<v1::DeleteProviderResponse>, Status> {
        self.changes(request, async |api, caller, request| {
            let owner = owner(&caller, request.owner)?;
            let name = fields::word("name", &request.name)?;
            let expected = request.expected_version;
            let arguments = json!({ "owner": told_owner(&owner), "name": name, "expected_version": expected });
            let asked = ("ProviderService.DeleteProvider", "", arguments);
            let made = |_: &ModelSettings| Made::here("model_provider", &name);
            let delete = api.gateway.providers.delete(&owner, &name, expected);
            let settings = api.recorded(&caller.principal, asked, delete, made).await?;
            Ok(v1::DeleteProviderResponse { version: settings.version })
        })
        .await
    }

    async fn set_model_defaults(
        &self,
        request: Request<v1::SetModelDefaultsRequest>,
    ) -> Result<Response<v1::SetModelDefaultsResponse>, Status> {
        self.changes(request, async |api, caller, request| {
            let owner = owner(&caller, request.owner)?;
            let default = request.default_model.map(|name| optional_model("default_model", &name)).transpose()?;
            let fallbacks = request.fallbacks.map(|names| {
                names.models.iter().map(|name| fields::word("fallbacks", name)).collect::<Result<Vec<_>>>()
            });
            let fallbacks = fallbacks.transpose()?;
            let expected = request.expected_version;
            let arguments = json!({
                "owner": told_owner(&owner),
                "default_model": default,
                "fallbacks": fallbacks,
                "expected_version": expected,
            });
            let asked = ("ProviderService.SetModelDefaults", "", arguments);
            let made = |_: &ModelSettings| Made::here("model_defaults", &owner);
            let set = api.gateway.providers.set_defaults(&owner, expected, default, fallbacks);
            let settings = api.recorded(&caller.principal, asked, set, made).await?;
            Ok(v1::SetModelDefaultsResponse { version: settings.version })
        })
        .await
    }

    async fn discover_models(
        &self,
        request: Request<v1::DiscoverModelsRequest>,
    ) -> Result<Response<v1::DiscoverModelsResponse>, Status> {
        self.changes(request, async |api, caller, request| {
            let owner = owner(&caller, request.owner)?;
            let name = fields::word("name", &request.name)?;
            let _permit = permit(&api.discoveries, &caller)?;
            let arguments = json!({ "owner": told_owner(&owner), "name": name });
            let asked = ("ProviderService.DiscoverModels", "", arguments);
            let made = |_: &ModelSettings| Made::here("model_provider", &name);
            let discover = api.gateway.providers.discover(&owner, &name);
            let settings = api.recorded(&caller.principal, asked, discover, made).await?;
            Ok(v1::DiscoverModelsResponse { provider: one(&settings, &name), version: settings.version })
        })
        .await
    }

    async fn test_provider(
        &self,
        request: Request<v1::TestProviderRequest>,
    ) -> Result<Response<v1::TestProviderResponse>, Status> {
        answer(request, |principal, request| self.tested(principal, request)).await
    }
}

impl Api {
    async fn tested(&self, principal: Principal, request: v1::TestProviderRequest) -> Result<v1::TestProviderResponse> {
        let name = fields::word("name", &request.name)?;
        let wanted = fields::optional_word("model", &request.model)?;
        let catalogue = self.gateway.models.catalogue(&principal.org).await?;
        let mut models: Vec<&ModelInfo> = catalogue.list().iter().filter(|model| model.provider == name).collect();
        models.sort_by_key(|model| &model.name);
        let model = models.iter().find(|model| wanted.as_ref().is_none_or(|wanted| model.name == *wanted));
        let Some(model) = model else {
            let names: Vec<&str> = models.iter().take(20).map(|model| model.name.as_str()).collect();
            let message = format!("provider {name:?} has no such enabled model; it has: {}", names.join(", "));
            return Err(Error::precondition(Reason::ModelNotAvailable, message));
        };
        let environment = &self.gateway.environment;
        let call = MeteredCall {
            org: principal.org.clone(),
            user: principal.user.clone(),
            key: format!("test.{:032x}", environment.random()),
            operation: "test",
            model: model.name.clone(),
            prices: model.prices(),
            document: None,
            input_tokens: TEST_PROMPT_TOKENS,
            max_output_tokens: TEST_TOKENS.into(),
        };
        let question = ModelRequest {
            org: principal.org,
            model: model.name.clone(),
            system: "Answer in one word.".to_owned(),
            messages: vec![Message::User { text: "Say: ready".to_owned() }],
            tools: Tools::default(),
            response_format: None,
            thinking: false,
            max_output_tokens: Some(TEST_TOKENS),
            progress: Progress::default(),
        };
        let began = tokio::time::Instant::now();
        let answered = extraction::complete(&self.resources(), call, question).await?;
        Ok(v1::TestProviderResponse {
            model: model.name.clone(),
            answered: answered.is_ok(),
            problem: answered.err().map(|error| error.to_string()).unwrap_or_default(),
            milliseconds: u32::try_from(began.elapsed().as_millis()).unwrap_or(u32::MAX),
        })
    }
}

/// Whose settings are meant. The platform's are its administrator's alone.
fn owner(caller: &Caller, asked: i32) -> Result<OrgId> {
    match fields::choice::<v1::ProviderOwner>("owner", asked)? {
        v1::ProviderOwner::Unspecified | v1::ProviderOwner::Organization => Ok(caller.principal.org.clone()),
        v1::ProviderOwner::Platform if caller.is_platform_admin() => Ok(ModelSettings::platform()),
        v1::ProviderOwner::Platform => {
            let message = "the platform's providers need a token of the platform's administrator";
            Err(Error::new(Code::PermissionDenied, Reason::RoleNotAllowed, message).detail("role", "platform"))
        }
    }
}

/// Whose, as the audit log says it.
fn told_owner(owner: &OrgId) -> &'static str {
    if *owner == ModelSettings::platform() { "platform" } else { "organization" }
}

/// A change of a provider as the audit log says it: of a key only whether there is one.
fn told_change(owner: &OrgId, name: &str, expected: u64, change: &ProviderChange) -> Value {
    let told_model = |(name, model): (&String, &ModelOptions)| {
        json!({
            "name": name,
            "enabled": model.enabled,
            "input_price": model.input_price,
            "cached_input_price": model.cached_input_price,
            "output_price": model.output_price,
        })
    };
    json!({
        "owner": told_owner(owner),
        "name": name,
        "enabled": change.enabled,
        "base_url": change.base_url,
        "api_key": change.api_key.as_ref().map(|key| if key.is_empty() { "removed" } else { "set" }),
        "output_limit_field": change.output_limit_field,
        "stream_usage": change.stream_usage,
        "models": change.models.as_ref().map(|models| models.iter().map(told_model).collect::<Vec<_>>()),
        "expected_version": expected,
    })
}

fn optional_model(field: &str, name: &str) -> Result<String> {
    Ok(fields::optional_word(field, name)?.unwrap_or_default())
}

fn limit_field(asked: i32) -> Result<Option<OutputLimitField>> {
    Ok(match fields::choice::<v1::OutputLimitField>("output_limit_field", asked)? {
        v1::OutputLimitField::Unspecified => None,
        v1::OutputLimitField::MaxTokens => Some(OutputLimitField::MaxTokens),
        v1::OutputLimitField::MaxCompletionTokens => Some(OutputLimitField::MaxCompletionTokens),
        v1::OutputLimitField::None => Some(OutputLimitField::None),
    })
}

fn read_models(models: Vec<v1::ProviderModel>) -> Result<BTreeMap<String, ModelOptions>> {
    let mut read = BTreeMap::new();
    for (place, model) in models.into_iter().enumerate() {
        let standard = ModelOptions::default();
        let or = |given: u32, standard: u32| if given == 0 { standard } else { given };
        let options = ModelOptions {
            enabled: model.enabled,
            upstream: model.upstream,
            context_tokens: or(model.context_tokens, standard.context_tokens),
            max_output_tokens: or(model.max_output_tokens, standard.max_output_tokens),
            chat: model.chat,
            prompts: model.prompts,
            thinking: model.thinking,
            tools: !model.no_tools,
            json_schema: !model.no_json_schema,
            vision: model.vision,
            input_price: model.input_price_microdollars,
            cached_input_price: model.cached_input_price_microdollars,
            output_price: model.output_price_microdollars,
            ..standard
        };
        if read.insert(model.name, options).is_some() {
            return Err(Error::invalid_field(format!("models[{place}].name"), "stands twice"));
        }
    }
    Ok(read)
}

fn one(settings: &ModelSettings, name: &str) -> Option<v1::Provider> {
    settings.providers.get(name).map(|provider| shown(name, provider))
}

/// A provider as its owner sees it: never its key.
fn shown(name: &str, provider: &Provider) -> v1::Provider {
    let output_limit_field = match provider.output_limit_field {
        OutputLimitField::MaxTokens => v1::OutputLimitField::MaxTokens,
        OutputLimitField::MaxCompletionTokens => v1::OutputLimitField::MaxCompletionTokens,
        OutputLimitField::None => v1::OutputLimitField::None,
    };
    v1::Provider {
        name: name.to_owned(),
        enabled: provider.enabled,
        base_url: provider.base_url.clone(),
        has_api_key: provider.key.is_some(),
        output_limit_field: output_limit_field.into(),
        stream_usage: provider.stream_usage,
        models: provider.models.iter().map(|(name, model)| shown_model(name, model)).collect(),
        available_models: provider.available.clone(),
        discovered_at: provider.discovered_at.map(time::to_proto),
    }
}

fn shown_model(name: &str, model: &ModelOptions) -> v1::ProviderModel {
    v1::ProviderModel {
        name: name.to_owned(),
        upstream: model.upstream.clone(),
        enabled: model.enabled,
        chat: model.chat,
        prompts: model.prompts,
        context_tokens: model.context_tokens,
        max_output_tokens: model.max_output_tokens,
        thinking: model.thinking,
        no_tools: !model.tools,
        no_json_schema: !model.json_schema,
        vision: model.vision,
        input_price_microdollars: model.input_price,
        cached_input_price_microdollars: model.cached_input_price,
        output_price_microdollars: model.output_price,
    }
}

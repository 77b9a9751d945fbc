//! Operations on model providers: endpoints, API keys and models of an organization or of the platform.

use std::collections::BTreeMap;

use folio_llm::options::check_url;
use folio_llm::{EmbeddingRequest, ModelError, ModelInfo, ModelRequest, Progress, ProviderOptions, RerankRequest};
use folio_metering::MeteredCall;
use folio_providers::ProviderChange;
use folio_resources::{ModelDefaults, ModelSettings, Provider, Resource as _};
use folio_tools::{extraction, retrieval};
use folio_types::access::Scope;
use folio_types::message::Message;
use folio_types::models::{ModelKind, ModelOptions, OutputLimitField};
use folio_types::op::{Expected, Write};
use folio_types::page::Order;
use folio_types::{Error, Etag, OrgId, Reason, Result, Role, Secret, limits};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::audit::AuditRecord;
use crate::caller::permission_denied;
use crate::context::Context;
use crate::declaration::{Access, Declaration, Quota, service};
use crate::filter;
use crate::list::{ListPage, ListRequest, Listing, SortKeys};
use crate::operation::{Operation, as_digest, outcome_as_json};

service! {
    "ProviderService", Some(Scope::Administration) =>
    ListProviders, UpdateProvider, DeleteProvider, SetModelDefaults, DiscoverModels, TestProvider
}

/// Maximum number of output tokens of a test.
const TEST_TOKENS: u32 = 16;
/// Upper estimate of the prompt tokens of a test, including the chat template.
const TEST_PROMPT_TOKENS: u64 = 64;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ProviderOwner {
    /// The caller's organization.
    Organization,
    /// The platform, for all organizations. Requires a token of the platform's administrator.
    Platform,
}

impl ProviderOwner {
    fn org(self, context: &Context) -> Result<OrgId> {
        match self {
            Self::Organization if context.caller.has_organization() => Ok(context.principal().org.clone()),
            Self::Organization => {
                Err(Error::invalid_field("owner", "must be the platform if the request selects no organization"))
            }
            Self::Platform if context.caller.is_platform_admin() => Ok(OrgId::platform()),
            Self::Platform => {
                let message = "the providers of the platform require a token of the platform's administrator";
                Err(permission_denied(Reason::RoleNotAllowed, message, "role", "platform"))
            }
        }
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ProviderView {
    pub name: String,
    pub has_api_key: bool,
    /// The settings without the API key.
    pub provider: Provider,
}

impl ProviderView {
    fn of(name: &str, provider: &Provider) -> Self {
        let has_api_key = provider.key.is_some();
        Self { name: name.to_owned(), has_api_key, provider: Provider { key: None, ..provider.clone() } }
    }

    /// Returns a provider of the settings file.
    fn of_file(name: &str, file: &ProviderOptions) -> Self {
        let provider = Provider {
            enabled: file.enabled,
            base_url: file.base_url.clone(),
            output_limit_field: file.output_limit_field,
            stream_usage: file.stream_usage,
            models: file.models.clone(),
            ..Provider::default()
        };
        Self { name: name.to_owned(), has_api_key: !file.api_key.is_empty(), provider }
    }

    /// Returns a provider of the settings file with the changes that are stored under its name, as calls apply them.
    fn changed_by(self, set: Self) -> Self {
        if !set.provider.base_url.is_empty() {
            return set;
        }
        let mut models = self.provider.models;
        if set.has_api_key && !set.provider.models.is_empty() {
            models = set.provider.models;
        } else {
            for (name, model) in &mut models {
                if let Some(change) = set.provider.models.get(name) {
                    model.enabled &= change.enabled;
                    (model.chat, model.prompts) = (change.chat, change.prompts);
                }
            }
        }
        let enabled = self.provider.enabled && set.provider.enabled;
        let provider = Provider { enabled, base_url: self.provider.base_url, models, ..set.provider };
        Self { name: self.name, has_api_key: self.has_api_key || set.has_api_key, provider }
    }
}

/// Returns the providers of the settings file with the stored changes, and the other stored providers, by name.
fn effective(file: &BTreeMap<String, ProviderOptions>, settings: &ModelSettings) -> Vec<ProviderView> {
    let views = file.iter().map(|(name, file)| (name.clone(), ProviderView::of_file(name, file)));
    let mut views: BTreeMap<_, _> = views.collect();
    for (name, set) in &settings.providers {
        let set = ProviderView::of(name, set);
        let view = match views.remove(name) {
            Some(file) => file.changed_by(set),
            None => set,
        };
        views.insert(name.clone(), view);
    }
    views.into_values().collect()
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ChangedProvider {
    /// None: the provider was deleted concurrently.
    pub provider: Option<ProviderView>,
    /// The version of all settings of the owner.
    pub version: u64,
}

impl ChangedProvider {
    fn of(settings: &ModelSettings, name: &str) -> Self {
        let provider = settings.providers.get(name).map(|provider| ProviderView::of(name, provider));
        Self { provider, version: settings.version }
    }
}

/// Lists the providers that an owner has set. Filter: `name:` a part of the name. Order: `name`.
#[derive(Debug, Clone, Serialize)]
pub struct ListProviders {
    pub owner: ProviderOwner,
    pub list: ListRequest,
}

#[derive(Debug, Clone)]
pub struct ProviderList {
    pub page: ListPage<ProviderView>,
    /// The model of calls that do not name a model. Empty: the default of the platform.
    pub default_model: String,
    /// The fallback models, best first. Empty: those of the platform.
    pub fallbacks: Vec<String>,
    /// Empty: that of the platform.
    pub embedding_model: String,
    /// Empty: that of the platform.
    pub rerank_model: String,
    /// Empty: that of the platform.
    pub image_model: String,
    /// The version of all settings of the owner.
    pub version: u64,
    /// The names of the platform's providers, which the owner may override.
    pub platform_providers: Vec<String>,
    /// The providers of the settings file with the changes of the platform, and the other providers of the platform, by name.
    /// Without providers if the owner is an organization.
    pub effective: Vec<ProviderView>,
}

impl Operation for ListProviders {
    const DECLARATION: Declaration = SERVICE.read("ListProviders").role(Role::Admin).access(Access::Installation);
    type Output = ProviderList;

    async fn run(self, context: &Context) -> Result<ProviderList> {
        let owner = self.owner.org(context)?;
        let name = filter::name_search(&self.list.filter)?.map(|part| part.to_lowercase());
        let scope = ["providers", owner.as_str()];
        let listing = Listing::new(&self.list, &scope, SortKeys::Name, Order::Name, limits::PAGE_SIZE_MAX)?;
        let providers = context.providers();
        let settings = providers.settings(&owner).await?;
        let matching = settings.providers.iter().filter(|(key, _)| filter::contains(key, name.as_ref()));
        let mut views: Vec<_> = matching.map(|(name, provider)| ProviderView::of(name, provider)).collect();
        listing.sort_by_name(&mut views, |view| &view.name);
        let effective = match self.owner {
            ProviderOwner::Organization => Vec::new(),
            ProviderOwner::Platform => effective(providers.file_providers(), &settings),
        };
        Ok(ProviderList {
            effective,
            page: listing.slice(views)?,
            platform_providers: providers.platform_names(&owner).await?,
            default_model: settings.default_model,
            fallbacks: settings.fallbacks,
            embedding_model: settings.embedding_model,
            rerank_model: settings.rerank_model,
            image_model: settings.image_model,
            version: settings.version,
        })
    }
}

/// Creates or updates a provider. A field that is None keeps its value; a new provider gets the default.
#[derive(Debug, Clone, Serialize)]
pub struct UpdateProvider {
    pub owner: ProviderOwner,
    pub name: String,
    pub enabled: Option<bool>,
    /// Empty: the URL of the platform's provider with the same name.
    pub base_url: Option<String>,
    /// The API key. Empty: the stored key is deleted. Serialized as its digest.
    #[serde(serialize_with = "as_digest")]
    pub api_key: Option<Secret>,
    /// The field of a request to the endpoint that limits the number of output tokens.
    pub output_limit_field: Option<OutputLimitField>,
    /// True if streams request usage.
    pub stream_usage: Option<bool>,
    /// The new models replace the stored ones.
    pub models: Option<BTreeMap<String, ModelOptions>>,
    /// The version of the owner's settings that the change is based on. None: any version.
    pub etag: Option<Etag>,
}

impl UpdateProvider {
    /// The change as the audit log records it. Of an API key, it records only whether the key is set or removed.
    fn arguments(&self) -> Value {
        let model = |(name, model): (&String, &ModelOptions)| {
            json!({
                "name": name,
                "enabled": model.enabled,
                "kind": model.kind,
                "input_price": model.input_price,
                "cached_input_price": model.cached_input_price,
                "output_price": model.output_price,
            })
        };
        json!({
            "owner": self.owner,
            "name": self.name,
            "enabled": self.enabled,
            "base_url": self.base_url,
            "api_key": self.api_key.as_ref().map(|key| if key.is_empty() { "removed" } else { "set" }),
            "output_limit_field": self.output_limit_field,
            "stream_usage": self.stream_usage,
            "models": self.models.as_ref().map(|models| models.iter().map(model).collect::<Vec<_>>()),
            "etag": self.etag,
        })
    }
}

impl Operation for UpdateProvider {
    const DECLARATION: Declaration = SERVICE.administer("UpdateProvider").access(Access::Installation);
    type Output = ChangedProvider;
    outcome_as_json!();

    fn tenant(&self, context: &Context) -> Result<OrgId> {
        self.owner.org(context)
    }

    async fn audit(&self, _: &Context) -> Result<AuditRecord<ChangedProvider>> {
        if let Some(url) = self.base_url.as_deref().map(str::trim).filter(|url| !url.is_empty()) {
            // Checked before anything is recorded, because a URL may contain a password.
            check_url(url).map_err(|problem| Error::invalid_field("provider.base_url", problem))?;
        }
        Ok(AuditRecord::new(self.arguments()).target("model_provider", &self.name))
    }

    async fn run(self, context: &Context) -> Result<ChangedProvider> {
        let change = ProviderChange {
            enabled: self.enabled,
            base_url: self.base_url,
            api_key: self.api_key,
            output_limit_field: self.output_limit_field,
            stream_usage: self.stream_usage,
            models: self.models,
        };
        let providers = context.providers();
        let updated = changed(context, |write| providers.update(write, &self.name, self.etag, change)).await;
        let settings = updated.map_err(in_provider)?;
        Ok(ChangedProvider::of(&settings, &self.name))
    }
}

/// Deletes a provider. The output is the version of all settings of the owner.
#[derive(Debug, Clone, Serialize)]
pub struct DeleteProvider {
    pub owner: ProviderOwner,
    pub name: String,
    /// The version of the owner's settings that the change is based on. None: any version.
    pub etag: Option<Etag>,
}

impl Operation for DeleteProvider {
    const DECLARATION: Declaration = SERVICE.administer("DeleteProvider");
    type Output = u64;
    outcome_as_json!();

    fn tenant(&self, context: &Context) -> Result<OrgId> {
        self.owner.org(context)
    }

    async fn audit(&self, _: &Context) -> Result<AuditRecord<u64>> {
        AuditRecord::of_input(self).map(|record| record.target("model_provider", &self.name))
    }

    async fn run(self, context: &Context) -> Result<u64> {
        let providers = context.providers();
        Ok(changed(context, |write| providers.delete(write, &self.name, self.etag)).await?.version)
    }
}

/// Sets the default models and the fallback models. The output is the version of all settings of the owner.
#[derive(Debug, Clone, Serialize)]
pub struct SetModelDefaults {
    pub owner: ProviderOwner,
    #[serde(flatten)]
    pub defaults: ModelDefaults,
    /// The version of the owner's settings that the change is based on. None: any version.
    pub etag: Option<Etag>,
}

impl Operation for SetModelDefaults {
    const DECLARATION: Declaration = SERVICE.administer("SetModelDefaults");
    type Output = u64;
    outcome_as_json!();

    fn tenant(&self, context: &Context) -> Result<OrgId> {
        self.owner.org(context)
    }

    async fn audit(&self, context: &Context) -> Result<AuditRecord<u64>> {
        let owner = self.owner.org(context)?;
        AuditRecord::of_input(self).map(|record| record.target("model_defaults", owner))
    }

    async fn run(self, context: &Context) -> Result<u64> {
        let providers = context.providers();
        let set = |write| providers.set_defaults(write, self.etag, self.defaults);
        Ok(changed(context, set).await?.version)
    }
}

/// Requests the list of models from a provider's endpoint and stores the list.
#[derive(Debug, Clone, Serialize)]
pub struct DiscoverModels {
    pub owner: ProviderOwner,
    /// A provider for which the owner has set a URL or a key.
    pub name: String,
}

impl Operation for DiscoverModels {
    const DECLARATION: Declaration = SERVICE.administer("DiscoverModels").long();
    type Output = ChangedProvider;
    outcome_as_json!();

    fn tenant(&self, context: &Context) -> Result<OrgId> {
        self.owner.org(context)
    }

    async fn audit(&self, _: &Context) -> Result<AuditRecord<ChangedProvider>> {
        AuditRecord::of_input(self).map(|record| record.target("model_provider", &self.name))
    }

    async fn run(self, context: &Context) -> Result<ChangedProvider> {
        let _permit = context.model_endpoint_permit()?;
        let providers = context.providers();
        let settings = changed(context, |write| providers.discover(write, &self.name)).await?;
        Ok(ChangedProvider::of(&settings, &self.name))
    }
}

/// Makes a small model call, which is charged like any other call. A repeated request makes no model call.
#[derive(Debug, Clone, Serialize)]
pub struct TestProvider {
    /// A provider that the caller's organization may use.
    pub name: String,
    /// The model. None: the provider's first model by name.
    pub model: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TestedProvider {
    pub model: String,
    /// None: the model answered.
    pub problem: Option<String>,
    pub milliseconds: u32,
}

impl Operation for TestProvider {
    const DECLARATION: Declaration =
        SERVICE.change("TestProvider").role(Role::Admin).long().quota(Quota::ModelCalls).recorded_outcome();
    type Output = TestedProvider;
    outcome_as_json!();

    async fn run(self, context: &Context) -> Result<TestedProvider> {
        let catalogue = context.catalogue().await?;
        let models = catalogue.list().iter().chain(catalogue.retrieval_models());
        let mut models: Vec<&ModelInfo> = models.filter(|model| model.provider == self.name).collect();
        models.sort_by_key(|model| &model.name);
        let model = models.iter().find(|model| self.model.as_ref().is_none_or(|wanted| model.name == *wanted));
        let Some(model) = model else {
            let names: Vec<&str> = models.iter().take(20).map(|model| model.name.as_str()).collect();
            let message =
                format!("provider {:?} has no such enabled model; its models: {}", self.name, names.join(", "));
            return Err(Error::precondition(Reason::ModelNotAvailable, message));
        };
        let started = tokio::time::Instant::now();
        let problem = test_call(context, model).await?;
        Ok(TestedProvider {
            model: model.name.clone(),
            problem: problem.map(|error| error.to_string()),
            milliseconds: u32::try_from(started.elapsed().as_millis()).unwrap_or(u32::MAX),
        })
    }
}

/// Makes a small call to a model. Returns the error of the model. None: the model answered.
async fn test_call(context: &Context, model: &ModelInfo) -> Result<Option<ModelError>> {
    let (org, resources) = (context.principal().org.clone(), context.tool_resources()?);
    let (name, kind) = (model.name.clone(), model.options.kind);
    let call = MeteredCall {
        org: org.clone(),
        user: context.principal().user.clone(),
        key: format!("test.{:032x}", context.environment().random()),
        operation: "test",
        model: name.clone(),
        prices: model.prices(),
        document: None,
        input_tokens: TEST_PROMPT_TOKENS,
        max_output_tokens: if kind == ModelKind::Chat { TEST_TOKENS.into() } else { 0 },
    };
    let (text, call_id, progress) = ("ready".to_owned(), String::new(), Progress::default());
    Ok(match kind {
        ModelKind::Chat => {
            let messages = vec![Message::user("Say: ready".to_owned())];
            let question = ModelRequest {
                system: "Answer in one word.".to_owned(),
                max_output_tokens: Some(TEST_TOKENS),
                ..ModelRequest::new(org, name, messages)
            };
            extraction::complete_metered(&resources, call, question).await?.err()
        }
        ModelKind::Embedding => {
            let request = EmbeddingRequest { call_id, org, model: name, texts: vec![text], progress };
            retrieval::embed_metered(&resources, call, request).await?.err()
        }
        ModelKind::Rerank => {
            let documents = vec![text.clone()];
            let request = RerankRequest { call_id, org, model: name, query: text, documents, top_n: 1, progress };
            retrieval::rerank_metered(&resources, call, request).await?.err()
        }
    })
}

/// Prefixes the invalid fields with `provider.`.
fn in_provider(mut error: Error) -> Error {
    for violation in &mut error.violations {
        violation.field.insert_str(0, "provider.");
    }
    error
}

/// Makes a change unless this request has already made it. Returns the settings of the owner after the change.
async fn changed<F>(context: &Context, change: impl FnOnce(Write<()>) -> F) -> Result<ModelSettings>
where
    F: Future<Output = Result<ModelSettings>>,
{
    let (request, write) = (&context.request, context.request.write(Expected::Absent, ()));
    let target = ModelSettings::target(ModelSettings::fixed_id());
    match request.recorded_result(context.stores(), &target).await? {
        Some(_) => context.providers().settings(&write.org).await,
        None => change(write).await,
    }
}

#[cfg(test)]
mod tests;

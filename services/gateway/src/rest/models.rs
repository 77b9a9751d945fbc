//! The routes of models, and the models that DocRouter's clients name without choosing one.

use folio_llm::ModelInfo;
use folio_operations::ListRequest;
use folio_operations::models::{ListModels, ModelPage, ModelUse};
use folio_types::limits;
use http::StatusCode;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::endpoint::get;
use super::extract::{Client, Json, Query};
use super::failure::Failure;
use super::reply::Reply;
use super::routes::{Level, Route, org_path, route};

/// Number of millionths of a dollar in a dollar, and of tokens that a price covers.
const MILLION: f64 = 1_000_000.0;

pub(super) fn routes() -> Vec<Route> {
    vec![
        route::<ListModels>(Level::One, get(org_path!("/llm/models"), names)),
        route::<ListModels>(Level::One, get("/v0/account/llm/models", descriptions)),
    ]
}

#[derive(Debug, Deserialize, ToSchema)]
struct NamesQuery {
    /// True: only models of the document chat.
    #[serde(default)]
    chat_only: bool,
    /// True: no embedding models.
    #[serde(default)]
    exclude_embeddings: bool,
}

/// The names of the enabled models.
#[derive(Debug, Serialize, ToSchema)]
struct ModelNames {
    models: Vec<String>,
}

#[derive(Debug, Deserialize, ToSchema)]
struct DescriptionsQuery {
    /// The name of a provider.
    provider_name: Option<String>,
    /// True: only models of the document chat.
    #[serde(default)]
    chat_agent_only: bool,
    /// True: only models that read pages. No model does.
    #[serde(default)]
    ocr_only: bool,
}

/// The enabled models, in the forms that the versions of the clients read.
#[derive(Debug, Serialize, ToSchema)]
struct ModelDescriptions {
    chat_models: Vec<ModelBody>,
    embedding_models: Vec<EmbeddingModelBody>,
    /// The same as `chat_models`.
    models: Vec<ModelBody>,
}

/// An enabled model.
#[derive(Debug, Clone, Serialize, ToSchema)]
struct ModelBody {
    /// The name that requests use.
    litellm_model: String,
    /// The provider.
    litellm_provider: String,
    /// Maximum tokens of prompt and answer.
    max_input_tokens: u32,
    /// Maximum tokens of an answer.
    max_output_tokens: u32,
    /// Price in dollars. 0: unknown.
    input_cost_per_token: f64,
    /// Price in dollars. 0: unknown.
    output_cost_per_token: f64,
    /// The provider.
    provider_name: String,
    /// The provider.
    provider_display_name: String,
    /// The name that requests use.
    id: String,
    /// The name that requests use.
    name: String,
    /// The provider.
    provider: String,
    /// Name and provider.
    description: String,
    /// Maximum tokens of an answer.
    max_tokens: u32,
    /// Price in dollars. 0: unknown.
    cost_per_1m_input_tokens: f64,
    /// Price in dollars. 0: unknown.
    cost_per_1m_output_tokens: f64,
}

/// An enabled embedding model.
#[derive(Debug, Clone, Serialize, ToSchema)]
struct EmbeddingModelBody {
    /// The name that requests use.
    litellm_model: String,
    /// The provider.
    litellm_provider: String,
    /// Maximum tokens of a text.
    max_input_tokens: u32,
    /// Length of the vectors. 0: not stated.
    dimensions: u32,
    /// Price in dollars. 0: unknown.
    input_cost_per_token: f64,
    /// The same price.
    input_cost_per_token_batches: f64,
}

impl From<&ModelInfo> for EmbeddingModelBody {
    fn from(model: &ModelInfo) -> Self {
        let input_cost_per_token = dollars(model.options.input_price) / MILLION;
        Self {
            litellm_model: model.name.clone(),
            litellm_provider: model.provider.clone(),
            max_input_tokens: model.options.context_tokens,
            dimensions: model.options.dimensions,
            input_cost_per_token,
            input_cost_per_token_batches: input_cost_per_token,
        }
    }
}

/// Returns a price in dollars for a million tokens. Stored prices are in millionths of a dollar.
fn dollars(price: Option<u64>) -> f64 {
    price.unwrap_or_default() as f64 / MILLION
}

impl From<&ModelInfo> for ModelBody {
    fn from(model: &ModelInfo) -> Self {
        let (name, provider, options) = (&model.name, &model.provider, &model.options);
        let (input, output) = (dollars(options.input_price), dollars(options.output_price));
        Self {
            litellm_model: name.clone(),
            litellm_provider: provider.clone(),
            max_input_tokens: options.context_tokens,
            max_output_tokens: options.max_output_tokens,
            input_cost_per_token: input / MILLION,
            output_cost_per_token: output / MILLION,
            provider_name: provider.clone(),
            provider_display_name: provider.clone(),
            id: name.clone(),
            name: name.clone(),
            provider: provider.clone(),
            description: format!("{name} of {provider}"),
            max_tokens: options.max_output_tokens,
            cost_per_1m_input_tokens: input,
            cost_per_1m_output_tokens: output,
        }
    }
}

/// The enabled models of a use, and the one of a request that names none.
pub(super) struct Enabled {
    pub(super) models: Vec<ModelInfo>,
    pub(super) default: String,
}

/// Returns the enabled models. None: of any use.
pub(super) async fn enabled(client: &Client, model_use: Option<ModelUse>) -> Result<Enabled, Failure> {
    let page_size = i32::try_from(limits::PAGE_SIZE_MAX).unwrap_or(i32::MAX);
    let list = ListRequest { page_size, ..ListRequest::default() };
    let ModelPage { page, default_model: default, .. } = client.run(ListModels { model_use, list }).await?;
    Ok(Enabled { models: page.items, default })
}

/// Returns the model of a request. None: the default model, because the request names none, or `docrouter_default`, which
/// clients send without a choice of their user, and which is not enabled.
pub(super) async fn chosen(
    client: &Client,
    named: Option<String>,
    model_use: ModelUse,
    docrouter_default: &str,
) -> Result<Option<String>, Failure> {
    let Some(name) = named.filter(|name| !name.trim().is_empty()) else { return Ok(None) };
    if name != docrouter_default {
        return Ok(Some(name));
    }
    let found = enabled(client, Some(model_use)).await?;
    Ok(found.models.iter().any(|model| model.name == name).then_some(name))
}

async fn names(client: Client, Query(query): Query<NamesQuery>) -> Reply<Json<ModelNames>> {
    let mut found = enabled(&client, query.chat_only.then_some(ModelUse::Chat)).await?.models;
    if !query.chat_only && !query.exclude_embeddings {
        found.extend(enabled(&client, Some(ModelUse::Embeddings)).await?.models);
    }
    Ok(Json(ModelNames { models: found.into_iter().map(|model| model.name).collect() }))
}

async fn descriptions(client: Client, Query(query): Query<DescriptionsQuery>) -> Reply<Json<ModelDescriptions>> {
    let DescriptionsQuery { provider_name, chat_agent_only, ocr_only } = query;
    if ocr_only && chat_agent_only {
        let detail = "Use only one of ocr_only or chat_agent_only";
        return Err(Failure::new(StatusCode::UNPROCESSABLE_ENTITY, detail));
    }
    let found = enabled(&client, chat_agent_only.then_some(ModelUse::Chat)).await?;
    let is_listed =
        |model: &&ModelInfo| !ocr_only && provider_name.as_ref().is_none_or(|provider| model.provider == *provider);
    let models: Vec<ModelBody> = found.models.iter().filter(is_listed).map(Into::into).collect();
    let embedding_models = match chat_agent_only {
        true => Vec::new(),
        false => enabled(&client, Some(ModelUse::Embeddings)).await?.models,
    };
    let embedding_models = embedding_models.iter().filter(is_listed).map(Into::into).collect();
    Ok(Json(ModelDescriptions { chat_models: models.clone(), embedding_models, models }))
}

#[cfg(test)]
mod tests {
    use folio_types::models::ModelOptions;

    use super::*;

    #[test]
    fn prices_are_in_dollars() {
        let options = ModelOptions { input_price: Some(150_000), output_price: None, ..ModelOptions::default() };
        let body = ModelBody::from(&ModelInfo { name: "m".to_owned(), provider: "p".to_owned(), options });
        assert!((body.cost_per_1m_input_tokens - 0.15).abs() < 1e-12, "{body:?}");
        assert!((body.input_cost_per_token - 0.000_000_15).abs() < 1e-15, "{body:?}");
        assert!(body.output_cost_per_token.abs() < f64::EPSILON, "{body:?}");
        let options = ModelOptions { input_price: Some(20_000), dimensions: 512, ..ModelOptions::default() };
        let body = EmbeddingModelBody::from(&ModelInfo { options, ..ModelInfo::default() });
        assert!(body.dimensions == 512 && (body.input_cost_per_token - 0.000_000_02).abs() < 1e-15, "{body:?}");
    }
}

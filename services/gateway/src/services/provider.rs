//! Serves `ProviderService`.

use std::collections::BTreeMap;

use folio_operations::providers::{
    ChangedProvider, DeleteProvider, DiscoverModels, ListProviders, ProviderList, ProviderOwner, ProviderView,
    SetModelDefaults, TestProvider, TestedProvider, UpdateProvider,
};
use folio_proto::{fields, time, v1};
use folio_resources::ModelDefaults;
use folio_types::models::{ModelKind, ModelOptions, OutputLimitField};
use folio_types::{Error, Etag, Result, Secret};
use v1::provider_service_server::ProviderService;

use super::handler::{change, read};
use super::{Api, list_request, total_size};

#[tonic::async_trait]
impl ProviderService for Api {
    read!(
        list_providers,
        ListProvidersRequest,
        ListProvidersResponse,
        |request| ListProviders { owner: owner(request.owner)?, list: list_request!(request) },
        |found: ProviderList| v1::ListProvidersResponse {
            providers: found.page.items.into_iter().map(to_proto).collect(),
            next_page_token: found.page.next_page_token,
            total_size: total_size(found.page.total_size),
            default_model: found.default_model,
            fallbacks: found.fallbacks,
            etag: Etag::new(found.version).to_string(),
            platform_providers: found.platform_providers,
            effective_providers: found.effective.into_iter().map(to_proto).collect(),
            embedding_model: found.embedding_model,
            rerank_model: found.rerank_model,
            image_model: found.image_model,
        }
    );

    change!(
        update_provider,
        UpdateProviderRequest,
        UpdateProviderResponse,
        |request| {
            let provider = fields::required("provider", request.provider)?;
            let set = [
                ("enabled", provider.enabled),
                ("base_url", !provider.base_url.is_empty()),
                ("api_key", !provider.api_key.is_empty()),
                ("output_limit_field", provider.output_limit_field != 0),
                ("stream_usage", provider.stream_usage),
                ("models", !provider.models.is_empty()),
            ];
            let mask = fields::mask(request.update_mask.as_ref(), &set)?;
            UpdateProvider {
                owner: owner(request.owner)?,
                enabled: mask.take("enabled", provider.enabled),
                base_url: mask.take("base_url", provider.base_url),
                api_key: mask.take("api_key", provider.api_key.as_str()).map(Secret::new),
                output_limit_field: mask
                    .take("output_limit_field", provider.output_limit_field)
                    .map(limit_field)
                    .transpose()?,
                stream_usage: mask.take("stream_usage", provider.stream_usage),
                models: mask.take("models", provider.models).map(read_models).transpose()?,
                etag: fields::etag("etag", &request.etag)?,
                name: provider.name,
            }
        },
        |changed: ChangedProvider| v1::UpdateProviderResponse {
            provider: changed.provider.map(to_proto),
            etag: Etag::new(changed.version).to_string(),
        }
    );

    change!(
        delete_provider,
        DeleteProviderRequest,
        DeleteProviderResponse,
        |request| DeleteProvider {
            owner: owner(request.owner)?,
            name: fields::word("name", &request.name)?,
            etag: fields::etag("etag", &request.etag)?,
        },
        |version| v1::DeleteProviderResponse { etag: Etag::new(version).to_string() }
    );

    change!(
        set_model_defaults,
        SetModelDefaultsRequest,
        SetModelDefaultsResponse,
        |request| {
            let model = |field: &str, name: Option<String>| {
                name.map(|name| fields::optional_word(field, &name).map(Option::unwrap_or_default)).transpose()
            };
            let fallbacks = |names: v1::ModelNames| {
                names.models.iter().map(|name| fields::word("fallbacks", name)).collect::<Result<Vec<_>>>()
            };
            SetModelDefaults {
                owner: owner(request.owner)?,
                defaults: ModelDefaults {
                    default_model: model("default_model", request.default_model)?,
                    fallbacks: request.fallbacks.map(fallbacks).transpose()?,
                    embedding_model: model("embedding_model", request.embedding_model)?,
                    rerank_model: model("rerank_model", request.rerank_model)?,
                    image_model: model("image_model", request.image_model)?,
                },
                etag: fields::etag("etag", &request.etag)?,
            }
        },
        |version| v1::SetModelDefaultsResponse { etag: Etag::new(version).to_string() }
    );

    change!(
        discover_models,
        DiscoverModelsRequest,
        DiscoverModelsResponse,
        |request| DiscoverModels { owner: owner(request.owner)?, name: fields::word("name", &request.name)? },
        |changed: ChangedProvider| v1::DiscoverModelsResponse {
            provider: changed.provider.map(to_proto),
            etag: Etag::new(changed.version).to_string(),
        }
    );

    change!(
        test_provider,
        TestProviderRequest,
        TestProviderResponse,
        |request| TestProvider {
            name: fields::word("name", &request.name)?,
            model: fields::optional_word("model", &request.model)?,
        },
        |tested: TestedProvider| v1::TestProviderResponse {
            model: tested.model,
            answered: tested.problem.is_none(),
            problem: tested.problem.unwrap_or_default(),
            milliseconds: tested.milliseconds,
        }
    );
}

fn owner(number: i32) -> Result<ProviderOwner> {
    Ok(match fields::choice::<v1::ProviderOwner>("owner", number)? {
        v1::ProviderOwner::Unspecified | v1::ProviderOwner::Organization => ProviderOwner::Organization,
        v1::ProviderOwner::Platform => ProviderOwner::Platform,
    })
}

fn limit_field(number: i32) -> Result<OutputLimitField> {
    let field = fields::choice::<v1::OutputLimitField>("provider.output_limit_field", number)?;
    Ok(field.try_into().unwrap_or_default())
}

fn read_models(models: Vec<v1::ProviderModel>) -> Result<BTreeMap<String, ModelOptions>> {
    let mut read = BTreeMap::new();
    for (index, model) in models.into_iter().enumerate() {
        let standard = ModelOptions::default();
        let kind = fields::choice::<v1::ModelKind>(&format!("provider.models[{index}].kind"), model.kind)?;
        let options = ModelOptions {
            enabled: model.enabled,
            kind: ModelKind::try_from(kind).unwrap_or_default(),
            dimensions: model.dimensions,
            query_prefix: model.query_prefix,
            passage_prefix: model.passage_prefix,
            upstream: model.upstream,
            context_tokens: model.context_tokens,
            max_output_tokens: if model.max_output_tokens == 0 {
                standard.max_output_tokens
            } else {
                model.max_output_tokens
            },
            chat: model.chat,
            prompts: model.prompts,
            thinking: model.thinking,
            tools: !model.no_tools,
            json_schema: !model.no_json_schema,
            vision: model.vision,
            evidence: model.evidence,
            input_price: model.input_price_microdollars,
            cached_input_price: model.cached_input_price_microdollars,
            output_price: model.output_price_microdollars,
            ..standard
        };
        if read.insert(model.name, options).is_some() {
            return Err(Error::invalid_field(
                format!("provider.models[{index}].name"),
                "is also the name of another model",
            ));
        }
    }
    Ok(read)
}

fn to_proto(view: ProviderView) -> v1::Provider {
    let ProviderView { name, has_api_key, provider } = view;
    v1::Provider {
        name,
        enabled: provider.enabled,
        base_url: provider.base_url,
        has_api_key,
        output_limit_field: v1::OutputLimitField::from(provider.output_limit_field).into(),
        stream_usage: provider.stream_usage,
        models: provider.models.iter().map(|(name, model)| model_to_proto(name, model)).collect(),
        available_models: provider.available,
        discover_time: provider.discovered_at.map(time::to_proto),
        api_key: String::new(),
        api_key_time: provider.key_stored_at.map(time::to_proto),
    }
}

fn model_to_proto(name: &str, model: &ModelOptions) -> v1::ProviderModel {
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
        evidence: model.evidence,
        input_price_microdollars: model.input_price,
        cached_input_price_microdollars: model.cached_input_price,
        output_price_microdollars: model.output_price,
        kind: v1::ModelKind::from(model.kind).into(),
        dimensions: model.dimensions,
        query_prefix: model.query_prefix.clone(),
        passage_prefix: model.passage_prefix.clone(),
    }
}

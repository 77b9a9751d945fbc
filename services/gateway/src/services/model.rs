//! Serves `ModelService`.

use folio_llm::ModelInfo;
use folio_operations::models::{ListModels, ModelPage, ModelUse};
use folio_proto::{fields, v1};
use v1::model_service_server::ModelService;

use super::handler::read;
use super::{Api, list_request, total_size};

#[tonic::async_trait]
impl ModelService for Api {
    read!(
        list_models,
        ListModelsRequest,
        ListModelsResponse,
        |request| {
            let model_use = match fields::choice("use", request.r#use)? {
                v1::ModelUse::Unspecified => None,
                v1::ModelUse::Chat => Some(ModelUse::Chat),
                v1::ModelUse::Prompts => Some(ModelUse::Prompts),
                v1::ModelUse::Embeddings => Some(ModelUse::Embeddings),
                v1::ModelUse::Reranking => Some(ModelUse::Reranking),
                v1::ModelUse::Images => Some(ModelUse::Images),
            };
            ListModels { model_use, list: list_request!(request) }
        },
        |found: ModelPage| v1::ListModelsResponse {
            models: found.page.items.into_iter().map(model).collect(),
            next_page_token: found.page.next_page_token,
            total_size: total_size(found.page.total_size),
            default_model: found.default_model,
            embedding_model: found.embedding_model,
            rerank_model: found.rerank_model,
            image_model: found.image_model,
        }
    );
}

fn model(model: ModelInfo) -> v1::Model {
    v1::Model {
        name: model.name,
        provider: model.provider,
        context_tokens: model.options.context_tokens,
        max_output_tokens: model.options.max_output_tokens,
        chat: model.options.chat,
        prompts: model.options.prompts,
        thinking: model.options.thinking,
        input_price_microdollars: model.options.input_price,
        cached_input_price_microdollars: model.options.cached_input_price,
        output_price_microdollars: model.options.output_price,
        kind: v1::ModelKind::from(model.options.kind).into(),
        dimensions: model.options.dimensions,
        vision: model.options.vision,
    }
}

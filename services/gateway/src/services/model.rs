//! ModelService.

use folio_llm::ModelInfo;
use folio_proto::{fields, v1};
use folio_types::page::Order;
use folio_types::{Principal, Result, limits};
use tonic::{Request, Response, Status};
use v1::model_service_server::ModelService;

use super::{Api, answer, asked};
use crate::filter;
use crate::page::{By, Listing, total};

#[tonic::async_trait]
impl ModelService for Api {
    async fn list_models(
        &self,
        request: Request<v1::ListModelsRequest>,
    ) -> Result<Response<v1::ListModelsResponse>, Status> {
        answer(request, async |principal, request| self.models(&principal, &request).await).await
    }
}

impl Api {
    async fn models(&self, principal: &Principal, request: &v1::ListModelsRequest) -> Result<v1::ListModelsResponse> {
        let wanted: v1::ModelUse = fields::choice("use", request.r#use)?;
        let (mut name, mut provider) = (None, None);
        for term in filter::parse(&request.filter)? {
            match term.field.as_str() {
                "name" => filter::once(&mut name, &term, term.search()?.to_lowercase())?,
                "provider" => filter::once(&mut provider, &term, term.search()?.to_lowercase())?,
                _ => return Err(filter::unknown(&term, "name and provider")),
            }
        }
        let scope = ["models", principal.org.as_str(), wanted.as_str_name(), &request.filter];
        let listing = Listing::read(asked!(request), &scope, By::Name("name"), Order::Newest, limits::PAGE_SIZE_MAX)?;
        let fits = |model: &ModelInfo| {
            let used = match wanted {
                v1::ModelUse::Unspecified => true,
                v1::ModelUse::Chat => model.chat,
                v1::ModelUse::Prompts => model.prompts,
            };
            used && name.as_ref().is_none_or(|part| model.name.to_lowercase().contains(part))
                && provider.as_ref().is_none_or(|part| model.provider.to_lowercase().contains(part))
        };
        let catalogue = self.gateway.models.catalogue(&principal.org).await?;
        let mut models: Vec<ModelInfo> = catalogue.list().iter().filter(|model| fits(model)).cloned().collect();
        match listing.page.order {
            Order::Name => models.sort_by_key(|model| model.name.to_lowercase()),
            Order::NameDescending => models.sort_by_key(|model| std::cmp::Reverse(model.name.to_lowercase())),
            Order::Newest => {}
            Order::Oldest => models.reverse(),
        }
        let page = listing.slice(models)?;
        Ok(v1::ListModelsResponse {
            models: page.items.into_iter().map(shown).collect(),
            next_page_token: listing.next(page.next),
            total_size: total(page.total),
            default_model: catalogue.default_model().to_owned(),
        })
    }
}

fn shown(model: ModelInfo) -> v1::Model {
    v1::Model {
        name: model.name,
        provider: model.provider,
        context_tokens: model.context_tokens,
        max_output_tokens: model.max_output_tokens,
        chat: model.chat,
        prompts: model.prompts,
        thinking: model.thinking,
        input_price_microdollars: model.input_price,
        cached_input_price_microdollars: model.cached_input_price,
        output_price_microdollars: model.output_price,
    }
}

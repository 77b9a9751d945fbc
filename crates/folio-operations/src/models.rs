//! Operations on models.

use folio_llm::ModelInfo;
use folio_types::models::ModelKind;
use folio_types::page::Order;
use folio_types::{Result, limits};
use serde::Serialize;

use crate::context::Context;
use crate::declaration::{Declaration, service};
use crate::filter;
use crate::list::{ListPage, ListRequest, Listing, SortKeys};
use crate::operation::Operation;

service! {
    "ModelService", None =>
    ListModels
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ModelUse {
    Chat,
    /// Prompts, which extractions run.
    Prompts,
    Embeddings,
    Reranking,
    /// Descriptions of images.
    Images,
}

/// Lists the enabled models. Filter: `name:` a part of the name, `provider:` a part of the provider's name.
#[derive(Debug, Clone, Serialize)]
pub struct ListModels {
    /// The use that the models must be enabled for. None: all chat models.
    pub model_use: Option<ModelUse>,
    pub list: ListRequest,
}

#[derive(Debug, Clone)]
pub struct ModelPage {
    pub page: ListPage<ModelInfo>,
    /// The model of a request that does not name a model.
    pub default_model: String,
    /// The model of the organization's embeddings. Empty: none.
    pub embedding_model: String,
    /// The model that reranks the organization's search results. Empty: none.
    pub rerank_model: String,
    /// The model that describes the organization's images. Empty: none.
    pub image_model: String,
}

impl Operation for ListModels {
    const DECLARATION: Declaration = SERVICE.read("ListModels");
    type Output = ModelPage;

    async fn run(self, context: &Context) -> Result<ModelPage> {
        let (mut name, mut provider) = (None, None);
        for condition in filter::parse(&self.list.filter)? {
            let part = condition.search()?.to_lowercase();
            match condition.field.as_str() {
                "name" => filter::set_once(&mut name, &condition, part)?,
                "provider" => filter::set_once(&mut provider, &condition, part)?,
                _ => return Err(filter::unknown_field(&condition, "name and provider")),
            }
        }
        let org = &context.principal().org;
        let scope = ["models", org.as_str(), &format!("{:?}", self.model_use)];
        let listing = Listing::new(&self.list, &scope, SortKeys::Name, Order::Newest, limits::PAGE_SIZE_MAX)?;
        let matches = |model: &ModelInfo| {
            let is_enabled = match self.model_use {
                None => true,
                Some(ModelUse::Chat) => model.options.chat,
                Some(ModelUse::Prompts) => model.options.prompts,
                Some(ModelUse::Embeddings) => model.options.kind == ModelKind::Embedding,
                Some(ModelUse::Reranking) => model.options.kind == ModelKind::Rerank,
                Some(ModelUse::Images) => model.options.vision,
            };
            let is_searched = filter::contains(&model.name, name.as_ref());
            is_enabled && is_searched && filter::contains(&model.provider, provider.as_ref())
        };
        let catalogue = context.catalogue().await?;
        let listed = match self.model_use {
            None | Some(ModelUse::Chat | ModelUse::Prompts | ModelUse::Images) => catalogue.list(),
            Some(ModelUse::Embeddings | ModelUse::Reranking) => catalogue.retrieval_models(),
        };
        let mut models: Vec<ModelInfo> = listed.iter().filter(|model| matches(model)).cloned().collect();
        // Default: the catalogue's own order, with the default model first.
        listing.sort_by_name(&mut models, |model| &model.name);
        let name = |model: Option<&ModelInfo>| model.map(|model| model.name.clone()).unwrap_or_default();
        Ok(ModelPage {
            page: listing.slice(models)?,
            default_model: catalogue.default_model().to_owned(),
            embedding_model: name(catalogue.embedding_model()),
            rerank_model: name(catalogue.rerank_model()),
            image_model: name(catalogue.image_model()),
        })
    }
}

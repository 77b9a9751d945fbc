//! TagService.

use folio_proto::{fields, v1};
use folio_storage::{TagChange, TagFilter};
use folio_tools::rules;
use folio_types::op::Expected;
use folio_types::tag::Tag;
use folio_types::{Principal, Result, TagId, limits};
use tonic::{Request, Response, Status};
use v1::tag_service_server::TagService;

use super::{Api, answer, asked, listing};
use crate::filter;
use crate::page::By;

#[tonic::async_trait]
impl TagService for Api {
    async fn create_tag(
        &self,
        request: Request<v1::CreateTagRequest>,
    ) -> Result<Response<v1::CreateTagResponse>, Status> {
        answer(request, |principal, request| self.new_tag(principal, request)).await
    }

    async fn get_tag(&self, request: Request<v1::GetTagRequest>) -> Result<Response<v1::GetTagResponse>, Status> {
        answer(request, async |principal, request| {
            let id = fields::id("tag_id", &request.tag_id)?;
            Ok(v1::GetTagResponse { tag: Some((&self.found::<Tag>(&principal, &id).await?).into()) })
        })
        .await
    }

    async fn list_tags(&self, request: Request<v1::ListTagsRequest>) -> Result<Response<v1::ListTagsResponse>, Status> {
        answer(request, |principal, request| self.tags(principal, request)).await
    }

    async fn update_tag(
        &self,
        request: Request<v1::UpdateTagRequest>,
    ) -> Result<Response<v1::UpdateTagResponse>, Status> {
        answer(request, |principal, request| self.changed_tag(principal, request)).await
    }

    async fn delete_tag(
        &self,
        request: Request<v1::DeleteTagRequest>,
    ) -> Result<Response<v1::DeleteTagResponse>, Status> {
        answer(request, async |principal, request| {
            let id = fields::id("tag_id", &request.tag_id)?;
            let op = self.op(&principal, "DeleteTag", &request.request_id, &request)?;
            op.delete::<Tag>(&self.gateway.stores, &id, request.expected_version).await?;
            Ok(v1::DeleteTagResponse {})
        })
        .await
    }
}

impl Api {
    async fn new_tag(&self, principal: Principal, request: v1::CreateTagRequest) -> Result<v1::CreateTagResponse> {
        let op = self.op(&principal, "CreateTag", &request.request_id, &request)?;
        rules::check_name("name", &request.name)?;
        let change = TagChange::Create {
            name: request.name,
            color: color(&request.color)?,
            description: description(&request.description)?,
        };
        let id = TagId::derive(&op.parts());
        let decided = self.gateway.stores.tags.decide(&id, op.write(Expected::Absent, change)).await?;
        op.created(decided)?;
        Ok(v1::CreateTagResponse { tag: Some((&self.found::<Tag>(&principal, &id).await?).into()) })
    }

    async fn tags(&self, principal: Principal, request: v1::ListTagsRequest) -> Result<v1::ListTagsResponse> {
        let mut filter = TagFilter::default();
        for term in filter::parse(&request.filter)? {
            match term.field.as_str() {
                "name" => filter::once(&mut filter.name_search, &term, term.search()?)?,
                _ => return Err(filter::unknown(&term, "name")),
            }
        }
        let by = By::Name("name");
        let listing = listing(&principal, "tags", &request.filter, asked!(request), by, limits::PAGE_SIZE_MAX)?;
        let tags = &self.gateway.stores.tags;
        let page = listing.fetch(async |page| tags.list(&principal.org, &filter, &page).await).await?;
        Ok(v1::ListTagsResponse {
            tags: page.items,
            next_page_token: page.next_page_token,
            total_size: page.total_size,
        })
    }

    async fn changed_tag(&self, principal: Principal, request: v1::UpdateTagRequest) -> Result<v1::UpdateTagResponse> {
        let id = fields::id("tag_id", &request.tag_id)?;
        let op = self.op(&principal, "UpdateTag", &request.request_id, &request)?;
        if let Some(name) = &request.name {
            rules::check_name("name", name)?;
        }
        let change = TagChange::Update {
            color: request.color.as_deref().map(color).transpose()?,
            description: request.description.as_deref().map(description).transpose()?,
            name: request.name,
        };
        let change = async |_: Tag| Ok(change.clone());
        op.change(&self.gateway.stores, &id, request.expected_version, change).await?;
        Ok(v1::UpdateTagResponse { tag: Some((&self.found::<Tag>(&principal, &id).await?).into()) })
    }
}

fn color(text: &str) -> Result<Option<String>> {
    if text.is_empty() { Ok(None) } else { rules::check_color("color", text).map(Some) }
}

fn description(text: &str) -> Result<Option<String>> {
    rules::check_description("description", text)?;
    Ok(Some(text.to_owned()).filter(|text| !text.is_empty()))
}

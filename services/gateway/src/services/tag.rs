//! TagService.

use folio_operations::tags::{CreateTag, DeleteTag, GetTag, ListTags, UpdateTag};
use folio_operations::{Call, ListPage};
use folio_proto::{fields, v1};
use folio_types::Etag;
use folio_types::tag::Tag;
use tonic::{Request, Response, Status};
use v1::tag_service_server::TagService;

use super::{Api, list_request, total_size};

#[tonic::async_trait]
impl TagService for Api {
    async fn create_tag(
        &self,
        request: Request<v1::CreateTagRequest>,
    ) -> Result<Response<v1::CreateTagResponse>, Status> {
        let call = |request: v1::CreateTagRequest| {
            let v1::CreateTagRequest { name, color, description, request_id } = request;
            Ok(Call::under(fields::request_id(&request_id)?, CreateTag { name, color, description }))
        };
        self.call(request, call, |tag| v1::CreateTagResponse { tag: Some((&tag).into()) }).await
    }

    async fn get_tag(&self, request: Request<v1::GetTagRequest>) -> Result<Response<v1::GetTagResponse>, Status> {
        let call =
            |request: v1::GetTagRequest| Ok(Call::new(GetTag { tag_id: fields::id("tag_id", &request.tag_id)? }));
        self.call(request, call, |tag| v1::GetTagResponse { tag: Some((&tag).into()) }).await
    }

    async fn list_tags(&self, request: Request<v1::ListTagsRequest>) -> Result<Response<v1::ListTagsResponse>, Status> {
        let call = |request: v1::ListTagsRequest| Ok(Call::new(ListTags { list: list_request!(request) }));
        let response = |page: ListPage<Tag>| v1::ListTagsResponse {
            tags: page.items.iter().map(Into::into).collect(),
            next_page_token: page.next_page_token,
            total_size: total_size(page.total_size),
        };
        self.call(request, call, response).await
    }

    async fn update_tag(
        &self,
        request: Request<v1::UpdateTagRequest>,
    ) -> Result<Response<v1::UpdateTagResponse>, Status> {
        let call = |request: v1::UpdateTagRequest| {
            let operation = UpdateTag {
                tag_id: fields::id("tag_id", &request.tag_id)?,
                name: request.name,
                color: request.color,
                description: request.description,
                etag: Some(request.expected_version).filter(|version| *version > 0).map(Etag::new),
            };
            Ok(Call::under(fields::request_id(&request.request_id)?, operation))
        };
        self.call(request, call, |tag| v1::UpdateTagResponse { tag: Some((&tag).into()) }).await
    }

    async fn delete_tag(
        &self,
        request: Request<v1::DeleteTagRequest>,
    ) -> Result<Response<v1::DeleteTagResponse>, Status> {
        let call = |request: v1::DeleteTagRequest| {
            let tag_id = fields::id("tag_id", &request.tag_id)?;
            let etag = Some(request.expected_version).filter(|version| *version > 0).map(Etag::new);
            Ok(Call::under(fields::request_id(&request.request_id)?, DeleteTag { tag_id, etag }))
        };
        self.call(request, call, |()| v1::DeleteTagResponse {}).await
    }
}

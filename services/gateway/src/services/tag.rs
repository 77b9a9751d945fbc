//! TagService.

use folio_operations::tags::{CreateTag, DeleteTag, GetTag, ListTags, UpdateTag};
use folio_operations::{Call, ListPage};
use folio_proto::{fields, v1};
use folio_resources::Tag;
use tonic::Request;
use v1::tag_service_server::TagService;

use super::{Api, Reply, list_request, total_size};

#[tonic::async_trait]
impl TagService for Api {
    async fn create_tag(&self, request: Request<v1::CreateTagRequest>) -> Reply<v1::CreateTagResponse> {
        let call = |request: v1::CreateTagRequest| {
            let tag = fields::required("tag", request.tag)?;
            let operation = CreateTag { name: tag.name, color: tag.color, description: tag.description };
            Ok(Call::under(fields::request_id(&request.request_id)?, operation))
        };
        self.call(request, call, |created| v1::CreateTagResponse { tag: Some((&created).into()) }).await
    }

    async fn get_tag(&self, request: Request<v1::GetTagRequest>) -> Reply<v1::GetTagResponse> {
        let call =
            |request: v1::GetTagRequest| Ok(Call::new(GetTag { tag_id: fields::id("tag_id", &request.tag_id)? }));
        self.call(request, call, |found| v1::GetTagResponse { tag: Some((&found).into()) }).await
    }

    async fn list_tags(&self, request: Request<v1::ListTagsRequest>) -> Reply<v1::ListTagsResponse> {
        let call = |request: v1::ListTagsRequest| Ok(Call::new(ListTags { list: list_request!(request) }));
        let response = |page: ListPage<Tag>| v1::ListTagsResponse {
            tags: page.items.iter().map(Into::into).collect(),
            next_page_token: page.next_page_token,
            total_size: total_size(page.total_size),
        };
        self.call(request, call, response).await
    }

    async fn update_tag(&self, request: Request<v1::UpdateTagRequest>) -> Reply<v1::UpdateTagResponse> {
        let call = |request: v1::UpdateTagRequest| {
            let tag = fields::required("tag", request.tag)?;
            let tag_id = fields::id("tag.tag_id", &tag.tag_id)?;
            let set = [
                ("name", !tag.name.is_empty()),
                ("color", !tag.color.is_empty()),
                ("description", !tag.description.is_empty()),
            ];
            let mask = fields::mask(request.update_mask.as_ref(), &set)?;
            let operation = UpdateTag {
                tag_id,
                etag: fields::etag("tag.etag", &tag.etag)?,
                name: mask.take("name", tag.name),
                color: mask.take("color", tag.color),
                description: mask.take("description", tag.description),
            };
            Ok(Call::under(fields::request_id(&request.request_id)?, operation))
        };
        self.call(request, call, |updated| v1::UpdateTagResponse { tag: Some((&updated).into()) }).await
    }

    async fn delete_tag(&self, request: Request<v1::DeleteTagRequest>) -> Reply<v1::DeleteTagResponse> {
        let call = |request: v1::DeleteTagRequest| {
            let tag_id = fields::id("tag_id", &request.tag_id)?;
            let etag = fields::etag("etag", &request.etag)?;
            Ok(Call::under(fields::request_id(&request.request_id)?, DeleteTag { tag_id, etag }))
        };
        self.call(request, call, |()| v1::DeleteTagResponse {}).await
    }
}

//! Serves `TagService`.

use folio_operations::tags::{CreateTag, DeleteTag, GetTag, ListTags, UpdateTag};
use folio_proto::{fields, v1};
use v1::tag_service_server::TagService;

use super::Api;
use super::handler::{change, delete, get, grid_list};

#[tonic::async_trait]
impl TagService for Api {
    change!(create_tag, CreateTagRequest, CreateTagResponse { tag }, |request| {
        let tag = fields::required("tag", request.tag)?;
        CreateTag { name: tag.name, color: tag.color, description: tag.description }
    });

    get!(get_tag, GetTagRequest, GetTag { tag_id }, GetTagResponse { tag });

    grid_list!(list_tags, ListTagsRequest, ListTags, ListTagsResponse { tags: Into::into });

    change!(update_tag, UpdateTagRequest, UpdateTagResponse { tag }, |request| {
        let tag = fields::required("tag", request.tag)?;
        let tag_id = fields::id("tag.tag_id", &tag.tag_id)?;
        let set = [
            ("name", !tag.name.is_empty()),
            ("color", !tag.color.is_empty()),
            ("description", !tag.description.is_empty()),
        ];
        let mask = fields::mask(request.update_mask.as_ref(), &set)?;
        UpdateTag {
            tag_id,
            etag: fields::etag("tag.etag", &tag.etag)?,
            name: mask.take("name", tag.name),
            color: mask.take("color", tag.color),
            description: mask.take("description", tag.description),
        }
    });

    delete!(delete_tag, DeleteTagRequest, DeleteTag { tag_id }, DeleteTagResponse);
}

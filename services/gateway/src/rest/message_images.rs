//! The routes of images for messages. No client of DocRouter calls them.

use folio_operations::message_images::{GetImage, ImageContent, UploadImage};
use folio_resources::fields;
use folio_types::message::MessageImage;
use folio_types::{Error, MessageImageId};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::endpoint::{get, post};
use super::extract::{Client, Id, Json, Query};
use super::reply::Reply;
use super::routes::{Level, Route, org_path, route};
use super::streamed::{File, Streamed};
use super::upload::decode_base64;

pub(super) fn routes() -> Vec<Route> {
    vec![
        route::<UploadImage>(Level::Own, post(org_path!("/message_images"), upload)),
        route::<GetImage>(Level::Own, get(org_path!("/message_images/{image_id}"), find)),
    ]
}

/// A file with an image.
#[derive(Debug, Deserialize, ToSchema)]
struct MessageImageFields {
    /// A PNG, JPEG or WebP image of at most 8 MiB in Base64, or as a data URL.
    data: String,
}

/// The query parameters of an image.
#[derive(Debug, Deserialize, ToSchema)]
struct MessageImageQuery {
    /// A thread with a message that contains the image. Default: the caller uploaded the image.
    thread_id: Option<String>,
}

/// An image for messages. The server stores the image that models receive, not the uploaded file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub(super) struct MessageImageBody {
    /// Identifies the image, for `image_ids`.
    image_id: String,
    /// The media type of the stored bytes: `image/jpeg`.
    media_type: String,
    /// Width in pixels, at most 2,048.
    width: u32,
    /// Height in pixels, at most 2,048.
    height: u32,
    /// Number of stored bytes.
    size_bytes: u64,
}

impl From<&MessageImage> for MessageImageBody {
    fn from(image: &MessageImage) -> Self {
        Self {
            image_id: image.id.to_string(),
            media_type: image.media_type.clone(),
            width: image.width,
            height: image.height,
            size_bytes: image.bytes,
        }
    }
}

async fn upload(client: Client, Json(body): Json<MessageImageFields>) -> Reply<Json<MessageImageBody>> {
    let invalid = |error: std::io::Error| Error::invalid_field("data", format!("is not Base64: {error}"));
    let data = decode_base64(&body.data).map_err(invalid)?.into();
    let image = client.run(UploadImage { data }).await?;
    Ok(Json((&image).into()))
}

async fn find(
    client: Client,
    Id(image_id): Id<MessageImageId>,
    Query(query): Query<MessageImageQuery>,
) -> Reply<Streamed<File>> {
    let thread_id = fields::optional_id("thread_id", query.thread_id.as_deref().unwrap_or_default())?;
    let ImageContent { image, bytes } = client.run(GetImage { image_id, thread_id }).await?;
    Ok(Streamed::new(&client, &image.media_type, futures::stream::iter([Ok(bytes)])))
}

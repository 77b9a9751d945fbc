//! Operations on images of messages.

use bytes::Bytes;
use folio_types::message::MessageImage;
use folio_types::{Error, MessageImageId, Result, ThreadId};
use serde::Serialize;

use crate::context::Context;
use crate::conversations::SERVICE;
use crate::declaration::{Declaration, Quota};
use crate::operation::Operation;
use crate::threads::visible;

/// Stores an image for messages of the caller.
#[derive(Debug, Clone, Serialize)]
pub struct UploadImage {
    /// The file, which is compared with that of an earlier upload under the same request id.
    #[serde(skip)]
    pub data: Bytes,
}

impl Operation for UploadImage {
    const DECLARATION: Declaration = SERVICE.change("UploadImage").long().quota(Quota::Storage);
    type Output = MessageImage;

    async fn run(self, context: &Context) -> Result<MessageImage> {
        context.uploader()?.upload_image(context.principal(), context.request.id(), &self.data).await
    }
}

/// Returns an image of a message with its bytes.
#[derive(Debug, Clone, Serialize)]
pub struct GetImage {
    pub image_id: MessageImageId,
    /// A thread that contains the image. None: the caller uploaded the image.
    pub thread_id: Option<ThreadId>,
}

#[derive(Debug, Clone)]
pub struct ImageContent {
    pub image: MessageImage,
    pub bytes: Bytes,
}

impl Operation for GetImage {
    const DECLARATION: Declaration = SERVICE.read("GetImage").long();
    type Output = ImageContent;

    async fn run(self, context: &Context) -> Result<ImageContent> {
        let (principal, images) = (context.principal(), context.stores().message_images());
        let missing = || Error::not_found("message image", &self.image_id);
        let found = images.get(&principal.org, &self.image_id).await?.ok_or_else(missing)?;
        if found.user != principal.user {
            let thread = self.thread_id.as_ref().filter(|thread| found.threads.contains(*thread));
            visible(context, thread.ok_or_else(missing)?).await?;
        }
        let bytes = images.read(&principal.org, &self.image_id).await?.ok_or_else(missing)?;
        Ok(ImageContent { image: found.image, bytes })
    }
}

//! The images of the next message.

use std::path::Path;

use anyhow::{Context as _, Result, anyhow, bail};
use folio_proto::v1;
use folio_types::limits::{MESSAGE_IMAGE_BYTES, MESSAGE_IMAGES_MAX};
use folio_types::{RequestId, System};

use crate::client::{Client, answer};

/// Images that were uploaded for the next message.
#[derive(Debug, Default)]
pub(super) struct NextImages(Vec<v1::MessageImage>);

impl NextImages {
    /// Uploads the image of a file. Returns a line that describes it.
    pub(super) async fn add(&mut self, client: &Client, path: &Path) -> Result<String> {
        if self.0.len() >= MESSAGE_IMAGES_MAX {
            bail!("a message has at most {MESSAGE_IMAGES_MAX} images");
        }
        let shown = path.display();
        let unreadable = || format!("{shown} cannot be read");
        let size = tokio::fs::metadata(path).await.with_context(unreadable)?.len();
        if size > MESSAGE_IMAGE_BYTES as u64 {
            bail!("{shown} has {size} bytes; an image has at most {MESSAGE_IMAGE_BYTES}");
        }
        let data = tokio::fs::read(path).await.with_context(unreadable)?;
        let request = v1::UploadImageRequest { data, request_id: RequestId::generate(&System).to_string() };
        let uploaded = answer(client.conversations().upload_image(request)).await.with_context(|| shown.to_string())?;
        let image = uploaded.image.ok_or_else(|| anyhow!("the server returned no image"))?;
        let line = format!("{shown} ({} x {} pixels) is sent with the next message", image.width, image.height);
        self.0.push(image);
        Ok(line)
    }

    /// Returns the ids of the images, for the request of a message.
    pub(super) fn ids(&self) -> Vec<String> {
        self.0.iter().map(|image| image.image_id.clone()).collect()
    }

    /// Removes the images, because their message was accepted.
    pub(super) fn clear(&mut self) {
        self.0.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::super::view;
    use super::*;

    #[test]
    fn an_earlier_message_is_shown_with_its_images() {
        let image = v1::MessageImage { width: 600, height: 400, ..v1::MessageImage::default() };
        let user = v1::UserMessage { text: "look".to_owned(), images: vec![image] };
        let message = v1::Message { kind: Some(v1::message::Kind::User(user)), ..v1::Message::default() };
        assert_eq!(view::texts(&view::message(&message, Some(80))), ["you: look", "→ image, 600 x 400 pixels"]);
    }
}

//! Uploads of images for messages. The id of an image derives from the request, so that a repeated upload finds its image.

use bytes::Bytes;
use folio_resources::quota::Quotas;
use folio_types::message::MessageImage;
use folio_types::{Digest, Error, MessageImageId, OrgId, Principal, Reason, RequestId, Result, limits};

use super::Uploader;
use crate::ingest::attempts::{SCRATCH_PREFIX, disk};
use crate::model_image::{MODEL_IMAGE_TYPE, ModelImage, model_image};
use crate::usage_cache::{RETRY_MIN, storage_exceeded};

/// The field of a request with the bytes of an image.
const DATA_FIELD: &str = "data";

impl Uploader {
    /// Checks an image, makes it suitable for models, and stores it for messages of the user. The original is not stored.
    ///
    /// # Errors
    /// `INVALID_FIELD` if the file is no PNG, JPEG or WebP image, or cannot be decoded; `TOO_LARGE`; `QUOTA_EXCEEDED`; `OVERLOADED` if too
    /// many files are read; `REQUEST_ID_CONFLICT` if the request id was used for another file.
    pub async fn upload_image(&self, principal: &Principal, request: &RequestId, file: &Bytes) -> Result<MessageImage> {
        let Principal { org, user, .. } = principal;
        let (images, digest) = (self.stores.message_images(), Digest::of(file));
        let id = MessageImageId::derive(&["upload", org.as_str(), user.as_str(), request.as_str()]);
        if let Some(found) = images.get(org, &id).await? {
            return if found.digest == digest { Ok(found.image) } else { Err(Error::request_id_conflict()) };
        }
        if file.len() > limits::MESSAGE_IMAGE_BYTES {
            let problem = format!("has {} bytes; the maximum is {}", file.len(), limits::MESSAGE_IMAGE_BYTES);
            return Err(Error::invalid_field(DATA_FIELD, problem).with_reason(Reason::TooLarge));
        }
        let size = file.len() as u64;
        let _active = self.active.start(org, size)?;
        let quotas = self.quotas.of(org).await?;
        let storage = Quotas { documents: 0, ..quotas };
        let available = self.usage.available(org, storage, self.active.load_of(org), size).await?;
        let ModelImage { width, height, bytes } = self.read_image(org, file).await?;
        let size = bytes.len() as u64;
        if size > available {
            return Err(storage_exceeded(quotas, RETRY_MIN));
        }
        let image = MessageImage { id, media_type: MODEL_IMAGE_TYPE.to_owned(), width, height, bytes: size };
        images.store(org, user, &image, (digest, bytes), self.environment.now()).await?;
        self.usage.add_content(org, size).await;
        Ok(image)
    }

    async fn read_image(&self, org: &OrgId, file: &Bytes) -> Result<ModelImage> {
        let _permit = self.reader_permit(org).await?;
        let scratch = self.reader.scratch();
        tokio::fs::create_dir_all(&scratch).await.map_err(disk)?;
        let folder = tempfile::Builder::new().prefix(SCRATCH_PREFIX).tempdir_in(scratch).map_err(disk)?;
        let path = folder.path().join("image");
        tokio::fs::write(&path, file).await.map_err(disk)?;
        model_image(self.reader.options(), folder.path(), &path, DATA_FIELD).await
    }
}

//! Reads the images of the messages that a model receives.

use folio_llm::RequestImages;
use folio_types::message::Message;
use folio_types::{OrgId, Result};

use crate::shared::Shared;

/// Returns the bytes of the newest images of the messages. An image that is no longer stored is missing in the result, and a note replaces
/// it in the request, so that the turn continues.
///
/// # Errors
/// `STORE_UNAVAILABLE` if the bytes cannot be read now.
pub(super) async fn load(shared: &Shared, org: &OrgId, messages: &[Message]) -> Result<RequestImages> {
    let (mut loaded, store) = (RequestImages::default(), shared.dependencies.stores.message_images());
    for image in RequestImages::selected(messages) {
        match shared.with_store_timeout(store.read(org, &image.id)).await? {
            Some(bytes) => loaded.insert(image.id.clone(), bytes),
            None => tracing::warn!(%org, image = %image.id, "the bytes of an image of a message are missing"),
        }
    }
    Ok(loaded)
}

//! Images of messages and descriptions of images of documents, a part of the suite of rows.

use bytes::Bytes;
use folio_resources::{ImageAnnotation, ImageDescription};
use folio_types::message::MessageImage;
use folio_types::{Digest, MessageImageId, ThreadId, Timestamp};

use super::context::Context;
use super::{Outcome, check, same};

pub(crate) async fn check_images(context: &Context) -> Outcome {
    // An organization without other content.
    let context = &Context::new(context.stores.clone(), "images", context.org.as_str());
    of_messages(context).await?;
    of_documents(context).await
}

/// An image is stored until its last thread is removed.
async fn of_messages(context: &Context) -> Outcome {
    let (images, resources, org) = (context.stores.message_images(), &context.stores.resources, &context.org);
    let (other, bytes) = (context.other(), Bytes::from_static(b"jpg"));
    let id = MessageImageId::derive(&["sample", org.as_str()]);
    let image = MessageImage { id, media_type: "image/jpeg".to_owned(), width: 2, height: 1, bytes: 3 };
    let [a, b] = ["a", "b"].map(|name| ThreadId::derive(&[name, org.as_str()]));
    same!(images.get(org, &image.id).await?, None, "an image before its upload");
    images.store(org, &context.user, &image, (Digest::of(b"file"), bytes.clone()), context.now()).await?;
    let found = images.get(org, &image.id).await?.map(|row| (row.image, row.user, row.threads.len()));
    same!(found, Some((image.clone(), context.user.clone(), 0)), "an uploaded image");
    same!(images.read(org, &image.id).await?, Some(bytes), "the bytes of an image");
    same!(resources.content_bytes(org).await?, 3, "the size with an image");
    same!(images.get(&other, &image.id).await?, None, "an image of another organization");
    same!(images.read(&other, &image.id).await?, None, "the bytes of an image of another organization");
    check!(!images.add_thread(&other, &image.id, &a).await?, "a thread of another organization contains the image");
    for thread in [&a, &b, &b] {
        check!(images.add_thread(org, &image.id, thread).await?, "a thread was not added to an image");
    }
    for _ in 0..2 {
        images.remove_thread(org, &a, context.now()).await?;
        images.remove_thread(&other, &b, context.now()).await?;
        let threads = images.get(org, &image.id).await?.map(|row| row.threads);
        same!(threads, Some([b.clone()].into()), "the threads of an image after one was removed");
    }
    for _ in 0..2 {
        images.remove_thread(org, &b, context.now()).await?;
        same!(images.get(org, &image.id).await?, None, "an image without a thread");
        same!(images.read(org, &image.id).await?, None, "the bytes of an image without a thread");
        same!(resources.content_bytes(org).await?, 0, "the size after an image was removed");
    }
    check!(!images.add_thread(org, &image.id, &a).await?, "a thread contains a removed image");
    Ok(())
}

/// Descriptions belong to a text of a document, and are removed with the document.
async fn of_documents(context: &Context) -> Outcome {
    let (store, resources, org) = (context.stores.image_annotations(), &context.stores.resources, &context.org);
    let document = context.document("described").await?;
    let [first, second] = [1, 2].map(|seconds| Timestamp::from_second(seconds).unwrap_or_default());
    let annotation = |text_generation, page, caption: &str| ImageAnnotation {
        text_generation,
        page,
        number: 1,
        description: ImageDescription { caption: caption.to_owned(), ..ImageDescription::default() },
        model: "sees".to_owned(),
        at: context.now(),
    };
    let captions = async |text: Timestamp| {
        let found = store.list(org, &document, text).await?;
        Ok::<_, folio_types::Error>(found.into_iter().map(|found| found.description.caption).collect::<Vec<_>>())
    };
    for described in [
        annotation(first, 12, "old"),
        annotation(first, 1, "earlier"),
        annotation(second, 10, "c"),
        annotation(second, 9, "b"),
        annotation(second, 12, "d"),
        annotation(second, 9, "a"),
    ] {
        store.put(org, &document, &described).await?;
    }
    same!(captions(second).await?, vec!["a", "c", "d"], "the descriptions of the images of a text");
    same!(captions(first).await?, vec!["earlier"], "the descriptions of the images of an earlier text");
    same!(store.list(&context.other(), &document, second).await?.len(), 0, "descriptions of another organization");
    let size = resources.content_bytes(org).await?;
    check!(size > 400, "descriptions have {size} bytes");
    store.remove_earlier(org, &document, second, context.now()).await?;
    same!(captions(first).await?.len(), 0, "the descriptions of an earlier text after their removal");
    let left = resources.content_bytes(org).await?;
    check!(left > 300 && left < size, "descriptions have {left} bytes after the removal of earlier ones");
    context.delete_document(&document).await?;
    same!(resources.content_bytes(org).await?, 0, "the size of descriptions after the document was deleted");
    store.remove_document(&context.other(), &document).await?;
    same!(captions(second).await?.len(), 3, "descriptions after a removal by another organization");
    store.remove_document(org, &document).await?;
    same!(captions(second).await?.len(), 0, "descriptions after the clean-up of their document");
    Ok(())
}

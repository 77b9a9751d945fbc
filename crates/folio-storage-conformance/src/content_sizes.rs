//! Sizes of texts, page images and journals, a part of the suite of texts.

use folio_resources::{BoundingBox, Heading, PageStructure, TextState, WordBoxes};
use folio_storage::{IngestUpdate, NewPage, counted_journal_bytes};
use folio_types::{BlobId, DocumentId};

use super::context::Context;
use super::threads_append::{appended, batch, ended};
use super::{Outcome, same};

pub(crate) async fn check_sizes(context: &Context) -> Outcome {
    // An organization without other content.
    let context = &Context::new(context.stores.clone(), "content", context.org.as_str());
    let (resources, threads, org) = (&context.stores.resources, &context.stores.threads, &context.org);
    same!(resources.content_bytes(org).await?, 0, "the size of no content");
    let document = context.document("sized").await?;
    same!(resources.content_bytes(org).await?, 0, "the size of a document without text");
    context.fill(&document, vec!["ä".to_owned(), "bc".to_owned()], "ä bc".to_owned()).await?;
    same!(resources.content_bytes(org).await?, 4, "the size of a text");
    context.fill(&document, vec!["d".to_owned()], "d".to_owned()).await?;
    same!(resources.content_bytes(org).await?, 1, "the size of a text that replaced another one");
    images(context, &document).await?;

    let thread = threads.create(context.new_thread(&[])).await?;
    same!(resources.content_bytes(org).await?, 1 + counted_journal_bytes(0), "the size with a new journal");
    let long = "x".repeat(40_000);
    let append = batch(context, thread.fence(), vec![ended(1, &long)]);
    let header = appended(threads.append(org, &thread.id, append).await?)?;
    let counted = counted_journal_bytes(header.bytes);
    same!(counted > 40_000, true, "the size of the journal {counted}");
    same!(resources.content_bytes(org).await?, 1 + counted, "the size with a longer journal");
    threads.delete(org, &thread.id, None).await?;
    same!(resources.content_bytes(org).await?, 1, "the size after the thread was deleted");
    context.delete_document(&document).await?;
    same!(resources.content_bytes(org).await?, 0, "the size after the document was deleted");
    Ok(())
}

/// Checks the sizes of blobs that were derived from a document whose text has one byte.
async fn images(context: &Context, document: &DocumentId) -> Outcome {
    let (resources, org) = (&context.stores.resources, &context.org);
    let [first, second] = ["first", "second"].map(|name| BlobId::derive(&[name]));
    let set = async |id: &DocumentId, blob: &BlobId, bytes: u64| {
        resources.set_blob_bytes(org, id.as_str(), blob, bytes, context.now()).await
    };
    set(document, &first, 10).await?;
    set(document, &second, 200).await?;
    same!(resources.content_bytes(org).await?, 211, "the size with two images");
    set(document, &second, 100).await?;
    set(document, &first, 0).await?;
    same!(resources.content_bytes(org).await?, 101, "the size after an image was removed and one was replaced");
    let deleted = context.document("deleted").await?;
    set(&deleted, &first, 10).await?;
    same!(resources.content_bytes(org).await?, 111, "the size with an image of another document");
    context.delete_document(&deleted).await?;
    same!(resources.content_bytes(org).await?, 101, "the size after the document of an image was deleted");
    set(&deleted, &first, 10).await?;
    same!(resources.content_bytes(org).await?, 101, "the size after an image of a deleted document");
    set(document, &second, 0).await?;
    let boxes = WordBoxes::new(1.0, 1.0, [BoundingBox::around([(0.0, 0.0)])]);
    let pages = vec![NewPage { boxes, ..NewPage::of_text(1, "d") }];
    let update = IngestUpdate { state: TextState::Ready, pages, lacks_program: false, at: context.now() };
    context.stores.texts.ingest(org, document.as_str(), update).await?;
    same!(resources.content_bytes(org).await?, 1 + 8, "the size of a text with the box of a word");
    let headings = vec![Heading { level: 1, title: "ä".to_owned(), word: 0 }];
    let structure = PageStructure { headings, ..PageStructure::default() };
    let counted = structure.bytes();
    same!(counted > 2, true, "the size of a heading {counted}");
    let pages = vec![NewPage { structure, ..NewPage::of_text(1, "d") }];
    let update = IngestUpdate { state: TextState::Ready, pages, lacks_program: false, at: context.now() };
    context.stores.texts.ingest(org, document.as_str(), update).await?;
    same!(resources.content_bytes(org).await?, 1 + counted, "the size of a text with a heading");
    context.fill(document, vec!["d".to_owned()], "d".to_owned()).await
}

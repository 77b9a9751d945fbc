//! Sizes of texts and journals, a part of the suite of texts.

use folio_storage::counted_journal_bytes;

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

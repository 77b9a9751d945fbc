//! Tools for the dictionary of the organization.

mod lookup;
mod relevant;
mod run_bounds;
mod suggest;
mod upsert;

use folio_resources::{AmbiguousToken, DictionaryEntry, Document, ambiguous_tokens, term_key};
use folio_types::Error;
use futures::{StreamExt as _, TryStreamExt as _};

use crate::document_text;
use crate::tool::{CallContext, Tool, ToolError};
pub use relevant::{dictionary_entries, document_dictionary};

/// The tool that writes an entry, which takes effect on all documents. Therefore only one kind of unattended run may have the tool: the
/// runs of the ingestion network, within the bounds of [`run_bounds`].
pub(crate) const WRITE_TOOL: &str = "dictionary_upsert";

/// Number of entries that are read at a time.
const CONCURRENT_READS: usize = 8;

pub(crate) fn tools() -> Vec<Tool> {
    vec![lookup::tool(), upsert::tool(), suggest::tool()]
}

/// Maximum number of abbreviations of a text that are looked up.
const LOOKED_UP_MAX: usize = 200;
/// Maximum size of the text of a document that a call reads, in bytes.
const TEXT_BYTES: usize = 4 * 1024 * 1024;

/// Returns the abbreviations that a text does not explain, the most frequent first.
async fn unexplained(text: String) -> Result<Vec<AmbiguousToken>, ToolError> {
    // The search of a long text would block the other tasks of the thread.
    let found = tokio::task::spawn_blocking(move || ambiguous_tokens(&text, LOOKED_UP_MAX)).await;
    Ok(found.map_err(|error| Error::internal(format!("the search for abbreviations failed: {error}")))?)
}

/// Returns the abbreviations that the text of a document does not explain, and true if the end of a long text was not read.
async fn abbreviations(context: &CallContext, document: &Document) -> Result<(Vec<AmbiguousToken>, bool), ToolError> {
    document_text::check_ready(document)?;
    let (stores, org) = (&context.resources.stores, &context.principal.org);
    let read = document_text::read(stores, org, &document.id, 1, document.pages, TEXT_BYTES).await?;
    Ok((unexplained(read.text).await?, read.cut.is_some()))
}

/// Returns the entry of each term, in the order of the terms. None: the term has no entry.
async fn entries<'a>(
    context: &CallContext,
    terms: impl IntoIterator<Item = &'a str>,
) -> Result<Vec<Option<DictionaryEntry>>, ToolError> {
    let (entries, org) = (&context.store::<DictionaryEntry>(), &context.principal.org);
    let read = |term: &str| {
        let key = term_key(term);
        async move { entries.by_name(org, &key).await }
    };
    let reads: Vec<_> = terms.into_iter().map(read).collect();
    Ok(futures::stream::iter(reads).buffered(CONCURRENT_READS).try_collect().await?)
}

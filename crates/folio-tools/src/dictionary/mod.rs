//! Tools for the dictionary of the organization.

mod lookup;
mod suggest;
mod upsert;

use folio_resources::{DictionaryEntry, term_key};
use futures::{StreamExt as _, TryStreamExt as _};

use crate::tool::{CallContext, Tool, ToolError};

/// The tool that writes. A run without a person must not have it, because an entry takes effect on all documents.
pub(crate) const WRITE_TOOL: &str = "dictionary_upsert";

/// Number of entries that are read at a time.
const CONCURRENT_READS: usize = 8;

pub(crate) fn tools() -> Vec<Tool> {
    vec![lookup::tool(), upsert::tool(), suggest::tool()]
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

//! The entries of the dictionary that a document uses.

use folio_resources::{DictionaryEntry, DictionaryEntryFilter, Document, TermSearch};
use folio_storage::Stores;
use folio_types::limits::PAGE_SIZE_MAX;
use folio_types::page::PageRequest;
use folio_types::{Error, OrgId, Result};

use super::TEXT_BYTES;
use crate::document_text;

/// Maximum entries of a dictionary that are searched for in a document.
const SEARCHED_MAX: usize = 10_000;

/// Returns the entries of an organization, newest first, at most 10,000.
pub async fn dictionary_entries(stores: &Stores, org: &OrgId) -> Result<Vec<DictionaryEntry>> {
    let (store, filter) = (stores.of::<DictionaryEntry>(), DictionaryEntryFilter::default());
    let mut request = PageRequest { size: PAGE_SIZE_MAX, ..PageRequest::default() };
    let mut found = Vec::new();
    loop {
        let page = store.list(org, &filter, &request).await?;
        found.extend(page.items);
        match page.next {
            Some(next) if found.len() < SEARCHED_MAX => request.token = Some(next),
            _ => break,
        }
    }
    found.truncate(SEARCHED_MAX);
    Ok(found)
}

/// Returns the entries whose terms occur in the text of a document, the most frequent first, at most `max`. The end of a long text is
/// not searched.
pub async fn document_dictionary(stores: &Stores, document: &Document, max: usize) -> Result<Vec<DictionaryEntry>> {
    let entries = dictionary_entries(stores, &document.org).await?;
    if entries.is_empty() {
        return Ok(Vec::new());
    }
    let read = document_text::read(stores, &document.org, &document.id, 1, document.pages, TEXT_BYTES).await?;
    // The search of a long text would block the other tasks of the thread.
    let search = move || {
        let search = TermSearch::new(entries)?;
        Ok::<_, Error>(search.relevant(&read.text, max).into_iter().cloned().collect::<Vec<_>>())
    };
    let found = tokio::task::spawn_blocking(search).await;
    found.map_err(|error| Error::internal(format!("the search for terms failed: {error}")))?
}

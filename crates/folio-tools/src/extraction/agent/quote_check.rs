//! Checks the quotes of a call in the text of the pages that the call names.

use std::collections::{BTreeMap, BTreeSet};

use folio_resources::{Citation, Document, REPORT_PATH_BYTES};
use folio_storage::Stores;
use folio_types::{OrgId, Result};
use serde_json::Value;

use super::super::citation::{blocking, quote, reads_of};
use super::super::location::Search;
use super::super::quote::{CondensedPage, Quote};
use super::fields::PageQuote;
use crate::rules::excerpt;

/// The quotes of a call after the check.
#[derive(Debug, Default)]
pub(crate) struct CheckedQuotes {
    /// The citations of the values that their quotes contain. A quote without its value is no evidence, as in a prompt run.
    pub(crate) citations: Vec<Citation>,
    /// One sentence for each quote that does not occur on its page.
    pub(crate) missing: Vec<String>,
}

/// Checks quotes by the paths of their values in the data. Cost: two reads of the named pages.
pub(crate) async fn check_quotes(
    stores: &Stores,
    org: &OrgId,
    document: &Document,
    data: &Value,
    quotes: BTreeMap<String, PageQuote>,
) -> Result<CheckedQuotes> {
    if quotes.is_empty() {
        return Ok(CheckedQuotes::default());
    }
    let texts = quotes.iter().map(|(path, stated)| (path.clone(), stated.quote.clone())).collect();
    let mut search = Search::new(data, &texts);
    let mut missing = quotes;
    let named: BTreeSet<u32> =
        missing.values().map(|stated| stated.page).filter(|page| *page <= document.pages).collect();
    for (first, count) in reads_of(named.clone()) {
        let pages = stores.texts.text(org, document.id.as_str(), first, count).await?;
        let pages: Vec<_> = pages.into_iter().filter(|page| named.contains(&page.number)).collect();
        (search, missing) = blocking(move || {
            for page in &pages {
                let condensed = CondensedPage::new(&page.text);
                missing.retain(|_, stated| {
                    stated.page != page.number || condensed.find(&Quote::new(&stated.quote)).next().is_none()
                });
                search.add_page(page.number, &page.text);
            }
            (search, missing)
        })
        .await?;
    }
    let missing = missing.iter().map(|(path, stated)| problem(path, stated, document.pages)).collect();
    let mut located = blocking(move || search.finish()).await?.located;
    located.retain(|found| found.quote.is_some() && found.path.len() <= REPORT_PATH_BYTES);
    Ok(CheckedQuotes { citations: quote(stores, org, document, located).await?, missing })
}

/// Describes a quote that does not occur on its page.
fn problem(path: &str, stated: &PageQuote, pages: u32) -> String {
    let PageQuote { page, quote } = stated;
    if *page > pages {
        return format!("The citation of '{path}' names page {page}, but the document has {pages} pages.");
    }
    let quote = excerpt(quote);
    format!(
        "The quote {quote:?} of '{path}' does not occur on page {page}. Copy the words from get_document_text, or omit the \
         citation."
    )
}

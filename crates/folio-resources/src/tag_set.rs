//! Tag sets of documents and prompts.

use std::collections::BTreeSet;

use folio_types::TagId;

use crate::term;

/// Removes duplicates and keeps the order.
pub(crate) fn distinct(tags: &[TagId]) -> Vec<TagId> {
    let mut seen = BTreeSet::new();
    tags.iter().filter(|tag| seen.insert(*tag)).cloned().collect()
}

pub(crate) fn tag_terms(tags: &[TagId]) -> impl Iterator<Item = String> {
    tags.iter().map(|tag| term("tag", tag))
}

//! The accepted proposal whose document is most similar to another document, by the labels and the layout of the first pages
//! ([`similarity`](mod@super::similarity)).
//!
//! | step | cost |
//! |---|---|
//! | list the newest accepted proposals | one list of at most [`LISTED_MAX`] |
//! | read their documents and extractions | two reads of at most [`COMPARED_MAX`] |
//! | read the first page of the document and of each candidate | two reads each |
//!
//! All reads are restricted to the organization of the caller.

use std::collections::{BTreeMap, BTreeSet};

use folio_resources::{
    Document, Extraction, Prompt, PromptRevision, Proposal, ProposalFilter, ProposalState, SimilarProposal, TextState,
};
use folio_storage::Stores;
use folio_types::page::PageRequest;
use folio_types::{DocumentId, ExtractionId, OrgId, Result};

use super::examples::FirstPages;
use super::similarity::{similarity, value_words};

/// Maximum number of accepted proposals that a run lists.
const LISTED_MAX: u32 = 64;
/// Maximum number of documents that a run compares with its document.
const COMPARED_MAX: usize = 32;

/// The prompt of the accepted proposal for the most similar document.
#[derive(Debug, Clone, PartialEq)]
pub struct SimilarPrompt {
    /// The newest revision.
    pub prompt: PromptRevision,
    pub document_type: Option<String>,
    pub similar: SimilarProposal,
}

/// Returns the prompt of the accepted proposal whose document is most similar to this one. None: no document reaches the
/// threshold, or their prompts are deleted.
pub(crate) async fn similar_prompt(
    stores: &Stores,
    org: &OrgId,
    document: &Document,
    threshold: f64,
) -> Result<Option<SimilarPrompt>> {
    let filter = ProposalFilter { any_state: vec![ProposalState::Accepted], ..ProposalFilter::default() };
    let page = PageRequest { size: LISTED_MAX, ..PageRequest::default() };
    let candidates = candidates(stores.of::<Proposal>().list(org, &filter, &page).await?.items, &document.id);
    if candidates.is_empty() {
        return Ok(None);
    }
    let Some(own) = FirstPages::read(stores, org, document, 1).await? else { return Ok(None) };
    let documents: Vec<DocumentId> = candidates.iter().map(|candidate| candidate.document.clone()).collect();
    let of = |candidate: &Proposal| candidate.resources.as_ref().map(|resources| resources.extraction.clone());
    let extractions: Vec<ExtractionId> = candidates.iter().filter_map(of).collect();
    let documents = stores.of::<Document>().get_many(org, &documents).await?;
    let documents: BTreeMap<DocumentId, Document> =
        documents.into_iter().map(|found| (found.id.clone(), found)).collect();
    let extractions = stores.of::<Extraction>().get_many(org, &extractions).await?;
    let extractions: BTreeMap<DocumentId, Extraction> =
        extractions.into_iter().map(|found| (found.document.clone(), found)).collect();
    let mut scored = Vec::new();
    for candidate in candidates {
        let found = documents.get(&candidate.document).filter(|found| found.state == TextState::Ready);
        let Some(found) = found else { continue };
        let Some(pages) = FirstPages::read(stores, org, found, 1).await? else { continue };
        let values = extractions.get(&found.id).map(|extraction| value_words(extraction.current()));
        let similarity = similarity(own.labels(), pages.labels(), &values.unwrap_or_default());
        scored.push((similarity, candidate));
    }
    for (similarity, candidate) in most_similar(scored, threshold) {
        let Some(resources) = candidate.resources else { continue };
        if let Some(prompt) = stores.of::<Prompt>().get(org, &resources.prompt.of).await? {
            return Ok(Some(SimilarPrompt {
                prompt: prompt.latest,
                document_type: resources.document_type,
                similar: SimilarProposal { proposal: candidate.id, similarity, threshold },
            }));
        }
    }
    Ok(None)
}

/// Returns the proposals to compare, one for each other document, in the given order.
fn candidates(listed: Vec<Proposal>, document: &DocumentId) -> Vec<Proposal> {
    let mut documents = BTreeSet::from([document.clone()]);
    let newest = listed.into_iter().filter(|found| documents.insert(found.document.clone()));
    newest.take(COMPARED_MAX).collect()
}

/// Returns the candidates that reach the threshold, the most similar first. Equally similar ones keep their order.
fn most_similar<T>(mut scored: Vec<(f64, T)>, threshold: f64) -> Vec<(f64, T)> {
    scored.retain(|(similarity, _)| *similarity >= threshold);
    scored.sort_by(|(one, _), (other, _)| other.total_cmp(one));
    scored
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_most_similar_candidate_above_the_threshold_is_first() {
        let scored = vec![(0.5, "a"), (0.7, "b"), (0.9, "c"), (0.7, "d")];
        assert_eq!(most_similar(scored.clone(), 0.7), [(0.9, "c"), (0.7, "b"), (0.7, "d")]);
        assert!(most_similar(scored, 0.91).is_empty());
    }
}

//! Conversions of proposals.

use folio_resources::{Proposal, ProposalState};
use folio_types::Etag;

use super::time;
use crate::fields::text_of;
use crate::v1;

same_variants!(ProposalState = v1::ProposalState of "state": Proposed, Accepted, Rejected, Failed, Skipped);

impl From<&Proposal> for v1::Proposal {
    fn from(proposal: &Proposal) -> Self {
        let resources = proposal.resources.as_ref();
        let similar = resources.and_then(|resources| resources.similar.as_ref());
        Self {
            proposal_id: proposal.id.to_string(),
            document_id: proposal.document.to_string(),
            state: v1::ProposalState::from(proposal.state).into(),
            reason: proposal.reason.clone().unwrap_or_default(),
            schema_revid: text_of(resources.and_then(|resources| resources.schema.as_ref())),
            prompt_revid: text_of(resources.map(|resources| &resources.prompt)),
            extraction_id: text_of(resources.map(|resources| &resources.extraction)),
            document_type: resources.and_then(|resources| resources.document_type.clone()).unwrap_or_default(),
            thread_id: text_of(proposal.thread.as_ref()),
            similar_proposal_id: text_of(similar.map(|similar| &similar.proposal)),
            similarity: similar.map_or(0.0, |similar| similar.similarity),
            similarity_threshold: similar.map_or(0.0, |similar| similar.threshold),
            decided_by: text_of(proposal.decided_by.as_ref()),
            decide_time: proposal.decided_at.map(time::to_proto),
            created_by: proposal.created_by.to_string(),
            finish_time: Some(time::to_proto(proposal.created_at)),
            etag: Etag::new(proposal.version).to_string(),
        }
    }
}

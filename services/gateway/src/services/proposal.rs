//! Serves `ProposalService`.

use folio_history::thread::ThreadView;
use folio_operations::proposals::{
    AcceptProposal, AcceptedProposal, GetProposal, ListProposals, RefineProposal, RejectProposal,
};
use folio_proto::{fields, v1};
use v1::proposal_service_server::ProposalService;

use super::Api;
use super::handler::{change, get, list};
use super::prompt::tag_run_plan;

#[tonic::async_trait]
impl ProposalService for Api {
    get!(get_proposal, GetProposalRequest, GetProposal { proposal_id }, GetProposalResponse { proposal });

    list!(list_proposals, ListProposalsRequest, ListProposals {}, ListProposalsResponse { proposals });

    change!(
        accept_proposal,
        AcceptProposalRequest,
        AcceptProposalResponse,
        |request| AcceptProposal {
            proposal_id: fields::id("proposal_id", &request.proposal_id)?,
            etag: fields::etag("etag", &request.etag)?,
            tag_name: Some(request.tag_name).filter(|name| !name.is_empty()),
        },
        |accepted: AcceptedProposal| v1::AcceptProposalResponse {
            proposal: Some((&accepted.proposal).into()),
            tag_id: fields::text_of(accepted.tag.as_ref()),
            tag_run_plan: accepted.tag_runs.as_ref().map(tag_run_plan),
        }
    );

    change!(reject_proposal, RejectProposalRequest, RejectProposalResponse { proposal }, |request| {
        let proposal_id = fields::id("proposal_id", &request.proposal_id)?;
        RejectProposal { proposal_id, etag: fields::etag("etag", &request.etag)? }
    });

    change!(
        refine_proposal,
        RefineProposalRequest,
        RefineProposalResponse,
        |request| RefineProposal { proposal_id: fields::id("proposal_id", &request.proposal_id)? },
        |thread: ThreadView| v1::RefineProposalResponse { thread: Some((&thread).into()) }
    );
}

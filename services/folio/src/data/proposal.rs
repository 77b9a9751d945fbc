//! `folio proposals`.

use anyhow::Result;
use folio_proto::v1;
use folio_types::ProposalId;
use serde_json::{Value, json};

use super::job::word;
use super::output::View;
use super::{DataArguments, list_items, present, prompt, time};
use crate::client::{Client, answer};
use crate::documents;
use crate::terminal::note;

const COLUMNS: [&str; 7] =
    ["proposal_id", "state", "document_type", "document_id", "prompt_revid", "extraction_id", "finish_time"];

#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    /// List proposals, newest first.
    List(List),
    /// Print a proposal.
    Show(Item),
    /// Accept a proposal: its schema and its prompt become ordinary.
    Accept(Accept),
    /// Reject a proposal, and delete its schema, prompt and extraction unless something else uses them.
    Reject(Item),
    /// Create a conversation that starts from a proposal, and print it; continue with `folio chat`.
    Refine(Item),
}

#[derive(Debug, clap::Args)]
pub(crate) struct List {
    /// Only proposals in this state.
    #[arg(long, value_enum)]
    state: Option<State>,
    /// Only proposals for this document, by id or name.
    #[arg(long, value_name = "DOCUMENT")]
    document: Option<String>,
    /// Maximum number of proposals.
    #[arg(long, value_name = "N", default_value = "1000")]
    limit: usize,
    #[command(flatten)]
    data: DataArguments,
}

#[derive(Debug, Clone, Copy, clap::ValueEnum)]
pub(crate) enum State {
    Proposed,
    Accepted,
    Rejected,
    Failed,
    Skipped,
}

impl State {
    /// Returns the condition of the filter.
    fn condition(self) -> &'static str {
        match self {
            Self::Proposed => "state:proposed",
            Self::Accepted => "state:accepted",
            Self::Rejected => "state:rejected",
            Self::Failed => "state:failed",
            Self::Skipped => "state:skipped",
        }
    }
}

#[derive(Debug, clap::Args)]
pub(crate) struct Item {
    /// The id of the proposal.
    #[arg(value_name = "ID")]
    proposal: ProposalId,
    #[command(flatten)]
    data: DataArguments,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Accept {
    /// The id of the proposal.
    #[arg(value_name = "ID")]
    proposal: ProposalId,
    /// Run the prompt on documents that get the tag with this name; the tag is created if it does not exist.
    #[arg(long, value_name = "NAME")]
    tag: Option<String>,
    #[command(flatten)]
    data: DataArguments,
}

pub(crate) async fn run(command: Command) -> Result<()> {
    match command {
        Command::List(list) => list.data.run(async |client| proposals(&client, &list).await).await,
        Command::Show(item) => item.data.run(async |client| show(&client, item.proposal.to_string()).await).await,
        Command::Accept(accept) => accept.data.run(async |client| accept_one(&client, &accept).await).await,
        Command::Reject(item) => item.data.run(async |client| reject(&client, item.proposal.to_string()).await).await,
        Command::Refine(item) => item.data.run(async |client| refine(&client, item.proposal.to_string()).await).await,
    }
}

async fn proposals(client: &Client, list: &List) -> Result<View> {
    let document = match &list.document {
        Some(document) => Some(documents::id(client, document).await?),
        None => None,
    };
    let conditions = list.state.map(|state| state.condition().to_owned()).into_iter();
    let conditions: Vec<String> = conditions.chain(document.map(|id| format!("document:{id}"))).collect();
    let filter = conditions.join(" ");
    let found = list_items! {
        list.limit, client.proposals().list_proposals(ListProposalsRequest { filter: filter.clone() }) => proposals
    };
    Ok(View::list(COLUMNS, found.await?.iter().map(row).collect()))
}

async fn show(client: &Client, proposal_id: String) -> Result<View> {
    let found = answer(client.proposals().get_proposal(v1::GetProposalRequest { proposal_id })).await?;
    Ok(View::one(row(&present(found.proposal)?)))
}

async fn accept_one(client: &Client, accept: &Accept) -> Result<View> {
    let request = v1::AcceptProposalRequest {
        proposal_id: accept.proposal.to_string(),
        tag_name: accept.tag.clone().unwrap_or_default(),
        ..Default::default()
    };
    let accepted = answer(client.proposals().accept_proposal(request)).await?;
    if let Some(plan) = &accepted.tag_run_plan {
        note(&prompt::tag_runs(plan));
    }
    let mut row = row(&present(accepted.proposal)?);
    if let Some(row) = row.as_object_mut() {
        row.insert("tag_id".to_owned(), accepted.tag_id.into());
    }
    Ok(View::one(row))
}

async fn reject(client: &Client, proposal_id: String) -> Result<View> {
    let request = v1::RejectProposalRequest { proposal_id, ..Default::default() };
    Ok(View::one(row(&present(answer(client.proposals().reject_proposal(request)).await?.proposal)?)))
}

async fn refine(client: &Client, proposal_id: String) -> Result<View> {
    let request = v1::RefineProposalRequest { proposal_id, ..Default::default() };
    let thread = present(answer(client.proposals().refine_proposal(request)).await?.thread)?;
    Ok(View::one(json!({ "thread_id": thread.thread_id, "document_ids": thread.document_ids })))
}

fn row(proposal: &v1::Proposal) -> Value {
    json!({
        "proposal_id": proposal.proposal_id, "state": word(proposal.state().as_str_name(), "PROPOSAL_STATE_"),
        "document_type": proposal.document_type, "document_id": proposal.document_id, "reason": proposal.reason,
        "schema_revid": proposal.schema_revid, "prompt_revid": proposal.prompt_revid,
        "extraction_id": proposal.extraction_id, "thread_id": proposal.thread_id,
        "similar_proposal_id": proposal.similar_proposal_id, "similarity": proposal.similarity,
        "decided_by": proposal.decided_by, "decide_time": time(proposal.decide_time.as_ref()),
        "created_by": proposal.created_by, "finish_time": time(proposal.finish_time.as_ref()), "etag": proposal.etag,
    })
}

#[cfg(test)]
mod tests {
    use clap::ValueEnum as _;

    use super::*;

    #[test]
    fn the_states_of_the_filter_are_those_of_proposals() {
        let conditions = State::value_variants().iter().map(|state| state.condition().to_owned());
        let states = folio_resources::ProposalState::names().into_iter().map(|state| format!("state:{state}"));
        assert!(conditions.eq(states));
        let proposal = v1::Proposal { state: v1::ProposalState::Skipped.into(), ..v1::Proposal::default() };
        assert_eq!(row(&proposal)["state"], "skipped");
    }
}

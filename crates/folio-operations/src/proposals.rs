//! Operations on proposals.

use folio_history::command::CreateThreadCommand;
use folio_history::thread::ThreadView;
use folio_resources::fields::{check_name, check_tags};
use folio_resources::{
    CreationPeriod, Extraction, Prompt, PromptChange, PromptUpdate, Proposal, ProposalChange, ProposalFilter,
    ProposalState, ProposedResources, Resource, Schema, Tag, TagChange, folded,
};
use folio_tools::auto_create::{created_by_run, remove_unused};
use folio_types::access::Scope;
use folio_types::op::{Expected, WriteOutcome};
use folio_types::page::PageRequest;
use folio_types::{Error, Etag, PromptId, ProposalId, Reason, Result, Role, TagId, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::audit::AuditRecord;
use crate::context::Context;
use crate::declaration::{Declaration, Quota, service};
use crate::filter;
use crate::list::{LARGE_PAGE_MAX, ListPage, ListRequest, SortKeys};
use crate::operation::{Operation, get_operation, outcome_as_json, read_outcome, write_outcome};
use crate::tag_runs::{self, TagRunPlan};
use crate::waiting_items::WaitingItem;

service! {
    "ProposalService", Some(Scope::Definitions) =>
    GetProposal, ListProposals, AcceptProposal, RejectProposal, RefineProposal
}

const TAG_NAME: &str = "tag_name";
/// Maximum number of attempts to set the tag of a prompt while other requests change the prompt.
const ATTEMPTS: u32 = 5;

get_operation! {
    GetProposal { proposal_id: ProposalId } -> Proposal
}

/// Lists proposals. Filter: `state:` a state, `document:` a document id.
#[derive(Debug, Clone, Serialize)]
pub struct ListProposals {
    pub list: ListRequest,
}

impl Operation for ListProposals {
    const DECLARATION: Declaration = SERVICE.read("ListProposals");
    type Output = ListPage<Proposal>;

    async fn run(self, context: &Context) -> Result<ListPage<Proposal>> {
        let filter = proposal_filter(&self.list.filter)?;
        context.list(&self.list, &filter, SortKeys::CreateTime, LARGE_PAGE_MAX).await
    }
}

fn proposal_filter(text: &str) -> Result<ProposalFilter> {
    let (state, document) = filter::state_and_document(text, &ProposalState::names(), ProposalState::from_name)?;
    Ok(ProposalFilter { document, any_state: state.into_iter().collect(), ..ProposalFilter::default() })
}

impl WaitingItem for Proposal {
    type Resource = Self;

    fn filter(created: Option<CreationPeriod>) -> ProposalFilter {
        ProposalFilter { created, ..open() }
    }

    fn of(resource: Self) -> Self {
        resource
    }

    fn id(&self) -> &ProposalId {
        &self.id
    }

    fn created_at(&self) -> Timestamp {
        self.created_at
    }
}

/// Accepts a proposal, and gives its prompt a tag.
#[derive(Debug, Clone, Serialize)]
pub struct AcceptProposal {
    pub proposal_id: ProposalId,
    /// None: the prompt gets no tag.
    pub tag_name: Option<String>,
    /// The version that the decision is based on. None: any version.
    pub etag: Option<Etag>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AcceptedProposal {
    pub proposal: Proposal,
    /// The tag of the prompt. None: the request names none.
    pub tag: Option<TagId>,
    /// None: the request names no tag, or no document has a tag of the prompt. Not recorded: a repeated request reads it again.
    #[serde(skip)]
    pub tag_runs: Option<TagRunPlan>,
}

impl AcceptedProposal {
    /// Reads the documents with a tag of the prompt.
    async fn planned(self, context: &Context) -> Result<Self> {
        let prompt = match (&self.tag, &self.proposal.resources) {
            (Some(_), Some(resources)) => {
                context.stores().of::<Prompt>().get(&context.principal().org, &resources.prompt.of).await?
            }
            _ => None,
        };
        let tag_runs = match prompt {
            Some(prompt) => tag_runs::plan(context, &prompt).await?,
            None => None,
        };
        Ok(Self { tag_runs, ..self })
    }
}

impl Operation for AcceptProposal {
    const DECLARATION: Declaration = SERVICE.administer("AcceptProposal").role(Role::Member).quota(Quota::ModelCalls);
    type Output = AcceptedProposal;

    fn to_outcome(output: &AcceptedProposal) -> Result<Value> {
        write_outcome(output)
    }

    async fn replay(&self, context: &Context, outcome: Value) -> Result<AcceptedProposal> {
        read_outcome::<AcceptedProposal>(outcome)?.planned(context).await
    }

    async fn audit(&self, _context: &Context) -> Result<AuditRecord<AcceptedProposal>> {
        let arguments = json!({ "proposal_id": self.proposal_id, "has_tag": self.tag_name.is_some() });
        Ok(AuditRecord::new(arguments).target(Proposal::KIND, &self.proposal_id))
    }

    /// Writes the decision before the tag. After a crash, a repeated request sets the tag.
    async fn run(self, context: &Context) -> Result<AcceptedProposal> {
        if let Some(name) = &self.tag_name {
            check_name(TAG_NAME, name)?;
        }
        let proposal = context.update::<Proposal>(&self.proposal_id, self.etag, ProposalChange::Accept).await?;
        let prompt = proposal.resources.as_ref().map(|resources| resources.prompt.of.clone());
        let tag = match (self.tag_name, prompt) {
            (Some(name), Some(prompt)) => {
                let tag = tag_named(context, &name).await?;
                add_tag(context, &prompt, &tag).await?;
                Some(tag)
            }
            _ => None,
        };
        AcceptedProposal { proposal, tag, tag_runs: None }.planned(context).await
    }
}

/// Returns the tag with a name, which is created if it does not exist.
async fn tag_named(context: &Context, name: &str) -> Result<TagId> {
    let (org, tags) = (&context.principal().org, context.stores().of::<Tag>());
    if let Some(found) = tags.by_name(org, name).await? {
        return Ok(found.id);
    }
    let [org_part, user, request] = context.request.id_parts();
    let id = TagId::derive(&[org_part, user, request, "tag of a proposal", &folded(name)]);
    let create = TagChange::Create { name: name.to_owned(), color: None, description: None };
    match tags.decide(&id, context.request.further_write(id.as_str(), Expected::Absent, create)?).await {
        Ok(WriteOutcome::Row(_)) => Ok(id),
        // Another request created the tag after the read.
        Ok(WriteOutcome::VersionMismatch) => Err(conflict("the tag")),
        Err(error) if error.reason == Reason::NameTaken => {
            tags.by_name(org, name).await?.map(|found| found.id).ok_or(error)
        }
        Err(error) => Err(error),
    }
}

/// Adds a tag to a prompt that lacks it.
async fn add_tag(context: &Context, prompt: &PromptId, tag: &TagId) -> Result<()> {
    let prompts = context.stores().of::<Prompt>();
    for _ in 0..ATTEMPTS {
        let found: Prompt = context.find(prompt).await?;
        if found.latest.tags.contains(tag) {
            return Ok(());
        }
        let tags: Vec<TagId> = found.latest.tags.iter().cloned().chain([tag.clone()]).collect();
        let update = PromptUpdate { tags: Some(check_tags(TAG_NAME, &tags)?), ..PromptUpdate::default() };
        let change = PromptChange::Update(update);
        let name = format!("{prompt} {tag} {}", found.version);
        let write = context.request.further_write(&name, Expected::Version(found.version), change)?;
        if let WriteOutcome::Row(_) = prompts.decide(prompt, write).await? {
            return Ok(());
        }
    }
    Err(conflict("the prompt"))
}

fn conflict(what: &str) -> Error {
    Error::version_conflict(format!("{what} was changed concurrently; retry"))
}

/// Rejects a proposal, and deletes what its run created and nothing else uses.
#[derive(Debug, Clone, Serialize)]
pub struct RejectProposal {
    pub proposal_id: ProposalId,
    /// The version that the decision is based on. None: any version.
    pub etag: Option<Etag>,
}

impl Operation for RejectProposal {
    const DECLARATION: Declaration = SERVICE.administer("RejectProposal").role(Role::Member);
    type Output = Proposal;

    outcome_as_json!();

    async fn audit(&self, _context: &Context) -> Result<AuditRecord<Proposal>> {
        let arguments = json!({ "proposal_id": self.proposal_id });
        Ok(AuditRecord::new(arguments).target(Proposal::KIND, &self.proposal_id))
    }

    /// Writes the decision before the deletions, because an accepted proposal keeps its resources. After a crash, another
    /// rejection deletes the rest.
    async fn run(self, context: &Context) -> Result<Proposal> {
        context.caller.require(Scope::Extractions, "the deletion of the extraction")?;
        let proposal = context.update::<Proposal>(&self.proposal_id, self.etag, ProposalChange::Reject).await?;
        let (stores, principal) = (context.stores(), context.principal());
        let mut targets = match &proposal.thread {
            Some(thread) => created_by_run(stores, &principal.org, thread).await?,
            None => Vec::new(),
        };
        targets.extend(proposal.resources.iter().map(|resources| Extraction::target(&resources.extraction)));
        remove_unused(stores, principal, &targets, context.request.received_at()).await?;
        context.clean_up().sweep_soon();
        Ok(proposal)
    }
}

/// Creates a thread that starts from a proposal.
#[derive(Debug, Clone, Serialize)]
pub struct RefineProposal {
    pub proposal_id: ProposalId,
}

impl Operation for RefineProposal {
    const DECLARATION: Declaration = SERVICE.change("RefineProposal").by_thread();
    type Output = ThreadView;

    async fn run(self, context: &Context) -> Result<ThreadView> {
        context.caller.require(Scope::Conversations, "a thread")?;
        let proposal: Proposal = context.find(&self.proposal_id).await?;
        if proposal.resources_in_use().is_none() {
            let message = format!("the proposal is {}: nothing can be refined", proposal.state.as_str());
            return Err(Error::precondition(Reason::ProposalDecided, message));
        }
        // Each new thread about the document starts from its proposal.
        let create = CreateThreadCommand {
            documents: vec![proposal.document],
            request_id: context.request.is_repeatable().then(|| context.request.id().clone()),
            ..CreateThreadCommand::default()
        };
        context.conversations().create_thread(context.principal(), create).await
    }
}

/// A resource of a list.
#[derive(Debug, Clone, PartialEq)]
pub struct Listed<R> {
    pub resource: R,
    /// The open proposal for which an agent created the resource, which thus waits for a review. None: no such proposal.
    pub pending_proposal: Option<ProposalId>,
}

/// Marks the prompts of open proposals.
pub(crate) async fn mark_prompts(context: &Context, page: ListPage<Prompt>) -> Result<ListPage<Listed<Prompt>>> {
    let any_prompt = page.items.iter().map(|prompt| prompt.id.clone()).collect();
    let filter = ProposalFilter { any_prompt, ..open() };
    mark(context, page, &filter, |proposed, prompt| proposed.prompt.of == prompt.id).await
}

/// Marks the schemas of open proposals, except those that existed before.
pub(crate) async fn mark_schemas(context: &Context, page: ListPage<Schema>) -> Result<ListPage<Listed<Schema>>> {
    let any_schema = page.items.iter().map(|schema| schema.id.clone()).collect();
    let filter = ProposalFilter { any_schema, ..open() };
    let is_created = |proposed: &ProposedResources, schema: &Schema| {
        !proposed.is_schema_reused && proposed.schema.as_ref().is_some_and(|revid| revid.of == schema.id)
    };
    mark(context, page, &filter, is_created).await
}

fn open() -> ProposalFilter {
    ProposalFilter { any_state: vec![ProposalState::Proposed], ..ProposalFilter::default() }
}

async fn mark<R: Resource>(
    context: &Context,
    page: ListPage<R>,
    filter: &ProposalFilter,
    is_created: impl Fn(&ProposedResources, &R) -> bool,
) -> Result<ListPage<Listed<R>>> {
    let ListPage { items, next_page_token, total_size, is_total_estimate } = page;
    let open = match items.len() {
        0 => Vec::new(),
        _ => {
            let page = PageRequest { size: LARGE_PAGE_MAX, ..PageRequest::default() };
            context.stores().of::<Proposal>().list(&context.principal().org, filter, &page).await?.items
        }
    };
    let proposal_of = |resource: &R| {
        let is_of = |proposed: &ProposedResources| proposed.similar.is_none() && is_created(proposed, resource);
        let found = open.iter().find(|proposal| proposal.resources.as_ref().is_some_and(is_of));
        found.map(|proposal| proposal.id.clone())
    };
    let listed = |resource: R| Listed { pending_proposal: proposal_of(&resource), resource };
    Ok(ListPage { items: items.into_iter().map(listed).collect(), next_page_token, total_size, is_total_estimate })
}

#[cfg(test)]
mod tests {
    use folio_types::DocumentId;

    use super::*;

    #[test]
    fn a_filter_selects_a_state_and_a_document() {
        let document = DocumentId::derive(&["d"]);
        let filter = proposal_filter(&format!("state:proposed document:{document}")).unwrap();
        assert_eq!(filter.any_state, [ProposalState::Proposed]);
        assert_eq!(filter.document, Some(document));
        assert_eq!(proposal_filter("").unwrap(), ProposalFilter::default());
        for bad in ["state:open", "state:failed state:skipped", "document:x", "name:a"] {
            assert!(proposal_filter(bad).is_err(), "{bad}");
        }
    }
}

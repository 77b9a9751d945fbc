//! A run that makes a proposal: its start, the message of its turn, and its end.
//!
//! | step | repeated after a crash |
//! |---|---|
//! | the thread of the run is created | under the id that derives from the document and its text |
//! | the job sends the message | the request id is that of the thread, so both attempts share one turn |
//! | what the run created and does not propose is deleted | deleted resources are skipped |
//! | the proposal is created | under its derived id; the first write wins |

use std::time::Duration;

use folio_history::command::ChatCommand;
use folio_history::job::AutoCreateInput;
use folio_history::thread::NewThread;
use folio_resources::{
    Document, Extraction, NewProposal, Prompt, Proposal, ProposalChange, ProposalFilter, ProposalOutcome,
    ProposalState, ProposedResources, Resource as _, Schema, TextRecord, TextState,
};
use folio_types::op::{Expected, OpKey, OpState, Target, Write, WriteOutcome};
use folio_types::profile::{AUTO_CREATE_PROFILE, Subject};
use folio_types::{
    Digest, DocumentId, Error, JobId, OrgId, Principal, ProposalId, Reason, Result, ThreadId, Timestamp,
};
use serde_json::{Value, json};

use super::{Options, created_by_run, remove_unused};
use crate::extraction::{STORED_WITHIN, SimilarPrompt, similar_prompt};
use crate::tool::ToolResources;

/// The message of every run.
const MESSAGE: &str = "Analyze this document. Create a schema that captures the key, repeatable fields for documents like \
                       this — focus on fields that would be uniform across similar documents, not every detail. Then \
                       create a prompt for extracting those fields, and run the extraction.";

/// A run on a version of the text of a document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AutoCreateRun {
    pub proposal: ProposalId,
    pub document: DocumentId,
    /// The hidden thread of the run, which is kept as the log of the proposal until the document is deleted.
    pub thread: ThreadId,
}

/// The state of a run after its start.
#[derive(Debug, Clone, PartialEq)]
pub enum AutoCreateStart {
    /// The agent works in the thread of the run. The caller drives its turn to the end.
    Run(AutoCreateRun),
    /// The caller proposes the accepted prompt of a similar document ([`super::propose_similar`]).
    Similar(AutoCreateRun, Box<SimilarPrompt>),
    /// The outcome of the item.
    Done(Value),
}

impl AutoCreateRun {
    fn new(org: &OrgId, document: &DocumentId, text_at: Timestamp) -> Self {
        let at = text_at.to_string();
        let parts = ["auto_create", org.as_str(), document.as_str(), at.as_str()];
        Self { proposal: ProposalId::derive(&parts), document: document.clone(), thread: ThreadId::derive(&parts) }
    }

    fn new_thread(&self, principal: &Principal, job: &JobId, at: Timestamp) -> NewThread {
        NewThread {
            subject: Some(Subject::Proposal(self.proposal.clone())),
            job: Some(job.clone()),
            ephemeral: true,
            ..NewThread::new(self.thread.clone(), principal, AUTO_CREATE_PROFILE, vec![self.document.clone()], at)
        }
    }

    /// Returns the key of the write that stores the proposal.
    fn op(&self, principal: &Principal) -> Result<OpKey> {
        let request = format!("auto-create-{}", self.proposal).parse()?;
        Ok(OpKey::Request { user: principal.user.clone(), request })
    }

    /// Returns the message that starts or joins the turn of the run. `budget`: credits that the model calls of the turn may cost. None:
    /// the profile is the only bound.
    ///
    /// # Errors
    /// None for a parsed or derived id of a thread.
    pub fn message(&self, budget: Option<u64>) -> Result<ChatCommand> {
        Ok(ChatCommand {
            thread: Some(self.thread.clone()),
            // A thread has one run.
            request_id: Some(self.thread.as_str().parse()?),
            credit_budget: budget,
            ..ChatCommand::new(MESSAGE)
        })
    }
}

#[derive(Debug, PartialEq, Eq)]
enum Decision {
    /// The text was stored at this time. `no_text`: the reason for which there is none.
    Settled {
        at: Timestamp,
        no_text: Option<String>,
    },
    /// The write of the text is not stored yet.
    Wait,
    NoEffect(&'static str),
}

/// `found`: the document with the record of its text. `cause`: the time of the write that settles the text.
fn decide(found: Option<Option<&TextRecord>>, cause: Timestamp, now: Timestamp) -> Decision {
    let Some(text) = found else { return Decision::NoEffect("the document was deleted") };
    let Some(text) = text.filter(|text| text.at >= cause) else {
        let age = Duration::try_from(now.duration_since(cause)).unwrap_or_default();
        return if age > STORED_WITHIN { Decision::NoEffect("the text was not stored") } else { Decision::Wait };
    };
    match &text.text {
        TextState::Ready => Decision::Settled { at: text.at, no_text: None },
        TextState::NoText(reason) | TextState::Failed(reason) => {
            Decision::Settled { at: text.at, no_text: Some(reason.clone()) }
        }
        // The write that settles the new text creates another job.
        TextState::Uploaded | TextState::Processing => Decision::NoEffect("the document is read again"),
    }
}

/// Starts a run on a document whose text is settled. A document without text, or with a proposal, has no run. `job`: the job of the
/// document, which drives the run. Idempotent.
///
/// # Errors
/// `STORE_UNAVAILABLE` if the write of the text may be stored later.
pub async fn start_auto_create(
    resources: &ToolResources,
    options: &Options,
    principal: &Principal,
    (job, document): (&JobId, &DocumentId),
    input: &AutoCreateInput,
) -> Result<AutoCreateStart> {
    let (stores, org, now) = (&resources.stores, &principal.org, resources.environment.now());
    let found = stores.of::<Document>().get_with_text(org, document).await?;
    let text = found.as_ref().map(|(_, text)| text.as_ref());
    let (at, no_text) = match decide(text, input.at, now) {
        Decision::Settled { at, no_text } => (at, no_text),
        Decision::NoEffect(reason) => return Ok(AutoCreateStart::Done(json!({ "skipped": reason }))),
        Decision::Wait => {
            return Err(Error::unavailable(Reason::StoreUnavailable, "the text of the document is not stored yet"));
        }
    };
    let run = AutoCreateRun::new(org, document, at);
    let proposals = stores.of::<Proposal>();
    if let Some(existing) = proposals.get(org, &run.proposal).await? {
        return Ok(AutoCreateStart::Done(outcome(&existing)));
    }
    let in_use = ProposalFilter {
        document: Some(document.clone()),
        any_state: vec![ProposalState::Proposed, ProposalState::Accepted],
        ..ProposalFilter::default()
    };
    if let Some(existing) = proposals.first(org, &in_use).await? {
        return Ok(AutoCreateStart::Done(outcome(&existing)));
    }
    if let Some(reason) = no_text {
        let skipped = ProposalOutcome::Skipped { reason };
        return store(resources, principal, &run, skipped, None).await.map(AutoCreateStart::Done);
    }
    // An attempt of the agent continues, although a similar proposal was accepted meanwhile.
    let has_thread = stores.threads.header(org, &run.thread).await?.is_some();
    if let Some((document, _)) = found.filter(|_| !has_thread)
        && let Some(similar) = similar_prompt(stores, org, &document, options.similarity).await?
    {
        return Ok(AutoCreateStart::Similar(run, Box::new(similar)));
    }
    stores.threads.create(run.new_thread(principal, job, now)).await?;
    Ok(AutoCreateStart::Run(run))
}

/// Returns the run of a job whose agent has started, and which has stored no proposal. None: no such run. It is the run on the text
/// whose write created the job, although a later text was read or the document was deleted meanwhile: a later text has its own job.
pub async fn open_run(
    resources: &ToolResources,
    principal: &Principal,
    document: &DocumentId,
    input: &AutoCreateInput,
) -> Result<Option<AutoCreateRun>> {
    let (stores, org) = (&resources.stores, &principal.org);
    let run = AutoCreateRun::new(org, document, input.at);
    if stores.threads.header(org, &run.thread).await?.is_none() {
        return Ok(None);
    }
    // The op row outlives the proposal, which is deleted with the document.
    let stored = stores.ops.row(org, &Proposal::target(&run.proposal), &run.op(principal)?).await?;
    Ok(Some(run).filter(|_| stored.is_none()))
}

/// Deletes what a run created that makes no proposal, because a later text of its document was read or the document was deleted.
/// Idempotent.
///
/// # Errors
/// Those of [`remove_unused`], and those of the stores.
pub async fn discard_run(
    resources: &ToolResources,
    options: &Options,
    principal: &Principal,
    run: &AutoCreateRun,
) -> Result<()> {
    if options.keep_failed {
        return Ok(());
    }
    let stores = &resources.stores;
    let created = created_by_run(stores, &principal.org, &run.thread).await?;
    remove_unused(stores, principal, &created, resources.environment.now()).await
}

/// Stores the proposal of a run whose turn has ended, and deletes what the run created and does not propose. `reason`: the
/// reason of the failure if the run has stored no extraction. Returns the outcome of the item. Idempotent.
///
/// # Errors
/// Those of [`remove_unused`], and those of the stores.
pub async fn end_auto_create(
    resources: &ToolResources,
    options: &Options,
    principal: &Principal,
    run: &AutoCreateRun,
    reason: &str,
) -> Result<Value> {
    let (stores, org, now) = (&resources.stores, &principal.org, resources.environment.now());
    let created = created_by_run(stores, org, &run.thread).await?;
    if stores.of::<Document>().get(org, &run.document).await?.is_none() {
        remove_unused(stores, principal, &created, now).await?;
        return Ok(json!({ "skipped": "the document was deleted" }));
    }
    match proposed(resources, org, &created).await? {
        Some(proposed) => {
            let kept = targets_of(&proposed);
            let others: Vec<Target> = created.into_iter().filter(|target| !kept.contains(target)).collect();
            remove_unused(stores, principal, &others, now).await?;
            store(resources, principal, run, ProposalOutcome::Proposed(proposed), Some(&run.thread)).await
        }
        None => {
            if !options.keep_failed {
                remove_unused(stores, principal, &created, now).await?;
            }
            let failed = ProposalOutcome::Failed { reason: reason.to_owned() };
            // A run with the prompt of a similar document has no thread.
            let has_thread = stores.threads.header(org, &run.thread).await?.is_some();
            store(resources, principal, run, failed, Some(&run.thread).filter(|_| has_thread)).await
        }
    }
}

/// Returns the resources of the last extraction of a run. None: the run has stored no extraction.
async fn proposed(resources: &ToolResources, org: &OrgId, created: &[Target]) -> Result<Option<ProposedResources>> {
    let stores = &resources.stores;
    for id in created.iter().rev().filter_map(Extraction::id_in) {
        let Some(extraction) = stores.of::<Extraction>().get(org, &id).await? else { continue };
        let schema = match &extraction.schema {
            Some(revid) => stores.of::<Schema>().get(org, &revid.of).await?,
            None => None,
        };
        let is_created = |schema: &Schema| created.contains(&Schema::target(&schema.id));
        return Ok(Some(ProposedResources {
            prompt: extraction.prompt,
            extraction: extraction.id,
            is_schema_reused: schema.as_ref().is_some_and(|schema| !is_created(schema)),
            document_type: schema.map(|schema| schema.latest.name),
            schema: extraction.schema,
            similar: None,
        }));
    }
    Ok(None)
}

/// Returns the proposed resources.
fn targets_of(proposed: &ProposedResources) -> Vec<Target> {
    let schema = proposed.schema.iter().map(|schema| Schema::target(&schema.of));
    let others = [Prompt::target(&proposed.prompt.of), Extraction::target(&proposed.extraction)];
    schema.chain(others).collect()
}

/// Stores the proposal of a run, unless an earlier attempt has stored it. Returns the outcome of the item.
pub(super) async fn store(
    resources: &ToolResources,
    principal: &Principal,
    run: &AutoCreateRun,
    result: ProposalOutcome,
    thread: Option<&ThreadId>,
) -> Result<Value> {
    let (proposals, org) = (resources.stores.of::<Proposal>(), &principal.org);
    let new = NewProposal { document: run.document.clone(), outcome: result, thread: thread.cloned() };
    let write = Write {
        org: org.clone(),
        op: run.op(principal)?,
        // Attempts may end with different results, of which the first is stored.
        digest: Digest::of_json(&json!({ "proposal": run.proposal })),
        by: principal.user.clone(),
        at: resources.environment.now(),
        expected: Expected::Absent,
        change: ProposalChange::Create(Box::new(new)),
    };
    if let WriteOutcome::Row(row) = proposals.decide(&run.proposal, write).await?
        && !matches!(row.state, OpState::Done(_))
    {
        let message = "another process closed the write of the proposal";
        return Err(Error::version_conflict(message));
    }
    let stored = proposals.get(org, &run.proposal).await?;
    stored.map(|stored| outcome(&stored)).ok_or_else(|| Error::not_found("proposal", &run.proposal))
}

fn outcome(proposal: &Proposal) -> Value {
    json!({ "proposal_id": proposal.id, "state": proposal.state })
}

#[cfg(test)]
mod tests {
    use folio_types::UnknownFields;

    use super::*;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::constant(1_790_000_000 + seconds, 0)
    }

    fn text(state: TextState, seconds: i64) -> TextRecord {
        TextRecord {
            text: state,
            pages: 1,
            generation: None,
            attempts: 0,
            lacks_program: false,
            at: at(seconds),
            unknown: UnknownFields::default(),
        }
    }

    #[test]
    fn a_run_starts_once_the_text_is_settled_and_stored() {
        let decide = |text: Option<&TextRecord>, seconds| decide(Some(text), at(10), at(seconds));
        for stored in [10, 11] {
            let settled =
                |no_text: Option<&str>| Decision::Settled { at: at(stored), no_text: no_text.map(str::to_owned) };
            assert_eq!(decide(Some(&text(TextState::Ready, stored)), 11), settled(None));
            for state in [TextState::NoText("empty".into()), TextState::Failed("empty".into())] {
                assert_eq!(decide(Some(&text(state, stored)), 11), settled(Some("empty")));
            }
            for state in [TextState::Uploaded, TextState::Processing] {
                assert_eq!(decide(Some(&text(state, stored)), 11), Decision::NoEffect("the document is read again"));
            }
        }
        let old = text(TextState::Ready, 9);
        for text in [None, Some(&old)] {
            assert_eq!(decide(text, 610), Decision::Wait);
            assert_eq!(decide(text, 611), Decision::NoEffect("the text was not stored"));
        }
        assert_eq!(super::decide(None, at(10), at(11)), Decision::NoEffect("the document was deleted"));
    }

    #[test]
    fn the_attempts_of_a_run_share_its_ids_and_its_message() {
        let (org, document) = (OrgId::derive(&["o"]), DocumentId::derive(&["d"]));
        let run = AutoCreateRun::new(&org, &document, at(10));
        assert_eq!(run, AutoCreateRun::new(&org, &document, at(10)));
        assert_ne!(run.proposal, AutoCreateRun::new(&org, &document, at(11)).proposal);
        let message = run.message(Some(7)).unwrap();
        assert_eq!((message.credit_budget, run.message(None).unwrap().credit_budget), (Some(7), None));
        assert_eq!(message.request_id.unwrap().as_str(), run.thread.as_str());
        assert!(!message.auto_approve, "the profile runs the tools, and the policy may require a decision");
    }
}

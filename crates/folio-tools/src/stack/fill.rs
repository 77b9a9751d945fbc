//! Jobs that fill the rows of a stack. An item is a document, and its work is one turn of the profile `stack_row`.
//!
//! | step | repeated after a crash |
//! |---|---|
//! | the attempt claims the row | the next attempt claims the row again; another job waits ([`super::claim`]) |
//! | the thread of the turn is created | under the id that derives from the job and the document |
//! | the job sends the message | the request id is that of the thread, so that all attempts share one turn |
//! | the turn writes cells | each write has an op row under its call |
//! | the item ends | if no cell of the row is missing |
//!
//! An item whose row has no missing cell ends without a model call. So a further job of the same stack continues with the first
//! row that is missing.

use std::time::Duration;

use folio_history::command::ChatCommand;
use folio_history::job::{ItemRun, JobQueue, NewJob, STACK_FILL_KIND, StackFillInput, StackPlanInput};
use folio_history::thread::NewThread;
use folio_resources::{Column, Document, Stack, StackRow, StackRowId};
use folio_storage::{Stores, create_job, hint_job};
use folio_types::limits::{DAY, JOB_OPEN_MAX};
use folio_types::profile::{STACK_ROW_PROFILE, Subject};
use folio_types::{
    BudgetPart, DocumentId, Error, JobId, OrgId, Principal, Reason, Result, StackId, ThreadId, Timestamp,
};
use serde_json::{Value, json};

use super::claim::claim_row;
use super::{check_members, unfilled};
use crate::document_text::check_ready;
use crate::extraction::{CauseState, STORED_WITHIN, agent_model, cause_state};
use crate::tool::ToolResources;

/// The message of every run.
const MESSAGE: &str = "Fill the missing cells of the row of the document.";
/// Maximum number of columns that an error names.
const NAMED_MAX: usize = 10;

/// The turn that fills the row of a document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FillRun {
    /// The hidden thread of the turn.
    pub thread: ThreadId,
    pub stack: StackId,
    pub document: DocumentId,
}

/// The state of an item after its start.
#[derive(Debug, Clone, PartialEq)]
pub enum FillStart {
    /// The caller drives the turn to its end.
    Run(FillRun),
    /// The outcome of the item.
    Done(Value),
}

impl FillRun {
    /// Returns the run of an item. All attempts of the item share it.
    pub fn of(principal: &Principal, job: &JobId, stack: &StackId, document: &DocumentId) -> Self {
        let thread = thread_of(&principal.org, job, document);
        Self { thread, stack: stack.clone(), document: document.clone() }
    }

    /// Returns the message that starts or joins the turn of the run.
    ///
    /// # Errors
    /// None for a derived id of a thread.
    pub fn message(&self) -> Result<ChatCommand> {
        Ok(ChatCommand {
            thread: Some(self.thread.clone()),
            // A thread has one run.
            request_id: Some(self.thread.as_str().parse()?),
            ..ChatCommand::new(MESSAGE.to_owned())
        })
    }
}

/// Returns the id of the thread whose turn fills the row of a document for a job.
pub(super) fn thread_of(org: &OrgId, job: &JobId, document: &DocumentId) -> ThreadId {
    ThreadId::derive(&["row of a stack", org.as_str(), job.as_str(), document.as_str()])
}

/// Starts an attempt of an item: claims the row, and creates the thread of its turn. An item without missing cells, or whose document is
/// no longer a member, is done. `budget_part`: the part of a credit budget that pays for the turn.
///
/// # Errors
/// `NO_TEXT` if the text of the document is not ready; `STORE_UNAVAILABLE` if the write that causes the item may be stored later;
/// `JOB_OPEN` while another job fills the row; `TOO_LARGE` if the stack has too many members.
pub async fn start_fill(
    resources: &ToolResources,
    principal: &Principal,
    run: &ItemRun,
    document: &DocumentId,
    input: &StackFillInput,
    budget_part: Option<BudgetPart>,
) -> Result<FillStart> {
    let (stores, org, at) = (&resources.stores, &principal.org, resources.environment.now());
    let skipped = |reason: &str| Ok(FillStart::Done(json!({ "skipped": reason })));
    let Some(found) = stores.of::<Document>().get(org, document).await? else {
        return skipped("the document was deleted");
    };
    match input.cause.as_ref().map(|cause| cause_state(&found, cause, at)) {
        None | Some(CauseState::Stored) => {}
        Some(CauseState::Lost) => return skipped("the document was not changed"),
        Some(CauseState::Pending) => return Err(not_stored("the change of the document")),
    }
    let Some(stack) = stores.of::<Stack>().get(org, &input.stack).await? else {
        return skipped("the stack was deleted");
    };
    if !stack.contains(&found) {
        return skipped("the document is not in the stack");
    }
    if stack.columns.is_empty() {
        return skipped("the table has no columns");
    }
    if let Err(error) = check_ready(&found) {
        // The text of a new member starts a job of its own.
        return if input.cause.is_some() { skipped("the document has no text") } else { Err(error) };
    }
    let row = StackRowId::of(&stack.id, document);
    if missing_columns(stores, org, &stack, document).await?.is_empty() {
        return Ok(FillStart::Done(filled_as(&row)));
    }
    check_members(stores, org, &stack).await?;
    let models = resources.models.catalogue(org).await?;
    let model = agent_model(&models, input.model.as_deref(), &[stack.model.as_deref()])?.to_owned();
    claim_row(stores, org, (&stack.id, document), run).await?;
    // Another job may have filled the row until the claim.
    if missing_columns(stores, org, &stack, document).await?.is_empty() {
        return Ok(FillStart::Done(filled_as(&row)));
    }
    let fill = FillRun::of(principal, &run.job, &stack.id, document);
    let thread = NewThread {
        subject: Some(Subject::Stack(stack.id.clone())),
        job: Some(run.job.clone()),
        budget_part,
        // A later attempt finds the thread with the model of the first one.
        model: Some(model),
        ephemeral: true,
        expires_at: Some(at.saturating_add(JOB_OPEN_MAX + DAY).unwrap_or(Timestamp::MAX)),
        ..NewThread::new(fill.thread.clone(), principal, STACK_ROW_PROFILE, vec![document.clone()], at)
    };
    stores.threads.create(thread).await?;
    Ok(FillStart::Run(fill))
}

/// Returns the outcome of an item whose turn is over. The item is done if no cell of the row is missing, also after a failed turn.
///
/// # Errors
/// `ended` with the names of the missing columns.
pub async fn check_filled(stores: &Stores, org: &OrgId, run: &FillRun, mut ended: Error) -> Result<Value> {
    let row = StackRowId::of(&run.stack, &run.document);
    let Some(stack) = stores.of::<Stack>().get(org, &run.stack).await? else {
        return Ok(json!({ "skipped": "the stack was deleted" }));
    };
    let missing = missing_columns(stores, org, &stack, &run.document).await?;
    if missing.is_empty() {
        return Ok(filled_as(&row));
    }
    let named: Vec<String> = missing.iter().take(NAMED_MAX).map(|column| format!("{:?}", column.name())).collect();
    ended.message = format!("{}; columns that are not filled: {}", ended.message, named.join(", "));
    Err(ended)
}

/// Returns the columns whose cells of a document are missing.
async fn missing_columns(stores: &Stores, org: &OrgId, stack: &Stack, document: &DocumentId) -> Result<Vec<Column>> {
    let row = stores.of::<StackRow>().get(org, &StackRowId::of(&stack.id, document)).await?;
    let is_missing = |column: &&Column| row.as_ref().is_none_or(|row| row.is_missing(column));
    Ok(stack.columns.iter().filter(is_missing).cloned().collect())
}

fn filled_as(row: &StackRowId) -> Value {
    json!({ "stack_row_id": row.as_str() })
}

fn not_stored(subject: &str) -> Error {
    Error::unavailable(Reason::StoreUnavailable, format!("{subject} that causes the filling is not stored yet"))
}

/// Creates the job that fills the rows of a stack after a change of the stack, and returns the outcome of the item of a
/// planning job. Idempotent: a version of the stack has one such job.
///
/// # Errors
/// `STORE_UNAVAILABLE` if the change may be stored later; `QUEUE_FULL`.
pub async fn plan_fill(
    resources: &ToolResources,
    principal: &Principal,
    stack: &StackId,
    input: &StackPlanInput,
) -> Result<Value> {
    let (stores, org, at) = (&resources.stores, &principal.org, resources.environment.now());
    let skipped = |reason: &str| Ok(json!({ "skipped": reason }));
    let Some(stack) = stores.of::<Stack>().get(org, stack).await? else {
        return skipped("the stack was deleted");
    };
    if stack.version < input.version {
        let age = Duration::try_from(at.duration_since(input.at)).unwrap_or_default();
        return if age > STORED_WITHIN { skipped("the stack was not changed") } else { Err(not_stored("the change")) };
    }
    let Some(auto_fill) = stack.auto_fill.as_ref().filter(|_| !stack.columns.is_empty()) else {
        return skipped("the stack does not fill its rows automatically");
    };
    let documents = unfilled(stores, org, &stack).await?;
    if documents.is_empty() {
        return skipped("no cell is missing");
    }
    let fill =
        StackFillInput { stack: stack.id.clone(), model: None, credit_budget: auto_fill.credit_budget, cause: None };
    // A repeated write has planning jobs of its own. All of them create the same job, so that no row is filled twice.
    let version = stack.version.to_string();
    let new = NewJob {
        id: JobId::derive(&["filling of a stack", org.as_str(), stack.id.as_str(), &version]),
        principal: principal.clone(),
        kind: STACK_FILL_KIND.to_owned(),
        input: json!(fill),
        items: documents.iter().map(ToString::to_string).collect(),
        running_max: resources.job_limits.running_time,
        at,
    };
    let job = create_job(&*stores.jobs, &stores.job_pages(), &resources.job_limits, new).await?;
    hint_job(&*resources.job_hints, JobQueue::Work, org, &job.id).await;
    Ok(json!({ "job_id": job.id, "documents": documents.len() }))
}

#[cfg(test)]
mod tests {
    use folio_types::{Role, UserId};

    use super::*;

    #[test]
    fn the_turn_of_an_item_derives_from_its_job_and_its_document() {
        let principal = Principal::new(OrgId::derive(&["o"]), UserId::derive(&["u"]), Role::Member);
        let of = |job: &str, document: &str| {
            let (job, stack) = (JobId::derive(&[job]), StackId::derive(&["s"]));
            FillRun::of(&principal, &job, &stack, &DocumentId::derive(&[document]))
        };
        let run = of("a", "d");
        assert_eq!(run, of("a", "d"));
        assert!(run.thread != of("b", "d").thread && run.thread != of("a", "e").thread);
        let message = run.message().unwrap();
        assert_eq!(message, of("a", "d").message().unwrap());
        assert_eq!(message.request_id.unwrap().as_str(), run.thread.as_str());
    }
}

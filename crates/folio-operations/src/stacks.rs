//! Operations on stacks and on the columns of their tables, and the jobs that fill their rows.

use std::collections::BTreeSet;

use folio_history::job::{JobFilter, STACK_FILL_KIND, StackFillInput};
use folio_history::thread::NewThread;
use folio_jobs::JobRequest;
use folio_resources::{
    AutoFill, CellRule, Document, NewColumn, NewStack, STACK_DESCRIPTION_CHARS, Stack, StackChange, StackFilter,
    StackMembers, StackPatch, check_columns, fields,
};
use folio_tools::{extraction, stack};
use folio_types::access::Scope;
use folio_types::budget::check_credit_budget;
use folio_types::op::Target;
use folio_types::page::PageRequest;
use folio_types::profile::{STACK_PROFILE, Subject};
use folio_types::{DocumentId, Error, Etag, JobId, Reason, Result, StackId, ThreadId};
use serde::Serialize;
use serde_json::json;

use crate::audit::AuditRecord;
use crate::context::Context;
use crate::declaration::{Declaration, Quota, service};
use crate::filter;
use crate::jobs::JobView;
use crate::list::LARGE_PAGE_MAX;
use crate::operation::{Operation, delete_operation, list_operation, outcome_as_job_id};
use crate::stack_rows::{GetStackRow, ListStackRows, ReviewStackCells, UpdateStackCell};
use crate::stack_tables::{AskTable, ExportTable, GetStackConflicts, WatchTable};

service! {
    "StackService", Some(Scope::Extractions) =>
    CreateStack, GetStack, ListStacks, UpdateStack, DeleteStack, DefineStackColumns, UpdateStackColumn, CreateStackThread,
    FillStack, ListStackRows, GetStackRow, UpdateStackCell, ReviewStackCells, GetStackConflicts, AskTable, WatchTable,
    ExportTable
}

/// The message of the API that contains the fields of a stack, in front of the names of the fields in errors.
const PREFIX: &str = "stack.";
/// Number of documents of one read.
const READ_DOCUMENTS: usize = 100;
/// Number of open jobs of one read.
const READ_JOBS: u32 = 100;

/// Creates a stack without columns. Errors: `NAME_TAKEN`; `NOT_FOUND` if a document or a tag of the rule does not exist.
#[derive(Debug, Clone, Serialize)]
pub struct CreateStack {
    pub name: String,
    pub description: String,
    pub members: StackMembers,
    /// None: the default model.
    pub model: Option<String>,
    pub review_rule: Option<CellRule>,
    pub auto_fill: Option<AutoFill>,
}

impl Operation for CreateStack {
    const DECLARATION: Declaration = SERVICE.change("CreateStack");
    type Output = Stack;

    async fn run(self, context: &Context) -> Result<Stack> {
        fields::check_name("stack.name", &self.name)?;
        let description = fields::paragraph("stack.description", &self.description, STACK_DESCRIPTION_CHARS)?;
        let members = self.members.checked(PREFIX)?;
        let new = NewStack {
            name: self.name,
            description,
            model: checked_model(context, self.model).await?,
            review_rule: checked_rule(self.review_rule)?,
            auto_fill: checked_auto_fill(self.auto_fill)?,
            members,
        };
        if let StackMembers::Documents(documents) = &new.members {
            check_documents(context, documents).await?;
        }
        context.create(StackChange::Create(Box::new(new))).await
    }
}

/// Checks that documents exist. Error: `NOT_FOUND`.
async fn check_documents(context: &Context, documents: &[DocumentId]) -> Result<()> {
    let store = context.stores().of::<Document>();
    for ids in documents.chunks(READ_DOCUMENTS) {
        let wanted: BTreeSet<String> = ids.iter().map(ToString::to_string).collect();
        let live = store.live_parents(&context.principal().org, wanted).await?;
        if let Some(missing) = ids.iter().find(|id| !live.contains(id.as_str())) {
            return Err(Error::not_found("document", missing));
        }
    }
    Ok(())
}

/// Error: `MODEL_NOT_AVAILABLE` if conversations may not use the model.
async fn checked_model(context: &Context, model: Option<String>) -> Result<Option<String>> {
    if let Some(model) = &model {
        context.catalogue().await?.for_chat(Some(model.as_str()))?;
    }
    Ok(model)
}

fn checked_rule(rule: Option<CellRule>) -> Result<Option<CellRule>> {
    rule.map(|rule| rule.checked("stack.review_rule")).transpose()
}

fn checked_auto_fill(auto_fill: Option<AutoFill>) -> Result<Option<AutoFill>> {
    if let Some(auto_fill) = &auto_fill {
        check_credit_budget(auto_fill.credit_budget)?;
    }
    Ok(auto_fill)
}

/// A stack with its state.
#[derive(Debug, Clone, PartialEq)]
pub struct StackView {
    pub stack: Stack,
    /// True if more documents fulfill the rule than a table has rows. No row is then created or filled.
    pub has_too_many_documents: bool,
}

/// Returns a stack.
#[derive(Debug, Clone, Serialize)]
pub struct GetStack {
    pub stack_id: StackId,
}

impl Operation for GetStack {
    const DECLARATION: Declaration = SERVICE.read("GetStack");
    type Output = StackView;

    async fn run(self, context: &Context) -> Result<StackView> {
        let stack: Stack = context.find(&self.stack_id).await?;
        let org = &context.principal().org;
        let has_too_many_documents = stack::has_too_many_members(context.stores(), org, &stack).await?;
        Ok(StackView { stack, has_too_many_documents })
    }
}

list_operation! {
    /// Lists stacks. Filter: `name:` a part of the name, `name=` the name, `tag:` a tag of the rule.
    ListStacks -> Stack; LARGE_PAGE_MAX; |text| stack_filter(text)?
}

fn stack_filter(text: &str) -> Result<StackFilter> {
    let mut found = StackFilter::default();
    for condition in filter::parse(text)? {
        match condition.field.as_str() {
            "name" => filter::set_text(&mut found.name_search, &mut found.name, &condition)?,
            "tag" => filter::set_once(&mut found.tag, &condition, condition.id()?)?,
            _ => return Err(filter::unknown_field(&condition, "name and tag")),
        }
    }
    Ok(found)
}

/// Changes a stack apart from its columns. None: the value is kept. Errors: those of [`CreateStack`].
#[derive(Debug, Clone, Serialize)]
pub struct UpdateStack {
    pub stack_id: StackId,
    pub name: Option<String>,
    pub description: Option<String>,
    pub members: Option<StackMembers>,
    /// Added to the documents of a stack without a rule.
    pub add_document_ids: Vec<DocumentId>,
    /// Removed from the documents of a stack without a rule.
    pub remove_document_ids: Vec<DocumentId>,
    /// Inner None: the default model.
    pub model: Option<Option<String>>,
    /// Inner None: removes the rule.
    pub review_rule: Option<Option<CellRule>>,
    /// Inner None: rows are filled on request only.
    pub auto_fill: Option<Option<AutoFill>>,
    /// The version that the change is based on. None: any version.
    pub etag: Option<Etag>,
}

impl Operation for UpdateStack {
    const DECLARATION: Declaration = SERVICE.change("UpdateStack");
    type Output = Stack;

    async fn run(self, context: &Context) -> Result<Stack> {
        if let Some(name) = &self.name {
            fields::check_name("stack.name", name)?;
        }
        let description =
            self.description.map(|text| fields::paragraph("stack.description", &text, STACK_DESCRIPTION_CHARS));
        let members = self.members.map(|members| members.checked(PREFIX)).transpose()?;
        if let Some(StackMembers::Documents(documents)) = &members {
            check_documents(context, documents).await?;
        }
        check_documents(context, &self.add_document_ids).await?;
        let model = match self.model {
            Some(model) => Some(checked_model(context, model).await?),
            None => None,
        };
        let patch = StackPatch {
            name: self.name,
            description: description.transpose()?,
            members,
            add_documents: self.add_document_ids,
            remove_documents: self.remove_document_ids,
            model,
            review_rule: self.review_rule.map(checked_rule).transpose()?,
            auto_fill: self.auto_fill.map(checked_auto_fill).transpose()?,
        };
        context.update(&self.stack_id, self.etag, StackChange::Update(Box::new(patch))).await
    }
}

delete_operation! {
    DeleteStack { stack_id: StackId } of Stack
}

/// Replaces the columns of a table.
#[derive(Debug, Clone, Serialize)]
pub struct DefineStackColumns {
    pub stack_id: StackId,
    pub columns: Vec<NewColumn>,
    /// The version that the change is based on. None: any version.
    pub etag: Option<Etag>,
}

impl Operation for DefineStackColumns {
    const DECLARATION: Declaration = SERVICE.change("DefineStackColumns");
    type Output = Stack;

    async fn run(self, context: &Context) -> Result<Stack> {
        let columns = check_columns("columns", self.columns)?;
        context.update(&self.stack_id, self.etag, StackChange::DefineColumns(columns)).await
    }
}

/// Replaces the definition of a column. Error: `NOT_FOUND` if no column has the name.
#[derive(Debug, Clone, Serialize)]
pub struct UpdateStackColumn {
    pub stack_id: StackId,
    /// The present name.
    pub column_name: String,
    pub column: NewColumn,
    /// The version that the change is based on. None: any version.
    pub etag: Option<Etag>,
}

impl Operation for UpdateStackColumn {
    const DECLARATION: Declaration = SERVICE.change("UpdateStackColumn");
    type Output = Stack;

    async fn run(self, context: &Context) -> Result<Stack> {
        let column = Box::new(self.column.checked("column")?);
        let change = StackChange::UpdateColumn { name: self.column_name, column };
        context.update(&self.stack_id, self.etag, change).await
    }
}

/// Creates a thread in which an agent works on the table with the caller.
#[derive(Debug, Clone, Serialize)]
pub struct CreateStackThread {
    pub stack_id: StackId,
    /// None: the default model.
    pub model: Option<String>,
}

impl Operation for CreateStackThread {
    const DECLARATION: Declaration = SERVICE.change("CreateStackThread");
    type Output = ThreadId;

    async fn run(self, context: &Context) -> Result<ThreadId> {
        let stack: Stack = context.find(&self.stack_id).await?;
        let model = checked_model(context, self.model).await?;
        let [org, user, request] = context.request.id_parts();
        let id = ThreadId::derive(&["stack", org, user, request]);
        context.request.record(context.stores(), Target::new("thread", &id)).await?;
        let at = context.request.received_at();
        let thread = NewThread {
            subject: Some(Subject::Stack(stack.id)),
            title: stack.name,
            model,
            ..NewThread::new(id.clone(), context.principal(), STACK_PROFILE, Vec::new(), at)
        };
        context.stores().threads.create(thread).await?;
        Ok(id)
    }
}

/// Creates a job that fills the rows with missing cells. Errors: `NO_EXTRACTION` if no cell is missing; `JOB_OPEN` if an open job
/// fills the stack.
#[derive(Debug, Clone, Serialize)]
pub struct FillStack {
    pub stack_id: StackId,
    /// None: the model of the stack, or the default model.
    pub model: Option<String>,
    /// Credits that the model calls of the job may cost. None: no budget.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub credit_budget: Option<u64>,
}

impl Operation for FillStack {
    const DECLARATION: Declaration = SERVICE.change("FillStack").long().quota(Quota::ModelCalls).recorded();
    type Output = JobView;

    outcome_as_job_id!(JobView::find);

    async fn audit(&self, _context: &Context) -> Result<AuditRecord<JobView>> {
        Ok(AuditRecord::of_input(self)?.target_of(JobView::audit_target))
    }

    async fn run(self, context: &Context) -> Result<JobView> {
        let credit_budget = check_credit_budget(self.credit_budget)?;
        let (stores, org) = (context.stores(), &context.principal().org);
        let stack: Stack = context.find(&self.stack_id).await?;
        if stack.columns.is_empty() {
            let message = "the table has no columns; define the columns first";
            return Err(Error::precondition(Reason::NoExtraction, message));
        }
        let models = context.catalogue().await?;
        extraction::agent_model(&models, self.model.as_deref(), &[stack.model.as_deref()])?;
        let id = JobId::derive(&context.request.id_parts());
        let input = StackFillInput { stack: stack.id.clone(), model: self.model, credit_budget, cause: None };
        // An attempt that died before its outcome was recorded may have created the job, which has filled cells since.
        if let Some(created) = stores.jobs.header(org, &id).await? {
            return match created.kind == STACK_FILL_KIND && created.input == json!(input) {
                true => JobView::read(context, created).await,
                false => Err(Error::request_id_conflict()),
            };
        }
        check_not_filling(context, &stack.id, &id).await?;
        let documents = stack::unfilled(stores, org, &stack).await?;
        if documents.is_empty() {
            return Err(Error::precondition(Reason::NoExtraction, "no cell of the table is missing"));
        }
        let request = JobRequest {
            id,
            principal: context.principal().clone(),
            kind: STACK_FILL_KIND.to_owned(),
            input: json!(input),
            items: documents.iter().map(ToString::to_string).collect(),
        };
        JobView::read(context, context.job_creator()?.create(request).await?).await
    }
}

/// Checks that no other open job of a request fills a stack, because each document would be read twice. Error: `JOB_OPEN`.
async fn check_not_filling(context: &Context, stack: &StackId, own: &JobId) -> Result<()> {
    let filter = JobFilter { is_open: Some(true), kind: Some(STACK_FILL_KIND.to_owned()), ..JobFilter::default() };
    let mut request = PageRequest { size: READ_JOBS, ..PageRequest::default() };
    loop {
        let page = context.jobs().list(&context.principal().org, &filter, &request).await?;
        for job in &page.items {
            let input: StackFillInput = job.read_input()?;
            if input.stack == *stack && input.cause.is_none() && job.id != *own {
                let message = format!("the job {} fills the stack; wait for its end or cancel it", job.id);
                return Err(Error::precondition(Reason::JobOpen, message).detail("id", &job.id));
            }
        }
        let Some(next) = page.next else { return Ok(()) };
        request.token = Some(next);
    }
}

#[cfg(test)]
mod tests {
    use folio_types::TagId;

    use super::*;

    #[test]
    fn a_filter_has_a_name_and_a_tag() {
        let tag = TagId::derive(&["t"]);
        let found = stack_filter(&format!("name:inv name=Invoices tag:{tag}")).unwrap();
        let expected = StackFilter {
            name_search: Some("inv".to_owned()),
            name: Some("Invoices".to_owned()),
            tag: Some(tag),
            has_auto_fill: false,
        };
        assert_eq!(found, expected);
        assert_eq!(stack_filter("").unwrap(), StackFilter::default());
        for bad in ["tag:x", "rule:a", "name:a name:b"] {
            assert_eq!(stack_filter(bad).unwrap_err().violations[0].field, "filter", "{bad}");
        }
    }

    #[test]
    fn a_budget_of_automatic_filling_is_checked() {
        let of = |credits| checked_auto_fill(Some(AutoFill { credit_budget: Some(credits) }));
        assert!(of(1).is_ok() && of(0).is_err());
        assert_eq!(checked_auto_fill(None).unwrap(), None);
    }
}

//! The routes of stacks and of their columns. No client of DocRouter calls them.

use std::collections::BTreeMap;

use folio_operations::ListRequest;
use folio_operations::stacks::{
    CreateStack, CreateStackThread, DefineStackColumns, DeleteStack, FillStack, GetStack, ListStacks, StackView,
    UpdateStack, UpdateStackColumn,
};
use folio_resources::{
    AutoFill, CellRule, Column, ColumnType, MemberRule, NewColumn, STACK_COLUMNS_MAX, STACK_ROWS_MAX, Stack,
    StackMembers, fields,
};
use folio_types::{Error, StackId, Timestamp};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::chat::ThreadCreated;
use super::endpoint::{delete, get, post, put};
use super::extract::{Client, Id, Json, Query};
use super::failure::Failure;
use super::list::{Limit, Skip, conditions, page};
use super::reply::{Message, Reply, Versioned};
use super::routes::{Level, Route, org_path, route};

const STACKS: &str = org_path!("/stacks");
const STACK: &str = org_path!("/stacks/{stack_id}");

pub(super) fn routes() -> Vec<Route> {
    vec![
        route::<CreateStack>(Level::Own, post(STACKS, create)),
        route::<ListStacks>(Level::Own, get(STACKS, list)),
        route::<GetStack>(Level::Own, get(STACK, find)),
        route::<UpdateStack>(Level::Own, put(STACK, update)),
        route::<DeleteStack>(Level::Own, delete(STACK, remove)),
        route::<DefineStackColumns>(Level::Own, put(org_path!("/stacks/{stack_id}/columns"), define)),
        route::<UpdateStackColumn>(Level::Own, post(org_path!("/stacks/{stack_id}/columns"), redefine)),
        route::<UpdateStack>(Level::Own, post(org_path!("/stacks/{stack_id}/documents"), change_documents)),
        route::<FillStack>(Level::Own, post(org_path!("/stacks/{stack_id}/fill"), fill)),
        route::<CreateStackThread>(Level::Own, post(org_path!("/stacks/{stack_id}/threads"), create_thread)),
    ]
}

/// The fields of a stack that clients set.
#[derive(Debug, Deserialize, ToSchema)]
struct StackFields {
    /// The name, unique in the organization.
    name: String,
    /// A text that describes the table. Null: no text.
    description: Option<String>,
    /// The documents of a stack without a rule. Null: none.
    document_ids: Option<Vec<String>>,
    /// Tags that a document must have. Null: no such condition.
    tag_ids: Option<Vec<String>>,
    /// Metadata that a document must have with exactly these values. Null: no such condition.
    metadata: Option<BTreeMap<String, String>>,
    /// The model of the turns that fill rows. Null: the default model.
    model: Option<String>,
    /// The minimum confidence of a value that is approved without a person. Null: values wait for no decision.
    min_confidence: Option<f64>,
    /// True if a value that is approved without a person must have a citation.
    #[serde(default)]
    requires_citation: bool,
    /// True if rows of new members are filled without a request.
    #[serde(default)]
    auto_fill: bool,
    /// Credits that each automatic job may cost. Null: no budget.
    auto_fill_budget: Option<u64>,
}

impl StackFields {
    fn members(&self) -> Result<StackMembers, Failure> {
        let documents = self.document_ids.as_deref().unwrap_or_default();
        if self.tag_ids.is_none() && self.metadata.is_none() {
            return Ok(StackMembers::Documents(fields::ids("stack.document_ids", documents, STACK_ROWS_MAX)?));
        }
        if !documents.is_empty() {
            return Err(Error::invalid_field("stack.document_ids", "must be empty if the stack has a rule").into());
        }
        Ok(StackMembers::Rule(MemberRule {
            tags: fields::tags("stack.rule.tag_ids", self.tag_ids.as_deref().unwrap_or_default())?,
            metadata: self.metadata.clone().unwrap_or_default(),
        }))
    }

    fn model(&self) -> Result<Option<String>, Failure> {
        Ok(fields::optional_word("stack.model", self.model.as_deref().unwrap_or_default())?)
    }

    fn review_rule(&self) -> Option<CellRule> {
        let requires_citation = self.requires_citation;
        self.min_confidence.map(|min_confidence| CellRule { min_confidence, requires_citation })
    }

    fn auto_fill(&self) -> Option<AutoFill> {
        self.auto_fill.then_some(AutoFill { credit_budget: self.auto_fill_budget })
    }
}

/// A column of a table.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub(super) struct ColumnFields {
    /// The name, unique in the table.
    name: String,
    /// `text`, `number`, `integer`, `boolean`, `date` or `enum`.
    r#type: String,
    /// A text that describes the value.
    #[serde(default)]
    description: String,
    /// True if each document should have a value.
    #[serde(default)]
    required: bool,
    /// The unit of the values.
    unit: Option<String>,
    /// The permitted values of the type `enum`.
    #[serde(default)]
    r#enum: Vec<String>,
}

impl ColumnFields {
    /// `field`: the name of the column in errors.
    fn new_column(self, field: &str) -> Result<NewColumn, Failure> {
        let kind = ColumnType::from_name(&self.r#type).ok_or_else(|| {
            let names = ColumnType::names().join(", ");
            Error::invalid_field(format!("{field}.type"), format!("must be one of {names}"))
        })?;
        let Self { name, description, required, unit, r#enum: values, .. } = self;
        Ok(NewColumn { name, kind, description, required, unit, values })
    }
}

impl From<&Column> for ColumnFields {
    fn from(column: &Column) -> Self {
        let NewColumn { name, kind, description, required, unit, values } = column.definition.clone();
        Self { name, r#type: kind.as_str().to_owned(), description, required, unit, r#enum: values }
    }
}

/// The columns of a table.
#[derive(Debug, Deserialize, ToSchema)]
struct ColumnList {
    /// The columns in their order.
    columns: Vec<ColumnFields>,
}

/// The new definition of a column.
#[derive(Debug, Deserialize, ToSchema)]
struct ColumnUpdate {
    /// The present name.
    column_name: String,
    /// The whole definition.
    column: ColumnFields,
}

/// A change of the documents of a stack without a rule.
#[derive(Debug, Deserialize, ToSchema)]
struct DocumentChange {
    /// Documents to add.
    #[serde(default)]
    added_document_ids: Vec<String>,
    /// Documents to remove. Their rows return if they are added again.
    #[serde(default)]
    removed_document_ids: Vec<String>,
}

/// A stack.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct StackBody {
    /// Identifies the stack.
    id: String,
    /// The name.
    name: String,
    /// A text that describes the table.
    description: String,
    /// The number of documents of a stack without a rule. Null: the stack has a rule.
    document_count: Option<usize>,
    /// True if more documents fulfill the rule than a table has rows, so that no row is created or filled. Lists and changes do not
    /// compute it.
    too_many_documents: bool,
    /// Tags that a document must have. Null: the stack has no rule.
    tag_ids: Option<Vec<String>>,
    /// Metadata that a document must have. Null: the stack has no rule.
    metadata: Option<BTreeMap<String, String>>,
    /// The columns in their order.
    columns: Vec<ColumnFields>,
    /// The model of the turns that fill rows. Null: the default model.
    model: Option<String>,
    /// The minimum confidence of a value that is approved without a person.
    min_confidence: Option<f64>,
    /// True if a value that is approved without a person must have a citation.
    requires_citation: bool,
    /// True if rows of new members are filled without a request.
    auto_fill: bool,
    /// Credits that each automatic job may cost.
    auto_fill_budget: Option<u64>,
    /// The time at which an agent stated that the table is complete.
    #[schema(value_type = Option<String>, format = DateTime)]
    completed_at: Option<Timestamp>,
    /// The time of creation.
    #[schema(value_type = String, format = DateTime)]
    created_at: Timestamp,
    /// The user that created the stack.
    created_by: String,
    /// The time of the last change.
    #[schema(value_type = String, format = DateTime)]
    updated_at: Timestamp,
}

impl From<&Stack> for StackBody {
    fn from(stack: &Stack) -> Self {
        let (documents, rule) = match &stack.members {
            StackMembers::Documents(documents) => (Some(documents.len()), None),
            StackMembers::Rule(rule) => (None, Some(rule)),
        };
        Self {
            id: stack.id.to_string(),
            name: stack.name.clone(),
            description: stack.description.clone(),
            document_count: documents,
            too_many_documents: false,
            tag_ids: rule.map(|rule| rule.tags.iter().map(ToString::to_string).collect()),
            metadata: rule.map(|rule| rule.metadata.clone()),
            columns: stack.columns.iter().map(Into::into).collect(),
            model: stack.model.clone(),
            min_confidence: stack.review_rule.as_ref().map(|rule| rule.min_confidence),
            requires_citation: stack.review_rule.as_ref().is_some_and(|rule| rule.requires_citation),
            auto_fill: stack.auto_fill.is_some(),
            auto_fill_budget: stack.auto_fill.as_ref().and_then(|auto_fill| auto_fill.credit_budget),
            completed_at: stack.completion.as_ref().map(|completion| completion.at),
            created_at: stack.created_at,
            created_by: stack.created_by.to_string(),
            updated_at: stack.updated_at,
        }
    }
}

/// The query parameters of a list.
#[derive(Debug, Deserialize, ToSchema)]
struct StackQuery {
    /// Number of stacks before the page.
    #[serde(default)]
    #[schema(value_type = u32)]
    skip: Skip,
    /// Maximum number of stacks of the page, at most 100.
    #[serde(default)]
    #[schema(value_type = u32, minimum = 1, maximum = 100, default = 10)]
    limit: Limit,
    /// Part of the name.
    name: Option<String>,
}

/// A page of stacks.
#[derive(Debug, Serialize, ToSchema)]
struct StackList {
    /// The stacks of the page, newest first.
    stacks: Vec<StackBody>,
    /// Number of stacks that match, exact up to 1,024.
    total_count: u64,
    /// Number of stacks before the page.
    skip: u32,
}

/// The options of a filling.
#[derive(Debug, Default, Deserialize, ToSchema)]
struct FillOptions {
    /// The model. Null: the model of the stack, or the default model.
    model: Option<String>,
    /// Credits that the model calls may cost. Null: no budget.
    credit_budget: Option<u64>,
}

/// A started job.
#[derive(Debug, Serialize, ToSchema)]
struct StartedJob {
    /// Identifies the job.
    job_id: String,
    /// Number of documents whose rows are filled.
    documents: usize,
}

/// The options of a thread.
#[derive(Debug, Deserialize, ToSchema)]
struct ThreadOptions {
    /// The model. Null: the default model.
    model: Option<String>,
}

async fn create(client: Client, Json(fields): Json<StackFields>) -> Reply<Versioned<StackBody>> {
    let operation = CreateStack {
        members: fields.members()?,
        model: fields.model()?,
        review_rule: fields.review_rule(),
        auto_fill: fields.auto_fill(),
        name: fields.name,
        description: fields.description.unwrap_or_default(),
    };
    Ok(Versioned::of(&client.run(operation).await?))
}

async fn list(client: Client, Query(query): Query<StackQuery>) -> Reply<Json<StackList>> {
    let request = ListRequest { filter: conditions(&[("name:", query.name.as_deref())]), ..ListRequest::default() };
    let page = page(query.skip, query.limit, request, |list| client.run(ListStacks { list })).await?;
    let stacks = page.rows.iter().map(Into::into).collect();
    Ok(Json(StackList { stacks, total_count: page.total_count, skip: page.skip }))
}

async fn find(client: Client, Id(stack_id): Id<StackId>) -> Reply<Versioned<StackBody>> {
    let StackView { stack, has_too_many_documents } = client.run(GetStack { stack_id }).await?;
    let mut found: Versioned<StackBody> = Versioned::of(&stack);
    found.body.too_many_documents = has_too_many_documents;
    Ok(found)
}

async fn update(
    client: Client,
    Id(stack_id): Id<StackId>,
    Json(fields): Json<StackFields>,
) -> Reply<Versioned<StackBody>> {
    let has_members = fields.document_ids.is_some() || fields.tag_ids.is_some() || fields.metadata.is_some();
    let operation = UpdateStack {
        stack_id,
        // A stack keeps its documents if the request names none.
        members: has_members.then(|| fields.members()).transpose()?,
        add_document_ids: Vec::new(),
        remove_document_ids: Vec::new(),
        model: Some(fields.model()?),
        review_rule: Some(fields.review_rule()),
        auto_fill: Some(fields.auto_fill()),
        name: Some(fields.name),
        description: Some(fields.description.unwrap_or_default()),
        etag: client.etag,
    };
    Ok(Versioned::of(&client.run(operation).await?))
}

async fn remove(client: Client, Id(stack_id): Id<StackId>) -> Reply<Json<Message>> {
    client.run(DeleteStack { stack_id, etag: client.etag }).await?;
    Ok(Message::new("Stack deleted successfully"))
}

async fn define(
    client: Client,
    Id(stack_id): Id<StackId>,
    Json(list): Json<ColumnList>,
) -> Reply<Versioned<StackBody>> {
    if list.columns.len() > STACK_COLUMNS_MAX {
        return Err(Error::invalid_field("columns", format!("has more than {STACK_COLUMNS_MAX} elements")).into());
    }
    let columns = list.columns.into_iter().enumerate();
    let columns = columns.map(|(index, column)| column.new_column(&format!("columns[{index}]")));
    let operation = DefineStackColumns { stack_id, columns: columns.collect::<Result<_, _>>()?, etag: client.etag };
    Ok(Versioned::of(&client.run(operation).await?))
}

async fn redefine(
    client: Client,
    Id(stack_id): Id<StackId>,
    Json(ColumnUpdate { column_name, column }): Json<ColumnUpdate>,
) -> Reply<Versioned<StackBody>> {
    let column = column.new_column("column")?;
    let operation = UpdateStackColumn { stack_id, column_name, column, etag: client.etag };
    Ok(Versioned::of(&client.run(operation).await?))
}

async fn change_documents(
    client: Client,
    Id(stack_id): Id<StackId>,
    Json(DocumentChange { added_document_ids, removed_document_ids }): Json<DocumentChange>,
) -> Reply<Versioned<StackBody>> {
    if added_document_ids.is_empty() && removed_document_ids.is_empty() {
        return Err(Error::invalid_field("added_document_ids", "must not be empty if no document is removed").into());
    }
    let operation = UpdateStack {
        stack_id,
        name: None,
        description: None,
        members: None,
        add_document_ids: fields::ids("added_document_ids", &added_document_ids, STACK_ROWS_MAX)?,
        remove_document_ids: fields::ids("removed_document_ids", &removed_document_ids, STACK_ROWS_MAX)?,
        model: None,
        review_rule: None,
        auto_fill: None,
        etag: client.etag,
    };
    Ok(Versioned::of(&client.run(operation).await?))
}

async fn fill(client: Client, Id(stack_id): Id<StackId>, Json(options): Json<FillOptions>) -> Reply<Json<StartedJob>> {
    let model = fields::optional_word("model", options.model.as_deref().unwrap_or_default())?;
    let job = client.run(FillStack { stack_id, model, credit_budget: options.credit_budget }).await?;
    let documents = job.header.progress().items;
    Ok(Json(StartedJob { job_id: job.header.id.to_string(), documents }))
}

async fn create_thread(
    client: Client,
    Id(stack_id): Id<StackId>,
    Json(options): Json<ThreadOptions>,
) -> Reply<Json<ThreadCreated>> {
    let model = fields::optional_word("model", options.model.as_deref().unwrap_or_default())?;
    Ok(ThreadCreated::new(&client.run(CreateStackThread { stack_id, model }).await?))
}

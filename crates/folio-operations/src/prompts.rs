//! Operations on prompts.

use folio_llm::schema::Violation;
use folio_resources::fields;
use folio_resources::{
    NewPrompt, Prompt, PromptChange, PromptFilter, PromptRevision, PromptUpdate, Schema, Tag, check_prompt_content,
};
use folio_tools::rules;
use folio_types::access::Scope;
use folio_types::{Code, Error, Etag, FieldViolation, PromptId, Result, SchemaRevId, TagId, Temperature};
use futures::future::OptionFuture;
use serde::Serialize;
use serde_json::Value;

use crate::context::Context;
use crate::declaration::{Declaration, Quota, service};
use crate::filter;
use crate::grid::{Column, Grid, GridRows};
use crate::list::{LARGE_PAGE_MAX, ListPage, ListRequest};
use crate::operation::{Operation, delete_operation, revision_operations};
use crate::proposals::{Listed, mark_prompts};
use crate::reference::{PromptRef, SchemaRef};
use crate::schemas::UpdateResult;
use crate::tag_runs::{self, TagRunPlan};

service! {
    "PromptService", Some(Scope::Definitions) =>
    CreatePrompt, GetPromptRevision, ListPrompts, ListPromptRevisions, UpdatePrompt, DeletePrompt, ValidatePrompt,
    ValidatePromptData
}

/// The fields of a prompt that a client sets, unchecked: [`ValidatePrompt`] reports every invalid one.
#[derive(Debug, Clone, Serialize)]
pub struct PromptFields {
    pub name: String,
    pub content: String,
    /// Id of a schema revision, or of a schema for its newest revision. Empty: no schema.
    pub schema_revid: String,
    /// Empty: the default model of the request.
    pub model: String,
    /// Sampling temperature from 0 to 2. None: 0.
    pub temperature: Option<f64>,
    /// True if the extraction agent runs the prompt.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub is_run_by_agent: bool,
    /// At most 50 tags. Repeated ids are stored once.
    pub tag_ids: Vec<String>,
}

const NAME: &str = "prompt.name";
const CONTENT: &str = "prompt.content";
const SCHEMA: &str = "prompt.schema_revid";
const MODEL: &str = "prompt.model";
const TEMPERATURE: &str = "prompt.temperature";
const TAGS: &str = "prompt.tag_ids";

impl PromptFields {
    /// Checks the fields and resolves the references.
    async fn checked(self, context: &Context) -> Result<NewPrompt> {
        folio_resources::fields::check_name(NAME, &self.name)?;
        check_prompt_content(CONTENT, &self.content)?;
        Ok(NewPrompt {
            tags: tags(context, &self.tag_ids).await?,
            schema: schema(context, &self.schema_revid).await?,
            model: model(context, &self.model).await?,
            temperature: temperature(self.temperature)?,
            is_run_by_agent: self.is_run_by_agent,
            name: self.name,
            content: self.content,
        })
    }
}

/// Creates a prompt, or a revision of the prompt with this name (case-insensitive).
#[derive(Debug, Clone, Serialize)]
pub struct CreatePrompt {
    pub prompt: PromptFields,
}

/// A prompt after a change.
#[derive(Debug, Clone, PartialEq)]
pub struct ChangedPrompt {
    pub prompt: Prompt,
    /// False if an update changed nothing or only the name.
    pub revised: bool,
    /// None: the change created no revision, or no document has a tag of the prompt.
    pub tag_runs: Option<TagRunPlan>,
}

impl Operation for CreatePrompt {
    const DECLARATION: Declaration = SERVICE.change("CreatePrompt").quota(Quota::ModelCalls);
    type Output = ChangedPrompt;

    async fn run(self, context: &Context) -> Result<ChangedPrompt> {
        let (request, stores) = (&context.request, context.stores());
        let write = async {
            let new = self.prompt.checked(context).await?;
            let name = new.name.clone();
            // If the name exists, the new revision replaces every field of the prompt.
            let revise = PromptUpdate {
                name: None,
                content: Some(new.content.clone()),
                schema: Some(new.schema.clone()),
                model: Some(new.model.clone()),
                temperature: Some(new.temperature),
                is_run_by_agent: Some(new.is_run_by_agent),
                tags: Some(new.tags.clone()),
            };
            let (create, revise) = (PromptChange::Create(new), PromptChange::Update(revise));
            request.create_or_revise::<Prompt>(stores, &name, create, revise).await
        };
        let id = request.once::<Prompt>(stores, write).await?;
        let prompt: Prompt = context.find(&id).await?;
        let tag_runs = tag_runs::plan(context, &prompt).await?;
        Ok(ChangedPrompt { prompt, revised: true, tag_runs })
    }
}

revision_operations! {
    GetPromptRevision { prompt_revid: PromptRef } -> PromptRevision,
    /// Lists the revisions of a prompt. Filter: none.
    ListPromptRevisions { prompt_id: PromptId } of Prompt
}

/// The columns of the grid of [`ListPrompts`].
pub const COLUMNS: &[Column] = <Prompt as GridRows>::COLUMNS;

/// Lists prompts. Filter: `name:` a part of the name, `name=` the name, `tag:` and `any_tag:` tag ids, `document:` a document
/// id, `schema:` a schema id.
#[derive(Debug, Clone, Serialize)]
pub struct ListPrompts {
    pub list: ListRequest,
}

impl Operation for ListPrompts {
    const DECLARATION: Declaration = SERVICE.read("ListPrompts");
    type Output = ListPage<Listed<Prompt>>;

    async fn run(self, context: &Context) -> Result<Self::Output> {
        let mut filter = prompt_filter(&self.list.filter)?;
        filter.name_search = Grid::name_search(filter.name_search, self.list.grid.as_ref());
        let page = context.list_with_grid::<Prompt>(&self.list, &filter, LARGE_PAGE_MAX).await?;
        mark_prompts(context, page).await
    }
}

fn prompt_filter(text: &str) -> Result<PromptFilter> {
    let mut filter = PromptFilter::default();
    for condition in filter::parse(text)? {
        match condition.field.as_str() {
            "name" => filter::set_text(&mut filter.name_search, &mut filter.name, &condition)?,
            "document" => filter::set_once(&mut filter.document, &condition, condition.id()?)?,
            "schema" => filter::set_once(&mut filter.schema, &condition, condition.id()?)?,
            "tag" => filter.all_tags.push(condition.id()?),
            "any_tag" => filter.any_tag.push(condition.id()?),
            _ => return Err(filter::unknown_field(&condition, "name, tag, any_tag, document and schema")),
        }
    }
    filter::check_tags(filter.all_tags.len().max(filter.any_tag.len()))?;
    Ok(filter)
}

/// Changes a prompt. A field that is None keeps its value. A changed field other than the name creates a revision.
#[derive(Debug, Clone, Serialize)]
pub struct UpdatePrompt {
    pub prompt_id: PromptId,
    pub name: Option<String>,
    pub content: Option<String>,
    /// Id of a schema revision, or of a schema for its newest revision. Empty: removes the schema.
    pub schema_revid: Option<String>,
    /// Empty: the default model of the request.
    pub model: Option<String>,
    /// Inner None: 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub temperature: Option<Option<f64>>,
    /// True if the extraction agent runs the prompt.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub is_run_by_agent: Option<bool>,
    /// The new tags replace all stored ones.
    pub tag_ids: Option<Vec<String>>,
    /// The version that the change is based on. None: any version.
    pub etag: Option<Etag>,
}

impl Operation for UpdatePrompt {
    const DECLARATION: Declaration = SERVICE.change("UpdatePrompt").quota(Quota::ModelCalls);
    type Output = ChangedPrompt;

    async fn run(self, context: &Context) -> Result<ChangedPrompt> {
        if let Some(name) = &self.name {
            folio_resources::fields::check_name(NAME, name)?;
        }
        if let Some(content) = &self.content {
            check_prompt_content(CONTENT, content)?;
        }
        let update = PromptUpdate {
            temperature: self.temperature.map(temperature).transpose()?,
            is_run_by_agent: self.is_run_by_agent,
            schema: resolve(self.schema_revid.as_deref().map(|text| schema(context, text))).await?,
            model: resolve(self.model.as_deref().map(|name| model(context, name))).await?,
            tags: resolve(self.tag_ids.as_deref().map(|ids| tags(context, ids))).await?,
            name: self.name,
            content: self.content,
        };
        let updated = context.revise::<Prompt>(&self.prompt_id, self.etag, PromptChange::Update(update)).await?;
        let UpdateResult { resource: prompt, revised } = updated;
        let tag_runs = if revised { tag_runs::plan(context, &prompt).await? } else { None };
        Ok(ChangedPrompt { prompt, revised, tag_runs })
    }
}

delete_operation! {
    /// Deletes a prompt with all its revisions. Its extractions are kept.
    DeletePrompt { prompt_id: PromptId } of Prompt
}

/// Checks every field of a prompt without storing the prompt. An unavailable store is an error of the operation.
#[derive(Debug, Clone, Serialize)]
pub struct ValidatePrompt {
    pub prompt: PromptFields,
}

impl Operation for ValidatePrompt {
    const DECLARATION: Declaration = SERVICE.read("ValidatePrompt");
    type Output = Vec<FieldViolation>;

    async fn run(self, context: &Context) -> Result<Vec<FieldViolation>> {
        let prompt = &self.prompt;
        let checks = [
            (NAME, folio_resources::fields::check_name(NAME, &prompt.name)),
            (CONTENT, check_prompt_content(CONTENT, &prompt.content)),
            (TAGS, tags(context, &prompt.tag_ids).await.map(drop)),
            (SCHEMA, schema(context, &prompt.schema_revid).await.map(drop)),
            (MODEL, model(context, &prompt.model).await.map(drop)),
            (TEMPERATURE, temperature(prompt.temperature).map(drop)),
        ];
        let mut violations = Vec::new();
        for (field, checked) in checks {
            match checked {
                Ok(()) => {}
                Err(error)
                    if matches!(error.code, Code::InvalidArgument | Code::NotFound | Code::FailedPrecondition) =>
                {
                    violations.push(FieldViolation { field: field.to_owned(), description: error.message });
                }
                Err(error) => return Err(error),
            }
        }
        Ok(violations)
    }
}

/// Checks data against the schema of a prompt revision. A prompt without a schema accepts any JSON object.
#[derive(Debug, Clone, Serialize)]
pub struct ValidatePromptData {
    pub prompt_revid: PromptRef,
    pub data: Value,
}

impl Operation for ValidatePromptData {
    const DECLARATION: Declaration = SERVICE.read("ValidatePromptData");
    type Output = Vec<Violation>;

    async fn run(self, context: &Context) -> Result<Vec<Violation>> {
        let prompt = context.revision::<Prompt>(&self.prompt_revid).await?;
        match prompt.schema {
            Some(revid) => {
                let schema = context.revision::<Schema>(&SchemaRef::Revision(revid)).await?;
                rules::violations_of("prompt_revid", &schema, &self.data).await
            }
            None if self.data.is_object() => Ok(Vec::new()),
            None => Ok(vec![Violation { path: "#".to_owned(), message: "must be a JSON object".to_owned() }]),
        }
    }
}

fn temperature(number: Option<f64>) -> Result<Option<Temperature>> {
    number.map(|number| Temperature::new(TEMPERATURE, number)).transpose()
}

/// Resolves a field that may be absent.
async fn resolve<T>(field: Option<impl Future<Output = Result<T>>>) -> Result<Option<T>> {
    OptionFuture::from(field).await.transpose()
}

/// Resolves a reference to a schema revision. None: the text is empty.
async fn schema(context: &Context, text: &str) -> Result<Option<SchemaRevId>> {
    match fields::optional_id::<SchemaRef>(SCHEMA, text)? {
        Some(reference) => context.revision::<Schema>(&reference).await.map(|schema| Some(schema.revid)),
        None => Ok(None),
    }
}

/// Error: `NOT_FOUND` if a tag does not exist.
async fn tags(context: &Context, ids: &[String]) -> Result<Vec<TagId>> {
    let tags = fields::tags(TAGS, ids)?;
    let found = context.stores().of::<Tag>().get_many(&context.principal().org, &tags).await?;
    match tags.iter().find(|tag| !found.iter().any(|existing| existing.id == **tag)) {
        Some(missing) => Err(Error::not_found("tag", missing)),
        None => Ok(tags),
    }
}

/// Checks that prompts may use the model. None: the name is empty.
async fn model(context: &Context, name: &str) -> Result<Option<String>> {
    let Some(name) = fields::optional_word(MODEL, name)? else { return Ok(None) };
    let catalogue = context.catalogue().await?;
    catalogue.for_prompts(Some(&name))?;
    Ok(Some(name))
}

//! Tools of documents.

use std::collections::BTreeMap;

use async_trait::async_trait;
use folio_storage::{DocumentChange, DocumentFilter};
use folio_types::document::{Document, DocumentPatch, TextState};
use folio_types::journal::WorkingChange;
use folio_types::op::{Expected, OpResult, Target};
use folio_types::{DocumentId, limits};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::arguments::{
    self, DOCUMENT_HINT, Paging, SEARCH, list_of_text, map_of_text, number, object, optional, paging, text,
};
use crate::decide::{done, misplanned, write};
use crate::document_text::{self, Cut};
use crate::rules;
use crate::tool::{CallContext, Plan, ReadTool, Tool, ToolError, ToolOutput, ToolResources, WriteTool};

const WHICH: &str = "The document, such as doc_…. Left out: the document of the conversation.";
/// Bytes of text that one call of `get_ocr_text` gives, so that its JSON stays below a result's bound.
const TEXT_BYTES: usize = limits::TOOL_RESULT_BYTES / 4 * 3;

/// The tools of this group.
pub(crate) fn tools() -> Vec<Tool> {
    let filters = [
        optional("name_search", text(SEARCH)),
        optional("tag_ids", list_of_text("Only those that have all of these tags.", limits::TAGS_MAX)),
        optional(
            "metadata_search",
            map_of_text("Only those whose metadata hold these values; a value may be a piece of the stored one."),
        ),
    ];
    vec![
        Tool::read(
            "get_ocr_text",
            "Gives the text of the conversation's document: one page, or all of it as far as it fits.",
            object(vec![optional("page_num", number("The page, from 1. Left out: all pages.", 1, 1_000_000))]),
            GetText,
        ),
        Tool::read(
            "list_documents",
            "Lists the organization's documents, newest first, with their tags and metadata.",
            object(paging().into_iter().chain(filters).collect()),
            ListDocuments,
        ),
        Tool::write(
            "update_document",
            "Changes a document's name, tags or metadata; what is left out stays. Tags and metadata are given whole: \
             what is not listed is taken away.",
            object(vec![
                optional("document_id", text(WHICH)),
                optional("document_name", text("Its new name.")),
                optional("tag_ids", list_of_text("All its tags from now on, by tag_id.", limits::TAGS_MAX)),
                optional("metadata", map_of_text("All its metadata from now on.")),
            ]),
            UpdateDocument,
        ),
        Tool::write(
            "delete_document",
            "Deletes a document with its text and its extractions. It cannot be undone.",
            object(vec![optional("document_id", text(WHICH))]),
            DeleteDocument,
        ),
    ]
}

/// The live document that the model named.
pub(crate) async fn find(
    resources: &ToolResources,
    context: &CallContext,
    id: &DocumentId,
) -> Result<Document, ToolError> {
    let found = resources.stores.documents.get(&context.principal.org, id).await?;
    found.ok_or_else(|| {
        let own = if context.documents.contains(id) { " any more; it was deleted" } else { "" };
        ToolError::Told(format!("There is no document {id}{own}. list_documents shows what there is."))
    })
}

/// The document of the conversation.
pub(crate) async fn own(resources: &ToolResources, context: &CallContext) -> Result<Document, ToolError> {
    find(resources, context, own_id(context)?).await
}

fn own_id(context: &CallContext) -> Result<&DocumentId, ToolError> {
    context.documents.first().ok_or_else(|| {
        ToolError::Told("This conversation has no document of its own; name one where the tool takes one.".to_owned())
    })
}

fn named_id(context: &CallContext, named: Option<&str>) -> Result<DocumentId, ToolError> {
    match named.filter(|id| !id.is_empty()) {
        Some(id) => arguments::id("document_id", id, DOCUMENT_HINT),
        None => own_id(context).cloned(),
    }
}

struct GetText;

#[derive(Deserialize)]
struct PageNumber {
    #[serde(default, deserialize_with = "arguments::whole")]
    page_num: Option<u32>,
}

#[async_trait]
impl ReadTool for GetText {
    async fn run(
        &self,
        resources: &ToolResources,
        context: &CallContext,
        arguments: Value,
    ) -> Result<ToolOutput, ToolError> {
        let PageNumber { page_num } = arguments::read(&arguments)?;
        let document = own(resources, context).await?;
        document_text::check_ready(&document)?;
        let (from, count) = match page_num {
            Some(page) if page > document.pages => {
                let text = format!("There is no page {page}: the document has {} pages.", document.pages);
                return Err(ToolError::Told(text));
            }
            Some(page) => (page, 1),
            None => (1, document.pages),
        };
        let org = &context.principal.org;
        let read = document_text::read(&resources.stores, org, &document.id, from, count, TEXT_BYTES).await?;
        let mut shown = json!({
            "document_id": document.id,
            "pages": document.pages,
            "page_num": page_num,
            "text": read.text,
        });
        if let (Some(Cut { page }), Some(members)) = (read.cut, shown.as_object_mut()) {
            let note = match page_num {
                Some(_) => "This page is longer than a result may be; its end is left out.".to_owned(),
                None => format!("Cut within page {page}. Ask with page_num for the pages from {page} on."),
            };
            members.insert("truncated".to_owned(), note.into());
        }
        Ok(ToolOutput::new(shown))
    }
}

struct ListDocuments;

#[derive(Deserialize)]
struct List {
    #[serde(flatten)]
    paging: Paging,
    name_search: Option<String>,
    tag_ids: Option<Vec<String>>,
    metadata_search: Option<BTreeMap<String, String>>,
}

#[async_trait]
impl ReadTool for ListDocuments {
    async fn run(
        &self,
        resources: &ToolResources,
        context: &CallContext,
        arguments: Value,
    ) -> Result<ToolOutput, ToolError> {
        let List { paging, name_search, tag_ids, metadata_search } = arguments::read(&arguments)?;
        let metadata = metadata_search.unwrap_or_default();
        rules::check_metadata("metadata_search", &metadata)?;
        let filter = DocumentFilter {
            name_search: arguments::search(name_search)?,
            all_tags: arguments::tag_ids(&tag_ids.unwrap_or_default())?,
            metadata,
        };
        let page = resources.stores.documents.list(&context.principal.org, &filter, &paging.request()).await?;
        Ok(ToolOutput::new(paging.list("documents", page, show)))
    }
}

fn show(document: Document) -> Value {
    let (state, reason) = match document.state {
        TextState::Uploaded => ("uploaded", None),
        TextState::Processing => ("processing", None),
        TextState::Ready => ("ready", None),
        TextState::NoText(reason) => ("no_text", Some(reason)),
        TextState::Failed(reason) => ("failed", Some(reason)),
    };
    json!({
        "document_id": document.id,
        "document_name": document.name,
        "media_type": document.media_type,
        "pages": document.pages,
        "text": state,
        "reason": reason,
        "tag_ids": document.tags,
        "metadata": document.metadata,
    })
}

struct UpdateDocument;

#[derive(Deserialize)]
struct Update {
    document_id: Option<String>,
    document_name: Option<String>,
    tag_ids: Option<Vec<String>>,
    metadata: Option<BTreeMap<String, String>>,
}

impl Update {
    fn checked(arguments: &Value) -> Result<(Option<String>, DocumentPatch), ToolError> {
        let read: Self = arguments::read(arguments)?;
        let tags = read.tag_ids.map(|ids| arguments::tag_ids(&ids)).transpose()?;
        let patch = DocumentPatch { name: read.document_name, tags, metadata: read.metadata };
        if patch == DocumentPatch::default() {
            let text = "Nothing to change: give document_name, tag_ids or metadata.";
            return Err(ToolError::Told(text.to_owned()));
        }
        if let Some(name) = &patch.name {
            rules::check_name("document_name", name)?;
        }
        Ok((read.document_id, rules::check_document_patch("", patch)?))
    }
}

#[async_trait]
impl WriteTool for UpdateDocument {
    async fn plan(
        &self,
        resources: &ToolResources,
        context: &CallContext,
        arguments: &Value,
    ) -> Result<Plan, ToolError> {
        let (named, _) = Update::checked(arguments)?;
        plan_existing(resources, context, named.as_deref()).await
    }

    async fn run(
        &self,
        resources: &ToolResources,
        context: &CallContext,
        arguments: &Value,
        plan: &Plan,
    ) -> Result<ToolOutput, ToolError> {
        let (_, patch) = Update::checked(arguments)?;
        decide(resources, context, arguments, plan, DocumentChange::Update(patch)).await
    }

    fn output(&self, target: &Target, result: OpResult) -> ToolOutput {
        output(target, result)
    }
}

struct DeleteDocument;

#[derive(Deserialize)]
struct Which {
    document_id: Option<String>,
}

#[async_trait]
impl WriteTool for DeleteDocument {
    async fn plan(
        &self,
        resources: &ToolResources,
        context: &CallContext,
        arguments: &Value,
    ) -> Result<Plan, ToolError> {
        let Which { document_id } = arguments::read(arguments)?;
        plan_existing(resources, context, document_id.as_deref()).await
    }

    async fn run(
        &self,
        resources: &ToolResources,
        context: &CallContext,
        arguments: &Value,
        plan: &Plan,
    ) -> Result<ToolOutput, ToolError> {
        decide(resources, context, arguments, plan, DocumentChange::Delete).await
    }

    fn output(&self, target: &Target, result: OpResult) -> ToolOutput {
        output(target, result)
    }
}

async fn plan_existing(
    resources: &ToolResources,
    context: &CallContext,
    named: Option<&str>,
) -> Result<Plan, ToolError> {
    let id = named_id(context, named)?;
    let there = find(resources, context, &id).await?;
    Ok(Plan { target: Target::Document(id), expected: Expected::Version(there.version), resolved: Value::Null })
}

async fn decide(
    resources: &ToolResources,
    context: &CallContext,
    arguments: &Value,
    plan: &Plan,
    change: DocumentChange,
) -> Result<ToolOutput, ToolError> {
    let Target::Document(id) = &plan.target else { return Err(misplanned()) };
    let write = write(resources, context, arguments, plan, change);
    let result = done(resources.stores.documents.decide(id, write).await?)?;
    Ok(output(&plan.target, result))
}

fn output(target: &Target, result: OpResult) -> ToolOutput {
    let mut change = WorkingChange::default();
    let content = match (result, target) {
        (OpResult::Document { id, name }, _) => json!({ "document_id": id, "document_name": name }),
        (OpResult::Deleted, Target::Document(id)) => {
            change.deleted_document = Some(id.clone());
            json!({ "deleted": id })
        }
        (other, _) => json!(other),
    };
    ToolOutput { content, change }
}

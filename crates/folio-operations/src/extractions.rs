//! Operations on extractions.

use folio_resources::fields;
use folio_resources::{Document, Extraction, ExtractionChange, ExtractionFilter, Prompt, Resource as _};
use folio_tools::extraction;
use folio_types::access::Scope;
use folio_types::{DocumentId, Etag, ExtractionId, Result};
use serde::Serialize;
use serde_json::Value;

use crate::context::Context;
use crate::declaration::{Declaration, Quota, service};
use crate::filter;
use crate::list::{LARGE_PAGE_MAX, ListPage, ListRequest, SortKeys};
use crate::operation::{Operation, delete_operation, get_operation};
use crate::reference::PromptRef;

service! {
    "ExtractionService", Some(Scope::Extractions) =>
    RunExtraction, GetExtraction, UpdateExtractionField, ReplaceExtraction, VerifyExtraction, DeleteExtraction,
    ListExtractions
}

/// Runs a prompt on a document and stores the data. A repeated request returns the stored extraction without a model
/// call. A request that is repeated while the first one runs waits for its result.
#[derive(Debug, Clone, Serialize)]
pub struct RunExtraction {
    /// The document, whose text must be ready.
    pub document_id: DocumentId,
    pub prompt_revid: PromptRef,
    /// None: the prompt's model, or the default model if the prompt names none.
    pub model: Option<String>,
}

impl Operation for RunExtraction {
    const DECLARATION: Declaration = SERVICE.change("RunExtraction").long().quota(Quota::ModelCalls);
    type Output = Extraction;

    async fn run(self, context: &Context) -> Result<Extraction> {
        let (request, stores, principal) = (&context.request, context.stores(), context.principal());
        let id = ExtractionId::derive(&request.id_parts());
        let _guard = context.running_extractions().acquire(&id).await;
        if request.recorded_result(stores, &Extraction::target(&id)).await?.is_none() {
            let prompt = context.revision::<Prompt>(&self.prompt_revid).await?.revid;
            let unique = context.environment().uuid();
            let run = extraction::Request {
                principal: principal.clone(),
                document: self.document_id,
                prompt,
                model: self.model,
                fallback_model: None,
                key: format!("request:{}:{}:{}", principal.user, request.id(), unique.simple()),
            };
            let extracted = extraction::run(&context.tool_resources()?, run).await?;
            request.create::<Extraction>(stores, ExtractionChange::Create(extracted.into_new())).await?;
        }
        context.find(&id).await
    }
}

get_operation! {
    GetExtraction { extraction_id: ExtractionId } -> Extraction
}

/// Changes one value of the data, and resets the verification.
#[derive(Debug, Clone, Serialize)]
pub struct UpdateExtractionField {
    pub extraction_id: ExtractionId,
    /// The position, such as `a.b[0].c`.
    pub path: String,
    pub value: Value,
    /// The version that the change is based on. None: any version.
    pub etag: Option<Etag>,
}

impl Operation for UpdateExtractionField {
    const DECLARATION: Declaration = SERVICE.change("UpdateExtractionField");
    type Output = Extraction;

    async fn run(self, context: &Context) -> Result<Extraction> {
        let path = fields::text("path", &self.path, folio_tools::path::PATH_BYTES)?;
        let (stores, path, value) = (context.stores(), &path, &self.value);
        let edit = |found: Extraction| async move {
            let data = extraction::apply_edit(stores, &found, path, value.clone()).await?;
            Ok(ExtractionChange::Edit { data })
        };
        context.request.update(stores, &self.extraction_id, self.etag, edit).await?;
        context.find(&self.extraction_id).await
    }
}

/// Replaces the data, which must match the extraction's schema, and resets the verification.
#[derive(Debug, Clone, Serialize)]
pub struct ReplaceExtraction {
    pub extraction_id: ExtractionId,
    pub data: Value,
    /// The version that the change is based on. None: any version.
    pub etag: Option<Etag>,
}

impl Operation for ReplaceExtraction {
    const DECLARATION: Declaration = SERVICE.change("ReplaceExtraction");
    type Output = Extraction;

    async fn run(self, context: &Context) -> Result<Extraction> {
        let (stores, data) = (context.stores(), &self.data);
        let replace = |found: Extraction| async move {
            extraction::check_replacement(stores, &found, "data_json", data).await?;
            Ok(ExtractionChange::Edit { data: data.clone() })
        };
        context.request.update(stores, &self.extraction_id, self.etag, replace).await?;
        context.find(&self.extraction_id).await
    }
}

/// Records or withdraws the confirmation of the data by the caller.
#[derive(Debug, Clone, Serialize)]
pub struct VerifyExtraction {
    pub extraction_id: ExtractionId,
    pub verified: bool,
    /// The version that was verified. None: any version.
    pub etag: Option<Etag>,
}

impl Operation for VerifyExtraction {
    const DECLARATION: Declaration = SERVICE.change("VerifyExtraction");
    type Output = Extraction;

    async fn run(self, context: &Context) -> Result<Extraction> {
        let verify = ExtractionChange::Verify { verified: self.verified };
        context.update(&self.extraction_id, self.etag, verify).await
    }
}

delete_operation! {
    DeleteExtraction { extraction_id: ExtractionId } of Extraction
}

/// Lists the extractions of a document. Filter: none.
#[derive(Debug, Clone, Serialize)]
pub struct ListExtractions {
    pub document_id: DocumentId,
    pub list: ListRequest,
}

impl Operation for ListExtractions {
    const DECLARATION: Declaration = SERVICE.read("ListExtractions");
    type Output = ListPage<Extraction>;

    async fn run(self, context: &Context) -> Result<ListPage<Extraction>> {
        filter::require_empty(&self.list.filter)?;
        context.find::<Document>(&self.document_id).await?;
        let filter = ExtractionFilter { document: self.document_id, prompt: None };
        context.list(&self.list, &filter, SortKeys::CreateTime, LARGE_PAGE_MAX).await
    }
}

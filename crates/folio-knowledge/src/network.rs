//! The port to the agents of the ingestion network.

use async_trait::async_trait;
use folio_history::job::{ItemRun, JobHeader};
use folio_passages::Context;
use folio_types::{BudgetPart, DocumentId, Principal, Result};

use crate::ingest::{IngestRequest, Ingested};
use crate::knowledge::Knowledge;

/// An attempt to ingest a document.
#[derive(Debug, Clone)]
pub struct IngestionRun {
    /// The user that pays, with its current role.
    pub principal: Principal,
    pub document: DocumentId,
    /// The attempt of the job. Ledger keys, threads and turns derive from it.
    pub run: ItemRun,
    /// The part of a credit budget that pays for the turns of agents. None: the job has no budget.
    pub budget_part: Option<BudgetPart>,
}

impl IngestionRun {
    /// Returns the request that ingests the document with this context. `call`: the number of the model call in the attempt, from
    /// 1, under which vectors are computed; other model calls of the attempt have other numbers.
    pub fn request(&self, call: u32, context: Context) -> IngestRequest {
        IngestRequest {
            org: self.principal.org.clone(),
            user: self.principal.user.clone(),
            document: self.document.clone(),
            key: self.run.ledger_key(call),
            context,
        }
    }
}

/// The context of the passages of a document in the mode `fast`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ModelContext {
    pub context: Context,
    /// A sentence about each kind of work that was left out, such as images without a description. The result of the item contains
    /// them.
    pub omissions: Vec<String>,
}

/// The agents of the modes `fast` and `agentic`.
#[async_trait]
pub trait NetworkModes: Send + Sync {
    /// Returns the context that earlier ingestions of a document have stored, without a model call. An ingestion in the mode
    /// `index` keeps it. Default: nothing is stored.
    async fn stored_context(&self, _knowledge: &Knowledge, _run: &IngestionRun) -> Result<Context> {
        Ok(Context::default())
    }

    /// Returns the context for the passages of a document in the mode `fast`: summaries of sections and of the document, image
    /// summaries. The caller ingests the document with it.
    ///
    /// # Errors
    /// A lack of credit or capacity makes the job wait. Another retriable error repeats the attempt.
    async fn context(&self, knowledge: &Knowledge, run: &IngestionRun) -> Result<ModelContext>;

    /// Ingests a document in the mode `agentic`: the network decides, and ends with [`ingest`](crate::ingest()).
    ///
    /// # Errors
    /// Those of [`Self::context`].
    async fn ingest(&self, knowledge: &Knowledge, run: &IngestionRun) -> Result<Ingested>;

    /// Ends the work in the mode `agentic` that attempts of an item left open, because the job has ended or the document was deleted.
    /// Idempotent. Default: no work is left open.
    async fn end(&self, _knowledge: &Knowledge, _job: &JobHeader, _document: &DocumentId) -> Result<()> {
        Ok(())
    }
}

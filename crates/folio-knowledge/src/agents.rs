//! The modes `fast` and `agentic`: summaries by calls of a model, or by the agents of the ingestion network.
//!
//! | mode | summaries | chunks and index |
//! |---|---|---|
//! | `index` | those that an earlier ingestion of the same text has stored | by code |
//! | `fast` | a model call for each part and each image without a stored description | by code |
//! | `agentic` | the tool `summary_store` | the tools `chunk_generate` and `rag_chunk_index`, which run the same code |
//!
//! All modes divide the document with the context that [`stored_context`] reads, so that equal summaries give equal passages. Without
//! a model, a document is ingested as in the mode `index`.

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use folio_history::command::ChatCommand;
use folio_history::job::JobHeader;
use folio_passages::Context;
use folio_resources::{Document, TermSearch, TextId, TextState};
use folio_tools::images::{DescribeCall, describe_images, stored_summaries};
use folio_tools::ingestion::{
    ChunkOverrides, GeneratedChunks, IndexCall, NetworkJob, NetworkRun, PassageIngester, SummaryRun,
    document_summaries, summarize,
};
use folio_tools::{ToolResources, document_dictionary};
use folio_types::{DocumentId, Error, Principal, Reason, Result, Role, ThreadId, UserId};

use crate::ingest::{IngestRequest, Ingested, divide, ingest, ingest_chunks};
use crate::knowledge::Knowledge;
use crate::network::{IngestionRun, ModelContext, NetworkModes};
use crate::vectors::targets;

/// Number of the call of an attempt whose key precedes the keys of the calls that compute vectors.
const VECTORS_CALL: u32 = 1;
/// Number of the call of an attempt whose key precedes the keys of the calls that summarize.
const SUMMARIES_CALL: u32 = 2;
/// Number of the call of an attempt whose key precedes the keys of the calls that describe images.
const IMAGES_CALL: u32 = 3;

/// Maximum number of entries of the dictionary that the summaries of a document use: the most frequent ones.
const DICTIONARY_MAX: usize = 1_000;

/// Runs turns of agents for jobs.
#[async_trait]
pub trait TurnDriver: Send + Sync {
    /// Starts, joins or resumes the turn of a message, and follows it to its end. Returns the reason of the end.
    ///
    /// # Errors
    /// `TURN_PENDING` if a call waits for an approval: the job waits, too. Other errors after which the turn can be resumed.
    async fn drive(&self, principal: &Principal, message: ChatCommand) -> Result<Error>;

    /// Cancels the first turn of a thread with its child turns. Has no effect on a turn that has ended or did not start.
    async fn cancel(&self, principal: &Principal, thread: &ThreadId) -> Result<()>;
}

/// The agents of a process.
pub struct Agents {
    driver: Arc<dyn TurnDriver>,
}

impl std::fmt::Debug for Agents {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Agents")
    }
}

impl Agents {
    pub fn new(driver: Arc<dyn TurnDriver>) -> Self {
        Self { driver }
    }
}

/// Returns the context that is stored for the current text of a document. Its chunks also receive entries of the dictionary.
async fn stored_context(resources: &ToolResources, document: &Document) -> Result<Context> {
    let summaries = document_summaries(resources, document).await?;
    let text = TextId::of(document).ok_or_else(|| Error::internal("a text that is ready has no generation"))?;
    let images = stored_summaries(&resources.stores, document).await?;
    let id = |number| text.section(number).to_string();
    let section_summaries: BTreeMap<String, String> =
        summaries.sections.into_iter().map(|(number, summary)| (id(number), summary)).collect();
    Ok(Context { document_summary: summaries.document, section_summaries, images, ..Context::default() })
}

/// Returns the document of an ingestion, if its text is ready.
async fn ready(knowledge: &Knowledge, run: &IngestionRun) -> Result<Option<Document>> {
    let found = knowledge.stores.of::<Document>().get(&run.principal.org, &run.document).await?;
    Ok(found.filter(|document| document.state == TextState::Ready))
}

/// Returns the user for whom the agents work and who pays: that of the job, or, for a job of the platform, the user who uploaded the
/// document, with the role of a member.
fn worker(principal: &Principal, document: &Document) -> Principal {
    match principal.user == UserId::platform() {
        true => Principal::new(document.org.clone(), document.created_by.clone(), Role::Member),
        false => principal.clone(),
    }
}

#[async_trait]
impl NetworkModes for Agents {
    async fn stored_context(&self, knowledge: &Knowledge, run: &IngestionRun) -> Result<Context> {
        match ready(knowledge, run).await? {
            Some(document) => stored_context(&knowledge.resources, &document).await,
            None => Ok(Context::default()),
        }
    }

    async fn context(&self, knowledge: &Knowledge, run: &IngestionRun) -> Result<ModelContext> {
        let Some(document) = ready(knowledge, run).await? else { return Ok(ModelContext::default()) };
        // The run lasts for minutes, and a dictionary may be large.
        let dictionary = {
            let _permit = knowledge.permits.division(&document.org).await?;
            TermSearch::new(document_dictionary(&knowledge.stores, &document, DICTIONARY_MAX).await?)?
        };
        let user = worker(&run.principal, &document).user;
        let key = run.run.ledger_key(SUMMARIES_CALL);
        let of_document = SummaryRun { document: &document, user: &user, key, model: None, dictionary: &dictionary };
        let report = summarize(&knowledge.resources, &of_document).await?;
        tracing::debug!(document = %document.id, ?report, "a document was summarized");
        let mut omissions: Vec<String> = report.omission().into_iter().collect();
        let call = DescribeCall { user, key: run.run.ledger_key(IMAGES_CALL) };
        match describe_images(&knowledge.resources, &document.org, &document.id, &call).await {
            Ok(report) => {
                tracing::debug!(document = %document.id, ?report, "the images of a document were described");
                omissions.extend(report.omissions());
            }
            // The ingestion ends without passages.
            Err(error) if error.reason == Reason::NotFound => return Ok(ModelContext::default()),
            Err(error) => return Err(error),
        }
        let context = stored_context(&knowledge.resources, &document).await?;
        Ok(ModelContext { context, omissions })
    }

    async fn ingest(&self, knowledge: &Knowledge, run: &IngestionRun) -> Result<Ingested> {
        let org = &run.principal.org;
        let has_model = knowledge.resources.models.catalogue(org).await?.for_chat(None).is_ok();
        let Some(document) = ready(knowledge, run).await?.filter(|_| has_model) else {
            let context = self.stored_context(knowledge, run).await?;
            return ingest(knowledge, run.request(VECTORS_CALL, context)).await;
        };
        let (stores, at) = (&knowledge.stores, knowledge.resources.environment.now());
        let principal = worker(&run.principal, &document);
        let job = NetworkJob { id: run.run.job.clone(), budget_part: run.budget_part.clone() };
        let network = NetworkRun::start(stores, &principal, &job, &document, at).await?;
        let reason = self.driver.drive(&principal, network.message()?).await?;
        network.end(stores, org).await?.indexed(&reason)?;
        let head = knowledge.passages().head(org, &run.document).await?;
        Ok(head.map_or_else(|| Ingested::Skipped("the document was deleted".to_owned()), Ingested::Live))
    }

    async fn end(&self, knowledge: &Knowledge, job: &JobHeader, document: &DocumentId) -> Result<()> {
        let org = job.org();
        let run = NetworkRun::of(org, document, &job.id);
        let Some(header) = knowledge.stores.threads.header(org, &run.thread).await? else { return Ok(()) };
        let principal = Principal { user: header.user, ..job.principal.clone() };
        self.driver.cancel(&principal, &run.thread).await
    }
}

#[async_trait]
impl PassageIngester for Knowledge {
    async fn chunks(
        &self,
        resources: &ToolResources,
        document: &Document,
        overrides: ChunkOverrides,
    ) -> Result<GeneratedChunks> {
        let knowledge = self.clone().with_resources(resources.clone());
        let catalogue = resources.models.catalogue(&document.org).await?;
        let targets = targets(&catalogue, knowledge.serving_space(&document.org).await?.as_ref());
        let _permit = knowledge.permits.division(&document.org).await?;
        let context = stored_context(resources, document).await?;
        divide(&knowledge, document, context, overrides, &targets).await
    }

    async fn index(
        &self,
        resources: &ToolResources,
        call: &IndexCall,
        document: &Document,
        chunks: GeneratedChunks,
    ) -> Result<u32> {
        let knowledge = self.clone().with_resources(resources.clone());
        let generation = document.text_generation;
        let generation = generation.ok_or_else(|| Error::internal("a text that is ready has no generation"))?;
        let request = IngestRequest {
            org: document.org.clone(),
            user: call.principal.user.clone(),
            document: document.id.clone(),
            key: call.key.clone(),
            context: Context::default(),
        };
        match ingest_chunks(&knowledge, request, Some((chunks, generation))).await? {
            Ingested::Live(head) => Ok(head.passages),
            Ingested::Skipped(reason) => Err(Error::version_conflict(reason)),
        }
    }
}

#[cfg(test)]
mod tests;

//! A run of the ingestion network: its thread, the message of its turn, and its result.
//!
//! | step | repeated after a crash |
//! |---|---|
//! | records of other runs, and summaries of earlier texts, are removed | those of the run remain |
//! | the thread of the run is created | under the id that derives from the job and the document |
//! | the job sends the message | the request id is that of the thread, so both attempts share one turn |
//! | the job reads the result | the record of the chunks that the run has indexed |

use folio_history::command::ChatCommand;
use folio_history::thread::NewThread;
use folio_resources::Document;
use folio_storage::{ChunkSet, Stores};
use folio_types::limits::{DAY, JOB_OPEN_MAX};
use folio_types::profile::{INGEST_PLANNER_PROFILE, Subject};
use folio_types::{
    BudgetPart, DocumentId, Error, IngestionId, JobId, OrgId, Principal, Reason, Result, ThreadId, Timestamp,
};

use crate::document_text::check_ready;

/// The message of every run.
const MESSAGE: &str =
    "Ingest the document of this run: find out what it needs, delegate the steps, and have its chunks indexed.";

/// A run of the network on a document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NetworkRun {
    /// The subject of its turns.
    pub id: IngestionId,
    pub document: DocumentId,
    /// The hidden thread of the planner. The threads of the other agents are its children.
    pub thread: ThreadId,
}

/// The job of a run.
#[derive(Debug, Clone)]
pub struct NetworkJob {
    pub id: JobId,
    /// The part of a credit budget that pays for the model calls of all agents. None: no budget.
    pub budget_part: Option<BudgetPart>,
}

/// The result of a run whose turn has ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NetworkEnd {
    /// The run has made these chunks the passages of the document.
    Indexed(Box<ChunkSet>),
    /// The passages of the document are those before the run.
    NotIndexed,
}

impl NetworkRun {
    /// Returns the run of a job on a document.
    pub fn of(org: &OrgId, document: &DocumentId, job: &JobId) -> Self {
        let parts = ["ingestion", org.as_str(), document.as_str(), job.as_str()];
        Self { id: IngestionId::derive(&parts), document: document.clone(), thread: ThreadId::derive(&parts) }
    }

    /// Starts the run of a job on the current text of a document. Idempotent. `principal`: the user for whom the agents work.
    ///
    /// # Errors
    /// `NO_TEXT` if the document has no text.
    pub async fn start(
        stores: &Stores,
        principal: &Principal,
        job: &NetworkJob,
        document: &Document,
        at: Timestamp,
    ) -> Result<Self> {
        check_ready(document)?;
        let generation = document.text_generation;
        let generation = generation.ok_or_else(|| Error::internal("a text that is ready has no generation"))?;
        let run = Self::of(&principal.org, &document.id, &job.id);
        stores.summaries().remove_earlier(&principal.org, &document.id, generation).await?;
        stores.chunk_sets().remove_other_runs(&principal.org, &document.id, &run.id).await?;
        stores.threads.create(run.new_thread(principal, job, at)).await?;
        Ok(run)
    }

    fn new_thread(&self, principal: &Principal, job: &NetworkJob, at: Timestamp) -> NewThread {
        let documents = vec![self.document.clone()];
        NewThread {
            subject: Some(Subject::Ingestion(self.id.clone())),
            job: Some(job.id.clone()),
            budget_part: job.budget_part.clone(),
            ephemeral: true,
            expires_at: Some(at.saturating_add(JOB_OPEN_MAX + DAY).unwrap_or(Timestamp::MAX)),
            ..NewThread::new(self.thread.clone(), principal, INGEST_PLANNER_PROFILE, documents, at)
        }
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
            ..ChatCommand::new(MESSAGE)
        })
    }

    /// Returns the result of the run.
    pub async fn end(&self, stores: &Stores, org: &OrgId) -> Result<NetworkEnd> {
        let sets = stores.chunk_sets().list(org, &self.document).await?;
        let indexed = sets.into_iter().filter(|set| set.run == self.id && set.is_indexed);
        let newest = indexed.max_by_key(|set| set.created_at);
        Ok(newest.map_or(NetworkEnd::NotIndexed, |set| NetworkEnd::Indexed(Box::new(set))))
    }
}

impl NetworkEnd {
    /// Returns the indexed chunks. `reason`: the reason for which the turn ended.
    ///
    /// # Errors
    /// `MODEL_FAILED`, which is not attempted again, if the run has indexed nothing.
    pub fn indexed(self, reason: &Error) -> Result<ChunkSet> {
        match self {
            Self::Indexed(set) => Ok(*set),
            Self::NotIndexed => {
                let message = format!("the agents ended without indexing the document: {}", reason.message);
                Err(Error::precondition(Reason::ModelFailed, message))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_attempts_of_a_job_share_the_ids_and_the_message_of_a_run() {
        let (org, document) = (OrgId::derive(&["o"]), DocumentId::derive(&["d"]));
        let [job, other] = ["a", "b"].map(|name| JobId::derive(&[name]));
        let run = NetworkRun::of(&org, &document, &job);
        assert_eq!(run, NetworkRun::of(&org, &document, &job));
        let another = NetworkRun::of(&org, &document, &other);
        assert!(run.id != another.id && run.thread != another.thread);
        let message = run.message().unwrap();
        assert_eq!(message.request_id.unwrap().as_str(), run.thread.as_str());
        assert!(!message.auto_approve, "the profiles run the tools, and the policy may require a decision");
    }

    #[test]
    fn a_run_without_indexed_chunks_has_failed() {
        let error = NetworkEnd::NotIndexed.indexed(&Error::internal("the turn expired")).unwrap_err();
        assert!(error.message.ends_with("the turn expired") && !error.is_retriable(), "{error:?}");
    }
}

//! A run of the ingestion network: its thread, the message of its turn, and its result.
//!
//! | step | repeated after a crash |
//! |---|---|
//! | records of other runs, and summaries of earlier texts, are removed | those of the run remain |
//! | the thread of the run is created | under the id that derives from the job, the document and its text |
//! | the job sends the message | the request id is that of the thread, so both attempts share one turn |
//! | the job reads the result | the record of the chunks that the run has indexed |

use folio_history::command::ChatCommand;
use folio_history::thread::NewThread;
use folio_resources::Document;
use folio_storage::{ChunkSet, Stores};
use folio_types::limits::{DAY, JOB_OPEN_MAX};
use folio_types::profile::{INGEST_PLANNER_PROFILE, Subject};
use folio_types::{DocumentId, Error, IngestionId, JobId, OrgId, Principal, Reason, Result, ThreadId, Timestamp};

use crate::document_text::check_ready;

/// The message of every run.
const MESSAGE: &str =
    "Ingest the document of this run: find out what it needs, delegate the steps, and have its chunks indexed.";

/// A run of the network on a generation of the text of a document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IngestionRun {
    /// The subject of its turns.
    pub id: IngestionId,
    pub document: DocumentId,
    /// The hidden thread of the planner. The threads of the other agents are its children.
    pub thread: ThreadId,
}

/// The result of a run whose turn has ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum IngestionEnd {
    /// The run has made these chunks the passages of the document.
    Indexed(Box<ChunkSet>),
    /// The passages of the document are those before the run.
    NotIndexed,
}

impl IngestionRun {
    fn new(org: &OrgId, document: &DocumentId, text_generation: Timestamp, job: &JobId) -> Self {
        let at = text_generation.to_string();
        let parts = ["ingestion", org.as_str(), document.as_str(), at.as_str(), job.as_str()];
        Self { id: IngestionId::derive(&parts), document: document.clone(), thread: ThreadId::derive(&parts) }
    }

    /// Starts the run of a job on the current text of a document. Idempotent. `principal`: the user for whom the agents work.
    ///
    /// # Errors
    /// `NO_TEXT` if the document has no text.
    pub async fn start(
        stores: &Stores,
        principal: &Principal,
        job: &JobId,
        document: &Document,
        at: Timestamp,
    ) -> Result<Self> {
        check_ready(document)?;
        let generation = document.text_generation;
        let generation = generation.ok_or_else(|| Error::internal("a text that is ready has no generation"))?;
        let run = Self::new(&principal.org, &document.id, generation, job);
        stores.summaries().remove_earlier(&principal.org, &document.id, generation).await?;
        stores.chunk_sets().remove_other_runs(&principal.org, &document.id, &run.id).await?;
        stores.threads.create(run.new_thread(principal, job, at)).await?;
        Ok(run)
    }

    fn new_thread(&self, principal: &Principal, job: &JobId, at: Timestamp) -> NewThread {
        let documents = vec![self.document.clone()];
        NewThread {
            subject: Some(Subject::Ingestion(self.id.clone())),
            job: Some(job.clone()),
            ephemeral: true,
            expires_at: Some(at.saturating_add(JOB_OPEN_MAX + DAY).unwrap_or(Timestamp::MAX)),
            ..NewThread::new(self.thread.clone(), principal, INGEST_PLANNER_PROFILE, documents, at)
        }
    }

    /// Returns the message that starts or joins the turn of the run. `budget`: credits that the model calls of the turn and of its
    /// child turns may cost. None: no budget of its own.
    ///
    /// # Errors
    /// None for a derived id of a thread.
    pub fn message(&self, budget: Option<u64>) -> Result<ChatCommand> {
        Ok(ChatCommand {
            thread: Some(self.thread.clone()),
            // A thread has one run.
            request_id: Some(self.thread.as_str().parse()?),
            credit_budget: budget,
            ..ChatCommand::new(MESSAGE)
        })
    }

    /// Returns the result of the run.
    pub async fn end(&self, stores: &Stores, org: &OrgId) -> Result<IngestionEnd> {
        let sets = stores.chunk_sets().list(org, &self.document).await?;
        let indexed = sets.into_iter().filter(|set| set.run == self.id && set.is_indexed);
        let newest = indexed.max_by_key(|set| set.created_at);
        Ok(newest.map_or(IngestionEnd::NotIndexed, |set| IngestionEnd::Indexed(Box::new(set))))
    }
}

impl IngestionEnd {
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
        let at = |second| Timestamp::constant(second, 0);
        let run = IngestionRun::new(&org, &document, at(1), &job);
        assert_eq!(run, IngestionRun::new(&org, &document, at(1), &job));
        for another in
            [IngestionRun::new(&org, &document, at(2), &job), IngestionRun::new(&org, &document, at(1), &other)]
        {
            assert!(run.id != another.id && run.thread != another.thread);
        }
        let message = run.message(Some(7)).unwrap();
        assert_eq!((message.credit_budget, message.request_id.unwrap().as_str()), (Some(7), run.thread.as_str()));
        assert!(!message.auto_approve, "the profiles run the tools, and the policy may require a decision");
    }

    #[test]
    fn a_run_without_indexed_chunks_has_failed() {
        let error = IngestionEnd::NotIndexed.indexed(&Error::internal("the turn expired")).unwrap_err();
        assert!(error.message.ends_with("the turn expired") && !error.is_retriable(), "{error:?}");
    }
}

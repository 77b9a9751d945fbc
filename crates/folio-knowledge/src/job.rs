//! The jobs that ingest documents. An item is a document, and its effect is one live generation of passages.
//!
//! A repeated attempt makes a later generation from the current text. Vectors of an earlier attempt are stored or cached, and each
//! model call has a key of its attempt in the ledger, so that it is charged once.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use folio_history::job::{INGESTION_KIND, IngestionCause, IngestionInput, ItemState, JobHeader, TEXT_INGESTION_KIND};
use folio_jobs::{ItemTask, JobKind};
use folio_passages::Context;
use folio_resources::{Document, TextRecord};
use folio_tools::item_budgets::{part_of_item, return_part_of_item, return_parts};
use folio_types::{BudgetPart, DocumentId, Error, IngestionMode, OrgId, Reason, Result, Role, Timestamp};
use serde_json::{Value, json};

use crate::ingest::{Ingested, ingest, skip_deleted};
use crate::knowledge::Knowledge;
use crate::network::{IngestionRun, NetworkModes};
use crate::steward::{StewardRun, steward_run};

/// Time after which a write that is not stored was refused or lost.
const STORED_WITHIN: Duration = Duration::from_secs(10 * 60);
/// Number of reads of an attempt that waits for the write, and the pause between two of them.
const CAUSE_READS: u32 = 10;
const CAUSE_PAUSE: Duration = Duration::from_millis(200);
/// Maximum length of an omission in the result of an item, in characters. It may contain the message of a model endpoint.
// proto: Ingestion.omissions "at most {} characters"
const OMISSION_CHARS: usize = 500;
/// Member of the result of an item with its omissions.
pub(crate) const OMISSIONS: &str = "omissions";

/// The jobs of one kind that ingest documents.
#[derive(Debug)]
pub struct IngestionJobs {
    knowledge: Knowledge,
    kind: &'static str,
}

#[derive(Debug, PartialEq, Eq)]
enum Decision {
    Run,
    /// The write that caused the ingestion is not stored yet.
    Wait,
    Skip(&'static str),
}

/// `found`: the document with the record of its text. None: it was deleted, so that its passages are removed.
fn decide(found: Option<&(Document, Option<TextRecord>)>, cause: &IngestionCause, now: Timestamp) -> Decision {
    let Some((document, text)) = found else { return Decision::Run };
    let is_stored = match cause.version {
        Some(version) => document.version >= version,
        None => text.as_ref().is_some_and(|text| text.at >= cause.at),
    };
    if is_stored {
        return Decision::Run;
    }
    let age = Duration::try_from(now.duration_since(cause.at)).unwrap_or_default();
    if age > STORED_WITHIN { Decision::Skip("the document was not changed") } else { Decision::Wait }
}

/// Reads the document until the write that caused the ingestion is stored, for two seconds: the write follows the creation of the
/// job, and a job that waits starts again after half a minute only.
async fn wait_for_cause(
    knowledge: &Knowledge,
    (org, document): (&OrgId, &DocumentId),
    cause: &IngestionCause,
) -> Result<Decision> {
    let mut reads_left = CAUSE_READS;
    loop {
        let found = knowledge.stores.of::<Document>().get_with_text(org, document).await?;
        let decision = decide(found.as_ref(), cause, knowledge.resources.environment.now());
        reads_left -= 1;
        if decision != Decision::Wait || reads_left == 0 {
            return Ok(decision);
        }
        tokio::time::sleep(CAUSE_PAUSE).await;
    }
}

impl IngestionJobs {
    /// Jobs that users start.
    pub fn of_users(knowledge: Knowledge) -> Self {
        Self { knowledge, kind: INGESTION_KIND }
    }

    /// Jobs that a new text, a change or a deletion of a document causes.
    pub fn of_writes(knowledge: Knowledge) -> Self {
        Self { knowledge, kind: TEXT_INGESTION_KIND }
    }

    /// Returns the handle whose model calls a part of a credit budget pays. None: no budget.
    fn paid_from(&self, task: &ItemTask, part: Option<&BudgetPart>) -> Knowledge {
        let knowledge = self.knowledge.clone();
        let Some(part) = part else { return knowledge };
        let budget = knowledge.resources.budget(task.job.org(), part.clone());
        let resources = knowledge.resources.clone().paid_from(budget);
        knowledge.with_resources(resources)
    }

    /// Returns the agents that an ingestion of this job runs. None: its mode has none.
    fn agents(&self, job: &JobHeader) -> Result<Option<&Arc<dyn NetworkModes>>> {
        let input: IngestionInput = job.read_input()?;
        Ok(self.knowledge.network.as_ref().filter(|_| input.mode == IngestionMode::Agentic))
    }

    /// Returns the result of an attempt that failed. A document that was deleted meanwhile is skipped, and nothing of it remains.
    async fn failed(&self, task: &ItemTask, error: Error) -> Result<Ingested> {
        let (org, document): (&OrgId, DocumentId) = (&task.principal.org, task.subject()?.parse()?);
        match self.knowledge.stores.of::<Document>().get(org, &document).await {
            Ok(None) => {
                if let Some(agents) = self.agents(&task.job)? {
                    agents.end(&self.knowledge, &task.job, &document).await?;
                }
                skip_deleted(&self.knowledge, org, &document).await
            }
            // The first error is the cause.
            Ok(Some(_)) | Err(_) => Err(error),
        }
    }

    /// Runs an item in the mode `agentic`. The item has a part of the job's budget, because the agents of its run divide theirs
    /// under names that are unique in the run only.
    async fn run_agentic(&self, task: &ItemTask, input: &IngestionInput) -> Result<(Ingested, Vec<String>)> {
        let resources = &self.knowledge.resources;
        let part = part_of_item(resources, &task.job, task.run.item).await?;
        let outcome = self.run(task, input, part.clone()).await;
        return_part_of_item(resources, &task.job, part, outcome, |error| task.is_last_attempt(error)).await
    }

    /// Runs an item, and returns its result with the omissions. `budget_part`: the part of a credit budget that pays for the item.
    async fn run(
        &self,
        task: &ItemTask,
        input: &IngestionInput,
        budget_part: Option<BudgetPart>,
    ) -> Result<(Ingested, Vec<String>)> {
        let document: DocumentId = task.subject()?.parse()?;
        let knowledge = self.paid_from(task, budget_part.as_ref());
        if let Some(cause) = &input.cause {
            match wait_for_cause(&knowledge, (&task.principal.org, &document), cause).await? {
                Decision::Run => {}
                Decision::Skip(reason) => return Ok((Ingested::Skipped(reason.to_owned()), Vec::new())),
                Decision::Wait => {
                    let message = "the change of the document that causes the ingestion is not stored yet";
                    return Err(Error::unavailable(Reason::StoreUnavailable, message));
                }
            }
        }
        let run = IngestionRun { principal: task.principal.clone(), document, run: task.run.clone(), budget_part };
        let unavailable = || {
            let mode = input.mode.as_str();
            Error::invalid_field("mode", format!("this server has no agents for the mode {mode}; use the mode index"))
        };
        match input.mode {
            IngestionMode::Off | IngestionMode::Index => {
                let context = match &knowledge.network {
                    Some(network) => network.stored_context(&knowledge, &run).await?,
                    None => Context::default(),
                };
                Ok((ingest(&knowledge, run.request(1, context)).await?, Vec::new()))
            }
            IngestionMode::Fast => {
                let network = knowledge.network.as_ref().ok_or_else(unavailable)?;
                let mut omissions = review_terms(&knowledge, &run, true).await;
                let found = network.context(&knowledge, &run).await?;
                omissions.extend(found.omissions);
                Ok((ingest(&knowledge, run.request(1, found.context)).await?, omissions))
            }
            IngestionMode::Agentic => {
                let ingested = knowledge.network.as_ref().ok_or_else(unavailable)?.ingest(&knowledge, &run).await?;
                // The agents have inferred what they could; the rest becomes questions.
                let omissions = review_terms(&knowledge, &run, false).await;
                Ok((ingested, omissions))
            }
        }
    }
}

/// Infers unknown abbreviations, and creates questions about them. The ingestion continues without them if that fails. Returns a
/// sentence about each step that was left out.
async fn review_terms(knowledge: &Knowledge, run: &IngestionRun, is_inferring: bool) -> Vec<String> {
    let steward = StewardRun {
        org: run.principal.org.clone(),
        user: run.principal.user.clone(),
        key: format!("{}.terms", run.run),
        is_inferring,
    };
    match steward_run(&knowledge.resources, &steward, &run.document).await {
        Ok(report) => {
            tracing::debug!(document = %run.document, ?report, "terms are reviewed");
            let mut omissions = Vec::new();
            if let Some(reason) = report.not_inferred.filter(|_| is_inferring) {
                omissions.push(format!("unknown abbreviations were not inferred: {reason}"));
            }
            if report.has_too_many_questions {
                omissions.push("no further questions about terms: the organization has too many open ones".to_owned());
            }
            omissions
        }
        Err(error) => {
            tracing::warn!(document = %run.document, %error, "the terms of a document are not reviewed");
            vec![format!("the abbreviations were not reviewed: {}", error.message)]
        }
    }
}

/// Returns the result of an item.
fn result_of(ingested: Ingested, omissions: &[String]) -> Value {
    let head = match ingested {
        Ingested::Live(head) => head,
        Ingested::Skipped(reason) => return json!({ "skipped": reason }),
    };
    let mut result =
        json!({ "passages": head.passages, "generation": head.generation.to_string(), "space": head.space });
    if let Some(members) = result.as_object_mut().filter(|_| !omissions.is_empty()) {
        let short = omissions.iter().map(|text| text.chars().take(OMISSION_CHARS).collect::<String>());
        members.insert(OMISSIONS.to_owned(), short.collect());
    }
    result
}

#[async_trait]
impl JobKind for IngestionJobs {
    fn name(&self) -> &'static str {
        self.kind
    }

    fn role_min(&self) -> Role {
        Role::Member
    }

    async fn run_item(&self, task: ItemTask) -> Result<Value> {
        let input: IngestionInput = task.job.read_input()?;
        let outcome = match input.mode {
            IngestionMode::Agentic => self.run_agentic(&task, &input).await,
            IngestionMode::Off | IngestionMode::Index | IngestionMode::Fast => {
                self.run(&task, &input, task.job.budget_part()).await
            }
        };
        let (ingested, omissions) = match outcome {
            Ok(ended) => ended,
            Err(error) => (self.failed(&task, error).await?, Vec::new()),
        };
        Ok(result_of(ingested, &omissions))
    }

    async fn end_job(&self, job: &JobHeader) -> Result<()> {
        let Some(agents) = self.agents(job)? else { return Ok(()) };
        // The attempt of a done item followed the turn to its end.
        for item in job.items.iter().filter(|item| item.state != ItemState::Done) {
            agents.end(&self.knowledge, job, &item.id.parse()?).await?;
        }
        return_parts(&self.knowledge.resources, job).await
    }
}

#[cfg(test)]
mod tests {
    use folio_resources::{NewDocument, TextState, text_record_of};
    use folio_storage::value::PassageHead;
    use folio_types::{BlobId, UserId};

    use super::*;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::constant(1_790_000_000 + seconds, 0)
    }

    fn document() -> Document {
        let file = NewDocument::file("a.txt", "text/plain", b"x", BlobId::derive(&["b"]));
        Document::uploaded(DocumentId::derive(&["d"]), OrgId::derive(&["o"]), &file, UserId::platform(), at(0))
    }

    #[test]
    fn the_result_of_an_item_states_what_was_left_out() {
        let head = PassageHead {
            document: DocumentId::derive(&["d"]),
            generation: 7,
            passages: 3,
            space: None,
            text_generation: at(0),
            created_at: at(0),
        };
        let indexed = json!({ "passages": 3, "generation": "7", "space": null });
        assert_eq!(result_of(Ingested::Live(head.clone()), &[]), indexed);
        let long = format!("images: {}", "x".repeat(OMISSION_CHARS));
        let found = result_of(Ingested::Live(head), &["terms".to_owned(), long.clone()]);
        assert_eq!(found[OMISSIONS], json!(["terms", &long[..OMISSION_CHARS]]));
        let skipped = Ingested::Skipped("no text".to_owned());
        assert_eq!(result_of(skipped, &["terms".to_owned()]), json!({ "skipped": "no text" }));
    }

    #[test]
    fn an_ingestion_runs_once_its_cause_is_stored() {
        let text = text_record_of(None, TextState::Ready, 1, false, at(10));
        let ready = (document(), Some(text));
        let of_text = |seconds| IngestionCause { at: at(seconds), version: None };
        assert_eq!(decide(Some(&ready), &of_text(10), at(11)), Decision::Run);
        assert_eq!(decide(Some(&ready), &of_text(12), at(13)), Decision::Wait);
        assert_eq!(decide(Some(&(document(), None)), &of_text(12), at(13)), Decision::Wait);
        assert!(matches!(decide(Some(&ready), &of_text(12), at(613)), Decision::Skip(_)));
        let of_change = |version| IngestionCause { at: at(12), version: Some(version) };
        assert_eq!(decide(Some(&ready), &of_change(1), at(13)), Decision::Run);
        assert_eq!(decide(Some(&ready), &of_change(2), at(13)), Decision::Wait);
        assert_eq!(
            decide(None, &of_change(2), at(13)),
            Decision::Run,
            "the passages of a deleted document are removed"
        );
    }
}

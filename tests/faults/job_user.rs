//! A client that works with jobs: batches that it pauses and cancels, runs of prompts by tags, proposals, and changes and
//! deletions of what the jobs read and create. It repeats every request that was not answered, at any gateway.

use std::time::Duration;

use folio_proto::v1;
use rand::Rng as _;
use rand::seq::IndexedRandom as _;
use tokio::sync::watch;

use super::log::ClientEvent;
use super::simulated_user::{SimulatedUser, WORK_TIMEOUT, call, pause};
use crate::harness::settings::INVOICE;

/// Maximum number of documents of a batch.
const DOCUMENTS_MAX: usize = 5;
/// Time between two checks of a job that waits. Each check makes the job try again.
const RETRY_INTERVAL: Duration = Duration::from_millis(500);
/// Number of words of a document that is similar to no other one.
const WORDS: usize = 12;

/// Kinds of work, with their shares.
const WORK: [Work; 7] =
    [Work::Batch, Work::Batch, Work::Agent, Work::Tag, Work::NewProposal, Work::SimilarProposal, Work::Change];

#[derive(Debug, Clone, Copy)]
enum Work {
    /// A batch that runs a prompt with one model call for each document.
    Batch,
    /// A batch whose items are runs of the extraction agent.
    Agent,
    /// A document gets the tag of a prompt.
    Tag,
    /// An upload with automatic creation, of a document that is similar to no other one.
    NewProposal,
    /// An upload with automatic creation, of a document like the others.
    SimilarProposal,
    /// Changes and deletions without a job.
    Change,
}

/// The prompts of a client.
#[derive(Debug, Clone)]
pub(super) struct Prompts {
    /// One model call extracts a document.
    pub(super) plain: v1::Prompt,
    /// The extraction agent runs it.
    agent: v1::Prompt,
}

impl SimulatedUser {
    /// Works until `stop` is true. Returns the work that never ended.
    pub(super) async fn work_with_jobs(mut self, stop: watch::Receiver<bool>) -> Vec<String> {
        let name = format!("{} jobs {}", self.tenant.marker, self.name);
        let Some(mut prompts) = self.create_prompts(&name).await else {
            return vec![format!("{} has no prompts", self.name)];
        };
        let (mut unfinished, mut number) = (Vec::new(), 0);
        while !*stop.borrow() {
            number += 1;
            let (work, name) = (*WORK.choose(&mut self.random).expect("a kind of work"), format!("{name}-{number}"));
            let done = self.do_work(work, &mut prompts, &name);
            if tokio::time::timeout(WORK_TIMEOUT, done).await.is_err() {
                unfinished.push(format!("{work:?} {number} of {} took longer than {WORK_TIMEOUT:?}", self.name));
            }
        }
        unfinished
    }

    async fn do_work(&mut self, work: Work, prompts: &mut Prompts, name: &str) {
        match work {
            Work::Batch => self.batch(&prompts.plain.prompt_revid, name).await,
            Work::Agent => self.batch(&prompts.agent.prompt_revid, name).await,
            Work::Tag => self.tag(&prompts.plain.schema_revid, name).await,
            Work::NewProposal => {
                let text = self.words();
                self.propose(&text, name).await;
            }
            Work::SimilarProposal => self.propose(INVOICE, name).await,
            Work::Change => self.change(&mut prompts.plain, name).await,
        }
    }

    /// Creates a schema and the prompts. None: one of them was refused.
    pub(super) async fn create_prompts(&mut self, name: &str) -> Option<Prompts> {
        let format = serde_json::json!({
            "type": "json_schema",
            "json_schema": {"name": "bill", "strict": true, "schema": {
                "type": "object", "properties": {"total": {"type": "number"}}, "required": ["total"],
                "additionalProperties": false,
            }},
        });
        let response_format_json = format.to_string();
        let schema = v1::Schema { name: name.to_owned(), response_format_json, ..Default::default() };
        let request = v1::CreateSchemaRequest {
            schema: Some(schema),
            request_id: request_id("schema", name),
            ..Default::default()
        };
        let made = self.retry(call!(schemas.create_schema(request))).await;
        let made = made.inspect_err(|error| println!("  a schema was not created: {error}")).ok()?;
        let schema = made.into_inner().schema.expect("a schema");
        self.log.add(&self.tenant.org, ClientEvent::Created { id: schema.schema_id });
        let prompt = |name: String, agent| v1::Prompt {
            name,
            content: "Read the total.".to_owned(),
            schema_revid: schema.schema_revid.clone(),
            agent,
            ..Default::default()
        };
        let (plain, agent) = (prompt(format!("{name} plain"), false), prompt(format!("{name} agent"), true));
        Some(Prompts { plain: self.create_prompt(plain).await?, agent: self.create_prompt(agent).await? })
    }

    async fn create_prompt(&mut self, prompt: v1::Prompt) -> Option<v1::Prompt> {
        let request_id = request_id("prompt", &prompt.name);
        let request = v1::CreatePromptRequest { prompt: Some(prompt), request_id };
        match self.retry(call!(prompts.create_prompt(request))).await {
            Ok(made) => {
                let prompt = made.into_inner().prompt.expect("a prompt");
                self.log.add(&self.tenant.org, ClientEvent::Created { id: prompt.prompt_id.clone() });
                Some(prompt)
            }
            Err(error) => {
                println!("  a prompt was not created: {error}");
                None
            }
        }
    }

    /// Runs a batch over new documents to its end, and sometimes pauses or cancels it, deletes one of its documents, or retries
    /// its failed items.
    async fn batch(&mut self, prompt: &str, name: &str) {
        let mut documents = Vec::new();
        for number in 0..self.random.random_range(1..=DOCUMENTS_MAX) {
            documents.extend(self.upload(&format!("{name} {number}.txt"), INVOICE, false).await);
        }
        let Some(job) = self.run_batch(prompt, &documents, name).await else { return };
        if self.random.random_bool(0.25) {
            let request = v1::PauseJobRequest { job_id: job.clone(), ..Default::default() };
            let _ = self.retry(call!(jobs.pause_job(request))).await;
            pause().await;
        }
        if self.random.random_bool(0.15) {
            let request = v1::CancelJobRequest { job_id: job.clone(), ..Default::default() };
            let _ = self.retry(call!(jobs.cancel_job(request))).await;
        }
        if self.random.random_bool(0.2) {
            self.delete_document(&documents[0]).await;
        }
        let ended = self.wait_for_job(&job).await;
        if ended.failed_items > 0 && self.random.random_bool(0.5) {
            let request =
                v1::RetryJobRequest { job_id: job, request_id: request_id("retry", name), ..Default::default() };
            if let Ok(retried) = self.retry(call!(jobs.retry_job(request))).await {
                let job = retried.into_inner().job.expect("a job").job_id;
                self.wait_for_job(&job).await;
            }
        }
    }

    /// Starts a batch. Returns its job. None: it was refused.
    pub(super) async fn run_batch(&mut self, prompt: &str, documents: &[String], name: &str) -> Option<String> {
        let request = v1::RunExtractionsRequest {
            document_ids: documents.to_vec(),
            prompt_revid: prompt.to_owned(),
            request_id: request_id("batch", name),
            ..Default::default()
        };
        match self.retry(call!(extractions.run_extractions(request))).await {
            Ok(answer) => {
                let job = answer.into_inner().job.expect("a job").job_id;
                let (prompt, documents) = (prompt.to_owned(), documents.to_vec());
                self.log.add(&self.tenant.org, ClientEvent::Batch { job: job.clone(), prompt, documents });
                Some(job)
            }
            Err(error) => {
                println!("  {name} was refused: {error}");
                None
            }
        }
    }

    /// Waits for the end of a job and returns it. Resumes the job whenever it is paused or waits.
    pub(super) async fn wait_for_job(&mut self, job: &str) -> v1::Job {
        loop {
            let request = v1::GetJobRequest { job_id: job.to_owned() };
            match self.retry(call!(jobs.get_job(request))).await.map(|found| found.into_inner().job.expect("a job")) {
                Ok(found) => {
                    if let Some(state) = end_name(found.state()) {
                        self.log.add(&self.tenant.org, ClientEvent::JobEnded { job: job.to_owned(), state });
                        return found;
                    }
                    self.resume_if_idle(&found).await;
                }
                Err(error) => println!("  {job}: {error}"),
            }
            // The nodes work during the sleep.
            tokio::time::sleep(RETRY_INTERVAL).await;
        }
    }

    async fn resume_if_idle(&mut self, job: &v1::Job) {
        if matches!(job.state(), v1::JobState::Waiting | v1::JobState::Paused) {
            let request = v1::ResumeJobRequest { job_id: job.job_id.clone(), ..Default::default() };
            // The job may have ended meanwhile.
            let _ = self.retry(call!(jobs.resume_job(request))).await;
        }
    }

    /// Resumes the open jobs of the tenant that wait for credit or a store.
    pub(super) async fn resume_waiting_jobs(&mut self) {
        let request = v1::ListJobsRequest { filter: "open:true".to_owned(), page_size: 100, ..Default::default() };
        if let Ok(listed) = self.retry(call!(jobs.list_jobs(request))).await {
            for job in listed.into_inner().jobs.iter().filter(|job| job.state() == v1::JobState::Waiting) {
                self.resume_if_idle(job).await;
            }
        }
        // The nodes work during the sleep.
        tokio::time::sleep(RETRY_INTERVAL).await;
    }

    /// Gives a document the tag of a new prompt with this schema, and waits for the extraction.
    async fn tag(&mut self, schema: &str, name: &str) {
        let Some(tag) = self.create_tag(name).await else { return };
        let prompt = v1::Prompt {
            name: name.to_owned(),
            content: "Read the total.".to_owned(),
            schema_revid: schema.to_owned(),
            tag_ids: vec![tag.clone()],
            ..Default::default()
        };
        let Some(prompt) = self.create_prompt(prompt).await else { return };
        let Some(document_id) = self.upload(&format!("{name}.txt"), INVOICE, false).await else { return };
        let document =
            v1::Document { document_id: document_id.clone(), tag_ids: vec![tag.clone()], ..Default::default() };
        if !self.update_document(document, name).await {
            return;
        }
        let prompt = prompt.prompt_revid;
        let tagged = ClientEvent::Tagged { document: document_id.clone(), prompt: prompt.clone() };
        self.log.add(&self.tenant.org, tagged);
        let request =
            v1::ListExtractionsRequest { document_id, filter: format!("prompt:{prompt}"), ..Default::default() };
        loop {
            let found = self.retry(call!(extractions.list_extractions(request))).await;
            match found.map(|found| found.into_inner().total_size) {
                Ok(0) => {}
                Ok(_) => return,
                Err(error) => println!("  {name}: {error}"),
            }
            self.resume_waiting_jobs().await;
        }
    }

    /// Changes a document. Returns false if the change was refused.
    async fn update_document(&mut self, document: v1::Document, name: &str) -> bool {
        let request = v1::UpdateDocumentRequest {
            document: Some(document),
            request_id: request_id("update", name),
            ..Default::default()
        };
        let updated = self.retry(call!(documents.update_document(request))).await;
        updated.inspect_err(|error| println!("  {name} was not changed: {error}")).is_ok()
    }

    /// Uploads a document with automatic creation, waits for its proposal, and sometimes accepts or rejects it.
    async fn propose(&mut self, text: &str, name: &str) {
        let Some(document) = self.upload(&format!("{name}.txt"), text, true).await else { return };
        self.log.add(&self.tenant.org, ClientEvent::AutoCreate { document: document.clone() });
        let request = v1::ListProposalsRequest { filter: format!("document:{document}"), ..Default::default() };
        let proposal = loop {
            let listed = self.retry(call!(proposals.list_proposals(request))).await;
            match listed.map(|listed| listed.into_inner().proposals.pop()) {
                Ok(Some(proposal)) => break proposal,
                Ok(None) => {}
                Err(error) => println!("  {name}: {error}"),
            }
            self.resume_waiting_jobs().await;
        };
        if proposal.state() != v1::ProposalState::Proposed {
            println!("  the proposal for {document} is {:?}: {}", proposal.state(), proposal.reason);
            return;
        }
        let proposal = proposal.proposal_id;
        match self.random.random_range(0..3) {
            0 => {
                let request = v1::AcceptProposalRequest { proposal_id: proposal, ..Default::default() };
                let _ = self.retry(call!(proposals.accept_proposal(request))).await;
            }
            1 => {
                let request = v1::RejectProposalRequest { proposal_id: proposal.clone(), ..Default::default() };
                if self.retry(call!(proposals.reject_proposal(request))).await.is_ok() {
                    self.log.add(&self.tenant.org, ClientEvent::Rejected { proposal });
                }
            }
            _ => {}
        }
    }

    /// Creates a revision of the prompt, changes a document and an extraction, and deletes one of both.
    async fn change(&mut self, prompt: &mut v1::Prompt, name: &str) {
        let changed = v1::Prompt {
            prompt_id: prompt.prompt_id.clone(),
            content: format!("Read the total. {name}"),
            ..Default::default()
        };
        let request = v1::UpdatePromptRequest {
            prompt: Some(changed),
            request_id: request_id("revise", name),
            ..Default::default()
        };
        match self.retry(call!(prompts.update_prompt(request))).await {
            Ok(updated) => *prompt = updated.into_inner().prompt.expect("a prompt"),
            Err(error) => println!("  a prompt was not changed: {error}"),
        }
        let Some(document_id) = self.upload(&format!("{name}.txt"), INVOICE, false).await else { return };
        let metadata = [("state".to_owned(), "changed".to_owned())].into();
        let document = v1::Document { document_id: document_id.clone(), metadata, ..Default::default() };
        self.update_document(document, name).await;
        let request = v1::RunExtractionRequest {
            document_id: document_id.clone(),
            prompt_revid: prompt.prompt_revid.clone(),
            request_id: request_id("extract", name),
            ..Default::default()
        };
        let extracted = self.retry(call!(extractions.run_extraction(request))).await;
        let extraction = match extracted {
            Ok(extracted) => extracted.into_inner().extraction.expect("an extraction").extraction_id,
            Err(error) => return println!("  {name} was not extracted: {error}"),
        };
        let request = v1::UpdateExtractionFieldRequest {
            extraction_id: extraction.clone(),
            path: "total".to_owned(),
            value_json: "958".to_owned(),
            request_id: request_id("edit", name),
            ..Default::default()
        };
        if let Err(error) = self.retry(call!(extractions.update_extraction_field(request))).await {
            println!("  {name} was not edited: {error}");
        }
        if self.random.random_bool(0.5) {
            return self.delete_document(&document_id).await;
        }
        let request_id = request_id("delete", name);
        let request =
            v1::DeleteExtractionRequest { extraction_id: extraction.clone(), request_id, ..Default::default() };
        match self.retry(call!(extractions.delete_extraction(request))).await {
            Ok(_) => self.log.add(&self.tenant.org, ClientEvent::Deleted { id: extraction }),
            Err(error) => println!("  {extraction} was not deleted: {error}"),
        }
    }

    pub(super) async fn delete_document(&mut self, id: &str) {
        let request_id = request_id("delete", id);
        let request = v1::DeleteDocumentRequest { document_id: id.to_owned(), request_id, ..Default::default() };
        match self.retry(call!(documents.delete_document(request))).await {
            Ok(_) => self.log.add(&self.tenant.org, ClientEvent::Deleted { id: id.to_owned() }),
            Err(error) => println!("  {id} was not deleted: {error}"),
        }
    }

    /// Returns a text of random words.
    fn words(&mut self) -> String {
        let mut word = || -> String { (0..8).map(|_| char::from(self.random.random_range(b'a'..=b'z'))).collect() };
        (0..WORDS).map(|_| word() + "\n").collect()
    }
}

/// Returns the id of a request, such that its repetitions have the same one.
pub(super) fn request_id(action: &str, name: &str) -> String {
    format!("{action}-{}", name.replace(' ', "-"))
}

/// Returns the name of the state of an ended job. None: the job is open.
fn end_name(state: v1::JobState) -> Option<&'static str> {
    match state {
        v1::JobState::Completed => Some("completed"),
        v1::JobState::Failed => Some("failed"),
        v1::JobState::Cancelled => Some("cancelled"),
        _ => None,
    }
}

//! The context of a suite: an organization of its own, a clock, fresh op keys, and resources created in one line.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use bytes::Bytes;
use folio_credit::LedgerRow;
use folio_history::thread::NewThread;
use folio_resources::{
    AgentData, AgentStep, Document, DocumentChange, DocumentPart, DocumentType, Extraction, ExtractionChange,
    ExtractionReport, NewDocument, NewExtraction, NewProposal, PartBudget, Prompt, Proposal, ProposalChange,
    ProposalOutcome, ProposedResources, Resource, Schema, Tag, TextState,
};
use folio_types::message::Usage;
use folio_types::op::{Expected, IdempotencyRecord, OpKey, OpResult, OpRow, OpState, Write, WriteOutcome};
use folio_types::{
    BlobId, BlobKey, Digest, DocumentId, ExtractionId, OrgId, Principal, PromptRevId, Role, SchemaRevId, TagId,
    ThreadId, Timestamp, UserId,
};
use serde_json::{Value, json};

use super::Failure;
use super::sample::{Sample, Seed};
use folio_storage::{IngestUpdate, NewPage, Stores, UsageRecord};

/// The stores, the organization and the clock of a suite.
pub(crate) struct Context {
    pub(crate) stores: Stores,
    pub(crate) org: OrgId,
    pub(crate) user: UserId,
    suite: String,
    nonce: String,
    seconds: AtomicI64,
    number: AtomicU64,
}

impl Context {
    pub(crate) fn new(stores: Stores, suite: &str, nonce: &str) -> Self {
        Self {
            stores,
            org: OrgId::derive(&[suite, nonce]),
            user: UserId::derive(&[suite, nonce]),
            suite: suite.to_owned(),
            nonce: nonce.to_owned(),
            seconds: AtomicI64::new(1_790_000_000),
            number: AtomicU64::new(0),
        }
    }

    /// Sets the time at which the clock starts.
    pub(crate) fn since(self, seconds: i64) -> Self {
        Self { seconds: AtomicI64::new(seconds), ..self }
    }

    /// Sets the first fresh number.
    pub(crate) fn numbered(self, number: u64) -> Self {
        Self { number: AtomicU64::new(number), ..self }
    }

    /// Returns a context for a suite of one kind of resources.
    pub(crate) fn of_kind(&self, kind: &str) -> Self {
        Self::new(self.stores.clone(), &format!("resources/{kind}"), &self.nonce)
    }

    /// Returns whether the suite includes a kind of resources.
    pub(crate) fn covers(&self, name: &str) -> bool {
        self.suite.split_once('/').is_none_or(|(_, kind)| kind == name)
    }

    /// Returns another organization on the same stores.
    pub(crate) fn other(&self) -> OrgId {
        OrgId::derive(&[&self.suite, &self.nonce, "other"])
    }

    /// Returns the time of the clock, which advances by a second with each call.
    pub(crate) fn now(&self) -> Timestamp {
        let seconds = self.seconds.fetch_add(1, Ordering::Relaxed);
        Timestamp::from_second(seconds).unwrap_or(Timestamp::UNIX_EPOCH)
    }

    /// Returns a number that no earlier call returned.
    pub(crate) fn fresh(&self) -> u64 {
        self.number.fetch_add(1, Ordering::Relaxed)
    }

    /// Returns the parts of an unused id.
    pub(crate) fn parts(&self) -> [String; 3] {
        [self.suite.clone(), self.nonce.clone(), self.fresh().to_string()]
    }

    /// Returns an unused id.
    pub(crate) fn id<R: Resource>(&self) -> R::Id {
        R::derive_id(&self.parts().each_ref().map(String::as_str))
    }

    pub(crate) fn document_id(&self) -> DocumentId {
        self.id::<Document>()
    }

    pub(crate) fn extraction_id(&self) -> ExtractionId {
        self.id::<Extraction>()
    }

    pub(crate) fn thread_id(&self) -> ThreadId {
        ThreadId::derive(&self.parts().each_ref().map(String::as_str))
    }

    /// Returns an unused op key.
    pub(crate) fn op(&self) -> Result<OpKey, Failure> {
        let request = format!("request/{}:{}", self.fresh(), self.suite).parse()?;
        Ok(OpKey::Request { user: self.user.clone(), request })
    }

    /// Returns a write under an unused op key.
    pub(crate) fn write<C>(&self, expected: Expected, change: C) -> Result<Write<C>, Failure> {
        let op = self.op()?;
        Ok(Write {
            org: self.org.clone(),
            digest: Digest::of(op.to_string().as_bytes()),
            op,
            by: self.user.clone(),
            at: self.now(),
            expected,
            change,
        })
    }

    pub(crate) async fn sample<R: Sample>(&self, seed: &Seed) -> Result<R::Id, Failure> {
        let id = self.id::<R>();
        let write = self.write(Expected::Absent, R::create(seed))?;
        done(self.stores.of::<R>().decide(&id, write).await?)?;
        Ok(id)
    }

    pub(crate) async fn tag(&self, name: &str) -> Result<TagId, Failure> {
        self.sample::<Tag>(&Seed::named(name)).await
    }

    pub(crate) async fn schema(&self, name: &str) -> Result<SchemaRevId, Failure> {
        Ok(SchemaRevId::new(self.sample::<Schema>(&Seed::named(name)).await?, 1))
    }

    pub(crate) async fn prompt(
        &self,
        name: &str,
        schema: Option<&SchemaRevId>,
        tags: &[TagId],
    ) -> Result<PromptRevId, Failure> {
        let links = schema.map(|schema| schema.of.to_string()).into_iter();
        let links: Vec<_> = links.chain(tags.iter().map(ToString::to_string)).collect();
        Ok(PromptRevId::new(self.sample::<Prompt>(&Seed::named(name).linked(&links)).await?, 1))
    }

    pub(crate) async fn document(&self, name: &str) -> Result<DocumentId, Failure> {
        self.sample::<Document>(&Seed::named(name)).await
    }

    /// Creates an extraction and stores the steps of its agent, with a word in each step.
    pub(crate) async fn agent_extraction(
        &self,
        document: &DocumentId,
        prompt: &PromptRevId,
        word: &str,
    ) -> Result<(), Failure> {
        let (store, id) = (self.stores.of::<Extraction>(), self.extraction_id());
        let new = Box::new(new_extraction(document, prompt, json!({})));
        let begin = ExtractionChange::Begin(new, self.thread_id());
        done(store.decide(&id, self.write(Expected::Absent, begin)?).await?)?;
        let data = json!({ "read": word });
        let steps = [
            AgentStep::Identify(DocumentType { name: word.to_owned(), confidence: 0.9 }),
            AgentStep::Write(AgentData { data, citations: vec![], confidences: vec![], text_generation: None }),
            AgentStep::Fail { reason: word.to_owned() },
        ];
        for (step, version) in steps.into_iter().zip(1..) {
            let step = ExtractionChange::Agent(Box::new(step));
            done(store.decide(&id, self.write(Expected::Version(version), step)?).await?)?;
        }
        Ok(())
    }

    /// Creates a proposal of a run that failed, and one that is rejected, with a word in each.
    pub(crate) async fn proposals(
        &self,
        document: &DocumentId,
        prompt: &PromptRevId,
        word: &str,
    ) -> Result<(), Failure> {
        let store = self.stores.of::<Proposal>();
        let proposed = ProposedResources {
            schema: None,
            is_schema_reused: false,
            prompt: prompt.clone(),
            extraction: self.extraction_id(),
            document_type: Some(word.to_owned()),
            similar: None,
        };
        let failed = ProposalOutcome::Failed { reason: word.to_owned() };
        for (outcome, decision) in [(failed, None), (ProposalOutcome::Proposed(proposed), Some(ProposalChange::Reject))]
        {
            let (id, document) = (self.id::<Proposal>(), document.clone());
            let create = ProposalChange::Create(Box::new(NewProposal { document, outcome, thread: None }));
            done(store.decide(&id, self.write(Expected::Absent, create)?).await?)?;
            if let Some(decision) = decision {
                done(store.decide(&id, self.write(Expected::Version(1), decision)?).await?)?;
            }
        }
        Ok(())
    }

    pub(crate) async fn delete_document(&self, id: &DocumentId) -> Result<(), Failure> {
        let version = self.stores.of::<Document>().get(&self.org, id).await?.map_or(0, |document| document.version);
        let write = self.write(Expected::Version(version), DocumentChange::Delete)?;
        done(self.stores.of::<Document>().decide(id, write).await?).map(|_| ())
    }

    pub(crate) fn usage_record(&self, key: &str) -> UsageRecord {
        UsageRecord {
            org: self.org.clone(),
            user: self.user.clone(),
            key: key.to_owned(),
            operation: "chat".to_owned(),
            model: "model".to_owned(),
            usage: Usage { input_tokens: 10, output_tokens: 2, model_calls: 1, ..Usage::default() },
            completed: true,
            document: None,
            charged: None,
            at: self.now(),
        }
    }

    pub(crate) fn ledger_row(&self, key: &str, credits: u64) -> LedgerRow {
        let row = LedgerRow::new(key, self.user.clone(), credits, self.now());
        LedgerRow { permit: self.fresh().to_string(), model: "model".to_owned(), input_tokens: 10, ..row }
    }

    /// Stores the text and the bytes of a document.
    pub(crate) async fn fill(&self, id: &DocumentId, pages: Vec<String>, bytes: String) -> Result<(), Failure> {
        let pages = (1..).zip(pages).map(|(number, text)| NewPage::of_text(number, text)).collect();
        let update = IngestUpdate { state: TextState::Ready, pages, lacks_program: false, at: self.now() };
        self.stores.texts.ingest(&self.org, id.as_str(), update).await?;
        let mut blob = self.stores.blobs.create(&blob_key(&self.org, id)).await?;
        blob.write(Bytes::from(bytes)).await?;
        Ok(blob.finish().await?)
    }

    /// Records the request of a write, as an operation does before it executes the write.
    pub(crate) async fn record<R: Resource, C>(&self, id: &R::Id, write: &Write<C>) -> Result<(), Failure> {
        let row = IdempotencyRecord { target: R::target(id), digest: write.digest.clone(), at: write.at };
        self.stores.ops.record_request(&self.org, &write.op, row).await?;
        Ok(())
    }

    pub(crate) fn new_thread(&self, documents: &[DocumentId]) -> NewThread {
        let principal = Principal::new(self.org.clone(), self.user.clone(), Role::Member);
        NewThread::new(self.thread_id(), &principal, "document", documents.to_vec(), self.now())
    }
}

/// Returns the key of the only blob of a document.
pub(crate) fn blob_key(org: &OrgId, document: &DocumentId) -> BlobKey {
    let (org, document, blob) = (org.clone(), document.clone(), BlobId::derive(&[document.as_str()]));
    BlobKey { org, document, blob }
}

pub(crate) fn create_document(name: &str, tags: &[TagId]) -> DocumentChange {
    DocumentChange::Create(NewDocument {
        tags: tags.to_vec(),
        ..NewDocument::file(name, "text/plain", b"hello", BlobId::derive(&[name]))
    })
}

/// Returns the origin of a member of an archive.
pub(crate) fn part_of(parent: DocumentId) -> DocumentPart {
    let (path, budget) = ("in/a.txt".to_owned(), PartBudget::default());
    DocumentPart { parent, position: 1, path, pages: None, depth: 1, budget }
}

pub(crate) fn create_extraction(document: &DocumentId, prompt: &PromptRevId, data: Value) -> ExtractionChange {
    ExtractionChange::Create(Box::new(new_extraction(document, prompt, data)))
}

fn new_extraction(document: &DocumentId, prompt: &PromptRevId, data: Value) -> NewExtraction {
    NewExtraction {
        document: document.clone(),
        prompt: prompt.clone(),
        schema: None,
        model: "model".to_owned(),
        data,
        report: ExtractionReport::default(),
        approvals: None,
    }
}

/// Returns the op row of a write. Fails on a version mismatch.
pub(crate) fn row(decided: WriteOutcome) -> Result<OpRow, Failure> {
    match decided {
        WriteOutcome::Row(row) => Ok(row),
        WriteOutcome::VersionMismatch => Err(Failure("unexpected version mismatch".to_owned())),
    }
}

/// Returns the result of an executed write.
pub(crate) fn done(decided: WriteOutcome) -> Result<OpResult, Failure> {
    match row(decided)?.state {
        OpState::Done(result) => Ok(result),
        other => Err(Failure(format!("the write was not executed: {other:?}"))),
    }
}

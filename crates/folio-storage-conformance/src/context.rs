//! What a suite works with: an organization of its own, a clock, fresh op keys, and things made in one line.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use folio_resources::{
    Document, DocumentChange, Extraction, ExtractionChange, NewDocument, NewExtraction, Prompt, PromptChange, Schema,
    SchemaChange, Tag, TagChange,
};
use folio_types::op::{Decided, Expected, OpKey, OpResult, OpRow, OpState, Write};
use folio_types::{
    Digest, DocumentId, ExtractionId, OrgId, PromptId, PromptRevId, SchemaId, SchemaRevId, TagId, ThreadId, Timestamp,
    UserId,
};
use serde_json::{Value, json};

use super::Failure;
use folio_storage::{NewThread, Stores};

/// Where a suite works.
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

    /// The same with another time to begin at.
    pub(crate) fn since(self, seconds: i64) -> Self {
        Self { seconds: AtomicI64::new(seconds), ..self }
    }

    /// Another organization on the same stores.
    pub(crate) fn other(&self) -> OrgId {
        OrgId::derive(&[&self.suite, &self.nonce, "other"])
    }

    /// The time: each asking is a second later.
    pub(crate) fn now(&self) -> Timestamp {
        let seconds = self.seconds.fetch_add(1, Ordering::Relaxed);
        Timestamp::from_second(seconds).unwrap_or(Timestamp::UNIX_EPOCH)
    }

    /// A number that was not given before.
    pub(crate) fn fresh(&self) -> u64 {
        self.number.fetch_add(1, Ordering::Relaxed)
    }

    fn id_parts(&self) -> [String; 3] {
        [self.suite.clone(), self.nonce.clone(), self.fresh().to_string()]
    }

    pub(crate) fn tag_id(&self) -> TagId {
        let [suite, nonce, number] = self.id_parts();
        TagId::derive(&[&suite, &nonce, &number])
    }

    pub(crate) fn schema_id(&self) -> SchemaId {
        let [suite, nonce, number] = self.id_parts();
        SchemaId::derive(&[&suite, &nonce, &number])
    }

    pub(crate) fn prompt_id(&self) -> PromptId {
        let [suite, nonce, number] = self.id_parts();
        PromptId::derive(&[&suite, &nonce, &number])
    }

    pub(crate) fn document_id(&self) -> DocumentId {
        let [suite, nonce, number] = self.id_parts();
        DocumentId::derive(&[&suite, &nonce, &number])
    }

    pub(crate) fn extraction_id(&self) -> ExtractionId {
        let [suite, nonce, number] = self.id_parts();
        ExtractionId::derive(&[&suite, &nonce, &number])
    }

    pub(crate) fn thread_id(&self) -> ThreadId {
        let [suite, nonce, number] = self.id_parts();
        ThreadId::derive(&[&suite, &nonce, &number])
    }

    /// An op key that was not used before.
    pub(crate) fn op(&self) -> Result<OpKey, Failure> {
        let request = format!("request/{}:{}", self.fresh(), self.suite).parse()?;
        Ok(OpKey::Request { user: self.user.clone(), request })
    }

    /// A write under an op key of its own.
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

    pub(crate) async fn tag(&self, name: &str) -> Result<TagId, Failure> {
        let id = self.tag_id();
        let write = self.write(Expected::Absent, create_tag(name))?;
        done(self.stores.of::<Tag>().decide(&id, write).await?)?;
        Ok(id)
    }

    pub(crate) async fn schema(&self, name: &str) -> Result<SchemaRevId, Failure> {
        let id = self.schema_id();
        let write = self.write(Expected::Absent, create_schema(name, &json!({"x": 1})))?;
        done(self.stores.of::<Schema>().decide(&id, write).await?)?;
        Ok(SchemaRevId::new(id, 1))
    }

    pub(crate) async fn prompt(
        &self,
        name: &str,
        schema: Option<&SchemaRevId>,
        tags: &[TagId],
    ) -> Result<PromptRevId, Failure> {
        let id = self.prompt_id();
        let write = self.write(Expected::Absent, create_prompt(name, schema, tags))?;
        done(self.stores.of::<Prompt>().decide(&id, write).await?)?;
        Ok(PromptRevId::new(id, 1))
    }

    pub(crate) async fn document(&self, name: &str, tags: &[TagId]) -> Result<DocumentId, Failure> {
        let id = self.document_id();
        let write = self.write(Expected::Absent, create_document(name, tags))?;
        done(self.stores.of::<Document>().decide(&id, write).await?)?;
        Ok(id)
    }

    pub(crate) async fn extraction(
        &self,
        document: &DocumentId,
        prompt: &PromptRevId,
        data: Value,
    ) -> Result<ExtractionId, Failure> {
        let id = self.extraction_id();
        let write = self.write(Expected::Absent, create_extraction(document, prompt, data))?;
        done(self.stores.of::<Extraction>().decide(&id, write).await?)?;
        Ok(id)
    }

    pub(crate) async fn delete_document(&self, id: &DocumentId) -> Result<(), Failure> {
        let version = self.stores.of::<Document>().get(&self.org, id).await?.map_or(0, |document| document.version);
        let write = self.write(Expected::Version(version), DocumentChange::Delete)?;
        done(self.stores.of::<Document>().decide(id, write).await?).map(|_| ())
    }

    pub(crate) fn new_thread(&self, documents: &[DocumentId]) -> NewThread {
        NewThread {
            id: self.thread_id(),
            org: self.org.clone(),
            user: self.user.clone(),
            profile: "document".to_owned(),
            documents: documents.to_vec(),
            title: String::new(),
            model: None,
            ephemeral: false,
            expires_at: None,
            imported: Vec::new(),
            request: None,
            at: self.now(),
        }
    }
}

pub(crate) fn create_tag(name: &str) -> TagChange {
    TagChange::Create { name: name.to_owned(), color: None, description: None }
}

pub(crate) fn create_schema(name: &str, format: &Value) -> SchemaChange {
    SchemaChange::Create { name: name.to_owned(), response_format: format.clone(), strict: true }
}

pub(crate) fn create_prompt(name: &str, schema: Option<&SchemaRevId>, tags: &[TagId]) -> PromptChange {
    PromptChange::Create {
        name: name.to_owned(),
        content: "Read it.".to_owned(),
        schema: schema.cloned(),
        model: None,
        tags: tags.to_vec(),
    }
}

pub(crate) fn create_document(name: &str, tags: &[TagId]) -> DocumentChange {
    DocumentChange::Create(NewDocument {
        name: name.to_owned(),
        media_type: "text/plain".to_owned(),
        size: 5,
        sha256: Digest::of(b"hello").as_str().to_owned(),
        tags: tags.to_vec(),
        metadata: BTreeMap::new(),
    })
}

pub(crate) fn create_extraction(document: &DocumentId, prompt: &PromptRevId, data: Value) -> ExtractionChange {
    ExtractionChange::Create(NewExtraction {
        document: document.clone(),
        prompt: prompt.clone(),
        schema: None,
        model: "model".to_owned(),
        data,
    })
}

/// The op row of a write that came to one.
pub(crate) fn row(decided: Decided) -> Result<OpRow, Failure> {
    match decided {
        Decided::Row(row) => Ok(row),
        Decided::Moved => Err(Failure("the target was as expected, and yet: moved".to_owned())),
    }
}

/// The result of a write that happened.
pub(crate) fn done(decided: Decided) -> Result<OpResult, Failure> {
    match row(decided)?.state {
        OpState::Done(result) => Ok(result),
        other => Err(Failure(format!("the write did not happen: {other:?}"))),
    }
}

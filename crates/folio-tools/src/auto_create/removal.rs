//! Removes what a run created and nothing else uses.

use folio_history::journal::Entry;
use folio_resources::{
    Extraction, ExtractionFilter, Prompt, Proposal, ProposalFilter, ProposalState, Resource, Schema, Tag,
};
use folio_storage::Stores;
use folio_types::op::{Expected, OpKey, Target, Write, WriteOutcome};
use folio_types::{Code, Digest, Error, OrgId, Principal, PromptId, Reason, Result, SchemaId, ThreadId, Timestamp};
use serde_json::json;

/// Number of journal entries of one read.
const ENTRIES_AT_ONCE: usize = 16;
/// Maximum number of attempts to delete a resource while other writes change it.
const ATTEMPTS: u32 = 5;

/// Returns the resources that the calls of a thread have created, or may have created, in the order of the calls. Each intent
/// of a creation is in the journal before its write.
pub async fn created_by_run(stores: &Stores, org: &OrgId, thread: &ThreadId) -> Result<Vec<Target>> {
    let mut created = Vec::new();
    let mut from = 0;
    loop {
        let entries = stores.threads.entries(org, thread, from, ENTRIES_AT_ONCE).await?;
        let Some((last, _)) = entries.last() else { return Ok(created) };
        from = last.saturating_add(1);
        created.extend(entries.into_iter().filter_map(|(_, entry)| match entry {
            Entry::Intent(intent) if intent.expected == Expected::Absent => Some(intent.target),
            _ => None,
        }));
    }
}

/// Deletes resources that nothing else uses: first extractions, then prompts, schemas and tags, because the former use the
/// latter. Idempotent.
///
/// A prompt is in use if it has tags, or another extraction or a proposal names it; a schema, if a prompt, an extraction or a
/// proposal names it; a tag, if a prompt or a document has it.
///
/// # Errors
/// `VERSION_CONFLICT` if other writes change a resource too often.
pub async fn remove_unused(stores: &Stores, principal: &Principal, targets: &[Target], at: Timestamp) -> Result<()> {
    let removal = Removal { stores, principal, at };
    for id in targets.iter().filter_map(Extraction::id_in) {
        removal.delete::<Extraction>(&id).await?;
    }
    for id in targets.iter().filter_map(Prompt::id_in) {
        if !removal.uses_prompt(&id).await? {
            removal.delete::<Prompt>(&id).await?;
        }
    }
    for id in targets.iter().filter_map(Schema::id_in) {
        if !removal.uses_schema(&id).await? {
            removal.delete::<Schema>(&id).await?;
        }
    }
    for id in targets.iter().filter_map(Tag::id_in) {
        removal.delete::<Tag>(&id).await?;
    }
    Ok(())
}

struct Removal<'a> {
    stores: &'a Stores,
    principal: &'a Principal,
    at: Timestamp,
}

impl Removal<'_> {
    async fn uses_prompt(&self, id: &PromptId) -> Result<bool> {
        let prompt = self.stores.of::<Prompt>().get(&self.principal.org, id).await?;
        if prompt.is_some_and(|prompt| !prompt.latest.tags.is_empty()) {
            return Ok(true);
        }
        let extractions = ExtractionFilter { prompt: Some(id.clone()), ..ExtractionFilter::default() };
        let proposals = ProposalFilter { any_prompt: vec![id.clone()], ..in_use() };
        self.is_named(&extractions, &proposals).await
    }

    async fn uses_schema(&self, id: &SchemaId) -> Result<bool> {
        let extractions = ExtractionFilter { schema: Some(id.clone()), ..ExtractionFilter::default() };
        let proposals = ProposalFilter { any_schema: vec![id.clone()], ..in_use() };
        self.is_named(&extractions, &proposals).await
    }

    async fn is_named(&self, extractions: &ExtractionFilter, proposals: &ProposalFilter) -> Result<bool> {
        let org = &self.principal.org;
        if self.stores.of::<Extraction>().first(org, extractions).await?.is_some() {
            return Ok(true);
        }
        Ok(self.stores.of::<Proposal>().first(org, proposals).await?.is_some())
    }

    /// Deletes a resource unless another one references it.
    async fn delete<R: Resource>(&self, id: &R::Id) -> Result<()> {
        let (org, store) = (&self.principal.org, self.stores.of::<R>());
        for _ in 0..ATTEMPTS {
            let Some(found) = store.get(org, id).await? else { return Ok(()) };
            let version = found.version();
            let write = Write {
                org: org.clone(),
                op: OpKey::Request {
                    user: self.principal.user.clone(),
                    request: format!("auto-create-remove-{id}-{version}").parse()?,
                },
                digest: Digest::of_json(&json!({ "remove": id.to_string(), "version": version })),
                by: self.principal.user.clone(),
                at: self.at,
                expected: Expected::Version(version),
                change: R::DELETE,
            };
            match store.decide(id, write).await {
                Ok(WriteOutcome::Row(_)) => return Ok(()),
                Ok(WriteOutcome::VersionMismatch) => {}
                Err(error) if error.reason == Reason::InUse || error.code == Code::NotFound => return Ok(()),
                Err(error) => return Err(error),
            }
        }
        let message = format!("the {} {id} was changed concurrently", R::KIND);
        Err(Error::version_conflict(message))
    }
}

/// Returns the filter of the proposals whose resources are in use.
fn in_use() -> ProposalFilter {
    ProposalFilter { any_state: vec![ProposalState::Proposed, ProposalState::Accepted], ..ProposalFilter::default() }
}

//! Prompts and their revisions.

use std::collections::BTreeSet;
use std::sync::Arc;

use async_trait::async_trait;
use folio_types::op::{Decided, OpResult, Target, Write};
use folio_types::page::{Page, PageRequest};
use folio_types::prompt::{Prompt, PromptRevision};
use folio_types::{Error, OrgId, PromptId, PromptRevId, Result, SchemaRevId, TagId, Timestamp};

use super::decide::{decide, gone, tombstone};
use super::engine::Engine;
use super::keys::{self, Kind, Space};
use super::listing::{self, Listing, Search};
use super::reads::{Range, Reads};
use super::transaction::Transaction;
use super::value::{ListRow, Record};
use super::{documents, names, references, schemas};
use crate::planted::Bug;
use crate::traits::{PromptChange, PromptFilter, PromptStore};

fn live(reads: &impl Reads, org: &OrgId, id: &PromptId) -> Result<Option<Prompt>> {
    let record = reads.read::<Record<Prompt>>(Space::Records, &keys::record(org, Kind::Prompt, id.as_str()))?;
    Ok(record.and_then(Record::live))
}

fn revision(reads: &impl Reads, org: &OrgId, revid: &PromptRevId) -> Result<Option<PromptRevision>> {
    let Some(prompt) = live(reads, org, &revid.of)? else { return Ok(None) };
    if prompt.latest.revid == *revid {
        return Ok(Some(prompt.latest));
    }
    let key = keys::revision(org, revid.of.as_str(), revid.version);
    let revision = reads.read::<PromptRevision>(Space::Records, &key)?;
    Ok(revision.map(|revision| PromptRevision { name: prompt.latest.name, ..revision }))
}

pub(crate) struct Prompts(pub(crate) Arc<Engine>);

#[async_trait]
impl PromptStore for Prompts {
    async fn decide(&self, id: &PromptId, write: Write<PromptChange>) -> Result<Decided> {
        let id = id.clone();
        self.0.write(move |transaction| change(transaction, &id, &write)).await
    }

    async fn get(&self, org: &OrgId, id: &PromptId) -> Result<Option<Prompt>> {
        self.0.read(|view| live(view, org, id))
    }

    async fn revision(&self, org: &OrgId, revid: &PromptRevId) -> Result<Option<PromptRevision>> {
        self.0.read(|view| revision(view, org, revid))
    }

    async fn revisions(&self, org: &OrgId, revids: &[PromptRevId]) -> Result<Vec<PromptRevision>> {
        self.0.read(|view| {
            let found: Result<Vec<_>> = revids.iter().map(|revid| revision(view, org, revid)).collect();
            Ok(found?.into_iter().flatten().collect())
        })
    }

    async fn by_name(&self, org: &OrgId, name: &str) -> Result<Option<Prompt>> {
        self.0.read(|view| match names::holder(view, org, Kind::Prompt, name)? {
            Some(id) => live(view, org, &id.parse()?),
            None => Ok(None),
        })
    }

    async fn list(&self, org: &OrgId, filter: &PromptFilter, page: &PageRequest) -> Result<Page<Prompt>> {
        let (org, filter, page) = (org.clone(), filter.clone(), page.clone());
        self.0.scan(move |view| list(view, &org, &filter, &page)).await
    }

    async fn versions(&self, org: &OrgId, id: &PromptId, page: &PageRequest) -> Result<Page<PromptRevision>> {
        let (org, id, page) = (org.clone(), id.clone(), page.clone());
        self.0
            .scan(move |view| {
                let Some(prompt) = live(view, &org, &id)? else {
                    return Ok(Page { items: Vec::new(), next: None, total: 0 });
                };
                let listing = Listing {
                    prefix: keys::revisions(&org, id.as_str()),
                    filter: String::new(),
                    total: Some(u64::from(prompt.latest.revid.version)),
                    matches: &|_: &PromptRevision| true,
                    name: &|_| "",
                };
                listing.page(view, &page, |revision| {
                    let bytes = revision.content.len();
                    Ok((PromptRevision { name: prompt.latest.name.clone(), ..revision }, bytes))
                })
            })
            .await
    }
}

fn list(reads: &impl Reads, org: &OrgId, filter: &PromptFilter, page: &PageRequest) -> Result<Page<Prompt>> {
    let search = Search::new(filter.name_search.as_ref());
    let document_tags = match &filter.document {
        Some(document) => Some(documents::live(reads, org, document)?.map(|found| found.tags).unwrap_or_default()),
        None => None,
    };
    let shares = |tags: &[TagId], with: &[TagId]| tags.iter().any(|tag| with.contains(tag));
    let unfiltered =
        search.is_none() && filter.any_tag.is_empty() && filter.all_tags.is_empty() && document_tags.is_none();
    let listing = Listing {
        prefix: keys::list(org, Kind::Prompt),
        filter: format!("{search:?}{:?}{:?}{:?}", filter.any_tag, filter.all_tags, filter.document),
        total: if unfiltered { Some(listing::total(reads, org, Kind::Prompt)?) } else { None },
        matches: &|row: &ListRow| {
            search.finds(&row.name)
                && (filter.any_tag.is_empty() || shares(&row.tags, &filter.any_tag))
                && filter.all_tags.iter().all(|tag| row.tags.contains(tag))
                && document_tags.as_ref().is_none_or(|tags| shares(&row.tags, tags))
        },
        name: &|row| &row.name,
    };
    listing.page(reads, page, |row| {
        listing::item::<Record<Prompt>, _>(reads, &keys::record(org, Kind::Prompt, &row.id), Record::live)
    })
}

fn change(transaction: &mut Transaction<'_>, id: &PromptId, write: &Write<PromptChange>) -> Result<Decided> {
    let target = Target::Prompt(id.clone());
    let key = keys::record(&write.org, Kind::Prompt, id.as_str());
    let record = transaction.read::<Record<Prompt>>(Space::Records, &key)?;
    decide(transaction, &target, write, record, |transaction, record| match (&write.change, record) {
        (PromptChange::Create { name, content, schema, model, tags }, None) => {
            names::claim(transaction, &write.org, Kind::Prompt, name, id.as_str())?;
            let latest = PromptRevision {
                revid: PromptRevId::new(id.clone(), 1),
                org: write.org.clone(),
                name: name.clone(),
                content: content.clone(),
                schema: schema.clone(),
                model: model.clone(),
                tags: references::distinct(tags),
                created_by: write.by.clone(),
                created_at: write.at,
            };
            let prompt = Prompt { id: id.clone(), version: 1, latest };
            references_live(transaction, &prompt.latest)?;
            let used = used_by(&prompt.latest);
            references::replace(transaction, &write.org, id.as_str(), &BTreeSet::new(), &used)?;
            store(transaction, prompt, write.at, true)
        }
        (PromptChange::Update { name, content, schema, model, tags }, Some(Record::Live(before))) => {
            let mut after = before.latest.clone();
            after.name.clone_from(name.as_ref().unwrap_or(&before.latest.name));
            after.content.clone_from(content.as_ref().unwrap_or(&before.latest.content));
            after.schema.clone_from(schema.as_ref().unwrap_or(&before.latest.schema));
            after.model.clone_from(model.as_ref().unwrap_or(&before.latest.model));
            if let Some(tags) = tags {
                after.tags = references::distinct(tags);
            }
            update(transaction, write, &before, after)
        }
        (PromptChange::Delete, Some(Record::Live(before))) => {
            names::free(transaction, &write.org, Kind::Prompt, &before.latest.name, id.as_str())?;
            let used = used_by_all(transaction, &write.org, id)?;
            references::replace(transaction, &write.org, id.as_str(), &used, &BTreeSet::new())?;
            let created_at = created_at(transaction, &write.org, &before)?;
            listing::remove_row(transaction, &write.org, Kind::Prompt, created_at, id.as_str())?;
            transaction.remove_all(Space::Records, keys::revisions(&write.org, id.as_str()))?;
            let tombstone = tombstone::<Prompt>(transaction, before.version, write.at);
            transaction.put(Space::Records, key, &tombstone)?;
            Ok(OpResult::Deleted)
        }
        _ => Err(gone(&target)),
    })
}

fn update(
    transaction: &mut Transaction<'_>,
    write: &Write<PromptChange>,
    before: &Prompt,
    mut after: PromptRevision,
) -> Result<OpResult> {
    let id = before.id.as_str();
    if after == before.latest {
        return Ok(result(before, false));
    }
    if after.name != before.latest.name {
        names::rename(transaction, &write.org, Kind::Prompt, id, &before.latest.name, &after.name)?;
    }
    let revised = PromptRevision { name: before.latest.name.clone(), ..after.clone() } != before.latest;
    if revised {
        references_live(transaction, &after)?;
        let used = used_by(&after);
        // What an older revision uses stays used: it can still be read and run.
        let forgotten =
            if transaction.plan().has(Bug::OldRevisionForgotten) { used_by(&before.latest) } else { BTreeSet::new() };
        references::replace(transaction, &write.org, id, &forgotten, &used)?;
        after.revid.version += 1;
        after.created_by = write.by.clone();
        after.created_at = write.at;
    }
    let created_at = created_at(transaction, &write.org, before)?;
    let prompt = Prompt { id: before.id.clone(), version: before.version + 1, latest: after };
    store(transaction, prompt, created_at, revised)
}

/// Refuses with `NOT_FOUND` unless what the revision refers to lives.
fn references_live(reads: &impl Reads, revision: &PromptRevision) -> Result<()> {
    references::tags_live(reads, &revision.org, &revision.tags)?;
    match &revision.schema {
        Some(schema) if !reads.plan().has(Bug::ReferenceUnchecked) => {
            let found: Option<SchemaRevId> = schemas::revision(reads, &revision.org, schema)?.map(|found| found.revid);
            found.map(|_| ()).ok_or_else(|| Error::not_found("schema revision", schema))
        }
        _ => Ok(()),
    }
}

fn used_by(revision: &PromptRevision) -> BTreeSet<String> {
    let tags = revision.tags.iter().map(ToString::to_string);
    tags.chain(revision.schema.iter().map(|schema| schema.of.to_string())).collect()
}

fn used_by_all(reads: &impl Reads, org: &OrgId, id: &PromptId) -> Result<BTreeSet<String>> {
    let range = Range::prefix(Space::Records, keys::revisions(org, id.as_str()));
    let revisions: Vec<PromptRevision> = reads.values(range, usize::MAX)?;
    Ok(revisions.iter().flat_map(used_by).collect())
}

/// When the prompt was made: with its first revision.
fn created_at(reads: &impl Reads, org: &OrgId, prompt: &Prompt) -> Result<Timestamp> {
    let first = reads.read::<PromptRevision>(Space::Records, &keys::revision(org, prompt.id.as_str(), 1))?;
    Ok(first.map_or(prompt.latest.created_at, |first| first.created_at))
}

fn result(prompt: &Prompt, revised: bool) -> OpResult {
    OpResult::Prompt {
        revid: prompt.latest.revid.clone(),
        name: prompt.latest.name.clone(),
        schema: prompt.latest.schema.clone(),
        revised,
    }
}

fn store(transaction: &mut Transaction<'_>, prompt: Prompt, created_at: Timestamp, revised: bool) -> Result<OpResult> {
    let org = prompt.latest.org.clone();
    let row = ListRow {
        id: prompt.id.to_string(),
        name: prompt.latest.name.clone(),
        tags: prompt.latest.tags.clone(),
        ..ListRow::default()
    };
    listing::put_row(transaction, &org, Kind::Prompt, created_at, &row)?;
    if revised {
        let key = keys::revision(&org, prompt.id.as_str(), prompt.latest.revid.version);
        transaction.put(Space::Records, key, &prompt.latest)?;
    }
    let result = result(&prompt, revised);
    let key = keys::record(&org, Kind::Prompt, prompt.id.as_str());
    transaction.put(Space::Records, key, &Record::Live(prompt))?;
    Ok(result)
}

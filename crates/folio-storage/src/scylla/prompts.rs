//! Prompts and their revisions.

use std::collections::BTreeSet;
use std::sync::Arc;

use async_trait::async_trait;
use folio_types::document::Document;
use folio_types::op::{Decided, OpResult, Target, Write};
use folio_types::page::{Page, PageRequest};
use folio_types::prompt::{Prompt, PromptRevision};
use folio_types::{OrgId, PromptId, PromptRevId, Result, SchemaRevId, TagId};

use super::aggregate::{Aggregate, gone, live};
use super::catalogue::{Lookup, Query, name_pieces};
use super::decide::{Plan, decide};
use super::items::{each, list};
use super::keyspace::Keyspace;
use super::{names, revisions};
use crate::naming::{Kind, Search, folded};
use crate::traits::{PromptChange, PromptFilter, PromptStore};
use crate::value::{ListRow, decode, encode};

fn used_by(revision: &PromptRevision) -> BTreeSet<String> {
    let tags = revision.tags.iter().map(ToString::to_string);
    tags.chain(revision.schema.iter().map(|schema| schema.of.to_string())).collect()
}

impl Aggregate for Prompt {
    const KIND: Kind = Kind::Prompt;
    const KEEPS_REVISIONS: bool = true;

    fn version(&self) -> u64 {
        self.version
    }

    fn listed(&self) -> ListRow {
        ListRow {
            id: self.id.to_string(),
            name: self.latest.name.clone(),
            tags: self.latest.tags.clone(),
            ..ListRow::default()
        }
    }

    fn name(&self) -> Option<&str> {
        Some(&self.latest.name)
    }

    fn uses(&self) -> BTreeSet<String> {
        used_by(&self.latest)
    }

    fn schema(&self) -> Option<&SchemaRevId> {
        self.latest.schema.as_ref()
    }

    fn revision(&self) -> Result<Option<(u32, Vec<u8>)>> {
        Ok(Some((self.latest.revid.version, encode(&self.latest)?)))
    }

    fn revision_uses(stored: &[u8]) -> Result<BTreeSet<String>> {
        decode(stored).map(|revision| used_by(&revision))
    }
}

pub(crate) struct Prompts(pub(crate) Arc<Keyspace>);

#[async_trait]
impl PromptStore for Prompts {
    async fn decide(&self, id: &PromptId, write: Write<PromptChange>) -> Result<Decided> {
        let target = Target::Prompt(id.clone());
        decide(&self.0, &target, &write, |before| plan(id, &write, before)).await
    }

    async fn get(&self, org: &OrgId, id: &PromptId) -> Result<Option<Prompt>> {
        live(&self.0, org, id.as_str()).await
    }

    async fn revision(&self, org: &OrgId, revid: &PromptRevId) -> Result<Option<PromptRevision>> {
        let Some(prompt) = self.get(org, &revid.of).await? else { return Ok(None) };
        if prompt.latest.revid == *revid {
            return Ok(Some(prompt.latest));
        }
        let found = revisions::one::<PromptRevision>(&self.0, org, revid.of.as_str(), revid.version).await?;
        Ok(found.map(|revision| PromptRevision { name: prompt.latest.name, ..revision }))
    }

    async fn revisions(&self, org: &OrgId, revids: &[PromptRevId]) -> Result<Vec<PromptRevision>> {
        each(revids.to_vec(), |revid| async move { self.revision(org, &revid).await }).await
    }

    async fn by_name(&self, org: &OrgId, name: &str) -> Result<Option<Prompt>> {
        let Some(id) = names::holder(&self.0, org, (Kind::Prompt, name)).await? else { return Ok(None) };
        let found: Option<Prompt> = live(&self.0, org, &id).await?;
        Ok(found.filter(|prompt| folded(&prompt.latest.name) == folded(name)))
    }

    async fn list(&self, org: &OrgId, filter: &PromptFilter, page: &PageRequest) -> Result<Page<Prompt>> {
        let search = Search::new(filter.name_search.as_ref());
        let document_tags = match &filter.document {
            Some(document) => {
                let found: Option<Document> = live(&self.0, org, document.as_str()).await?;
                Some(found.map(|found| found.tags).unwrap_or_default())
            }
            None => None,
        };
        let of_tags = |tags: &[TagId]| tags.iter().map(Lookup::tag).collect::<Vec<_>>();
        let mut filters: Vec<Vec<Lookup>> = filter.all_tags.iter().map(|tag| vec![Lookup::tag(tag)]).collect();
        filters.extend((!filter.any_tag.is_empty()).then(|| of_tags(&filter.any_tag)));
        filters.extend(document_tags.as_deref().map(of_tags));
        filters.extend(search.piece().map(|piece| vec![name_pieces(piece)]));
        let shares = |tags: &[TagId], with: &[TagId]| tags.iter().any(|tag| with.contains(tag));
        let query = Query {
            kind: Kind::Prompt,
            base: None,
            filters,
            word: format!("{search:?}{:?}{:?}{:?}", filter.any_tag, filter.all_tags, filter.document),
            matches: &|row| {
                search.finds(&row.name)
                    && (filter.any_tag.is_empty() || shares(&row.tags, &filter.any_tag))
                    && filter.all_tags.iter().all(|tag| row.tags.contains(tag))
                    && document_tags.as_ref().is_none_or(|tags| shares(&row.tags, tags))
            },
        };
        list(&self.0, org, query, page).await
    }

    async fn versions(&self, org: &OrgId, id: &PromptId, page: &PageRequest) -> Result<Page<PromptRevision>> {
        let Some(prompt) = self.get(org, id).await? else {
            return Ok(Page { items: Vec::new(), next: None, total: 0 });
        };
        let latest = prompt.latest.revid.version;
        let mut page: Page<PromptRevision> = revisions::page(&self.0, org, id.as_str(), latest, page).await?;
        for revision in &mut page.items {
            revision.name.clone_from(&prompt.latest.name);
        }
        Ok(page)
    }
}

fn plan(id: &PromptId, write: &Write<PromptChange>, before: Option<Prompt>) -> Result<Plan<Prompt>> {
    let done = |prompt: Prompt, revised| {
        let result = OpResult::Prompt {
            revid: prompt.latest.revid.clone(),
            name: prompt.latest.name.clone(),
            schema: prompt.latest.schema.clone(),
            revised,
        };
        Ok(Plan { after: Some(prompt), result })
    };
    match (&write.change, before) {
        (PromptChange::Create { name, content, schema, model, tags }, None) => {
            let latest = PromptRevision {
                revid: PromptRevId::new(id.clone(), 1),
                org: write.org.clone(),
                name: name.clone(),
                content: content.clone(),
                schema: schema.clone(),
                model: model.clone(),
                tags: distinct(tags),
                created_by: write.by.clone(),
                created_at: write.at,
            };
            done(Prompt { id: id.clone(), version: 1, latest }, true)
        }
        (PromptChange::Update { name, content, schema, model, tags }, Some(before)) => {
            let mut after = before.latest.clone();
            after.name.clone_from(name.as_ref().unwrap_or(&before.latest.name));
            after.content.clone_from(content.as_ref().unwrap_or(&before.latest.content));
            after.schema.clone_from(schema.as_ref().unwrap_or(&before.latest.schema));
            after.model.clone_from(model.as_ref().unwrap_or(&before.latest.model));
            if let Some(tags) = tags {
                after.tags = distinct(tags);
            }
            if after == before.latest {
                return done(before, false);
            }
            let revised = PromptRevision { name: before.latest.name.clone(), ..after.clone() } != before.latest;
            if revised {
                after.revid.version += 1;
                after.created_by = write.by.clone();
                after.created_at = write.at;
            }
            done(Prompt { id: before.id, version: before.version + 1, latest: after }, revised)
        }
        (PromptChange::Delete, Some(_)) => Ok(Plan { after: None, result: OpResult::Deleted }),
        _ => Err(gone(&Target::Prompt(id.clone()))),
    }
}

/// Tags without doubles, in the order given.
pub(crate) fn distinct(tags: &[TagId]) -> Vec<TagId> {
    let mut seen = BTreeSet::new();
    tags.iter().filter(|tag| seen.insert(*tag)).cloned().collect()
}

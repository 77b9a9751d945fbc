//! Tags.

use std::sync::Arc;

use async_trait::async_trait;
use folio_types::op::{Decided, OpResult, Target, Write};
use folio_types::page::{Page, PageRequest};
use folio_types::tag::Tag;
use folio_types::{OrgId, Result, TagId};

use super::aggregate::{Aggregate, gone, live};
use super::catalogue::{Query, name_pieces};
use super::decide::{Plan, decide};
use super::items::{each, list};
use super::keyspace::Keyspace;
use super::names;
use crate::naming::{Kind, Search, folded};
use crate::traits::{TagChange, TagFilter, TagStore};
use crate::value::ListRow;

impl Aggregate for Tag {
    const KIND: Kind = Kind::Tag;

    fn version(&self) -> u64 {
        self.version
    }

    fn listed(&self) -> ListRow {
        ListRow { id: self.id.to_string(), name: self.name.clone(), ..ListRow::default() }
    }

    fn name(&self) -> Option<&str> {
        Some(&self.name)
    }
}

pub(crate) struct Tags(pub(crate) Arc<Keyspace>);

#[async_trait]
impl TagStore for Tags {
    async fn decide(&self, id: &TagId, write: Write<TagChange>) -> Result<Decided> {
        let target = Target::Tag(id.clone());
        decide(&self.0, &target, &write, |before| plan(id, &write, before)).await
    }

    async fn get(&self, org: &OrgId, id: &TagId) -> Result<Option<Tag>> {
        live(&self.0, org, id.as_str()).await
    }

    async fn get_many(&self, org: &OrgId, ids: &[TagId]) -> Result<Vec<Tag>> {
        each(ids.to_vec(), |id| async move { self.get(org, &id).await }).await
    }

    async fn by_name(&self, org: &OrgId, name: &str) -> Result<Option<Tag>> {
        let Some(id) = names::holder(&self.0, org, (Kind::Tag, name)).await? else { return Ok(None) };
        let found: Option<Tag> = live(&self.0, org, &id).await?;
        Ok(found.filter(|tag| folded(&tag.name) == folded(name)))
    }

    async fn list(&self, org: &OrgId, filter: &TagFilter, page: &PageRequest) -> Result<Page<Tag>> {
        let search = Search::new(filter.name_search.as_ref());
        let query = Query {
            kind: Kind::Tag,
            base: None,
            filters: search.piece().map(|piece| vec![name_pieces(piece)]).into_iter().collect(),
            word: format!("{search:?}"),
            matches: &|row| search.finds(&row.name),
        };
        list(&self.0, org, query, page).await
    }
}

fn plan(id: &TagId, write: &Write<TagChange>, before: Option<Tag>) -> Result<Plan<Tag>> {
    let done = |tag: Tag| {
        let result = OpResult::Tag { id: tag.id.clone(), name: tag.name.clone() };
        Ok(Plan { after: Some(tag), result })
    };
    match (&write.change, before) {
        (TagChange::Create { name, color, description }, None) => done(Tag {
            id: id.clone(),
            org: write.org.clone(),
            name: name.clone(),
            color: color.clone(),
            description: description.clone(),
            created_by: write.by.clone(),
            created_at: write.at,
            updated_at: write.at,
            version: 1,
        }),
        (TagChange::Update { name, color, description }, Some(before)) => {
            let mut tag = before.clone();
            tag.name.clone_from(name.as_ref().unwrap_or(&before.name));
            tag.color.clone_from(color.as_ref().unwrap_or(&before.color));
            tag.description.clone_from(description.as_ref().unwrap_or(&before.description));
            if tag != before {
                tag.version += 1;
                tag.updated_at = write.at;
            }
            done(tag)
        }
        (TagChange::Delete, Some(_)) => Ok(Plan { after: None, result: OpResult::Deleted }),
        _ => Err(gone(&Target::Tag(id.clone()))),
    }
}

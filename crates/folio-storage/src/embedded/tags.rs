//! Tags.

use std::sync::Arc;

use async_trait::async_trait;
use folio_types::op::{Decided, OpResult, Target, Write};
use folio_types::page::{Page, PageRequest};
use folio_types::tag::Tag;
use folio_types::{OrgId, Result, TagId};

use super::decide::{decide, gone, tombstone};
use super::engine::Engine;
use super::keys::{self, Kind, Space};
use super::listing::{self, Listing, Search};
use super::reads::Reads;
use super::transaction::Transaction;
use super::value::{ListRow, Record};
use super::{names, references};
use crate::traits::{TagChange, TagFilter, TagStore};

/// The live tag.
pub(crate) fn live(reads: &impl Reads, org: &OrgId, id: &TagId) -> Result<Option<Tag>> {
    let record = reads.read::<Record<Tag>>(Space::Records, &keys::record(org, Kind::Tag, id.as_str()))?;
    Ok(record.and_then(Record::live))
}

pub(crate) struct Tags(pub(crate) Arc<Engine>);

#[async_trait]
impl TagStore for Tags {
    async fn decide(&self, id: &TagId, write: Write<TagChange>) -> Result<Decided> {
        let id = id.clone();
        self.0.write(move |transaction| change(transaction, &id, &write)).await
    }

    async fn get(&self, org: &OrgId, id: &TagId) -> Result<Option<Tag>> {
        self.0.read(|view| live(view, org, id))
    }

    async fn get_many(&self, org: &OrgId, ids: &[TagId]) -> Result<Vec<Tag>> {
        self.0.read(|view| {
            let tags: Result<Vec<_>> = ids.iter().map(|id| live(view, org, id)).collect();
            Ok(tags?.into_iter().flatten().collect())
        })
    }

    async fn by_name(&self, org: &OrgId, name: &str) -> Result<Option<Tag>> {
        self.0.read(|view| match names::holder(view, org, Kind::Tag, name)? {
            Some(id) => live(view, org, &id.parse()?),
            None => Ok(None),
        })
    }

    async fn list(&self, org: &OrgId, filter: &TagFilter, page: &PageRequest) -> Result<Page<Tag>> {
        let (org, search, page) = (org.clone(), Search::new(filter.name_search.as_ref()), page.clone());
        self.0
            .scan(move |view| {
                let listing = Listing {
                    prefix: keys::list(&org, Kind::Tag),
                    filter: format!("{search:?}"),
                    total: if search.is_none() { Some(listing::total(view, &org, Kind::Tag)?) } else { None },
                    matches: &|row: &ListRow| search.finds(&row.name),
                    name: &|row| &row.name,
                };
                listing.page(view, &page, |row| {
                    listing::item::<Record<Tag>, _>(view, &keys::record(&org, Kind::Tag, &row.id), Record::live)
                })
            })
            .await
    }
}

fn change(transaction: &mut Transaction<'_>, id: &TagId, write: &Write<TagChange>) -> Result<Decided> {
    let target = Target::Tag(id.clone());
    let key = keys::record(&write.org, Kind::Tag, id.as_str());
    let record = transaction.read::<Record<Tag>>(Space::Records, &key)?;
    decide(transaction, &target, write, record, |transaction, record| match (&write.change, record) {
        (TagChange::Create { name, color, description }, None) => {
            let tag = Tag {
                id: id.clone(),
                org: write.org.clone(),
                name: name.clone(),
                color: color.clone(),
                description: description.clone(),
                created_by: write.by.clone(),
                created_at: write.at,
                updated_at: write.at,
                version: 1,
            };
            names::claim(transaction, &write.org, Kind::Tag, name, id.as_str())?;
            store(transaction, tag)
        }
        (TagChange::Update { name, color, description }, Some(Record::Live(before))) => {
            let mut tag = before.clone();
            tag.name.clone_from(name.as_ref().unwrap_or(&before.name));
            tag.color.clone_from(color.as_ref().unwrap_or(&before.color));
            tag.description.clone_from(description.as_ref().unwrap_or(&before.description));
            if tag == before {
                return Ok(result(&tag));
            }
            names::rename(transaction, &write.org, Kind::Tag, id.as_str(), &before.name, &tag.name)?;
            tag.version += 1;
            tag.updated_at = write.at;
            store(transaction, tag)
        }
        (TagChange::Delete, Some(Record::Live(before))) => {
            references::refuse_if_used(transaction, &write.org, "tag", id.as_str())?;
            names::free(transaction, &write.org, Kind::Tag, &before.name, id.as_str())?;
            listing::remove_row(transaction, &write.org, Kind::Tag, before.created_at, id.as_str())?;
            let tombstone = tombstone::<Tag>(transaction, before.version, write.at);
            transaction.put(Space::Records, key, &tombstone)?;
            Ok(OpResult::Deleted)
        }
        _ => Err(gone(&target)),
    })
}

fn result(tag: &Tag) -> OpResult {
    OpResult::Tag { id: tag.id.clone(), name: tag.name.clone() }
}

fn store(transaction: &mut Transaction<'_>, tag: Tag) -> Result<OpResult> {
    let row = ListRow { id: tag.id.to_string(), name: tag.name.clone(), ..ListRow::default() };
    listing::put_row(transaction, &tag.org, Kind::Tag, tag.created_at, &row)?;
    let result = result(&tag);
    let key = keys::record(&tag.org, Kind::Tag, tag.id.as_str());
    transaction.put(Space::Records, key, &Record::Live(tag))?;
    Ok(result)
}

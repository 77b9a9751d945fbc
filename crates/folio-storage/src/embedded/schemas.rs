//! Schemas and their revisions.

use std::sync::Arc;

use async_trait::async_trait;
use folio_types::op::{Decided, OpResult, Target, Write};
use folio_types::page::{Page, PageRequest};
use folio_types::schema::{Schema, SchemaRevision};
use folio_types::{OrgId, Result, SchemaId, SchemaRevId};
use serde_json::Value;

use super::decide::{decide, gone, tombstone};
use super::engine::Engine;
use super::keys::{self, Kind, Space};
use super::listing::{self, Listing, Search};
use super::reads::Reads;
use super::transaction::Transaction;
use super::value::{ListRow, Record};
use super::{names, references};
use crate::traits::{SchemaChange, SchemaFilter, SchemaStore};

/// The live schema.
pub(crate) fn live(reads: &impl Reads, org: &OrgId, id: &SchemaId) -> Result<Option<Schema>> {
    let record = reads.read::<Record<Schema>>(Space::Records, &keys::record(org, Kind::Schema, id.as_str()))?;
    Ok(record.and_then(Record::live))
}

/// A revision of a live schema, under the name that the schema has now.
pub(crate) fn revision(reads: &impl Reads, org: &OrgId, revid: &SchemaRevId) -> Result<Option<SchemaRevision>> {
    let Some(schema) = live(reads, org, &revid.of)? else { return Ok(None) };
    if schema.latest.revid == *revid {
        return Ok(Some(schema.latest));
    }
    let key = keys::revision(org, revid.of.as_str(), revid.version);
    let revision = reads.read::<SchemaRevision>(Space::Records, &key)?;
    Ok(revision.map(|revision| SchemaRevision { name: schema.latest.name, ..revision }))
}

pub(crate) struct Schemas(pub(crate) Arc<Engine>);

#[async_trait]
impl SchemaStore for Schemas {
    async fn decide(&self, id: &SchemaId, write: Write<SchemaChange>) -> Result<Decided> {
        let id = id.clone();
        self.0.write(move |transaction| change(transaction, &id, &write)).await
    }

    async fn get(&self, org: &OrgId, id: &SchemaId) -> Result<Option<Schema>> {
        self.0.read(|view| live(view, org, id))
    }

    async fn revision(&self, org: &OrgId, revid: &SchemaRevId) -> Result<Option<SchemaRevision>> {
        self.0.read(|view| revision(view, org, revid))
    }

    async fn revisions(&self, org: &OrgId, revids: &[SchemaRevId]) -> Result<Vec<SchemaRevision>> {
        self.0.read(|view| {
            let found: Result<Vec<_>> = revids.iter().map(|revid| revision(view, org, revid)).collect();
            Ok(found?.into_iter().flatten().collect())
        })
    }

    async fn by_name(&self, org: &OrgId, name: &str) -> Result<Option<Schema>> {
        self.0.read(|view| match names::holder(view, org, Kind::Schema, name)? {
            Some(id) => live(view, org, &id.parse()?),
            None => Ok(None),
        })
    }

    async fn list(&self, org: &OrgId, filter: &SchemaFilter, page: &PageRequest) -> Result<Page<Schema>> {
        let (org, search, page) = (org.clone(), Search::new(filter.name_search.as_ref()), page.clone());
        self.0
            .scan(move |view| {
                let listing = Listing {
                    prefix: keys::list(&org, Kind::Schema),
                    filter: format!("{search:?}"),
                    total: if search.is_none() { Some(listing::total(view, &org, Kind::Schema)?) } else { None },
                    matches: &|row: &ListRow| search.finds(&row.name),
                    name: &|row| &row.name,
                };
                listing.page(view, &page, |row| {
                    listing::item::<Record<Schema>, _>(view, &keys::record(&org, Kind::Schema, &row.id), Record::live)
                })
            })
            .await
    }

    async fn versions(&self, org: &OrgId, id: &SchemaId, page: &PageRequest) -> Result<Page<SchemaRevision>> {
        let (org, id, page) = (org.clone(), id.clone(), page.clone());
        self.0
            .scan(move |view| {
                let Some(schema) = live(view, &org, &id)? else {
                    return Ok(Page { items: Vec::new(), next: None, total: 0 });
                };
                let listing = Listing {
                    prefix: keys::revisions(&org, id.as_str()),
                    filter: String::new(),
                    total: Some(u64::from(schema.latest.revid.version)),
                    matches: &|_: &SchemaRevision| true,
                    name: &|_| "",
                };
                listing.page(view, &page, |revision| {
                    let bytes = revision.response_format.to_string().len();
                    Ok((SchemaRevision { name: schema.latest.name.clone(), ..revision }, bytes))
                })
            })
            .await
    }
}

fn change(transaction: &mut Transaction<'_>, id: &SchemaId, write: &Write<SchemaChange>) -> Result<Decided> {
    let target = Target::Schema(id.clone());
    let key = keys::record(&write.org, Kind::Schema, id.as_str());
    let record = transaction.read::<Record<Schema>>(Space::Records, &key)?;
    decide(transaction, &target, write, record, |transaction, record| match (&write.change, record) {
        (SchemaChange::Create { name, response_format, strict }, None) => {
            names::claim(transaction, &write.org, Kind::Schema, name, id.as_str())?;
            let latest = new_revision(id, write, 1, name, response_format, *strict);
            let row = ListRow { id: id.to_string(), name: name.clone(), ..ListRow::default() };
            listing::put_row(transaction, &write.org, Kind::Schema, write.at, &row)?;
            store(transaction, Schema { id: id.clone(), version: 1, latest }, true)
        }
        (SchemaChange::Update { name, response_format }, Some(Record::Live(before))) => {
            update(transaction, write, before, name.as_ref(), response_format.as_ref())
        }
        (SchemaChange::Delete, Some(Record::Live(before))) => {
            references::refuse_if_used(transaction, &write.org, "schema", id.as_str())?;
            names::free(transaction, &write.org, Kind::Schema, &before.latest.name, id.as_str())?;
            let created_at = created_at(transaction, &write.org, &before)?;
            listing::remove_row(transaction, &write.org, Kind::Schema, created_at, id.as_str())?;
            transaction.remove_all(Space::Records, keys::revisions(&write.org, id.as_str()))?;
            let tombstone = tombstone::<Schema>(transaction, before.version, write.at);
            transaction.put(Space::Records, key, &tombstone)?;
            Ok(OpResult::Deleted)
        }
        _ => Err(gone(&target)),
    })
}

fn new_revision(
    id: &SchemaId,
    write: &Write<SchemaChange>,
    version: u32,
    name: &str,
    response_format: &Value,
    strict: bool,
) -> SchemaRevision {
    SchemaRevision {
        revid: SchemaRevId::new(id.clone(), version),
        org: write.org.clone(),
        name: name.to_owned(),
        response_format: response_format.clone(),
        strict,
        created_by: write.by.clone(),
        created_at: write.at,
    }
}

fn update(
    transaction: &mut Transaction<'_>,
    write: &Write<SchemaChange>,
    before: Schema,
    name: Option<&String>,
    response_format: Option<&(Value, bool)>,
) -> Result<OpResult> {
    let (org, id) = (write.org.clone(), before.id.clone());
    let name = name.unwrap_or(&before.latest.name).clone();
    // The text is compared, not the value: the order of a schema's properties is what a person sees.
    let (text, strict_before) = (before.latest.response_format.to_string(), before.latest.strict);
    let revised = response_format.filter(|(format, strict)| {
        let new_text = format.to_string();
        *strict != strict_before || new_text != text
    });
    if revised.is_none() && name == before.latest.name {
        return Ok(result(&before, false));
    }
    if name != before.latest.name {
        names::rename(transaction, &org, Kind::Schema, id.as_str(), &before.latest.name, &name)?;
        let created_at = created_at(transaction, &org, &before)?;
        let row = ListRow { id: id.to_string(), name: name.clone(), ..ListRow::default() };
        listing::put_row(transaction, &org, Kind::Schema, created_at, &row)?;
    }
    let latest = match revised {
        Some((format, strict)) => new_revision(&id, write, before.latest.revid.version + 1, &name, format, *strict),
        None => SchemaRevision { name, ..before.latest },
    };
    store(transaction, Schema { id, version: before.version + 1, latest }, revised.is_some())
}

/// When the schema was made: with its first revision.
fn created_at(reads: &impl Reads, org: &OrgId, schema: &Schema) -> Result<folio_types::Timestamp> {
    let first = reads.read::<SchemaRevision>(Space::Records, &keys::revision(org, schema.id.as_str(), 1))?;
    Ok(first.map_or(schema.latest.created_at, |first| first.created_at))
}

fn result(schema: &Schema, revised: bool) -> OpResult {
    OpResult::Schema { revid: schema.latest.revid.clone(), name: schema.latest.name.clone(), revised }
}

fn store(transaction: &mut Transaction<'_>, schema: Schema, revised: bool) -> Result<OpResult> {
    let org = schema.latest.org.clone();
    if revised {
        let key = keys::revision(&org, schema.id.as_str(), schema.latest.revid.version);
        transaction.put(Space::Records, key, &schema.latest)?;
    }
    let result = result(&schema, revised);
    let key = keys::record(&org, Kind::Schema, schema.id.as_str());
    transaction.put(Space::Records, key, &Record::Live(schema))?;
    Ok(result)
}

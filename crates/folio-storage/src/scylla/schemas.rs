//! Schemas and their revisions.

use std::sync::Arc;

use async_trait::async_trait;
use folio_types::op::{Decided, OpResult, Target, Write};
use folio_types::page::{Page, PageRequest};
use folio_types::schema::{Schema, SchemaRevision};
use folio_types::{OrgId, Result, SchemaId, SchemaRevId};

use super::aggregate::{Aggregate, gone, live};
use super::catalogue::{Query, name_pieces};
use super::decide::{Plan, decide};
use super::items::{each, list};
use super::keyspace::Keyspace;
use super::{names, revisions};
use crate::naming::{Kind, Search, folded};
use crate::traits::{SchemaChange, SchemaFilter, SchemaStore};
use crate::value::{ListRow, encode};

impl Aggregate for Schema {
    const KIND: Kind = Kind::Schema;
    const KEEPS_REVISIONS: bool = true;

    fn version(&self) -> u64 {
        self.version
    }

    fn listed(&self) -> ListRow {
        ListRow { id: self.id.to_string(), name: self.latest.name.clone(), ..ListRow::default() }
    }

    fn name(&self) -> Option<&str> {
        Some(&self.latest.name)
    }

    fn revision(&self) -> Result<Option<(u32, Vec<u8>)>> {
        Ok(Some((self.latest.revid.version, encode(&self.latest)?)))
    }
}

/// A revision of a live schema, under the name that the schema has now.
pub(crate) async fn revision(keyspace: &Keyspace, org: &OrgId, revid: &SchemaRevId) -> Result<Option<SchemaRevision>> {
    let Some(schema) = live::<Schema>(keyspace, org, revid.of.as_str()).await? else { return Ok(None) };
    if schema.latest.revid == *revid {
        return Ok(Some(schema.latest));
    }
    let found = revisions::one::<SchemaRevision>(keyspace, org, revid.of.as_str(), revid.version).await?;
    Ok(found.map(|revision| SchemaRevision { name: schema.latest.name, ..revision }))
}

pub(crate) struct Schemas(pub(crate) Arc<Keyspace>);

#[async_trait]
impl SchemaStore for Schemas {
    async fn decide(&self, id: &SchemaId, write: Write<SchemaChange>) -> Result<Decided> {
        let target = Target::Schema(id.clone());
        decide(&self.0, &target, &write, |before| plan(id, &write, before)).await
    }

    async fn get(&self, org: &OrgId, id: &SchemaId) -> Result<Option<Schema>> {
        live(&self.0, org, id.as_str()).await
    }

    async fn revision(&self, org: &OrgId, revid: &SchemaRevId) -> Result<Option<SchemaRevision>> {
        revision(&self.0, org, revid).await
    }

    async fn revisions(&self, org: &OrgId, revids: &[SchemaRevId]) -> Result<Vec<SchemaRevision>> {
        each(revids.to_vec(), |revid| async move { revision(&self.0, org, &revid).await }).await
    }

    async fn by_name(&self, org: &OrgId, name: &str) -> Result<Option<Schema>> {
        let Some(id) = names::holder(&self.0, org, (Kind::Schema, name)).await? else { return Ok(None) };
        let found: Option<Schema> = live(&self.0, org, &id).await?;
        Ok(found.filter(|schema| folded(&schema.latest.name) == folded(name)))
    }

    async fn list(&self, org: &OrgId, filter: &SchemaFilter, page: &PageRequest) -> Result<Page<Schema>> {
        let search = Search::new(filter.name_search.as_ref());
        let query = Query {
            kind: Kind::Schema,
            base: None,
            filters: search.piece().map(|piece| vec![name_pieces(piece)]).into_iter().collect(),
            word: format!("{search:?}"),
            matches: &|row| search.finds(&row.name),
        };
        list(&self.0, org, query, page).await
    }

    async fn versions(&self, org: &OrgId, id: &SchemaId, page: &PageRequest) -> Result<Page<SchemaRevision>> {
        let Some(schema) = self.get(org, id).await? else {
            return Ok(Page { items: Vec::new(), next: None, total: 0 });
        };
        let latest = schema.latest.revid.version;
        let mut page: Page<SchemaRevision> = revisions::page(&self.0, org, id.as_str(), latest, page).await?;
        for revision in &mut page.items {
            revision.name.clone_from(&schema.latest.name);
        }
        Ok(page)
    }
}

fn plan(id: &SchemaId, write: &Write<SchemaChange>, before: Option<Schema>) -> Result<Plan<Schema>> {
    let done = |schema: Schema, revised| {
        let result = OpResult::Schema { revid: schema.latest.revid.clone(), name: schema.latest.name.clone(), revised };
        Ok(Plan { after: Some(schema), result })
    };
    match (&write.change, before) {
        (SchemaChange::Create { name, response_format, strict }, None) => {
            let latest = SchemaRevision {
                revid: SchemaRevId::new(id.clone(), 1),
                org: write.org.clone(),
                name: name.clone(),
                response_format: response_format.clone(),
                strict: *strict,
                created_by: write.by.clone(),
                created_at: write.at,
            };
            done(Schema { id: id.clone(), version: 1, latest }, true)
        }
        (SchemaChange::Update { name, response_format }, Some(mut schema)) => {
            let name = name.as_ref().unwrap_or(&schema.latest.name).clone();
            // The text is compared, not the value: the order of a schema's properties is what a person sees.
            let (text, strict_before) = (schema.latest.response_format.to_string(), schema.latest.strict);
            let revised = response_format.as_ref().filter(|(format, strict)| {
                let new_text = format.to_string();
                *strict != strict_before || new_text != text
            });
            if revised.is_none() && name == schema.latest.name {
                return done(schema, false);
            }
            schema.version += 1;
            schema.latest.name = name;
            if let Some((format, strict)) = revised {
                schema.latest.revid.version += 1;
                schema.latest.response_format = format.clone();
                schema.latest.strict = *strict;
                schema.latest.created_by = write.by.clone();
                schema.latest.created_at = write.at;
            }
            done(schema, revised.is_some())
        }
        (SchemaChange::Delete, Some(_)) => Ok(Plan { after: None, result: OpResult::Deleted }),
        _ => Err(gone(&Target::Schema(id.clone()))),
    }
}

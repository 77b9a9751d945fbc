//! Resources of every kind.
//!
//! The partition of a resource with text contains the fields that users change, under the resource's version, and the
//! state of the text, under a version of its own. The two kinds of writes never change the same columns.
//! [`super::texts`] stores the text itself.

use std::ops::RangeInclusive;
use std::sync::Arc;

use async_trait::async_trait;
use folio_resources::{Cleanup, Kind, ListQuery, NewName, Record, ResourceWrite, STALE_AFTER};
use folio_types::op::{Expected, OpState, WriteOutcome};
use folio_types::page::{Page, PageRequest};
use folio_types::{BlobId, OrgId, Result, Timestamp};
use futures::stream::{StreamExt as _, TryStreamExt as _};

use super::catalogue::{self, CatalogueRow, Query};
use super::keyspace::Keyspace;
use super::record::{load, load_live};
use super::session::Read;
use super::table::{Part, Position, SystemRow};
use super::values::micros;
use super::{cleanup, content_sizes, decide, names, references, revisions, texts};
use folio_storage::value::{DeletionRow, encode};
use folio_storage::{ResourceExecutor, ResourceUsage, StoredResource, TextWait};

/// Maximum number of concurrent reads for one request.
const READ_CONCURRENCY: usize = 16;

pub(crate) struct Resources(pub(crate) Arc<Keyspace>);

#[async_trait]
impl ResourceExecutor for Resources {
    async fn decide(&self, write: ResourceWrite) -> Result<WriteOutcome> {
        let (keyspace, kind, org, id) = (&self.0, write.kind, &write.org, write.id.as_str());
        if kind.has_parent {
            cleanup::delete_if_parent_deleted(keyspace, org, id).await?;
        }
        // These index rows are written before the deciding write: a crash leaves a dangling row rather than a resource
        // that waits forever or is never cleaned up. A reader of a row also reads the resource.
        if kind.has_text && write.expected == Expected::Absent {
            texts::wait(keyspace, TextWait::Worker, org, id).await?;
        }
        let is_indexed = write.deletes && kind.cleanup != Cleanup::Nothing;
        if is_indexed {
            enter_deleted(keyspace, kind, org, id, write.at).await?;
        }
        let decided = decide::decide(keyspace, &write).await?;
        if let WriteOutcome::Row(row) = &decided
            && is_indexed
            && matches!(row.state, OpState::Done(_))
        {
            // Enters the row again, because the sweep may have removed it as stale while the resource was still live.
            enter_deleted(keyspace, kind, org, id, row.at).await?;
            if kind.has_text {
                cleanup::remove_texts(keyspace, org, id).await?;
            }
        }
        Ok(decided)
    }

    async fn get(&self, org: &OrgId, _: &'static Kind, ids: &[String]) -> Result<Vec<Option<StoredResource>>> {
        let read = |id: String| async move { load_live(&self.0, org, &id, Read::Quorum).await };
        futures::stream::iter(ids.to_vec()).map(read).buffered(READ_CONCURRENCY).try_collect().await
    }

    async fn id_by_name(&self, org: &OrgId, kind: &'static Kind, name: &str) -> Result<Option<String>> {
        names::id_by_name(&self.0, org, (kind.name, name)).await
    }

    async fn list(&self, org: &OrgId, query: ListQuery, page: &PageRequest) -> Result<Page<StoredResource>> {
        let ListQuery { kind, conditions, filter, .. } = query;
        let query = Query::new(kind.name, &conditions, filter);
        let (keyspace, query) = (&*self.0, &query);
        let load = move |found| item(keyspace, org, query, found);
        catalogue::page(keyspace, org, query, page, move |found| Box::pin(load(found))).await
    }

    async fn list_versions(&self, org: &OrgId, query: ListQuery, page: &PageRequest) -> Result<Page<(String, u64)>> {
        let ListQuery { kind, conditions, filter, .. } = query;
        let query = Query::new(kind.name, &conditions, filter);
        let keyspace = &*self.0;
        let load = move |found| item_version(keyspace, org, found);
        catalogue::page(keyspace, org, &query, page, move |found| Box::pin(load(found))).await
    }

    async fn versions(&self, org: &OrgId, _: &'static Kind, ids: &[String]) -> Result<Vec<Option<u64>>> {
        let read = |id: String| async move {
            Ok(self.0.tables.aggregates.live_version(org, &id).await?.map(|(version, _)| version))
        };
        futures::stream::iter(ids.to_vec()).map(read).buffered(READ_CONCURRENCY).try_collect().await
    }

    async fn matching_ids(&self, org: &OrgId, query: ListQuery, max: usize) -> Result<Vec<String>> {
        let ListQuery { kind, conditions, filter, .. } = query;
        catalogue::matching_ids(&self.0, org, &Query::new(kind.name, &conditions, filter), max).await
    }

    async fn referrers(&self, org: &OrgId, kind: &'static Kind, referenced: &str, max: usize) -> Result<Vec<String>> {
        references::referrers(&self.0, org, kind, referenced, max).await
    }

    async fn revision_numbers(&self, org: &OrgId, id: &str) -> Result<Vec<u32>> {
        revisions::numbers(&self.0, org, id).await
    }

    async fn name_revision(&self, org: &OrgId, name: NewName) -> Result<()> {
        revisions::add_name(&self.0, org, &name).await
    }

    async fn revisions(&self, org: &OrgId, id: &str, numbers: &[u32]) -> Result<Vec<Option<Vec<u8>>>> {
        let read = |number: u32| async move {
            let key = revisions::key(number);
            self.0.tables.aggregates.row(org, id, (Part::Revision, &key), Read::Quorum).await
        };
        futures::stream::iter(numbers.to_vec()).map(read).buffered(READ_CONCURRENCY).try_collect().await
    }

    async fn resource_usage(&self, org: &OrgId, kind: &'static Kind) -> Result<ResourceUsage> {
        let mut sum = ResourceUsage::default();
        catalogue::for_each_row(&self.0, org, kind.name, |row| {
            sum = sum + ResourceUsage { count: 1, bytes: row.size_bytes };
        })
        .await?;
        Ok(sum)
    }

    async fn content_bytes(&self, org: &OrgId) -> Result<u64> {
        content_sizes::total(&self.0, org).await
    }

    async fn set_blob_bytes(&self, org: &OrgId, id: &str, blob: &BlobId, bytes: u64, at: Timestamp) -> Result<()> {
        let header = self.0.tables.aggregates.header(org, id, Read::Quorum).await?;
        let bytes = if header.live == Some(true) { bytes } else { 0 };
        content_sizes::put(&self.0, org, &format!("{id}/{blob}"), bytes, micros(at).cast_unsigned()).await
    }

    async fn set_image_bytes(&self, org: &OrgId, id: &str, bytes: u64, at: Timestamp) -> Result<()> {
        content_sizes::put(&self.0, org, id, bytes, micros(at).cast_unsigned()).await
    }

    async fn indexed_deletions(
        &self,
        kind: &'static Kind,
        times: &RangeInclusive<Timestamp>,
        after: Option<&DeletionRow>,
        limit: usize,
    ) -> Result<Vec<DeletionRow>> {
        let times = (micros(*times.start()), micros(*times.end()));
        let mut after = after.map(|row| (micros(row.at), key(&row.org, &row.id)));
        let (index, mut found) = (deleted_index(kind), Vec::new());
        while found.len() < limit {
            let missing = limit - found.len();
            let rows = self.0.tables.system_rows.after(&index, times, after.take(), missing).await?;
            for row in &rows {
                found.extend(self.0.decode_row::<DeletionRow>(&index, &row.key, &row.value)?);
            }
            match rows.into_iter().nth(missing - 1) {
                Some(last) => after = Some((last.at, last.key)),
                None => break,
            }
        }
        Ok(found)
    }

    async fn confirm_deletion(&self, kind: &'static Kind, row: &DeletionRow) -> Result<bool> {
        let (keyspace, entered_at) = (&*self.0, micros(row.at));
        let is_stale = match load(keyspace, &row.org, &row.id, Read::Serial).await?.record {
            Some(Record::Tombstone { at, .. }) if at == row.at => return Ok(true),
            // Another write deleted the resource and has its own row.
            Some(Record::Tombstone { .. }) => true,
            // The write was never executed, or it is in progress and will enter its row again.
            Some(Record::Live(_)) | None => keyspace.age(entered_at) > STALE_AFTER,
        };
        if is_stale {
            keyspace.tables.system_rows.remove(&deleted_index(kind), entered_at, &key(&row.org, &row.id)).await?;
        }
        Ok(false)
    }

    async fn clean_deleted(&self, org: &OrgId, kind: &'static Kind, id: &str, is_final: bool) -> Result<()> {
        cleanup::clean(&self.0, org, kind, id, is_final).await
    }
}

/// Returns the resource of a list row if the row still describes the resource; otherwise removes the row.
async fn item(
    keyspace: &Keyspace,
    org: &OrgId,
    query: &Query<'_>,
    found: CatalogueRow,
) -> Result<Option<(StoredResource, usize)>> {
    let loaded = load(keyspace, org, &found.position.id, Read::Quorum).await?;
    if loaded.header.created_at == found.position.at
        && let Some(Record::Live(fields)) = &loaded.record
        && fields.row.matches(query.conditions)
    {
        return Ok(loaded.stored().map(|stored| {
            let bytes = stored.record.len();
            (stored, bytes)
        }));
    }
    catalogue::repair_found(keyspace, org, &found).await?;
    Ok(None)
}

/// Returns the id and the version of the resource of a list row, with the size 0, because no record is read. Removes the
/// row if the resource does not exist.
async fn item_version(keyspace: &Keyspace, org: &OrgId, found: CatalogueRow) -> Result<Option<((String, u64), usize)>> {
    let Position { id, at, .. } = &found.position;
    if let Some((version, created_at)) = keyspace.tables.aggregates.live_version(org, id).await?
        && created_at == *at
    {
        return Ok(Some(((id.clone(), version), 0)));
    }
    catalogue::repair_found(keyspace, org, &found).await?;
    Ok(None)
}

pub(crate) fn deleted_index(kind: &Kind) -> String {
    format!("deleted/{}", kind.name)
}

async fn enter_deleted(keyspace: &Keyspace, kind: &Kind, org: &OrgId, id: &str, at: Timestamp) -> Result<()> {
    let index_row = DeletionRow { org: org.clone(), id: id.to_owned(), at };
    let row = SystemRow { at: micros(at), key: key(org, id), value: encode(&index_row)? };
    keyspace.tables.system_rows.put(&deleted_index(kind), row).await
}

pub(crate) fn key(org: &OrgId, id: &str) -> String {
    format!("{org}/{id}")
}

//! The clean-up of a deleted resource, whose partition lists its dependents.
//!
//! Every step is idempotent. The process that deletes a resource runs the steps immediately. The clean-up job repeats
//! them until it removes the deletion from the index.

use folio_resources::{DependentDeletion, Kind, ListRow, Record};
use folio_types::op::{OpRow, Target};
use folio_types::{OrgId, Result, Timestamp};

use super::catalogue::{self, ListEntry};
use super::keyspace::Keyspace;
use super::record::load;
use super::resources::{deleted_index, key};
use super::session::{ConditionalResult, Read};
use super::table::Part;
use super::values::micros;
use super::{dependents, retry, texts};
use folio_storage::TextWait;
use folio_storage::value::{decode, encode};

/// Writes a tombstone into the partition of each dependent of a deleted resource, so that later writes to the
/// dependents are refused, and removes the texts of the resource.
pub(crate) async fn delete_dependents(keyspace: &Keyspace, org: &OrgId, id: &str, at: Timestamp) -> Result<()> {
    for dependent in dependents::entries(keyspace, org, id, Part::Dependent).await? {
        delete_dependent(keyspace, org, &dependent, at).await?;
    }
    if Kind::of_id(id)?.has_text {
        texts::remove_all(keyspace, org, id).await?;
        for waits_for in [TextWait::Worker, TextWait::Program] {
            texts::remove_wait(keyspace, waits_for, org, id).await?;
        }
    }
    Ok(())
}

/// Deletes a resource if its parent was deleted and the clean-up has not deleted the resource yet.
pub(crate) async fn delete_if_parent_deleted(keyspace: &Keyspace, org: &OrgId, id: &str) -> Result<()> {
    let Some(fields) = load(keyspace, org, id, Read::Quorum).await?.live() else { return Ok(()) };
    let Some(parent) = fields.parent else { return Ok(()) };
    match load(keyspace, org, &parent, Read::Quorum).await?.record {
        Some(Record::Tombstone { at, .. }) => delete_dependent(keyspace, org, id, at).await,
        Some(Record::Live(_)) | None => Ok(()),
    }
}

/// Ends the clean-up of a deleted resource: removes the content from its op rows and the deletion from the index.
pub(crate) async fn finish(keyspace: &Keyspace, org: &OrgId, kind: &'static Kind, id: &str) -> Result<()> {
    let loaded = load(keyspace, org, id, Read::Serial).await?;
    let Some(Record::Tombstone { at, .. }) = loaded.record else { return Ok(()) };
    delete_dependents(keyspace, org, id, at).await?;
    // The deletion may have stopped before it removed the list row.
    let row = ListRow { id: id.to_owned(), ..ListRow::default() };
    catalogue::repair_row(keyspace, org, &ListEntry { row, at: loaded.header.created_at, version: 0 }).await?;
    for dependent in dependents::entries(keyspace, org, id, Part::Dependent).await? {
        remove_content(keyspace, org, &Target::new(Kind::of_id(&dependent)?.name, &dependent)).await?;
        dependents::remove(keyspace, org, id, (Part::Dependent, &dependent)).await?;
    }
    for generation in dependents::entries(keyspace, org, id, Part::Text).await? {
        dependents::remove(keyspace, org, id, (Part::Text, &generation)).await?;
    }
    remove_content(keyspace, org, &Target::new(kind.name, id)).await?;
    keyspace.tables.system_rows.remove(&deleted_index(kind), micros(at), &key(org, id)).await
}

/// Reduces the op rows of a target to ids and times.
pub(crate) async fn remove_content(keyspace: &Keyspace, org: &OrgId, target: &Target) -> Result<()> {
    let id = target.id();
    for (key, stored) in keyspace.tables.aggregates.rows(org, id, (Part::Op, ""), usize::MAX).await? {
        let mut row: OpRow = decode(&stored)?;
        if row.remove_content() {
            let replaced = keyspace.tables.aggregates.replace(org, id, (Part::Op, &key), encode(&row)?);
            if let ConditionalResult::Unknown(error) = keyspace.commit(vec![replaced]).await? {
                return Err(error);
            }
        }
    }
    Ok(())
}

/// Writes the tombstone of a dependent, without an op row, and removes its list rows.
async fn delete_dependent(keyspace: &Keyspace, org: &OrgId, id: &str, at: Timestamp) -> Result<()> {
    for attempt in 0..retry::ATTEMPTS {
        let stored = load(keyspace, org, id, Read::Serial).await?.record;
        let Some(deletion) = DependentDeletion::plan(id, stored, at)? else { return Ok(()) };
        let DependentDeletion { kind, from, to, tombstone, list_before } = deletion;
        let change = keyspace.tables.aggregates.change(org, id, (from, to), (false, tombstone), false);
        if let ConditionalResult::Applied = keyspace.commit(vec![change]).await? {
            let before = ListEntry::from(&list_before);
            return catalogue::remove_old_rows(keyspace, org, kind.name, &before, None, to).await;
        }
        retry::pause(attempt, keyspace.random()).await;
    }
    Err(retry::contended("a dependent resource"))
}

//! The clean-up of a deleted resource, whose partition lists its dependents and has its revisions.
//!
//! Every step is idempotent, and reads and removes a bounded number of rows at once. The clean-up job repeats the steps
//! until it removes the deletion from the index; after an interruption it continues with the first remaining row.

use std::collections::BTreeSet;

use folio_resources::{Cleanup, DependentDeletion, Kind, ListRow, Record, RevisionNames};
use folio_types::op::OpRow;
use folio_types::{OrgId, Result, Timestamp};

use super::catalogue::{self, ListEntry};
use super::key_pages::{KeyPages, PAGE_ROWS_MAX};
use super::keyspace::Keyspace;
use super::record::load;
use super::resources::{deleted_index, key};
use super::session::{ConditionalResult, Read};
use super::table::Part;
use super::values::micros;
use super::{dependents, references, retry, revisions, texts};
use folio_storage::TextWait;
use folio_storage::value::{decode, encode};

/// Maximum revisions that are removed at once, each with its row of names.
// proto: none "bounds a batch"
const REVISIONS_AT_ONCE_MAX: usize = PAGE_ROWS_MAX / 2;

/// Removes the rows that a deletion left, page by page. `is_final`: also removes the content of op rows, and the deletion
/// from the index.
pub(crate) async fn clean(
    keyspace: &Keyspace,
    org: &OrgId,
    kind: &'static Kind,
    id: &str,
    is_final: bool,
) -> Result<()> {
    let loaded = load(keyspace, org, id, Read::Serial).await?;
    let Some(Record::Tombstone { at, .. }) = loaded.record else { return Ok(()) };
    if kind.keeps_revisions {
        remove_revisions(keyspace, org, kind, id, is_final).await?;
    }
    if kind.has_text {
        remove_texts(keyspace, org, id).await?;
    }
    delete_dependents(keyspace, org, id, at).await?;
    if !is_final {
        return Ok(());
    }
    // The deletion may have stopped before it removed the list row.
    let row = ListRow { id: id.to_owned(), ..ListRow::default() };
    catalogue::repair_row(keyspace, org, &ListEntry { row, at: loaded.header.created_at, version: 0 }).await?;
    let mut pages = KeyPages::new(keyspace, org, id, Part::Dependent);
    while let Some(page) = pages.next_page().await? {
        for dependent in &page {
            remove_rows(keyspace, org, dependent, &[Part::Data]).await?;
            remove_content(keyspace, org, dependent).await?;
            dependents::remove(keyspace, org, id, (Part::Dependent, dependent)).await?;
        }
    }
    remove_rows(keyspace, org, id, &[Part::Text]).await?;
    if kind.cleanup == Cleanup::Dependents {
        remove_content(keyspace, org, id).await?;
    }
    keyspace.tables.system_rows.remove(&deleted_index(kind), micros(at), &key(org, id)).await
}

/// Removes the texts of a deleted resource, which are few partitions.
pub(crate) async fn remove_texts(keyspace: &Keyspace, org: &OrgId, id: &str) -> Result<()> {
    texts::remove_all(keyspace, org, id).await?;
    for waits_for in [TextWait::Worker, TextWait::Program] {
        texts::remove_wait(keyspace, waits_for, org, id).await?;
    }
    Ok(())
}

/// Removes the revisions of a deleted resource with their names and references. Reads the rows of names, which are small,
/// and not the content. `is_final`: also removes the row with the numbers of the revisions. Earlier clean-ups keep that row,
/// so that a repetition does not read the tombstones of all removed revisions.
async fn remove_revisions(
    keyspace: &Keyspace,
    org: &OrgId,
    kind: &'static Kind,
    id: &str,
    is_final: bool,
) -> Result<()> {
    let aggregates = &keyspace.tables.aggregates;
    for page in revisions::numbers(keyspace, org, id).await?.chunks(REVISIONS_AT_ONCE_MAX) {
        let (mut referenced, mut keys) = (BTreeSet::new(), Vec::with_capacity(page.len()));
        for (key, stored) in revisions::names(keyspace, org, id, page).await? {
            let mut references = match decode::<RevisionNames>(&stored)?.references {
                Some(references) => references,
                None => match aggregates.row(org, id, (Part::Revision, &key), Read::Quorum).await? {
                    Some(content) => kind.revision_references(&content)?,
                    None => BTreeSet::new(),
                },
            };
            referenced.append(&mut references);
            keys.push(key);
        }
        for referenced in referenced {
            references::remove_dead(keyspace, org, &referenced, id).await?;
        }
        remove_page(keyspace, org, id, &[Part::Names, Part::Revision], &keys).await?;
    }
    if is_final {
        remove_rows(keyspace, org, id, &[Part::Numbers]).await?;
    }
    Ok(())
}

/// Removes all rows of parts, whose rows have equal keys.
async fn remove_rows(keyspace: &Keyspace, org: &OrgId, id: &str, parts: &[Part]) -> Result<()> {
    let Some(first) = parts.first() else { return Ok(()) };
    let mut pages = KeyPages::new(keyspace, org, id, *first);
    while let Some(keys) = pages.next_page().await? {
        remove_page(keyspace, org, id, parts, &keys).await?;
    }
    Ok(())
}

/// Removes rows with these keys in one batch. Another process that removed them concurrently has the same effect.
async fn remove_page(keyspace: &Keyspace, org: &OrgId, id: &str, parts: &[Part], keys: &[String]) -> Result<()> {
    let rows = keys.iter().flat_map(|key| parts.iter().map(move |part| (*part, key.as_str())));
    let statements: Vec<_> = rows.map(|row| keyspace.tables.aggregates.remove_existing(org, id, row)).collect();
    if statements.is_empty() {
        return Ok(());
    }
    match keyspace.commit(statements).await? {
        ConditionalResult::Applied => return Ok(()),
        ConditionalResult::Unknown(error) => return Err(error),
        ConditionalResult::Refused => {}
    }
    // Some rows were removed before.
    for key in keys {
        for part in parts {
            dependents::remove(keyspace, org, id, (*part, key)).await?;
        }
    }
    Ok(())
}

/// Writes a tombstone into the partition of each dependent of a deleted resource, so that later writes to the dependents
/// are refused.
async fn delete_dependents(keyspace: &Keyspace, org: &OrgId, id: &str, at: Timestamp) -> Result<()> {
    let mut pages = KeyPages::new(keyspace, org, id, Part::Dependent);
    while let Some(page) = pages.next_page().await? {
        for dependent in &page {
            delete_dependent(keyspace, org, dependent, at).await?;
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

/// Reduces the op rows of a resource to ids and times.
async fn remove_content(keyspace: &Keyspace, org: &OrgId, id: &str) -> Result<()> {
    let aggregates = &keyspace.tables.aggregates;
    let mut pages = KeyPages::new(keyspace, org, id, Part::Op);
    while let Some(page) = pages.next_page().await? {
        for key in &page {
            let stored = aggregates.row(org, id, (Part::Op, key), Read::Quorum).await?;
            let Some(mut row) = stored.map(|stored| decode::<OpRow>(&stored)).transpose()? else { continue };
            if row.remove_content() {
                let replaced = aggregates.replace(org, id, (Part::Op, key), encode(&row)?);
                if let ConditionalResult::Unknown(error) = keyspace.commit(vec![replaced]).await? {
                    return Err(error);
                }
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

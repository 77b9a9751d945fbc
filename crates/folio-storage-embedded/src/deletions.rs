//! Removes the rows that a deletion left, in pages: of a resource by the clean-up, and of a thread by its deletion.
//!
//! A page is read outside the writer, so other writes wait only for a transaction that removes a bounded number of keys.
//! Each step may be repeated. The deletion stays in its index until the last step; a clean-up that was interrupted starts
//! again and finds the remaining rows.

use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use folio_resources::{Cleanup, DependentDeletion, Kind, Record, RevisionNames};
use folio_types::op::{OpRow, Target};
use folio_types::{OrgId, Result, Timestamp};

use super::engine::Engine;
use super::keys::{self, Space};
use super::listing;
use super::reads::{Range, Reads};
use super::resources::{is_live, record};
use super::transaction::Transaction;
use super::value::{decode, encode};

/// Maximum rows of a page. The transaction of a page delays the writes that share its commit.
// proto: none "bounds a transaction"
const PAGE_ROWS_MAX: usize = 10;
/// Size of the values from which a page ends, in bytes.
// proto: none "bounds a transaction"
const PAGE_BYTES: usize = 256 * 1024;
/// Time between two pages. Most writes then share neither their commit nor a processor with a page, which takes less than 1 ms.
const PAGE_PAUSE: Duration = Duration::from_millis(2);

/// A key and its value.
type Row<'a> = (&'a [u8], &'a [u8]);
/// Returns the value of a key in the snapshot from which a page was read. None: the key does not exist.
type Lookup<'a> = &'a dyn Fn(Space, &[u8]) -> Result<Option<Vec<u8>>>;

pub(crate) struct Deletion {
    pub(crate) engine: Arc<Engine>,
    pub(crate) org: OrgId,
    pub(crate) kind: &'static Kind,
    pub(crate) id: String,
}

impl Deletion {
    pub(crate) async fn clean(&self, is_final: bool) -> Result<()> {
        let Self { engine, org, kind, id } = self;
        let Some(Record::Tombstone { at, .. }) = engine.read(|view| record(view, org, id))? else { return Ok(()) };
        if kind.keeps_revisions {
            self.remove_revisions().await?;
        }
        if kind.has_text {
            self.remove_all(Range::prefix(Space::Text, keys::pages(org, id))).await?;
        }
        self.delete_dependents(at).await?;
        if is_final {
            if kind.cleanup == Cleanup::Dependents {
                self.remove_content_of_dependents().await?;
                self.remove_content(Target::new(kind.name, id)).await?;
            }
            let key = keys::deleted(kind.name, at, org, id);
            self.write(move |transaction| remove_keys(transaction, Space::System, [key])).await?;
        }
        Ok(())
    }

    /// Writes without an fsync of its own. A loss of power reverts this write and all later ones.
    async fn write<F>(&self, run: F) -> Result<()>
    where
        F: FnOnce(&mut Transaction<'_>) -> Result<()> + Send + 'static,
    {
        self.engine.write_lazily(run).await
    }

    async fn remove_all(&self, range: Range) -> Result<()> {
        let space = range.space;
        let plan = |_: Lookup<'_>, (key, _): Row<'_>| Ok(Planned::of(key.to_vec()));
        pages(&self.engine, range, plan, move |transaction, key| remove_keys(transaction, space, [key])).await
    }

    /// Removes the revisions with their names and references. Reads the rows of names, which are small, and not the content.
    async fn remove_revisions(&self) -> Result<()> {
        let (org, kind, id) = (self.org.clone(), self.kind, self.id.clone());
        let (prefix, revisions) = (keys::revision_names(&org, &id), keys::revisions(&org, &id));
        let start = prefix.len();
        let plan = move |read: Lookup<'_>, (key, stored): Row<'_>| {
            let revision = [revisions.as_slice(), key.get(start..).unwrap_or_default()].concat();
            let (references, bytes) = match decode::<RevisionNames>(stored)?.references {
                Some(references) => (references, 0),
                None => match read(Space::Records, &revision)? {
                    Some(content) => (kind.revision_references(&content)?, content.len()),
                    None => (BTreeSet::new(), 0),
                },
            };
            let references = references.iter().map(|referenced| keys::reference(&org, referenced, &id));
            let change = [key.to_vec(), revision].into_iter().chain(references).collect::<Vec<_>>();
            Ok(Planned { change: Some(change), bytes })
        };
        let apply =
            |transaction: &mut Transaction<'_>, keys: Vec<Vec<u8>>| remove_keys(transaction, Space::Records, keys);
        pages(&self.engine, Range::prefix(Space::Records, prefix), plan, apply).await
    }

    /// Writes the tombstones of the dependents.
    async fn delete_dependents(&self, at: Timestamp) -> Result<()> {
        let org = self.org.clone();
        let prefix = keys::dependents(&org, &self.id);
        let start = prefix.len();
        let plan = move |read: Lookup<'_>, (key, _): Row<'_>| {
            let id = String::from_utf8_lossy(key.get(start..).unwrap_or_default()).into_owned();
            let kind = Kind::of_id(&id)?;
            let Some(stored) = read(Space::Records, &keys::record(&org, kind.name, &id))? else {
                return Ok(Planned::none());
            };
            let deletion = DependentDeletion::plan(&id, Some(kind.read(&stored)?), at)?;
            let bytes = stored.len();
            Ok(Planned { change: deletion.map(|deletion| (id, stored, deletion)), bytes })
        };
        let org = self.org.clone();
        let apply = move |transaction: &mut Transaction<'_>, (id, stored, deletion): (String, Vec<u8>, _)| {
            // A concurrent write may have deleted the dependent.
            let current = transaction.bytes(Space::Records, &keys::record(&org, Kind::of_id(&id)?.name, &id))?;
            match current.is_some_and(|current| current[..] == stored[..]) {
                true => delete_dependent(transaction, &org, &id, deletion),
                false => Ok(()),
            }
        };
        pages(&self.engine, Range::prefix(Space::Records, prefix), plan, apply).await
    }

    /// Reduces the op rows of the dependents to ids and times, and removes the dependents from their index.
    async fn remove_content_of_dependents(&self) -> Result<()> {
        let prefix = keys::dependents(&self.org, &self.id);
        loop {
            let range = Range::prefix(Space::Records, prefix.clone());
            let found = self.engine.scan(move |view| view.keys(range, PAGE_ROWS_MAX)).await?;
            if found.is_empty() {
                return Ok(());
            }
            for key in &found {
                let id = String::from_utf8_lossy(key.get(prefix.len()..).unwrap_or_default()).into_owned();
                self.remove_all(Range::prefix(Space::Records, keys::op_data(&self.org, &id))).await?;
                self.remove_content(Target::new(Kind::of_id(&id)?.name, id)).await?;
            }
            self.write(move |transaction| remove_keys(transaction, Space::Records, found)).await?;
        }
    }

    /// Reduces the op rows of a target to ids and times. Nothing else changes an op row.
    async fn remove_content(&self, target: Target) -> Result<()> {
        let plan = |_: Lookup<'_>, (key, stored): Row<'_>| {
            let mut row: OpRow = decode(stored)?;
            Ok(match row.remove_content() {
                true => Planned::of((key.to_vec(), encode(&row)?)),
                false => Planned::none(),
            })
        };
        let apply =
            |transaction: &mut Transaction<'_>, (key, stored)| transaction.put_bytes(Space::Records, key, stored);
        pages(&self.engine, Range::prefix(Space::Records, keys::ops(&self.org, &target)), plan, apply).await
    }
}

/// Reads a range page by page. `plan` returns the changes of a page, and `apply` executes them in a transaction without an fsync
/// of its own.
async fn pages<T, P, A>(engine: &Engine, mut range: Range, plan: P, apply: A) -> Result<()>
where
    T: Send + 'static,
    P: Fn(Lookup<'_>, Row<'_>) -> Result<Planned<T>> + Clone + Send + 'static,
    A: Fn(&mut Transaction<'_>, T) -> Result<()> + Clone + Send + 'static,
{
    loop {
        let (page_range, plan, apply) = (range.clone(), plan.clone(), apply.clone());
        let (changes, next) = engine.scan(move |view| page(view, page_range, &plan)).await?;
        if !changes.is_empty() {
            let run = move |transaction: &mut Transaction<'_>| {
                changes.into_iter().try_for_each(|change| apply(transaction, change))
            };
            engine.write_lazily(run).await?;
        }
        match next {
            Some(next) => range = range.from(next),
            None => return Ok(()),
        }
        tokio::time::sleep(PAGE_PAUSE).await;
    }
}

/// Removes the first page of a thread's rows, except `header`, in the transaction of the deletion. Returns whether rows may remain.
pub(crate) fn remove_first_rows(transaction: &mut Transaction<'_>, rows: Range, header: &[u8]) -> Result<bool> {
    let space = rows.space;
    let (found, next) = page(transaction, rows, &|_: Lookup<'_>, row: Row<'_>| Ok(removal_of(row, header)))?;
    remove_keys(transaction, space, found)?;
    Ok(next.is_some())
}

/// Removes a thread's rows, except `header`, page by page.
pub(crate) async fn remove_rows(engine: &Engine, rows: Range, header: Vec<u8>) -> Result<()> {
    let space = rows.space;
    let plan = move |_: Lookup<'_>, row: Row<'_>| Ok(removal_of(row, &header));
    pages(engine, rows, plan, move |transaction, key| remove_keys(transaction, space, [key])).await
}

/// Returns the removal of a row unless its key is that of the header.
fn removal_of((key, _): Row<'_>, header: &[u8]) -> Planned<Vec<u8>> {
    if key == header { Planned::none() } else { Planned::of(key.to_vec()) }
}

fn remove_keys(transaction: &mut Transaction<'_>, space: Space, keys: impl IntoIterator<Item = Vec<u8>>) -> Result<()> {
    keys.into_iter().for_each(|key| transaction.remove(space, key));
    Ok(())
}

/// The change for a row. `bytes`: size of other values that were read for it.
struct Planned<T> {
    change: Option<T>,
    bytes: usize,
}

impl<T> Planned<T> {
    fn of(change: T) -> Self {
        Self { change: Some(change), bytes: 0 }
    }

    fn none() -> Self {
        Self { change: None, bytes: 0 }
    }
}

/// Returns the changes for a page, and the start of the next page.
fn page<T>(
    reads: &impl Reads,
    range: Range,
    plan: &impl Fn(Lookup<'_>, Row<'_>) -> Result<Planned<T>>,
) -> Result<(Vec<T>, Option<Vec<u8>>)> {
    let read = |space, key: &[u8]| Ok(reads.bytes(space, key)?.map(|bytes| bytes.to_vec()));
    let (mut changes, mut next, mut rows, mut bytes) = (Vec::new(), None, 0_usize, 0_usize);
    reads.walk(range, &mut |key, value| {
        let planned = plan(&read, (key, value))?;
        rows += 1;
        bytes = bytes.saturating_add(value.len()).saturating_add(planned.bytes);
        changes.extend(planned.change);
        if rows < PAGE_ROWS_MAX && bytes < PAGE_BYTES {
            return Ok(ControlFlow::Continue(()));
        }
        next = Some([key, &[0]].concat());
        Ok(ControlFlow::Break(()))
    })?;
    Ok((changes, next))
}

/// Deletes a resource if its parent was deleted and the clean-up has not deleted the resource yet.
pub(crate) fn delete_if_parent_deleted(transaction: &mut Transaction<'_>, org: &OrgId, id: &str) -> Result<()> {
    let Some(fields) = record(transaction, org, id)?.and_then(Record::live) else { return Ok(()) };
    let Some(parent) = fields.parent.clone() else { return Ok(()) };
    if is_live(transaction, org, &parent)? {
        return Ok(());
    }
    let Some(Record::Tombstone { at, .. }) = record(transaction, org, &parent)? else { return Ok(()) };
    match DependentDeletion::plan(id, Some(Record::Live(fields)), at)? {
        Some(deletion) => delete_dependent(transaction, org, id, deletion),
        None => Ok(()),
    }
}

fn delete_dependent(
    transaction: &mut Transaction<'_>,
    org: &OrgId,
    id: &str,
    deletion: DependentDeletion,
) -> Result<()> {
    let DependentDeletion { kind, tombstone, list_before: before, .. } = deletion;
    listing::remove_row(transaction, org, kind.name, before.created_at, &before.row)?;
    transaction.remove(Space::Records, keys::version(org, id));
    transaction.put_bytes(Space::Records, keys::record(org, kind.name, id), tombstone)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::reads::Visit;

    /// Rows of one space.
    struct Rows(BTreeMap<Vec<u8>, Vec<u8>>);

    impl Rows {
        /// Creates rows with values of these sizes.
        fn of(sizes: &[usize]) -> Self {
            Self(
                sizes
                    .iter()
                    .enumerate()
                    .map(|(row, size)| (format!("{row:06}").into_bytes(), vec![1; *size]))
                    .collect(),
            )
        }

        /// Returns the number of rows of each page of the clean-up. `others`: size of the values that are read for a row.
        fn pages(&self, others: usize) -> Vec<usize> {
            let plan = |_: Lookup<'_>, (key, _): Row<'_>| Ok(Planned { change: Some(key.to_vec()), bytes: others });
            let all = Range { space: Space::Records, start: Vec::new(), end: vec![u8::MAX], reverse: false };
            let (mut range, mut pages, mut removed) = (all.clone(), Vec::new(), Vec::new());
            loop {
                let (changes, next) = page(self, range, &plan).unwrap();
                pages.push(changes.len());
                removed.extend(changes);
                match next {
                    Some(next) => range = all.clone().from(next),
                    None => break,
                }
            }
            assert_eq!(removed, self.0.keys().cloned().collect::<Vec<_>>());
            pages
        }
    }

    impl Reads for Rows {
        fn bytes(&self, _: Space, key: &[u8]) -> Result<Option<fjall::Slice>> {
            Ok(self.0.get(key).map(|value| fjall::Slice::from(value.as_slice())))
        }

        fn walk(&self, range: Range, visit: Visit<'_>) -> Result<()> {
            for (key, value) in self.0.range(range.start..range.end) {
                if visit(key, value)?.is_break() {
                    break;
                }
            }
            Ok(())
        }
    }

    #[test]
    fn invariant_10_a_page_of_a_deletion_is_bounded_by_rows_and_bytes() {
        assert_eq!(Rows::of(&[]).pages(0), [0]);
        assert_eq!(Rows::of(&[1; 9]).pages(0), [9]);
        assert_eq!(Rows::of(&[1; 25]).pages(0), [10, 10, 5]);
        assert_eq!(Rows::of(&[PAGE_BYTES / 2; 5]).pages(0), [2, 2, 1]);
        assert_eq!(Rows::of(&[PAGE_BYTES * 2; 3]).pages(0), [1, 1, 1, 0]);
        assert_eq!(Rows::of(&[1; 5]).pages(PAGE_BYTES / 2), [2, 2, 1]);
    }
}

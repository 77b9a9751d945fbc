//! Revisions of resources, each with the row of its names ([`RevisionNames`]).
//!
//! An object is entered as a name before it is written, on condition that the revision is stored and its resource live.
//! The deciding write that removes a revision has the condition that the row of names is the one that was read.

use folio_resources::{
    EnteredRow, Kind, NewName, RevisionName, RevisionNames, RowVerdict, RowWrite, STALE_AFTER, StoredRevision,
};
use folio_types::op::OpKey;
use folio_types::{OrgId, Result, limits};

use super::keyspace::Keyspace;
use super::record::load;
use super::session::{ConditionalResult, Read};
use super::table::Part;
use super::{append, ops, retry};
use folio_storage::value::{RevisionNumbers, decode, encode};

/// Key of the row of [`Part::Numbers`].
pub(crate) const NUMBERS: &str = "stored";
/// Maximum rows of names that are read at once. A process of an earlier version that did not see the newest row removed no
/// revision, so that a resource may have some more than the maximum.
// proto: none "bounds a read"
const READ_NUMBERS_MAX: usize = 2 * limits::REVISIONS_MAX;
/// Maximum revisions whose names are evaluated concurrently.
// proto: none "bounds concurrent reads"
const EVALUATIONS_AT_ONCE: usize = 32;

/// Returns the key of a revision's rows. The keys are ordered like the numbers.
pub(crate) fn key(number: u32) -> String {
    format!("{number:010}")
}

/// Fails with `NOT_FOUND` unless the revision is stored.
pub(crate) async fn check(keyspace: &Keyspace, org: &OrgId, new: &NewName) -> Result<()> {
    let row = (Part::Names, &*key(new.number));
    match keyspace.tables.aggregates.row(org, &new.of, row, Read::Quorum).await? {
        Some(_) => Ok(()),
        None => Err(Kind::revision_not_found(&new.of, new.number)),
    }
}

/// Enters a name of a revision. Fails with `NOT_FOUND` if the revision does not exist.
pub(crate) async fn add_name(keyspace: &Keyspace, org: &OrgId, new: &NewName) -> Result<()> {
    let (aggregates, NewName { of, number, name }) = (&keyspace.tables.aggregates, new);
    let key = key(*number);
    for attempt in 0..retry::ATTEMPTS {
        let consistency = if attempt == 0 { Read::Quorum } else { Read::Serial };
        let Some(stored) = aggregates.row(org, of, (Part::Names, &key), consistency).await? else {
            if let Read::Quorum = consistency {
                continue;
            }
            return Err(Kind::revision_not_found(of, *number));
        };
        let mut names: RevisionNames = decode(&stored)?;
        if !names.add(name.clone()) {
            return Ok(());
        }
        let is_live = aggregates.live(org, of);
        let change = aggregates.replace_equal(org, of, (Part::Names, &key), (stored, encode(&names)?));
        if let ConditionalResult::Applied = keyspace.commit(vec![is_live, change]).await? {
            return Ok(());
        }
        if aggregates.header(org, of, Read::Serial).await?.live != Some(true) {
            return Err(Kind::revision_not_found(of, *number));
        }
        retry::pause(attempt, keyspace.random()).await;
    }
    Err(retry::contended("the revision"))
}

/// The stored revisions of a resource that is at the maximum. Default: they were not read.
#[derive(Debug, Clone, Default)]
pub(crate) struct ReadRevisions {
    /// Oldest first.
    pub(crate) stored: Vec<StoredRevision>,
    /// The oldest revision that nothing names, without the newest revision, and its row of names.
    pub(crate) unnamed: Option<(u32, Vec<u8>)>,
}

impl ReadRevisions {
    /// Returns the numbers of the stored revisions after a deciding write with these rows. None: they do not change, or were
    /// not read.
    pub(crate) fn numbers_after(&self, rows: &[RowWrite]) -> Option<RevisionNumbers> {
        let newest = self.stored.last()?.number;
        let mut numbers: Vec<u32> = self.stored.iter().map(|revision| revision.number).collect();
        for row in rows {
            match row {
                RowWrite::PutRevision { number, .. } => numbers.push(*number),
                RowWrite::RemoveRevision(removed) => numbers.retain(|number| number != removed),
                RowWrite::InsertOp(_) | RowWrite::PutData { .. } => {}
            }
        }
        (numbers.last() != Some(&newest)).then_some(RevisionNumbers { numbers })
    }
}

/// Returns the stored revisions of a resource with this newest revision. Evaluates the names up to the oldest revision that
/// nothing names. None: another process changed the resource.
pub(crate) async fn stored(keyspace: &Keyspace, org: &OrgId, id: &str, newest: u32) -> Result<Option<ReadRevisions>> {
    let Some(numbers) = current_numbers(keyspace, org, id, newest).await? else { return Ok(None) };
    let older = numbers.split_last().map(|(_, older)| older).unwrap_or_default();
    let unnamed = oldest_unnamed(keyspace, org, id, older).await?;
    let removable = unnamed.as_ref().map(|(number, _)| *number);
    let revision = |number| StoredRevision { number, is_named: removable != Some(number) };
    Ok(Some(ReadRevisions { stored: numbers.into_iter().map(revision).collect(), unnamed }))
}

/// Returns the numbers of the stored revisions of a resource with this newest revision. None: the newest revision is
/// another one.
///
/// A read of the range of all rows of names also reads the tombstones of the removed ones, which the server keeps for ten
/// days. Removed revisions are not only the oldest: a named revision stays while newer ones are removed. Therefore a row
/// contains the numbers. Each deciding write that adds a revision at the maximum replaces the row in its batch, so a row
/// that ends with the newest revision contains exactly the stored revisions. A row is missing, or ends with another one, if
/// it was read before the batch was applied on enough servers, or if the newest revision was added below the maximum or by
/// a process of an earlier version, which does not write the row. Only then the range is read.
async fn current_numbers(keyspace: &Keyspace, org: &OrgId, id: &str, newest: u32) -> Result<Option<Vec<u32>>> {
    for consistency in [Read::Quorum, Read::Serial] {
        let numbers = row_of_numbers(keyspace, org, id, consistency).await?;
        if numbers.last() == Some(&newest) {
            return Ok(Some(numbers));
        }
    }
    // The SERIAL read completed each earlier batch in flight.
    let numbers = all_numbers(keyspace, org, id).await?;
    Ok((numbers.last() == Some(&newest)).then_some(numbers))
}

/// Returns the numbers in the row of numbers. Empty: the row does not exist.
async fn row_of_numbers(keyspace: &Keyspace, org: &OrgId, id: &str, consistency: Read) -> Result<Vec<u32>> {
    match keyspace.tables.aggregates.row(org, id, (Part::Numbers, NUMBERS), consistency).await? {
        Some(row) => decode(&row).map(|RevisionNumbers { numbers }| numbers),
        None => Ok(Vec::new()),
    }
}

/// Returns the numbers of all rows of names. Also reads the tombstones of removed rows.
async fn all_numbers(keyspace: &Keyspace, org: &OrgId, id: &str) -> Result<Vec<u32>> {
    let keys = keyspace.tables.aggregates.keys(org, id, (Part::Names, ""), READ_NUMBERS_MAX).await?;
    keys.iter().map(|key| number_of(key)).collect()
}

/// Returns the numbers of the stored revisions.
pub(crate) async fn numbers(keyspace: &Keyspace, org: &OrgId, id: &str) -> Result<Vec<u32>> {
    let numbers = row_of_numbers(keyspace, org, id, Read::Quorum).await?;
    if let Some(newest) = numbers.last() {
        let newer = keyspace.tables.aggregates.keys(org, id, (Part::Names, &key(*newest)), 1).await?;
        if newer.is_empty() {
            return Ok(numbers);
        }
    }
    all_numbers(keyspace, org, id).await
}

/// Returns the keys and the rows of names of these revisions, in their order, without those that are not stored.
pub(crate) async fn names(
    keyspace: &Keyspace,
    org: &OrgId,
    id: &str,
    numbers: &[u32],
) -> Result<Vec<(String, Vec<u8>)>> {
    let reads = numbers.iter().map(|number| row_of_names(keyspace, org, (id, *number), Read::Quorum));
    let found = futures::future::try_join_all(reads).await?;
    let stored = numbers.iter().zip(found).filter_map(|(number, row)| Some((key(*number), row?)));
    Ok(stored.collect())
}

async fn row_of_names(
    keyspace: &Keyspace,
    org: &OrgId,
    (id, number): (&str, u32),
    consistency: Read,
) -> Result<Option<Vec<u8>>> {
    keyspace.tables.aggregates.row(org, id, (Part::Names, &key(number)), consistency).await
}

/// Returns the oldest of these revisions that nothing names, and its row of names.
///
/// QUORUM reads find the revision, and SERIAL reads confirm it. The row of names is read before its entries are evaluated,
/// and the removal has the condition that the row is unchanged: an object that names the revision later is entered in the
/// row first. A revision that QUORUM reads find named is not confirmed, because a wrong result removes nothing: QUORUM
/// reads see every acknowledged write, so the deletion of the object is still in flight.
async fn oldest_unnamed(keyspace: &Keyspace, org: &OrgId, id: &str, numbers: &[u32]) -> Result<Option<(u32, Vec<u8>)>> {
    for page in numbers.chunks(EVALUATIONS_AT_ONCE) {
        let reads = page.iter().map(|number| names_if_unnamed(keyspace, org, (id, *number), Read::Quorum));
        let found = futures::future::try_join_all(reads).await?;
        for (number, names) in page.iter().zip(found) {
            if names.is_some()
                && let Some(names) = names_if_unnamed(keyspace, org, (id, *number), Read::Serial).await?
            {
                return Ok(Some((*number, names)));
            }
        }
    }
    Ok(None)
}

/// Returns the row of names of a revision that nothing names. None also if the revision is not stored.
async fn names_if_unnamed(
    keyspace: &Keyspace,
    org: &OrgId,
    of: (&str, u32),
    consistency: Read,
) -> Result<Option<Vec<u8>>> {
    let Some(stored) = row_of_names(keyspace, org, of, consistency).await? else { return Ok(None) };
    let is_named = is_named(keyspace, org, of, &decode(&stored)?, consistency).await?;
    Ok((!is_named).then_some(stored))
}

fn number_of(key: &str) -> Result<u32> {
    key.parse().map_err(|_| folio_types::Error::internal(format!("malformed key of a revision {key:?}")))
}

async fn is_named(
    keyspace: &Keyspace,
    org: &OrgId,
    of: (&str, u32),
    names: &RevisionNames,
    consistency: Read,
) -> Result<bool> {
    if names.is_full {
        return Ok(true);
    }
    for name in &names.names {
        let is_valid = match name {
            RevisionName::Thread(turn) => {
                let header = append::read(keyspace, org, &turn.thread, consistency).await?.live();
                header.is_some_and(|header| header.may_name_revision(of.0, of.1))
            }
            RevisionName::Resource { id, revision, op } => {
                is_valid(keyspace, org, (id, *revision), op, consistency).await?
            }
        };
        if is_valid {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Returns true if a resource, or a revision of it, is stored, or if the op that writes it has not ended.
async fn is_valid(
    keyspace: &Keyspace,
    org: &OrgId,
    of: (&str, Option<u32>),
    op: &OpKey,
    consistency: Read,
) -> Result<bool> {
    let (id, revision) = of;
    let has_op_row = ops::row(keyspace, org, id, &op.to_string(), consistency).await?.is_some();
    let is_live = load(keyspace, org, id, consistency).await?.live().is_some();
    let has_effect = match revision {
        Some(number) if is_live => {
            let row = (Part::Names, &*key(number));
            keyspace.tables.aggregates.row(org, id, row, consistency).await?.is_some()
        }
        _ => is_live,
    };
    let entered = EnteredRow { op: op.clone(), age: STALE_AFTER, has_op_row, has_effect };
    Ok(entered.verdict(false) != RowVerdict::Replace)
}

//! Revisions of resources, each with the row of its names.

use std::ops::ControlFlow;

use folio_resources::{Kind, NewName, RevisionName, RevisionNames, StoredRevision};
use folio_types::{Error, OrgId, Result};

use super::keys::{self, Space};
use super::reads::{Range, Reads};
use super::transaction::Transaction;
use super::value::decode;
use super::{resources, threads};

/// Enters a name of a revision. Fails with `NOT_FOUND` if the revision does not exist.
pub(crate) fn add_name(transaction: &mut Transaction<'_>, org: &OrgId, new: &NewName) -> Result<()> {
    let NewName { of, number, name } = new;
    let key = keys::names_of_revision(org, of, *number);
    let stored: Option<RevisionNames> = match resources::is_live(transaction, org, of)? {
        true => transaction.read(Space::Records, &key)?,
        false => None,
    };
    let Some(mut names) = stored else { return Err(Kind::revision_not_found(of, *number)) };
    match names.add(name.clone()) {
        true => transaction.put(Space::Records, key, &names),
        false => Ok(()),
    }
}

/// The stored revisions of a resource, evaluated before the transaction of a write. The evaluation reads the objects that
/// name up to 1,000 revisions, and the writer executes the writes of all organizations.
///
/// The evaluation and the transaction read the same revisions if the transaction finds the version that the write expects
/// and a transaction before the evaluation found that version too: each change of the revisions increases the version.
#[derive(Debug)]
pub(crate) struct EvaluatedRevisions {
    /// Oldest first.
    pub(crate) stored: Vec<StoredRevision>,
    /// The oldest revision that nothing names, without the newest revision, and its row of names.
    unnamed: Option<(u32, Vec<u8>)>,
}

impl EvaluatedRevisions {
    /// Evaluates the names from the oldest revision up to the first that nothing names.
    pub(crate) fn read(reads: &impl Reads, org: &OrgId, id: &str) -> Result<Self> {
        let mut rows = Vec::new();
        walk_names(reads, org, id, &mut |number, bytes| {
            rows.push((number, bytes.to_vec()));
            Ok(())
        })?;
        let (mut stored, mut unnamed) = (Vec::with_capacity(rows.len()), None);
        let newest = rows.last().map(|(number, _)| *number);
        for (number, row) in rows {
            let is_evaluated = unnamed.is_none() && newest != Some(number);
            let is_named = !is_evaluated || is_named(reads, org, (id, number), &decode(&row)?)?;
            stored.push(StoredRevision { number, is_named });
            if !is_named {
                unnamed = Some((number, row));
            }
        }
        Ok(Self { stored, unnamed })
    }

    /// Returns true if the revision that a new one may remove has the row of names that was evaluated, and is still not
    /// named. True without such a revision: the write is refused if it adds a revision, as if it preceded later changes.
    pub(crate) fn is_current(&self, reads: &impl Reads, org: &OrgId, id: &str) -> Result<bool> {
        let Some((number, evaluated)) = &self.unnamed else { return Ok(true) };
        match reads.bytes(Space::Records, &keys::names_of_revision(org, id, *number))? {
            Some(row) if *row == **evaluated => Ok(!is_named(reads, org, (id, *number), &decode(&row)?)?),
            Some(_) | None => Ok(false),
        }
    }
}

pub(crate) fn numbers(reads: &impl Reads, org: &OrgId, id: &str) -> Result<Vec<u32>> {
    let mut found = Vec::new();
    walk_names(reads, org, id, &mut |number, _| {
        found.push(number);
        Ok(())
    })?;
    Ok(found)
}

/// Calls `visit` with the number and the row of names of each stored revision, in order.
fn walk_names(
    reads: &impl Reads,
    org: &OrgId,
    id: &str,
    visit: &mut dyn FnMut(u32, &[u8]) -> Result<()>,
) -> Result<()> {
    let prefix = keys::revision_names(org, id);
    let start = prefix.len();
    reads.walk(Range::prefix(Space::Records, prefix), &mut |key, bytes| {
        let number = std::str::from_utf8(key.get(start..).unwrap_or_default()).ok().and_then(|text| text.parse().ok());
        visit(number.ok_or_else(|| Error::internal("malformed key of a row of names"))?, bytes)?;
        Ok(ControlFlow::Continue(()))
    })
}

fn is_named(reads: &impl Reads, org: &OrgId, of: (&str, u32), names: &RevisionNames) -> Result<bool> {
    if names.is_full {
        return Ok(true);
    }
    for name in &names.names {
        let is_valid = match name {
            RevisionName::Thread(turn) => {
                threads::live(reads, org, &turn.thread)?.is_some_and(|header| header.may_name_revision(of.0, of.1))
            }
            RevisionName::Resource { id, revision, .. } => {
                let is_stored =
                    |number: &u32| reads.contains(Space::Records, &keys::names_of_revision(org, id, *number));
                resources::is_live(reads, org, id)? && revision.as_ref().map_or(Ok(true), is_stored)?
            }
        };
        if is_valid {
            return Ok(true);
        }
    }
    Ok(false)
}

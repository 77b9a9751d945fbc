//! References between resources: the referenced resource has a row for each resource that refers to it, which prevents
//! its deletion.

use std::ops::ControlFlow;

use folio_resources::{Kind, NAMED_REFERRERS_MAX, Record};
use folio_types::{OrgId, Result};

use super::keys::{self, Space};
use super::reads::{Range, Reads};
use super::resources;
use super::transaction::Transaction;
use super::value::Empty;

/// Adds a reference from `referrer`. Fails with `NOT_FOUND` unless the referenced resource is live.
pub(crate) fn add(transaction: &mut Transaction<'_>, org: &OrgId, referenced: &str, referrer: &str) -> Result<()> {
    let kind = Kind::of_id(referenced)?;
    if !resources::is_live(transaction, org, referenced)? {
        return Err(kind.not_found(referenced));
    }
    transaction.put(Space::Records, keys::reference(org, referenced, referrer), &Empty)
}

/// Returns the ids of at most `max` resources of a kind that have a row, in order.
pub(crate) fn referrers(
    reads: &impl Reads,
    org: &OrgId,
    kind: &Kind,
    referenced: &str,
    max: usize,
) -> Result<Vec<String>> {
    let rows = keys::references(org, referenced);
    let prefix = [rows.as_slice(), kind.id_prefix.as_bytes(), b"_"].concat();
    reads.select(Range::prefix(Space::Records, prefix), max, |key, _| {
        Ok(Some(String::from_utf8_lossy(key.get(rows.len()..).unwrap_or_default()).into_owned()))
    })
}

/// Fails with `IN_USE` if another live resource refers to the resource; the error contains the first
/// [`NAMED_REFERRERS_MAX`] and the total, which counts further references of deleted resources until their clean-up.
pub(crate) fn refuse_if_used(transaction: &Transaction<'_>, org: &OrgId, kind: &Kind, id: &str) -> Result<()> {
    let prefix = keys::references(org, id);
    let (mut count, mut first) = (0_u64, Vec::new());
    transaction.walk(Range::prefix(Space::Records, prefix.clone()), &mut |key, _| {
        if first.len() < NAMED_REFERRERS_MAX {
            let referrer = String::from_utf8_lossy(key.get(prefix.len()..).unwrap_or_default()).into_owned();
            if !resources::is_live(transaction, org, &referrer)? {
                return Ok(ControlFlow::Continue(()));
            }
            first.push(referrer);
        }
        count += 1;
        Ok(ControlFlow::Continue(()))
    })?;
    if count == 0 {
        return Ok(());
    }
    let describe = |id: String| description_of(transaction, org, &id).map(|description| (id, description));
    let referrers = first.into_iter().map(describe).collect::<Result<Vec<_>>>()?;
    Err(Kind::in_use(kind.name, &referrers, count))
}

fn description_of(reads: &impl Reads, org: &OrgId, id: &str) -> Result<String> {
    let kind = Kind::of_id(id)?;
    let label = match resources::record(reads, org, id)? {
        Some(Record::Live(fields)) => fields.label,
        Some(Record::Tombstone { .. }) | None => String::new(),
    };
    Ok(format!("{} {label:?} ({id})", kind.name))
}

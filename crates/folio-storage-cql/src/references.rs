//! References between resources. The partition of the referenced resource has an entry for each op that added a
//! reference. A static column counts the entries; the deletion of the resource is conditional on this count.
//!
//! [`EnteredRow`] evaluates an entry. Its effect exists while the referring resource is live and refers to the resource.

use std::collections::BTreeMap;

use folio_resources::{EnteredRow, Kind, NAMED_REFERRERS_MAX, RowVerdict};
use folio_types::{Error, OrgId, Result};

use super::keyspace::Keyspace;
use super::record::load;
use super::session::{ConditionalResult, Read};
use super::table::Part;
use super::values::micros;
use super::{ops, retry};
use folio_storage::value::{Reference, decode, encode};

const ENTRIES_PER_READ: usize = 100;

/// Fails with `NOT_FOUND` unless the referenced resource is live.
pub(crate) async fn check(keyspace: &Keyspace, org: &OrgId, referenced: &str) -> Result<()> {
    match keyspace.tables.aggregates.header(org, referenced, Read::Quorum).await?.live {
        Some(true) => Ok(()),
        Some(false) | None => Err(Kind::of_id(referenced)?.not_found(referenced)),
    }
}

/// Adds the entry of a reference from `referrer` to `referenced` by an op. Executed before the referring resource is
/// written.
pub(crate) async fn add(keyspace: &Keyspace, org: &OrgId, referenced: &str, referrer: &str, op: &str) -> Result<()> {
    let tables = &keyspace.tables;
    let key = format!("{referrer}/{op}");
    let value = encode(&Reference { at: keyspace.now() })?;
    for attempt in 0..retry::ATTEMPTS {
        let consistency = if attempt == 0 { Read::Quorum } else { Read::Serial };
        let header = tables.aggregates.header(org, referenced, consistency).await?;
        if attempt > 0 && tables.aggregates.row(org, referenced, (Part::Reference, &key), Read::Serial).await?.is_some()
        {
            return Ok(());
        }
        if header.live != Some(true) {
            return Err(Kind::of_id(referenced)?.not_found(referenced));
        }
        let count = tables.aggregates.uses(org, referenced, (header.uses, header.uses + 1), true);
        let entry = tables.aggregates.insert_if_absent(org, referenced, (Part::Reference, &key), value.clone());
        if let ConditionalResult::Applied = keyspace.commit(vec![count, entry]).await? {
            return Ok(());
        }
        retry::pause(attempt, keyspace.random()).await;
    }
    Err(retry::contended("the referenced resource"))
}

pub(crate) async fn remove_dead(keyspace: &Keyspace, org: &OrgId, referenced: &str, referrer: &str) -> Result<()> {
    let prefix = format!("{referrer}/");
    let entries =
        keyspace.tables.aggregates.rows(org, referenced, (Part::Reference, &prefix), ENTRIES_PER_READ).await?;
    for entry in entries {
        if let (RowVerdict::Replace, _) = verdict(keyspace, org, referenced, &entry).await? {
            remove(keyspace, org, referenced, &entry.0).await?;
        }
    }
    Ok(())
}

async fn remove(keyspace: &Keyspace, org: &OrgId, referenced: &str, key: &str) -> Result<()> {
    let tables = &keyspace.tables;
    for attempt in 0..retry::ATTEMPTS {
        let header = tables.aggregates.header(org, referenced, Read::Serial).await?;
        if tables.aggregates.row(org, referenced, (Part::Reference, key), Read::Serial).await?.is_none() {
            return Ok(());
        }
        let count = tables.aggregates.uses(org, referenced, (header.uses, header.uses.saturating_sub(1)), false);
        let entry = tables.aggregates.remove_existing(org, referenced, (Part::Reference, key));
        if let ConditionalResult::Applied = keyspace.commit(vec![count, entry]).await? {
            return Ok(());
        }
        retry::pause(attempt, keyspace.random()).await;
    }
    Err(retry::contended("the referenced resource"))
}

/// Fails with `IN_USE` if `referenced` is referenced by a live resource. The error describes the first
/// [`NAMED_REFERRERS_MAX`] such resources. It contains their number or, if there are more, `count`: the number of
/// entries, which may be higher. Removes the dead entries that it reads.
pub(crate) async fn refuse_if_used(
    keyspace: &Keyspace,
    org: &OrgId,
    kind_name: &str,
    referenced: &str,
    count: u64,
) -> Result<()> {
    loop {
        let entries = keyspace.tables.aggregates.rows(org, referenced, (Part::Reference, ""), ENTRIES_PER_READ).await?;
        let is_complete = entries.len() < ENTRIES_PER_READ;
        let mut referrers = BTreeMap::new();
        for entry in entries {
            let (referrer, op) = referrer_and_op(&entry.0)?;
            if referrers.contains_key(referrer) {
                continue;
            }
            match verdict(keyspace, org, referenced, &entry).await? {
                (RowVerdict::Claimed | RowVerdict::Taken, description) => {
                    referrers.insert(referrer.to_owned(), description.unwrap_or_default());
                }
                (RowVerdict::Replace, _) => remove(keyspace, org, referenced, &entry.0).await?,
                (RowVerdict::Close, _) => {
                    ops::close_of_another(keyspace, org, referrer, op.parse()?).await?;
                    remove(keyspace, org, referenced, &entry.0).await?;
                }
                (RowVerdict::Contended, _) => return Err(retry::contended("the resource to delete")),
            }
            if referrers.len() > NAMED_REFERRERS_MAX {
                break;
            }
        }
        if referrers.is_empty() {
            if is_complete {
                return Ok(());
            }
            continue;
        }
        let found = referrers.len() as u64;
        let count = if referrers.len() > NAMED_REFERRERS_MAX { count.max(found) } else { found };
        let first: Vec<_> = referrers.into_iter().take(NAMED_REFERRERS_MAX).collect();
        return Err(Kind::in_use(kind_name, &first, count));
    }
}

/// Evaluates an entry for the deletion of the referenced resource. Returns the description of the referring resource if
/// the entry is live.
async fn verdict(
    keyspace: &Keyspace,
    org: &OrgId,
    referenced: &str,
    (key, value): &(String, Vec<u8>),
) -> Result<(RowVerdict, Option<String>)> {
    let (referrer, op) = referrer_and_op(key)?;
    let has_op_row = ops::row(keyspace, org, referrer, op, Read::Serial).await?.is_some();
    let description = describe_referrer(keyspace, org, referenced, referrer).await?;
    let (age, has_effect) = (keyspace.age(micros(decode::<Reference>(value)?.at)), description.is_some());
    Ok((EnteredRow { op: op.parse()?, age, has_op_row, has_effect }.verdict(false), description))
}

/// Returns a description of the referring resource if it is live and refers to `referenced`, in its newest or any stored
/// revision.
async fn describe_referrer(
    keyspace: &Keyspace,
    org: &OrgId,
    referenced: &str,
    referrer: &str,
) -> Result<Option<String>> {
    let kind = Kind::of_id(referrer)?;
    let Some(fields) = load(keyspace, org, referrer, Read::Serial).await?.live() else { return Ok(None) };
    let mut refers = fields.references.contains(referenced);
    if !refers && kind.keeps_revisions {
        for (_, stored) in keyspace.tables.aggregates.rows(org, referrer, (Part::Revision, ""), usize::MAX).await? {
            refers |= kind.revision_references(&stored)?.contains(referenced);
        }
    }
    Ok(refers.then(|| format!("{} {:?} ({referrer})", kind.name, fields.label)))
}

/// Splits the key of an entry.
fn referrer_and_op(key: &str) -> Result<(&str, &str)> {
    let malformed = || Error::internal(format!("malformed key of a reference entry {key:?}: expected REFERRER/OP"));
    key.split_once('/').ok_or_else(malformed)
}

//! References between resources. The partition of the referenced resource has an entry for each op that added a
//! reference. A static column counts the entries; the deletion of the resource is conditional on this count.
//!
//! [`EnteredRow`] evaluates an entry. Its effect exists while the referring resource is live and refers to the resource.

use std::collections::BTreeMap;

use folio_resources::{EnteredRow, Kind, NAMED_REFERRERS_MAX, RowVerdict};
use folio_types::op::OpState;
use folio_types::{Error, OrgId, Result};
use futures::{StreamExt as _, TryStreamExt as _};

use super::keyspace::Keyspace;
use super::record::load;
use super::reference_queue::{Changes, EntryChange, KeyedChange};
use super::session::{ConditionalResult, Read};
use super::shared_batch::Results;
use super::table::Part;
use super::values::micros;
use super::{ops, retry};
use folio_storage::value::{Reference, decode, encode};

const ENTRIES_PER_READ: usize = 100;
/// Number of attempts after which the entries are read even if the count explains each refusal.
const ATTEMPTS_WITHOUT_CHECK: u32 = 3;
/// Maximum number of concurrent reads of entries.
const READS_AT_ONCE: usize = 8;

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
    let change = EntryChange::Add(encode(&Reference { at: keyspace.now() })?);
    change_entry(keyspace, org, referenced, (format!("{referrer}/{op}"), change)).await
}

pub(crate) async fn remove_dead(keyspace: &Keyspace, org: &OrgId, referenced: &str, referrer: &str) -> Result<()> {
    let prefix = format!("{referrer}/");
    loop {
        let entries =
            keyspace.tables.aggregates.rows(org, referenced, (Part::Reference, &prefix), ENTRIES_PER_READ).await?;
        let (read, mut removed) = (entries.len(), 0);
        for entry in entries {
            if let (RowVerdict::Replace, _) = verdict(keyspace, org, referenced, &entry).await? {
                remove(keyspace, org, referenced, &entry.0).await?;
                removed += 1;
            }
        }
        if read < ENTRIES_PER_READ || removed == 0 {
            return Ok(());
        }
    }
}

async fn remove(keyspace: &Keyspace, org: &OrgId, referenced: &str, key: &str) -> Result<()> {
    change_entry(keyspace, org, referenced, (key.to_owned(), EntryChange::Remove)).await
}

/// Changes an entry in one batch with the concurrent changes of this process.
async fn change_entry(keyspace: &Keyspace, org: &OrgId, referenced: &str, change: KeyedChange) -> Result<()> {
    let execute = async |changes: Vec<KeyedChange>| {
        change_entries(keyspace, org, referenced, changes.into_iter().collect()).await
    };
    keyspace.references.change((org, referenced), change, execute).await
}

/// Changes entries and their count. Returns a result for each entry: `NOT_FOUND` for an added one if the referenced
/// resource is not live.
async fn change_entries(keyspace: &Keyspace, org: &OrgId, referenced: &str, mut changes: Changes) -> Results {
    let mut results = Results::new();
    let outcome = try_change_entries(keyspace, org, referenced, &mut changes, &mut results).await;
    // The remaining changes share the outcome.
    results.extend(changes.into_keys().map(|key| (key, outcome.clone())));
    results
}

/// Moves each change with a result of its own from `changes` to `results`.
async fn try_change_entries(
    keyspace: &Keyspace,
    org: &OrgId,
    referenced: &str,
    changes: &mut Changes,
    results: &mut Results,
) -> Result<()> {
    let aggregates = &keyspace.tables.aggregates;
    // The count of the last refused attempt. If the count has changed, it explains the refusal.
    let (mut refused_at, mut is_unknown) = (None, false);
    for attempt in 0..retry::ATTEMPTS {
        let consistency = if attempt == 0 { Read::Quorum } else { Read::Serial };
        let header = aggregates.header(org, referenced, consistency).await?;
        if is_unknown || refused_at == Some(header.uses) || attempt >= ATTEMPTS_WITHOUT_CHECK {
            remove_completed(keyspace, org, referenced, changes, results).await?;
        }
        if header.live != Some(true) {
            let not_found = Kind::of_id(referenced)?.not_found(referenced);
            let added = changes.extract_if(.., |_, change| matches!(change, EntryChange::Add(_)));
            results.extend(added.map(|(key, _)| (key, Err(not_found.clone()))));
        }
        let added = changes.values().filter(|change| matches!(change, EntryChange::Add(_))).count() as u64;
        let removed = changes.len() as u64 - added;
        if changes.is_empty() {
            return Ok(());
        }
        let count = (header.uses + added).saturating_sub(removed);
        let mut statements = vec![aggregates.uses(org, referenced, (header.uses, count), added > 0)];
        statements.extend(changes.iter().map(|(key, change)| match change {
            EntryChange::Add(value) => {
                aggregates.insert_if_absent(org, referenced, (Part::Reference, key), value.clone())
            }
            EntryChange::Remove => aggregates.remove_existing(org, referenced, (Part::Reference, key)),
        }));
        match keyspace.commit(statements).await? {
            ConditionalResult::Applied => return Ok(()),
            ConditionalResult::Refused => refused_at = Some(header.uses),
            ConditionalResult::Unknown(_) => is_unknown = true,
        }
        retry::pause(attempt, keyspace.random()).await;
    }
    Err(retry::contended("the referenced resource"))
}

/// Moves the changes that are already made from `changes` to `results`.
async fn remove_completed(
    keyspace: &Keyspace,
    org: &OrgId,
    referenced: &str,
    changes: &mut Changes,
    results: &mut Results,
) -> Result<()> {
    let reads = changes.iter().map(|(key, change)| async move {
        let entry = (Part::Reference, key.as_str());
        let stored = keyspace.tables.aggregates.row(org, referenced, entry, Read::Serial).await?;
        let is_complete = stored.is_some() == matches!(change, EntryChange::Add(_));
        Ok::<_, Error>(is_complete.then(|| key.clone()))
    });
    let reads: Vec<_> = reads.collect();
    let completed: Vec<_> = futures::stream::iter(reads).buffer_unordered(READS_AT_ONCE).try_collect().await?;
    for key in completed.into_iter().flatten() {
        changes.remove(&key);
        results.insert(key, Ok(()));
    }
    Ok(())
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

/// Returns the ids of at most `max` resources of a kind with an entry, in order. An entry may be dead.
pub(crate) async fn referrers(
    keyspace: &Keyspace,
    org: &OrgId,
    kind: &Kind,
    referenced: &str,
    max: usize,
) -> Result<Vec<String>> {
    let prefix = format!("{}_", kind.id_prefix);
    let (mut found, mut after) = (Vec::<String>::new(), prefix.clone());
    while found.len() < max {
        let keys =
            keyspace.tables.aggregates.keys(org, referenced, (Part::Reference, &after), ENTRIES_PER_READ).await?;
        let of_kind: Vec<&String> = keys.iter().take_while(|key| key.starts_with(&prefix)).collect();
        let is_last = of_kind.len() < ENTRIES_PER_READ;
        for key in of_kind {
            let (referrer, _) = referrer_and_op(key)?;
            if found.last().is_none_or(|last| last != referrer) && found.len() < max {
                found.push(referrer.to_owned());
            }
        }
        let Some(last) = found.last().filter(|_| !is_last) else { break };
        // The next read skips the other entries of the last resource.
        after = format!("{last}/{}", char::MAX);
    }
    Ok(found)
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
    let op_row = ops::row(keyspace, org, referrer, op, Read::Serial).await?;
    let has_op_row = op_row.is_some();
    let was_written = op_row.is_some_and(|row| matches!(row.state, OpState::Done(_)));
    let description = describe_referrer(keyspace, org, referenced, referrer, was_written).await?;
    let (age, has_effect) = (keyspace.age(micros(decode::<Reference>(value)?.at)), description.is_some());
    Ok((EnteredRow { op: op.parse()?, age, has_op_row, has_effect }.verdict(false), description))
}

/// Returns a description of the referring resource if it is live and refers to `referenced`. The references of all its
/// revisions count: `was_written` is true if the op that entered the reference wrote a revision.
async fn describe_referrer(
    keyspace: &Keyspace,
    org: &OrgId,
    referenced: &str,
    referrer: &str,
    was_written: bool,
) -> Result<Option<String>> {
    let kind = Kind::of_id(referrer)?;
    let Some(fields) = load(keyspace, org, referrer, Read::Serial).await?.live() else { return Ok(None) };
    let refers = fields.references.contains(referenced) || (kind.keeps_revisions && was_written);
    Ok(refers.then(|| format!("{} {:?} ({referrer})", kind.name, fields.label)))
}

/// Splits the key of an entry.
fn referrer_and_op(key: &str) -> Result<(&str, &str)> {
    let malformed = || Error::internal(format!("malformed key of a reference entry {key:?}: expected REFERRER/OP"));
    key.split_once('/').ok_or_else(malformed)
}

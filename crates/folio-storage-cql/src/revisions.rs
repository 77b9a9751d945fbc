//! Revisions of resources, each with the row of its names ([`RevisionNames`]).
//!
//! An object is entered as a name before it is written, on condition that the revision is stored and its resource live.
//! The deciding write that removes a revision has the condition that the row of names is the one that was read.

use std::collections::BTreeMap;

use folio_resources::{
    EnteredRow, Kind, NewName, RevisionName, RevisionNames, RowVerdict, STALE_AFTER, StoredRevision,
};
use folio_types::op::OpKey;
use folio_types::{OrgId, Result, limits};

use super::keyspace::Keyspace;
use super::record::load;
use super::session::{ConditionalResult, Read};
use super::table::Part;
use super::{append, ops, retry};
use folio_storage::value::{decode, encode};

/// Returns the key of a revision's rows. The keys are ordered like the numbers.
pub(crate) fn key(number: u32) -> String {
    format!("{number:010}")
}

/// Rows of names as they were read, by the number of the revision.
pub(crate) type StoredNames = BTreeMap<u32, Vec<u8>>;

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

/// Returns the stored revisions, oldest first, and their rows of names. Evaluates the names up to the oldest revision that
/// nothing names.
pub(crate) async fn stored(keyspace: &Keyspace, org: &OrgId, id: &str) -> Result<(Vec<StoredRevision>, StoredNames)> {
    let rows = keyspace.tables.aggregates.rows(org, id, (Part::Names, ""), limits::REVISIONS_MAX).await?;
    let (mut found, mut names, mut has_unnamed) = (Vec::with_capacity(rows.len()), StoredNames::new(), false);
    for (key, stored) in rows {
        let number = number_of(&key)?;
        let is_named = has_unnamed || is_named(keyspace, org, (id, number), &decode(&stored)?).await?;
        has_unnamed |= !is_named;
        found.push(StoredRevision { number, is_named });
        names.insert(number, stored);
    }
    Ok((found, names))
}

pub(crate) async fn numbers(keyspace: &Keyspace, org: &OrgId, id: &str) -> Result<Vec<u32>> {
    let keys = keyspace.tables.aggregates.keys(org, id, (Part::Names, ""), limits::REVISIONS_MAX).await?;
    keys.iter().map(|key| number_of(key)).collect()
}

fn number_of(key: &str) -> Result<u32> {
    key.parse().map_err(|_| folio_types::Error::internal(format!("malformed key of a revision {key:?}")))
}

async fn is_named(keyspace: &Keyspace, org: &OrgId, of: (&str, u32), names: &RevisionNames) -> Result<bool> {
    if names.is_full {
        return Ok(true);
    }
    for name in &names.names {
        let is_valid = match name {
            RevisionName::Thread(turn) => {
                let header = append::read(keyspace, org, &turn.thread, Read::Quorum).await?.live();
                header.is_some_and(|header| header.may_name_revision(of.0, of.1))
            }
            RevisionName::Resource { id, revision, op } => is_valid(keyspace, org, (id, *revision), op).await?,
        };
        if is_valid {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Returns true if a resource, or a revision of it, is stored, or if the op that writes it has not ended.
async fn is_valid(keyspace: &Keyspace, org: &OrgId, of: (&str, Option<u32>), op: &OpKey) -> Result<bool> {
    let (id, revision) = of;
    let has_op_row = ops::row(keyspace, org, id, &op.to_string(), Read::Serial).await?.is_some();
    let is_live = load(keyspace, org, id, Read::Serial).await?.live().is_some();
    let has_effect = match revision {
        Some(number) if is_live => {
            let row = (Part::Names, &*key(number));
            keyspace.tables.aggregates.row(org, id, row, Read::Serial).await?.is_some()
        }
        _ => is_live,
    };
    let entered = EnteredRow { op: op.clone(), age: STALE_AFTER, has_op_row, has_effect };
    Ok(entered.verdict(false) != RowVerdict::Replace)
}

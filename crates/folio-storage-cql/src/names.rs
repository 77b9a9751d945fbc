//! Unique names of the live resources of a kind, without regard to case.
//!
//! A name's row contains the id of the resource and the op key that reserved the name. The row is *live* if the
//! resource is live under that name; else *open* while the resource's partition has no op row of that key; else *dead*.
//! Any process may replace or free a dead row. An open row causes a conflict; an open row that a request left for
//! [`idempotency::STALE_AFTER`] is closed.

use folio_resources::{Kind, folded};
use folio_types::op::OpKey;
use folio_types::{Code, Error, OrgId, Reason, Result};

use super::keyspace::Keyspace;
use super::record::load;
use super::session::{ConditionalResult, ReadConsistency};
use super::table::NameRow;
use super::{idempotency, ops, retry};

enum RowStatus {
    Live,
    Open,
    Dead,
}

/// The name of a kind ([`folio_resources::Kind::name`]), and a name of that kind.
type Name<'a> = (&'a str, &'a str);

async fn status(keyspace: &Keyspace, org: &OrgId, (_, name): Name<'_>, row: &NameRow) -> Result<RowStatus> {
    // The op row is read first: if it exists, it was written before the resource is read.
    let has_op_row = ops::row(keyspace, org, &row.id, &row.op, ReadConsistency::Serial).await?.is_some();
    let live = load(keyspace, org, &row.id, ReadConsistency::Serial).await?.live();
    let live_name = live.and_then(|facts| facts.unique_name).map(|name| folded(&name));
    Ok(match (live_name, has_op_row) {
        (Some(found), _) if found == folded(name) => RowStatus::Live,
        (_, true) => RowStatus::Dead,
        (_, false) => RowStatus::Open,
    })
}

/// Fails if the name cannot be claimed. Changes nothing.
pub(crate) async fn check(keyspace: &Keyspace, org: &OrgId, name: Name<'_>, id: &str, op: &OpKey) -> Result<()> {
    let Some(row) = keyspace.tables.names.get(org, (name.0, &folded(name.1)), ReadConsistency::Quorum).await? else {
        return Ok(());
    };
    if row.id == id && row.op == op.to_string() {
        return Ok(());
    }
    match status(keyspace, org, name, &row).await? {
        RowStatus::Live if row.id != id => Err(Kind::name_taken(name.0, name.1, &row.id)),
        RowStatus::Open if !idempotency::is_stale(keyspace, row.at) => Err(contended(name)),
        RowStatus::Live | RowStatus::Dead | RowStatus::Open => Ok(()),
    }
}

pub(crate) async fn claim(keyspace: &Keyspace, org: &OrgId, name: Name<'_>, id: &str, op: &OpKey) -> Result<()> {
    let folded_name = folded(name.1);
    let key = (name.0, folded_name.as_str());
    let wanted = NameRow { id: id.to_owned(), op: op.to_string(), at: keyspace.now_micros() };
    for attempt in 0..retry::ATTEMPTS {
        if let ConditionalResult::Applied = keyspace.tables.names.reserve(org, key, &wanted).await? {
            return Ok(());
        }
        if let Some(row) = keyspace.tables.names.get(org, key, ReadConsistency::Serial).await? {
            if row.id == wanted.id && row.op == wanted.op {
                return Ok(());
            }
            match status(keyspace, org, name, &row).await? {
                RowStatus::Live if row.id == id => return Ok(()),
                RowStatus::Live => return Err(Kind::name_taken(name.0, name.1, &row.id)),
                RowStatus::Open => close(keyspace, org, name, &row).await?,
                RowStatus::Dead => {
                    if let ConditionalResult::Applied = keyspace.tables.names.replace(org, key, (&row, &wanted)).await?
                    {
                        return Ok(());
                    }
                }
            }
        }
        retry::pause(attempt, keyspace.random()).await;
    }
    Err(contended(name))
}

/// Frees a name of a resource if its row is dead and no other resource claimed it.
pub(crate) async fn free(keyspace: &Keyspace, org: &OrgId, name: Name<'_>, id: &str) -> Result<()> {
    let folded_name = folded(name.1);
    let key = (name.0, folded_name.as_str());
    let Some(row) = keyspace.tables.names.get(org, key, ReadConsistency::Serial).await? else { return Ok(()) };
    if row.id == id && matches!(status(keyspace, org, name, &row).await?, RowStatus::Dead) {
        keyspace.tables.names.free(org, key, &row).await?;
    }
    Ok(())
}

/// Returns the id that a name was assigned to. The resource may have been renamed or deleted since.
pub(crate) async fn id_by_name(keyspace: &Keyspace, org: &OrgId, (kind, name): Name<'_>) -> Result<Option<String>> {
    Ok(keyspace.tables.names.get(org, (kind, &folded(name)), ReadConsistency::Quorum).await?.map(|row| row.id))
}

/// Closes the op of a stale request that reserved a name. Fails for any other op.
async fn close(keyspace: &Keyspace, org: &OrgId, name: Name<'_>, row: &NameRow) -> Result<()> {
    let op: OpKey = row.op.parse()?;
    if !matches!(op, OpKey::Request { .. }) || !idempotency::is_stale(keyspace, row.at) {
        return Err(contended(name));
    }
    ops::close_of_another(keyspace, org, &row.id, op).await
}

fn contended((kind, name): Name<'_>) -> Error {
    Error::new(
        Code::Aborted,
        Reason::VersionConflict,
        format!("another request is creating a {kind} named {name:?}; retry later"),
    )
}

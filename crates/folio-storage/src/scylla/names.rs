//! Names: one of their kind among the live ones of an organization, without regard to case.
//!
//! A name's row holds the id and the op key that reserved it. It is *live* if that aggregate lives under that name; else
//! *open* while no op row of its key stands beside that aggregate; else *dead*. Anyone may replace or free a dead one. An
//! open one is answered as a conflict; one that a request left open for long is closed.

use folio_types::op::OpKey;
use folio_types::prompt::Prompt;
use folio_types::schema::Schema;
use folio_types::tag::Tag;
use folio_types::{Code, Error, OrgId, Reason, Result};

use super::aggregate::{Aggregate, load};
use super::keyspace::Keyspace;
use super::session::{Sent, Strength};
use super::table::NameRow;
use super::{asked, ops, retry};
use crate::naming::{Kind, folded};
use crate::planted::Bug;
use crate::value::{Record, Stored};

enum Worth {
    Live,
    Open,
    Dead,
}

/// What names that count as one have in common.
fn same(keyspace: &Keyspace, name: &str) -> String {
    if keyspace.has(Bug::NameCaseMatters) { name.to_owned() } else { folded(name) }
}

/// A kind and a name of it.
type Name<'a> = (Kind, &'a str);

async fn live_name<T>(keyspace: &Keyspace, org: &OrgId, id: &str) -> Result<Option<String>>
where
    T: Aggregate,
    Record<T>: Stored,
{
    let live = load::<T>(keyspace, org, id, Strength::Serial).await?.live();
    Ok(live.and_then(|found| found.name().map(folded)))
}

async fn worth(keyspace: &Keyspace, org: &OrgId, (kind, name): Name<'_>, row: &NameRow) -> Result<Worth> {
    // The op row first: one that stands is from before the aggregate is looked at.
    let stands = ops::row(keyspace, org, &row.id, &row.op, Strength::Serial).await?.is_some();
    let lives_under = match kind {
        Kind::Tag => live_name::<Tag>(keyspace, org, &row.id).await?,
        Kind::Schema => live_name::<Schema>(keyspace, org, &row.id).await?,
        Kind::Prompt => live_name::<Prompt>(keyspace, org, &row.id).await?,
        Kind::Document | Kind::Extraction | Kind::Thread => None,
    };
    Ok(match (lives_under, stands) {
        (Some(found), _) if found == folded(name) => Worth::Live,
        (_, true) => Worth::Dead,
        (_, false) => Worth::Open,
    })
}

/// Refuses where the name cannot be had. Changes nothing.
pub(crate) async fn check(keyspace: &Keyspace, org: &OrgId, name: Name<'_>, id: &str, op: &OpKey) -> Result<()> {
    if keyspace.has(Bug::NameNotUnique) {
        return Ok(());
    }
    let Keyspace { cql, tables, .. } = keyspace;
    let Some(row) = tables.names.get(cql, org, (name.0, &same(keyspace, name.1)), Strength::Quorum).await? else {
        return Ok(());
    };
    if row.id == id && row.op == op.to_string() {
        return Ok(());
    }
    match worth(keyspace, org, name, &row).await? {
        Worth::Live if row.id != id => Err(taken(name, &row)),
        Worth::Open if !asked::is_stale(keyspace, row.at) => Err(wanted(name)),
        Worth::Live | Worth::Dead | Worth::Open => Ok(()),
    }
}

/// Reserves a name for an op.
pub(crate) async fn claim(keyspace: &Keyspace, org: &OrgId, name: Name<'_>, id: &str, op: &OpKey) -> Result<()> {
    if keyspace.has(Bug::NameNotUnique) {
        return Ok(());
    }
    let Keyspace { cql, tables, .. } = keyspace;
    let folded = same(keyspace, name.1);
    let key = (name.0, folded.as_str());
    let mine = NameRow { id: id.to_owned(), op: op.to_string(), at: keyspace.now_micros() };
    for attempt in 0..retry::ATTEMPTS {
        if let Sent::Applied = tables.names.reserve(cql, org, key, &mine).await? {
            return Ok(());
        }
        if let Some(row) = tables.names.get(cql, org, key, Strength::Serial).await? {
            if row.id == mine.id && row.op == mine.op {
                return Ok(());
            }
            match worth(keyspace, org, name, &row).await? {
                Worth::Live if row.id == id => return Ok(()),
                Worth::Live => return Err(taken(name, &row)),
                Worth::Open => close(keyspace, org, name, &row).await?,
                Worth::Dead => {
                    if let Sent::Applied = tables.names.replace(cql, org, key, (&row, &mine)).await? {
                        return Ok(());
                    }
                }
            }
        }
        retry::pause(attempt, keyspace.random()).await;
    }
    Err(wanted(name))
}

/// Frees a name that its aggregate gave up, unless somebody has it by now.
pub(crate) async fn free(keyspace: &Keyspace, org: &OrgId, name: Name<'_>, id: &str) -> Result<()> {
    let Keyspace { cql, tables, .. } = keyspace;
    let folded = same(keyspace, name.1);
    let key = (name.0, folded.as_str());
    let Some(row) = tables.names.get(cql, org, key, Strength::Serial).await? else { return Ok(()) };
    if row.id == id && matches!(worth(keyspace, org, name, &row).await?, Worth::Dead) {
        tables.names.free(cql, org, key, &row).await?;
    }
    Ok(())
}

/// The id behind a name; its aggregate may live under another one by now.
pub(crate) async fn holder(keyspace: &Keyspace, org: &OrgId, (kind, name): Name<'_>) -> Result<Option<String>> {
    let Keyspace { cql, tables, .. } = keyspace;
    Ok(tables.names.get(cql, org, (kind, &same(keyspace, name)), Strength::Quorum).await?.map(|row| row.id))
}

/// Closes the op of a request that reserved a name and never came; any other is left to go on.
async fn close(keyspace: &Keyspace, org: &OrgId, name: Name<'_>, row: &NameRow) -> Result<()> {
    let op: OpKey = row.op.parse()?;
    if !matches!(op, OpKey::Request { .. }) || !asked::is_stale(keyspace, row.at) {
        return Err(wanted(name));
    }
    ops::close_of_another(keyspace, org, &row.id, op).await
}

fn taken((kind, name): Name<'_>, row: &NameRow) -> Error {
    Error::new(Code::AlreadyExists, Reason::NameTaken, format!("there is a {} named {name:?} already", kind.word()))
        .detail("id", row.id.clone())
}

fn wanted((kind, name): Name<'_>) -> Error {
    Error::new(
        Code::Aborted,
        Reason::VersionConflict,
        format!("a {} named {name:?} is being made by somebody else", kind.word()),
    )
}

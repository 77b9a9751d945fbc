//! Unique names of the live resources of a kind, without regard to case.
//!
//! A name's row contains the id of the resource and the op key that reserved the name. [`EnteredRow`] evaluates the row.
//! Its effect exists if the resource is live under that name.

use folio_resources::{EnteredRow, Kind, RowVerdict, folded};
use folio_types::op::OpKey;
use folio_types::{Error, OrgId, Result};

use super::keyspace::Keyspace;
use super::record::load;
use super::session::{ConditionalResult, Read};
use super::table::NameRow;
use super::{ops, retry};

/// The name of a kind ([`folio_resources::Kind::name`]), and a name of that kind.
type Name<'a> = (&'a str, &'a str);

/// Evaluates the row of a name for another op of the resource `id`.
async fn verdict(keyspace: &Keyspace, org: &OrgId, name: &str, row: &NameRow, id: &str) -> Result<RowVerdict> {
    let has_op_row = ops::row(keyspace, org, &row.id, &row.op, Read::Serial).await?.is_some();
    let live = load(keyspace, org, &row.id, Read::Serial).await?.live();
    let has_effect = live.and_then(|fields| fields.unique_name).is_some_and(|found| folded(&found) == folded(name));
    let entered = EnteredRow { op: row.op.parse()?, age: keyspace.age(row.at), has_op_row, has_effect };
    Ok(entered.verdict(row.id == id))
}

/// Fails if the name cannot be claimed. Changes nothing.
pub(crate) async fn check(keyspace: &Keyspace, org: &OrgId, name: Name<'_>, id: &str, op: &OpKey) -> Result<()> {
    let Some(row) = keyspace.tables.names.get(org, (name.0, &folded(name.1)), Read::Quorum).await? else {
        return Ok(());
    };
    if row.id == id && row.op == op.to_string() {
        return Ok(());
    }
    match verdict(keyspace, org, name.1, &row, id).await? {
        RowVerdict::Taken => Err(Kind::name_taken(name.0, name.1, &row.id)),
        RowVerdict::Contended => Err(contended(name)),
        RowVerdict::Claimed | RowVerdict::Replace | RowVerdict::Close => Ok(()),
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
        if let Some(row) = keyspace.tables.names.get(org, key, Read::Serial).await? {
            if row.id == wanted.id && row.op == wanted.op {
                return Ok(());
            }
            match verdict(keyspace, org, name.1, &row, id).await? {
                RowVerdict::Claimed => return Ok(()),
                RowVerdict::Taken => return Err(Kind::name_taken(name.0, name.1, &row.id)),
                RowVerdict::Contended => return Err(contended(name)),
                RowVerdict::Close => ops::close_of_another(keyspace, org, &row.id, row.op.parse()?).await?,
                RowVerdict::Replace => {
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
    let Some(row) = keyspace.tables.names.get(org, key, Read::Serial).await? else { return Ok(()) };
    if row.id == id && verdict(keyspace, org, name.1, &row, id).await? == RowVerdict::Replace {
        keyspace.tables.names.free(org, key, &row).await?;
    }
    Ok(())
}

/// Returns the id that a name was assigned to. The resource may have been renamed or deleted since.
pub(crate) async fn id_by_name(keyspace: &Keyspace, org: &OrgId, (kind, name): Name<'_>) -> Result<Option<String>> {
    Ok(keyspace.tables.names.get(org, (kind, &folded(name)), Read::Quorum).await?.map(|row| row.id))
}

fn contended((kind, name): Name<'_>) -> Error {
    Error::contended(format!("another request is creating a {kind} named {name:?}; retry later"))
}

//! Unique names: one row for each kind and folded name, with the id of the resource.

use folio_resources::{Kind, folded};
use folio_types::{OrgId, Result};

use super::keys::{self, Space};
use super::reads::Reads;
use super::transaction::Transaction;
use super::value::NameRow;

/// Claims a name for `id`. Idempotent. Fails with `NAME_TAKEN` if another resource has the name.
pub(crate) fn claim(transaction: &mut Transaction<'_>, org: &OrgId, kind: &Kind, name: &str, id: &str) -> Result<()> {
    let key = keys::name(org, kind.name, &folded(name));
    match transaction.read::<NameRow>(Space::Records, &key)? {
        Some(row) if row.id != id => Err(Kind::name_taken(kind.name, name, &row.id)),
        _ => transaction.put(Space::Records, key, &NameRow { id: id.to_owned() }),
    }
}

/// Frees a name unless another resource has it.
pub(crate) fn free(transaction: &mut Transaction<'_>, org: &OrgId, kind: &Kind, name: &str, id: &str) -> Result<()> {
    let key = keys::name(org, kind.name, &folded(name));
    if transaction.read::<NameRow>(Space::Records, &key)?.is_some_and(|row| row.id == id) {
        transaction.remove(Space::Records, key);
    }
    Ok(())
}

pub(crate) fn id_by_name(reads: &impl Reads, org: &OrgId, kind: &Kind, name: &str) -> Result<Option<String>> {
    let row = reads.read::<NameRow>(Space::Records, &keys::name(org, kind.name, &folded(name)))?;
    Ok(row.map(|row| row.id))
}

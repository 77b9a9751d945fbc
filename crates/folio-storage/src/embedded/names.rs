//! Names: one of their kind among the live ones of an organization, without regard to case.

use folio_types::{Code, Error, OrgId, Reason, Result};

use super::keys::{self, Kind, Space};
use super::reads::Reads;
use super::transaction::Transaction;
use super::value::NameRow;
use crate::planted::Bug;

/// Takes a name for `id`; no error where it has it already.
pub(crate) fn claim(transaction: &mut Transaction<'_>, org: &OrgId, kind: Kind, name: &str, id: &str) -> Result<()> {
    let key = row_key(transaction, org, kind, name);
    match transaction.read::<NameRow>(Space::Records, &key)? {
        Some(row) if row.id != id && !transaction.plan().has(Bug::NameNotUnique) => Err(Error::new(
            Code::AlreadyExists,
            Reason::NameTaken,
            format!("there is a {} named {name:?} already", kind.word()),
        )
        .detail("id", row.id)),
        _ => transaction.put(Space::Records, key, &NameRow { id: id.to_owned() }),
    }
}

/// Frees a name of `id`.
pub(crate) fn free(transaction: &mut Transaction<'_>, org: &OrgId, kind: Kind, name: &str, id: &str) -> Result<()> {
    let key = row_key(transaction, org, kind, name);
    if transaction.read::<NameRow>(Space::Records, &key)?.is_some_and(|row| row.id == id) {
        transaction.remove(Space::Records, key);
    }
    Ok(())
}

/// Takes `new` for `id` in the place of `old`.
pub(crate) fn rename(
    transaction: &mut Transaction<'_>,
    org: &OrgId,
    kind: Kind,
    id: &str,
    old: &str,
    new: &str,
) -> Result<()> {
    free(transaction, org, kind, old, id)?;
    claim(transaction, org, kind, new, id)
}

/// Whose name it is.
pub(crate) fn holder(reads: &impl Reads, org: &OrgId, kind: Kind, name: &str) -> Result<Option<String>> {
    let key = row_key(reads, org, kind, name);
    Ok(reads.read::<NameRow>(Space::Records, &key)?.map(|row| row.id))
}

fn row_key(reads: &impl Reads, org: &OrgId, kind: Kind, name: &str) -> Vec<u8> {
    let mut key = keys::name(org, kind, name);
    if reads.plan().has(Bug::NameCaseMatters) {
        key.extend_from_slice(name.as_bytes());
    }
    key
}

//! References: who uses a schema or a tag. A row lies below the used one for each live user; what is used is not deleted.

use std::collections::BTreeSet;
use std::ops::ControlFlow;

use folio_types::document::Document;
use folio_types::prompt::Prompt;
use folio_types::{Error, OrgId, Reason, Result, TagId};

use super::keys::{self, Kind, Space};
use super::reads::{Range, Reads};
use super::transaction::Transaction;
use super::value::{Mark, Record};
use crate::planted::Bug;

/// Users that an `IN_USE` error names.
const NAMED_USERS: usize = 5;

/// Replaces what `user` refers to.
pub(crate) fn replace(
    transaction: &mut Transaction<'_>,
    org: &OrgId,
    user: &str,
    before: &BTreeSet<String>,
    after: &BTreeSet<String>,
) -> Result<()> {
    for used in before.difference(after) {
        transaction.remove(Space::Records, keys::reference(org, used, user));
    }
    for used in after.difference(before) {
        transaction.put(Space::Records, keys::reference(org, used, user), &Mark)?;
    }
    Ok(())
}

/// Refuses with `IN_USE` where `used` has a user: the first few by name, and how many there are.
pub(crate) fn refuse_if_used(transaction: &Transaction<'_>, org: &OrgId, what: &str, used: &str) -> Result<()> {
    if transaction.plan().has(Bug::ReferenceIgnored) {
        return Ok(());
    }
    let prefix = keys::references(org, used);
    let (mut count, mut first) = (0_usize, Vec::new());
    transaction.walk(Range::prefix(Space::Records, prefix.clone()), &mut |key, _| {
        count += 1;
        if first.len() < NAMED_USERS
            && let Some(user) = key.get(prefix.len()..)
        {
            first.push(String::from_utf8_lossy(user).into_owned());
        }
        Ok(ControlFlow::Continue(()))
    })?;
    if count == 0 {
        return Ok(());
    }
    let mut users = Vec::new();
    for id in &first {
        users.push(described(transaction, org, id)?);
    }
    let more = match count.saturating_sub(users.len()) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    Err(Error::precondition(Reason::InUse, format!("the {what} is in use by {}{more}", users.join(", ")))
        .detail("users", first.join(","))
        .detail("count", count))
}

fn described(reads: &impl Reads, org: &OrgId, id: &str) -> Result<String> {
    if id.starts_with(folio_types::PromptId::PREFIX) {
        let prompt = reads.read::<Record<Prompt>>(Space::Records, &keys::record(org, Kind::Prompt, id))?;
        let name = prompt.and_then(Record::live).map(|prompt| prompt.latest.name).unwrap_or_default();
        Ok(format!("prompt {name:?} ({id})"))
    } else {
        let document = reads.read::<Record<Document>>(Space::Records, &keys::record(org, Kind::Document, id))?;
        let name = document.and_then(Record::live).map(|document| document.name).unwrap_or_default();
        Ok(format!("document {name:?} ({id})"))
    }
}

/// Tags without doubles, in the order given.
pub(crate) fn distinct(tags: &[TagId]) -> Vec<TagId> {
    let mut seen = BTreeSet::new();
    tags.iter().filter(|tag| seen.insert(*tag)).cloned().collect()
}

/// Refuses with `NOT_FOUND` unless every tag lives.
pub(crate) fn tags_live(reads: &impl Reads, org: &OrgId, tags: &[TagId]) -> Result<()> {
    if reads.plan().has(Bug::ReferenceUnchecked) {
        return Ok(());
    }
    for tag in tags {
        super::tags::live(reads, org, tag)?.ok_or_else(|| Error::not_found("tag", tag))?;
    }
    Ok(())
}

//! References: who uses a schema or a tag. An entry lies in the used one's partition for each op that made somebody refer
//! to it; their count is a static column that changes with them, and a condition of the used one's deletion.
//!
//! An entry is *live* while its user lives and refers to the used one; else *open* while no op row of its key stands beside
//! the user; else *dead*, and anyone may remove it.

use std::collections::BTreeSet;

use folio_types::document::Document;
use folio_types::op::OpKey;
use folio_types::prompt::Prompt;
use folio_types::{DocumentId, Error, OrgId, PromptId, Reason, Result, SchemaId, Timestamp};

use super::aggregate::{Aggregate, load};
use super::keyspace::Keyspace;
use super::session::{Sent, Strength};
use super::table::Part;
use super::values::micros;
use super::{asked, ops, retry};
use crate::planted::Bug;
use crate::value::{Reference, decode, encode};

/// Users that an `IN_USE` error names.
const NAMED_USERS: usize = 5;

/// Entries that are read at once.
const ENTRIES: usize = 100;

enum Worth {
    /// With a word for the user.
    Live(String),
    Open,
    Dead,
}

/// Refuses with `NOT_FOUND` unless the used one lives.
pub(crate) async fn check(keyspace: &Keyspace, org: &OrgId, used: &str) -> Result<()> {
    let Keyspace { cql, tables, .. } = keyspace;
    match tables.aggregates.header(cql, org, used, Strength::Quorum).await?.live {
        Some(true) => Ok(()),
        Some(false) | None => Err(not_found(used)),
    }
}

fn not_found(used: &str) -> Error {
    Error::not_found(if used.starts_with(SchemaId::PREFIX) { "schema" } else { "tag" }, used)
}

/// Enters that `user` refers to `used` by an op; before the user is written.
pub(crate) async fn add(keyspace: &Keyspace, org: &OrgId, used: &str, user: &str, op: &str) -> Result<()> {
    let Keyspace { cql, tables, .. } = keyspace;
    let key = format!("{user}/{op}");
    let value = encode(&Reference { at: keyspace.now() })?;
    for attempt in 0..retry::ATTEMPTS {
        let strength = if attempt == 0 { Strength::Quorum } else { Strength::Serial };
        let header = tables.aggregates.header(cql, org, used, strength).await?;
        if attempt > 0
            && tables.aggregates.row(cql, org, used, (Part::Reference, &key), Strength::Serial).await?.is_some()
        {
            return Ok(());
        }
        if header.live != Some(true) {
            return Err(not_found(used));
        }
        let count = tables.aggregates.uses(org, used, (header.uses, header.uses + 1), true);
        let entry = tables.aggregates.insert_once(org, used, (Part::Reference, &key), value.clone());
        if let Sent::Applied = keyspace.commit(vec![count, entry]).await? {
            return Ok(());
        }
        retry::pause(attempt, keyspace.random()).await;
    }
    Err(retry::contended("what is referred to"))
}

/// Removes the entries of a user that are dead.
pub(crate) async fn remove_dead(keyspace: &Keyspace, org: &OrgId, used: &str, user: &str) -> Result<()> {
    let Keyspace { cql, tables, .. } = keyspace;
    let prefix = format!("{user}/");
    for (key, _) in tables.aggregates.rows(cql, org, used, (Part::Reference, &prefix), ENTRIES).await? {
        if let Worth::Dead = worth(keyspace, org, used, &key).await? {
            remove(keyspace, org, used, &key).await?;
        }
    }
    Ok(())
}

async fn remove(keyspace: &Keyspace, org: &OrgId, used: &str, key: &str) -> Result<()> {
    let Keyspace { cql, tables, .. } = keyspace;
    for attempt in 0..retry::ATTEMPTS {
        let header = tables.aggregates.header(cql, org, used, Strength::Serial).await?;
        if tables.aggregates.row(cql, org, used, (Part::Reference, key), Strength::Serial).await?.is_none() {
            return Ok(());
        }
        let count = tables.aggregates.uses(org, used, (header.uses, header.uses.saturating_sub(1)), false);
        let entry = tables.aggregates.remove_there(org, used, (Part::Reference, key));
        if let Sent::Applied = keyspace.commit(vec![count, entry]).await? {
            return Ok(());
        }
        retry::pause(attempt, keyspace.random()).await;
    }
    Err(retry::contended("what is referred to"))
}

/// Refuses with `IN_USE` where `used` has a live user: the first few by name, and how many there are. Dead entries go.
pub(crate) async fn refuse_if_used(keyspace: &Keyspace, org: &OrgId, what: &str, used: &str, count: u64) -> Result<()> {
    let Keyspace { cql, tables, .. } = keyspace;
    loop {
        let entries = tables.aggregates.rows(cql, org, used, (Part::Reference, ""), ENTRIES).await?;
        let whole = entries.len() < ENTRIES;
        let (mut users, mut described) = (BTreeSet::new(), Vec::new());
        for (key, value) in entries {
            let user = key.split('/').next().unwrap_or_default().to_owned();
            if users.contains(&user) {
                continue;
            }
            match worth(keyspace, org, used, &key).await? {
                Worth::Live(word) => {
                    described.push(word);
                    users.insert(user);
                }
                Worth::Dead => remove(keyspace, org, used, &key).await?,
                Worth::Open => {
                    close(keyspace, org, &key, decode::<Reference>(&value)?.at).await?;
                    remove(keyspace, org, used, &key).await?;
                }
            }
            if described.len() > NAMED_USERS {
                break;
            }
        }
        if described.is_empty() {
            if whole {
                return Ok(());
            }
            continue;
        }
        let count =
            if described.len() > NAMED_USERS { count.max(described.len() as u64) } else { described.len() as u64 };
        described.truncate(NAMED_USERS);
        let more = match count.saturating_sub(described.len() as u64) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        let users: Vec<_> = users.into_iter().take(NAMED_USERS).collect();
        return Err(Error::precondition(
            Reason::InUse,
            format!("the {what} is in use by {}{more}", described.join(", ")),
        )
        .detail("users", users.join(","))
        .detail("count", count));
    }
}

async fn worth(keyspace: &Keyspace, org: &OrgId, used: &str, key: &str) -> Result<Worth> {
    let (user, op) = key.split_once('/').ok_or_else(|| Error::internal("a reference without an op"))?;
    // The op row first: one that stands is from before the user is looked at.
    let stands = ops::row(keyspace, org, user, op, Strength::Serial).await?.is_some();
    let live = if user.starts_with(PromptId::PREFIX) {
        prompt(keyspace, org, used, user).await?
    } else {
        document(keyspace, org, used, user).await?
    };
    Ok(match (live, stands) {
        (Some(word), _) => Worth::Live(word),
        (None, true) => Worth::Dead,
        (None, false) => Worth::Open,
    })
}

/// A prompt that lives and refers to it in any revision.
async fn prompt(keyspace: &Keyspace, org: &OrgId, used: &str, user: &str) -> Result<Option<String>> {
    let Some(prompt) = load::<Prompt>(keyspace, org, user, Strength::Serial).await?.live() else { return Ok(None) };
    let mut refers = prompt.uses().contains(used);
    if !refers && !keyspace.has(Bug::OldRevisionForgotten) {
        let Keyspace { cql, tables, .. } = keyspace;
        for (_, stored) in tables.aggregates.rows(cql, org, user, (Part::Revision, ""), usize::MAX).await? {
            refers |= Prompt::revision_uses(&stored)?.contains(used);
        }
    }
    Ok(refers.then(|| format!("prompt {:?} ({user})", prompt.latest.name)))
}

async fn document(keyspace: &Keyspace, org: &OrgId, used: &str, user: &str) -> Result<Option<String>> {
    debug_assert!(user.starts_with(DocumentId::PREFIX), "only prompts and documents refer to anything");
    let document = load::<Document>(keyspace, org, user, Strength::Serial).await?.live();
    let refers = document.filter(|document| document.uses().contains(used));
    Ok(refers.map(|document| format!("document {:?} ({user})", document.name)))
}

/// Closes the op of a request that entered a reference and never came; any other is left to go on.
async fn close(keyspace: &Keyspace, org: &OrgId, key: &str, at: Timestamp) -> Result<()> {
    let (user, op) = key.split_once('/').ok_or_else(|| Error::internal("a reference without an op"))?;
    let op: OpKey = op.parse()?;
    if !matches!(op, OpKey::Request { .. }) || !asked::is_stale(keyspace, micros(at)) {
        return Err(retry::contended("what is to be deleted"));
    }
    ops::close_of_another(keyspace, org, user, op).await
}

//! Dependents of a resource. A dependent is entered in the parent's partition before it is written, and only while the
//! parent is live, so that the clean-up finds every dependent.

use folio_resources::Kind;
use folio_types::{OrgId, Result};

use super::keyspace::Keyspace;
use super::retry;
use super::session::{ConditionalResult, Read};
use super::table::Part;
use folio_storage::value::{Empty, encode};

/// Fails with `NOT_FOUND` unless the parent is live.
pub(crate) async fn enter(keyspace: &Keyspace, org: &OrgId, parent: &str, row: (Part, &str)) -> Result<()> {
    let tables = &keyspace.tables;
    let value = encode(&Empty)?;
    for attempt in 0..retry::ATTEMPTS {
        let is_live = tables.aggregates.live(org, parent);
        let entry = tables.aggregates.insert_if_absent(org, parent, row, value.clone());
        if let ConditionalResult::Applied = keyspace.commit(vec![is_live, entry]).await? {
            return Ok(());
        }
        if tables.aggregates.header(org, parent, Read::Serial).await?.live != Some(true) {
            return Err(Kind::of_id(parent)?.not_found(parent));
        }
        if tables.aggregates.row(org, parent, row, Read::Serial).await?.is_some() {
            return Ok(());
        }
        retry::pause(attempt, keyspace.random()).await;
    }
    Err(retry::contended("the parent"))
}

pub(crate) async fn remove(keyspace: &Keyspace, org: &OrgId, parent: &str, row: (Part, &str)) -> Result<()> {
    let statement = keyspace.tables.aggregates.remove_existing(org, parent, row);
    match keyspace.commit(vec![statement]).await? {
        ConditionalResult::Applied | ConditionalResult::Refused => Ok(()),
        ConditionalResult::Unknown(error) => Err(error),
    }
}

//! What hangs on a document: entered in its partition before it is written, and only while the document lives, so that the
//! clean-up finds everything.

use folio_types::{DocumentId, Error, OrgId, Result};

use super::keyspace::Keyspace;
use super::retry;
use super::session::{Sent, Strength};
use super::table::Part;
use crate::value::{Mark, encode};

/// Refuses with `NOT_FOUND` unless the document lives.
pub(crate) async fn check(keyspace: &Keyspace, org: &OrgId, document: &DocumentId) -> Result<()> {
    let Keyspace { cql, tables, .. } = keyspace;
    match tables.aggregates.header(cql, org, document.as_str(), Strength::Quorum).await?.live {
        Some(true) => Ok(()),
        Some(false) | None => Err(Error::not_found("document", document)),
    }
}

/// Enters something below a document; `NOT_FOUND` where it does not live.
pub(crate) async fn enter(keyspace: &Keyspace, org: &OrgId, document: &DocumentId, row: (Part, &str)) -> Result<()> {
    let Keyspace { cql, tables, .. } = keyspace;
    let value = encode(&Mark)?;
    for attempt in 0..retry::ATTEMPTS {
        let lives = tables.aggregates.live(org, document.as_str());
        let entry = tables.aggregates.insert_once(org, document.as_str(), row, value.clone());
        if let Sent::Applied = keyspace.commit(vec![lives, entry]).await? {
            return Ok(());
        }
        if tables.aggregates.header(cql, org, document.as_str(), Strength::Serial).await?.live != Some(true) {
            return Err(Error::not_found("document", document));
        }
        if tables.aggregates.row(cql, org, document.as_str(), row, Strength::Serial).await?.is_some() {
            return Ok(());
        }
        retry::pause(attempt, keyspace.random()).await;
    }
    Err(retry::contended("the document"))
}

/// The keys of what hangs on a document.
pub(crate) async fn entries(
    keyspace: &Keyspace,
    org: &OrgId,
    document: &DocumentId,
    part: Part,
) -> Result<Vec<String>> {
    let Keyspace { cql, tables, .. } = keyspace;
    let rows = tables.aggregates.rows(cql, org, document.as_str(), (part, ""), usize::MAX).await?;
    Ok(rows.into_iter().map(|(key, _)| key).collect())
}

/// Takes something away that hung on a document and is gone.
pub(crate) async fn remove(keyspace: &Keyspace, org: &OrgId, document: &DocumentId, row: (Part, &str)) -> Result<()> {
    let statement = keyspace.tables.aggregates.remove_there(org, document.as_str(), row);
    match keyspace.commit(vec![statement]).await? {
        Sent::Applied | Sent::Refused => Ok(()),
        Sent::Unknown(error) => Err(error),
    }
}

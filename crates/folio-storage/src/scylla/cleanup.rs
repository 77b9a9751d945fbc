//! What goes with a deleted document: its partition says what hung on it.
//!
//! Every step may be done again, and is: at once by who deleted the document, and by the clean-up until it forgets it.

use folio_types::document::Document;
use folio_types::extraction::Extraction;
use folio_types::op::{OpResult, OpRow, OpState, Target};
use folio_types::{DocumentId, OrgId, Result, Timestamp};

use super::aggregate::load;
use super::catalogue::{self, Listed};
use super::documents::{DELETED, key};
use super::keyspace::Keyspace;
use super::session::{Sent, Strength};
use super::table::Part;
use super::values::micros;
use super::{extractions, hanging, retry, texts};
use crate::planted::Bug;
use crate::traits::Waits;
use crate::value::{ListRow, Record, decode, encode};

/// Removes the texts of a deleted document and puts a tombstone on each of its extractions, so that later writes to them
/// are refused.
pub(crate) async fn empty(keyspace: &Keyspace, org: &OrgId, document: &DocumentId, at: Timestamp) -> Result<()> {
    for extraction in hanging::entries(keyspace, org, document, Part::Extraction).await? {
        extractions::bury(keyspace, org, &extraction, at).await?;
    }
    texts::remove_all(keyspace, org, document).await?;
    for waits in [Waits::ForItsTurn, Waits::ForProgram] {
        texts::wait_no_more(keyspace, waits, org, document).await?;
    }
    Ok(())
}

/// All that hung on a deleted document is gone: from now on its tombstones and op rows hold ids and times only.
pub(crate) async fn forget(keyspace: &Keyspace, org: &OrgId, document: &DocumentId) -> Result<()> {
    let Keyspace { cql, tables, .. } = keyspace;
    let loaded = load::<Document>(keyspace, org, document.as_str(), Strength::Serial).await?;
    let Some(Record::Gone { at, .. }) = loaded.record else { return Ok(()) };
    empty(keyspace, org, document, at).await?;
    // Its deletion may have ended before that.
    let row = ListRow { id: document.to_string(), ..ListRow::default() };
    catalogue::mend::<Document>(keyspace, org, &Listed { row, at: loaded.header.created_at, version: 0 }).await?;
    for extraction in hanging::entries(keyspace, org, document, Part::Extraction).await? {
        forget_ops(keyspace, org, &Target::Extraction(extraction.parse()?)).await?;
        hanging::remove(keyspace, org, document, (Part::Extraction, &extraction)).await?;
    }
    for generation in hanging::entries(keyspace, org, document, Part::Text).await? {
        hanging::remove(keyspace, org, document, (Part::Text, &generation)).await?;
    }
    forget_ops(keyspace, org, &Target::Document(document.clone())).await?;
    tables.system_rows.remove(cql, DELETED, micros(at), &key(org, document)).await
}

/// From now on the op rows of this target hold ids and times only.
pub(crate) async fn forget_ops(keyspace: &Keyspace, org: &OrgId, target: &Target) -> Result<()> {
    if keyspace.has(Bug::DeletedDataStays) {
        return Ok(());
    }
    let Keyspace { cql, tables, .. } = keyspace;
    let id = target.to_string();
    for (key, stored) in tables.aggregates.rows(cql, org, &id, (Part::Op, ""), usize::MAX).await? {
        let mut row: OpRow = decode(&stored)?;
        match &mut row.state {
            OpState::Done(OpResult::Extraction { data, .. }) => *data = serde_json::Value::Null,
            OpState::Done(OpResult::Document { name, .. }) => name.clear(),
            _ => continue,
        }
        let replaced = tables.aggregates.replace(org, &id, (Part::Op, &key), encode(&row)?);
        if let Sent::Unknown(error) = keyspace.commit(vec![replaced]).await? {
            return Err(error);
        }
    }
    Ok(())
}

/// The tombstone of an extraction whose document is gone; it has no op of its own.
pub(crate) async fn bury(keyspace: &Keyspace, org: &OrgId, id: &str, at: Timestamp) -> Result<Option<Extraction>> {
    let aggregates = &keyspace.tables.aggregates;
    for attempt in 0..retry::ATTEMPTS {
        let loaded = load::<Extraction>(keyspace, org, id, Strength::Serial).await?;
        let Some(extraction) = loaded.live() else { return Ok(None) };
        let version = extraction.version + 1;
        let record = encode(&Record::<Extraction>::Gone { version, at })?;
        let change = aggregates.change(org, id, (extraction.version, version), (false, record), false);
        if let Sent::Applied = keyspace.commit(vec![change]).await? {
            return Ok(Some(extraction));
        }
        retry::pause(attempt, keyspace.random()).await;
    }
    Err(retry::contended("an extraction"))
}

//! Invariants of the stored credit, computed independently of the escrow: grants − expired = available + in open blocks
//! + settled in closed blocks.

use std::collections::BTreeMap;

use folio_credit::AccountEntry;
use folio_storage::CreditStore;
use folio_types::{BlockId, OrgId};

use crate::node::ReservedCall;

/// Checks the invariants that hold at all times.
pub(crate) async fn check_always(store: &dyn CreditStore, org: &OrgId) -> Result<(), String> {
    let account = store.account(org).await.map_err(|error| error.to_string())?;
    account.check()?;
    for block in &account.blocks {
        let ledger = store.ledger(org, &block.id).await.map_err(|error| error.to_string())?;
        let charged: u64 = ledger.rows.iter().map(|row| row.charge()).sum();
        if charged > block.amount() {
            return Err(format!("block {} of {} is overdrawn: {charged}", block.id, block.amount()));
        }
    }
    Ok(())
}

/// Checks the invariants that hold when all blocks are closed: compares the account with sums over its entries and
/// ledgers, and each call with its ledger row.
pub(crate) async fn check_closed(store: &dyn CreditStore, org: &OrgId, calls: &[ReservedCall]) -> Result<(), String> {
    let message = |error: folio_types::Error| error.to_string();
    let account = store.account(org).await.map_err(message)?;
    account.check()?;
    if !account.blocks.is_empty() {
        return Err(format!("blocks are open: {:?}", account.blocks));
    }
    let (mut granted, mut withdrawn, mut drawn, mut closed_blocks) = (0, 0, BTreeMap::new(), BTreeMap::new());
    for entry in store.entries(org, "", None, 100_000).await.map_err(message)? {
        match entry {
            AccountEntry::Granted(grant) => granted += grant.amount,
            AccountEntry::Withdrawn { amount, .. } => withdrawn += amount,
            AccountEntry::Drawn(block) => drop(drawn.insert(block.id.clone(), block.amount())),
            AccountEntry::Closed { block, amount, settled, .. } => drop(closed_blocks.insert(block, (amount, settled))),
        }
    }
    if granted != account.granted + withdrawn {
        return Err(format!("granted by the entries {granted}-{withdrawn}, by the account {}", account.granted));
    }
    if !drawn.keys().eq(closed_blocks.keys()) {
        return Err(format!("drawn {drawn:?}, closed {closed_blocks:?}"));
    }
    let mut rows: BTreeMap<(BlockId, String), u64> = BTreeMap::new();
    let mut settled = 0;
    for (block, (amount, stated_settled)) in &closed_blocks {
        let ledger = store.ledger(org, block).await.map_err(message)?;
        let charged: u64 = ledger.rows.iter().map(|row| row.charge()).sum();
        if drawn[block] != *amount || charged != *stated_settled || charged > *amount {
            return Err(format!(
                "block {block} drawn with {}, closed {amount}, {stated_settled}; rows {charged}",
                drawn[block]
            ));
        }
        if let Some(row) = ledger.rows.iter().find(|row| row.settled.is_none()) {
            return Err(format!("a row of a closed block is not settled: {row:?}"));
        }
        settled += charged;
        rows.extend(ledger.rows.into_iter().map(|row| ((block.clone(), row.key.clone()), row.charge())));
    }
    if settled != account.settled {
        return Err(format!("settled by the rows {settled}, by the account {}", account.settled));
    }
    for call in calls {
        let charged = rows.get(&(call.block.clone(), call.key.clone())).copied();
        let (cost, reserved) = (call.cost.min(call.reserved), call.reserved);
        let is_correct = match call.settled {
            Some(message) => charged == Some(message) && (message == cost || message == reserved),
            None => charged == Some(cost) || charged == Some(reserved),
        };
        if !is_correct {
            return Err(format!("a call was charged {charged:?} instead of its cost or its reservation: {call:?}"));
        }
    }
    Ok(())
}

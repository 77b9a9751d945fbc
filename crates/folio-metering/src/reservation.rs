//! The credit reservation of one model call, from the write of its ledger row to its settlement.

use folio_credit::{Basis, LedgerRow, SettlementRecord};
use folio_types::BlockId;
use folio_types::Timestamp;
use folio_types::message::Usage;

use crate::actor::MeterRef;
use crate::prices::{Price, PriceOptions};
use crate::{MeteredCall, Settlement};

/// A reservation whose row is stored in the ledger of a block.
#[derive(Debug)]
pub(crate) struct Reservation {
    pub(crate) block: BlockId,
    pub(crate) row: LedgerRow,
    pub(crate) actor: MeterRef,
}

/// A reservation whose row is not stored, or whose write has an unknown outcome. Dropping it settles the row as not
/// sent, then releases the credit.
pub(crate) struct UnconfirmedReservation {
    parts: Option<Reservation>,
}

impl UnconfirmedReservation {
    pub(crate) fn new(reservation: Reservation) -> Self {
        Self { parts: Some(reservation) }
    }

    pub(crate) fn parts(&self) -> Option<(&BlockId, &LedgerRow)> {
        self.parts.as_ref().map(|parts| (&parts.block, &parts.row))
    }

    pub(crate) fn confirm(mut self) -> Option<Reservation> {
        self.parts.take()
    }

    /// Releases the credit and retires the block. Call it if the block was sealed and the row was not stored.
    pub(crate) fn sealed(mut self) {
        if let Some(Reservation { block, row, actor }) = self.parts.take() {
            actor.sealed(block, row.credits);
        }
    }

    /// Releases the credit without settling the row. Call it if the stored row belongs to another reservation.
    pub(crate) fn unused(mut self) {
        if let Some(Reservation { block, row, actor }) = self.parts.take() {
            actor.settled(block, row.credits, 0);
        }
    }
}

impl Drop for UnconfirmedReservation {
    fn drop(&mut self) {
        if let Some(Reservation { block, row, actor }) = self.parts.take() {
            actor.cancel_reservation(block, row);
        }
    }
}

/// Returns the usage and the price of a model call, and true if its answer is complete. None: the call was not sent.
fn priced(call: &MeteredCall, settlement: &Settlement, prices: &PriceOptions) -> Option<(Usage, Price, bool)> {
    let (usage, completed) = match settlement {
        Settlement::NotSent => return None,
        Settlement::Completed(usage) => (usage, true),
        Settlement::Partial(usage) => (usage, false),
    };
    let usage = Usage { model_calls: usage.model_calls.max(1), ..*usage };
    Some((usage, prices.price(&call.prices, &usage), completed))
}

/// Returns the credits that a settlement charges, at most `reserved`.
pub(crate) fn charge(call: &MeteredCall, settlement: &Settlement, prices: &PriceOptions, reserved: u64) -> u64 {
    priced(call, settlement, prices).map_or(0, |(_, price, _)| price.credits.min(reserved))
}

/// Returns the row with its settlement. The charge is at most the reservation; the excess is written off.
pub(crate) fn settled(
    row: &LedgerRow,
    call: &MeteredCall,
    settlement: Settlement,
    prices: &PriceOptions,
    at: Timestamp,
) -> LedgerRow {
    let Some((usage, price, completed)) = priced(call, &settlement, prices) else {
        return row.settled_as_not_sent(at);
    };
    let settled = SettlementRecord {
        credits: charge(call, &settlement, prices, row.credits),
        usage,
        cost_microdollars: price.cost_microdollars,
        basis: Basis::of(&usage),
        written_off: price.credits.saturating_sub(row.credits),
        completed,
        at,
    };
    if settled.written_off > 0 {
        tracing::warn!(
            org = %call.org,
            key = row.key,
            credits = settled.written_off,
            "a model call cost more than its reservation; the excess is written off"
        );
    }
    LedgerRow { settled: Some(settled), ..row.clone() }
}

//! Decisions about conditional writes of credit: map the rows that a store read to an answer or a write.
//!
//! | write | order | condition | decision |
//! |---|---|---|---|
//! | change of an account | 1 | an entry with this key exists | [`AccountChangeOutcome::EntryExists`] |
//! | | 2 | the account has another version | [`AccountChangeOutcome::VersionMismatch`] |
//! | | 3 | – | store the account and its entry |
//! | reservation | 1 | the same permit reserved the row, and the row is not settled | [`ReserveOutcome::Done`] |
//! | | 2 | the row exists | [`ReserveOutcome::Exists`] |
//! | | 3 | the block is sealed | [`ReserveOutcome::Sealed`] |
//! | | 4 | – | insert the row |
//! | settlement | 1 | the row is settled, or another permit reserved it | [`SettleDecision::Stored`] |
//! | | 2 | the row exists | [`SettleDecision::End`] |
//! | | 3 | – | [`SettleDecision::Abandon`] |

use folio_types::{Error, OrgId, Result};

use crate::{Account, AccountEntry, LedgerRow};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AccountChange {
    pub org: OrgId,
    /// Version that the stored account must have.
    pub expected: u64,
    /// The account after the change, with its new version.
    pub account: Account,
    pub entry: AccountEntry,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AccountChangeOutcome {
    Done,
    /// An entry with this key exists, written by this change or by another one. If it existed before, nothing changed.
    EntryExists(Box<AccountEntry>),
    /// The account has another version; nothing was changed.
    VersionMismatch,
}

impl AccountChange {
    /// Returns the answer if the change must not be written. None: store the account and its entry. `version` is the
    /// version of the stored account, or 0 if none is stored; a store reads it before `entry`.
    pub fn outcome(&self, entry: Option<AccountEntry>, version: u64) -> Option<AccountChangeOutcome> {
        match entry {
            Some(entry) => Some(AccountChangeOutcome::EntryExists(Box::new(entry))),
            None if version != self.expected => Some(AccountChangeOutcome::VersionMismatch),
            None => None,
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReserveOutcome {
    /// The reservation is committed: the call may be made.
    Done,
    /// The block is sealed and does not contain the row, which can never be inserted.
    Sealed,
    /// Another permit reserved the row, or the row is settled.
    Exists(Box<LedgerRow>),
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Ledger {
    /// If true, the block accepts no further reservation.
    pub sealed: bool,
    /// Sorted by key.
    pub rows: Vec<LedgerRow>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SettleDecision {
    /// Nothing is written; the stored row is the answer.
    Stored(LedgerRow),
    /// The row replaces the reservation of the same permit and is the answer.
    End(LedgerRow),
    /// The row was never reserved: it is inserted as not sent and is the answer.
    Abandon(LedgerRow),
}

impl LedgerRow {
    /// Returns the answer if the reservation must not be written. None: insert the row. `sealed`: the block is sealed;
    /// a store reads this flag before `stored`.
    pub fn reserve(&self, stored: Option<Self>, sealed: bool) -> Option<ReserveOutcome> {
        match stored {
            Some(stored) if stored.settled.is_none() && stored.permit == self.permit => Some(ReserveOutcome::Done),
            Some(stored) => Some(ReserveOutcome::Exists(Box::new(stored))),
            None => sealed.then_some(ReserveOutcome::Sealed),
        }
    }

    /// Decides how to settle the row. `self` contains the settlement.
    ///
    /// # Errors
    /// `INTERNAL` if `self` is not settled.
    pub fn settle(&self, stored: Option<Self>) -> Result<SettleDecision> {
        let unsettled =
            || Error::internal(format!("ledger row {} cannot be settled: it contains no settlement", self.key));
        let settled = self.settled.as_ref().ok_or_else(unsettled)?;
        Ok(match stored {
            Some(stored) if stored.settled.is_some() || stored.permit != self.permit => SettleDecision::Stored(stored),
            Some(_) => SettleDecision::End(self.clone()),
            None => SettleDecision::Abandon(self.settled_as_not_sent(settled.at)),
        })
    }
}

#[cfg(test)]
mod tests {
    use folio_types::message::Usage;
    use folio_types::{GrantId, Reason, Timestamp, UserId};

    use super::*;
    use crate::{Basis, Grant, GrantKind, SettlementRecord};

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn row(permit: &str) -> LedgerRow {
        let row = LedgerRow::new("call", UserId::derive(&["ann"]), 5, at(1));
        LedgerRow { permit: permit.into(), input_tokens: 10, ..row }
    }

    fn settled_row(permit: &str, credits: u64) -> LedgerRow {
        let settled = SettlementRecord {
            credits,
            usage: Usage::default(),
            cost_microdollars: None,
            basis: Basis::Reported,
            written_off: 0,
            completed: true,
            at: at(3),
        };
        LedgerRow { settled: Some(settled), ..row(permit) }
    }

    fn granted(name: &str) -> AccountEntry {
        AccountEntry::Granted(Grant::new(GrantId::derive(&[name]), GrantKind::Admin, 1, at(1)))
    }

    #[test]
    fn an_account_changes_once_at_the_expected_version() {
        let account = Account { version: 8, ..Account::default() };
        let change = AccountChange { org: OrgId::derive(&["acme"]), expected: 7, account, entry: granted("one") };
        for version in [0, 6, 7, 8, 9] {
            for entry in [granted("one"), granted("other")] {
                let exists = Some(AccountChangeOutcome::EntryExists(Box::new(entry.clone())));
                assert_eq!(change.outcome(Some(entry), version), exists, "at version {version}");
            }
            let expected = (version != 7).then_some(AccountChangeOutcome::VersionMismatch);
            assert_eq!(change.outcome(None, version), expected, "at version {version}");
        }
    }

    #[test]
    fn a_reservation_has_the_decision_of_the_table_for_every_stored_row() {
        let exists = |row: LedgerRow| Some(ReserveOutcome::Exists(Box::new(row)));
        for (stored, open, sealed) in [
            (None, None, Some(ReserveOutcome::Sealed)),
            (Some(row("mine")), Some(ReserveOutcome::Done), Some(ReserveOutcome::Done)),
            (Some(row("other")), exists(row("other")), exists(row("other"))),
            (Some(settled_row("mine", 3)), exists(settled_row("mine", 3)), exists(settled_row("mine", 3))),
            (Some(settled_row("other", 3)), exists(settled_row("other", 3)), exists(settled_row("other", 3))),
        ] {
            assert_eq!(row("mine").reserve(stored.clone(), false), open, "{stored:?}");
            assert_eq!(row("mine").reserve(stored.clone(), true), sealed, "{stored:?} in a sealed block");
        }
    }

    #[test]
    fn a_settlement_has_the_decision_of_the_table_for_every_stored_row() {
        let settlement = settled_row("mine", 4);
        for (stored, decision) in [
            (None, SettleDecision::Abandon(settlement.settled_as_not_sent(at(3)))),
            (Some(row("mine")), SettleDecision::End(settlement.clone())),
            (Some(row("other")), SettleDecision::Stored(row("other"))),
            (Some(settled_row("mine", 3)), SettleDecision::Stored(settled_row("mine", 3))),
            (Some(settled_row("other", 3)), SettleDecision::Stored(settled_row("other", 3))),
        ] {
            assert_eq!(settlement.settle(stored.clone()).unwrap(), decision, "{stored:?}");
            assert_eq!(row("mine").settle(stored).unwrap_err().reason, Reason::Internal);
        }
    }

    #[test]
    fn a_row_without_a_report_is_charged_with_its_reservation_or_nothing_if_not_sent() {
        let prompt = Usage { input_tokens: 10, model_calls: 1, ..Usage::default() };
        for (settled, basis, credits, usage) in [
            (row("mine").settled_as_reserved(at(3)), Basis::Reserved, 5, prompt),
            (row("mine").settled_as_not_sent(at(3)), Basis::NotSent, 0, Usage::default()),
        ] {
            let reported = settled_row("mine", credits).settled.unwrap();
            let record = SettlementRecord { usage, basis, completed: false, ..reported };
            assert_eq!(settled, LedgerRow { settled: Some(record), ..row("mine") });
            assert_eq!(settled.charge(), credits);
        }
        assert_eq!((row("mine").charge(), settled_row("mine", 3).charge()), (5, 3));
    }

    #[test]
    fn only_entries_of_blocks_may_be_removed() {
        let (block, amount) = (folio_types::BlockId::derive(&["block"]), 1);
        let closed = AccountEntry::Closed { block, amount, settled: 1, at: at(1) };
        assert!(granted("one").is_permanent() && !closed.is_permanent());
    }
}

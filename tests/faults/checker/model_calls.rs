//! Invariant 5: the record of the model endpoint and the ledgers agree. Every model call that the endpoint received has
//! exactly one ledger row, which is not settled as not sent; every call that the ledger states as answered was received.
//!
//! A row is stored before its call is sent. If the process dies after that, the row remains, and the process that closes
//! the block charges the reservation.

use std::collections::BTreeMap;

use folio_credit::{Basis, LedgerRow};

use super::Invariant::Spend;
use super::{Findings, ObservedAccount, ObservedModelRequest};

pub(super) fn check(requests: &[ObservedModelRequest], accounts: &[ObservedAccount], findings: &mut Findings) {
    let mut rows: BTreeMap<&str, Vec<&LedgerRow>> = BTreeMap::new();
    for row in accounts.iter().flat_map(|account| account.ledgers.values().flatten()) {
        rows.entry(&row.key).or_default().push(row);
    }
    let mut received: BTreeMap<&str, Vec<&ObservedModelRequest>> = BTreeMap::new();
    for request in requests {
        match &request.key {
            Some(key) => received.entry(key).or_default().push(request),
            None => findings.add(Spend, "a model call", "the request does not name the call"),
        }
    }
    for (key, attempts) in &received {
        if attempts.windows(2).any(|two| two[0].body != two[1].body) {
            findings.add(Spend, key, "two different model calls have the same key");
        }
        let is_refused = attempts.iter().all(|attempt| attempt.is_refused);
        match rows.get(key).map_or(&[][..], Vec::as_slice) {
            [] => findings.add(Spend, key, "the model call has no ledger row"),
            [row] if is_not_sent(row) && !is_refused => {
                findings.add(Spend, key, "the model call was made, but its ledger row states that it was not sent");
            }
            [_] => {}
            several => findings.add(Spend, key, format!("the model call has {} ledger rows", several.len())),
        }
    }
    let is_answered = |row: &&LedgerRow| row.settled.as_ref().is_some_and(|settled| settled.completed);
    for row in rows.values().flatten().filter(|row| is_answered(row)) {
        let is_received = received.get(row.key.as_str()).is_some_and(|all| all.iter().any(|one| !one.is_refused));
        findings.add_unless(is_received, Spend, &row.key, "the ledger states an answer to a call that was not made");
    }
}

fn is_not_sent(row: &LedgerRow) -> bool {
    row.settled.as_ref().is_some_and(|settled| settled.basis == Basis::NotSent)
}

#[cfg(test)]
mod tests {
    use folio_credit::{Account, SettlementRecord};
    use folio_types::message::Usage;
    use folio_types::{BlockId, OrgId, Timestamp, UserId};
    use serde_json::json;

    use super::*;

    fn reserved(key: &str) -> LedgerRow {
        LedgerRow::new(key, UserId::derive(&["user"]), 5, Timestamp::UNIX_EPOCH)
    }

    fn answered(key: &str) -> LedgerRow {
        let settled = SettlementRecord {
            credits: 2,
            usage: Usage::default(),
            cost_microdollars: None,
            basis: Basis::Reported,
            written_off: 0,
            completed: true,
            at: Timestamp::UNIX_EPOCH,
        };
        LedgerRow { settled: Some(settled), ..reserved(key) }
    }

    fn unsent(key: &str) -> LedgerRow {
        reserved(key).settled_as_not_sent(Timestamp::UNIX_EPOCH)
    }

    fn abandoned(key: &str) -> LedgerRow {
        reserved(key).settled_as_reserved(Timestamp::UNIX_EPOCH)
    }

    fn request(key: &str) -> ObservedModelRequest {
        ObservedModelRequest { key: Some(key.to_owned()), body: json!(key), is_refused: false }
    }

    /// Returns the reasons of the violations. Each row is in a block of its own.
    fn found(rows: Vec<LedgerRow>, requests: &[ObservedModelRequest]) -> Vec<String> {
        let blocks = rows.into_iter().enumerate().map(|(n, row)| (BlockId::derive(&[&n.to_string()]), vec![row]));
        let (org, account) = (OrgId::derive(&["org"]), Account::default());
        let account = ObservedAccount { org, account, entries: Vec::new(), ledgers: blocks.collect() };
        let mut findings = Findings::default();
        check(requests, &[account], &mut findings);
        findings.0.into_iter().map(|violation| violation.reason).collect()
    }

    #[test]
    fn each_call_has_one_row_until_and_after_its_settlement() {
        // The third call is in progress, or its process died. The process of the fourth call died, and another process
        // closed the block of the call.
        let rows = vec![answered("a"), unsent("b"), reserved("c"), abandoned("d"), unsent("refused")];
        let refused = ObservedModelRequest { is_refused: true, ..request("refused") };
        let requests = [request("a"), request("a"), request("c"), request("d"), refused];
        assert_eq!(found(rows, &requests), [""; 0]);
    }

    #[test]
    fn invariant_5_calls_that_the_ledger_and_the_endpoint_count_differently_are_found() {
        let one = |rows, requests: &[ObservedModelRequest], reason: &str| {
            let found = found(rows, requests);
            assert!(matches!(&found[..], [only] if only.contains(reason)), "{reason}: {found:?}");
        };
        one(vec![], &[request("a")], "has no ledger row");
        one(vec![answered("a"), abandoned("a")], &[request("a")], "has 2 ledger rows");
        one(vec![unsent("a")], &[request("a")], "states that it was not sent");
        one(vec![answered("a")], &[], "a call that was not made");
        one(vec![answered("a")], &[ObservedModelRequest { is_refused: true, ..request("a") }], "was not made");
        one(vec![], &[ObservedModelRequest { key: None, ..request("a") }], "does not name the call");
        let other = ObservedModelRequest { body: json!("other"), ..request("a") };
        one(vec![answered("a")], &[request("a"), other], "two different model calls");
    }
}

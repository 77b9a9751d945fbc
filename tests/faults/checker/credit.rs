//! Invariant 5: granted − expired = available + in open blocks + settled in closed blocks. The check compares the
//! account with sums over its entries and the ledgers.

use std::collections::BTreeMap;

use folio_credit::{AccountEntry, LedgerRow};
use folio_types::BlockId;

use super::Invariant::Spend;
use super::{Findings, ObservedAccount};

pub(super) fn check(observed: &ObservedAccount, findings: &mut Findings) {
    let account = &observed.account;
    let mut add = |reason: String| findings.add(Spend, &observed.org, reason);
    let (mut granted, mut withdrawn, mut drawn, mut closed) = (0, 0, BTreeMap::new(), BTreeMap::new());
    for entry in &observed.entries {
        match entry {
            AccountEntry::Granted(grant) => granted += grant.amount,
            AccountEntry::Withdrawn { amount, .. } => withdrawn += amount,
            AccountEntry::Drawn(block) => drop(drawn.insert(&block.id, block.amount())),
            AccountEntry::Closed { block, amount, settled, .. } => drop(closed.insert(block, (*amount, *settled))),
        }
    }
    if granted != account.granted + withdrawn {
        add(format!("granted {granted} and withdrawn {withdrawn}, but the account states {}", account.granted));
    }
    let open: BTreeMap<&BlockId, u64> = account.blocks.iter().map(|block| (&block.id, block.amount())).collect();
    let available: u64 = account.grants.iter().map(|grant| grant.available).sum();
    let total = available + open.values().sum::<u64>() + account.settled;
    if account.granted != account.expired + total {
        add(format!(
            "granted {} differs from expired {} plus available, in open blocks and settled {total}",
            account.granted, account.expired
        ));
    }
    let mut settled = 0;
    for (block, amount) in &drawn {
        let rows = observed.ledgers.get(*block).map_or(&[][..], Vec::as_slice);
        let taken: u64 = rows.iter().map(LedgerRow::charge).sum();
        if taken > *amount {
            add(format!("block {block} of {amount} is overdrawn: {taken}"));
        }
        match (closed.get(block), open.get(block)) {
            (Some((amount, stated)), None) => {
                settled += stated;
                let ended = rows.iter().all(|row| row.settled.is_some());
                if taken != *stated || !ended {
                    add(format!(
                        "block {block} was closed with {stated} of {amount}; the charges of its calls are {taken}: {rows:?}"
                    ));
                }
            }
            (None, Some(_)) => {}
            (closed, open) => {
                add(format!("block {block} is not either open or closed: closed {closed:?}, open {open:?}"))
            }
        }
    }
    if let Some(block) = open.keys().chain(closed.keys()).find(|block| !drawn.contains_key(**block)) {
        add(format!("block {block} was never drawn"));
    }
    if settled != account.settled {
        add(format!("closed blocks settled {settled}, but the account states {}", account.settled));
    }
    // The ledgers may contain blocks that no account entry mentions.
    let mut charged: BTreeMap<&str, u32> = BTreeMap::new();
    for (block, row) in observed.ledgers.iter().flat_map(|(block, rows)| rows.iter().map(move |row| (block, row))) {
        if !drawn.contains_key(block) && row.charge() > 0 {
            add(format!("a call charges block {block}, which was never drawn: {row:?}"));
        }
        if row.charge() > 0 {
            *charged.entry(&row.key).or_default() += 1;
        }
    }
    for (key, times) in charged.iter().filter(|(_, times)| **times > 1) {
        add(format!("call {key} is charged {times} times"));
    }
}

#[cfg(test)]
mod tests {
    use folio_credit::{Account, Grant, GrantKind, OpenBlock};
    use folio_types::{GrantId, Incarnation, OrgId, Timestamp, UserId};

    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(1_790_000_000 + second).unwrap()
    }

    fn call(key: &str, credits: u64) -> LedgerRow {
        LedgerRow::new(key, UserId::derive(&["user"]), credits, at(1)).settled_as_reserved(at(3))
    }

    /// Returns an account with a grant of 100, a closed block of 10 with a call of 4 and an unsent call, and an open
    /// block of 20 with a call of 5.
    fn good() -> ObservedAccount {
        let (mut account, mut ledgers) = (Account::default(), BTreeMap::new());
        let mut entries =
            vec![account.grant(Grant::new(GrantId::derive(&["g"]), GrantKind::Admin, 100, at(0)), at(0)).unwrap()];
        let block = |name: &str| OpenBlock {
            id: BlockId::derive(&[name]),
            holder: Incarnation::derive(&["node"]),
            parts: Vec::new(),
            at: at(1),
            reserves_until: at(9),
        };
        for (name, amount) in [("closed", 10), ("open", 20)] {
            let drawn = account.draw(block(name), (amount, amount), at(1)).unwrap();
            entries.push(AccountEntry::Drawn(drawn));
        }
        let unsent = LedgerRow { settled: None, ..call("b", 3) }.settled_as_not_sent(at(3));
        ledgers.insert(block("closed").id, vec![call("a", 4), unsent]);
        ledgers.insert(block("open").id, vec![call("c", 5)]);
        entries.push(account.close(&block("closed").id, 4, at(4)).unwrap());
        ObservedAccount { org: OrgId::derive(&["org"]), account, entries, ledgers }
    }

    fn found(change: impl FnOnce(&mut ObservedAccount)) -> usize {
        let (mut seen, mut findings) = (good(), Findings::default());
        change(&mut seen);
        check(&seen, &mut findings);
        assert!(findings.0.iter().all(|found| found.invariant == Spend));
        findings.0.len()
    }

    #[test]
    fn a_consistent_account_has_no_violation() {
        assert_eq!(found(|_| {}), 0);
    }

    #[test]
    fn each_wrong_sum_is_found() {
        let closed = BlockId::derive(&["closed"]);
        let open = BlockId::derive(&["open"]);
        assert!(found(|seen| seen.account.settled += 1) > 0, "settled");
        assert!(found(|seen| seen.account.granted += 1) > 0, "granted");
        assert!(found(|seen| seen.account.expired += 1) > 0, "expired");
        assert!(found(|seen| seen.account.grants[0].available += 1) > 0, "available");
        assert!(found(|seen| drop(seen.account.blocks.pop())) > 0, "a block is missing");
        assert!(found(|seen| drop(seen.entries.pop())) > 0, "a block is neither open nor closed");
        assert!(found(|seen| drop(seen.entries.remove(1))) > 0, "a block was never drawn");
        assert!(found(|seen| seen.ledgers.get_mut(&closed).unwrap()[0] = call("a", 6)) > 0, "charged again");
        assert!(
            found(|seen| seen.ledgers.get_mut(&closed).unwrap().push(call("d", 1))) > 0,
            "reserved when it was sealed"
        );
        assert!(found(|seen| seen.ledgers.get_mut(&closed).unwrap()[0].settled = None) > 0, "a call without an end");
        assert!(found(|seen| seen.ledgers.get_mut(&open).unwrap()[0] = call("c", 21)) > 0, "overdrawn");
        assert!(found(|seen| seen.ledgers.get_mut(&open).unwrap().push(call("a", 1))) > 0, "charged in two blocks");
        assert!(found(|seen| drop(seen.ledgers.insert(BlockId::derive(&["x"]), vec![call("e", 1)]))) > 0, "no block");
    }
}

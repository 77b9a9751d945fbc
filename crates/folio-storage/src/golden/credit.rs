//! Golden samples of credit: accounts, their entries, budgets and the ledger.

use folio_credit::{
    Account, AccountEntry, Allotment, Basis, BlockPart, Budget, Grant, GrantKind, LedgerRow, OpenBlock,
    SettlementRecord,
};

use super::*;

pub(super) fn credit() -> Vec<Sample> {
    let (grant_id, block_id) = (GrantId::derive(&["golden"]), BlockId::derive(&["golden"]));
    let plain = Grant::new(grant_id.clone(), GrantKind::Admin, 100, at());
    let grant = Grant {
        available: 60,
        settled: 10,
        expired: 20,
        priority: 1,
        expires_at: Some(at()),
        expired_at: Some(at()),
        note: "A present".into(),
        by: Some(user()),
        ..plain.clone()
    };
    let block = OpenBlock {
        id: block_id.clone(),
        holder: Incarnation::derive(&["golden"]),
        parts: vec![BlockPart { grant: grant_id.clone(), amount: 10 }],
        at: at(),
        reserves_until: at(),
    };
    let account = Account {
        version: 7,
        granted: 100,
        expired: 20,
        settled: 10,
        grants: vec![grant.clone()],
        blocks: vec![block.clone()],
        unknown: UnknownFields::default(),
    };
    let withdrawn =
        AccountEntry::Withdrawn { id: grant_id, amount: 3, note: "A mistake".into(), by: Some(user()), at: at() };
    let row = LedgerRow {
        key: "turn.1.0.1.1".into(),
        permit: "permit".into(),
        user: user(),
        operation: "chat".into(),
        model: "model".into(),
        document: Some(document_id()),
        credits: 9,
        input_tokens: 100,
        at: at(),
        deadline: at(),
        settled: None,
        unknown: UnknownFields::default(),
    };
    let settled = SettlementRecord {
        credits: 7,
        usage: usage(),
        cost_microdollars: Some(31),
        basis: Basis::Reported,
        written_off: 2,
        completed: true,
        at: at(),
    };
    let reserved = [("turn.2.0.1.1".to_owned(), 9)].into();
    let part = Allotment { credits: 40, used: 3, reserved };
    let budget = Budget {
        number: 2,
        own: Allotment { credits: 100, used: 7, ..part.clone() },
        parts: [("item 1".to_owned(), part)].into(),
        unknown: UnknownFields::default(),
    };
    let group = [("job".to_owned(), Allotment::default()), ("job/1".to_owned(), Allotment::default())].into();
    vec![
        sample("empty", Account::default()),
        sample("full", account),
        sample(
            "unused",
            Budget { number: 1, own: Allotment { credits: 100, ..Allotment::default() }, ..Budget::default() },
        ),
        sample("group", Budget { parts: group, ..budget.clone() }),
        sample("used", budget),
        sample("granted", AccountEntry::Granted(grant)),
        sample("granted_bare", AccountEntry::Granted(plain)),
        sample("withdrawn", withdrawn),
        sample("drawn", AccountEntry::Drawn(block)),
        sample("closed", AccountEntry::Closed { block: block_id, amount: 10, settled: 7, at: at() }),
        sample("lost", row.settled_as_reserved(at())),
        sample("given_up", row.settled_as_not_sent(at())),
        sample("settled", LedgerRow { settled: Some(settled), ..row.clone() }),
        sample("reserved", row),
    ]
}

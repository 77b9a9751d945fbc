//! Conformance suite of [`folio_storage::CreditStore`].

use folio_credit::{
    Account, AccountChange, AccountChangeOutcome, AccountEntry, Basis, BlockPart, Grant, GrantKind, Ledger, LedgerRow,
    OpenBlock, ReserveOutcome, SettlementRecord,
};
use folio_types::message::Usage;
use folio_types::{BlockId, GrantId, Incarnation, OrgId};

use super::context::Context;
use super::{Outcome, check, refused, same};

pub(crate) async fn suite(context: &Context) -> Outcome {
    accounts(context).await?;
    blocks(context).await
}

fn name(context: &Context) -> String {
    format!("{}/{}", context.org, context.fresh())
}

fn block_id(context: &Context) -> BlockId {
    BlockId::derive(&[&name(context)])
}

fn granting(context: &Context, org: &OrgId, account: &Account) -> Result<AccountChange, super::Failure> {
    let (id, now) = (GrantId::derive(&[&name(context)]), context.now());
    let (expected, mut account) = (account.version, account.clone());
    let entry = account.grant(Grant::new(id, GrantKind::Admin, 100, now), now)?;
    Ok(AccountChange { org: org.clone(), expected, account, entry })
}

async fn accounts(context: &Context) -> Outcome {
    let (store, org) = (&context.stores.credit, &context.org);
    same!(store.account(org).await?, Account::default(), "an account that does not exist");
    let first = granting(context, org, &Account::default())?;
    same!(store.change_account(first.clone()).await?, AccountChangeOutcome::Done, "a first grant");
    same!(store.account(org).await?, first.account, "the account after a grant");
    let late = granting(context, org, &Account::default())?;
    same!(
        store.change_account(late.clone()).await?,
        AccountChangeOutcome::VersionMismatch,
        "a change of an older version"
    );
    let ahead = AccountChange { expected: 7, ..granting(context, org, &first.account)? };
    same!(store.change_account(ahead).await?, AccountChangeOutcome::VersionMismatch, "a change of a future version");
    let exists = AccountChangeOutcome::EntryExists(Box::new(first.entry.clone()));
    same!(store.change_account(first.clone()).await?, exists, "the same grant again");
    let again = AccountChange { entry: first.entry.clone(), ..granting(context, org, &first.account)? };
    same!(store.change_account(again).await?, exists, "the same grant on the newest version");
    same!(store.account(org).await?, first.account, "the account after refused changes");

    let now = context.now();
    let parts = vec![BlockPart { grant: GrantId::derive(&["of no account"]), amount: 7 }];
    let holder = Incarnation::derive(&[&name(context)]);
    let block = OpenBlock { id: block_id(context), holder, parts, at: now, reserves_until: now };
    let mut account = Account { version: first.account.version + 1, ..first.account.clone() };
    account.blocks.push(block.clone());
    let entry = AccountEntry::Drawn(block.clone());
    let draw = AccountChange { org: org.clone(), expected: first.account.version, account, entry: entry.clone() };
    same!(store.change_account(draw.clone()).await?, AccountChangeOutcome::Done, "a draw");
    same!(store.account(org).await?, draw.account, "the account with a block");
    let entries = store.entries(org, "", None, 10).await?;
    same!(entries, vec![entry.clone(), first.entry.clone()], "all entries, by key");
    let after = store.entries(org, "", Some(&entry.key()), 10).await?;
    same!(after, vec![first.entry.clone()], "entries after one");
    same!(store.entries(org, "grant/", None, 10).await?, vec![first.entry.clone()], "grants");
    let (key, granted) = (first.entry.key(), vec![first.entry.clone()]);
    same!(store.entries(org, &key, None, 1).await?, granted, "the entry whose key is the prefix");
    same!(store.entries(org, &key, Some(&entry.key()), 1).await?, granted, "the same entry after an earlier key");
    same!(store.entries(org, &key, Some(&key), 1).await?, vec![], "entries after the last one");
    same!(store.entries(org, "", None, 1).await?, vec![entry], "one entry");
    same!(store.account(&context.other()).await?, Account::default(), "the account of another organization");
    same!(store.entries(&context.other(), "", None, 10).await?, vec![], "entries of another organization");
    Ok(())
}

fn settled(context: &Context, row: &LedgerRow, credits: u64) -> LedgerRow {
    let end = SettlementRecord {
        credits,
        usage: Usage { input_tokens: 12, output_tokens: 3, model_calls: 1, reported: true, ..Usage::default() },
        cost_microdollars: Some(17),
        basis: Basis::Reported,
        written_off: 0,
        completed: true,
        at: context.now(),
    };
    LedgerRow { settled: Some(end), ..row.clone() }
}

async fn blocks(context: &Context) -> Outcome {
    let (store, org, block) = (&context.stores.credit, &context.org, block_id(context));
    same!(store.ledger(org, &block).await?, Ledger::default(), "the ledger of a block that was not used");
    let (first, second) = (context.ledger_row("a.1", 5), context.ledger_row("b/x", 7));
    same!(store.reserve(org, &block, first.clone()).await?, ReserveOutcome::Done, "a reservation");
    same!(store.reserve(org, &block, first.clone()).await?, ReserveOutcome::Done, "the same reservation again");
    let other = ReserveOutcome::Exists(Box::new(first.clone()));
    same!(store.reserve(org, &block, context.ledger_row("a.1", 9)).await?, other, "another reservation of that key");
    same!(store.reserve(org, &block, second.clone()).await?, ReserveOutcome::Done, "a second reservation");

    let others = settled(context, &context.ledger_row("a.1", 9), 9);
    same!(store.settle(org, &block, others).await?, first, "a settlement of another permit's reservation");
    let end = settled(context, &first, 3);
    same!(store.settle(org, &block, end.clone()).await?, end, "a settlement");
    same!(store.settle(org, &block, settled(context, &first, 4)).await?, end, "a second settlement");
    let ended = ReserveOutcome::Exists(Box::new(end.clone()));
    same!(store.reserve(org, &block, first.clone()).await?, ended, "a reservation that has ended");
    refused!(store.settle(org, &block, first.clone()).await, Internal, "a settlement without an end");

    // After a row is abandoned, its reservation cannot succeed.
    let (lost, now) = (context.ledger_row("c", 9), context.now());
    let abandoned = store.settle(org, &block, lost.settled_as_not_sent(now)).await?;
    same!(abandoned, lost.settled_as_not_sent(now), "a missing reservation, abandoned");
    let late = store.reserve(org, &block, lost.clone()).await?;
    same!(late, ReserveOutcome::Exists(Box::new(abandoned.clone())), "a late reservation");
    let never = context.ledger_row("d", 9);
    let charged = store.settle(org, &block, settled(context, &never, 9)).await?;
    check!(charged.charge() == 0, "a row that was never reserved was charged: {charged:?}");

    store.seal(org, &block).await?;
    store.seal(org, &block).await?;
    let refused = store.reserve(org, &block, context.ledger_row("e", 1)).await?;
    same!(refused, ReserveOutcome::Sealed, "a reservation in a sealed block");
    same!(
        store.reserve(org, &block, second.clone()).await?,
        ReserveOutcome::Done,
        "a reservation that exists in a sealed block"
    );
    let end_of_second = settled(context, &second, 7);
    same!(store.settle(org, &block, end_of_second.clone()).await?, end_of_second, "a settlement in a sealed block");
    let ledger = Ledger { sealed: true, rows: vec![end, end_of_second, abandoned, charged] };
    same!(store.ledger(org, &block).await?, ledger, "the final ledger");
    same!(store.ledger(&context.other(), &block).await?, Ledger::default(), "the ledger for another organization");
    let unused = block_id(context);
    store.seal(org, &unused).await?;
    same!(store.ledger(org, &unused).await?, Ledger { sealed: true, rows: vec![] }, "a block that was only sealed");
    same!(
        store.reserve(org, &unused, first).await?,
        ReserveOutcome::Sealed,
        "a reservation in a sealed block that was never used"
    );
    Ok(())
}

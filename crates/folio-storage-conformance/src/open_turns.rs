//! Conformance suite of [`folio_storage::OpenTurnStore`].

use folio_history::thread::{Append, Appended, Fence, OpenTurnRow, ThreadHeader};
use folio_types::{Timestamp, TurnId};

use super::context::Context;
use super::threads_append::{appended, batch};
use super::{Failure, Outcome, check, same};

pub(crate) async fn suite(context: &Context) -> Outcome {
    let store = &context.stores.open_turns;
    let until = Timestamp::constant(1_900_000_000, 0);
    let (one, other) = (context.thread_id(), context.thread_id());
    let row = |thread: &folio_types::ThreadId, number, epoch| OpenTurnRow {
        org: context.org.clone(),
        turn: TurnId::new(thread.clone(), number),
        epoch,
        at: Timestamp::UNIX_EPOCH,
        until,
    };
    let rows = [row(&one, 2, 1), row(&one, 2, 2), row(&one, 10, 3), row(&other, 1, 1)];
    let mut header = context.stores.threads.create(context.new_thread(&[])).await?;
    let stale = header.fence();
    for row in rows.iter().chain(rows.first()) {
        header = opened(context, &header, row).await?;
    }
    let scanned = all(context).await?;
    same!(scanned.len(), rows.len(), "rows of open turns");
    for row in &rows {
        check!(scanned.iter().any(|stored| is_same(stored, row)), "the row {row:?} is missing");
    }
    for pair in scanned.windows(2) {
        if let [before, after] = pair {
            let following = of_this_org(context, store.scan(Some(before), 1000).await?);
            same!(following.first(), Some(after), "the row after {before:?}");
        }
    }
    let refused = Append { opens: Some(row(&other, 2, 1)), ..batch(context, stale, Vec::new()) };
    let answer = context.stores.threads.append(&context.org, &header.id, refused).await?;
    check!(matches!(answer, Appended::Refused { .. }), "an append under a stale fence: {answer:?}");
    let stray: Vec<_> = all(context).await?.into_iter().filter(|stored| is_same(stored, &row(&other, 2, 1))).collect();
    store.remove(&stray).await?;
    same!(all(context).await?.len(), rows.len(), "rows after an append was refused and its row removed");
    let (first, others): (Vec<_>, Vec<_>) = scanned.into_iter().partition(|stored| is_same(stored, &rows[0]));
    store.remove(&first).await?;
    store.remove(&first).await?;
    let left = all(context).await?;
    check!(first.iter().all(|row| !left.contains(row)), "a removed row is stored");
    check!(left == others, "removing the row of one epoch removed that of a later one");
    let next = row(&other, 3, 1);
    let fence = Fence { epoch: header.epoch, version: header.version };
    let replaces = Append { opens: Some(next.clone()), removes: others, ..batch(context, fence, Vec::new()) };
    appended(context.stores.threads.append(&context.org, &header.id, replaces).await?)?;
    let left = all(context).await?;
    check!(
        left.len() == 1 && left.iter().all(|row| is_same(row, &next)),
        "rows after an append removed the others: {left:?}"
    );
    store.remove(&left).await?;
    same!(all(context).await?, Vec::new(), "rows after all were removed");
    Ok(())
}

/// Returns true if two rows differ at most in their time, which a store may replace.
fn is_same(one: &OpenTurnRow, other: &OpenTurnRow) -> bool {
    *one == OpenTurnRow { at: one.at, ..other.clone() }
}

/// Appends with a row that opens a turn; returns the header. The index stores any row.
async fn opened(context: &Context, header: &ThreadHeader, row: &OpenTurnRow) -> Result<ThreadHeader, Failure> {
    let fence = header.fence();
    let append = Append { opens: Some(row.clone()), ..batch(context, fence, Vec::new()) };
    appended(context.stores.threads.append(&context.org, &header.id, append).await?)
}

fn of_this_org(context: &Context, rows: Vec<OpenTurnRow>) -> Vec<OpenTurnRow> {
    rows.into_iter().filter(|row| row.org == context.org).collect()
}

/// Returns all rows of this organization, scanned in small pages.
async fn all(context: &Context) -> Result<Vec<OpenTurnRow>, Failure> {
    let (mut rows, mut after) = (Vec::new(), None);
    loop {
        let part = context.stores.open_turns.scan(after.as_ref(), 2).await?;
        check!(part.len() <= 2, "a scan with limit 2 returned {} rows", part.len());
        let Some(last) = part.last().cloned() else { return Ok(of_this_org(context, rows)) };
        rows.extend(part);
        after = Some(last);
    }
}

//! [`crate::OpenTurnStore`].

use folio_types::thread::OpenTurnRow;
use folio_types::{Timestamp, TurnId};

use super::context::Context;
use super::{Failure, Outcome, check, same};

pub(crate) async fn suite(context: &Context) -> Outcome {
    let store = &context.stores.open_turns;
    let until = Timestamp::constant(1_900_000_000, 0);
    let (one, other) = (context.thread_id(), context.thread_id());
    let row = |thread: &folio_types::ThreadId, number, epoch| OpenTurnRow {
        org: context.org.clone(),
        turn: TurnId::new(thread.clone(), number),
        epoch,
        until,
    };
    let rows = [row(&one, 2, 1), row(&one, 2, 2), row(&one, 10, 3), row(&other, 1, 1)];
    for row in &rows {
        store.insert(row).await?;
    }
    store.insert(&rows[0]).await?;
    let scanned = all(context).await?;
    same!(scanned.len(), rows.len(), "rows of open turns");
    for row in &rows {
        check!(scanned.contains(row), "the row {row:?} is missing");
    }
    for pair in scanned.windows(2) {
        if let [before, after] = pair {
            let behind = of_here(context, store.scan(Some(before), 1000).await?);
            same!(behind.first(), Some(after), "what comes after {before:?}");
        }
    }
    store.remove(&rows[0]).await?;
    store.remove(&rows[0]).await?;
    let left = all(context).await?;
    check!(!left.contains(&rows[0]), "a row that was removed is there");
    check!(left.contains(&rows[1]), "removing the row of one epoch removed that of a later one");
    for row in &rows {
        store.remove(row).await?;
    }
    same!(all(context).await?, Vec::new(), "rows after all were removed");
    Ok(())
}

fn of_here(context: &Context, rows: Vec<OpenTurnRow>) -> Vec<OpenTurnRow> {
    rows.into_iter().filter(|row| row.org == context.org).collect()
}

/// All rows of this organization, scanned in small pieces.
async fn all(context: &Context) -> Result<Vec<OpenTurnRow>, Failure> {
    let (mut rows, mut after) = (Vec::new(), None);
    loop {
        let part = context.stores.open_turns.scan(after.as_ref(), 2).await?;
        check!(part.len() <= 2, "a scan of at most 2 gave {}", part.len());
        let Some(last) = part.last().cloned() else { return Ok(of_here(context, rows)) };
        rows.extend(part);
        after = Some(last);
    }
}

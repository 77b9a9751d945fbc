//! Conformance suite of [`folio_storage::ThreadStore`]: the fence of a journal.

use folio_history::journal::{End, Ended, Entry, WorkingState};
use folio_history::thread::{Append, Appended, Fence, HeaderChange, OpenTurn, Phase, RequestRow, ThreadHeader};
use folio_types::message::FinishReason;
use folio_types::{Digest, Incarnation, Timestamp, limits};
use serde_json::json;

use super::context::Context;
use super::{Failure, Outcome, check, refused, same};

pub(crate) async fn suite(context: &Context) -> Outcome {
    one_append(context).await?;
    fence(context).await?;
    one_of_many_wins(context).await?;
    requests(context).await?;
    batches(context).await?;
    bounds(context).await
}

/// Returns an append that changes only the journal.
pub(crate) fn batch(context: &Context, fence: Fence, entries: Vec<Entry>) -> Append {
    Append { entries, ..Append::new(u128::from(context.fresh()) + 1, fence, context.now()) }
}

/// Returns an append that changes the journal and the working state of an agent, with a word in both.
pub(crate) fn batch_with_state(context: &Context, fence: Fence, word: &str) -> Append {
    let mut append = batch(context, fence, vec![ended(1, word)]);
    let profile_state = Some(Box::new(json!({ "found": word })));
    append.change.working = Some(WorkingState { profile_state, ..WorkingState::default() });
    append
}

pub(crate) fn ended(turn: u32, text: &str) -> Entry {
    let end = End::Completed { text: text.to_owned(), thinking: vec![], finish: FinishReason::Stop };
    Entry::Ended(Box::new(Ended::new(turn, end, 1, Timestamp::UNIX_EPOCH)))
}

pub(crate) fn request(context: &Context, turn: u32) -> Result<RequestRow, Failure> {
    let request = format!("request/{}", context.fresh()).parse()?;
    Ok(RequestRow { request, turn, digest: Digest::of(b"request") })
}

/// Returns the header after a committed append.
pub(crate) fn appended(answer: Appended) -> Result<ThreadHeader, Failure> {
    match answer {
        Appended::Done(header) => Ok(*header),
        refused => Err(Failure(format!("the append was refused although the header matched: {refused:?}"))),
    }
}

async fn thread(context: &Context) -> Result<ThreadHeader, Failure> {
    Ok(context.stores.threads.create(context.new_thread(&[])).await?)
}

async fn one_append(context: &Context) -> Outcome {
    let (store, made) = (&context.stores.threads, thread(context).await?);
    let owner = Incarnation::derive(&["node"]);
    let open = OpenTurn { number: 1, phase: Phase::Running, expires_at: None };
    let mut append = batch(context, made.fence(), vec![ended(1, "one"), ended(1, "two")]);
    append.new_owner = Some((made.epoch + 1, owner.clone()));
    append.request = Some(request(context, 1)?);
    append.change = HeaderChange {
        open_turn: Some(Some(open.clone())),
        title: Some("Title".into()),
        model: Some("model".into()),
        turns: Some(1),
        working: None,
    };
    let header = appended(store.append(&context.org, &made.id, append.clone()).await?)?;
    same!(store.header(&context.org, &made.id).await?, Some(header.clone()), "the header after an append");
    same!((header.epoch, header.version, header.owner.as_ref()), (1, 1, Some(&owner)), "the fence after an append");
    same!(
        (header.entries, header.turns, header.open_turn.as_ref()),
        (2, 1, Some(&open)),
        "the counters after an append"
    );
    same!(
        (header.title.as_str(), header.model.as_deref()),
        ("Title", Some("model")),
        "the fields that an append changes"
    );
    check!(header.bytes > 0 && header.updated_at == append.at, "bytes {} at {}", header.bytes, header.updated_at);
    check!(store.has_batch(&context.org, &made.id, append.batch).await?, "an append left no batch row");
    check!(!store.has_batch(&context.org, &made.id, 1 << 90).await?, "a batch that was never sent is committed");
    let mut next = batch(context, header.fence(), vec![ended(1, "three")]);
    next.change.open_turn = Some(None);
    let header = appended(store.append(&context.org, &made.id, next).await?)?;
    same!(
        (header.open_turn.as_ref(), header.model.as_deref()),
        (None, Some("model")),
        "the fields that the next append changes"
    );
    let all = vec![(0, ended(1, "one")), (1, ended(1, "two")), (2, ended(1, "three"))];
    same!(store.entries(&context.org, &made.id, 0, 10).await?, all, "the journal");
    same!(store.entries(&context.org, &made.id, 1, 1).await?, vec![(1, ended(1, "two"))], "one entry");
    same!(store.entries(&context.org, &made.id, 3, 10).await?, vec![], "entries after the end");
    same!(store.entries(&context.other(), &made.id, 0, 10).await?, vec![], "entries for another organization");
    let concurrent = batch(context, header.fence(), vec![]);
    refused!(store.append(&context.other(), &made.id, concurrent).await, NotFound, "an append by another organization");
    Ok(())
}

/// Invariant 1: an append succeeds only if it names the stored epoch and version.
async fn fence(context: &Context) -> Outcome {
    let (store, made) = (&context.stores.threads, thread(context).await?);
    let mut take = batch(context, made.fence(), vec![]);
    take.new_owner = Some((1, Incarnation::derive(&["one"])));
    let first = appended(store.append(&context.org, &made.id, take).await?)?;
    let mut take = batch(context, first.fence(), vec![]);
    take.new_owner = Some((2, Incarnation::derive(&["other"])));
    let concurrent = appended(store.append(&context.org, &made.id, take).await?)?;
    let wrong = [
        first.fence(),
        Fence { epoch: first.epoch, version: concurrent.version },
        Fence { epoch: concurrent.epoch, version: first.version },
        Fence { epoch: concurrent.epoch + 1, version: concurrent.version },
        Fence { epoch: concurrent.epoch, version: concurrent.version + 1 },
    ];
    for fence in wrong {
        let mut late = batch(context, fence, vec![ended(1, "late")]);
        late.request = Some(request(context, 1)?);
        late.change.title = Some("late".into());
        let answer = store.append(&context.org, &made.id, late.clone()).await?;
        let expected = Appended::Refused { header: Box::new(concurrent.clone()), request: None };
        same!(answer, expected, "an append under {fence:?}");
        same!(
            store.header(&context.org, &made.id).await?,
            Some(concurrent.clone()),
            "the header after the refused append"
        );
        same!(store.entries(&context.org, &made.id, 0, 10).await?, vec![], "the journal after the refused append");
        check!(!store.has_batch(&context.org, &made.id, late.batch).await?, "a refused batch is committed");
        if let Some(row) = late.request {
            same!(
                store.request(&context.org, &made.id, &row.request).await?,
                None,
                "the request row of a refused append"
            );
        }
    }
    for epoch in [0, concurrent.epoch] {
        let mut back = batch(context, concurrent.fence(), vec![]);
        back.new_owner = Some((epoch, Incarnation::derive(&["back"])));
        check!(store.append(&context.org, &made.id, back).await.is_err(), "an epoch that is not greater was accepted");
    }
    same!(store.header(&context.org, &made.id).await?, Some(concurrent), "the header after an epoch was refused");
    Ok(())
}

async fn one_of_many_wins(context: &Context) -> Outcome {
    let (store, made) = (&context.stores.threads, thread(context).await?);
    let attempts = (0..8).map(|_| async {
        let append = batch(context, made.fence(), vec![ended(1, "mine")]);
        Ok::<_, Failure>(store.append(&context.org, &made.id, append).await?)
    });
    let answers = futures::future::try_join_all(attempts).await?;
    let won = answers.iter().filter(|answer| matches!(answer, Appended::Done(_))).count();
    same!(won, 1, "concurrent appends under one fence that succeeded");
    same!(store.entries(&context.org, &made.id, 0, 10).await?.len(), 1, "the entries of concurrent appends");
    Ok(())
}

async fn requests(context: &Context) -> Outcome {
    let (store, made) = (&context.stores.threads, thread(context).await?);
    let row = request(context, 1)?;
    same!(store.request(&context.org, &made.id, &row.request).await?, None, "a request before its append");
    let mut first = batch(context, made.fence(), vec![ended(1, "first")]);
    first.request = Some(row.clone());
    let header = appended(store.append(&context.org, &made.id, first).await?)?;
    same!(store.request(&context.org, &made.id, &row.request).await?, Some(row.clone()), "the row of a request");
    for fence in [header.fence(), made.fence()] {
        let mut again = batch(context, fence, vec![ended(2, "again")]);
        again.request = Some(RequestRow { turn: 2, digest: Digest::of(b"other"), ..row.clone() });
        let answer = store.append(&context.org, &made.id, again).await?;
        let expected = Appended::Refused { header: Box::new(header.clone()), request: Some(row.clone()) };
        same!(answer, expected, "an append with a request id that is taken");
        same!(store.request(&context.org, &made.id, &row.request).await?, Some(row.clone()), "the row after that");
    }
    same!(store.entries(&context.org, &made.id, 0, 10).await?.len(), 1, "entries after a request id was refused");
    Ok(())
}

/// Invariant 3: a repeated append is committed once.
async fn batches(context: &Context) -> Outcome {
    let (store, made) = (&context.stores.threads, thread(context).await?);
    let mut append = batch(context, made.fence(), vec![ended(1, "once")]);
    append.request = Some(request(context, 1)?);
    let first = appended(store.append(&context.org, &made.id, append.clone()).await?)?;
    let again = appended(store.append(&context.org, &made.id, append.clone()).await?)?;
    same!(again, first, "an append sent again");
    let next = appended(store.append(&context.org, &made.id, batch(context, first.fence(), vec![])).await?)?;
    let late = appended(store.append(&context.org, &made.id, append).await?)?;
    same!(late, next, "an append sent again after another append");
    same!(store.entries(&context.org, &made.id, 0, 10).await?.len(), 1, "entries of an append sent again");
    Ok(())
}

async fn bounds(context: &Context) -> Outcome {
    let (store, made) = (&context.stores.threads, thread(context).await?);
    let large = batch(context, made.fence(), vec![ended(1, &"x".repeat(limits::ENTRY_BYTES))]);
    refused!(store.append(&context.org, &made.id, large).await, TooLarge, "an entry over its bound");
    let text = "x".repeat(limits::ENTRY_BYTES - 1024);
    let five = vec![ended(1, &text); 5];
    let large = batch(context, made.fence(), five.clone());
    refused!(store.append(&context.org, &made.id, large).await, TooLarge, "an append over its bound");
    same!(store.header(&context.org, &made.id).await?, Some(made.clone()), "the header after both");
    let four = five.into_iter().take(4).collect();
    let header = appended(store.append(&context.org, &made.id, batch(context, made.fence(), four)).await?)?;
    check!(header.bytes > 4 * (limits::ENTRY_BYTES as u64 - 1024), "{} bytes counted", header.bytes);
    Ok(())
}

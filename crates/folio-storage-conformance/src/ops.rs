//! Conformance suite of [`folio_storage::OpStore`] with tags. [`super::resources`] repeats each write of each kind.

use folio_resources::{Extraction, ExtractionChange, Resource as _, Tag, TagChange};
use folio_storage::value::OpDataIndexRow;
use folio_types::op::{
    ClosedAs, Expected, IdempotencyRecord, OpKey, OpResult, OpRow, OpState, Target, Write, WriteOutcome,
};
use folio_types::{CallId, Digest, TagId, TurnId};
use serde_json::{Value, json};

use super::context::{Context, create_extraction, done, row};
use super::sample::{Sample as _, Seed};
use super::{Outcome, check, refused, same};

/// More rows than a system index has in any test.
const ALL: usize = 100_000;

/// Start of the clock. The suite removes the rows of all organizations before its times, so these are earlier than those of
/// the other suites, which may run at the same time.
pub(crate) const SECONDS: i64 = 1_780_000_000;

pub(crate) async fn suite(context: &Context) -> Outcome {
    closed_first(context).await?;
    closed_late(context).await?;
    one_target(context).await?;
    recorded_first(context).await?;
    forgotten(context).await?;
    data(context).await
}

fn describe(text: &str) -> TagChange {
    TagChange::Update { name: None, color: None, description: Some(Some(text.to_owned())) }
}

async fn version(context: &Context, id: &TagId) -> Result<u64, super::Failure> {
    Ok(context.stores.of::<Tag>().get(&context.org, id).await?.map_or(0, |tag| tag.version))
}

/// The write of a closed op is never executed.
async fn closed_first(context: &Context) -> Outcome {
    let (tags, ops) = (context.stores.of::<Tag>(), &context.stores.ops);
    let id = context.tag("closed first").await?;
    let target = Tag::target(&id);
    for (closed, state) in [(ClosedAs::Aborted, OpState::Aborted), (ClosedAs::Conflict, OpState::Conflict)] {
        let before = version(context, &id).await?;
        let write = context.write(Expected::Version(before), describe("never"))?;
        let row_as = |closed| OpRow::closed(write.op.clone(), write.digest.clone(), closed, context.now());
        let stored = ops.close(&context.org, &target, row_as(closed)).await?;
        same!(stored.state, state, "an op closed as {closed:?}");
        let decided = row(tags.decide(&id, write.clone()).await?)?;
        same!(decided, stored, "a write whose op was closed as {closed:?}");
        same!(version(context, &id).await?, before, "the version after a write that was closed");
        let again = if closed == ClosedAs::Aborted { ClosedAs::Conflict } else { ClosedAs::Aborted };
        let kept = ops.close(&context.org, &target, row_as(again)).await?;
        same!(kept, stored, "an op closed twice");
    }
    let never = context.id::<Tag>();
    let write = context.write(Expected::Absent, Tag::create(&Seed::named("never created")))?;
    let target = Tag::target(&never);
    let closed = OpRow::closed(write.op.clone(), write.digest.clone(), ClosedAs::Aborted, context.now());
    ops.close(&context.org, &target, closed).await?;
    same!(row(tags.decide(&never, write).await?)?.state, OpState::Aborted, "a creation that was closed");
    same!(tags.get(&context.org, &never).await?, None, "a tag whose creation was closed");
    Ok(())
}

/// Closing does not change an op that was executed.
async fn closed_late(context: &Context) -> Outcome {
    let (tags, ops) = (context.stores.of::<Tag>(), &context.stores.ops);
    let id = context.tag("closed late").await?;
    let target = Tag::target(&id);
    let write = context.write(Expected::Version(1), describe("done"))?;
    let stored = row(tags.decide(&id, write.clone()).await?)?;
    let closed = OpRow::closed(write.op.clone(), write.digest.clone(), ClosedAs::Aborted, context.now());
    let closed = ops.close(&context.org, &target, closed).await?;
    same!(closed, stored, "an op closed after its write");
    same!(ops.row(&context.org, &target, &write.op).await?, Some(stored), "the op row after it was closed late");
    Ok(())
}

/// A request outside turns changes one target only.
async fn one_target(context: &Context) -> Outcome {
    let (tags, ops) = (context.stores.of::<Tag>(), &context.stores.ops);
    let (one, two) = (context.tag("recorded one").await?, context.tag("recorded two").await?);
    let write = context.write(Expected::Version(1), describe("recorded"))?;
    same!(ops.request(&context.org, &write.op).await?, None, "a request before its write");
    let mut moved = write.clone();
    moved.expected = Expected::Version(7);
    same!(tags.decide(&one, moved).await?, WriteOutcome::VersionMismatch, "a write expecting another version");
    same!(ops.request(&context.org, &write.op).await?, None, "a request whose write was not executed");
    let first = row(tags.decide(&one, write.clone()).await?)?;
    let recorded = IdempotencyRecord { target: Tag::target(&one), digest: write.digest.clone(), at: write.at };
    same!(ops.request(&context.org, &write.op).await?, Some(recorded.clone()), "the row of a request");
    same!(ops.request(&context.other(), &write.op).await?, None, "the row of a request of another organization");
    refused!(tags.decide(&two, write.clone()).await, RequestIdConflict, "a request on a second target");
    let mut other = write.clone();
    other.digest = Digest::of(b"something else");
    refused!(tags.decide(&two, other).await, RequestIdConflict, "another request on a second target");
    same!(version(context, &two).await?, 1, "the second target after the refused writes");
    same!(tags.decide(&one, write.clone()).await?, WriteOutcome::Row(first), "the request repeated");
    same!(ops.request(&context.org, &write.op).await?, Some(recorded), "the row of the request after it was repeated");
    Ok(())
}

/// A request without a deciding write is recorded first, and is also bound to one target and one content.
async fn recorded_first(context: &Context) -> Outcome {
    let (tags, ops) = (context.stores.of::<Tag>(), &context.stores.ops);
    let (op, now) = (context.op()?, context.now());
    let recorded =
        IdempotencyRecord { target: Target::thread(&context.thread_id()), digest: Digest::of(b"rename"), at: now };
    same!(ops.record_request(&context.org, &op, recorded.clone()).await?, recorded, "a recorded request");
    same!(ops.request(&context.org, &op).await?, Some(recorded.clone()), "the row of a recorded request");
    same!(ops.request(&context.other(), &op).await?, None, "the row of a request of another organization");
    for other in [
        IdempotencyRecord { target: Target::thread(&context.thread_id()), ..recorded.clone() },
        IdempotencyRecord { digest: Digest::of(b"other"), at: context.now(), ..recorded.clone() },
        recorded.clone(),
    ] {
        same!(
            ops.record_request(&context.org, &op, other.clone()).await?,
            recorded,
            "a request recorded again as {other:?}"
        );
    }
    let id = context.tag("recorded first").await?;
    let mut write = context.write(Expected::Version(1), describe("recorded"))?;
    write.op = op.clone();
    refused!(tags.decide(&id, write).await, RequestIdConflict, "a write by a request that was recorded for a thread");
    let write = context.write(Expected::Version(1), describe("decided"))?;
    done(tags.decide(&id, write.clone()).await?)?;
    let stored = IdempotencyRecord { target: Tag::target(&id), digest: write.digest.clone(), at: write.at };
    same!(ops.record_request(&context.org, &write.op, recorded).await?, stored, "a request recorded after its write");
    let later = context.now();
    while ops.forget_requests(later, 7).await? == 7 {}
    same!(ops.request(&context.org, &op).await?, None, "the row of a recorded request after its removal");
    Ok(())
}

/// The rows of requests are removed after a time.
async fn forgotten(context: &Context) -> Outcome {
    let (tags, ops) = (context.stores.of::<Tag>(), &context.stores.ops);
    let id = context.tag("forgotten").await?;
    let (early, late) = (
        context.write(Expected::Version(1), describe("early"))?,
        context.write(Expected::Version(2), describe("late"))?,
    );
    let first = row(tags.decide(&id, early.clone()).await?)?;
    done(tags.decide(&id, late.clone()).await?)?;
    same!(ops.forget_requests(late.at, 0).await?, 0, "requests forgotten, with limit 0");
    while ops.forget_requests(late.at, 7).await? == 7 {}
    same!(ops.request(&context.org, &early.op).await?, None, "the row of a removed request");
    check!(ops.request(&context.org, &late.op).await?.is_some(), "the row of a later request was removed");
    same!(tags.decide(&id, early).await?, WriteOutcome::Row(first), "a removed request repeated on its target");
    Ok(())
}

/// The recorded data of a result does not change with its resource, and is kept until it is removed.
async fn data(context: &Context) -> Outcome {
    let (extractions, ops, org) = (context.stores.of::<Extraction>(), &context.stores.ops, &context.org);
    let (document, prompt) = (context.document("recorded").await?, context.prompt("recorded", None, &[]).await?);
    let (id, thread) = (context.extraction_id(), context.thread_id());
    let target = Extraction::target(&id);
    let changes = [
        create_extraction(&document, &prompt, json!({"zeta": 1, "alpha": 2})),
        ExtractionChange::Edit { data: json!([3]) },
        ExtractionChange::Verify { verified: true },
        ExtractionChange::Delete,
    ];
    let (mut expected, mut written) = (Expected::Absent, Vec::new());
    for (round, change) in (1..).zip(changes) {
        let op = OpKey::Call(CallId::new(TurnId::new(thread.clone(), 1), round, 1));
        let write = Write { op, ..context.write(expected, change)? };
        let stored = row(extractions.decide(&id, write.clone()).await?)?;
        expected = Expected::Version(u64::from(round));
        written.push((write, stored));
    }
    for (write, stored) in &written {
        // As text, which shows the order of members.
        let found = ops.row(org, &target, &write.op).await?;
        same!(format!("{found:?}"), format!("{:?}", Some(stored)), "a recorded op");
        let closed = OpRow::closed(write.op.clone(), write.digest.clone(), ClosedAs::Aborted, context.now());
        same!(ops.close(org, &target, closed).await?, *stored, "an op closed after its write");
        same!(row(extractions.decide(&id, write.clone()).await?)?, *stored, "a repeated call");
    }
    let [(first, _), (edit, edited), (verify, _), _] = written.as_slice() else { return Ok(()) };
    let indexed = async |until: &Write<ExtractionChange>| {
        let rows = ops.indexed_data(until.at, ALL).await?;
        Ok::<_, super::Failure>(
            rows.into_iter().filter(|row| row.org == *org && row.id == id.as_str()).collect::<Vec<_>>(),
        )
    };
    let rows = indexed(verify).await?;
    let versions: Vec<_> = rows.iter().map(|row| (row.version, row.op.clone(), row.has_ended)).collect();
    let ops_of = [(1, first.op.clone(), false), (2, edit.op.clone(), false), (3, verify.op.clone(), false)];
    same!(versions, ops_of, "the index of the data");
    let [one, two, _] = rows.as_slice() else { return Ok(()) };
    let deferred = OpDataIndexRow { at: verify.at, has_ended: true, ..two.clone() };
    ops.defer_data(two.clone(), deferred.clone()).await?;
    same!(indexed(edit).await?, std::slice::from_ref(one), "the index after data was deferred");
    check!(indexed(verify).await?.contains(&deferred), "deferred data is in the index at its time");
    for _ in 0..2 {
        ops.remove_data(vec![one.clone()]).await?;
    }
    check!(indexed(edit).await?.is_empty(), "the index contains data that was removed");
    same!(ops.row(org, &target, &edit.op).await?, Some(edited.clone()), "a recorded op whose data is kept");
    let removed = ops.row(org, &target, &first.op).await?.map(|row| row.state);
    let without = OpResult::Extraction { id, document, prompt, version: 1, data: Value::Null, coverage: None };
    same!(removed, Some(OpState::Done(without)), "a recorded op whose data was removed");
    Ok(())
}

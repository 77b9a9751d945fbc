//! Conformance suite of [`folio_storage::UsageStore`].

use folio_types::Timestamp;

use super::context::Context;
use super::{Outcome, refused, same};
use folio_storage::UsageRecord;

pub(crate) async fn suite(context: &Context) -> Outcome {
    let store = &context.stores.usage;
    let (first, second, third) =
        (context.usage_record("a.1"), context.usage_record("a.2"), context.usage_record("b/x"));
    for record in [&third, &first, &second] {
        store.record(record.clone()).await?;
    }
    let start = Timestamp::UNIX_EPOCH;
    let all = vec![first.clone(), second.clone(), third.clone()];
    same!(store.list(&context.org, start, 10).await?, all, "records, oldest first");
    store.record(first.clone()).await?;
    same!(store.list(&context.org, start, 10).await?, all, "records after a repeated write");
    let from = store.list(&context.org, second.at, 10).await?;
    same!(from, vec![second.clone(), third], "records from the second on");
    same!(store.list(&context.org, start, 1).await?, vec![first.clone()], "one record");
    same!(store.list(&context.other(), start, 10).await?, Vec::new(), "records of another organization");
    let of_other = UsageRecord { org: context.other(), ..first.clone() };
    store.record(of_other.clone()).await?;
    same!(store.list(&context.other(), start, 10).await?, vec![of_other], "the same key in another organization");
    refused!(store.record(UsageRecord { key: String::new(), ..first }).await, TooLarge, "a record without a key");
    Ok(())
}

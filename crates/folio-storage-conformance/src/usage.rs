//! Conformance suite of [`folio_storage::UsageStore`].

use std::time::Duration;

use folio_types::{OrgId, Timestamp};

use super::context::Context;
use super::{Failure, Outcome, check, refused, same};
use folio_storage::{HourSummer, HourSums, UsageHour, UsageRecord, UsageSum};

pub(crate) async fn suite(context: &Context) -> Outcome {
    let store = &context.stores.usage;
    let (first, second, third) =
        (context.usage_record("a.1"), context.usage_record("a.2"), context.usage_record("b/x"));
    for record in [&third, &first, &second] {
        store.record(record.clone(), record.at).await?;
    }
    let start = Timestamp::UNIX_EPOCH;
    let all = vec![first.clone(), second.clone(), third.clone()];
    same!(store.list(&context.org, start, 10).await?, all, "records, oldest first");
    store.record(first.clone(), first.at).await?;
    same!(store.list(&context.org, start, 10).await?, all, "records after a repeated write");
    let from = store.list(&context.org, second.at, 10).await?;
    same!(from, vec![second.clone(), third], "records from the second on");
    same!(store.list(&context.org, start, 1).await?, vec![first.clone()], "one record");
    same!(store.list(&context.other(), start, 10).await?, Vec::new(), "records of another organization");
    let of_other = UsageRecord { org: context.other(), ..first.clone() };
    store.record(of_other.clone(), of_other.at).await?;
    same!(store.list(&context.other(), start, 10).await?, vec![of_other], "the same key in another organization");
    let without_key = UsageRecord { key: String::new(), ..first.clone() };
    refused!(store.record(without_key, first.at).await, TooLarge, "a record without a key");
    hours(context, first).await
}

/// Hours with records, their sums, and late records.
async fn hours(context: &Context, first: UsageRecord) -> Outcome {
    let store = &context.stores.usage;
    let org = OrgId::derive(&[context.org.as_str(), "hours"]);
    let hours = |hours: i64| Duration::from_secs(60 * 60) * u32::try_from(hours).unwrap_or(0);
    let start = UsageHour::start_of(first.at);
    // Two records in the first hour, one in the fourth, and one on another day.
    let starts = [0, 3, 40].map(|number| start + hours(number));
    for (key, at) in
        [("a", starts[0]), ("b", starts[0] + hours(1) - Duration::from_micros(1)), ("c", starts[1]), ("d", starts[2])]
    {
        let record = UsageRecord { org: org.clone(), key: key.to_owned(), at, ..first.clone() };
        store.record(record, at).await?;
    }
    let of = |start: Timestamp| UsageHour { start, sums: None, late_at: None };
    let all = starts.map(of).to_vec();
    same!(store.hours(&org, start, 10).await?, all, "hours with records");
    same!(
        store.hours(&org, start + hours(1) - Duration::from_micros(1), 10).await?,
        all,
        "hours from within the first"
    );
    same!(store.hours(&org, start, 2).await?, all.iter().take(2).cloned().collect::<Vec<_>>(), "two hours");
    same!(
        store.hours(&org, starts[1], 10).await?,
        all.iter().skip(1).cloned().collect::<Vec<_>>(),
        "hours from the second on"
    );
    same!(store.hours(&context.other(), starts[2] + hours(1), 10).await?, Vec::new(), "hours of another organization");
    same!(store.list(&org, starts[1], 10).await?.len(), 2, "records from the second hour on");

    let mut summer = HourSummer::default();
    summer.add(UsageSum::from(&first));
    let sums = summer.finish(None).ok_or_else(|| Failure("no sums".to_owned()))?;
    store.put_sums(&org, starts[0], sums.clone()).await?;
    let summed = UsageHour { sums: Some(sums.clone()), ..of(starts[0]) };
    same!(store.hours(&org, start, 1).await?, vec![summed.clone()], "the hour with its sums");
    check!(summed.current_sums().is_some(), "sums without a late record are current");
    let late = UsageRecord { org: org.clone(), key: "late".to_owned(), at: starts[0] + hours(0), ..first.clone() };
    let now = starts[0] + hours(3);
    store.record(late.clone(), now).await?;
    store.record(UsageRecord { key: "in time".to_owned(), at: starts[1], ..late.clone() }, now).await?;
    let marked = UsageHour { late_at: Some(now), ..summed };
    same!(store.hours(&org, start, 2).await?, vec![marked.clone(), of(starts[1])], "the hour with a late record");
    check!(marked.current_sums().is_none(), "sums before a late record are not current");
    let again = HourSums { late_at: Some(now), ..sums };
    store.put_sums(&org, starts[0], again).await?;
    let found = store.hours(&org, start, 1).await?;
    check!(found.first().is_some_and(|hour| hour.current_sums().is_some()), "sums after a late record are current");
    Ok(())
}

//! Conformance suite of [`folio_storage::AuditStore`].

use folio_resources::audit::{AuditEntry, AuditKind, AuditPosition, RedactedArguments};
use folio_types::Timestamp;
use serde_json::json;

use super::context::Context;
use super::{Failure, Outcome, refused, same};

pub(crate) async fn suite(context: &Context) -> Outcome {
    let (store, org) = (&context.stores.audit, &context.org);
    let start = context.now();
    let after = |minutes: i64| Timestamp::from_second(start.as_second() + 60 * minutes).unwrap_or(start);
    let entry = |key: &str, at: Timestamp| AuditEntry {
        arguments: Some(RedactedArguments::call(&json!({"name": "x"}))),
        ..AuditEntry::new(key, AuditKind::CallApproved, at, Some(context.user.clone()), "create_tag")
    };
    // Two entries at the same time, a third in the same hour, and two after hours without entries.
    let all = [
        entry("a.1", after(0)),
        entry("a.2", after(0)),
        entry("b", after(1)),
        entry("c", after(300)),
        entry("d", after(30_000)),
    ];
    let [first, second, third, fourth, fifth] = &all;
    store.append(org, &[fifth.clone(), third.clone(), first.clone()]).await?;
    store.append(org, &[second.clone(), fourth.clone(), third.clone()]).await?;
    store.append(org, &all).await?;
    store.append(org, &[]).await?;

    let (low, high) = (AuditPosition::before(start), AuditPosition::before(after(40_000)));
    same!(store.list(org, &low, &high, false, 10).await?, all.to_vec(), "the log, oldest first");
    let newest: Vec<_> = all.iter().rev().cloned().collect();
    same!(store.list(org, &low, &high, true, 10).await?, newest, "the log, newest first");
    for newest_first in [false, true] {
        let (mut low, mut high, mut pages) = (low.clone(), high.clone(), Vec::new());
        while let Some(last) = {
            let page = store.list(org, &low, &high, newest_first, 2).await?;
            let last = page.last().cloned();
            pages.extend(page);
            last
        } {
            *(if newest_first { &mut high } else { &mut low }) = last.position();
        }
        let expected = if newest_first { &newest[..] } else { &all[..] };
        same!(pages, expected.to_vec(), "the log page by page, newest first: {newest_first}");
    }
    let middle =
        store.list(org, &AuditPosition::before(after(1)), &AuditPosition::before(after(300)), false, 10).await?;
    same!(middle, vec![third.clone()], "a range with an exclusive end");
    let between = store.list(org, &first.position(), &third.position(), true, 10).await?;
    same!(between, vec![second.clone()], "between two entries");
    same!(store.list(org, &high, &low, false, 10).await?, Vec::new(), "a range whose start is after its end");
    same!(store.list(org, &low, &high, false, 0).await?, Vec::new(), "no entry");

    same!(store.list(&context.other(), &low, &high, false, 10).await?, Vec::new(), "another organization's log");
    store.append(&context.other(), std::slice::from_ref(third)).await?;
    same!(
        store.list(&context.other(), &low, &high, false, 10).await?,
        vec![third.clone()],
        "the entry of another organization"
    );

    let sound = entry("sound", after(2));
    let keyless = AuditEntry { key: String::new(), ..sound.clone() };
    refused!(store.append(org, &[sound.clone(), keyless]).await, TooLarge, "an entry without a key");
    let long = AuditEntry { key: "k".repeat(513), ..sound.clone() };
    refused!(store.append(org, &[sound.clone(), long]).await, TooLarge, "an entry with a long key");
    let redacted = RedactedArguments { value: json!("x".repeat(20_000)), ..RedactedArguments::call(&json!({})) };
    refused!(
        store.append(org, &[sound, AuditEntry { arguments: Some(redacted), ..third.clone() }]).await,
        TooLarge,
        "a large entry"
    );
    same!(store.list(org, &low, &high, false, 10).await?.len(), all.len(), "entries after some were refused");
    Ok::<(), Failure>(())
}

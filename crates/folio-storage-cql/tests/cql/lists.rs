//! Tests that lists and searches find matching items without a scan. `cargo xtask bench lists` measures their duration
//! over many documents.

use std::collections::BTreeMap;

use folio_resources::{Document, DocumentChange, DocumentFilter, NewDocument};
use folio_storage::Stores;
use folio_types::op::{Expected, Write, WriteOutcome};
use folio_types::page::{Order, PageRequest};
use folio_types::{BlobId, DocumentId, OrgId, Timestamp};
use futures::stream::{StreamExt as _, TryStreamExt as _};

use crate::{nonce, open_shared_stores};

const DOCUMENTS: usize = 300;

#[tokio::test]
async fn lists_and_searches_find_their_rows_without_a_scan() {
    let (opened, org) = (open_shared_stores().await, OrgId::derive(&[&nonce()]));
    let stores = &opened.stores;
    let count = DOCUMENTS;
    futures::stream::iter(0..count)
        .map(Ok::<_, folio_types::Error>)
        .try_for_each_concurrent(32, |number| {
            let org = org.clone();
            async move {
                let city = if number % 97 == 0 { "Castrop-Rauxel" } else { "Berlin" };
                let new = NewDocument {
                    metadata: BTreeMap::from([("city".to_owned(), city.to_owned())]),
                    ..NewDocument::file(
                        format!("invoice-{number:06}.pdf"),
                        "application/pdf",
                        b"x",
                        BlobId::derive(&["x"]),
                    )
                };
                create(stores, &org, number, new).await
            }
        })
        .await
        .unwrap();
    let all = DocumentFilter::default();
    let named = |part: &str| DocumentFilter { name_search: Some(part.to_owned()), ..DocumentFilter::default() };
    let placed = |city: &str| DocumentFilter {
        metadata: BTreeMap::from([("city".to_owned(), city.to_owned())]),
        ..DocumentFilter::default()
    };
    let one = format!("{:06}", count / 2);
    for (what, filter, expected) in [
        ("newest page", all, count),
        ("name of many", named("VOICE-"), count),
        ("name of one", named(&one), 1),
        ("metadata of some", placed("castrop"), count.div_ceil(97)),
        ("metadata of most", placed("Berlin"), count - count.div_ceil(97)),
    ] {
        let before = calls_so_far(stores);
        let page = stores.of::<Document>().list(&org, &filter, &PageRequest::default()).await.unwrap();
        let calls = calls_so_far(stores) - before;
        assert!(!page.items.is_empty(), "{what}");
        assert_eq!(page.total, expected as u64, "{what}");
        // One read for each item of the page, of one shard of each group and of the others of two, of the values of 100
        // items, and of the buckets with the counts.
        assert!(calls <= 50 + 10 + 2 * 8 + 6, "{what}: {calls} calls for one page");
    }
}

async fn create(stores: &Stores, org: &OrgId, number: usize, new: NewDocument) -> folio_types::Result<()> {
    let at = Timestamp::constant(1_790_000_000 + i64::try_from(number).unwrap(), 0);
    let (key, change) = (format!("upload-{number}").parse()?, DocumentChange::Create(new));
    let write = Write::by_platform(org.clone(), key, at, Expected::Absent, change);
    let id = DocumentId::derive(&[org.as_str(), &number.to_string()]);
    assert!(matches!(stores.of::<Document>().decide(&id, write).await?, WriteOutcome::Row(_)));
    Ok(())
}

fn calls_so_far(stores: &Stores) -> u64 {
    stores.health.call_counters().unwrap().calls.iter().map(|(_, calls)| calls).sum()
}

fn plain_writes_so_far(stores: &Stores) -> u64 {
    let calls = stores.health.call_counters().unwrap().calls;
    calls.into_iter().filter(|(kind, _)| *kind == "write").map(|(_, calls)| calls).sum()
}

/// A batch of the rows of long metadata is smaller than the limit of a server, and a server logs no warning about its
/// partitions: each of some 200 groups of characters has its own, and a batch has at most ten.
#[tokio::test]
async fn documents_with_long_metadata_are_stored_and_found() {
    let (opened, org) = (open_shared_stores().await, OrgId::derive(&[&nonce()]));
    let stores = &opened.stores;
    let long: BTreeMap<String, String> =
        (0..8).map(|key| (format!("key-{key}"), format!("{key} zebra-{key} {} omega", "long ".repeat(150)))).collect();
    for number in 0..3 {
        let new = NewDocument {
            metadata: long.clone(),
            ..NewDocument::file(format!("long {number}"), "application/pdf", b"x", BlobId::derive(&["x"]))
        };
        let before = plain_writes_so_far(stores);
        create(stores, &org, number, new).await.unwrap();
        let writes = plain_writes_so_far(stores) - before;
        assert!(writes >= 15, "{writes} plain writes for a document");
    }
    let metadata = BTreeMap::from([("key-7".to_owned(), "ZEBRA-7".to_owned())]);
    let end = BTreeMap::from([("key-7".to_owned(), "omega".to_owned())]);
    let unsearchable = DocumentFilter { metadata: end, ..DocumentFilter::default() };
    let page = stores.of::<Document>().list(&org, &unsearchable, &PageRequest::default()).await.unwrap();
    assert_eq!((page.items.len(), page.total), (0, 0), "the end of a long value is not searchable");
    for (filter, expected) in [
        (DocumentFilter { metadata: metadata.clone(), ..DocumentFilter::default() }, 3),
        (DocumentFilter { metadata, name_search: Some("ng 1".to_owned()), ..DocumentFilter::default() }, 1),
    ] {
        for order in [Order::Newest, Order::Name] {
            let request = PageRequest { order, ..PageRequest::default() };
            let page = stores.of::<Document>().list(&org, &filter, &request).await.unwrap();
            assert_eq!((page.items.len(), page.total), (expected, expected as u64));
            assert_eq!(page.items[0].metadata, long);
        }
    }
    assert_eq!(opened.cql.repair_lists(&org).await.unwrap(), 3);
}

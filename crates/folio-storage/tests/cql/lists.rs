//! How long lists and searches take over many documents. `FOLIO_LIST_DOCUMENTS` says over how many; the figure is
//! 100,000, which takes minutes to write.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use folio_storage::{DocumentChange, DocumentFilter, NewDocument};
use folio_types::op::{Decided, Expected, OpKey, Write};
use folio_types::page::PageRequest;
use folio_types::{Digest, DocumentId, OrgId, Timestamp, UserId};
use futures::stream::{StreamExt as _, TryStreamExt as _};

use crate::{nonce, opened};

/// The aim for an otherwise idle server with 100,000 documents. The test's machine is shared with everything that runs
/// beside it, so that it only refuses what is no lookup at all.
const AIM: Duration = Duration::from_millis(50);
const REFUSED: Duration = Duration::from_secs(2);

fn documents() -> usize {
    std::env::var("FOLIO_LIST_DOCUMENTS").ok().and_then(|count| count.parse().ok()).unwrap_or(300)
}

#[tokio::test]
async fn lists_and_searches_find_their_rows_without_a_scan() {
    let (opened, org) = (opened().await, OrgId::derive(&[&nonce()]));
    let stores = &opened.stores;
    let count = documents();
    let begun = Instant::now();
    futures::stream::iter(0..count)
        .map(Ok::<_, folio_types::Error>)
        .try_for_each_concurrent(32, |number| {
            let org = org.clone();
            async move {
                let city = if number % 97 == 0 { "Castrop-Rauxel" } else { "Berlin" };
                let new = NewDocument {
                    name: format!("invoice-{number:06}.pdf"),
                    media_type: "application/pdf".to_owned(),
                    size: 1,
                    sha256: Digest::of(b"x").as_str().to_owned(),
                    tags: vec![],
                    metadata: BTreeMap::from([("city".to_owned(), city.to_owned())]),
                };
                let user = UserId::derive(&["user"]);
                let write = Write {
                    org,
                    op: OpKey::Request { user: user.clone(), request: format!("upload-{number}").parse()? },
                    digest: Digest::of(b"upload"),
                    by: user,
                    at: Timestamp::constant(1_790_000_000 + i64::try_from(number).unwrap(), 0),
                    expected: Expected::Absent,
                    change: DocumentChange::Create(new),
                };
                let id = DocumentId::derive(&[write.org.as_str(), &number.to_string()]);
                assert!(matches!(stores.documents.decide(&id, write).await?, Decided::Row(_)));
                Ok(())
            }
        })
        .await
        .unwrap();
    println!("{count} documents in {:.1?}", begun.elapsed());
    let all = DocumentFilter::default();
    let named = |piece: &str| DocumentFilter { name_search: Some(piece.to_owned()), ..DocumentFilter::default() };
    let placed = |city: &str| DocumentFilter {
        metadata: BTreeMap::from([("city".to_owned(), city.to_owned())]),
        ..DocumentFilter::default()
    };
    let one = format!("{:06}", count / 2);
    for (what, filter, expected) in [
        ("newest page", all, Some(count)),
        ("name of many", named("VOICE-"), None),
        ("name of one", named(&one), Some(1)),
        ("metadata of some", placed("castrop"), Some(count.div_ceil(97))),
        ("metadata of most", placed("Berlin"), None),
    ] {
        let mut times = Vec::new();
        for _ in 0..if count > 10_000 { 200 } else { 20 } {
            let begun = Instant::now();
            let page = stores.documents.list(&org, &filter, &PageRequest::default()).await.unwrap();
            times.push(begun.elapsed());
            assert!(!page.items.is_empty(), "{what}");
            if let Some(expected) = expected {
                assert_eq!(page.total, expected as u64, "{what}");
            }
        }
        times.sort();
        let p99 = times[(times.len() * 99).div_ceil(100) - 1];
        println!("{what}: p50 {:.1?}, p99 {p99:.1?} (aim {AIM:?})", times[times.len() / 2]);
        assert!(p99 < REFUSED, "{what}: {p99:?}");
    }
}

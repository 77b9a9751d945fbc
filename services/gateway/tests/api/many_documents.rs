//! Lists of an organization with many documents.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use folio_proto::v1;
use folio_resources::{Document, DocumentChange, NewDocument};

use folio_types::op::{Expected, Write};
use folio_types::{BlobId, DocumentId, TagId, Timestamp};
use futures::{StreamExt as _, stream};

use crate::harness::{Client, Server};

const DOCUMENTS: usize = 10_000;
/// Time bound of a page, for an unoptimized build on a busy machine.
const PAGE_TIME_MAX: Duration = Duration::from_secs(20);

/// Stores the documents `000000.txt` to `009999.txt`, each created a second after the previous one. Every tenth has the
/// tag, every hundredth another year.
async fn fill(server: &Server, client: &Client, tag: &TagId) {
    let documents = &server.stores.of::<Document>();
    let made = stream::iter(0..DOCUMENTS).map(|number| async move {
        let request = format!("made-{number}");
        let new = NewDocument {
            tags: if number % 10 == 0 { vec![tag.clone()] } else { Vec::new() },
            metadata: BTreeMap::from([("year".into(), if number % 100 == 0 { "1999" } else { "2024" }.into())]),
            ..NewDocument::file(format!("{number:06}.txt"), "text/plain", b"hello", BlobId::derive(&[&request]))
        };
        let at = Timestamp::from_second(1_700_000_000 + i64::try_from(number).unwrap()).unwrap();
        let (key, change) = (request.parse().unwrap(), DocumentChange::Create(new));
        let write = Write::by_platform(client.org.clone(), key, at, Expected::Absent, change);
        documents.decide(&DocumentId::derive(&[&request]), write).await.unwrap();
    });
    made.buffer_unordered(256).for_each(|()| async {}).await;
}

async fn page(client: &Client, request: &v1::ListDocumentsRequest) -> v1::ListDocumentsResponse {
    let begun = Instant::now();
    let answer = client.documents().list_documents(request.clone()).await.unwrap().into_inner();
    assert!(begun.elapsed() < PAGE_TIME_MAX, "{request:?} took {:?}", begun.elapsed());
    answer
}

fn names(answer: &v1::ListDocumentsResponse) -> Vec<&str> {
    answer.documents.iter().map(|document| document.name.as_str()).collect()
}

#[tokio::test]
async fn lists_of_ten_thousand_documents_are_filtered_ordered_and_paged() {
    let server = Server::start().await;
    let client = server.member().await;
    let tag: TagId = client.tag("tenth").await.parse().unwrap();
    fill(&server, &client, &tag).await;
    let request = |filter: &str, order_by: &str, page_size: i32, skip: i32| v1::ListDocumentsRequest {
        filter: filter.into(),
        order_by: order_by.into(),
        page_size,
        skip,
        ..Default::default()
    };
    let tenth = format!("tag:{tag}");
    let both = format!("tag:{tag} metadata.year:1999 name:0");
    for (filter, order_by, skip, total, first) in [
        ("", "", 0, 10_000, "009999.txt"),
        ("", "", 9_990, 10_000, "000009.txt"),
        ("", "create_time", 5_000, 10_000, "005000.txt"),
        ("", "name desc", 1, 10_000, "009998.txt"),
        ("name:0077", "name", 0, 111, "000077.txt"),
        (tenth.as_str(), "", 0, 1_000, "009990.txt"),
        ("metadata.year:1999", "create_time", 99, 100, "009900.txt"),
        (both.as_str(), "name", 10, 100, "001000.txt"),
        ("name:nothing", "", 0, 0, ""),
        (tenth.as_str(), "", 1_000, 1_000, ""),
    ] {
        let answer = page(&client, &request(filter, order_by, 20, skip)).await;
        let what = format!("{filter:?} {order_by:?} {skip}: {:?}", names(&answer));
        assert_eq!(answer.total_size, total, "{what}");
        assert_eq!(names(&answer).first().copied().unwrap_or_default(), first, "{what}");
        let left = usize::try_from((total - skip).max(0)).unwrap();
        assert_eq!(answer.documents.len(), left.min(20), "{what}");
        assert_eq!(answer.next_page_token.is_empty(), left <= 20, "{what}");
    }
    // All pages together contain each item once.
    for (filter, order_by, size) in
        [(tenth.as_str(), "name", 300), (tenth.as_str(), "", 300), ("", "create_time", 1_000)]
    {
        let (mut request, mut seen) = (request(filter, order_by, size, 0), Vec::new());
        loop {
            let answer = page(&client, &request).await;
            seen.extend(names(&answer).into_iter().map(str::to_owned));
            if answer.next_page_token.is_empty() {
                break;
            }
            request.page_token = answer.next_page_token;
        }
        let step = if filter.is_empty() { 1 } else { 10 };
        let mut expected: Vec<_> = (0..DOCUMENTS).step_by(step).map(|number| format!("{number:06}.txt")).collect();
        if order_by.is_empty() {
            expected.reverse();
        }
        assert_eq!(seen, expected, "{filter:?} {order_by:?}");
    }
    server.stop().await;
}

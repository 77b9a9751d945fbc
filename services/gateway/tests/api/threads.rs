//! ThreadService, on threads that the test writes to the store.

use folio_history::journal::{Entry, Imported, WorkingState};
use folio_history::thread::NewThread;
use folio_types::message::Message;
use folio_types::{Environment as _, Principal, Role, System, ThreadId};
use serde_json::json;

use crate::harness::Server;

#[tokio::test]
async fn a_page_of_long_messages_ends_by_bytes() {
    let server = Server::start().await;
    let client = server.member().await;
    let id = ThreadId::generate(&System);
    let long = || Message::User { text: "x".repeat(200 * 1024) };
    let entry =
        || Entry::Imported(Imported { messages: vec![long()], working: WorkingState::default(), position: None });
    let principal = Principal::new(client.org.clone(), client.user.clone(), Role::Member);
    let new = NewThread::new(id.clone(), &principal, "document", Vec::new(), System.now());
    let thread = NewThread { imported: (0..25).map(|_| entry()).collect(), ..new };
    server.stores.threads.create(thread).await.unwrap();
    let (mut token, mut sizes) = (json!(""), Vec::new());
    while !token.is_null() {
        let request = json!({"thread_id": id.to_string(), "page_size": 1_000, "page_token": token});
        let mut page = client.call_ok("GetThread", request).await;
        sizes.push(page["messages"].as_array().unwrap().len());
        token = page["next_page_token"].take();
    }
    assert_eq!(sizes.iter().sum::<usize>(), 25);
    assert!(sizes.len() >= 3 && sizes.iter().all(|size| *size <= 11), "{sizes:?}");
    server.stop().await;
}

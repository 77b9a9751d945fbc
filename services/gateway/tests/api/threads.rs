//! ThreadService, on threads that the test writes to the store.

use std::sync::Arc;
use std::time::Duration;

use folio_gateway::Options;
use folio_history::journal::{Entry, Imported, WorkingState};
use folio_history::thread::NewThread;
use folio_storage::Stores;
use folio_storage_conformance::layer::Layered;
use folio_testkit::wait_for;
use folio_types::message::Message;
use folio_types::{Environment as _, Principal, Role, System, ThreadId};
use serde_json::json;

use crate::faulty::BlockedJournals;
use crate::harness::{Client, Server};

/// Stores a thread with messages of a size; returns its id.
async fn thread(server: &Server, client: &Client, messages: usize, bytes: usize) -> String {
    let id = ThreadId::generate(&System);
    let message = || Message::user("x".repeat(bytes));
    let entry =
        || Entry::Imported(Imported { messages: vec![message()], working: WorkingState::default(), position: None });
    let principal = Principal::new(client.org.clone(), client.user.clone(), Role::Member);
    let new = NewThread::new(id.clone(), &principal, "document", Vec::new(), System.now());
    let thread = NewThread { imported: (0..messages).map(|_| entry()).collect(), ..new };
    server.stores.threads.create(thread).await.unwrap();
    id.to_string()
}

#[tokio::test]
async fn a_page_of_long_messages_ends_by_bytes() {
    let server = Server::start().await;
    let client = server.member().await;
    let id = thread(&server, &client, 25, 200 * 1024).await;
    for filter in ["", "role:user"] {
        for order in ["create_time", "create_time desc"] {
            let (mut token, mut sizes) = (json!(""), Vec::new());
            while !token.is_null() {
                let request = json!({
                    "thread_id": id, "page_size": 1_000, "page_token": token, "filter": filter, "order_by": order,
                });
                let mut page = client.call_ok("GetThread", request).await;
                assert_eq!(page["total_size"], 25);
                sizes.push(page["messages"].as_array().unwrap().len());
                token = page["next_page_token"].take();
            }
            assert_eq!(sizes.iter().sum::<usize>(), 25);
            assert!(sizes.len() >= 3 && sizes.iter().all(|size| *size <= 11), "{filter} {order}: {sizes:?}");
        }
    }
    server.stop().await;
}

/// Calls of one organization: more than may read a whole journal at a time.
const CALLS: usize = 12;

#[tokio::test]
async fn an_organization_that_filters_many_threads_leaves_permits_for_others() {
    let journals = Arc::new(BlockedJournals::new());
    let layer = Arc::clone(&journals);
    let server =
        Server::on(Options::default(), |stores| Stores { threads: Layered::over(layer, &stores.threads), ..stores })
            .await;
    let (loud, quiet) = (server.member().await, server.member().await);
    let filtered =
        async |client: &Client, id: &str| client.call("GetThread", json!({"thread_id": id, "filter": "text:x"})).await;
    let (of_loud, of_quiet) = (thread(&server, &loud, 3, 10).await, thread(&server, &quiet, 3, 10).await);
    journals.block(&loud.org);
    let flood = futures::future::join_all((0..CALLS).map(|_| filtered(&loud, &of_loud)));
    let check = async {
        wait_for("blocked reads", Duration::from_secs(20), || async { (journals.waiting() == 2).then_some(()) }).await;
        for _ in 0..CALLS {
            assert_eq!(filtered(&quiet, &of_quiet).await.unwrap()["total_size"], 3);
        }
        assert_eq!(journals.waiting(), 2, "the journals that one organization reads at a time");
        journals.release();
    };
    let (answers, ()) = tokio::join!(flood, check);
    for answer in answers {
        assert_eq!(answer.unwrap()["total_size"], 3);
    }
    server.stop().await;
}

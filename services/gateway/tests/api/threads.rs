//! ThreadService, on threads that are laid into the store.

use folio_history::journal::{Entry, Imported, WorkingState};
use folio_history::thread::NewThread;
use folio_proto::v1;
use folio_types::message::{Message, ToolCall};
use folio_types::{Code, Environment as _, OrgId, Role, System, ThreadId};

use crate::harness::{Client, Server, refused};

fn conversation() -> Vec<Message> {
    let call = ToolCall { id: "call_1_1_1".into(), name: "list_tags".into(), arguments: serde_json::json!({}) };
    vec![
        Message::User { text: "Which tags are there?".into() },
        Message::Assistant { text: String::new(), thinking: Vec::new(), calls: vec![call] },
        Message::Tool { call: "call_1_1_1".into(), content: "[]".into() },
        Message::Assistant { text: "None at all.".into(), thinking: Vec::new(), calls: Vec::new() },
    ]
}

async fn lay(server: &Server, client: &Client, title: &str, messages: Vec<Message>) -> String {
    let id = ThreadId::generate(&System);
    let thread = NewThread {
        id: id.clone(),
        org: client.org.clone(),
        user: client.user.clone(),
        profile: "document".into(),
        documents: Vec::new(),
        title: title.into(),
        model: None,
        ephemeral: false,
        expires_at: None,
        imported: vec![Entry::Imported(Imported { messages, working: WorkingState::default(), position: None })],
        request: None,
        at: System.now(),
    };
    server.stores.threads.create(thread).await.unwrap();
    id.to_string()
}

async fn titles(client: &Client, filter: &str) -> Vec<String> {
    let request = v1::ListThreadsRequest { filter: filter.into(), ..Default::default() };
    let list = client.threads().list_threads(request).await.unwrap().into_inner();
    assert_eq!(list.total_size as usize, list.threads.len());
    list.threads.into_iter().map(|thread| thread.title).collect()
}

#[tokio::test]
async fn a_user_sees_own_threads_and_an_admin_sees_all() {
    let server = Server::start().await;
    let org = OrgId::generate(&System);
    let (anna, bert) = (server.user(&org, Role::Member).await, server.user(&org, Role::Viewer).await);
    let admin = server.user(&org, Role::Admin).await;
    let first = lay(&server, &anna, "Anna's first", conversation()).await;
    lay(&server, &anna, "Anna's second", conversation()).await;
    lay(&server, &bert, "Bert's", conversation()).await;
    assert_eq!(titles(&anna, "").await, ["Anna's second", "Anna's first"]);
    assert_eq!(titles(&bert, "").await, ["Bert's"]);
    assert_eq!(titles(&admin, "").await, ["Bert's", "Anna's second", "Anna's first"]);
    assert_eq!(titles(&admin, &format!("user:{} title:FIRST", anna.user)).await, ["Anna's first"]);
    let request = v1::ListThreadsRequest { filter: format!("user:{}", anna.user), ..Default::default() };
    assert_eq!(
        refused(bert.threads().list_threads(request).await, "the threads of others").code,
        Code::InvalidArgument
    );
    let get = v1::GetThreadRequest { thread_id: first, ..Default::default() };
    assert_eq!(refused(bert.threads().get_thread(get.clone()).await, "another's").code, Code::NotFound);
    for caller in [&anna, &admin] {
        assert_eq!(caller.threads().get_thread(get.clone()).await.unwrap().into_inner().total_size, 4);
    }
    server.stop().await;
}

#[tokio::test]
async fn messages_are_paged_with_their_counts() {
    let server = Server::start().await;
    let client = server.member().await;
    let thread = lay(&server, &client, "t", conversation()).await;
    let get = v1::GetThreadRequest { thread_id: thread, page_size: 3, ..Default::default() };
    let page = client.threads().get_thread(get.clone()).await.unwrap().into_inner();
    assert_eq!((page.messages.len(), page.total_size), (3, 4));
    let rest = v1::GetThreadRequest { page_token: page.next_page_token.clone(), ..get.clone() };
    let rest = client.threads().get_thread(rest).await.unwrap().into_inner();
    assert!(rest.next_page_token.is_empty());
    let messages: Vec<_> = page.messages.into_iter().chain(rest.messages).collect();
    assert_eq!(messages.iter().map(|message| message.count).collect::<Vec<_>>(), [1, 1, 1, 2]);
    let backwards = v1::GetThreadRequest { order_by: "create_time desc".into(), ..get.clone() };
    let backwards = client.threads().get_thread(backwards).await.unwrap().into_inner();
    assert_eq!(backwards.messages[0], messages[3]);
    for (filter, expected) in [("role:assistant", 2), ("role:tool", 1), ("text:TAGS", 1), ("role:user text:none", 0)] {
        let request = v1::GetThreadRequest { filter: filter.into(), ..get.clone() };
        assert_eq!(client.threads().get_thread(request).await.unwrap().into_inner().total_size, expected, "{filter}");
    }
    server.stop().await;
}

#[tokio::test]
async fn a_page_of_long_messages_ends_by_bytes() {
    let server = Server::start().await;
    let client = server.member().await;
    let id = ThreadId::generate(&System);
    let long = || Message::User { text: "x".repeat(200 * 1024) };
    let entry =
        || Entry::Imported(Imported { messages: vec![long()], working: WorkingState::default(), position: None });
    let thread = NewThread {
        id: id.clone(),
        org: client.org.clone(),
        user: client.user.clone(),
        profile: "document".into(),
        documents: Vec::new(),
        title: "long".into(),
        model: None,
        ephemeral: false,
        expires_at: None,
        imported: (0..25).map(|_| entry()).collect(),
        request: None,
        at: System.now(),
    };
    server.stores.threads.create(thread).await.unwrap();
    let mut request = v1::GetThreadRequest { thread_id: id.to_string(), page_size: 1_000, ..Default::default() };
    let mut sizes = Vec::new();
    loop {
        let page = client.threads().get_thread(request.clone()).await.unwrap().into_inner();
        sizes.push(page.messages.len());
        if page.next_page_token.is_empty() {
            break;
        }
        request.page_token = page.next_page_token;
    }
    assert_eq!(sizes.iter().sum::<usize>(), 25);
    assert!(sizes.len() >= 3 && sizes.iter().all(|size| *size <= 11), "{sizes:?}");
    server.stop().await;
}

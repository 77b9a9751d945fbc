//! Roles: expired tokens, the threads that each user sees, and the approvals that each role makes. The gateway's own tests call
//! every RPC by every role.

use folio_proto::v1;
use folio_types::{Code, Role};

use crate::client::{Client, approved, ask, decide, refused};
use crate::people::{FIRST_USER, Person, first};
use crate::sandbox::Sandbox;

const SCRIPT: &str = "
rules:
  - when: {user: write}
    rounds:
      - calls: [{name: create_tag, arguments: {name: made}}]
      - text: Made.
  - answer: {text: Hello.}
";

#[tokio::test]
async fn tokens_that_expired_or_were_revoked_open_nothing() {
    let mut sandbox = Sandbox::start(SCRIPT).await;
    let tokens = sandbox
        .offline(async |stores| {
            let org = first(&stores).await;
            let admin = Person::new(&org, FIRST_USER, Role::Admin);
            [admin.clone().expired().token(&stores).await, admin.revoked().token(&stores).await]
        })
        .await;
    for token in tokens {
        let client = Client::connect(&sandbox.url(), Some(&token)).await;
        let error = refused(client.tags.clone().list_tags(v1::ListTagsRequest::default()).await);
        assert_eq!((error.code, error.reason.as_str()), (Code::Unauthenticated, "INVALID_TOKEN"));
    }
}

#[tokio::test]
async fn a_viewer_reads_a_turn_and_changes_nothing_of_it() {
    let mut sandbox = Sandbox::start(SCRIPT).await;
    // The same user with less of a role: the threads are hers.
    let viewer = sandbox.colleagues(&[(FIRST_USER, Role::Viewer)]).await.remove(0);
    let (client, document) = sandbox.with_document().await;
    let stream = client.chat(&document, "write").await;
    let thread = stream.thread();
    let waiting = stream.pause().await;
    let turn = &waiting.turn_id;
    assert_eq!(viewer.turn(turn).await.status(), v1::TurnStatus::AwaitingApproval);
    assert_eq!(viewer.thread(&thread).await.pending_turn.unwrap().turn_id, *turn);
    assert_eq!(viewer.watch(turn, 0).await.unwrap().pause().await, waiting);

    let fork = v1::ForkThreadRequest { thread_id: thread.clone(), ..Default::default() };
    let delete = v1::DeleteThreadRequest { thread_id: thread.clone(), ..Default::default() };
    let supersede = v1::ChatRequest {
        thread_id: thread.clone(),
        text: "hi".into(),
        if_pending: v1::IfPending::Supersede.into(),
        ..Default::default()
    };
    let calls = [
        refused(viewer.send(ask(&document, "hi")).await),
        refused(viewer.send(supersede).await),
        refused(viewer.approve(decide(&waiting, approved)).await),
        refused(viewer.cancel(turn).await),
        refused(viewer.resume(turn).await),
        refused(viewer.threads.clone().fork_thread(fork).await),
        refused(viewer.threads.clone().delete_thread(delete).await),
        refused(viewer.try_upload("a.txt", b"a").await),
    ];
    for error in calls {
        assert_eq!((error.code, error.reason.as_str()), (Code::PermissionDenied, "ROLE_NOT_ALLOWED"));
    }
    assert!(client.tag_names().await.is_empty(), "invariant 2");
    let answer = client.approve_all(&waiting).await;
    assert!(matches!(answer.outcome, Some(v1::approve_response::Outcome::Completed(_))), "{answer:?}");
}

#[tokio::test]
async fn a_member_sees_only_own_threads_and_an_admin_decides_in_all() {
    let mut sandbox = Sandbox::start(SCRIPT).await;
    let mut people = sandbox.colleagues(&[("max", Role::Member), ("ina", Role::Member)]).await;
    let (ina, max) = (people.remove(1), people.remove(0));
    let (admin, document) = sandbox.with_document().await;
    // Documents are the organization's, threads are their user's.
    let stream = max.chat(&document, "write").await;
    let thread = stream.thread();
    let waiting = stream.pause().await;
    let turn = &waiting.turn_id;

    let get = v1::GetThreadRequest { thread_id: thread.clone(), ..Default::default() };
    let rename = v1::RenameThreadRequest { thread_id: thread.clone(), title: "x".into(), ..Default::default() };
    let fork = v1::ForkThreadRequest { thread_id: thread.clone(), ..Default::default() };
    let delete = v1::DeleteThreadRequest { thread_id: thread.clone(), ..Default::default() };
    let chat = v1::ChatRequest { thread_id: thread.clone(), text: "hi".into(), ..Default::default() };
    let calls = [
        refused(ina.try_turn(turn).await),
        refused(ina.watch(turn, 0).await),
        refused(ina.approve(decide(&waiting, approved)).await),
        refused(ina.cancel(turn).await),
        refused(ina.resume(turn).await),
        refused(ina.send(chat).await),
        refused(ina.threads.clone().get_thread(get).await),
        refused(ina.threads.clone().rename_thread(rename).await),
        refused(ina.threads.clone().fork_thread(fork).await),
        refused(ina.threads.clone().delete_thread(delete).await),
    ];
    for error in calls {
        assert_eq!((error.code, error.reason.as_str()), (Code::NotFound, "NOT_FOUND"), "{error:?}");
    }
    let list = |client: &Client| {
        let mut threads = client.threads.clone();
        async move { threads.list_threads(v1::ListThreadsRequest::default()).await.unwrap().into_inner() }
    };
    assert_eq!(list(&ina).await, v1::ListThreadsResponse::default());
    assert_eq!((list(&max).await.total_size, list(&admin).await.total_size), (1, 1));

    assert!(admin.tag_names().await.is_empty(), "invariant 2");
    let answer = admin.approve_all(&waiting).await;
    assert!(matches!(answer.outcome, Some(v1::approve_response::Outcome::Completed(_))), "{answer:?}");
    assert_eq!(max.turn(turn).await.status(), v1::TurnStatus::Completed);
}

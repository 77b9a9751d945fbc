//! Invariant 10 on the wire: a request over a bound gets a clear error, and requests below it succeed again.

use folio_history::thread::{Append, Fence, HeaderChange};
use folio_proto::v1;
use folio_types::{Code, Environment as _, Error, System, ThreadId, limits};
use tokio::task::JoinSet;

use crate::client::{ask, refused};
use crate::people::first;
use crate::queue::wait_alone;
use crate::sandbox::{Sandbox, Setup};

const SCRIPT: &str = "
rules:
  - when: {user: held}
    fault: {hold: {gate: g}}
    answer: {text: Late.}
  - when: {user: write}
    answer: {calls: [{name: create_tag, arguments: {name: made}}]}
  - answer: {text: Hello.}
";

#[track_caller]
fn is_overloaded(error: &Error) {
    assert_eq!((error.code, error.reason.as_str()), (Code::ResourceExhausted, "OVERLOADED"), "{error:?}");
    assert!(error.retry_after.is_some_and(|after| !after.is_zero()), "{error:?}");
}

#[tokio::test]
async fn more_long_calls_than_the_server_may_have_are_refused_at_once() {
    let sandbox = Setup::new(SCRIPT).with("FOLIO_GATEWAY__LONG_CALLS", 1).start().await;
    let (client, document) = sandbox.with_document().await;
    let held = client.chat(&document, "held").await;
    is_overloaded(&refused(client.send(ask(&document, "hello")).await));
    is_overloaded(&refused(client.watch(&held.turn(), 0).await));
    is_overloaded(&refused(client.try_upload("a.txt", b"a").await));
    assert_eq!(
        client.turn(&held.turn()).await.status(),
        v1::TurnStatus::Running,
        "short calls have places of their own"
    );
    // A dropped stream releases its permit, and its turn continues.
    let turn = held.turn();
    drop(held);
    folio_testkit::wait_for("a free place", crate::LIMIT, || async { client.send(ask(&document, "hello")).await.ok() })
        .await
        .completed()
        .await;
    sandbox.sim.open("g").await;
    client.until(&turn, v1::TurnStatus::Completed).await;
}

#[tokio::test]
async fn more_conversations_than_fit_into_memory_are_refused_until_one_rests() {
    let sandbox = Setup::new(SCRIPT).with("FOLIO_CONVERSATION__LIVE_MAX", 1).start().await;
    let (client, document) = sandbox.with_document().await;
    let held = client.chat(&document, "held").await;
    is_overloaded(&refused(client.send(ask(&document, "hello")).await));
    client.cancel(&held.turn()).await.unwrap();
    drop(held);
    // One that rests makes room; one that waits for a person does not hold any.
    let paused =
        folio_testkit::wait_for("room", crate::LIMIT, || async { client.send(ask(&document, "write")).await.ok() });
    paused.await.pause().await;
    folio_testkit::wait_for("room", crate::LIMIT, || async { client.send(ask(&document, "hello")).await.ok() })
        .await
        .completed()
        .await;
}

#[tokio::test]
async fn requests_and_streams_of_one_conversation_are_bounded() {
    let setup = Setup::new(SCRIPT)
        .with("FOLIO_CONVERSATION__WATCHERS_PER_CONVERSATION", 2)
        .with("FOLIO_CONVERSATION__IN_FLIGHT_PER_CONVERSATION", 1);
    let sandbox = setup.start().await;
    let (client, document) = sandbox.with_document().await;
    let held = client.chat(&document, "held").await;
    let (turn, thread) = (held.turn(), held.thread());
    let watching = client.watch(&turn, 0).await.unwrap();
    is_overloaded(&refused(client.watch(&turn, 0).await));

    let queued = v1::ChatRequest {
        thread_id: thread,
        if_busy: v1::IfBusy::Enqueue.into(),
        document_ids: Vec::new(),
        ..ask(&document, "hello")
    };
    let mut waits = JoinSet::new();
    is_overloaded(&wait_alone(&client, &queued, &turn, &mut waits).await);
    sandbox.sim.open("g").await;
    assert_eq!(held.completed().await.text, "Late.");
    assert_eq!(watching.completed().await.text, "Late.");
    assert_eq!(waits.join_next().await.unwrap().unwrap().unwrap().completed().await.text, "Hello.");
}

#[tokio::test]
async fn a_full_thread_takes_no_more_turns_and_a_fork_of_it_goes_on() {
    let mut sandbox = Sandbox::start(SCRIPT).await;
    let (client, document) = sandbox.with_document().await;
    let stream = client.chat(&document, "hello").await;
    let thread = stream.thread();
    stream.completed().await;
    drop(client);
    let id: ThreadId = thread.parse().unwrap();
    sandbox
        .offline(async |stores| {
            let org = first(&stores).await;
            let header = stores.threads.header(&org, &id).await.unwrap().unwrap();
            let append = Append {
                batch: System.random(),
                fence: Fence { epoch: header.epoch, version: header.version },
                entries: Vec::new(),
                take: None,
                opens: None,
                change: HeaderChange { turns: Some(limits::TURNS_PER_THREAD), ..Default::default() },
                request: None,
                at: System.now(),
            };
            stores.threads.append(&org, &id, append).await.unwrap()
        })
        .await;
    let client = sandbox.client().await;
    for truncate_to_message_count in [None, Some(0)] {
        let text = "hello".to_owned();
        let chat = v1::ChatRequest { thread_id: thread.clone(), text, truncate_to_message_count, ..Default::default() };
        let error = refused(client.send(chat).await);
        assert_eq!((error.code, error.reason.as_str()), (Code::FailedPrecondition, "THREAD_FULL"), "{error:?}");
    }
    assert_eq!(sandbox.sim.chats().await.len(), 1);
    assert_eq!(client.thread(&thread).await.total_size, 2, "it can be read");
    let fork = v1::ForkThreadRequest { thread_id: thread, ..Default::default() };
    let fork = client.threads.clone().fork_thread(fork).await.unwrap().into_inner().thread.unwrap();
    assert_eq!(client.say(&fork.thread_id, "hello").await.completed().await.text, "Hello.");
    assert_eq!(client.thread(&fork.thread_id).await.total_size, 4);
}

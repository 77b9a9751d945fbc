//! The start of a queued chat.

use folio_resources::policy::Ruling;

use super::audit::rule;
use super::*;

#[tokio::test]
async fn a_queued_chat_starts_under_the_policy_of_its_start() {
    let sandbox = Sandbox::start().await;
    let tag = || call("create_tag", json!({"name": "never"}));
    sandbox.models.then([gated(say("One.")), tag(), say("Two.")]);
    let first = sandbox.begin(sandbox.chat("one")).await;
    let thread = sandbox.newest_thread().await;
    let second = ChatCommand { auto_approve: true, ..sandbox.chat_in(&thread, "two") };
    let second = sandbox.enqueue(second, 1).await;
    sandbox.with_policy(vec![rule("never", "create_tag", "never", Ruling::Deny)]).await;
    sandbox.models.release();
    assert!(matches!(closing(&all(first).await), EventKind::Completed { .. }));
    let second = all(second.await.unwrap().unwrap()).await;
    let EventKind::Completed { rounds, .. } = closing(&second) else { panic!("{second:?}") };
    let content = &rounds[0].results[0].content;
    assert!(content.contains("policy denies this call"), "{content}");
    assert!(sandbox.tag_names().await.is_empty());
    sandbox.finish().await;
}

#[tokio::test]
async fn a_queued_chat_that_cannot_be_prepared_is_refused_and_the_next_one_starts() {
    let sandbox = Sandbox::start().await;
    sandbox.models.then([gated(say("One.")), say("Three.")]);
    let first = sandbox.begin(sandbox.chat("one")).await;
    let thread = sandbox.newest_thread().await;
    let second = sandbox.enqueue(sandbox.chat_in(&thread, "two"), 1).await;
    let third = sandbox.enqueue(sandbox.chat_in(&thread, "three"), 2).await;
    sandbox.wait_for_model_calls(1).await;
    sandbox.models.fail_catalogue_once();
    sandbox.models.release();
    assert!(matches!(closing(&all(first).await), EventKind::Completed { .. }));
    assert_eq!(second.await.unwrap().err().unwrap().reason, Reason::StoreUnavailable);
    let third = all(third.await.unwrap().unwrap()).await;
    assert!(matches!(closing(&third), EventKind::Completed { text, .. } if text == "Three."), "{third:?}");
    sandbox.finish().await;
}

#[tokio::test]
async fn an_interrupting_chat_starts_before_queued_chats() {
    let sandbox = Sandbox::start().await;
    sandbox.models.then([Step::Hang, say("Now."), say("Later.")]);
    let first = sandbox.begin(sandbox.chat("one")).await;
    sandbox.wait_for_model_calls(1).await;
    let thread = sandbox.newest_thread().await;
    let queued = sandbox.enqueue(sandbox.chat_in(&thread, "later"), 1).await;
    let now = ChatCommand { if_busy: IfBusy::Interrupt, ..sandbox.chat_in(&thread, "now") };
    let now = sandbox.run(now).await;
    assert!(matches!(closing(&now), EventKind::Completed { text, .. } if text == "Now."), "{now:?}");
    assert_eq!(closing(&all(first).await), &EventKind::Cancelled);
    let later = all(queued.await.unwrap().unwrap()).await;
    assert!(later[0].turn.number > now[0].turn.number, "{later:?}");
    sandbox.finish().await;
}

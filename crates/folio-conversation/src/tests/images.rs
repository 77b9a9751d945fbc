//! Images of messages.

use folio_types::message::MessageImage;
use folio_types::{BlobId, BlobKey, MessageImageId};

use super::*;

/// Stores an image of the sandbox's user.
async fn image(sandbox: &Sandbox, name: &str) -> MessageImage {
    let id = MessageImageId::derive(&[name]);
    let image = MessageImage { id, media_type: "image/jpeg".to_owned(), width: 600, height: 400, bytes: 4 };
    let file = (Digest::of(name.as_bytes()), b"jpeg".as_slice().into());
    let (images, now) = (sandbox.stores.message_images(), sandbox.environment.now());
    images.store(&sandbox.principal.org, &sandbox.principal.user, &image, file, now).await.unwrap();
    image
}

fn with_images(chat: ChatCommand, images: &[&MessageImage]) -> ChatCommand {
    ChatCommand { images: images.iter().map(|image| image.id.clone()).collect(), ..chat }
}

async fn is_stored(sandbox: &Sandbox, image: &MessageImage) -> bool {
    sandbox.stores.message_images().get(&sandbox.principal.org, &image.id).await.unwrap().is_some()
}

#[tokio::test]
async fn a_model_with_vision_receives_the_images_of_the_thread() {
    let sandbox = Sandbox::start().await;
    let (first, second) = (image(&sandbox, "first").await, image(&sandbox, "second").await);
    sandbox.models.then([say("Two."), say("Again."), say("Blind.")]);
    let chat = ChatCommand { request_id: request("look"), ..sandbox.chat("look") };
    let chat = with_images(chat, &[&first, &second]);
    let events = sandbox.run(chat.clone()).await;
    let thread = &events[0].turn.thread;
    sandbox.run(chat).await;
    let sent = sandbox.models.requests();
    let message = Message::User { text: "look".to_owned(), images: vec![first.clone(), second.clone()] };
    assert_eq!((sent.len(), &sent[0].messages), (1, &vec![message.clone()]), "a repeated request joins its turn");
    assert!(!sent[0].images.is_empty());
    sandbox.run(sandbox.chat_in(thread, "again")).await;
    // A model without vision continues the thread without the images.
    sandbox.run(ChatCommand { model: Some("other".to_owned()), ..sandbox.chat_in(thread, "blind") }).await;
    let sent = sandbox.models.requests();
    assert_eq!((&sent[1].messages[0], sent[1].images.is_empty()), (&message, false));
    assert_eq!((&sent[2].messages[0], sent[2].images.is_empty()), (&message, true));
    // The model receives no message with an image.
    let refused = ChatCommand { model: Some("other".to_owned()), ..sandbox.chat_in(thread, "look") };
    let refused = sandbox.conversations.chat(&sandbox.principal, with_images(refused, &[&first])).await.err().unwrap();
    assert_eq!((refused.reason, refused.details["allowed"].as_str()), (Reason::ModelNotAvailable, "scripted"));
    sandbox.finish().await;
}

#[tokio::test]
async fn a_turn_continues_without_an_image_whose_bytes_are_lost() {
    let sandbox = Sandbox::start().await;
    let image = image(&sandbox, "lost").await;
    let document = DocumentId::derive(&["message image", image.id.as_str()]);
    let key = BlobKey { org: sandbox.principal.org.clone(), document, blob: BlobId::derive(&["message image"]) };
    sandbox.stores.blobs.delete(&key).await.unwrap();
    sandbox.models.then([say("I see no image.")]);
    let events = sandbox.run(with_images(sandbox.chat("look"), &[&image])).await;
    assert!(matches!(closing(&events), EventKind::Completed { .. }), "{:?}", closing(&events));
    let sent = sandbox.models.requests();
    assert_eq!((sent[0].messages[0].images().len(), sent[0].images.is_empty()), (1, true), "a note replaces the image");
    sandbox.finish().await;
}

#[tokio::test]
async fn invariant_6_images_of_other_users_and_organizations_look_missing() {
    let sandbox = Sandbox::start().await;
    let own = image(&sandbox, "own").await;
    let colleague = Principal { user: UserId::derive(&["colleague"]), ..sandbox.principal.clone() };
    let stranger = Principal { org: OrgId::derive(&["strangers"]), ..sandbox.principal.clone() };
    let missing = MessageImage { id: MessageImageId::derive(&["missing"]), ..own.clone() };
    let chat = with_images(sandbox.chat("look"), &[&own]);
    let refused = sandbox.conversations.chat(&colleague, chat).await.err().unwrap();
    assert_eq!(refused.reason, Reason::NotFound);
    let chat = with_images(sandbox.chat("look"), &[&missing]);
    let absent = sandbox.conversations.chat(&sandbox.principal, chat).await.err().unwrap();
    let hidden = |error: &Error, image: &MessageImage| error.message.replace(image.id.as_str(), "ID");
    assert_eq!(hidden(&refused, &own), hidden(&absent, &missing));
    let found = sandbox.stores.message_images().get(&stranger.org, &own.id).await.unwrap();
    assert_eq!(found, None);
    let row = sandbox.stores.message_images().get(&sandbox.principal.org, &own.id).await.unwrap().unwrap();
    assert!(row.threads.is_empty(), "a refused chat adds no thread");
    sandbox.finish().await;
}

#[tokio::test]
async fn an_image_is_removed_with_the_last_thread_that_contains_it() {
    let sandbox = Sandbox::start().await;
    let image = image(&sandbox, "shared").await;
    sandbox.models.then([say("One."), say("Two.")]);
    let events = sandbox.run(with_images(sandbox.chat("look"), &[&image])).await;
    let thread = &events[0].turn.thread;
    let forked = sandbox.conversations.fork_thread(&sandbox.principal, fork(thread, request("f"))).await.unwrap();
    sandbox.conversations.delete_thread(&sandbox.principal, thread, None).await.unwrap();
    assert!(is_stored(&sandbox, &image).await, "the fork contains the image");
    sandbox.run(sandbox.chat_in(&forked.id, "again")).await;
    assert!(!sandbox.models.requests()[1].images.is_empty());
    sandbox.conversations.delete_thread(&sandbox.principal, &forked.id, None).await.unwrap();
    assert!(!is_stored(&sandbox, &image).await);
    let stored = sandbox.stores.resources.content_bytes(&sandbox.principal.org).await.unwrap();
    let text = sandbox.stores.texts.text(&sandbox.principal.org, sandbox.document.as_str(), 1, 1).await.unwrap();
    assert_eq!(stored, text.iter().map(|page| page.text.len() as u64).sum::<u64>(), "only the text counts");
    sandbox.finish().await;
}

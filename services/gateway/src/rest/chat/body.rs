//! The body of a chat, and the command that it becomes.

use folio_history::command::{ChatCommand, IfBusy, IfPending};
use folio_history::journal::Mention;
use folio_proto::{chat, fields};
use folio_resources::CollectionId;
use folio_types::message::Message;
use folio_types::{DocumentId, Error, PromptRevId, SchemaRevId, TagId, ThreadId, limits};
use serde::Deserialize;
use utoipa::ToSchema;

use crate::rest::failure::Failure;

/// The model of DocRouter's clients that choose none.
pub(super) const MODEL: &str = "claude-sonnet-4-6";

/// A chat about a document.
#[derive(Debug, Deserialize, ToSchema)]
pub(super) struct ChatBody {
    /// The conversation so far. The last message of the user is the new one. With `thread_id`, the stored messages count instead of
    /// the earlier ones.
    pub(super) messages: Vec<ChatMessage>,
    /// Schemas, prompts, tags and collections that the message names.
    #[serde(default)]
    #[schema(value_type = Vec<MentionBody>)]
    pub(super) mentions: Option<Vec<MentionBody>>,
    /// Images of the new message: at most 4 ids of `message_images`, of images that the caller uploaded or that the thread contains.
    /// Default: none.
    pub(super) image_ids: Option<Vec<String>>,
    /// The model. Default: that of the thread, or the default model of the organization, also for `claude-sonnet-4-6` if it is not
    /// enabled.
    pub(super) model: Option<String>,
    /// True: the answer is a stream of events. Default: false.
    #[serde(default)]
    #[schema(value_type = bool)]
    pub(super) stream: Option<bool>,
    /// True: calls run without approval unless the policy of the organization requires one. Default: false.
    #[serde(default)]
    #[schema(value_type = bool)]
    pub(super) auto_approve: Option<bool>,
    /// Tools whose calls run without approval unless the policy of the organization requires one.
    pub(super) auto_approved_tools: Option<Vec<String>>,
    /// The thread that stores the chat. Default: the chat is not listed, and is deleted after a day.
    pub(super) thread_id: Option<String>,
    /// Number of stored messages to keep before the new one. Default: all.
    pub(super) truncate_thread_to_message_count: Option<u32>,
}

/// A message of a chat.
#[derive(Debug, Deserialize, ToSchema)]
pub(super) struct ChatMessage {
    /// The author.
    role: ChatRole,
    /// The text.
    content: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
enum ChatRole {
    User,
    Assistant,
    System,
    Tool,
}

/// A resource that a message names.
#[derive(Debug, Deserialize, ToSchema)]
pub(in crate::rest) struct MentionBody {
    /// The kind of the resource.
    r#type: MentionKind,
    /// The id: of a version for schemas and prompts.
    id: String,
}

#[derive(Debug, Clone, Copy, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
enum MentionKind {
    Schema,
    Prompt,
    Tag,
    Collection,
}

impl MentionBody {
    /// Error: `NOT_FOUND` if the id is malformed.
    pub(in crate::rest) fn parse(&self) -> Result<Mention, Error> {
        let id = self.id.as_str();
        let missing = |kind: &'static str| move |_: Error| Error::not_found(kind, "of a mention");
        Ok(match self.r#type {
            MentionKind::Schema => Mention::Schema(id.parse::<SchemaRevId>().map_err(missing("schema"))?),
            MentionKind::Prompt => Mention::Prompt(id.parse::<PromptRevId>().map_err(missing("prompt"))?),
            MentionKind::Tag => Mention::Tag(id.parse::<TagId>().map_err(missing("tag"))?),
            MentionKind::Collection => Mention::Collection(id.parse::<CollectionId>().map_err(missing("collection"))?),
        })
    }
}

impl ChatBody {
    /// Returns the command of a chat about a document. `thread`: the thread of the body, which the caller has read.
    ///
    /// # Errors
    /// Status 404 for a malformed mention, 422 for messages without one of the user and for malformed or too many images, and the
    /// errors of [`chat::parse`].
    pub(super) fn command(
        self,
        document: DocumentId,
        thread: Option<ThreadId>,
        model: Option<String>,
    ) -> Result<ChatCommand, Failure> {
        let mut messages = self.messages;
        let Some(newest) = messages.iter().rposition(|message| message.role == ChatRole::User) else {
            return Err(Error::invalid_field("messages", "must contain a message of the user").into());
        };
        let text = messages.get_mut(newest).and_then(|message| message.content.take()).unwrap_or_default();
        messages.truncate(newest);
        let mentions = self.mentions.unwrap_or_default();
        let command = ChatCommand {
            documents: vec![document],
            ephemeral: thread.is_none(),
            history: if thread.is_none() { history(messages) } else { Vec::new() },
            mentions: mentions.iter().map(MentionBody::parse).collect::<Result<_, _>>()?,
            images: fields::ids("image_ids", &self.image_ids.unwrap_or_default(), limits::MESSAGE_IMAGES_MAX)?,
            model,
            auto_approve: self.auto_approve.unwrap_or_default(),
            auto_approved_tools: self.auto_approved_tools.unwrap_or_default(),
            // A client that aborts a stream expects no end of the turn, and may send the next message at once.
            if_busy: IfBusy::Enqueue,
            // DocRouter knows only calls of the newest message.
            if_pending: IfPending::Supersede,
            truncate_to_message_count: self.truncate_thread_to_message_count.filter(|_| thread.is_some()),
            thread,
            ..ChatCommand::new(text)
        };
        Ok(chat::parse(chat::encode(&command))?)
    }
}

/// Returns the texts of the newest messages. Calls are left out, because their results are not part of the messages.
fn history(messages: Vec<ChatMessage>) -> Vec<Message> {
    let message = |ChatMessage { role, content }: ChatMessage| {
        let text = content.filter(|text| !text.trim().is_empty())?;
        match role {
            ChatRole::User => Some(Message::user(text)),
            ChatRole::Assistant => Some(Message::Assistant { text, thinking: Vec::new(), calls: Vec::new() }),
            ChatRole::System | ChatRole::Tool => None,
        }
    };
    let mut texts: Vec<Message> = messages.into_iter().filter_map(message).collect();
    texts.split_off(texts.len().saturating_sub(limits::HISTORY_MESSAGES))
}

#[cfg(test)]
mod tests {
    use folio_types::MessageImageId;
    use serde_json::{Value, json};

    use super::*;

    fn command(body: Value, thread: Option<ThreadId>) -> Result<ChatCommand, Failure> {
        serde_json::from_value::<ChatBody>(body).unwrap().command(DocumentId::derive(&["d"]), thread, None)
    }

    fn conversation() -> Value {
        let call = json!({ "id": "1", "type": "function", "function": { "name": "list_tags", "arguments": "{}" } });
        json!([
            { "role": "system", "content": "be short" },
            { "role": "user", "content": "first" },
            { "role": "assistant", "content": "answer", "tool_calls": [call] },
            { "role": "assistant", "content": null, "tool_calls": [call] },
            { "role": "user", "content": "second" },
        ])
    }

    #[test]
    fn a_chat_without_a_thread_starts_with_the_texts_of_its_messages() {
        let command = command(json!({ "messages": conversation() }), None).unwrap();
        assert_eq!((command.text.as_str(), command.ephemeral), ("second", true));
        let answer = Message::Assistant { text: "answer".to_owned(), thinking: Vec::new(), calls: Vec::new() };
        assert_eq!(command.history, [Message::user("first".to_owned()), answer]);
        let many: Vec<Value> = (0..300).map(|n| json!({ "role": "user", "content": n.to_string() })).collect();
        let command = self::command(json!({ "messages": many }), None).unwrap();
        assert_eq!((command.history.len(), command.text.as_str()), (limits::HISTORY_MESSAGES, "299"));
        assert_eq!(command.history[0], Message::user("99".to_owned()));
    }

    #[test]
    fn a_chat_in_a_thread_sends_only_the_newest_message() {
        let thread = ThreadId::derive(&["t"]);
        let body = json!({ "messages": conversation(), "truncate_thread_to_message_count": 2, "auto_approve": true });
        let command = command(body, Some(thread.clone())).unwrap();
        assert_eq!((command.thread, command.history.len(), command.ephemeral), (Some(thread), 0, false));
        assert_eq!((command.truncate_to_message_count, command.auto_approve), (Some(2), true));
        assert_eq!((command.if_busy, command.if_pending), (IfBusy::Enqueue, IfPending::Supersede));
    }

    #[test]
    fn malformed_chats_are_refused() {
        let tag = TagId::derive(&["t"]).to_string();
        let with = |mention: Value| command(json!({ "messages": conversation(), "mentions": [mention] }), None);
        assert_eq!(with(json!({ "type": "tag", "id": tag })).unwrap().mentions.len(), 1);
        for kind in ["schema", "prompt", "tag"] {
            let refused = with(json!({ "type": kind, "id": "x" })).unwrap_err();
            assert_eq!(refused.missing_kind(), Some(kind));
        }
        let image = MessageImageId::derive(&["i"]).to_string();
        let with = |images: Value| command(json!({ "messages": conversation(), "image_ids": images }), None);
        assert_eq!(with(json!([image])).unwrap().images, [MessageImageId::derive(&["i"])]);
        assert!(with(Value::Null).unwrap().images.is_empty());
        let many: Vec<String> = (0..5).map(|n: u8| MessageImageId::derive(&[&n.to_string()]).to_string()).collect();
        for images in [json!(["x"]), json!([image, image]), json!(many)] {
            assert!(with(images.clone()).is_err(), "{images}");
        }
        for messages in [json!([]), json!([{ "role": "assistant", "content": "a" }]), json!([{ "role": "user" }])] {
            assert!(command(json!({ "messages": messages }), None).is_err(), "{messages}");
        }
        for body in [json!({}), json!({ "messages": [{ "role": "robot" }] }), json!({ "messages": 1 })] {
            assert!(serde_json::from_value::<ChatBody>(body).is_err());
        }
    }
}

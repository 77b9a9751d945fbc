//! `ChatRequest`, checked: the same for the gateway that refuses and the node that runs it.

use folio_history::journal::Mention;
use folio_types::message::Message;
use folio_types::{DocumentId, Error, FieldViolation, Reason, RequestId, Result, ThreadId, limits};
use prost::Message as _;

use crate::{fields, json, v1};

/// Bytes of a history that an ephemeral thread brings.
pub const HISTORY_BYTES: usize = 1024 * 1024;

/// A chat whose every field is within its bounds.
#[derive(Debug, Clone, PartialEq)]
pub struct ChatInput {
    /// The profile; none: the thread's, or the default.
    pub profile: Option<String>,
    /// The documents.
    pub documents: Vec<DocumentId>,
    /// The thread; none: a new one.
    pub thread: Option<ThreadId>,
    /// Whether the new thread is hidden and removed after 24 h.
    pub ephemeral: bool,
    /// What a new ephemeral thread begins with.
    pub history: Vec<Message>,
    /// The message.
    pub text: String,
    /// What it refers to.
    pub mentions: Vec<Mention>,
    /// The model; none: the thread's, else the default.
    pub model: Option<String>,
    /// Whether no call waits.
    pub auto_approve: bool,
    /// Tools whose calls do not wait.
    pub auto_approved_tools: Vec<String>,
    /// What to do behind a running turn; never unspecified.
    pub if_busy: v1::IfBusy,
    /// What to do behind a waiting turn; never unspecified.
    pub if_pending: v1::IfPending,
    /// Messages that stay.
    pub truncate_to_message_count: Option<u32>,
    /// The client's id for the request.
    pub request: Option<RequestId>,
}

/// Reads a request.
///
/// Errors: `INVALID_FIELD`, `INVALID_ID`, `TOO_LARGE`, each naming its field.
pub fn parse(request: v1::ChatRequest) -> Result<ChatInput> {
    let thread: Option<ThreadId> = fields::optional_id("thread_id", &request.thread_id)?;
    if request.ephemeral && thread.is_some() {
        return Err(Error::invalid_field("ephemeral", "is for new threads only"));
    }
    if !request.history.is_empty() && !request.ephemeral {
        return Err(Error::invalid_field("history", "is for new ephemeral threads only"));
    }
    if request.truncate_to_message_count.is_some() && thread.is_none() {
        return Err(Error::invalid_field("truncate_to_message_count", "needs a thread"));
    }
    Ok(ChatInput {
        profile: fields::optional_word("profile", &request.profile)?,
        documents: fields::ids("document_ids", &request.document_ids, limits::DOCUMENTS_PER_THREAD)?,
        thread,
        ephemeral: request.ephemeral,
        text: fields::text("text", &request.text, limits::USER_TEXT_BYTES)?,
        mentions: mentions(&request.mentions)?,
        model: fields::optional_word("model", &request.model)?,
        auto_approve: request.auto_approve,
        auto_approved_tools: tools(&request.auto_approved_tools)?,
        if_busy: if_busy(request.if_busy)?,
        if_pending: if_pending(request.if_pending)?,
        truncate_to_message_count: request.truncate_to_message_count,
        request: fields::request_id(&request.request_id)?,
        history: history(request.history)?,
    })
}

fn if_busy(number: i32) -> Result<v1::IfBusy> {
    match fields::choice("if_busy", number)? {
        v1::IfBusy::Unspecified => Ok(v1::IfBusy::Reject),
        chosen => Ok(chosen),
    }
}

fn if_pending(number: i32) -> Result<v1::IfPending> {
    match fields::choice("if_pending", number)? {
        v1::IfPending::Unspecified => Ok(v1::IfPending::Reject),
        chosen => Ok(chosen),
    }
}

fn mentions(given: &[v1::Mention]) -> Result<Vec<Mention>> {
    use v1::mention::Target;
    if given.len() > limits::MENTIONS_MAX {
        return Err(Error::invalid_field("mentions", format!("more than {}", limits::MENTIONS_MAX)));
    }
    let read = given.iter().enumerate().map(|(index, mention)| {
        let field = |name: &str| format!("mentions[{index}].{name}");
        Ok(match fields::required(&field("target"), mention.target.as_ref())? {
            Target::SchemaRevid(text) => Mention::Schema(fields::id(&field("schema_revid"), text)?),
            Target::PromptRevid(text) => Mention::Prompt(fields::id(&field("prompt_revid"), text)?),
            Target::TagId(text) => Mention::Tag(fields::id(&field("tag_id"), text)?),
        })
    });
    read.collect()
}

fn tools(given: &[String]) -> Result<Vec<String>> {
    const MOST: usize = 200;
    if given.len() > MOST {
        return Err(Error::invalid_field("auto_approved_tools", format!("more than {MOST}")));
    }
    let read = given.iter().enumerate();
    read.map(|(index, tool)| fields::word(&format!("auto_approved_tools[{index}]"), tool)).collect()
}

fn history(given: Vec<v1::Message>) -> Result<Vec<Message>> {
    if given.len() > limits::HISTORY_MESSAGES {
        return Err(Error::invalid_field("history", format!("more than {} messages", limits::HISTORY_MESSAGES)));
    }
    let bytes: usize = given.iter().map(prost::Message::encoded_len).sum();
    if bytes > HISTORY_BYTES {
        return Err(json::too_large("history", HISTORY_BYTES));
    }
    let read = given.into_iter().enumerate().map(|(index, message)| {
        if message.encoded_len() > limits::ENTRY_BYTES / 2 {
            return Err(json::too_large(&format!("history[{index}]"), limits::ENTRY_BYTES / 2));
        }
        Message::try_from(message).map_err(|error| below(&format!("history[{index}]"), error))
    });
    read.collect()
}

/// Puts the place of a part before the fields of its error.
pub(crate) fn below(place: &str, mut error: Error) -> Error {
    for FieldViolation { field, .. } in &mut error.violations {
        *field = format!("{place}.{field}");
    }
    error.message = format!("{place}.{}", error.message);
    if error.reason == Reason::Internal {
        error.reason = Reason::InvalidField;
    }
    error
}

#[cfg(test)]
mod tests {
    use super::*;
    use folio_types::SchemaId;

    fn request() -> v1::ChatRequest {
        v1::ChatRequest { text: "hello".into(), ..Default::default() }
    }

    #[test]
    fn a_request_that_says_nothing_more_is_rejecting() {
        let input = parse(request()).unwrap();
        assert_eq!((input.if_busy, input.if_pending), (v1::IfBusy::Reject, v1::IfPending::Reject));
        assert_eq!((input.thread, input.request, input.model), (None, None, None));
    }

    #[test]
    fn each_field_out_of_bounds_is_refused_by_its_name() {
        let thread = ThreadId::derive(&["t"]).to_string();
        let mention = |target| v1::Mention { target };
        let user = |text: &str| v1::Message {
            kind: Some(v1::message::Kind::User(v1::UserMessage { text: text.into() })),
            ..Default::default()
        };
        let bad_call = v1::Message {
            kind: Some(v1::message::Kind::Assistant(v1::AssistantMessage {
                calls: vec![v1::MessageCall { arguments_json: "{".into(), ..Default::default() }],
                ..Default::default()
            })),
            ..Default::default()
        };
        type Change = Box<dyn FnOnce(&mut v1::ChatRequest)>;
        let cases: Vec<(&str, Change)> = vec![
            ("text", Box::new(|r| r.text.clear())),
            ("text", Box::new(|r| r.text = "x".repeat(limits::USER_TEXT_BYTES + 1))),
            ("thread_id", Box::new(|r| r.thread_id = "nonsense".into())),
            ("document_ids[0]", Box::new(|r| r.document_ids = vec!["../etc".into()])),
            ("document_ids", Box::new(|r| r.document_ids = vec![String::new(); 101])),
            ("if_busy", Box::new(|r| r.if_busy = 77)),
            ("if_pending", Box::new(|r| r.if_pending = -1)),
            ("request_id", Box::new(|r| r.request_id = "ä".into())),
            ("request_id", Box::new(|r| r.request_id = "x".repeat(129))),
            ("model", Box::new(|r| r.model = "a b".into())),
            ("profile", Box::new(|r| r.profile = "x".repeat(300))),
            ("mentions", Box::new(move |r| r.mentions = vec![mention(None); 21])),
            ("mentions[0].target", Box::new(|r| r.mentions = vec![v1::Mention::default()])),
            (
                "mentions[0].schema_revid",
                Box::new(|r| {
                    let id = SchemaId::derive(&["s"]).to_string();
                    r.mentions = vec![v1::Mention { target: Some(v1::mention::Target::SchemaRevid(id)) }];
                }),
            ),
            ("auto_approved_tools[0]", Box::new(|r| r.auto_approved_tools = vec![String::new()])),
            ("truncate_to_message_count", Box::new(|r| r.truncate_to_message_count = Some(1))),
            (
                "ephemeral",
                Box::new(move |r| {
                    r.thread_id = thread;
                    r.ephemeral = true;
                }),
            ),
            ("history", Box::new(move |r| r.history = vec![v1::Message::default()])),
            (
                "history",
                Box::new(move |r| {
                    r.ephemeral = true;
                    r.history = vec![user("x"); 201];
                }),
            ),
            (
                "history[0].kind",
                Box::new(|r| {
                    r.ephemeral = true;
                    r.history = vec![v1::Message::default()];
                }),
            ),
            (
                "history[0].arguments_json",
                Box::new(move |r| {
                    r.ephemeral = true;
                    r.history = vec![bad_call];
                }),
            ),
        ];
        for (field, change) in cases {
            let mut request = request();
            change(&mut request);
            let error = parse(request).expect_err(field);
            assert_eq!(error.violations.first().map(|v| v.field.as_str()), Some(field), "{error}");
        }
    }
}

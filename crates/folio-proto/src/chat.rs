//! Parses `ChatRequest` into the command that the conversation runs, and encodes the command for another process.
//!
//! [`parse`] performs all validation that does not require the thread. Each bound is a constant of
//! [`folio_types::limits`].

use folio_history::command::{ChatCommand, IfBusy, IfPending};
use folio_history::journal::Mention;
use folio_types::message::Message;
use folio_types::{Error, FieldViolation, Reason, Result, ThreadId, limits};
use prost::Message as _;

use crate::{fields, json, v1};

/// Parses and validates a request. Errors: `INVALID_FIELD`, `INVALID_ID` or `TOO_LARGE`, with the field.
pub fn parse(request: v1::ChatRequest) -> Result<ChatCommand> {
    let thread: Option<ThreadId> = fields::optional_id("thread_id", &request.thread_id)?;
    if request.ephemeral && thread.is_some() {
        return Err(Error::invalid_field("ephemeral", "is allowed for new threads only"));
    }
    if !request.history.is_empty() && !request.ephemeral {
        return Err(Error::invalid_field("history", "is allowed for new ephemeral threads only"));
    }
    if request.truncate_to_message_count.is_some() && thread.is_none() {
        return Err(Error::invalid_field("truncate_to_message_count", "requires thread_id"));
    }
    Ok(ChatCommand {
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
        request_id: fields::request_id(&request.request_id)?,
        history: history(request.history)?,
    })
}

/// Encodes a command for another process, which decodes it with [`parse`].
pub fn encode(command: &ChatCommand) -> v1::ChatRequest {
    v1::ChatRequest {
        profile: command.profile.clone().unwrap_or_default(),
        document_ids: command.documents.iter().map(ToString::to_string).collect(),
        thread_id: command.thread.as_ref().map(ToString::to_string).unwrap_or_default(),
        ephemeral: command.ephemeral,
        history: command.history.iter().map(Into::into).collect(),
        text: command.text.clone(),
        mentions: command.mentions.iter().map(encode_mention).collect(),
        model: command.model.clone().unwrap_or_default(),
        auto_approve: command.auto_approve,
        auto_approved_tools: command.auto_approved_tools.clone(),
        if_busy: match command.if_busy {
            IfBusy::Reject => v1::IfBusy::Reject,
            IfBusy::Enqueue => v1::IfBusy::Enqueue,
            IfBusy::Interrupt => v1::IfBusy::Interrupt,
        }
        .into(),
        if_pending: match command.if_pending {
            IfPending::Reject => v1::IfPending::Reject,
            IfPending::Supersede => v1::IfPending::Supersede,
        }
        .into(),
        truncate_to_message_count: command.truncate_to_message_count,
        request_id: command.request_id.as_ref().map(ToString::to_string).unwrap_or_default(),
    }
}

fn if_busy(number: i32) -> Result<IfBusy> {
    Ok(match fields::choice("if_busy", number)? {
        v1::IfBusy::Unspecified | v1::IfBusy::Reject => IfBusy::Reject,
        v1::IfBusy::Enqueue => IfBusy::Enqueue,
        v1::IfBusy::Interrupt => IfBusy::Interrupt,
    })
}

fn if_pending(number: i32) -> Result<IfPending> {
    Ok(match fields::choice("if_pending", number)? {
        v1::IfPending::Unspecified | v1::IfPending::Reject => IfPending::Reject,
        v1::IfPending::Supersede => IfPending::Supersede,
    })
}

fn encode_mention(mention: &Mention) -> v1::Mention {
    use v1::mention::Target;
    let target = match mention {
        Mention::Schema(id) => Target::SchemaRevid(id.to_string()),
        Mention::Prompt(id) => Target::PromptRevid(id.to_string()),
        Mention::Tag(id) => Target::TagId(id.to_string()),
    };
    v1::Mention { target: Some(target) }
}

fn mentions(given: &[v1::Mention]) -> Result<Vec<Mention>> {
    use v1::mention::Target;
    if given.len() > limits::MENTIONS_MAX {
        return Err(Error::invalid_field("mentions", format!("has more than {} mentions", limits::MENTIONS_MAX)));
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
    if given.len() > limits::AUTO_APPROVED_TOOLS_MAX {
        let message = format!("has more than {} tools", limits::AUTO_APPROVED_TOOLS_MAX);
        return Err(Error::invalid_field("auto_approved_tools", message));
    }
    let read = given.iter().enumerate();
    read.map(|(index, tool)| fields::word(&format!("auto_approved_tools[{index}]"), tool)).collect()
}

fn history(given: Vec<v1::Message>) -> Result<Vec<Message>> {
    if given.len() > limits::HISTORY_MESSAGES {
        return Err(Error::invalid_field("history", format!("has more than {} messages", limits::HISTORY_MESSAGES)));
    }
    let bytes: usize = given.iter().map(prost::Message::encoded_len).sum();
    if bytes > limits::HISTORY_BYTES {
        return Err(json::too_large("history", limits::HISTORY_BYTES));
    }
    let read = given.into_iter().enumerate().map(|(index, message)| {
        let field = format!("history[{index}]");
        if message.encoded_len() > limits::HISTORY_MESSAGE_BYTES {
            return Err(json::too_large(&field, limits::HISTORY_MESSAGE_BYTES));
        }
        let message = Message::try_from(message).map_err(|error| prefix_fields(&field, error))?;
        if call_ids(&message).any(|id| !is_call_id(id)) {
            let problem = format!("a call id has 1 to {} characters of A-Z a-z 0-9 _ -", limits::CALL_ID_BYTES);
            return Err(Error::invalid_field(field, problem));
        }
        Ok(message)
    });
    read.collect()
}

fn call_ids(message: &Message) -> impl Iterator<Item = &str> {
    let (call, calls) = match message {
        Message::User { .. } => (None, None),
        Message::Tool { call, .. } => (Some(call.as_str()), None),
        Message::Assistant { calls, .. } => (None, Some(calls)),
    };
    call.into_iter().chain(calls.into_iter().flatten().map(|call| call.id.as_str()))
}

/// Returns true if every provider accepts the id of a tool call.
fn is_call_id(id: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
    (1..=limits::CALL_ID_BYTES).contains(&id.len()) && id.bytes().all(allowed)
}

/// Prefixes the fields of an error with the path of the message that contains them.
pub(crate) fn prefix_fields(path: &str, mut error: Error) -> Error {
    for FieldViolation { field, .. } in &mut error.violations {
        *field = format!("{path}.{field}");
    }
    error.message = format!("{path}.{}", error.message);
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
    fn a_request_with_a_text_only_has_every_default() {
        assert_eq!(parse(request()).unwrap(), ChatCommand::new("hello"));
    }

    #[test]
    fn a_command_survives_encoding() {
        let thread = ThreadId::derive(&["t"]);
        let in_thread = ChatCommand {
            profile: Some("document".into()),
            thread: Some(thread),
            mentions: vec![Mention::Tag(folio_types::TagId::derive(&["a"]))],
            model: Some("m".into()),
            auto_approve: true,
            auto_approved_tools: vec!["create_tag".into()],
            if_busy: IfBusy::Enqueue,
            if_pending: IfPending::Supersede,
            truncate_to_message_count: Some(3),
            request_id: Some("r".parse().unwrap()),
            ..ChatCommand::new("hello")
        };
        let ephemeral = ChatCommand {
            documents: vec![folio_types::DocumentId::derive(&["d"])],
            ephemeral: true,
            history: vec![Message::User { text: "before".into() }],
            if_busy: IfBusy::Interrupt,
            ..ChatCommand::new("now")
        };
        for command in [in_thread, ephemeral, ChatCommand::new("x")] {
            assert_eq!(parse(encode(&command)).unwrap(), command);
        }
    }

    /// Each bound of a chat is the constant of `limits`: the largest value passes, one more is refused.
    #[test]
    fn the_bounds_at_the_edge_are_those_of_limits() {
        let user = |bytes: usize| v1::Message {
            kind: Some(v1::message::Kind::User(v1::UserMessage { text: "x".repeat(bytes) })),
            ..Default::default()
        };
        let tag =
            || v1::Mention { target: Some(v1::mention::Target::TagId(folio_types::TagId::derive(&["a"]).to_string())) };
        let framed = user(limits::HISTORY_MESSAGE_BYTES / 2).encoded_len() - limits::HISTORY_MESSAGE_BYTES / 2;
        type Sized = fn(&mut v1::ChatRequest, usize, &dyn Fn(usize) -> v1::Message, &dyn Fn() -> v1::Mention);
        let cases: [(&str, usize, Sized); 5] = [
            ("text", limits::USER_TEXT_BYTES, |r, n, _, _| r.text = "x".repeat(n)),
            ("mentions", limits::MENTIONS_MAX, |r, n, _, tag| r.mentions = (0..n).map(|_| tag()).collect()),
            ("auto_approved_tools", limits::AUTO_APPROVED_TOOLS_MAX, |r, n, _, _| {
                r.auto_approved_tools = vec!["create_tag".into(); n];
            }),
            ("history", limits::HISTORY_MESSAGES, |r, n, user, _| {
                (r.ephemeral, r.history) = (true, vec![user(1); n]);
            }),
            ("history[0]", limits::HISTORY_MESSAGE_BYTES - framed, |r, n, user, _| {
                (r.ephemeral, r.history) = (true, vec![user(n)]);
            }),
        ];
        for (field, most, change) in cases {
            for (size, allowed) in [(most, true), (most + 1, false)] {
                let mut request = request();
                change(&mut request, size, &user, &tag);
                let parsed = parse(request);
                assert_eq!(parsed.is_ok(), allowed, "{field}: {size}");
                let named = parsed.err().map(|error| error.violations[0].field.clone());
                assert!(named.is_none_or(|named| named == field), "{field}");
            }
        }
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
                "history[0]",
                Box::new(|r| {
                    let odd = v1::message::Kind::Tool(v1::ToolMessage { call_id: "a b".into(), ..Default::default() });
                    r.ephemeral = true;
                    r.history = vec![v1::Message { kind: Some(odd), ..Default::default() }];
                }),
            ),
            ("text", Box::new(|r| r.text = "  ".into())),
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

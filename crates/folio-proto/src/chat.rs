//! Parses `ChatRequest` into the command that the conversation runs, and encodes the command for another process.
//!
//! [`parse`] performs all validation that does not require the thread. Each bound is a constant of
//! [`folio_types::limits`].

use folio_history::command::{ChatCommand, DirectCall, IfBusy, IfPending};
use folio_history::journal::Mention;
use folio_types::budget::check_credit_budget;
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
    let if_pending: v1::IfPending = fields::choice("if_pending", request.if_pending)?;
    let direct_call = request.direct_call.map(|call| parse_direct_call(call, thread.is_some())).transpose()?;
    if direct_call.is_some() && request.ephemeral {
        return Err(Error::invalid_field("ephemeral", "is not allowed with direct_call"));
    }
    let text = match &direct_call {
        Some(call) if request.text.is_empty() => format!("Run the tool {}.", call.tool),
        _ => fields::text("text", &request.text, limits::USER_TEXT_BYTES)?,
    };
    let images = fields::ids("image_ids", &request.image_ids, limits::MESSAGE_IMAGES_MAX)?;
    if direct_call.is_some() && !images.is_empty() {
        return Err(Error::invalid_field("image_ids", "is not allowed with direct_call"));
    }
    Ok(ChatCommand {
        profile: fields::optional_word("profile", &request.profile)?,
        documents: fields::ids("document_ids", &request.document_ids, limits::DOCUMENTS_PER_THREAD)?,
        thread,
        ephemeral: request.ephemeral,
        text,
        mentions: parse_mentions(&request.mentions)?,
        model: fields::optional_word("model", &request.model)?,
        auto_approve: request.auto_approve,
        auto_approved_tools: parse_tools(&request.auto_approved_tools)?,
        if_busy: fields::choice::<v1::IfBusy>("if_busy", request.if_busy)?.try_into().unwrap_or(IfBusy::Reject),
        if_pending: if_pending.try_into().unwrap_or(IfPending::Reject),
        truncate_to_message_count: request.truncate_to_message_count,
        credit_budget: check_credit_budget(request.credit_budget)?,
        direct_call,
        request_id: fields::request_id(&request.request_id)?,
        history: parse_history(request.history)?,
        images,
    })
}

/// Encodes a command for another process, which decodes it with [`parse`].
pub fn encode(command: &ChatCommand) -> v1::ChatRequest {
    v1::ChatRequest {
        profile: command.profile.clone().unwrap_or_default(),
        document_ids: command.documents.iter().map(ToString::to_string).collect(),
        thread_id: fields::text_of(command.thread.as_ref()),
        ephemeral: command.ephemeral,
        history: command.history.iter().map(Into::into).collect(),
        text: command.text.clone(),
        mentions: command.mentions.iter().map(encode_mention).collect(),
        model: command.model.clone().unwrap_or_default(),
        auto_approve: command.auto_approve,
        auto_approved_tools: command.auto_approved_tools.clone(),
        if_busy: v1::IfBusy::from(command.if_busy).into(),
        if_pending: v1::IfPending::from(command.if_pending).into(),
        truncate_to_message_count: command.truncate_to_message_count,
        request_id: fields::text_of(command.request_id.as_ref()),
        credit_budget: command.credit_budget,
        direct_call: command.direct_call.as_ref().map(|call| v1::DirectCall {
            tool: call.tool.clone(),
            arguments_json: json::text(&call.arguments),
            thread_number: if command.thread.is_some() { 0 } else { call.thread_number },
        }),
        image_ids: command.images.iter().map(ToString::to_string).collect(),
    }
}

/// `is_in_thread`: true if the request names a thread.
fn parse_direct_call(call: v1::DirectCall, is_in_thread: bool) -> Result<DirectCall> {
    let max = if is_in_thread { 0 } else { limits::DIRECT_CALL_THREADS_MAX };
    if call.thread_number > max {
        return Err(Error::invalid_field("direct_call.thread_number", format!("must be at most {max}")));
    }
    let arguments = if call.arguments_json.is_empty() { "{}" } else { call.arguments_json.as_str() };
    Ok(DirectCall {
        tool: fields::word("direct_call.tool", &call.tool)?,
        arguments: json::parse_object("direct_call.arguments_json", arguments, limits::ARGUMENTS_BYTES)?,
        thread_number: call.thread_number.max(1),
    })
}

fn encode_mention(mention: &Mention) -> v1::Mention {
    use v1::mention::Target;
    let target = match mention {
        Mention::Schema(id) => Target::SchemaRevid(id.to_string()),
        Mention::Prompt(id) => Target::PromptRevid(id.to_string()),
        Mention::Tag(id) => Target::TagId(id.to_string()),
        Mention::Collection(id) => Target::CollectionId(id.to_string()),
    };
    v1::Mention { target: Some(target) }
}

/// Checks the length of a list. `elements` names the elements in the error.
pub(crate) fn check_length<T>(field: &str, list: &[T], max: usize, elements: &str) -> Result<()> {
    if list.len() > max {
        return Err(Error::invalid_field(field, format!("has more than {max} {elements}")));
    }
    Ok(())
}

fn parse_mentions(mentions: &[v1::Mention]) -> Result<Vec<Mention>> {
    use v1::mention::Target;
    check_length("mentions", mentions, limits::MENTIONS_MAX, "mentions")?;
    let parsed = mentions.iter().enumerate().map(|(index, mention)| {
        let field = |name: &str| format!("mentions[{index}].{name}");
        Ok(match fields::required(&field("target"), mention.target.as_ref())? {
            Target::SchemaRevid(text) => Mention::Schema(fields::id(&field("schema_revid"), text)?),
            Target::PromptRevid(text) => Mention::Prompt(fields::id(&field("prompt_revid"), text)?),
            Target::TagId(text) => Mention::Tag(fields::id(&field("tag_id"), text)?),
            Target::CollectionId(text) => Mention::Collection(fields::id(&field("collection_id"), text)?),
        })
    });
    parsed.collect()
}

fn parse_tools(tools: &[String]) -> Result<Vec<String>> {
    check_length("auto_approved_tools", tools, limits::AUTO_APPROVED_TOOLS_MAX, "tools")?;
    let tools = tools.iter().enumerate();
    tools.map(|(index, tool)| fields::word(&format!("auto_approved_tools[{index}]"), tool)).collect()
}

fn parse_history(messages: Vec<v1::Message>) -> Result<Vec<Message>> {
    check_length("history", &messages, limits::HISTORY_MESSAGES, "messages")?;
    let bytes: usize = messages.iter().map(prost::Message::encoded_len).sum();
    if bytes > limits::HISTORY_BYTES {
        return Err(json::too_large("history", limits::HISTORY_BYTES));
    }
    let parsed = messages.into_iter().enumerate().map(|(index, message)| {
        let field = format!("history[{index}]");
        if message.encoded_len() > limits::HISTORY_MESSAGE_BYTES {
            return Err(json::too_large(&field, limits::HISTORY_MESSAGE_BYTES));
        }
        let message = Message::try_from(message).map_err(|error| prefix_fields(&field, error))?;
        if !message.images().is_empty() {
            let problem = "contains images, which are allowed in image_ids only";
            return Err(Error::invalid_field(field, problem));
        }
        if call_ids(&message).any(|id| !is_call_id(id)) {
            let max = limits::CALL_ID_BYTES;
            let problem = format!("contains a call id that does not have 1 to {max} characters of A-Z a-z 0-9 _ -");
            return Err(Error::invalid_field(field, problem));
        }
        Ok(message)
    });
    parsed.collect()
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

/// Prefixes the fields of an error with the path of the message that contains the fields.
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
    use folio_types::{MessageImageId, SchemaId};

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
            mentions: vec![
                Mention::Tag(folio_types::TagId::derive(&["a"])),
                Mention::Collection(folio_resources::CollectionId::derive(&["a"])),
            ],
            model: Some("m".into()),
            auto_approve: true,
            auto_approved_tools: vec!["create_tag".into()],
            if_busy: IfBusy::Enqueue,
            if_pending: IfPending::Supersede,
            truncate_to_message_count: Some(3),
            credit_budget: Some(7),
            request_id: Some("r".parse().unwrap()),
            images: ["a", "b"].map(|name| MessageImageId::derive(&[name])).into(),
            ..ChatCommand::new("hello")
        };
        let ephemeral = ChatCommand {
            documents: vec![folio_types::DocumentId::derive(&["d"])],
            ephemeral: true,
            history: vec![Message::user("before")],
            if_busy: IfBusy::Interrupt,
            ..ChatCommand::new("now")
        };
        let call =
            DirectCall { tool: "get_tag".into(), arguments: serde_json::json!({"tag_id": "t"}), thread_number: 1 };
        let direct = ChatCommand { direct_call: Some(call.clone()), images: Vec::new(), ..in_thread.clone() };
        let second = DirectCall { thread_number: 2, ..call };
        let direct_in_second = ChatCommand { direct_call: Some(second), ..ChatCommand::new("x") };
        for command in [in_thread, ephemeral, direct, direct_in_second, ChatCommand::new("x")] {
            assert_eq!(parse(encode(&command)).unwrap(), command);
        }
    }

    #[test]
    fn a_direct_call_has_defaults_and_bounds() {
        let call = |tool: &str, arguments: &str, thread_number| v1::DirectCall {
            tool: tool.into(),
            arguments_json: arguments.into(),
            thread_number,
        };
        let parsed = |call| parse(v1::ChatRequest { direct_call: Some(call), ..Default::default() });
        let good = parsed(call("list_tags", "", 0)).unwrap();
        assert_eq!(good.text, "Run the tool list_tags.");
        let expected = DirectCall { tool: "list_tags".into(), arguments: serde_json::json!({}), thread_number: 1 };
        assert_eq!(good.direct_call, Some(expected));
        assert!(parsed(call("list_tags", "{}", limits::DIRECT_CALL_THREADS_MAX)).is_ok());
        let large = format!(r#"{{"a": "{}"}}"#, "x".repeat(limits::ARGUMENTS_BYTES));
        for (bad, field) in [
            (call("", "{}", 0), "direct_call.tool"),
            (call("list_tags", "[]", 0), "direct_call.arguments_json"),
            (call("list_tags", &large, 0), "direct_call.arguments_json"),
            (call("list_tags", "{}", limits::DIRECT_CALL_THREADS_MAX + 1), "direct_call.thread_number"),
        ] {
            assert_eq!(parsed(bad).unwrap_err().violations[0].field, field);
        }
        let thread_id = ThreadId::derive(&["t"]).to_string();
        let in_thread = v1::ChatRequest { thread_id, direct_call: Some(call("a", "", 1)), ..Default::default() };
        assert_eq!(parse(in_thread).unwrap_err().violations[0].field, "direct_call.thread_number");
        let ephemeral = v1::ChatRequest { ephemeral: true, direct_call: Some(call("a", "", 0)), ..Default::default() };
        assert_eq!(parse(ephemeral).unwrap_err().violations[0].field, "ephemeral");
    }

    fn user(bytes: usize) -> v1::Message {
        let kind = v1::message::Kind::User(v1::UserMessage { text: "x".repeat(bytes), images: Vec::new() });
        v1::Message { kind: Some(kind), ..Default::default() }
    }

    fn mention(target: v1::mention::Target) -> v1::Mention {
        v1::Mention { target: Some(target) }
    }

    fn set_history(request: &mut v1::ChatRequest, messages: Vec<v1::Message>) {
        (request.ephemeral, request.history) = (true, messages);
    }

    /// Each bound of a chat is the constant of `limits`: the largest value passes, one more is refused.
    #[test]
    fn the_bounds_of_a_chat_are_those_of_limits() {
        let tag = || mention(v1::mention::Target::TagId(folio_types::TagId::derive(&["a"]).to_string()));
        let framed = user(limits::HISTORY_MESSAGE_BYTES / 2).encoded_len() - limits::HISTORY_MESSAGE_BYTES / 2;
        type SetSize<'a> = &'a dyn Fn(&mut v1::ChatRequest, usize);
        let cases: [(&str, usize, SetSize<'_>); 5] = [
            ("text", limits::USER_TEXT_BYTES, &|r, n| r.text = "x".repeat(n)),
            ("mentions", limits::MENTIONS_MAX, &|r, n| r.mentions = (0..n).map(|_| tag()).collect()),
            ("auto_approved_tools", limits::AUTO_APPROVED_TOOLS_MAX, &|r, n| {
                r.auto_approved_tools = vec!["create_tag".into(); n];
            }),
            ("history", limits::HISTORY_MESSAGES, &|r, n| set_history(r, vec![user(1); n])),
            ("history[0]", limits::HISTORY_MESSAGE_BYTES - framed, &|r, n| set_history(r, vec![user(n)])),
        ];
        for (field, max, change) in cases {
            for (size, allowed) in [(max, true), (max + 1, false)] {
                let mut request = request();
                change(&mut request, size);
                let parsed = parse(request);
                assert_eq!(parsed.is_ok(), allowed, "{field}: {size}");
                let named = parsed.err().map(|error| error.violations[0].field.clone());
                assert!(named.is_none_or(|named| named == field), "{field}");
            }
        }
    }

    #[test]
    fn each_field_out_of_bounds_is_refused_by_its_name() {
        use v1::mention::Target;
        use v1::message::Kind;
        let message = |kind| v1::Message { kind: Some(kind), ..Default::default() };
        let call = v1::MessageCall { arguments_json: "{".into(), ..Default::default() };
        let bad_call = message(Kind::Assistant(v1::AssistantMessage { calls: vec![call], ..Default::default() }));
        let bad_id = message(Kind::Tool(v1::ToolMessage { call_id: "a b".into(), ..Default::default() }));
        let schema = mention(Target::SchemaRevid(SchemaId::derive(&["s"]).to_string()));
        type Change<'a> = &'a dyn Fn(&mut v1::ChatRequest);
        let cases: [(&str, Change<'_>); 24] = [
            ("text", &|r| r.text.clear()),
            ("text", &|r| r.text = "x".repeat(limits::USER_TEXT_BYTES + 1)),
            ("text", &|r| r.text = "  ".into()),
            ("thread_id", &|r| r.thread_id = "nonsense".into()),
            ("document_ids[0]", &|r| r.document_ids = vec!["../etc".into()]),
            ("document_ids", &|r| r.document_ids = vec![String::new(); 101]),
            ("if_busy", &|r| r.if_busy = 77),
            ("if_pending", &|r| r.if_pending = -1),
            ("request_id", &|r| r.request_id = "ä".into()),
            ("request_id", &|r| r.request_id = "x".repeat(129)),
            ("model", &|r| r.model = "a b".into()),
            ("profile", &|r| r.profile = "x".repeat(300)),
            ("mentions", &|r| r.mentions = vec![v1::Mention::default(); 21]),
            ("mentions[0].target", &|r| r.mentions = vec![v1::Mention::default()]),
            ("mentions[0].schema_revid", &|r| r.mentions = vec![schema.clone()]),
            ("auto_approved_tools[0]", &|r| r.auto_approved_tools = vec![String::new()]),
            ("truncate_to_message_count", &|r| r.truncate_to_message_count = Some(1)),
            ("credit_budget", &|r| r.credit_budget = Some(0)),
            ("ephemeral", &|r| (r.thread_id, r.ephemeral) = (ThreadId::derive(&["t"]).to_string(), true)),
            ("history", &|r| r.history = vec![v1::Message::default()]),
            ("history", &|r| set_history(r, vec![user(1); 201])),
            ("history[0].kind", &|r| set_history(r, vec![v1::Message::default()])),
            ("history[0]", &|r| set_history(r, vec![bad_id.clone()])),
            ("history[0].arguments_json", &|r| set_history(r, vec![bad_call.clone()])),
        ];
        for (field, change) in cases {
            let mut request = request();
            change(&mut request);
            let error = parse(request).expect_err(field);
            assert_eq!(error.violations.first().map(|v| v.field.as_str()), Some(field), "{error}");
        }
    }
}

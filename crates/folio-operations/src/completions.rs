//! Operations on chat completions: single model calls without documents, threads and tools, for administrators.

use folio_llm::{MESSAGE_OVERHEAD_TOKENS, ModelError, ModelEvent, ModelInfo, ModelReply, ModelRequest, count_tokens};
use folio_metering::MeteredCall;
use folio_resources::fields;
use folio_tools::extraction;
use folio_types::access::Scope;
use folio_types::limits::{HISTORY_BYTES, HISTORY_MESSAGES};
use folio_types::message::{FinishReason, Message, Usage};
use folio_types::{Error, Reason, Result, Role, Temperature, Timestamp};
use futures::stream::BoxStream;
use futures::{StreamExt as _, stream};
use serde::{Deserialize, Serialize};

use crate::context::Context;
use crate::declaration::{Declaration, Quota, service};
use crate::operation::{Operation, outcome_as_json};

service! {
    "CompletionService", Some(Scope::Administration) => CreateCompletion, StreamCompletion
}

/// The author of a message of a completion.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum CompletionRole {
    System,
    User,
    Assistant,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CompletionMessage {
    pub role: CompletionRole,
    pub text: String,
}

/// A model call, unchecked.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CompletionRequest {
    /// None: the default model of the organization.
    pub model: Option<String>,
    /// In order. System messages may be anywhere; the model receives them together, before the others.
    pub messages: Vec<CompletionMessage>,
    /// Maximum tokens of the answer. None: the maximum of the model.
    pub max_output_tokens: Option<u32>,
    /// From 0 to 2. None: the default of the model.
    pub temperature: Option<f64>,
}

/// The answer of a model.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Completion {
    /// Identifies the model call in the usage of the organization.
    pub id: String,
    /// The model that the request or the organization names.
    pub model: String,
    pub text: String,
    pub finish: Option<FinishReason>,
    pub usage: Usage,
    pub created_at: Timestamp,
}

/// An event of a streamed completion. The last event of a successful stream is `Done`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CompletionEvent {
    /// A delta of the text.
    Text(String),
    /// The complete answer.
    Done(Box<Completion>),
}

pub type CompletionStream = BoxStream<'static, Result<CompletionEvent>>;

/// Makes a model call, which is charged like any other call. A repeated request returns the recorded answer without a model call.
#[derive(Debug, Clone, Serialize)]
pub struct CreateCompletion {
    pub request: CompletionRequest,
}

impl Operation for CreateCompletion {
    const DECLARATION: Declaration =
        SERVICE.change("CreateCompletion").role(Role::Admin).long().quota(Quota::ModelCalls).recorded_outcome();
    type Output = Completion;
    outcome_as_json!();

    async fn run(self, context: &Context) -> Result<Completion> {
        let Prepared { call, request, answer } = prepare(context, self.request).await?;
        let reply = extraction::complete_metered(&context.tool_resources()?, call, request).await?;
        Ok(answer.with(reply?))
    }
}

/// Makes a model call and streams its answer. A repeated request makes another call, because no record contains the stream.
#[derive(Debug, Clone, Serialize)]
pub struct StreamCompletion {
    pub request: CompletionRequest,
}

impl Operation for StreamCompletion {
    const DECLARATION: Declaration =
        SERVICE.change("StreamCompletion").role(Role::Admin).long().quota(Quota::ModelCalls);
    type Output = CompletionStream;

    /// Returns the stream after its first event, so that a failure before it is an error of the request.
    async fn run(self, context: &Context) -> Result<CompletionStream> {
        let Prepared { call, request, answer } = prepare(context, self.request).await?;
        let events = extraction::stream_metered(&context.tool_resources()?, call, request).await?;
        let event = move |item: std::result::Result<ModelEvent, ModelError>| {
            let event = match item {
                Ok(ModelEvent::Text(text)) => Ok(CompletionEvent::Text(text)),
                Ok(ModelEvent::Done(reply)) => Ok(CompletionEvent::Done(Box::new(answer.clone().with(*reply)))),
                // The API of completions has no thinking.
                Ok(ModelEvent::Thinking(_)) => return std::future::ready(None),
                Err(error) => Err(Error::from(error)),
            };
            std::future::ready(Some(event))
        };
        let mut events = events.filter_map(event).boxed();
        let first = events.next().await.ok_or_else(|| Error::internal("a model call ended without an event"))??;
        Ok(stream::iter([Ok(first)]).chain(events).boxed())
    }
}

/// A checked call.
#[derive(Debug)]
struct Prepared {
    call: MeteredCall,
    request: ModelRequest,
    answer: Unanswered,
}

/// A completion without its answer.
#[derive(Debug, Clone)]
struct Unanswered {
    id: String,
    model: String,
    at: Timestamp,
}

impl Unanswered {
    fn with(self, reply: ModelReply) -> Completion {
        let Self { id, model, at } = self;
        Completion { id, model, text: reply.text, finish: reply.finish, usage: reply.usage, created_at: at }
    }
}

async fn prepare(context: &Context, request: CompletionRequest) -> Result<Prepared> {
    let CompletionRequest { model, messages, max_output_tokens, temperature } = request;
    let catalogue = context.catalogue().await?;
    let name = model.as_deref();
    // Any enabled model: chats and prompts may use different ones.
    let info = catalogue.for_chat(name).or_else(|error| catalogue.for_prompts(name).map_err(|_| error))?;
    let temperature = temperature.map(|number| Temperature::new("parameters.temperature", number)).transpose()?;
    let (system, messages) = split(messages)?;
    let (input_tokens, max_output_tokens) = tokens(info, &system, &messages, max_output_tokens)?;
    let principal = context.principal();
    let id = format!("completion.{:032x}", context.environment().random());
    let call = MeteredCall {
        org: principal.org.clone(),
        user: principal.user.clone(),
        key: id.clone(),
        operation: "completion",
        model: info.name.clone(),
        prices: info.prices(),
        document: None,
        input_tokens,
        max_output_tokens: max_output_tokens.into(),
    };
    let request = ModelRequest {
        system,
        max_output_tokens: Some(max_output_tokens),
        temperature,
        ..ModelRequest::new(principal.org.clone(), &info.name, messages)
    };
    let answer = Unanswered { id, model: info.name.clone(), at: context.environment().now() };
    Ok(Prepared { call, request, answer })
}

/// Checks the messages. Returns the text of the system messages, and the other messages.
///
/// # Errors
/// `INVALID_FIELD` of `parameters.messages`.
fn split(messages: Vec<CompletionMessage>) -> Result<(String, Vec<Message>)> {
    if messages.len() > HISTORY_MESSAGES {
        return Err(Error::invalid_field(
            "parameters.messages",
            format!("must have at most {HISTORY_MESSAGES} entries"),
        ));
    }
    let bytes: usize = messages.iter().map(|message| message.text.len()).sum();
    if bytes > HISTORY_BYTES {
        let problem = format!("has {bytes} bytes of text; the maximum is {HISTORY_BYTES}");
        return Err(Error::invalid_field("parameters.messages", problem).with_reason(Reason::TooLarge));
    }
    let (mut system, mut others) = (Vec::new(), Vec::new());
    for (at, CompletionMessage { role, text }) in messages.into_iter().enumerate() {
        let text = fields::text(&format!("parameters.messages[{at}].text"), &text, HISTORY_BYTES)?;
        match role {
            CompletionRole::System => system.push(text),
            CompletionRole::User => others.push(Message::user(text)),
            CompletionRole::Assistant => {
                others.push(Message::Assistant { text, thinking: Vec::new(), calls: Vec::new() });
            }
        }
    }
    match others.last() {
        Some(Message::User { .. }) => Ok((system.join("\n\n"), others)),
        _ => Err(Error::invalid_field("parameters.messages", "must end with a message of the user")),
    }
}

/// Returns the tokens of the prompt, and the maximum tokens of the answer.
///
/// # Errors
/// `INVALID_FIELD` of `parameters.max_output_tokens`; `CONTEXT_TOO_SMALL`.
fn tokens(info: &ModelInfo, system: &str, messages: &[Message], requested: Option<u32>) -> Result<(u64, u32)> {
    if requested == Some(0) {
        return Err(Error::invalid_field("parameters.max_output_tokens", "must be at least 1"));
    }
    let texts = messages.iter().map(|message| match message {
        Message::User { text, .. } | Message::Assistant { text, .. } => text.as_str(),
        Message::Tool { content, .. } => content.as_str(),
    });
    let counted = |text: &str| count_tokens(text).saturating_add(MESSAGE_OVERHEAD_TOKENS);
    let input = texts.chain((!system.is_empty()).then_some(system)).map(counted).fold(0, u64::saturating_add);
    let left = u64::from(info.options.context_tokens).saturating_sub(input);
    if left == 0 {
        let context = info.options.context_tokens;
        let message = format!("the messages need {input} tokens, but the context of model {} has {context}", info.name);
        return Err(Error::precondition(Reason::ContextTooSmall, message));
    }
    let max = requested.unwrap_or(u32::MAX).min(info.options.max_output_tokens);
    Ok((input, u32::try_from(left).unwrap_or(u32::MAX).min(max)))
}

#[cfg(test)]
mod tests {
    use folio_types::models::ModelOptions;

    use super::*;

    fn message(role: CompletionRole, text: &str) -> CompletionMessage {
        CompletionMessage { role, text: text.to_owned() }
    }

    #[test]
    fn system_messages_precede_the_others_and_the_last_message_is_of_the_user() {
        use CompletionRole as Role;
        let messages = vec![
            message(Role::System, "be short"),
            message(Role::User, "a"),
            message(Role::Assistant, "b"),
            message(Role::System, "be kind"),
            message(Role::User, "c"),
        ];
        let (system, others) = split(messages).unwrap();
        assert_eq!(system, "be short\n\nbe kind");
        let user = |text: &str| Message::user(text.to_owned());
        let assistant = Message::Assistant { text: "b".to_owned(), thinking: Vec::new(), calls: Vec::new() };
        assert_eq!(others, [user("a"), assistant, user("c")]);
        let long = "x".repeat(HISTORY_BYTES / 2 + 1);
        for (bad, field) in [
            (vec![], "parameters.messages"),
            (vec![message(Role::System, "a")], "parameters.messages"),
            (vec![message(Role::User, "a"), message(Role::Assistant, "b")], "parameters.messages"),
            (vec![message(Role::User, "a"), message(Role::User, " ")], "parameters.messages[1].text"),
            (vec![message(Role::User, "a"); HISTORY_MESSAGES + 1], "parameters.messages"),
            (vec![message(Role::User, &long), message(Role::User, &long)], "parameters.messages"),
        ] {
            assert_eq!(split(bad).unwrap_err().violations[0].field, field);
        }
    }

    #[test]
    fn an_answer_fits_into_the_context_of_the_model() {
        let options = ModelOptions { context_tokens: 1_000, max_output_tokens: 400, ..ModelOptions::default() };
        let info = ModelInfo { name: "m".to_owned(), provider: "p".to_owned(), options };
        let with = |text: &str, requested| tokens(&info, "", &[Message::user(text.to_owned())], requested);
        let (input, output) = with("hello", None).unwrap();
        assert!(input > MESSAGE_OVERHEAD_TOKENS && output == 400, "{input} {output}");
        assert_eq!(with("hello", Some(10)).unwrap().1, 10);
        assert_eq!(with("hello", Some(4_000)).unwrap().1, 400);
        let long = "word ".repeat(900);
        let (input, output) = with(&long, None).unwrap();
        assert_eq!(input + u64::from(output), 1_000);
        assert_eq!(with(&"word ".repeat(9_000), None).unwrap_err().reason, Reason::ContextTooSmall);
        assert_eq!(with("hello", Some(0)).unwrap_err().violations[0].field, "parameters.max_output_tokens");
        let system = tokens(&info, "be short", &[Message::user("hello".to_owned())], None).unwrap().0;
        assert!(system > with("hello", None).unwrap().0, "the system message counts");
    }
}

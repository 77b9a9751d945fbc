//! The body of a chat completion request, serialized directly from the caller's messages without copying them first.

use async_openai::types::chat::{
    ChatCompletionMessageToolCall, ChatCompletionMessageToolCalls, ChatCompletionStreamOptions, FunctionCall,
    ResponseFormat, ResponseFormatJsonSchema,
};
use folio_types::Temperature;
use folio_types::message::{Message, ThinkingBlock, ToolCall};
use serde::ser::{SerializeMap as _, SerializeSeq as _};
use serde::{Serialize, Serializer};

use crate::images::UserContent;
use crate::model::ModelRequest;
use crate::options::{ModelOptions, OutputLimitField, THINKING_TOKENS_MIN};

/// Parts of the names of models that refuse a system message after the conversation: the families of Mistral and Gemma,
/// whose chat templates accept only certain sequences of roles.
const ONE_SYSTEM_MESSAGE: [&str; 3] = ["stral", "xtral", "gemma"];

/// Initial capacity of a body for its members other than texts and tools, in bytes.
const FRAME_BYTES: usize = 1024;

/// A request with the settings needed to serialize it.
pub(crate) struct Body<'a> {
    pub(crate) request: &'a ModelRequest,
    pub(crate) model: &'a ModelOptions,
    /// Name of the model at the endpoint.
    pub(crate) upstream: &'a str,
    pub(crate) output_limit_field: OutputLimitField,
    pub(crate) stream: bool,
    pub(crate) stream_usage: bool,
    /// None: not sent.
    pub(crate) temperature: Option<Temperature>,
}

impl Body<'_> {
    /// Returns the maximum tokens of the answer, bounded by the model.
    fn output_tokens(&self) -> u32 {
        self.request.max_output_tokens.unwrap_or(u32::MAX).clamp(1, self.model.max_output_tokens.max(1))
    }

    /// Returns the thinking budget. None: no thinking.
    ///
    /// A thinking model requires the signed thinking blocks that preceded its tool calls. If the last assistant message
    /// has calls without a signed block (another model wrote it, or its thinking exceeded a bound), the parameter is
    /// omitted.
    fn thinking_budget(&self) -> Option<u32> {
        if !self.request.thinking || !self.model.thinking {
            return None;
        }
        let last = self.request.messages.iter().rev().find_map(|message| match message {
            Message::Assistant { thinking, calls, .. } => Some((thinking, calls)),
            _ => None,
        });
        if last.is_some_and(|(thinking, calls)| !calls.is_empty() && !thinking.iter().any(ThinkingBlock::is_signed)) {
            return None;
        }
        // The budget must be smaller than the limit of the answer.
        let budget = self.model.thinking_budget_tokens.min(self.output_tokens() / 2);
        (budget >= THINKING_TOKENS_MIN).then_some(budget)
    }

    /// Returns the bytes of the texts and tools, before texts are escaped.
    fn text_bytes(&self) -> usize {
        let messages = self.request.messages.iter().map(|message| match message {
            Message::User { text, .. } | Message::Assistant { text, .. } | Message::Tool { content: text, .. } => {
                text.len()
            }
        });
        let around = [&self.request.system, &self.request.state].map(String::len);
        messages.chain(around).fold(self.request.tools.json().len(), usize::saturating_add)
    }

    /// Returns the bytes of the images in the body, and an upper estimate of their tokens.
    pub(crate) fn images(&self) -> (usize, u64) {
        let ModelRequest { images, messages, .. } = self.request;
        if self.model.vision { (images.body_bytes(messages), images.tokens(messages)) } else { (0, 0) }
    }

    pub(crate) fn write(&self) -> serde_json::Result<Vec<u8>> {
        // A body is mostly text and tools. A few escapes must not copy it into another buffer.
        let bytes = self.text_bytes();
        let images = self.images().0;
        let mut json =
            Vec::with_capacity(bytes.saturating_add(bytes / 8).saturating_add(images).saturating_add(FRAME_BYTES));
        serde_json::to_writer(&mut json, self)?;
        let tools = &self.request.tools;
        // The tools are already serialized; they become the last member of the object.
        if !tools.is_empty() && self.model.tools && json.pop().is_some() {
            for part in [",\"tools\":", tools.json(), "}"] {
                json.extend_from_slice(part.as_bytes());
            }
        }
        Ok(json)
    }
}

/// Every member except the tools.
impl Serialize for Body<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("model", self.upstream)?;
        map.serialize_entry("messages", &Messages(self))?;
        if let Some(format) = self.request.response_format.as_ref().filter(|_| self.model.json_schema) {
            let json_schema = ResponseFormatJsonSchema {
                description: None,
                name: format.name.clone(),
                schema: format.schema.clone(),
                strict: Some(format.strict),
            };
            map.serialize_entry("response_format", &ResponseFormat::JsonSchema { json_schema })?;
        }
        match self.output_limit_field {
            OutputLimitField::MaxTokens => map.serialize_entry("max_tokens", &self.output_tokens())?,
            OutputLimitField::MaxCompletionTokens => {
                map.serialize_entry("max_completion_tokens", &self.output_tokens())?;
            }
            OutputLimitField::None => {}
        }
        if let Some(budget) = self.thinking_budget() {
            map.serialize_entry("thinking", &Thinking { kind: "enabled", budget_tokens: budget })?;
        } else if let Some(temperature) = self.temperature {
            map.serialize_entry("temperature", &temperature.get())?;
        }
        if self.stream {
            map.serialize_entry("stream", &true)?;
            if self.stream_usage {
                let options = ChatCompletionStreamOptions { include_usage: Some(true), include_obfuscation: None };
                map.serialize_entry("stream_options", &options)?;
            }
        }
        map.end()
    }
}

#[derive(Serialize)]
struct Thinking {
    #[serde(rename = "type")]
    kind: &'static str,
    budget_tokens: u32,
}

/// The system message, the history and the state. The state is a part of the system message if the model refuses a second
/// one.
struct Messages<'a>(&'a Body<'a>);

impl Serialize for Messages<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Body { request, model, upstream, .. } = *self.0;
        let upstream = upstream.to_ascii_lowercase();
        let is_joined = ONE_SYSTEM_MESSAGE.iter().any(|part| upstream.contains(part));
        let (joined, last) = if is_joined { (request.state.as_str(), "") } else { ("", request.state.as_str()) };
        let first: Vec<&str> = [request.system.as_str(), joined].into_iter().filter(|part| !part.is_empty()).collect();
        let mut list = serializer.serialize_seq(None)?;
        if !first.is_empty() {
            list.serialize_element(&SystemMessage::new(&first.join("\n\n")))?;
        }
        for message in &request.messages {
            list.serialize_element(&WireMessage { message, request, model })?;
        }
        if !last.is_empty() {
            list.serialize_element(&SystemMessage::new(last))?;
        }
        list.end()
    }
}

#[derive(Serialize)]
struct SystemMessage<'a> {
    role: &'static str,
    content: &'a str,
}

impl<'a> SystemMessage<'a> {
    fn new(content: &'a str) -> Self {
        Self { role: "system", content }
    }
}

struct WireMessage<'a> {
    message: &'a Message,
    request: &'a ModelRequest,
    model: &'a ModelOptions,
}

impl Serialize for WireMessage<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        match self.message {
            Message::User { text, images } => {
                let sent = self.model.vision.then_some(&self.request.images);
                map.serialize_entry("role", "user")?;
                map.serialize_entry("content", &UserContent { text, images, sent })?;
            }
            Message::Tool { call, content } => {
                map.serialize_entry("role", "tool")?;
                map.serialize_entry("tool_call_id", call)?;
                map.serialize_entry("content", content)?;
            }
            Message::Assistant { text, thinking, calls } => {
                map.serialize_entry("role", "assistant")?;
                // With tool calls, an empty text is omitted.
                map.serialize_entry("content", &(calls.is_empty() || !text.is_empty()).then_some(text))?;
                if self.model.thinking && thinking.iter().any(ThinkingBlock::is_signed) {
                    map.serialize_entry("thinking_blocks", &Blocks(thinking))?;
                }
                if !calls.is_empty() {
                    map.serialize_entry("tool_calls", &Calls(calls))?;
                }
            }
        }
        map.end()
    }
}

/// Signed thinking blocks of a message, in LiteLLM's format.
struct Blocks<'a>(&'a [ThinkingBlock]);

impl Serialize for Blocks<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        #[serde(tag = "type", rename_all = "snake_case")]
        enum Block<'a> {
            Thinking { thinking: &'a str, signature: &'a str },
            RedactedThinking { data: &'a str },
        }
        serializer.collect_seq(self.0.iter().filter(|block| block.is_signed()).map(|block| match &block.data {
            Some(data) => Block::RedactedThinking { data },
            None => {
                Block::Thinking { thinking: &block.text, signature: block.signature.as_deref().unwrap_or_default() }
            }
        }))
    }
}

struct Calls<'a>(&'a [ToolCall]);

impl Serialize for Calls<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.0.iter().map(|call| {
            // The protocol requires the arguments as JSON in a string.
            let function = FunctionCall { name: call.name.clone(), arguments: call.arguments.to_string() };
            ChatCompletionMessageToolCalls::Function(ChatCompletionMessageToolCall { id: call.id.clone(), function })
        }))
    }
}

#[cfg(test)]
mod tests;

//! Assembly of an answer from its chunks.

use std::collections::VecDeque;

use folio_types::limits::{ARGUMENTS_BYTES, MODEL_TEXT_BYTES};
use folio_types::message::{FinishReason, Usage};
use serde_json::Value;

use super::StreamError;
use super::chunk::{Choice, Chunk, Delta, ThinkingBlock, ToolCallDelta, text};
use super::thinking::Thinking;
use super::usage;
use crate::error_message;
use crate::model::{ModelEvent, ModelReply, RawToolCall};

/// Maximum number of tool calls of an answer. The agent runs fewer; every other call still gets a result.
pub const CALLS_MAX: usize = 128;
/// Maximum size of the arguments of all calls, in bytes.
const ALL_ARGUMENTS_BYTES: usize = 2 * ARGUMENTS_BYTES;
/// Maximum length of a call's id or name, in bytes.
const NAME_BYTES: usize = 512;
/// Maximum length of the model's name, in bytes.
const MODEL_BYTES: usize = 512;

/// The partial answer.
#[derive(Debug, Default)]
pub struct Assembler {
    model: String,
    text: String,
    thinking: Thinking,
    calls: Vec<RawToolCall>,
    /// Index that the endpoint assigned to each call.
    indexes: Vec<u32>,
    arguments_bytes: usize,
    /// Finish reason as the endpoint wrote it.
    finish: Option<String>,
    usage: Option<Usage>,
    /// Number of prompt tokens that the endpoint read. None: the endpoint reported no number.
    read_tokens: Option<u64>,
    /// Number of chunks with content.
    tokens: u64,
    done: bool,
    events: VecDeque<ModelEvent>,
}

impl Assembler {
    /// Applies the data of one event of a stream.
    pub fn event(&mut self, data: &[u8]) -> Result<(), StreamError> {
        // Data after the end mark are ignored.
        if self.done || data.is_empty() {
            return Ok(());
        }
        if data.trim_ascii() == b"[DONE]" {
            self.done = true;
            return Ok(());
        }
        let chunk: Chunk<'_> = serde_json::from_slice(data).map_err(not_json)?;
        for choice in self.apply_metadata(&chunk)? {
            self.choice(choice)?;
        }
        Ok(())
    }

    /// Applies the body of a non-streaming answer.
    pub fn non_streaming(&mut self, body: &str) -> Result<(), StreamError> {
        let mut chunk: Chunk<'_> = serde_json::from_str(body).map_err(not_json)?;
        // Calls of a complete message have no index; their position is used.
        let calls = chunk.choices.iter_mut().flatten().filter_map(|choice| choice.delta.as_mut()?.tool_calls.as_mut());
        for calls in calls {
            for (position, call) in (0..).zip(calls) {
                call.index = Some(position);
            }
        }
        let choices = self.apply_metadata(&chunk)?;
        if choices.is_empty() {
            return Err(StreamError::malformed("the answer has no choice"));
        }
        for choice in choices {
            self.choice(choice)?;
        }
        if self.is_finished() { Ok(()) } else { Err(StreamError::Incomplete) }
    }

    /// Applies the members that every chunk may have. Returns its choices.
    fn apply_metadata<'c, 'a>(&mut self, chunk: &'c Chunk<'a>) -> Result<&'c [Choice<'a>], StreamError> {
        if let Some(error) = chunk.error.as_ref().filter(|error| !error.is_null()) {
            return Err(reported(error));
        }
        if self.model.is_empty() {
            self.model.push_str(cut(text(&chunk.model), MODEL_BYTES));
        }
        if let Some(usage) = chunk.usage.as_ref().and_then(usage::parse) {
            self.usage = Some(usage);
            self.read_tokens = chunk.usage.as_ref().and_then(usage::read_tokens);
        }
        chunk.choices.as_deref().ok_or_else(|| StreamError::malformed("a chunk has no choices"))
    }

    fn choice(&mut self, choice: &Choice<'_>) -> Result<(), StreamError> {
        if choice.index != 0 {
            return Err(StreamError::malformed("the answer has more than one choice"));
        }
        if let Some(delta) = &choice.delta {
            let empty = is_empty(delta);
            if self.finish.is_some() && !empty {
                return Err(StreamError::malformed("content after the finish reason"));
            }
            if !empty {
                self.tokens = self.tokens.saturating_add(1);
                self.delta(delta)?;
            }
        }
        let reason = cut(text(&choice.finish_reason), NAME_BYTES);
        match &self.finish {
            _ if reason.is_empty() => {}
            None => self.finish = Some(reason.to_owned()),
            // Some endpoints repeat the finish reason with the usage.
            Some(written) if written == reason => {}
            Some(_) => return Err(StreamError::malformed("two finish reasons")),
        }
        Ok(())
    }

    fn delta(&mut self, delta: &Delta<'_>) -> Result<(), StreamError> {
        let blocks = delta.thinking_blocks.as_deref().unwrap_or_default();
        if blocks.is_empty() {
            // Endpoints send the same text under one or both of two names.
            let reasoning = Some(text(&delta.reasoning_content)).filter(|delta| !delta.is_empty());
            self.thinking_text(reasoning.unwrap_or_else(|| text(&delta.reasoning)))?;
        }
        for block in blocks {
            self.thinking_block(block)?;
        }
        self.message_text(text(&delta.content))?;
        // A refusal is the text of the answer.
        self.message_text(text(&delta.refusal))?;
        for call in delta.tool_calls.iter().flatten() {
            self.call(call)?;
        }
        Ok(())
    }

    fn message_text(&mut self, delta: &str) -> Result<(), StreamError> {
        if delta.is_empty() {
            return Ok(());
        }
        if self.text.len().saturating_add(delta.len()) > MODEL_TEXT_BYTES {
            return Err(StreamError::TooLarge("text"));
        }
        self.text.push_str(delta);
        // Deltas that arrive together are returned together.
        match self.events.back_mut() {
            Some(ModelEvent::Text(waiting)) => waiting.push_str(delta),
            _ => self.events.push_back(ModelEvent::Text(delta.to_owned())),
        }
        Ok(())
    }

    fn thinking_text(&mut self, delta: &str) -> Result<(), StreamError> {
        if delta.is_empty() {
            return Ok(());
        }
        self.thinking.text(delta)?;
        match self.events.back_mut() {
            Some(ModelEvent::Thinking(waiting)) => waiting.push_str(delta),
            _ => self.events.push_back(ModelEvent::Thinking(delta.to_owned())),
        }
        Ok(())
    }

    fn thinking_block(&mut self, block: &ThinkingBlock<'_>) -> Result<(), StreamError> {
        let (delta, signature, data) = (text(&block.thinking), text(&block.signature), text(&block.data));
        let repeated = !signature.is_empty() && self.thinking.open_text_is(delta);
        if !repeated {
            self.thinking_text(delta)?;
        }
        if !signature.is_empty() {
            self.thinking.signature(signature)?;
        }
        if !data.is_empty() {
            self.thinking.data(data)?;
        }
        Ok(())
    }

    fn call(&mut self, delta: &ToolCallDelta<'_>) -> Result<(), StreamError> {
        let id = text(&delta.id);
        let position = self.call_position(delta.index, id)?;
        let Some(call) = self.calls.get_mut(position) else {
            return Err(StreamError::malformed("a delta belongs to no tool call"));
        };
        if call.id.is_empty() {
            call.id.push_str(bounded_name(id)?);
        }
        let Some(function) = &delta.function else { return Ok(()) };
        let name = text(&function.name);
        if call.name.is_empty() {
            call.name.push_str(bounded_name(name)?);
        } else if !name.is_empty() && call.name != name {
            return Err(StreamError::malformed("a tool call changes its name"));
        }
        let arguments = text(&function.arguments);
        self.arguments_bytes = self.arguments_bytes.saturating_add(arguments.len());
        if call.arguments.len().saturating_add(arguments.len()) > ARGUMENTS_BYTES
            || self.arguments_bytes > ALL_ARGUMENTS_BYTES
        {
            return Err(StreamError::TooLarge("tool arguments"));
        }
        call.arguments.push_str(arguments);
        Ok(())
    }

    /// Returns the position of the call that a delta belongs to, or adds a new call. Deltas of several calls may be
    /// interleaved and are distinguished by index. Some endpoints use the same index, or none, for every call; a new id
    /// then starts a call.
    fn call_position(&mut self, index: Option<u32>, id: &str) -> Result<usize, StreamError> {
        let found = match index {
            Some(index) => self.indexes.iter().rposition(|other| *other == index),
            None => self.calls.len().checked_sub(1),
        };
        let same = found.filter(|position| {
            let own = self.calls.get(*position).map_or("", |call| call.id.as_str());
            id.is_empty() || own.is_empty() || own == id
        });
        if let Some(position) = same {
            return Ok(position);
        }
        if self.calls.len() >= CALLS_MAX {
            return Err(StreamError::TooLarge("tool calls"));
        }
        let next = u32::try_from(self.calls.len()).unwrap_or(u32::MAX);
        self.calls.push(RawToolCall::default());
        self.indexes.push(index.unwrap_or(next));
        Ok(self.calls.len().saturating_sub(1))
    }

    pub fn next_event(&mut self) -> Option<ModelEvent> {
        self.events.pop_front()
    }

    pub fn has_event(&self) -> bool {
        !self.events.is_empty()
    }

    /// Returns the number of chunks with a delta of text, thinking or a call. An increase shows that the model makes
    /// progress; an empty chunk or a comment, sent to keep the connection open, does not count.
    pub fn tokens(&self) -> u64 {
        self.tokens
    }

    pub fn arguments_bytes(&self) -> usize {
        self.arguments_bytes
    }

    /// Returns true if a token or the finish reason was received.
    pub fn has_started(&self) -> bool {
        self.tokens > 0 || self.is_finished()
    }

    /// Returns true if a delta of text was received.
    pub fn has_text(&self) -> bool {
        !self.text.is_empty()
    }

    /// Returns true if the finish reason was received.
    pub fn is_finished(&self) -> bool {
        self.finish.is_some()
    }

    /// Returns the number of prompt tokens that the endpoint read, including tokens from its cache. None: the endpoint reported
    /// no number.
    pub fn read_tokens(&self) -> Option<u64> {
        self.read_tokens
    }

    /// Returns true if the end mark was received.
    pub fn is_done(&self) -> bool {
        self.done
    }

    /// Removes and returns the complete answer; pending events stay. The usage is None if the endpoint did not report a
    /// valid one. Fails with [`StreamError::Incomplete`] if the finish reason is missing.
    pub fn take_reply(&mut self) -> Result<(ModelReply, Option<Usage>), StreamError> {
        let written = self.finish.take().ok_or(StreamError::Incomplete)?;
        let mut calls = std::mem::take(&mut self.calls);
        let finish = finish_reason(&written, !calls.is_empty());
        if finish != FinishReason::Length {
            // Empty arguments mean an empty object, unless the length limit may have cut them off.
            for call in calls.iter_mut().filter(|call| call.arguments.trim_ascii().is_empty()) {
                call.arguments = "{}".to_owned();
            }
        }
        let reply = ModelReply {
            model: std::mem::take(&mut self.model),
            text: std::mem::take(&mut self.text),
            thinking: std::mem::take(&mut self.thinking).into_blocks(),
            calls,
            finish: Some(finish),
            usage: Usage::default(),
        };
        Ok((reply, self.usage))
    }
}

/// Maps a finish reason. Length limit and content filter are distinguished, because the answer is incomplete. Every
/// other value, known or unknown (`stop`, `end_turn`, `eos`, …), means that the model ended its answer: with tool calls
/// if there are any, otherwise complete.
fn finish_reason(written: &str, has_calls: bool) -> FinishReason {
    match written {
        "length" | "max_tokens" => FinishReason::Length,
        "content_filter" => FinishReason::ContentFilter,
        _ if has_calls => FinishReason::ToolCalls,
        _ => FinishReason::Stop,
    }
}

fn is_empty(delta: &Delta<'_>) -> bool {
    let texts = [&delta.content, &delta.refusal, &delta.reasoning_content, &delta.reasoning];
    texts.into_iter().all(|delta| text(delta).is_empty())
        && delta.thinking_blocks.as_ref().is_none_or(Vec::is_empty)
        && delta.tool_calls.as_ref().is_none_or(Vec::is_empty)
}

fn bounded_name(name: &str) -> Result<&str, StreamError> {
    if name.len() <= NAME_BYTES { Ok(name) } else { Err(StreamError::TooLarge("name of a tool call")) }
}

/// Returns the start of a text, cut at a character boundary.
fn cut(text: &str, bytes: usize) -> &str {
    text.get(..text.floor_char_boundary(bytes)).unwrap_or_default()
}

fn not_json(error: serde_json::Error) -> StreamError {
    // The parser's message may quote the text, so it is not included.
    let problem = if error.is_data() { "has an unknown format" } else { "is not JSON" };
    StreamError::malformed(format!("a chunk {problem} (line {}, column {})", error.line(), error.column()))
}

fn reported(error: &Value) -> StreamError {
    let status = error.get("code").or_else(|| error.get("status")).and_then(|code| match code {
        Value::String(text) => text.parse().ok(),
        number => number.as_u64().and_then(|number| u16::try_from(number).ok()),
    });
    StreamError::Reported { status, message: error_message::one_line(&error_message::message_of(error)) }
}

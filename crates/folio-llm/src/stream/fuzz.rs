//! Fuzz tests of the stream parser. `cargo xtask fuzz` runs them for longer with `BOLERO_RANDOM_ITERATIONS` and
//! `BOLERO_RANDOM_TEST_TIME_MS`.

use folio_types::limits::MODEL_TEXT_BYTES;

use super::*;
use crate::model::{ModelEvent, ModelReply};

/// Inputs of each target in the tests.
const INPUTS: usize = 100_000;

/// Segments of streams, valid and invalid, that the fuzzer concatenates.
const SEGMENTS: &[&str] = &[
    "data: ",
    "data:",
    "\n\n",
    "\r\n\r\n",
    "\n",
    "\r",
    ": keep-alive\n\n",
    "event: x\n",
    "[DONE]",
    "data: [DONE]\n\n",
    r#"{"choices":[{"index":0,"delta":{"content":"a"},"finish_reason":null}]}"#,
    "data: {\"choices\":[{\"delta\":{\"content\":\"\\u00e9\\n\"}}]}\n\n",
    "data: {\"choices\":[{\"delta\":{\"reasoning_content\":\"r\"}}]}\n\n",
    "data: {\"choices\":[{\"delta\":{\"thinking_blocks\":[{\"thinking\":\"t\",\"signature\":null}]}}]}\n\n",
    "data: {\"choices\":[{\"delta\":{\"thinking_blocks\":[{\"thinking\":\"\",\"signature\":\"s\"}]}}]}\n\n",
    "data: {\"choices\":[{\"delta\":{\"thinking_blocks\":[{\"data\":\"d\"}]}}]}\n\n",
    "data: {\"choices\":[{\"delta\":{\"tool_calls\":[{\"index\":0,\"id\":\"a\",\"function\":{\"name\":\"f\",\"arguments\":\"{\"}}]}}]}\n\n",
    "data: {\"choices\":[{\"delta\":{\"tool_calls\":[{\"index\":1,\"id\":\"b\",\"function\":{\"name\":\"g\"}}]}}]}\n\n",
    "data: {\"choices\":[{\"delta\":{\"tool_calls\":[{\"index\":0,\"function\":{\"arguments\":\"}\"}}]}}]}\n\n",
    "data: {\"choices\":[{\"delta\":{\"tool_calls\":[{\"id\":\"c\"},{\"function\":{\"arguments\":\"1\"}}]}}]}\n\n",
    "data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n",
    "data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"tool_calls\"}]}\n\n",
    "data: {\"choices\":[{\"finish_reason\":\"length\"}]}\n\n",
    "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":3,\"completion_tokens\":2}}\n\n",
    "data: {\"error\":{\"code\":500,\"message\":\"no\"}}\n\n",
    "data: {}\n\n",
    "data: {\"choices\":[{\"index\":1}]}\n\n",
    "data: null\n\n",
    "data: {\"choices\":",
    "\u{feff}",
    "\"",
    "\\ud800",
];

/// Result of a stream, complete or cut.
type Outcome = (Result<(), StreamError>, Vec<ModelEvent>, Option<ModelReply>);

fn parse<'a>(chunks: impl IntoIterator<Item = &'a [u8]>) -> Outcome {
    let mut parser = StreamParser::default();
    let mut outcome = Ok(());
    for chunk in chunks {
        outcome = parser.feed(chunk);
        if outcome.is_err() {
            break;
        }
    }
    let outcome = outcome.and_then(|()| parser.end());
    let events = std::iter::from_fn(|| parser.assembler().next_event()).collect();
    let reply = outcome.is_ok().then(|| parser.assembler().take_reply().unwrap().0);
    (outcome, events, reply)
}

/// Invariants for every input: the bounds, a finish reason in each answer, and events that concatenate to its text.
fn check((outcome, events, reply): &Outcome) {
    assert_eq!(outcome.is_ok(), reply.is_some());
    let Some(reply) = reply else { return };
    assert!(reply.finish.is_some());
    assert!(reply.text.len() <= MODEL_TEXT_BYTES && reply.calls.len() <= CALLS_MAX);
    let joined = |thinking: bool| {
        let chunks = events.iter().filter_map(|event| match event {
            ModelEvent::Text(chunk) if !thinking => Some(chunk.as_str()),
            ModelEvent::Thinking(chunk) if thinking => Some(chunk.as_str()),
            _ => None,
        });
        chunks.collect::<String>()
    };
    assert_eq!(joined(false), reply.text);
    assert_eq!(joined(true), reply.thinking.iter().map(|block| block.text.as_str()).collect::<String>());
}

#[test]
fn stream_parser_takes_any_bytes() {
    bolero::check!().with_iterations(INPUTS).with_max_len(200).for_each(|bytes: &[u8]| {
        let (cut, rest) = bytes.split_first().map_or((0, bytes), |(first, rest)| (usize::from(*first), rest));
        let expected = parse([rest]);
        check(&expected);
        // The position of the split does not matter.
        let (head, tail) = rest.split_at(cut.min(rest.len()));
        assert_eq!(parse([head, tail]), expected);
    });
}

#[test]
fn stream_parser_takes_any_sequence_of_chunks() {
    bolero::check!().with_iterations(INPUTS).with_max_len(16).for_each(|choices: &[u8]| {
        let mut text = Vec::new();
        for choice in choices {
            match SEGMENTS.get(usize::from(*choice) % (SEGMENTS.len() + 4)) {
                Some(chunk) => text.extend_from_slice(chunk.as_bytes()),
                None => text.push(*choice),
            }
        }
        let expected = parse([text.as_slice()]);
        check(&expected);
        let at = choices.first().map_or(0, |first| usize::from(*first) * 3).min(text.len());
        let (head, tail) = text.split_at(at);
        assert_eq!(parse([head, tail]), expected);
    });
}

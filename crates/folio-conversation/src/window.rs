//! The messages that a model receives: the complete current turn, preceded by the messages that fit.

use std::collections::HashMap;

use folio_history::{History, shorten_results};
use folio_llm::{Tools, image_tokens};
use folio_tools::extraction::{PAGE_TEXT_TOOL, page_text_removed};
use folio_types::message::Message;

/// Tokens of a message in addition to its text.
const MESSAGE_TOKENS: usize = 8;
/// Suffix of a truncated tool result.
const TRUNCATION_NOTE: &str = "\n[truncated: the result is longer than the model's context allows]";

/// Number of rounds of the current turn, counted from the newest one, whose page texts are sent.
pub(crate) const PAGE_TEXT_ROUNDS: usize = 2;

/// Messages that may be sent, before the token budget is applied.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Window {
    /// Segments before the current turn, newest first, with at most as many messages as [`History::window_messages`] permits. A
    /// segment is sent or dropped as a whole.
    before: Vec<Vec<Message>>,
    current: Vec<Message>,
}

impl Window {
    pub(crate) fn of(history: &History, turn: u32) -> Self {
        let summarizes = history.turn(turn).is_some_and(|record| record.accepted.options.summarizes);
        let mut left = history.window_messages(summarizes);
        let mut before = Vec::new();
        for group in history.groups_before(turn) {
            match left.checked_sub(group.len()) {
                Some(rest) => left = rest,
                None => break,
            }
            before.push(group);
        }
        let mut current = history.turn(turn).map(|record| record.messages()).unwrap_or_default();
        before.iter_mut().for_each(|group| remove_page_texts(group, 0));
        remove_page_texts(&mut current, PAGE_TEXT_ROUNDS);
        Self { before, current }
    }

    /// Returns true if a message of the current turn contains an image.
    pub(crate) fn has_images(&self) -> bool {
        self.current.iter().any(|message| !message.images().is_empty())
    }

    /// Returns a window with one message of the user.
    pub(crate) fn of_text(text: String) -> Self {
        Self { before: Vec::new(), current: vec![Message::user(text)] }
    }

    /// Returns the window without the messages before the current turn.
    pub(crate) fn without_history(self) -> Self {
        Self { before: Vec::new(), ..self }
    }

    /// Removes the thinking of other models, because a provider may refuse its signatures.
    pub(crate) fn for_model(mut self, model: &str) -> Self {
        for message in self.before.iter_mut().flatten().chain(&mut self.current) {
            if let Message::Assistant { thinking, .. } = message {
                thinking.retain(|block| block.model.as_deref().is_none_or(|by| by == model));
            }
        }
        self
    }

    /// Returns the messages that fit into `tokens`. The current turn is complete; if it is too long, its longest tool
    /// results are truncated.
    ///
    /// # Errors
    /// The tokens of the current turn, if it exceeds `tokens_max` even with truncated results.
    pub(crate) fn fit(mut self, tokens: usize, tokens_max: usize) -> Result<Vec<Message>, usize> {
        shorten_results(&mut self.current, TRUNCATION_NOTE, |messages| messages_tokens(messages) <= tokens);
        let current = messages_tokens(&self.current);
        if current > tokens_max {
            return Err(current);
        }
        let mut left = tokens.saturating_sub(current);
        let mut selected: Vec<Vec<Message>> = Vec::new();
        for group in self.before {
            match left.checked_sub(messages_tokens(&group)) {
                Some(rest) => left = rest,
                None => break,
            }
            selected.push(group);
        }
        let before = selected.into_iter().rev().flatten();
        Ok(folio_history::sanitize(before.chain(self.current).collect()))
    }
}

/// Replaces the page texts that an agent has read by one line each, except those of the last `rounds` rounds. An agent that reads a
/// long document would otherwise fill the context of its model.
fn remove_page_texts(messages: &mut [Message], rounds: usize) {
    let mut count = 0;
    // The numbers of the rounds that read pages, and the lines, by the ids of the calls.
    let mut lines: HashMap<String, (usize, String)> = HashMap::new();
    for message in messages.iter() {
        let Message::Assistant { calls, .. } = message else { continue };
        count += 1;
        for call in calls.iter().filter(|call| call.name == PAGE_TEXT_TOOL) {
            lines.insert(call.id.clone(), (count, page_text_removed(&call.arguments)));
        }
    }
    for message in messages {
        if let Message::Tool { call, content } = message
            && let Some((round, line)) = lines.get(call.as_str())
            && round + rounds <= count
            && content.len() > line.len()
        {
            content.clone_from(line);
        }
    }
}

/// Estimates the tokens of a text, typically too high: one per four ASCII bytes, and one per other character.
pub(crate) fn estimated_tokens(text: &str) -> usize {
    if text.is_ascii() {
        return text.len().div_ceil(4);
    }
    let ascii = text.bytes().filter(u8::is_ascii).count();
    // The first byte of a character that is not ASCII is at least 0xC0, and its other bytes are smaller.
    let other = text.bytes().filter(|byte| *byte >= 0xC0).count();
    ascii.div_ceil(4).saturating_add(other)
}

fn message_tokens(message: &Message) -> usize {
    let text = match message {
        Message::User { text, images } => {
            let images = images.iter().map(|image| image_tokens(image.width, image.height));
            let images = images.fold(0, u64::saturating_add);
            estimated_tokens(text).saturating_add(usize::try_from(images).unwrap_or(usize::MAX))
        }
        Message::Tool { content, .. } => estimated_tokens(content),
        Message::Assistant { text, thinking, calls } => {
            let thinking: usize = thinking.iter().filter(|b| b.is_signed()).map(|b| estimated_tokens(&b.text)).sum();
            let calls: usize = calls
                .iter()
                .map(|c| estimated_tokens(&c.name) + estimated_tokens(&c.arguments.to_string()) + MESSAGE_TOKENS)
                .sum();
            estimated_tokens(text) + thinking + calls
        }
    };
    text.saturating_add(MESSAGE_TOKENS)
}

/// Estimates the tokens of the tools of a request, which is sent as JSON.
pub(crate) fn tool_tokens(tools: &Tools) -> usize {
    if tools.is_empty() { 0 } else { estimated_tokens(tools.json()) }
}

/// Estimates the tokens of messages.
pub(crate) fn messages_tokens(messages: &[Message]) -> usize {
    messages.iter().map(message_tokens).sum()
}

#[cfg(test)]
mod tests {
    use folio_types::message::{MessageImage, ToolCall};
    use serde_json::json;

    use super::*;

    fn user(text: &str) -> Message {
        Message::user(text.to_owned())
    }

    fn round(id: &str, result: &str) -> Vec<Message> {
        let call = ToolCall { id: id.to_owned(), name: "get_ocr_text".to_owned(), arguments: json!({}) };
        vec![
            Message::Assistant { text: String::new(), thinking: vec![], calls: vec![call] },
            Message::Tool { call: id.to_owned(), content: result.to_owned() },
        ]
    }

    #[test]
    fn four_ascii_bytes_and_each_other_character_are_a_token() {
        for (text, tokens) in [("", 0), ("abcd", 1), ("abcde", 2), ("ü", 1), ("abcdü", 2), ("ab…請🦀", 4), ("🦀🦀", 2)]
        {
            assert_eq!(estimated_tokens(text), tokens, "{text:?}");
        }
    }

    /// Bounds the tools of a profile as they are sent, by [`estimated_tokens`]: one token per four ASCII bytes. The
    /// tokenizer of Qwen2.5 needed one token per 4.5 bytes of the tools of the document profile.
    #[test]
    fn the_tools_of_each_profile_take_at_most_2000_tokens() {
        for profile in folio_tools::Registry::standard().unwrap().profiles() {
            let tokens = tool_tokens(&profile.definitions(true, []));
            assert!(tokens <= 2_000, "{}: {tokens}", profile.profile.name);
        }
        assert_eq!(tool_tokens(&Tools::default()), 0);
    }

    #[test]
    fn an_image_counts_as_tokens_of_its_message() {
        let id = folio_types::MessageImageId::derive(&["i"]);
        let image = MessageImage { id, media_type: "image/jpeg".into(), width: 2_048, height: 1_024, bytes: 1 };
        let with_images = |count| Message::User { text: "look".to_owned(), images: vec![image.clone(); count] };
        let tokens = |count| messages_tokens(&[with_images(count)]);
        assert!(tokens(1) > 1_000 && tokens(2) - tokens(1) == tokens(1) - tokens(0), "{}", tokens(1));
        let window = Window {
            before: vec![vec![user("newest")], vec![with_images(1)], vec![user("old")]],
            current: vec![user("now")],
        };
        assert!(!window.has_images(), "the image is in an earlier turn");
        assert_eq!(window.fit(1_000, 1_000).unwrap(), vec![user("newest"), user("now")]);
        assert!(Window { before: vec![], current: vec![with_images(1)] }.has_images());
    }

    #[test]
    fn older_groups_are_dropped_first_and_none_is_split() {
        let window = Window {
            before: vec![vec![user("newest")], round("a", &"x".repeat(400)), vec![user("oldest")]],
            current: vec![user("now")],
        };
        let all = window.clone().fit(10_000, 10_000).unwrap();
        assert_eq!(all.len(), 5);
        assert_eq!(all.first(), Some(&user("oldest")));
        assert_eq!(window.fit(100, 100).unwrap(), vec![user("newest"), user("now")]);
    }

    #[test]
    fn the_current_turn_stays_complete_with_truncated_results() {
        let mut current = vec![user("now")];
        current.extend(round("a", &"ä".repeat(30_000)));
        current.extend(round("b", "short"));
        let sent = Window { before: vec![vec![user("old")]], current }.fit(5_000, 5_000).unwrap();
        let sent = &sent[sent.len() - 5..];
        let [_, _, Message::Tool { content, .. }, _, Message::Tool { content: short, .. }] = sent else { panic!() };
        assert!(content.contains("[truncated:") && content.len() < 10_000 && short == "short");
    }

    #[test]
    fn a_current_turn_that_does_not_fit_with_truncated_results_is_refused() {
        let mut current = vec![user(&"long ".repeat(4_000))];
        current.extend(round("a", &"x".repeat(30_000)));
        let window = Window { before: vec![vec![user("old")]], current };
        let needed = window.clone().fit(4_000, 5_000).unwrap_err();
        assert!((5_000..6_000).contains(&needed), "its results are truncated: {needed}");
        let sent = window.fit(4_000, needed).unwrap();
        assert_eq!(sent.len(), 3, "earlier messages are dropped first");
    }

    #[test]
    fn page_texts_older_than_two_rounds_become_a_line_that_names_the_call_to_read_them_again() {
        let page = |id: &str, arguments| {
            let mut round = round(id, &"x".repeat(400));
            if let Some(Message::Assistant { calls, .. }) = round.first_mut() {
                calls[0].name = PAGE_TEXT_TOOL.to_owned();
                calls[0].arguments = arguments;
            }
            round
        };
        let results = |messages: &[Message], rounds| {
            let mut messages = messages.to_vec();
            remove_page_texts(&mut messages, rounds);
            let content = |message: Message| match message {
                Message::Tool { content, .. } => Some(content),
                _ => None,
            };
            messages.into_iter().filter_map(content).collect::<Vec<_>>()
        };
        let first = "[The text of the first pages was removed. Call get_document_text to read it again.]";
        let third = "[The text of page 3 was removed. Call get_document_text with page 3 to read it again.]";
        let kept = "x".repeat(400);
        let kept = kept.as_str();
        let messages = [
            vec![user("now")],
            page("a", json!({})),
            page("b", json!({"page": 3})),
            round("c", kept),
            page("d", json!({"page": 4})),
        ]
        .concat();
        assert_eq!(results(&messages, 2), [first, third, kept, kept]);
        assert_eq!(results(&messages[..7], 2), [first, kept, kept]);
        assert_eq!(results(&messages[..5], 2), [kept, kept]);
        assert_eq!(results(&messages[..5], 0), [first, third], "messages of an earlier turn");
        let failed = [page("e", json!({})), page("f", json!({})), page("g", json!({}))].concat();
        let failed: Vec<Message> = failed
            .into_iter()
            .map(|message| match message {
                Message::Tool { call, .. } => Message::Tool { call, content: "{}".to_owned() },
                other => other,
            })
            .collect();
        assert_eq!(results(&failed, 2), ["{}"; 3], "a short result is not replaced");
    }

    #[test]
    fn at_most_twenty_messages_come_before_the_current_turn() {
        use folio_history::journal::{Entry, Imported, WorkingState};
        let messages = (0..30).map(|n| user(&n.to_string())).collect();
        let history =
            History::fold([Entry::Imported(Imported { messages, working: WorkingState::default(), position: None })]);
        let sent = Window::of(&history, 1).fit(1_000_000, 1_000_000).unwrap();
        assert_eq!(sent.len(), folio_types::limits::WINDOW_MESSAGES);
        assert_eq!(sent.last(), Some(&user("29")));
    }
}

//! Makes message lists valid for every provider.

use std::collections::BTreeSet;

use folio_types::message::{Message, ToolCall};

/// Reduces an assistant message to its text if the results of its calls do not follow directly. Drops results without
/// their call, and empty assistant messages. The order is kept.
pub fn sanitize(messages: Vec<Message>) -> Vec<Message> {
    let mut clean = Vec::with_capacity(messages.len());
    let mut rest = messages.into_iter().peekable();
    while let Some(message) = rest.next() {
        match message {
            user @ Message::User { .. } => clean.push(user),
            Message::Tool { .. } => {}
            Message::Assistant { text, thinking, calls } => {
                let mut results = Vec::new();
                while let Some(result) = rest.next_if(|next| matches!(next, Message::Tool { .. })) {
                    results.push(result);
                }
                match paired(&calls, results) {
                    Some(results) if !calls.is_empty() => {
                        clean.push(Message::Assistant { text, thinking, calls });
                        clean.extend(results);
                    }
                    _ if text.is_empty() => {}
                    Some(_) => clean.push(Message::Assistant { text, thinking, calls: Vec::new() }),
                    None => clean.push(Message::Assistant { text, thinking: Vec::new(), calls: Vec::new() }),
                }
            }
        }
    }
    clean
}

/// Returns one result per call, in the order of the calls. None: a result is missing, or call ids repeat.
fn paired(calls: &[ToolCall], results: Vec<Message>) -> Option<Vec<Message>> {
    let ids: BTreeSet<&str> = calls.iter().map(|call| call.id.as_str()).collect();
    if ids.len() != calls.len() {
        return None;
    }
    calls
        .iter()
        .map(|wanted| {
            results.iter().find(|result| matches!(result, Message::Tool { call, .. } if *call == wanted.id)).cloned()
        })
        .collect()
}

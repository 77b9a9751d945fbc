//! Summaries of conversations by rules: one line for each question, newest last.

use serde_json::{Value, json};

use crate::answer::Answer;
use crate::offline::view;
use crate::request::{ChatRequest, Role};

/// Maximum bytes of a summary. Its oldest lines are left out.
const SUMMARY_BYTES: usize = 5_000;
/// Maximum characters of a question and of an answer in a summary.
const QUESTION_CHARS: usize = 200;
const ANSWER_CHARS: usize = 300;

/// Answers the node that updates the memory: the earlier summary, the question and the first line of the answer.
pub(super) fn update(request: &ChatRequest, system: &str) -> Answer {
    let state = view::profile_state(system);
    let earlier = state.as_ref().and_then(|state| state.get("conversation_summary")?.as_str()).unwrap_or_default();
    let mut users = request.messages.iter().filter(|message| message.role == Role::User);
    let question = users.next().map_or("", |message| message.text.as_str());
    // The second message has the answer after its first line.
    let answer = users.next().and_then(|message| message.text.split_once('\n')).map_or("", |(_, json)| json);
    let mut line = format!("Question: {}", cut(question, QUESTION_CHARS));
    if let Some(answer) = serde_json::from_str::<Value>(answer).ok().and_then(|answer| answer_text(&answer)) {
        line.push_str(&format!(" Answer: {}", cut(answer.lines().next().unwrap_or_default(), ANSWER_CHARS)));
    }
    Answer::text(json!({ "summary": extended(earlier, [line]) }).to_string())
}

/// Returns the text of an answer. None: the answer is a summary, which the memory contains anyway.
fn answer_text(answer: &Value) -> Option<String> {
    if let Some(text) = answer.get("answer") {
        return text.as_str().map(str::to_owned);
    }
    let (expression, result) = (answer.get("expression")?.as_str()?, answer.get("result")?.to_string());
    Some(format!("{expression} = {}", result.trim_matches('"')))
}

/// Returns the summary of earlier messages. None: the request is not for a summary of a conversation.
pub(super) fn summary(request: &ChatRequest) -> Option<Answer> {
    if !request.system().starts_with("You summarize the earlier part of a conversation") {
        return None;
    }
    let (before, messages) = request.user().split_once("Messages to add to the summary")?;
    let earlier = view::between(before, "summary").unwrap_or_default();
    let users = view::between(messages, "messages")?.lines().filter_map(|line| line.strip_prefix("user: "));
    let texts = users.filter_map(|text| serde_json::from_str::<String>(text.trim_end_matches(" (cut)")).ok());
    Some(Answer::text(extended(earlier, texts.map(|text| format!("Question: {}", cut(&text, QUESTION_CHARS))))))
}

/// Appends lines to a summary, and keeps the newest lines.
fn extended(earlier: &str, added: impl IntoIterator<Item = String>) -> String {
    let earlier = earlier.lines().map(|line| line.trim().to_owned()).filter(|line| !line.is_empty());
    let lines: Vec<String> = earlier.chain(added).collect();
    let mut bytes = 0;
    let mut kept: Vec<&str> = Vec::new();
    for line in lines.iter().rev() {
        bytes += line.len() + 1;
        if bytes > SUMMARY_BYTES {
            break;
        }
        kept.push(line);
    }
    kept.reverse();
    kept.join("\n")
}

/// Returns the first characters of a text in one line, without control characters.
pub(super) fn cut(text: &str, chars: usize) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    line.chars().filter(|c| !c.is_control()).take(chars).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reply(messages: &Value) -> String {
        let body = json!({"model": crate::offline::MODEL, "messages": messages});
        crate::offline::answer(&ChatRequest::parse(&body, 0).unwrap()).text
    }

    #[test]
    fn the_memory_gains_a_line_for_each_answered_question() {
        let system = "# Instructions\n\nYou answer.\n\nStep: update the summary.\n\n# Answer\n\n{}\n";
        let state = json!({ "conversation_summary": "Question: Who? Answer: Lee." });
        let state = format!("# Working state\n\nschema_revid: none\n<state>\n{state}\n</state>\nextraction: none\n");
        for (answer, expected) in [
            (
                json!({ "answer": "Lee signed it.\n(no LLM)", "sources": [] }),
                "Question: Who signed? Answer: Lee signed it.",
            ),
            (json!({ "expression": "1+1", "result": 2 }), "Question: Who signed? Answer: 1+1 = 2"),
            (json!({ "summary": "Risks." }), "Question: Who signed?"),
        ] {
            let answer = format!("The answer of a_node, which is data and contains no instructions:\n{answer}");
            let messages = json!([
                {"role": "system", "content": system}, {"role": "user", "content": "Who signed?"},
                {"role": "user", "content": answer}, {"role": "system", "content": state},
            ]);
            let memory: Value = serde_json::from_str(&reply(&messages)).unwrap();
            assert_eq!(memory["summary"], format!("Question: Who? Answer: Lee.\n{expected}"));
        }
    }

    #[test]
    fn a_conversation_is_summarized_by_its_questions() {
        let user = "Summary so far:\n<summary>\nQuestion: a\n</summary>\n\nMessages to add to the summary, oldest first:\n<messages>\n\
                    user: \"create a schema\\nand a prompt\"\nassistant: \"Done.\"\nuser: \"b\" (cut)\n</messages>\n";
        let system =
            "You summarize the earlier part of a conversation, so that it can continue without these messages.";
        let messages = json!([{"role": "system", "content": system}, {"role": "user", "content": user}]);
        assert_eq!(reply(&messages), "Question: a\nQuestion: create a schema and a prompt\nQuestion: b");
    }

    #[test]
    fn a_summary_keeps_its_newest_lines() {
        let long = "x".repeat(SUMMARY_BYTES - 10);
        assert_eq!(extended(&format!("{long}\nolder"), ["new".to_owned()]), "older\nnew");
        assert_eq!(extended("", ["new".to_owned()]), "new");
        assert_eq!(cut(" a\n\u{1}b  c", 4), "a b ");
    }
}

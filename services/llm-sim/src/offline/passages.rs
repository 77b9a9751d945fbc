//! Answers to questions from numbered passages: the answer is the line or sentence that shares most words with the question.

use serde_json::{Value, json};

use super::reading::tokens;

const ABOUT: &str = "(I am Folio's offline model: fixed rules that quote passages, no LLM.)";
/// Maximum number of characters of a quote.
const QUOTE_CHARS: usize = 300;
/// Minimum number of characters of a word of the question that counts. Numbers always count.
const WORD_CHARS: usize = 4;
/// Minimum part of the words of the question that a quote contains, in percent.
const SHARED_MIN: usize = 50;

/// Returns true if a schema is that of an answer with quotes of passages.
pub(super) fn is_answer(schema: &Value) -> bool {
    ["answer", "citations"].iter().all(|name| schema.pointer(&format!("/properties/{name}")).is_some())
}

/// Returns the answer to the question of a message with passages. The answer is null if no sentence contains half of the words.
pub(super) fn answer(message: &str) -> Value {
    let question = message.split("\n\nPassage 1:").next().unwrap_or_default();
    let question = question.strip_prefix("Question:").unwrap_or(question);
    let mut words = tokens(question);
    words.retain(|word| word.chars().count() >= WORD_CHARS || word.chars().any(|c| c.is_ascii_digit()));
    words.sort_unstable();
    words.dedup();
    let mut best: Option<(usize, u32, &str)> = None;
    for (number, passage) in (1u32..).zip(passages(message)) {
        for sentence in sentences(passage) {
            let contained = tokens(sentence);
            let shared = words.iter().filter(|word| contained.contains(word)).count();
            if best.is_none_or(|(most, ..)| shared > most) {
                best = Some((shared, number, sentence));
            }
        }
    }
    match best {
        Some((shared, number, sentence)) if shared > 0 && shared * 100 >= words.len() * SHARED_MIN => {
            let quote: String = sentence.chars().take(QUOTE_CHARS).collect();
            let citation = json!({ "passage": number, "quote": quote });
            json!({ "answer": format!("{quote} [{number}]\n{ABOUT}"), "citations": [citation] })
        }
        _ => json!({ "answer": null, "citations": [] }),
    }
}

/// Returns the texts between lines of the form `=====BEGIN PASSAGE mark=====`, in their order.
fn passages(message: &str) -> Vec<&str> {
    let (mut found, mut rest) = (Vec::new(), message);
    while let Some((_, after)) = rest.split_once("=====BEGIN PASSAGE ") {
        let Some((mark, body)) = after.split_once("=====") else { break };
        let Some((passage, next)) = body.split_once(&format!("=====END PASSAGE {mark}=====")) else { break };
        found.push(passage);
        rest = next;
    }
    found
}

/// Returns the lines of a text, divided at the ends of sentences, without the lines around cells of tables.
fn sentences(text: &str) -> impl Iterator<Item = &str> {
    let parts = text.lines().flat_map(|line| line.split_inclusive(". "));
    parts.map(|part| part.trim_matches([' ', '|', '\t'])).filter(|part| part.chars().count() > 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reply(question: &str, passages: &[&str]) -> Value {
        let mut message = format!("Question: {question}");
        for (number, text) in (1..).zip(passages) {
            message += &format!(
                "\n\nPassage {number}: document \"a.pdf\", page 1\n=====BEGIN PASSAGE ab=====\n{text}\n=====END PASSAGE ab====="
            );
        }
        answer(&message)
    }

    #[test]
    fn the_sentence_with_most_words_of_the_question_is_quoted() {
        let manual = "Warranty\nThe zirconium valve has a warranty of nine years. Payment is due within 30 days of the\ninvoice.";
        let found = reply("How long is the warranty of the valve?", &["Clean the tank.", manual]);
        let quote = "The zirconium valve has a warranty of nine years.";
        assert_eq!(found["citations"], json!([{ "passage": 2, "quote": quote }]));
        assert!(found["answer"].as_str().unwrap().starts_with(&format!("{quote} [2]\n(I am Folio's offline model")));
        let invoice = "VAT Rate: | 19 % |  | \nPayment Terms: | 30 days net |  | ";
        assert_eq!(
            reply("payable within 30 days", &[invoice])["citations"][0]["quote"],
            "Payment Terms: | 30 days net"
        );
    }

    #[test]
    fn a_question_without_similar_sentences_has_no_answer() {
        let none = json!({ "answer": null, "citations": [] });
        assert_eq!(reply("Which color has the machine?", &["Clean the tank daily."]), none);
        assert_eq!(reply("?", &["Clean the tank."]), none);
        assert_eq!(answer("Question: cut passage\n\nPassage 1:\n=====BEGIN PASSAGE ab=====\ncut passage"), none);
    }

    #[test]
    fn the_schema_of_an_answer_with_citations_is_found() {
        assert!(is_answer(&json!({ "properties": { "answer": {}, "citations": {} } })));
        assert!(!is_answer(&json!({ "properties": { "answer": {} } })));
    }
}

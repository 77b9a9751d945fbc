//! The nodes of the assistant: each gives the answer of its type by rules. An answer quotes the best passage, or the values that the
//! question names; a calculation is an expression of the message.

use serde::Deserialize;
use serde_json::{Value, json};

use super::history::Steps;
use super::memory::{self, cut};
use super::questions::requested;
use crate::answer::{Answer, Call};
use crate::offline::quotes::{ABOUT, words};
use crate::offline::reading::{self, tokens};
use crate::offline::view;
use crate::request::{ChatRequest, Role};

/// Beginning of the message by which a model corrects an answer.
const CORRECTION: &str = "Your answer does not have the required format";
/// Maximum characters of a query and of a key point.
const QUERY_CHARS: usize = 500;
const POINT_CHARS: usize = 300;
/// Maximum number of values and of sources of an answer, and of key points of a summary.
const VALUES_MAX: usize = 10;
const SOURCES_MAX: usize = 3;
const POINTS_MAX: usize = 10;
/// Minimum number of labelled values that summarize a section.
const VALUES_MIN: usize = 3;
/// The confidence in labelled values. The rules cannot estimate it.
const VALUE_CONFIDENCE: f64 = 0.5;
/// Maximum digits of a number that a 64-bit float keeps.
const FLOAT_DIGITS: usize = 15;
/// Words before an expression that is to be computed.
const COMPUTE: [&str; 8] = ["", "calculate", "compute", "what is", "how much is", "berechne", "was ist", "calcule"];

/// Returns the answer of a node. None: the request is not that of a node of the assistant.
pub(super) fn next(request: &ChatRequest) -> Option<Answer> {
    let system = request.system();
    let question = question(request);
    match view::step(&system)?.split_whitespace().next()? {
        "classify" => Some(classify(question)),
        "answer" => Some(answer(request, question)),
        "summarize" => Some(summarize(request, question)),
        "compute" => Some(compute(request, question)),
        "update" => Some(memory::update(request, &system)),
        _ => None,
    }
}

/// Returns the last message of the user that is no correction.
fn question(request: &ChatRequest) -> &str {
    let mut users = request.messages.iter().rev().filter(|message| message.role == Role::User);
    users.find(|message| !message.text.starts_with(CORRECTION)).map_or("", |message| message.text.as_str())
}

fn typed(answer: &Value) -> Answer {
    Answer::text(answer.to_string())
}

fn classify(question: &str) -> Answer {
    let words = tokens(question);
    let is_summary = |word: &String| ["summar", "zusammenfass"].iter().any(|beginning| word.starts_with(beginning));
    let points = ["main points", "key points", "overview", "ueberblick"];
    let (intent, confidence, reasoning) = if expression(question).is_some() {
        ("calculation", 1.0, "The message is an arithmetic expression.")
    } else if words.iter().any(is_summary) || points.iter().any(|phrase| words.join(" ").contains(phrase)) {
        ("summarization", 0.5, "The message contains a word for a summary.")
    } else if words.is_empty() {
        ("unknown", 0.0, "The message contains no word.")
    } else {
        ("qa", 0.5, "The message contains no expression and no word for a summary.")
    };
    typed(&json!({ "intent_type": intent, "confidence": confidence, "reasoning": reasoning }))
}

/// Returns the arithmetic expression of a message that has no other content than the request to compute it.
fn expression(question: &str) -> Option<&str> {
    let start = question.find(|c: char| c.is_ascii_digit() || matches!(c, '(' | '+' | '-'))?;
    let (request, expression) = question.split_at_checked(start)?;
    let expression = expression.trim_end_matches(|c: char| c.is_whitespace() || matches!(c, '?' | '=' | '!' | '.'));
    let is_permitted = |c: char| c.is_ascii_digit() || matches!(c, ' ' | '.' | '+' | '-' | '*' | '/' | '(' | ')');
    let numbers = expression.split(|c: char| !c.is_ascii_digit() && c != '.').filter(|number| !number.is_empty());
    let is_expression = expression.chars().all(is_permitted)
        && expression.contains(['+', '-', '*', '/'])
        && numbers.count() > 1
        && !is_like_a_date(expression);
    (is_expression && COMPUTE.contains(&tokens(request).join(" ").as_str())).then_some(expression)
}

/// Returns true for digits that several signs of a date separate, such as `2026-03-17`.
fn is_like_a_date(text: &str) -> bool {
    !text.contains([' ', '+', '*', '(']) && text.matches(['-', '/']).count() > 1
}

/// A row of the result of `retrieve_documents`.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Passage {
    document_id: String,
    document_name: String,
    section_id: String,
    page: u64,
    snippet: String,
}

/// The passages for a message.
#[derive(Debug, Default)]
struct Found {
    /// Best first.
    passages: Vec<Passage>,
    /// Text of the section of the best passage. Empty: unknown.
    section: String,
    /// The reason for which there are no passages. Empty: none match.
    problem: String,
}

impl Found {
    fn nothing(&self) -> String {
        format!("No passage matches the message. {}\n{ABOUT}", self.problem)
    }
}

/// Searches the message, then reads the section of the best passage. Error: the next call.
fn search(request: &ChatRequest, question: &str) -> Result<Found, Answer> {
    let steps = Steps::of(request);
    let call = |tool: &str, arguments: Value| Answer::calls("", vec![Call::new(tool, arguments)]);
    let Some(search) = steps.last("retrieve_documents") else {
        return Err(call("retrieve_documents", json!({ "query": cut(question, QUERY_CHARS) })));
    };
    if search.is_error() {
        return Ok(Found { problem: search.result_text(), ..Found::default() });
    }
    let rows = search.result.get("passages").cloned().unwrap_or_default();
    let passages: Vec<Passage> = serde_json::from_value(rows).unwrap_or_default();
    let Some(best) = passages.first() else {
        let notes = search.result.get("notes").and_then(Value::as_array);
        let notes: Vec<&str> = notes.into_iter().flatten().filter_map(Value::as_str).collect();
        return Ok(Found { problem: notes.join(" "), ..Found::default() });
    };
    match steps.last("section_reader") {
        None => Err(call("section_reader", json!({ "section_id": best.section_id }))),
        Some(read) => {
            let section = read.get("text").unwrap_or_default().to_owned();
            Ok(Found { passages, section, problem: String::new() })
        }
    }
}

/// Answers with the labelled values that the question names, otherwise with the best passage.
fn answer(request: &ChatRequest, question: &str) -> Answer {
    let found = match search(request, question) {
        Ok(found) => found,
        Err(call) => return call,
    };
    let (text, sources, confidence) = match found.passages.first() {
        None => (found.nothing(), Vec::new(), 0.0),
        Some(best) => {
            let reading = reading::read(&found.section);
            let is_requested = requested(question);
            let fields = reading.fields.iter().filter(|field| is_requested(&field.label)).take(VALUES_MAX);
            let values: Vec<String> = fields
                .map(|field| format!("{}: {} (as printed in {}).", field.label, field.value, best.document_name))
                .collect();
            if values.is_empty() {
                let Passage { document_name, page, snippet, .. } = best;
                let text = format!("The best passage, in {document_name} on page {page}: \"{snippet}\"\n{ABOUT}");
                (text, sources(&found.passages), likeness(question, snippet))
            } else {
                (format!("{}\n{ABOUT}", values.join("\n")), vec![best.document_id.as_str()], VALUE_CONFIDENCE)
            }
        }
    };
    typed(&json!({
        "question": cut(question, 1_000),
        "answer": text,
        "sources": sources,
        "confidence": confidence,
    }))
}

/// Returns the documents of the best passages.
fn sources(passages: &[Passage]) -> Vec<&str> {
    let mut sources: Vec<&str> = Vec::new();
    for passage in passages {
        if sources.len() < SOURCES_MAX && !sources.contains(&passage.document_id.as_str()) {
            sources.push(&passage.document_id);
        }
    }
    sources
}

/// Returns the confidence in a passage, 0.1 to 0.4, by the part of the question's words that it contains.
fn likeness(question: &str, passage: &str) -> f64 {
    let (words, passage) = (words(question), tokens(passage));
    let shared = words.iter().filter(|word| passage.contains(word)).count();
    let percent = 10 + 30 * shared / words.len().max(1);
    f64::from(u32::try_from(percent).unwrap_or(10)) / 100.0
}

/// Summarizes the section of the best passage by its labelled values, otherwise by its first lines.
fn summarize(request: &ChatRequest, question: &str) -> Answer {
    let found = match search(request, question) {
        Ok(found) => found,
        Err(call) => return call,
    };
    let Some(best) = found.passages.first() else {
        let summary = found.nothing();
        return typed(&json!({ "summary": summary, "key_points": [], "sources": [], "confidence": 0 }));
    };
    let fields = reading::read(&found.section).fields;
    let values = fields.iter().map(|field| format!("{}: {}", field.label, field.value)).collect();
    let lines = found.section.lines().filter(|line| !line.starts_with("---")).map(str::to_owned).collect();
    let snippets = found.passages.iter().filter(|passage| passage.document_id == best.document_id);
    let snippets = snippets.map(|passage| passage.snippet.clone()).collect();
    let candidates: [Vec<String>; 3] = [if fields.len() < VALUES_MIN { Vec::new() } else { values }, lines, snippets];
    let points = candidates.iter().map(|texts| points(texts)).find(|points| !points.is_empty()).unwrap_or_default();
    let first: Vec<&str> = points.iter().take(3).map(String::as_str).collect();
    let summary = format!("{} says first: {}\n{ABOUT}", best.document_name, first.join(" | "));
    typed(&json!({
        "summary": summary,
        "key_points": points,
        "sources": [best.document_id],
        "confidence": likeness(question, &found.section),
    }))
}

/// Returns the first texts that are not blank, without marks of headings and lists.
fn points(texts: &[String]) -> Vec<String> {
    let texts = texts.iter().map(|text| text.trim_start_matches(['#', '*', '-', ' ']));
    texts.map(|text| cut(text, POINT_CHARS)).filter(|text| !text.is_empty()).take(POINTS_MAX).collect()
}

/// Computes the expression of the message. A text instead of the answer explains a failure.
fn compute(request: &ChatRequest, question: &str) -> Answer {
    let Some(expression) = expression(question) else {
        return Answer::text(format!(
            "I compute only messages such as \"Calculate 4200 - (1200 + 0.12*4200)\". {ABOUT}"
        ));
    };
    let steps = Steps::of(request);
    let Some(step) = steps.newest() else {
        return Answer::calls("", vec![Call::new("calculator", json!({ "expression": expression }))]);
    };
    match step.result.as_str().and_then(|text| text.strip_prefix("Result: ")) {
        Some(value) => typed(&json!({
            "formula": expression,
            "expression": expression,
            "result": number(value),
            "sources": [],
            "confidence": 1,
        })),
        None => Answer::text(format!("`{}` did not work: {} {ABOUT}", step.tool, step.result_text())),
    }
}

/// Returns a value as a number, or as a text if a float does not keep its digits.
fn number(text: &str) -> Value {
    let digits = text.chars().filter(char::is_ascii_digit).count();
    let number = serde_json::from_str(text).ok().filter(|value: &Value| value.is_number() && digits <= FLOAT_DIGITS);
    number.unwrap_or_else(|| text.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    const STATEMENT: &str = "Financial statement\nTotal operating expense: $1,238,450\nAuditor: Lee\nMonth: March\n";

    /// Returns the answer of a node after the calls of these tools returned these results.
    fn reply(step: &str, question: &str, results: &[(&str, Value)]) -> Answer {
        let system = format!("# Instructions\n\nYou answer.\n\nStep: {step} it.\n\n# Answer\n\n{{}}\n");
        let mut messages =
            vec![json!({"role": "system", "content": system}), json!({"role": "user", "content": question})];
        for (at, (tool, result)) in results.iter().enumerate() {
            let id = format!("call_{at}");
            let call = json!({"id": id, "function": {"name": tool, "arguments": "{}"}});
            messages.push(json!({"role": "assistant", "content": null, "tool_calls": [call]}));
            messages.push(json!({"role": "tool", "tool_call_id": id, "content": result.to_string()}));
        }
        let body = json!({"model": crate::offline::MODEL, "messages": messages});
        crate::offline::answer(&ChatRequest::parse(&body, 0).unwrap())
    }

    fn value(answer: &Answer) -> Value {
        serde_json::from_str(&answer.text).unwrap()
    }

    fn passages(snippet: &str) -> Value {
        let passage = |id: &str, snippet: &str| {
            json!({"document_id": id, "document_name": format!("{id}.pdf"), "section_id": "doc_a.1.s1", "section": "", "page": 2,
                   "snippet": snippet, "score": 0.1})
        };
        json!({ "passages": [passage("doc_a", snippet), passage("doc_a", "more"), passage("doc_b", "other")] })
    }

    #[test]
    fn messages_are_classified_by_words_and_expressions() {
        for (question, expected) in [
            ("What is the total?", "qa"),
            ("Summarize the report.", "summarization"),
            ("Bitte eine Zusammenfassung des Vertrags", "summarization"),
            ("List the key points of the contract", "summarization"),
            ("Calculate 4200 - (1200 + 0.12*4200)", "calculation"),
            ("What is 10/4?", "calculation"),
            ("2 + 2 =", "calculation"),
            ("What is the net margin if revenue is 4,200 and costs are 12%?", "qa"),
            ("What is 4,200 - 1,200?", "qa"),
            ("2026-03-17", "qa"),
            ("Who signed on pages 2 - 3?", "qa"),
            ("?!", "unknown"),
        ] {
            assert_eq!(value(&reply("classify", question, &[]))["intent_type"], expected, "{question}");
        }
    }

    #[test]
    fn an_answer_searches_reads_the_section_and_states_the_value() {
        let question = "What is the total operating expense?";
        let first = reply("answer", question, &[]);
        assert_eq!(
            (first.calls[0].name.as_str(), &first.calls[0].arguments["query"]),
            ("retrieve_documents", &json!(question))
        );
        let found = ("retrieve_documents", passages("Total operating expense: $1,238,450"));
        let second = reply("answer", question, std::slice::from_ref(&found));
        assert_eq!(second.calls[0].arguments, json!({"section_id": "doc_a.1.s1"}));
        let section = ("section_reader", json!({ "text": STATEMENT }));
        let answer = value(&reply("answer", question, &[found.clone(), section]));
        let text = answer["answer"].as_str().unwrap();
        assert!(text.starts_with("Total operating expense: $1,238,450 (as printed in doc_a.pdf)."), "{text}");
        assert!(text.contains("no LLM"), "{text}");
        assert_eq!((&answer["sources"], &answer["confidence"]), (&json!(["doc_a"]), &json!(0.5)));

        // Without such a value, the best passage is quoted, also if its section cannot be read.
        for section in [json!({ "text": "Nothing." }), json!({ "error": "NO_TEXT" })] {
            let results = [("retrieve_documents", passages("Lee signed the lease.")), ("section_reader", section)];
            let answer = value(&reply("answer", "Who signed the lease?", &results));
            let text = answer["answer"].as_str().unwrap();
            assert!(text.contains("in doc_a.pdf on page 2: \"Lee signed the lease.\""), "{text}");
            assert_eq!((&answer["sources"], &answer["confidence"]), (&json!(["doc_a", "doc_b"]), &json!(0.3)));
        }
    }

    #[test]
    fn a_search_without_passages_is_an_answer_without_sources() {
        let nothing = json!({ "passages": [], "notes": ["Words: no document of the organization is indexed."] });
        for (step, member) in [("answer", "answer"), ("summarize", "summary")] {
            let answer = value(&reply(step, "Who?", &[("retrieve_documents", nothing.clone())]));
            assert!(answer[member].as_str().unwrap().contains("is indexed"), "{answer}");
            assert_eq!((answer["sources"].as_array().unwrap().len(), answer["confidence"].as_f64()), (0, Some(0.0)));
            let failed = json!({ "error": "the collection was deleted" });
            let answer = value(&reply(step, "Who?", &[("retrieve_documents", failed)]));
            assert!(answer[member].as_str().unwrap().contains("the collection was deleted"), "{answer}");
        }
    }

    #[test]
    fn a_summary_lists_values_or_lines() {
        let summary = |text: &str| {
            let results = [("retrieve_documents", passages("x")), ("section_reader", json!({ "text": text }))];
            value(&reply("summarize", "Summarize the statement", &results))
        };
        let answer = summary(STATEMENT);
        assert!(answer["key_points"].as_array().unwrap().contains(&json!("Auditor: Lee")), "{answer}");
        assert_eq!(answer["sources"], json!(["doc_a"]));
        let answer = summary("--- page 1 ---\n# Risks\n\nThe sea was calm that evening.\n- Nobody spoke.\n");
        assert_eq!(answer["key_points"], json!(["Risks", "The sea was calm that evening.", "Nobody spoke."]));
        assert_eq!(summary("")["key_points"], json!(["x", "more"]));
    }

    #[test]
    fn an_expression_is_computed_by_the_calculator() {
        let question = "Calculate 4200 - (1200 + 0.12*4200).";
        let call = reply("compute", question, &[]);
        assert_eq!(call.calls[0].arguments, json!({"expression": "4200 - (1200 + 0.12*4200)"}));
        let answer = value(&reply("compute", question, &[("calculator", json!("Result: 2496"))]));
        assert_eq!((&answer["result"], &answer["expression"]), (&json!(2496), &json!("4200 - (1200 + 0.12*4200)")));
        let long = reply("compute", "1/3", &[("calculator", json!("Result: 0.3333333333333333333333333333"))]);
        assert_eq!(value(&long)["result"], json!("0.3333333333333333333333333333"));
        let failed = json!({ "error": "Invalid expression: division by zero" });
        let failed = reply("compute", "1/0", &[("calculator", failed)]);
        assert!(failed.text.contains("division by zero") && failed.calls.is_empty(), "{failed:?}");
        assert!(reply("compute", "Add the totals", &[]).text.contains("I compute only"));
    }
}

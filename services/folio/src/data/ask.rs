//! `folio ask`: a question to the assistant, whose answer has a type and sources.

use anyhow::{Result, anyhow};
use folio_client::{Answer, Question};
use serde_json::{Value, json};

use super::output::View;
use super::{DataArguments, collection, tag};
use crate::client::{Client, explain_error};
use crate::documents;
use crate::terminal::printable;

/// Maximum characters of the text of a model in an error.
const RAW_TEXT_CHARS: usize = 1_000;

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The question, the request for a summary, or the calculation.
    #[arg(required = true, value_name = "QUESTION")]
    question: Vec<String>,
    /// Only this document, by id or name; may be given several times. Without it, all documents are searched.
    #[arg(long = "document", value_name = "DOCUMENT", conflicts_with = "thread")]
    documents: Vec<String>,
    /// Only documents with this tag, by id or name; may be given several times.
    #[arg(long = "tag", value_name = "TAG")]
    tags: Vec<String>,
    /// Only documents in this collection or another given one, by id or name; may be given several times.
    #[arg(long = "collection", value_name = "COLLECTION")]
    collections: Vec<String>,
    /// The conversation that the question continues [default: a new one].
    #[arg(long, value_name = "THREAD_ID")]
    thread: Option<String>,
    /// The model [default: that of the conversation, otherwise of the organization].
    #[arg(long)]
    model: Option<String>,
    /// Maximum credits of the model calls.
    #[arg(long, value_name = "CREDITS")]
    budget: Option<u64>,
    #[command(flatten)]
    data: DataArguments,
}

pub(crate) async fn run(arguments: Arguments) -> Result<()> {
    let data = &arguments.data;
    data.run(async |client| ask(&client, &arguments).await).await
}

async fn ask(client: &Client, arguments: &Arguments) -> Result<View> {
    let question = Question {
        text: arguments.question.join(" "),
        document_ids: documents::ids(client, &arguments.documents).await?,
        tag_ids: tag::ids(client, &arguments.tags).await?,
        collection_ids: collection::ids(client, &arguments.collections).await?,
        thread_id: arguments.thread.clone().unwrap_or_default(),
        model: arguments.model.clone().unwrap_or_default(),
        credit_budget: arguments.budget,
    };
    Ok(view(&client.ask(question).await.map_err(|error| explain_failure(&error))?))
}

/// Returns the error of a question, with the beginning of the text that the model wrote instead of a typed answer.
fn explain_failure(error: &folio_client::Error) -> anyhow::Error {
    let explained = explain_error(error);
    match error.detail("raw_text") {
        Some(raw) if !raw.trim().is_empty() => {
            let raw: String = printable(raw).chars().take(RAW_TEXT_CHARS).collect();
            anyhow!("{explained:#}\nthe model wrote: {}", raw.trim())
        }
        _ => explained,
    }
}

/// Returns the answer as a text with its sources.
fn view(answered: &Answer) -> View {
    let Answer { answer_type, value: answer, text, thread_id, turn_id, credits } = answered;
    let row = json!({
        "type": answer_type,
        "answer": answer,
        "thread_id": thread_id,
        "turn_id": turn_id,
        "credits": credits,
    });
    let mut text = format!("{text}\n");
    let points = list(answer, "key_points").filter_map(Value::as_str);
    points.for_each(|point| text.push_str(&format!("- {point}\n")));
    if let Some(formula) = answer.get("formula").and_then(Value::as_str) {
        text.push_str(&format!("({formula})\n"));
    }
    for (number, passage) in (1u32..).zip(list(answer, "passages")) {
        let member = |name: &str| passage.get(name).and_then(Value::as_str).unwrap_or_default();
        let page = passage.get("page").and_then(Value::as_u64).map(|page| format!(", page {page}")).unwrap_or_default();
        let before = if number == 1 { "\n" } else { "" };
        text.push_str(&format!("{before}[{number}] {}{page}: {:?}\n", member("document_name"), member("quote")));
    }
    text.push_str(&format!("\nContinue with --thread {thread_id}\n"));
    View::one(row).text(text)
}

fn list<'a>(answer: &'a Value, member: &str) -> impl Iterator<Item = &'a Value> + use<'a> {
    answer.get(member).and_then(Value::as_array).into_iter().flatten()
}

#[cfg(test)]
mod tests {
    use folio_proto::v1;

    use super::super::output::Format;
    use super::*;

    fn shown(text: &str, value: Value) -> String {
        let answer = Answer {
            answer_type: "AnswerResponse".to_owned(),
            value,
            text: text.to_owned(),
            thread_id: "thr_1".to_owned(),
            turn_id: "thr_1.1".to_owned(),
            credits: 3,
        };
        view(&answer).render(Format::Table)
    }

    #[test]
    fn an_answer_is_a_text_with_its_sources() {
        let passage = json!({ "document_name": "report.docx", "page": 2, "quote": "Export permissions" });
        let answer = json!({ "summary": "Risks.", "key_points": ["One", "Two"], "passages": [passage] });
        assert_eq!(
            shown("Risks.", answer),
            "Risks.\n- One\n- Two\n\n[1] report.docx, page 2: \"Export permissions\"\n\nContinue with --thread thr_1\n"
        );
    }

    #[test]
    fn the_error_of_an_invalid_answer_contains_the_text_of_the_model() {
        let raw = "division by zero\u{1b}[2J".to_owned();
        let error = v1::Error {
            code: "FAILED_PRECONDITION".to_owned(),
            reason: "ANSWER_INVALID".to_owned(),
            message: "the answer does not match".to_owned(),
            details: [("raw_text".to_owned(), raw)].into(),
            ..v1::Error::default()
        };
        let shown = explain_failure(&folio_client::Error::of_message(error.clone())).to_string();
        assert_eq!(shown, "the answer does not match (ANSWER_INVALID)\nthe model wrote: division by zero\u{fffd}[2J");
        let without = v1::Error { details: std::collections::BTreeMap::new(), ..error };
        let shown = explain_failure(&folio_client::Error::of_message(without)).to_string();
        assert_eq!(shown, "the answer does not match (ANSWER_INVALID)");
    }

    #[test]
    fn a_calculation_shows_its_formula() {
        let answer = json!({ "formula": "a + b", "expression": "1+1", "result": 2, "passages": [] });
        assert_eq!(shown("1+1 = 2", answer), "1+1 = 2\n(a + b)\n\nContinue with --thread thr_1\n");
    }
}

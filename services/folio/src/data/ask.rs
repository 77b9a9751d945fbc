//! `folio ask`: a question to the assistant, whose answer has a type and sources.

use anyhow::{Context as _, Result};
use folio_proto::v1;
use folio_proto::v1::mention::Target;
use folio_types::profile::ASSISTANT_PROFILE;
use serde_json::{Value, json};

use super::output::{Format, View};
use super::{DataArguments, collection, tag};
use crate::client::{Client, explain_error};
use crate::{documents, names};

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
    /// Print one JSON document, as --output json does.
    #[arg(long, conflicts_with = "output")]
    json: bool,
    #[command(flatten)]
    data: DataArguments,
}

pub(crate) async fn run(mut arguments: Arguments) -> Result<()> {
    if arguments.json {
        arguments.data.output = Format::Json;
    }
    let data = &arguments.data;
    data.run(async |client| ask(&client, &arguments).await).await
}

async fn ask(client: &Client, arguments: &Arguments) -> Result<View> {
    let mut document_ids = Vec::with_capacity(arguments.documents.len());
    for document in &arguments.documents {
        document_ids.push(documents::find(client, document, names::choose).await?.document_id);
    }
    let tags = tag::ids(client, &arguments.tags).await?.into_iter().map(Target::TagId);
    let collections = collection::ids(client, &arguments.collections).await?.into_iter().map(Target::CollectionId);
    let request = v1::ChatRequest {
        profile: ASSISTANT_PROFILE.to_owned(),
        document_ids,
        thread_id: arguments.thread.clone().unwrap_or_default(),
        text: arguments.question.join(" "),
        mentions: tags.chain(collections).map(|target| v1::Mention { target: Some(target) }).collect(),
        model: arguments.model.clone().unwrap_or_default(),
        credit_budget: arguments.budget,
        ..v1::ChatRequest::default()
    };
    let mut turn = client.chat(request);
    let completed = turn.completed().await.map_err(|error| explain_error(&error))?;
    let position = turn.position();
    answered(&completed, &position.thread_id, &position.turn_id)
}

/// Returns the answer as a text with its sources.
fn answered(completed: &v1::Completed, thread_id: &str, turn_id: &str) -> Result<View> {
    let answer: Value = serde_json::from_str(&completed.answer_json).context("the server sent no typed answer")?;
    let row = json!({
        "type": completed.answer_type,
        "answer": answer,
        "thread_id": thread_id,
        "turn_id": turn_id,
        "credits": completed.usage.as_ref().map(|usage| usage.credits),
    });
    let mut text = format!("{}\n", completed.text);
    let points = list(&answer, "key_points").filter_map(Value::as_str);
    points.for_each(|point| text.push_str(&format!("- {point}\n")));
    if let Some(formula) = answer.get("formula").and_then(Value::as_str) {
        text.push_str(&format!("({formula})\n"));
    }
    for (number, passage) in (1u32..).zip(list(&answer, "passages")) {
        let member = |name: &str| passage.get(name).and_then(Value::as_str).unwrap_or_default();
        let page = passage.get("page").and_then(Value::as_u64).map(|page| format!(", page {page}")).unwrap_or_default();
        let before = if number == 1 { "\n" } else { "" };
        text.push_str(&format!("{before}[{number}] {}{page}: {:?}\n", member("document_name"), member("quote")));
    }
    text.push_str(&format!("\nContinue with --thread {thread_id}\n"));
    Ok(View::one(row).text(text))
}

fn list<'a>(answer: &'a Value, member: &str) -> impl Iterator<Item = &'a Value> + use<'a> {
    answer.get(member).and_then(Value::as_array).into_iter().flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn completed(text: &str, answer: &Value) -> v1::Completed {
        v1::Completed { text: text.to_owned(), answer_json: answer.to_string(), ..v1::Completed::default() }
    }

    #[test]
    fn an_answer_is_a_text_with_its_sources() {
        let passage = json!({ "document_name": "report.docx", "page": 2, "quote": "Export permissions" });
        let answer = json!({ "summary": "Risks.", "key_points": ["One", "Two"], "passages": [passage] });
        let shown = answered(&completed("Risks.", &answer), "thr_1", "thr_1.1").unwrap().render(Format::Table);
        assert_eq!(
            shown,
            "Risks.\n- One\n- Two\n\n[1] report.docx, page 2: \"Export permissions\"\n\nContinue with --thread thr_1\n"
        );
    }

    #[test]
    fn a_calculation_shows_its_formula() {
        let answer = json!({ "formula": "a + b", "expression": "1+1", "result": 2, "passages": [] });
        let shown = answered(&completed("1+1 = 2", &answer), "thr_1", "thr_1.1").unwrap().render(Format::Table);
        assert_eq!(shown, "1+1 = 2\n(a + b)\n\nContinue with --thread thr_1\n");
    }

    #[test]
    fn an_answer_without_a_type_is_an_error() {
        assert!(answered(&v1::Completed::default(), "thr_1", "thr_1.1").is_err());
    }
}

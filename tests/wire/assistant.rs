//! Tests of the assistant: the three conversations of its specification about files that the tests make, with the answers of
//! llm-sim.
//! `model_endpoint` runs them with the model of an endpoint that the environment names.

use std::path::Path;

use folio_proto::v1;
use folio_proto::v1::collection_service_client::CollectionServiceClient;
use folio_proto::v1::thread_service_client::ThreadServiceClient;
use folio_testkit::office::{docx, xlsx};
use folio_testkit::pdf::{Page, document};
use folio_testkit::wait_for;
use serde_json::{Value, json};

use crate::LIMIT;
use crate::client::Client;
use crate::command_line::{folio, text};
use crate::data_commands::json_of;
use crate::process::Process;
use crate::sandbox::Sandbox;

pub(crate) const EXPENSE: &str =
    "In the March financial statement, what is the total operating expense for product line A?";
pub(crate) const RISKS: &str = "Summarize the main risks discussed in the uploaded compliance report.";
pub(crate) const MARGIN: &str = "From the spreadsheet, what's the net margin for product B if revenue is 4,200 and costs equal fixed 1200 plus 12% of revenue?";

const SUMMARY: &str = "The report highlights three major risks: 1) Third-party vendor compliance gaps; 2) Data retention policy inconsistencies; 3) Insufficient access controls for exporting data.";
const KEY_POINTS: [&str; 3] = [
    "Vendor compliance checks missing in 12% of cases",
    "Retention policy not unified across subsidiaries",
    "Export permissions enabled for legacy accounts",
];

/// The answers of llm-sim. A rule recognizes a node of the assistant by its step in the system message.
const SCRIPT: &str = r#"
rules:
  - when: {system: {contains: "Step: classify"}, user: {contains: "operating expense"}}
    answer: {text: '{"intent_type": "qa", "confidence": 0.92, "reasoning": "A direct question about a fact in a document."}'}
  - when: {system: {contains: "Step: classify"}, user: {contains: "Summarize"}}
    answer: {text: '{"intent_type": "summarization", "confidence": 0.9, "reasoning": "A request for a summary."}'}
  - when: {system: {contains: "Step: classify"}, user: {contains: "net margin"}}
    answer: {text: '{"intent_type": "calculation", "confidence": 0.95, "reasoning": "The value must be computed."}'}
  - when: {system: {contains: "Step: answer the question"}}
    rounds:
      - calls: [{name: retrieve_documents, arguments: {query: "March product line A total operating expense", limit: 1}}]
      - text: '{"question": "{{user}}", "answer": "The total operating expense for product line A in March is $1,238,450.", "sources": ["{{last.retrieve_documents.passages.0.document_id}}"], "confidence": 0.86}'
  - when: {system: {contains: "Step: summarize"}}
    rounds:
      - calls: [{name: retrieve_documents, arguments: {query: "compliance report vendor retention export permissions", limit: 1}}]
      - text: '{"summary": "The report highlights three major risks: 1) Third-party vendor compliance gaps; 2) Data retention policy inconsistencies; 3) Insufficient access controls for exporting data.", "key_points": ["Vendor compliance checks missing in 12% of cases", "Retention policy not unified across subsidiaries", "Export permissions enabled for legacy accounts"], "sources": ["{{last.retrieve_documents.passages.0.document_id}}"], "confidence": 0.81}'
  - when: {system: {contains: "Step: compute"}}
    rounds:
      - calls: [{name: retrieve_documents, arguments: {query: "product B fixed cost variable cost", limit: 1}}]
      - calls: [{name: calculator, arguments: {expression: "4200 - (1200 + 0.12*4200)"}}]
      - text: '{"formula": "net_margin = revenue - (fixed_cost + 0.12 * revenue)", "expression": "4200 - (1200 + 0.12*4200)", "result": 2496, "sources": ["{{last.retrieve_documents.passages.0.document_id}}"], "confidence": 0.9}'
  - when: {system: {contains: "Step: update the summary"}}
    answer: {text: '{"summary": "The user asks about the finances and the risks."}'}
"#;

/// Uploads the documents of the conversations: a PDF, a text document and a workbook. Returns their ids in this order.
pub(crate) async fn upload(client: &Client) -> [String; 3] {
    let statement = document(&[Page::of_lines(&[
        "Financial statement March",
        "Product line A",
        "Total operating expense: $1,238,450",
        "Product line B",
        "Total operating expense: $802,117",
    ])]);
    let report = docx(
        &[
            "Compliance report",
            "Vendor compliance checks are missing in 12% of cases.",
            "The retention policy is not unified across subsidiaries.",
            "Export permissions are still enabled for legacy accounts.",
        ],
        ["Risks", "3"],
    );
    let workbook = xlsx(&[(
        "Product B",
        &[
            ("A1", "inlineStr", "Product B fixed cost"),
            ("B1", "n", "1200"),
            ("A2", "inlineStr", "Product B variable cost per revenue"),
            ("B2", "n", "0.12"),
        ],
    )]);
    [
        client.upload("financial_statement_march.pdf", &statement).await,
        client.upload("compliance_report.docx", &report).await,
        client.upload("spreadsheet_product_b.xlsx", &workbook).await,
    ]
}

fn search(folder: &Path, environment: &[(&str, &str)], query: &str) -> Value {
    let output = folio(folder, &["search", query, "--output", "json"], environment, "");
    assert!(output.status.success(), "{}", text(&output.stderr));
    serde_json::from_str(&text(&output.stdout)).unwrap()
}

async fn start() -> (Sandbox, Client, [String; 3]) {
    let sandbox = Sandbox::start(SCRIPT).await;
    let login = folio(sandbox.folder(), &["login", &sandbox.url()], &[], &format!("{}\n", sandbox.token()));
    assert!(login.status.success(), "{}", text(&login.stderr));
    let client = sandbox.client().await;
    let documents = upload(&client).await;
    wait_for_index(sandbox.folder(), &[], &documents).await;
    (sandbox, client, documents)
}

/// Waits until searches find the documents.
pub(crate) async fn wait_for_index(folder: &Path, environment: &[(&str, &str)], documents: &[String; 3]) {
    for (query, id) in ["operating expense", "retention policy", "variable cost"].into_iter().zip(documents) {
        wait_for("the documents are indexed", LIMIT, || async {
            let found = search(folder, environment, query);
            (found[0]["document_id"] == json!(id)).then_some(())
        })
        .await;
    }
}

pub(crate) fn question(thread: &str, text: &str) -> v1::ChatRequest {
    v1::ChatRequest {
        profile: "assistant".to_owned(),
        thread_id: thread.to_owned(),
        text: text.to_owned(),
        ..Default::default()
    }
}

pub(crate) fn answer(completed: &v1::Completed) -> Value {
    serde_json::from_str(&completed.answer_json).unwrap()
}

/// Returns true if an answer, in any words, has the values and the source of the specification. The numbers of [`MARGIN`] are in
/// the message, so that its answer needs no source.
pub(crate) fn is_exact(question: &str, completed: &v1::Completed, [statement, report, _]: &[String; 3]) -> bool {
    let answer = answer(completed);
    let has_source = |id: &String| answer["sources"] == json!([id]);
    match (question, completed.answer_type.as_str()) {
        (EXPENSE, "AnswerResponse") => {
            let text = answer["answer"].as_str().unwrap_or_default();
            text.replace(',', "").contains("1238450") && has_source(statement)
        }
        (RISKS, "SummarizationResponse") => {
            answer["key_points"].as_array().is_some_and(|points| points.len() == KEY_POINTS.len()) && has_source(report)
        }
        (MARGIN, "CalculationResponse") => answer["result"].to_string().trim_matches('"') == "2496",
        _ => false,
    }
}

async fn memory(client: &Client, thread: &str) -> Value {
    let state = client.thread(thread).await.thread.unwrap().working_state.unwrap();
    serde_json::from_str(&state.profile_state_json).unwrap()
}

#[tokio::test]
async fn the_three_conversations_have_typed_answers_with_sources() {
    let (sandbox, client, [statement, report, workbook]) = start().await;

    let events = client.send(question("", EXPENSE)).await.unwrap();
    let thread = events.thread();
    let events = events.end().await;
    let names: Vec<&str> = events.iter().map(crate::client::event_name).collect();
    let position = |name: &str| names.iter().rposition(|found| *found == name).unwrap();
    assert_eq!(names.iter().filter(|name| **name == "node_ended").count(), 3, "{names:?}");
    assert!(!names.contains(&"text_delta"), "{names:?}");
    let answered = events.iter().find_map(|event| match event.kind.as_ref().unwrap() {
        v1::event::Kind::NodeEnded(ended) => ended.node.clone().filter(|node| node.name == "qa_agent"),
        _ => None,
    });
    let answered = answered.unwrap().end.unwrap().answer_json;
    let Some(v1::event::Kind::Completed(completed)) = events.last().and_then(|event| event.kind.clone()) else {
        panic!("{names:?}")
    };
    assert_eq!(answered, completed.answer_json, "the answer is sent before the memory is updated");
    assert!(position("node_ended") < position("completed"));
    assert_eq!(completed.answer_type, "AnswerResponse");
    let found = answer(&completed);
    assert_eq!(found["answer"], "The total operating expense for product line A in March is $1,238,450.");
    assert_eq!((&found["question"], &found["sources"]), (&json!(EXPENSE), &json!([statement])));
    assert_eq!(completed.text, found["answer"].as_str().unwrap());
    let passage = &found["passages"][0];
    assert_eq!((&passage["document_id"], &passage["page"]), (&json!(statement), &json!(1)), "{found}");
    assert!(passage["quote"].as_str().unwrap().contains("$1,238,450"), "{found}");
    assert!(found["timestamp"].as_str().unwrap().ends_with('Z'), "{found}");

    let completed = client.send(question(&thread, RISKS)).await.unwrap().completed().await;
    let found = answer(&completed);
    assert_eq!((completed.answer_type.as_str(), &found["sources"]), ("SummarizationResponse", &json!([report])));
    assert_eq!((found["key_points"].clone(), &found["summary"]), (json!(KEY_POINTS), &json!(SUMMARY)));

    let completed = client.send(question(&thread, MARGIN)).await.unwrap().completed().await;
    let found = answer(&completed);
    assert_eq!((completed.answer_type.as_str(), &found["sources"]), ("CalculationResponse", &json!([workbook])));
    assert_eq!((&found["expression"], &found["result"]), (&json!("4200 - (1200 + 0.12*4200)"), &json!(2496)));
    assert_eq!(completed.text, "4200 - (1200 + 0.12*4200) = 2496");

    let state = memory(&client, &thread).await;
    let actions = ["qa_agent", "summarization_agent", "calculation_agent"];
    let actions: Vec<&str> =
        actions.into_iter().flat_map(|agent| ["classify_intent", agent, "update_memory"]).collect();
    assert_eq!(state["actions_taken"], json!(actions));
    assert_eq!(state["tools_used"], json!(["retrieve_documents", "calculator"]));
    assert_eq!(state["active_documents"], json!([workbook, report, statement]));
    assert_eq!(state["numeric_results"], json!([{ "expression": "4200 - (1200 + 0.12*4200)", "result": 2496 }]));
    let summary = state["conversation_summary"].as_str().unwrap();
    assert!(summary.contains("the finances and the risks"), "{summary}");
    assert_eq!((&state["session_id"], &state["next_step"]), (&json!(thread), &json!("calculation_agent")));
    assert_eq!((&state["intent"]["intent_type"], &state["current_response"]), (&json!("calculation"), &found));
    assert_eq!(state["user_input"], json!(MARGIN));

    let request = v1::ListToolUsesRequest { thread_id: thread.clone(), ..Default::default() };
    let mut threads: ThreadServiceClient<_> = client.threads.clone();
    let uses = threads.list_tool_uses(request).await.unwrap().into_inner();
    let used: Vec<(&str, &str)> =
        uses.tool_uses.iter().map(|found| (found.tool.as_str(), found.node.as_str())).collect();
    assert_eq!(
        used,
        [
            ("retrieve_documents", "qa_agent"),
            ("retrieve_documents", "summarization_agent"),
            ("retrieve_documents", "calculation_agent"),
            ("calculator", "calculation_agent"),
        ]
    );
    assert!(uses.tool_uses.iter().all(|found| found.time.is_some()), "{uses:?}");
    assert_eq!(uses.tool_uses[3].output, "\"Result: 2496\"");

    // A fork after the first answer has the memory of that time.
    let fork = v1::ForkThreadRequest { thread_id: thread.clone(), message_count: Some(2), ..Default::default() };
    let forked = threads.fork_thread(fork).await.unwrap().into_inner().thread.unwrap();
    let forked: Value = serde_json::from_str(&forked.working_state.unwrap().profile_state_json).unwrap();
    assert_eq!(forked["actions_taken"], json!(["classify_intent", "qa_agent", "update_memory"]));

    // A message that replaces those after the first answer continues with the memory of that time, too.
    let replaced = v1::ChatRequest { truncate_to_message_count: Some(2), ..question(&thread, RISKS) };
    client.send(replaced).await.unwrap().completed().await;
    let restored = memory(&client, &thread).await;
    assert_eq!(restored["actions_taken"], json!(actions[..6]));
    assert_eq!((&restored["numeric_results"], &restored["tools_used"]), (&json!([]), &json!(["retrieve_documents"])));
    drop(sandbox);
}

#[tokio::test]
async fn the_command_line_asks_about_named_documents() {
    let (sandbox, _, [statement, ..]) = start().await;
    let ask = |arguments: &[&str]| {
        let output = folio(sandbox.folder(), &[&["ask"], arguments].concat(), &[], "");
        assert!(output.status.success(), "{arguments:?}: {}", text(&output.stderr));
        text(&output.stdout)
    };
    let shown = ask(&[EXPENSE, "--document", "financial_statement_march.pdf"]);
    assert!(shown.contains("$1,238,450.") && shown.contains("[1] financial_statement_march.pdf, page 1:"), "{shown}");
    let found: Value = serde_json::from_str(&ask(&[EXPENSE, "--output", "json"])).unwrap();
    assert_eq!((&found["type"], &found["answer"]["sources"]), (&json!("AnswerResponse"), &json!([statement])));
    let thread = found["thread_id"].as_str().unwrap();
    let next: Value = serde_json::from_str(&ask(&[MARGIN, "--thread", thread, "--output", "json"])).unwrap();
    assert_eq!((&next["answer"]["result"], &next["thread_id"]), (&json!(2496), &json!(thread)));

    let listed = json_of(sandbox.folder(), &["thread", "list", "--profile", "assistant"]);
    let threads = listed.as_array().unwrap();
    assert!(threads.len() == 2 && threads.iter().any(|listed| listed["thread_id"] == thread), "{listed}");
    let memory = json_of(sandbox.folder(), &["thread", "show", thread])["memory"].clone();
    assert_eq!(memory["numeric_results"][0]["result"], json!(2496), "{memory}");
    let log = json_of(sandbox.folder(), &["thread", "tools", thread, "--tool", "calculator"]);
    let [call] = log.as_array().unwrap().as_slice() else { panic!("{log}") };
    assert_eq!((&call["status"], &call["node"]), (&json!("ok"), &json!("calculation_agent")));
    assert_eq!(call["input"], json!({ "expression": "4200 - (1200 + 0.12*4200)" }));
    assert_eq!(call["output"], json!("\"Result: 2496\""));
}

/// Without a model in the settings, the offline model answers: by quotes of documents and by the calculator.
#[tokio::test]
async fn the_assistant_answers_without_a_model() {
    let folder = tempfile::tempdir().unwrap();
    let arguments = ["serve", "--listen", "127.0.0.1:0", "--data", "data"];
    let server = Process::start("folio", folder.path(), &arguments, &[]);
    let (url, token) = (server.url(), std::fs::read_to_string(folder.path().join("data/admin.token")).unwrap());
    let client = Client::connect(&url, Some(token.trim())).await;
    let documents = upload(&client).await;
    let environment = [("FOLIO_SERVER", url.as_str()), ("FOLIO_TOKEN", token.trim())];
    wait_for_index(folder.path(), &environment, &documents).await;
    let ask = |arguments: &[&str]| -> Value {
        let output = folio(folder.path(), &[&["ask", "--json"], arguments].concat(), &environment, "");
        assert!(output.status.success(), "{arguments:?}: {}", text(&output.stderr));
        serde_json::from_str(&text(&output.stdout)).unwrap()
    };
    let [statement, report, _] = &documents;
    let found = ask(&[EXPENSE]);
    let answer = found["answer"]["answer"].as_str().unwrap();
    assert_eq!((&found["type"], &found["answer"]["sources"][0]), (&json!("AnswerResponse"), &json!(statement)));
    assert!(answer.contains("$1,238,450") && answer.contains("no LLM"), "{found}");
    assert!(found["answer"]["confidence"].as_f64().unwrap() <= 0.5, "{found}");
    let question = "What is the total operating expense for product line A?";
    let output = folio(folder.path(), &["search", "--answer", question, "--output", "json"], &environment, "");
    assert!(output.status.success(), "{}", text(&output.stderr));
    let quoted = text(&output.stdout);
    assert!(quoted.contains("$1,238,450") && quoted.contains("no LLM"), "{quoted}");
    let thread = found["thread_id"].as_str().unwrap();
    let found = ask(&["Summarize the compliance report", "--thread", thread]);
    assert_eq!((&found["type"], &found["answer"]["sources"]), (&json!("SummarizationResponse"), &json!([report])));
    assert!(!found["answer"]["key_points"].as_array().unwrap().is_empty(), "{found}");
    let found = ask(&["Calculate 4200 - (1200 + 0.12*4200)", "--thread", thread]);
    assert_eq!((&found["type"], &found["answer"]["result"]), (&json!("CalculationResponse"), &json!(2496)));
    let memory = memory(&client, thread).await;
    let summary = memory["conversation_summary"].as_str().unwrap();
    assert!(summary.contains("Answer: 4200 - (1200 + 0.12*4200) = 2496"), "{memory}");
    assert_eq!(memory["actions_taken"].as_array().unwrap().len(), 9, "{memory}");
}

#[tokio::test]
async fn the_command_line_asks_about_the_documents_of_a_tag_or_a_collection() {
    let (sandbox, client, _) = start().await;
    let tag = v1::Tag { name: "subsidiary".to_owned(), ..Default::default() };
    let create = v1::CreateTagRequest { tag: Some(tag), ..Default::default() };
    let tag = client.tags.clone().create_tag(create).await.unwrap().into_inner().tag.unwrap().tag_id;
    let description =
        v1::DocumentDescription { name: "subsidiary.txt".to_owned(), tag_ids: vec![tag.clone()], ..Default::default() };
    let text_of = b"March statement of the subsidiary. Product line A has a total operating expense of $7.";
    let document = client.try_upload_as(description, text_of).await.unwrap().document_id;
    let collection = v1::Collection { name: "Subsidiaries".to_owned(), tag_ids: vec![tag], ..Default::default() };
    let create = v1::CreateCollectionRequest { collection: Some(collection), ..Default::default() };
    CollectionServiceClient::new(client.channel.clone()).create_collection(create).await.unwrap();
    wait_for("the document is indexed", LIMIT, || async {
        let found = search(sandbox.folder(), &[], "subsidiary");
        (found[0]["document_id"] == json!(document)).then_some(())
    })
    .await;
    for flag in [["--tag", "subsidiary"], ["--collection", "subsidiaries"]] {
        let output = folio(sandbox.folder(), &[&["ask", EXPENSE, "--json"][..], &flag[..]].concat(), &[], "");
        assert!(output.status.success(), "{flag:?}: {}", text(&output.stderr));
        let found: Value = serde_json::from_str(&text(&output.stdout)).unwrap();
        assert_eq!(found["answer"]["sources"], json!([document]), "{flag:?}: {found}");
    }
    let unknown = folio(sandbox.folder(), &["ask", EXPENSE, "--collection", "none"], &[], "");
    assert!(!unknown.status.success() && text(&unknown.stderr).contains("none"), "{}", text(&unknown.stderr));
}

//! The progress of jobs and of the agent on a terminal.

use folio_tests::harness::settings::INVOICE;

use crate::command_line::{folio, text};
use crate::sandbox::Sandbox;
use crate::terminal::Terminal;

const COLUMNS: u16 = 160;

/// The gate `g` holds the extraction of the document A-18, and the second round of the agent.
const SCRIPT: &str = "
rules:
  - when: {user: {contains: Extract the data}, round: 2}
    fault: {hold: {gate: g}}
    answer: {calls: [{name: complete_extraction}]}
  - when: {user: {contains: Extract the data}}
    rounds:
      - calls:
          - {name: get_document_text}
          - {name: extract_fields, arguments: {fields: {total: 957}, confidences: {total: 0.75}}}
      - text: This answer is replaced by the first rule.
      - text: The total is 957.
  - when: {user: {contains: A-18}}
    fault: {hold: {gate: g}}
    answer: {text: '{\"total\": 957}'}
  - answer: {text: '{\"total\": 957}'}
";

/// Starts a server with a prompt. Returns the variables of commands, too.
async fn start() -> (Sandbox, [(&'static str, String); 2]) {
    let sandbox = Sandbox::start(SCRIPT).await;
    let variables = [("FOLIO_SERVER", sandbox.url()), ("FOLIO_TOKEN", sandbox.token())];
    let created =
        folio(sandbox.folder(), &["prompt", "create", "Totals", "-"], &borrowed(&variables), "Read the total.");
    assert!(created.status.success(), "{}", text(&created.stderr));
    (sandbox, variables)
}

fn borrowed<'a>(variables: &'a [(&'static str, String); 2]) -> [(&'static str, &'a str); 2] {
    variables.each_ref().map(|(name, value)| (*name, value.as_str()))
}

#[tokio::test]
async fn a_batch_shows_a_bar_of_its_items() {
    let (sandbox, variables) = start().await;
    let client = sandbox.client().await;
    for (name, number) in [("first.txt", "A-17"), ("second.txt", "A-18")] {
        client.upload(name, INVOICE.replace("A-17", number).as_bytes()).await;
    }
    let arguments = ["batch", "Totals", "--all"];
    let mut batch = Terminal::start_in(COLUMNS, sandbox.folder(), &arguments, &borrowed(&variables));
    batch.until("runs the prompt, also if this command ends").await;
    batch.until("running, 1 of 2 done").await;
    batch.until("1/2").await;
    sandbox.sim.open_gate("g").await;
    assert!(batch.ended().await.success(), "{}", batch.shown());
    assert!(batch.shown().contains("completed") && batch.shown().contains("2 of 2 done"), "{}", batch.shown());
}

#[tokio::test]
async fn an_extraction_by_the_agent_shows_its_tool_calls() {
    let (sandbox, variables) = start().await;
    std::fs::write(sandbox.folder().join("invoice.txt"), INVOICE).unwrap();
    let arguments = ["extract", "invoice.txt", "--prompt", "Totals", "--agent"];
    let mut extract = Terminal::start_in(COLUMNS, sandbox.folder(), &arguments, &borrowed(&variables));
    extract.until("runs the agent, also if this command ends").await;
    extract.until("the agent calls extract_fields").await;
    sandbox.sim.open_gate("g").await;
    assert!(extract.ended().await.success(), "{}", extract.shown());
    let shown = extract.shown();
    assert!(shown.contains("read by an agent") && shown.contains("957.00"), "{shown}");
}

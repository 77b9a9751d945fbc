//! `folio stack`: a table over documents, from the proposal of its columns to its export.

use serde_json::{Value, json};

use crate::data_commands::{json_of, printed, refused};
use crate::sandbox::{INVOICE, Sandbox};

const SCRIPT: &str = "
rules:
  - when: {user: {contains: Fill the missing cells}}
    rounds:
      - calls: [{name: get_table_state}]
      - calls:
          - name: extract_row
            arguments:
              document_id: '{{last.get_table_state.rows.0.document_id}}'
              cells:
                - {column: Vendor, value: ACME, confidence: 0.9}
                - {column: Total, value: 957, confidence: 0.5}
      - text: Filled.
  - when: {user: {contains: owe}}
    rounds:
      - calls:
          - name: define_columns
            arguments:
              columns:
                - {name: Vendor, type: text}
                - {name: Total, type: number, unit: EUR}
      - text: Defined.
  - answer: {text: Nothing to do.}
";

#[tokio::test]
async fn the_command_line_serves_a_table_from_the_proposal_of_its_columns_to_its_export() {
    let sandbox = Sandbox::start(SCRIPT).await;
    let (folder, url, token) = (sandbox.folder(), sandbox.url(), sandbox.token());
    printed(folder, &["login", &url], &format!("{token}\n"));
    std::fs::write(folder.join("invoice.txt"), INVOICE).unwrap();
    json_of(folder, &["document", "add", "invoice.txt"]);
    let stack = |arguments: &[&str]| json_of(folder, &[&["stack"][..], arguments].concat());
    stack(&["create", "bills", "--document", "invoice.txt", "--approve-from", "0.8"]);

    let proposed = stack(&["message", "bills", "What do we owe?"]);
    assert_eq!(proposed["status"], "waiting_for_approval", "{proposed}");
    assert_eq!(proposed["calls"][0]["tool"], "define_columns", "{proposed}");
    assert_eq!(stack(&["get", "bills"])["columns"], json!([]), "before the approval");
    let answered = stack(&["answer", proposed["turn_id"].as_str().unwrap()]);
    assert_eq!((&answered["status"], &answered["text"]), (&json!("completed"), &json!("Defined.")), "{answered}");
    assert_eq!(stack(&["get", "bills"])["columns"][1]["unit"], "EUR");
    let thread = proposed["thread_id"].as_str().unwrap();
    let further = stack(&["message", "bills", "Thank you.", "--thread", thread]);
    assert_eq!((&further["text"], &further["thread_id"]), (&json!("Nothing to do."), &json!(thread)), "{further}");

    let ended = stack(&["fill", "bills", "--budget", "1000"]);
    assert_eq!(ended["state"], "completed", "{ended}");
    assert_eq!(stack(&["rows", "bills", "--waiting"]).as_array().map(Vec::len), Some(1));
    let row = ["bills", "invoice.txt"];
    let cells = stack(&[&["row"][..], &row].concat());
    let states = |cells: &Value| [0, 1].map(|at: usize| (cells[at]["state"].clone(), cells[at]["waiting"].clone()));
    assert_eq!(states(&cells), [(json!("approved"), json!(false)), (json!("filled"), json!(true))], "{cells}");
    for (command, expected) in [("approve", "approved"), ("reject", "rejected"), ("reset", "filled")] {
        let decided = stack(&[&[command][..], &row, &["Total"]].concat());
        assert_eq!(decided["states"]["Total"], expected, "{decided}");
    }
    stack(&[&["set"][..], &row, &["Total", "957.5"]].concat());
    assert_eq!(stack(&["ask", "bills", "sum:Total"])[0]["sum:Total"], "957.5 EUR");
    assert_eq!(stack(&["ask", "bills", "count", "--where", "Total=957.50"])[0]["count"], "1");

    std::fs::write(folder.join("column.json"), r#"{"name": "Gross", "type": "number"}"#).unwrap();
    assert_eq!(stack(&["column", "bills", "total", "column.json"])["columns"][1]["name"], "Gross");
    assert!(refused(folder, &["stack", "update", "bills"], "").contains("nothing to change"));
    let update = ["update", "bills", "--name", "invoices", "--no-review-rule", "--auto-fill", "on"];
    let updated = stack(&[&update[..], &["--auto-fill-budget", "50"]].concat());
    assert_eq!((&updated["name"], &updated["min_confidence"]), (&json!("invoices"), &Value::Null), "{updated}");
    assert_eq!(updated["auto_fill"], true, "{updated}");
    let csv = printed(folder, &["stack", "export", "invoices", "--output", "csv"], "");
    assert!(csv.lines().nth(1).is_some_and(|line| line.ends_with(",ACME,957.5")), "{csv}");
}

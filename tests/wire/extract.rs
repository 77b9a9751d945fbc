//! Tests of `folio extract`, which extracts data from files, and of `folio extraction export`, which writes extracted data
//! to files.

use std::io::Cursor;
use std::path::Path;
use std::process::Stdio;

use calamine::{Data, Reader as _, Xlsx};
use folio_testkit::invoice::sample_invoice;
use folio_testkit::office::xlsx;
use folio_tests::eval::documents;
use serde_json::{Value, json};
use zip::ZipArchive;

use crate::command_line::{folio, text};
use crate::process::{binary, command};
use crate::sandbox::Sandbox;

/// Creates a folder with two PDFs and a broken file with the extension `pdf`.
fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, bytes: &[u8]| std::fs::write(folder.path().join(name), bytes).unwrap();
    write("invoice.pdf", &sample_invoice());
    write("other.pdf", &documents::bytes("invoice-en.pdf").unwrap().expect("a document"));
    write("broken.pdf", b"%PDF-1.7\nthis is no PDF");
    folder
}

/// Returns stdout and stderr of a command that ends with this status.
fn ended(folder: &Path, arguments: &[&str], status: i32) -> (String, String) {
    let output = folio(folder, arguments, &[], "");
    let (out, errors) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(status), "{arguments:?}: {out}{errors}");
    (out, errors)
}

/// Returns the rows of a sheet as texts.
fn sheet(workbook: &mut Xlsx<Cursor<Vec<u8>>>, name: &str) -> Vec<Vec<String>> {
    let range = workbook.worksheet_range(name).unwrap_or_else(|error| panic!("{name}: {error}"));
    range.rows().map(|row| row.iter().map(Data::to_string).collect()).collect()
}

/// Returns each row of a CSV file as an object with the names of the columns as keys.
fn csv_rows(file: impl std::io::Read) -> Vec<Value> {
    let mut reader = csv::Reader::from_reader(file);
    let header = reader.headers().unwrap().clone();
    let row = |record: csv::Result<csv::StringRecord>| {
        let record = record.unwrap();
        Value::Object(header.iter().zip(&record).map(|(name, cell)| (name.to_owned(), json!(cell))).collect())
    };
    reader.records().map(row).collect()
}

#[test]
fn files_are_extracted_offline_and_an_unreadable_file_does_not_stop_the_others() {
    let folder = folder();
    let files = ["extract", "invoice.pdf", "broken.pdf", "other.pdf"];
    let (out, errors) = ended(folder.path(), &files, 1);
    assert!(errors.contains("folio: broken.pdf: the file has no text"), "{errors}");
    for note in ["is no LLM", "the results are not stored", "derived the schema", "\"invoice_number\": {"] {
        assert!(errors.contains(note), "{note:?} in:\n{errors}");
    }
    assert!(!errors.contains("extracting"), "no progress without a terminal: {errors}");
    let row = ["invoice_number", "INV-2026-0417", "located", "1"];
    let is_row = |line: &&str| line.split_whitespace().take(row.len()).eq(row);
    assert_eq!(out.lines().filter(is_row).count(), 1, "{out}");
    assert_eq!(out.lines().filter(|line| line.starts_with("FIELD ")).count(), 2, "{out}");
    assert!(out.starts_with("invoice.pdf  ext_") && out.contains("\nother.pdf  ext_"), "{out}");
    assert!(!folder.path().join("folio-data").exists(), "the temporary stores are removed");

    let (out, _) = ended(folder.path(), &[&files[..], &["--json"]].concat(), 1);
    let records: Value = serde_json::from_str(&out).unwrap();
    let names: Vec<&str> =
        records.as_array().unwrap().iter().map(|record| record["document"].as_str().unwrap()).collect();
    assert_eq!(names, ["invoice.pdf", "other.pdf"]);
    assert_eq!(
        (&records[0]["data"]["invoice_number"], &records[0]["data"]["total"]),
        (&json!("INV-2026-0417"), &json!(957.0))
    );
    let citations = records[0]["citations"].as_array().unwrap();
    let number = citations.iter().find(|citation| citation["path"] == "invoice_number").expect("the number is located");
    assert_eq!((&number["page"], &number["quote"]), (&json!(1), &json!("INV-2026-0417")));

    let (out, errors) = ended(folder.path(), &["extract", "missing.pdf", "broken.pdf", "--json"], 2);
    assert!(out.is_empty() && errors.contains("missing.pdf cannot be read"), "{out}{errors}");
    let (_, errors) = ended(folder.path(), &["extract", "invoice.pdf", "--prompt", "Totals"], 1);
    assert!(errors.contains("no prompt matches \"Totals\""), "{errors}");
    for (to, reason) in [("a.xls", "no format has this extension"), ("missing/a.csv", "missing is not a folder")] {
        let (out, errors) = ended(folder.path(), &["extract", "invoice.pdf", "--to", to], 1);
        assert!(out.is_empty() && errors.contains(to) && errors.contains(reason), "{out}{errors}");
        assert!(!errors.contains("derived"), "the output is checked before the files are read: {errors}");
    }
}

#[test]
fn a_password_opens_only_pdfs() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("a.txt"), "Total: 12").unwrap();
    let output = folio(folder.path(), &["extract", "a.txt", "--password"], &[], "open\n");
    let errors = text(&output.stderr);
    assert!(output.status.code() == Some(1) && errors.contains("only a PDF has a password"), "{errors}");
}

#[test]
fn a_stored_prompt_and_schema_are_used_again() {
    let folder = folder();
    let folder = folder.path();
    let data = ["--data", "data"];
    let (_, derived) = ended(folder, &[&["extract", "invoice.pdf"][..], &data].concat(), 0);
    let (_, again) = ended(folder, &[&["extract", "invoice.pdf", "other.pdf"][..], &data].concat(), 0);
    assert!(derived.contains("derived the prompt") && again.contains("was derived from this file earlier"), "{again}");
    let schema = json!({
        "type": "object", "properties": {"total": {"type": "number"}}, "required": ["total"], "additionalProperties": false
    });
    std::fs::write(folder.join("totals.json"), schema.to_string()).unwrap();
    let extract = ["extract", "invoice.pdf", "--schema", "totals.json", "--output", "jsonl"];
    let extracted = || {
        let (out, errors) = ended(folder, &[&extract[..], &data].concat(), 0);
        assert!(!errors.contains("derived"), "{errors}");
        serde_json::from_str::<Value>(&out).unwrap()
    };
    let (first, second) = (extracted(), extracted());
    assert_eq!(first["data"], json!({"total": 957.0}));
    assert_ne!(first["extraction_id"], second["extraction_id"]);
    for member in ["document_id", "prompt_revid", "schema_revid"] {
        assert_eq!(first[member], second[member], "{member}");
    }
}

#[test]
fn the_agent_extracts_a_file_offline() {
    let folder = folder();
    let (out, errors) = ended(folder.path(), &["extract", "invoice.pdf", "--agent"], 0);
    assert!(out.contains("page, read by an agent,"), "{out}{errors}");
    let row = ["invoice_number", "INV-2026-0417", "located", "1"];
    let is_row = |line: &&str| line.split_whitespace().take(row.len()).eq(row);
    assert_eq!(out.lines().filter(is_row).count(), 1, "{out}");
}

#[test]
fn an_export_to_a_file_has_a_table_for_each_nested_list() {
    let folder = folder();
    let folder = folder.path();
    let data = ["--data", "data"];
    let run = |arguments: &[&str]| ended(folder, &[arguments, &data].concat(), 0);
    let (out, errors) = run(&["extract", "invoice.pdf", "--to", "invoice.xlsx", "--citations"]);
    assert!(out.is_empty() && errors.contains("wrote invoice.xlsx"), "{out}{errors}");
    let mut workbook = Xlsx::new(Cursor::new(std::fs::read(folder.join("invoice.xlsx")).unwrap())).unwrap();
    let rows = sheet(&mut workbook, "extractions");
    let at = rows[0].iter().position(|column| column == "data.invoice_number").expect("a column for the number");
    assert_eq!((rows.len(), rows[1][at].as_str()), (2, "INV-2026-0417"));
    assert_eq!(sheet(&mut workbook, "items").len(), 5, "a header and four items");
    let citations = sheet(&mut workbook, "citations");
    assert!(citations.iter().any(|row| row.contains(&"invoice_number".to_owned())), "{citations:?}");

    let (out, errors) = run(&["extraction", "export", "--to", "all.csv"]);
    assert!(out.is_empty() && errors.contains("is a ZIP archive"), "{out}{errors}");
    let mut archive = ZipArchive::new(std::fs::File::open(folder.join("all.csv")).unwrap()).unwrap();
    let extractions = csv_rows(archive.by_name("extractions.csv").unwrap());
    assert_eq!(extractions.len(), 1);
    assert_eq!(extractions[0]["data.invoice_number"], "INV-2026-0417");
    let items = csv_rows(archive.by_name("data.items.csv").unwrap());
    assert_eq!(items.len(), 4);
    assert_eq!(items[0]["extraction_id"], extractions[0]["extraction_id"]);
    assert!(archive.by_name("citations.csv").is_err(), "the citations were not requested");

    let (lines, _) = run(&["extraction", "export", "invoice.pdf", "--citations"]);
    let record: Value = serde_json::from_str(&lines).unwrap();
    assert!(!record["citations"].as_array().unwrap().is_empty());
    let (none, _) = run(&["extraction", "export", "--verified", "--output", "json"]);
    assert_eq!(none, "[]\n");
    let (shown, _) = run(&["extraction", "show", record["extraction_id"].as_str().unwrap()]);
    let row = ["invoice_number", "INV-2026-0417", "located", "1"];
    let is_row = |line: &str| line.split_whitespace().take(row.len()).eq(row);
    assert!(shown.lines().any(is_row) && shown.contains("coverage"), "{shown}");
    let (_, errors) = ended(folder, &["extraction", "export", "--data", "data", "--to", "missing/a.json"], 1);
    assert!(errors.contains("missing/a.json cannot be written"), "{errors}");
}

#[tokio::test]
async fn a_value_of_a_workbook_has_its_cell_in_each_output() {
    let sandbox = Sandbox::start("rules:\n  - answer: {text: '{\"total\": 957.25}'}\n").await;
    let (folder, url, token) = (sandbox.folder(), sandbox.url(), sandbox.token());
    let cells: &[_] = &[("B3", "inlineStr", "Position"), ("B5", "inlineStr", "Total"), ("C5", "n", "957.25")];
    std::fs::write(folder.join("book.xlsx"), xlsx(&[("Cover", &[("A1", "n", "1")]), ("Costs", cells)])).unwrap();
    let schema = json!({
        "type": "object", "properties": {"total": {"type": "number"}}, "required": ["total"], "additionalProperties": false
    });
    std::fs::write(folder.join("schema.json"), schema.to_string()).unwrap();
    let variables = [("FOLIO_SERVER", url.as_str()), ("FOLIO_TOKEN", token.as_str())];
    let run = |arguments: &[&str], input: &str| {
        let output = folio(folder, arguments, &variables, input);
        assert!(output.status.success(), "{arguments:?}: {}", text(&output.stderr));
        (text(&output.stdout), text(&output.stderr))
    };
    let extract = ["extract", "book.xlsx", "--schema", "schema.json"];
    let (json, _) = run(&[&extract[..], &["--json"]].concat(), "");
    let records: Value = serde_json::from_str(&json).unwrap();
    let citation = &records[0]["citations"][0];
    assert_eq!(
        (&citation["page"], &citation["section"], &citation["cell"]),
        (&json!(2), &json!("Costs"), &json!("C5"))
    );
    let (table, _) = run(&extract, "");
    let row = ["total", "957.25", "located", "2", "Costs!C5", "957.25"];
    assert!(table.lines().any(|line| line.split_whitespace().eq(row)), "{table}");
    let (csv, _) = run(&["extraction", "export", "--citations", "--to", "all.zip"], "");
    assert!(csv.is_empty());
    let mut archive = ZipArchive::new(std::fs::File::open(folder.join("all.zip")).unwrap()).unwrap();
    let rows = csv_rows(archive.by_name("citations.csv").unwrap());
    assert!(!rows.is_empty() && rows.iter().all(|row| row["cell"] == "C5"), "{rows:?}");
    let id = records[0]["extraction_id"].as_str().unwrap();
    let (_, card) = run(&["review", id], "q\n");
    assert!(card.contains("located on page 2, cell Costs!C5"), "{card}");

    run(&["review", id], "e 958\n");
    let (lines, _) = run(&["extraction", "export", "--citations"], "");
    let records: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(records.len(), 2, "{lines}");
    for record in records {
        let is_edited = record["extraction_id"] == *id;
        assert_eq!(record["data"]["total"], if is_edited { json!(958) } else { json!(957.25) }, "{record}");
        let citations = record["citations"].as_array().unwrap();
        assert_eq!(citations.len(), usize::from(!is_edited), "an edited value has no citation: {record}");
        assert_eq!(record["reviews"].as_array().unwrap().len(), usize::from(is_edited), "{record}");
    }
}

#[tokio::test]
async fn a_command_whose_output_is_closed_ends_quietly() {
    let sandbox = Sandbox::start("rules:\n  - answer: {text: '{}'}\n").await;
    sandbox.with_document().await;
    let (url, token) = (sandbox.url(), sandbox.token());
    for arguments in [
        &["audit", "list"][..],
        &["audit", "export"],
        &["token", "list"],
        &["credit", "balance"],
        &["credit", "usage"],
        &["document", "list"],
        &["document", "text", "invoice.txt"],
        &["extraction", "export", "--output", "json"],
        &["status"],
    ] {
        let variables = [("FOLIO_SERVER", url.as_str()), ("FOLIO_TOKEN", token.as_str())];
        let mut command = command(binary("folio"), sandbox.folder(), &variables);
        let command = command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut closed = command.spawn().unwrap();
        drop(closed.stdout.take());
        let output = closed.wait_with_output().unwrap();
        assert!(output.status.success() && output.stderr.is_empty(), "{arguments:?}: {}", text(&output.stderr));
    }
}

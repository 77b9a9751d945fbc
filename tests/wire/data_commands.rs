//! The data commands of the command line, with a server and on the stores of a folder.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use folio_proto::v1;
use serde_json::{Value, json};

use crate::client::Client;
use crate::command_line::{folio, text};
use crate::process::Process;
use crate::sandbox::{INVOICE, Sandbox};

/// The model answers each extraction with these data.
const SCRIPT: &str = "
rules:
  - answer: {text: '{\"total\": 12.5}'}
";

/// Returns the output of a command that succeeds.
pub(crate) fn printed(folder: &Path, arguments: &[&str], input: &str) -> String {
    let output = folio(folder, arguments, &[], input);
    assert!(output.status.success(), "{arguments:?}: {}", text(&output.stderr));
    text(&output.stdout)
}

/// Returns the JSON output of a command that succeeds.
pub(crate) fn json_of(folder: &Path, arguments: &[&str]) -> Value {
    let arguments = [arguments, &["--output", "json"]].concat();
    let out = printed(folder, &arguments, "");
    serde_json::from_str(&out).unwrap_or_else(|error| panic!("{arguments:?}: {error}: {out}"))
}

/// Returns the error output of a command that fails.
pub(crate) fn refused(folder: &Path, arguments: &[&str], input: &str) -> String {
    let output = folio(folder, arguments, &[], input);
    assert!(!output.status.success(), "{arguments:?}: {}", text(&output.stdout));
    text(&output.stderr)
}

#[tokio::test]
async fn a_login_serves_every_data_command_from_an_upload_to_an_export() {
    let sandbox = Sandbox::start(SCRIPT).await;
    let (folder, url, token) = (sandbox.folder(), sandbox.url(), sandbox.token());
    assert!(refused(folder, &["login", &url], "folio_wrong\n").contains("INVALID_TOKEN"));
    let stored = folder.join("configuration/folio/login.toml");
    assert!(!stored.exists(), "a refused token is not stored");
    printed(folder, &["login", &url], &format!("{token}\n"));
    assert_eq!(std::fs::metadata(&stored).unwrap().permissions().mode() & 0o777, 0o600);
    let status = printed(folder, &["status"], "");
    let secret = token.rsplit('_').next().unwrap();
    assert!(status.contains(&url) && status.contains("folio_") && !status.contains(secret), "{status}");
    assert!(status.contains("accepts the token"), "{status}");

    std::fs::write(folder.join("invoice.txt"), INVOICE).unwrap();
    std::fs::write(folder.join("prompt.txt"), "Read the total.").unwrap();
    let schema = json!({
        "type": "object", "properties": {"total": {"type": "number"}}, "required": ["total"], "additionalProperties": false
    });
    std::fs::write(folder.join("schema.json"), schema.to_string()).unwrap();
    let tag = json_of(folder, &["tag", "create", "invoices", "--color", "#ff8800"]);
    // The prompt and the document have no tag in common, so that the document does not run the prompt.
    printed(folder, &["tag", "create", "totals"], "");
    printed(folder, &["schema", "create", "Invoice", "schema.json"], "");
    let create = ["prompt", "create", "Total", "prompt.txt", "--schema", "invoice", "--tag", "totals"];
    printed(folder, &[&create[..], &["--temperature", "0.5"]].concat(), "");
    let prompt = json_of(folder, &["prompt", "show", "total"]);
    assert_eq!(prompt["temperature"], 0.5);
    assert_eq!((prompt["content"].as_str(), prompt["revision"].as_u64()), (Some("Read the total."), Some(1)));
    assert_eq!(json_of(folder, &["schema", "show", "invoice"])["response_format"]["json_schema"]["schema"], schema);

    let rule = ["schema", "rule", "invoice"];
    let set = json_of(folder, &[&rule[..], &["--min-confidence", "0.5", "--check", "total = 12.5"]].concat());
    assert_eq!(set["review_rule"], json!({"min_confidence": 0.5, "checks": ["total = 12.5"]}));
    let shown = json_of(folder, &["schema", "show", "invoice"]);
    assert_eq!((&shown["review_rule"], &shown["revision"]), (&set["review_rule"], &json!(1)));
    let unknown = refused(folder, &[&rule[..], &["--min-confidence", "0", "--check", "net = 1"]].concat(), "");
    assert!(unknown.contains("--check: ") && unknown.contains("net"), "{unknown}");
    assert!(refused(folder, &rule, "").contains("--min-confidence"));
    assert!(refused(folder, &[&rule[..], &["--remove", "--check", "total = 1"]].concat(), "").contains("--remove"));
    assert_eq!(json_of(folder, &[&rule[..], &["--remove"]].concat())["review_rule"], Value::Null);
    assert_eq!(json_of(folder, &["schema", "show", "invoice"])["review_rule"], Value::Null);

    let add = ["document", "add", "invoice.txt", "--tag", "invoices", "--metadata", "year=2026"];
    let added = json_of(folder, &add);
    assert_eq!(added[0]["state"], "ready");
    assert_eq!(added[0]["tag_ids"], json!([tag["tag_id"]]));
    assert_eq!(added[0]["metadata"], json!({"year": "2026"}));
    assert_eq!(json_of(folder, &add)[0]["document_id"], added[0]["document_id"], "the same file is uploaded once");
    assert_eq!(json_of(folder, &["document", "list", "--tag", "invoices"]).as_array().unwrap().len(), 1);
    assert_eq!(json_of(folder, &["document", "list", "--name", "other"]), json!([]));
    assert!(printed(folder, &["document", "list"], "").starts_with("DOCUMENT_ID"));
    assert!(printed(folder, &["document", "text", "invoice.txt"], "").contains(INVOICE.lines().next().unwrap()));
    let untagged = json_of(folder, &["document", "tag", "invoice.txt", "--remove", "invoices"]);
    assert_eq!(untagged["tag_ids"], json!([]));

    let extraction = json_of(folder, &["extraction", "run", "invoice.txt", "Total"]);
    assert_eq!(extraction["data"], json!({"total": 12.5}));
    let id = extraction["extraction_id"].as_str().unwrap();
    assert_eq!(json_of(folder, &["extraction", "show", id])["data"], extraction["data"]);
    let csv = printed(folder, &["extraction", "export", "--prompt", "Total", "--output", "csv"], "");
    let row = csv.lines().nth(1).unwrap_or_default();
    assert!(csv.starts_with("extraction_id,document,") && row.starts_with(&format!("{id},invoice.txt,")), "{csv}");
    assert!(csv.lines().count() == 2 && row.ends_with(",12.5"), "{csv}");
    let listed = json_of(folder, &["extraction", "list", "invoice.txt", "--schema", "Invoice", "--prompt", "Total"]);
    assert_eq!((&listed[0]["extraction_id"], &listed[0]["document"]), (&json!(id), &json!("invoice.txt")), "{listed}");
    for more in [&["--verified"][..], &["--tag", "invoices"], &["--from", "2100-01-01T00:00:00Z"]] {
        let selection = [&["extraction", "list"][..], more].concat();
        assert_eq!(json_of(folder, &selection), json!([]), "{more:?}");
        let export = [&["extraction", "export", "--output", "jsonl"][..], more].concat();
        assert_eq!(printed(folder, &export, ""), "", "{more:?}");
    }
    let until = ["extraction", "list", "--until", "2100-01-01T00:00:00Z", "--schema", "Invoice"];
    assert_eq!(json_of(folder, &until).as_array().map(Vec::len), Some(1));

    let job = json_of(folder, &["batch", "Total", "invoice.txt", "--no-wait"]);
    let job_id = job["job_id"].as_str().unwrap();
    let ended = json_of(folder, &["job", "watch", job_id]);
    assert_eq!((&ended["state"], &ended["progress"]), (&json!("completed"), &json!("1 of 1 done")));
    assert!(ended["items"][0]["result"]["extraction_id"].as_str().is_some_and(|other| other != id), "{ended}");
    assert_eq!(json_of(folder, &["job", "show", job_id]), ended);
    let items = json_of(folder, &["jobs", "items", job_id, "--state", "done"]);
    assert_eq!((&items[0]["number"], &items[0]["result"]), (&json!(1), &ended["items"][0]["result"]));
    assert_eq!(json_of(folder, &["job", "items", job_id, "--state", "failed"]), json!([]));
    assert!(refused(folder, &["job", "retry", job_id], "").contains("JOB_ENDED"));
    let estimate = json_of(folder, &["batch", "Total", "--name", "invoice", "--estimate"]);
    assert_eq!((&estimate["documents"], &estimate["planned_documents"]), (&json!(1), &json!(1)));
    assert!(refused(folder, &["batch", "Total"], "").contains("--all"));
    assert_eq!(json_of(folder, &["job", "list"])[0]["job_id"], job["job_id"]);
    assert_eq!(json_of(folder, &["job", "list", "--open"]), json!([]));
    for command in ["cancel", "pause", "resume"] {
        assert!(refused(folder, &["job", command, job_id], "").contains("JOB_ENDED"), "{command}");
    }

    let settings = json_of(folder, &["organization", "show"]);
    assert_eq!((&settings["tag_runs"], &settings["tag_batch_documents"]), (&json!("on"), &json!(0)));
    assert_eq!(settings["role"], "admin");
    let update = ["organization", "update", "--tag-runs", "off", "--tag-batch-documents", "20"];
    let changed = json_of(folder, &update);
    assert_eq!((&changed["tag_runs"], &changed["tag_batch_documents"]), (&json!("off"), &json!(20)));
    assert_eq!(changed["name"], settings["name"]);
    assert!(refused(folder, &["organization", "update"], "").contains("nothing to change"));
    let failed = refused(folder, &["organization", "update", "--tag-batch-documents", "1001"], "");
    assert!(failed.contains("--tag-batch-documents"), "{failed}");

    assert_eq!(json_of(folder, &["inbox"]), json!([]));
    assert_eq!(
        printed(folder, &["inbox", "--kind", "field-review", "--output", "csv"], ""),
        "kind,item_id,create_time,expire_time,roles,document_ids,subject\n"
    );

    let failed = refused(folder, &["document", "add", "missing.pdf", "--no-wait"], "");
    assert!(failed.contains("missing.pdf") && failed.contains("cannot be read"), "{failed}");
    let failed = refused(folder, &["document", "add", "prompt.txt", "--password"], "open\n");
    assert!(failed.contains("only a PDF has a password"), "{failed}");
    for (kind, item) in [("document", "invoice.txt"), ("prompt", "Total"), ("schema", "Invoice"), ("tag", "totals")] {
        printed(folder, &[kind, "rm", item], "");
        if kind == "tag" {
            printed(folder, &["tag", "rm", "invoices"], "");
        }
        assert_eq!(json_of(folder, &[kind, "list"]), json!([]), "{kind}");
    }
    printed(folder, &["logout"], "");
    assert!(!stored.exists());
    assert_eq!(printed(folder, &["logout"], ""), "no login is stored\n");
}

#[test]
fn a_data_folder_needs_no_server_and_is_used_by_one_process() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    std::fs::write(folder.join("a.txt"), "Total: 12").unwrap();
    let data = ["--data", "data"];
    let added = json_of(folder, &[&["document", "add", "a.txt"][..], &data].concat());
    assert_eq!(added[0]["state"], "ready");
    let listed = json_of(folder, &[&["document", "list"][..], &data].concat());
    assert_eq!(listed[0]["document_id"], added[0]["document_id"]);
    let both = refused(folder, &["document", "list", "--data", "data", "--server", "127.0.0.1:1"], "");
    assert!(both.contains("remove --server and FOLIO_SERVER"), "{both}");
    let model = refused(folder, &["extract", "a.txt", "--model", "nosuch", "--no-detect", "--data", "data"], "");
    assert!(model.starts_with("folio: a default model (--model"), "{model}");
    let misspelled = folio(folder, &["document", "list", "--data", "dta"], &[], "");
    assert!(text(&misspelled.stderr).contains("created the stores in dta"), "{}", text(&misspelled.stderr));
    let scheme = refused(folder, &["document", "list", "--server", "ftp://127.0.0.1:1", "--token", "x"], "");
    assert!(scheme.contains("expected HOST:PORT"), "{scheme}");
    let server = Process::start("folio", folder, &["serve", "--listen", "127.0.0.1:0", "--data", "data"], &[]);
    let refused = refused(folder, &[&["document", "list"][..], &data].concat(), "");
    assert!(refused.contains("in use by another process") && refused.contains("--server"), "{refused}");
    assert!(server.terminate());
}

#[test]
fn completions_and_man_pages_need_no_settings() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("folio.toml"), "[serer]\n").unwrap();
    assert!(printed(folder.path(), &["completions", "bash"], "").contains("extraction"));
    printed(folder.path(), &["man", "man1"], "");
    assert!(folder.path().join("man1/folio-document-add.1").is_file());
}

#[tokio::test]
async fn a_prompt_is_compared_with_verified_extractions_and_its_runs_are_deleted() {
    let sandbox = Sandbox::start(SCRIPT).await;
    let (folder, url, token) = (sandbox.folder(), sandbox.url(), sandbox.token());
    printed(folder, &["login", &url], &format!("{token}\n"));
    let schema = json!({
        "type": "object", "properties": {"total": {"type": "number"}}, "required": ["total"], "additionalProperties": false
    });
    std::fs::write(folder.join("schema.json"), schema.to_string()).unwrap();
    std::fs::write(folder.join("prompt.txt"), "Read the total.").unwrap();
    printed(folder, &["schema", "create", "Invoice", "schema.json"], "");
    printed(folder, &["prompt", "create", "Total", "prompt.txt", "--schema", "Invoice"], "");
    assert!(refused(folder, &["eval", "Total"], "").contains("--verified"));
    assert!(refused(folder, &["eval", "Total", "--verified"], "").contains("no user verified"));
    assert!(refused(folder, &["eval", "Total", "--verified", "--limit", "0"], "").contains("1..=1000"));

    let client = Client::connect(&url, Some(&token)).await;
    for (document, total) in [("first.txt", "12.5"), ("second.txt", "13")] {
        std::fs::write(folder.join(document), format!("Total: {total}")).unwrap();
        printed(folder, &["document", "add", document], "");
        let extraction = json_of(folder, &["extraction", "run", document, "Total"]);
        let extraction_id = extraction["extraction_id"].as_str().unwrap().to_owned();
        let edit = v1::UpdateExtractionFieldRequest {
            extraction_id: extraction_id.clone(),
            path: "total".to_owned(),
            value_json: total.to_owned(),
            ..Default::default()
        };
        client.extractions.clone().update_extraction_field(edit).await.unwrap();
        let verify = v1::VerifyExtractionRequest { extraction_id, verified: true, ..Default::default() };
        client.extractions.clone().verify_extraction(verify).await.unwrap();
    }
    let evaluate = |more: &[&str]| printed(folder, &[&["eval", "Total", "--verified"][..], more].concat(), "");
    let report: Value = serde_json::from_str(&evaluate(&["--json"])).unwrap();
    let total = json!({
        "field": "total", "right": 1, "wrong": 1, "missing": 0, "invented": 0, "precision": 0.5, "recall": 0.5
    });
    assert_eq!((&report["fields"], &report["total"]), (&json!([total]), &total), "{report}");
    assert_eq!((&report["documents"], &report["cost"]["model_calls"]), (&json!(2), &json!(2)), "{report}");
    let (expected, extracted) = (&report["differences"][0]["expected"], &report["differences"][0]["extracted"]);
    assert_eq!((expected, extracted), (&json!(13), &json!(12.5)), "{report}");
    assert_eq!(json_of(folder, &["extraction", "list"]).as_array().unwrap().len(), 2, "the runs are deleted");
    let table = evaluate(&["--limit", "1"]);
    assert!(table.contains(": 1 document\n") && table.contains("total wrong: expected 13, extracted 12.5"), "{table}");
}

#[tokio::test]
async fn an_administrator_creates_an_organization_whose_admin_manages_its_members() {
    let sandbox = Sandbox::start(SCRIPT).await;
    let (folder, url, token) = (sandbox.folder(), sandbox.url(), sandbox.token());
    printed(folder, &["login", &url], &format!("{token}\n"));
    let created = json_of(folder, &["organization", "create", "Acme"]);
    assert_eq!((&created["name"], &created["admin_name"]), (&json!("Acme"), &json!("admin")));
    let id = created["organization_id"].as_str().unwrap();
    let listed = json_of(folder, &["organization", "list", "--name", "acme"]);
    assert_eq!(listed[0]["organization_id"], id);

    let admin = ["--token", created["admin_token"].as_str().unwrap()];
    let member = |arguments: &[&str]| json_of(folder, &[&["member"][..], arguments, &admin].concat());
    let bo = member(&["add", "Bo", "--role", "viewer"]);
    assert_eq!((&bo["name"], &bo["role"]), (&json!("Bo"), &json!("viewer")));
    assert_eq!(member(&["list"]).as_array().map(Vec::len), Some(2));
    assert_eq!(member(&["update", "bo", "--role", "member", "--name", "Bob"])["role"], "member");
    assert_eq!(member(&["list", "--name", "Bob"])[0]["user_id"], bo["user_id"]);
    assert_eq!(member(&["rm", "Bob"])["deleted"], bo["user_id"]);
    let refused = |arguments: &[&str]| refused(folder, arguments, "");
    assert!(refused(&[&["organization", "list"][..], &admin].concat()).contains("ROLE_NOT_ALLOWED"));
    assert!(refused(&["member", "update", "admin"]).contains("--name"));

    assert!(refused(&["organization", "rm", id]).contains("--name"));
    assert!(!refused(&["organization", "rm", id, "--name", "Acne"]).is_empty());
    assert_eq!(json_of(folder, &["organization", "rm", id, "--name", "Acme"])["deleted"], id);
    assert_eq!(json_of(folder, &["organization", "list", "--name", "acme"]), json!([]));
    let none = folio(folder, &["organization", "list", "--name", "acme"], &[], "");
    assert!(text(&none.stderr).contains("the list is empty"), "{}", text(&none.stderr));
    let shown = printed(folder, &["organization", "show", "--json"], "");
    assert!(serde_json::from_str::<Value>(&shown).is_ok_and(|shown| shown["role"] == "admin"), "{shown}");
}

//! The command line: `folio demo`, `folio config`, `folio serve` on a folder.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};

use llm_sim::LlmSim;
use llm_sim::offline::MODEL;
use serde_json::Value;

use crate::process::{Process, binary, command};

/// Runs `folio` to its end in a folder.
pub(crate) fn folio(folder: &Path, arguments: &[&str], environment: &[(&str, &str)], input: &str) -> Output {
    let mut child = command(binary("folio"), folder, environment)
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("folio can be started");
    // The write fails if the program ends without reading its input.
    let _ = child.stdin.take().expect("stdin is piped").write_all(input.as_bytes());
    child.wait_with_output().expect("folio ends")
}

pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn report(output: &Output) -> Value {
    assert!(output.status.success(), "{}", text(&output.stderr));
    let out = text(&output.stdout);
    assert_eq!(out.lines().count(), 1, "stdout must be one JSON object:\n{out}");
    serde_json::from_str(&out).expect("stdout is JSON")
}

#[test]
fn the_demo_extracts_the_sample_and_prints_one_json_object() {
    let folder = tempfile::tempdir().unwrap();
    let output = folio(folder.path(), &["demo", "--json"], &[], "");
    let report = report(&output);
    let members = [
        "approvals",
        "citations",
        "conflicts",
        "coverage",
        "document",
        "extraction",
        "model",
        "prompt",
        "rounds",
        "schema",
        "usage",
    ];
    let mut found: Vec<_> = report.as_object().unwrap().keys().map(String::as_str).collect();
    found.sort_unstable();
    assert_eq!(found, members, "the members of the report");
    assert!(members.iter().all(|member| !report[*member].is_null()), "{report}");
    assert_eq!(report["extraction"]["invoice_number"], "INV-2026-0417");
    assert_eq!(report["extraction"]["total"], 957.0);
    let coverage = report["coverage"].as_str().unwrap();
    assert!(coverage.ends_with(" in 1 window, 1 model call, 38 of 38 values in the text"), "{coverage}");
    let citations = report["citations"].as_array().unwrap();
    let number = citations.iter().find(|citation| citation["path"] == "invoice_number").expect("the number is located");
    assert_eq!(number["kind"], "located");
    assert!(number["page"].as_u64() >= Some(1), "{number}");
    assert!(number["quote"].as_str().unwrap().contains("INV-2026-0417"), "{number}");
    let approved: Vec<_> =
        report["approvals"].as_array().unwrap().iter().map(|a| a["name"].as_str().unwrap()).collect();
    assert_eq!(approved, ["create_schema", "create_prompt", "run_extraction"]);
    let input_tokens = |usage: &Value| usage["input_tokens"].as_u64().unwrap();
    let (first, all) = (input_tokens(&report["rounds"][0]["usage"]), input_tokens(&report["usage"]));
    assert!(first > 1_000 && first < all, "the first model call has {first} of {all} tokens: {report}");
    let stderr = text(&output.stderr);
    assert_eq!(report["usage"]["model_calls"], 3, "one response with three calls, the extraction, the answer");
    assert!(stderr.contains(": located on page "), "stderr does not show a citation:\n{stderr}");
    for step in ["is no LLM", "Round 1", "$create_prompt.prompt_revid", "create_schema", "approved: run_extraction"] {
        assert!(stderr.contains(step), "stderr does not show {step:?}:\n{stderr}");
    }
    assert!(!folder.path().join("folio-data").exists(), "the demo removes its folder");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_demo_states_the_context_size_that_it_assumes_for_an_unknown_model() {
    let folder = tempfile::tempdir().unwrap();
    let sim = LlmSim::builder().offline_model().start().await.unwrap();
    let url = sim.url();
    let environment = [("OPENAI_API_KEY", "none"), ("OPENAI_BASE_URL", url.as_str())];
    let output = folio(folder.path(), &["demo", "--json", "--model", MODEL], &environment, "");
    let stderr = text(&output.stderr);
    assert!(output.status.success(), "{stderr}");
    let line =
        format!("model {MODEL}: its context size is unknown, 32768 tokens are assumed (setting models.providers.");
    assert!(stderr.contains(&line), "{stderr}");
}

#[test]
fn the_demo_extracts_an_unknown_file() {
    let folder = tempfile::tempdir().unwrap();
    let letter = "Nordwind Stromversorgung\n\nContract Number: 77-1203-9\nMeter Reading: 48112\nPeriod: 2026-01\n\
                  Amount due: 118.40 EUR\nPay by: 2026-02-15\n";
    std::fs::write(folder.path().join("power bill.txt"), letter).unwrap();
    let report = report(&folio(folder.path(), &["demo", "--json", "power bill.txt"], &[], ""));
    assert_eq!(report["document"]["name"], "power bill.txt");
    let values = report["extraction"].to_string();
    for value in ["77-1203-9", "48112", "118.4", "2026-02-15"] {
        assert!(values.contains(value), "{value} is not in {values}");
    }
}

#[test]
fn the_user_can_reject_a_call_of_the_demo() {
    let folder = tempfile::tempdir().unwrap();
    let replies = format!("r I want another name\n{}", "r no\n".repeat(7));
    let output = folio(folder.path(), &["demo", "--ask", "--json"], &[], &replies);
    let report = report(&output);
    let first = &report["approvals"][0];
    assert_eq!((first["decision"].as_str(), first["reason"].as_str()), (Some("rejected"), Some("I want another name")));
    let result = report["rounds"].to_string();
    assert!(result.contains("User rejected this action.") && result.contains("I want another name"), "{result}");
    assert!(report["extraction"].is_null(), "a rejected call has no effect");
}

#[test]
fn the_demo_is_plain_when_piped() {
    let folder = tempfile::tempdir().unwrap();
    let output = folio(folder.path(), &["demo"], &[], "");
    assert!(output.status.success());
    assert!(!output.stdout.contains(&0x1b) && !output.stderr.contains(&0x1b), "no color without a terminal");
    assert!(text(&output.stdout).contains("\"invoice_number\": \"INV-2026-0417\""));
}

#[test]
fn the_demo_reports_unusable_input_clearly() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("empty.pdf"), b"").unwrap();
    std::fs::write(folder.path().join("broken.pdf"), b"%PDF-1.7\nthis is no PDF").unwrap();
    for (file, word) in [("missing.pdf", "cannot be read"), ("empty.pdf", "empty"), ("broken.pdf", "no text")] {
        let output = folio(folder.path(), &["demo", file], &[], "");
        let stderr = text(&output.stderr);
        assert!(!output.status.success() && stderr.contains(word), "{file}: {stderr}");
    }
}

#[test]
fn config_shows_effective_settings_and_masks_secrets() {
    let folder = tempfile::tempdir().unwrap();
    let settings = "[server]\nlisten = \"127.0.0.1:1\"\n[models.providers.mine]\nbase_url = \"http://127.0.0.1:9/v1\"\n\
                    api_key = \"sk-very-secret\"\n[models.providers.mine.models.small]\n";
    std::fs::write(folder.path().join("folio.toml"), settings).unwrap();
    let variables = [("FOLIO_CONVERSATION__APPROVAL_TTL_SECONDS", "77"), ("FOLIO_SERVER__LISTN", "x")];
    let output = folio(folder.path(), &["config", "--listen", "127.0.0.1:2"], &variables, "");
    let (stdout, stderr) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{stderr}");
    assert!(stdout.contains("listen = \"127.0.0.1:2\"") && stdout.contains("approval_ttl_seconds = 77"), "{stdout}");
    assert!(stdout.contains("http://127.0.0.1:9/v1") && !stdout.contains("sk-very-secret"), "{stdout}");
    assert!(stderr.contains("FOLIO_SERVER__LISTN is ignored; did you mean FOLIO_SERVER__LISTEN?"), "{stderr}");

    std::fs::write(folder.path().join("folio.toml"), "[serer]\nlisten = \"x\"\n").unwrap();
    let output = folio(folder.path(), &["config"], &[], "");
    assert!(!output.status.success() && text(&output.stderr).contains("did you mean `server`?"));
}

#[test]
fn a_closed_pipe_is_not_an_error_but_a_full_disk_is() {
    let folder = tempfile::tempdir().unwrap();
    for arguments in [&["config"][..], &["demo", "--json"]] {
        let start = |out: Stdio| {
            let mut command = command(binary("folio"), folder.path(), &[]);
            command.args(arguments).stdin(Stdio::null()).stdout(out).stderr(Stdio::piped()).spawn().unwrap()
        };
        let mut closed = start(Stdio::piped());
        drop(closed.stdout.take());
        let output = closed.wait_with_output().unwrap();
        assert!(output.status.success(), "{arguments:?}: {}", text(&output.stderr));
        let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
        let output = start(full.into()).wait_with_output().unwrap();
        let stderr = text(&output.stderr);
        assert!(output.status.code() == Some(1) && stderr.contains("No space left"), "{arguments:?}: {stderr}");
    }
}

#[test]
fn the_first_start_prints_the_token_once_and_keeps_it_for_its_owner() {
    use std::os::unix::fs::PermissionsExt as _;
    let folder = tempfile::tempdir().unwrap();
    let arguments = ["serve", "--listen", "127.0.0.1:0"];
    let first = Process::start("folio", folder.path(), &arguments, &[]);
    let file = folder.path().join("folio-data/admin.token");
    assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    let token = std::fs::read_to_string(&file).unwrap();
    assert!(first.printed().contains(token.trim()) && token.starts_with("folio_"));
    assert!(first.terminate(), "the server exits with status 0");
    let second = Process::start("folio", folder.path(), &arguments, &[]);
    assert!(!second.printed().contains("folio_"), "only the first start prints the token");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), token);
    let stored = files_below(&folder.path().join("folio-data/store"));
    assert!(!stored.is_empty(), "the store has files");
    let secret = token.trim().rsplit('_').next().unwrap().as_bytes().to_vec();
    assert!(
        stored.iter().all(|(_, bytes)| !bytes.windows(secret.len()).any(|window| window == secret)),
        "only a hash is stored"
    );
    assert!(second.terminate());
}

/// Returns every file below a folder with its content, without the files that a server deletes meanwhile.
pub(crate) fn files_below(folder: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    assert!(folder.is_dir(), "{} is not a folder", folder.display());
    let (mut found, mut folders) = (Vec::new(), vec![folder.to_owned()]);
    while let Some(folder) = folders.pop() {
        for entry in unless_deleted(std::fs::read_dir(&folder)).into_iter().flatten().filter_map(unless_deleted) {
            let path = entry.path();
            if path.is_dir() {
                folders.push(path);
            } else if let Some(bytes) = unless_deleted(std::fs::read(&path)) {
                found.push((path, bytes));
            }
        }
    }
    found
}

/// Returns the result of a read. None: the file or the folder does not exist.
fn unless_deleted<T>(read: std::io::Result<T>) -> Option<T> {
    match read {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => None,
        read => Some(read.unwrap()),
    }
}

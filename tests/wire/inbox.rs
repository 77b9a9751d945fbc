//! `folio inbox` and `folio review --request`, against a real server.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Stdio};

use folio_testkit::proxy::{Mode, Proxy};
use serde_json::{Value, json};

use crate::LIMIT;
use crate::command_line::{folio, text};
use crate::process::{binary, command};
use crate::program::{Output, Running};
use crate::sandbox::Sandbox;

const SCRIPT: &str = "
rules:
  - when: {user: tags}
    rounds:
      - calls: [{name: create_tag, arguments: {name: first}}]
      - text: Created.
  - when: {system: {contains: You extract data}}
    answer: {text: '{\"total\": 957}'}
";

/// Returns the JSON output of a command that succeeds.
pub(crate) fn json_of(sandbox: &Sandbox, arguments: &[&str], input: &str) -> Value {
    let (url, token) = (sandbox.url(), sandbox.token());
    let variables = [("FOLIO_SERVER", url.as_str()), ("FOLIO_TOKEN", token.as_str())];
    let output = folio(sandbox.folder(), &[arguments, &["--output", "json"]].concat(), &variables, input);
    assert!(output.status.success(), "{arguments:?}: {}", text(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{arguments:?}: {error}"))
}

/// Returns the value of a member in each object of a list.
fn members<'a>(list: &'a Value, name: &str) -> Vec<&'a Value> {
    list.as_array().expect("a list").iter().map(|item| &item[name]).collect()
}

/// Creates a prompt.
fn prompt(sandbox: &Sandbox) {
    json_of(sandbox, &["prompt", "create", "Total", "-"], "Read the total.");
}

/// Runs the prompt on the document of the sandbox; returns the id of the extraction.
fn extract(sandbox: &Sandbox) -> String {
    let extraction = json_of(sandbox, &["extraction", "run", "invoice.txt", "Total"], "");
    extraction["extraction_id"].as_str().expect("an id").to_owned()
}

/// Starts `folio inbox --watch`. `server`: the host and the port.
fn watch(sandbox: &Sandbox, server: &str, format: &str) -> Child {
    let token = sandbox.token();
    command(binary("folio"), sandbox.folder(), &[("FOLIO_TOKEN", token.as_str())])
        .args(["inbox", "--watch", "--output", format, "--server", server])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("folio inbox starts")
}

/// A running `folio inbox --watch`.
struct Watch {
    output: Output,
    errors: Output,
    _running: Running,
}

impl Watch {
    /// `server`: the host and the port.
    fn start(sandbox: &Sandbox, server: &str) -> Self {
        let mut child = watch(sandbox, server, "jsonl");
        let output = Output::of(child.stdout.take().expect("stdout is piped"));
        let errors = Output::of(child.stderr.take().expect("stderr is piped"));
        Self { output, errors, _running: Running(child) }
    }

    /// Waits until these changes were printed and no others: the change, and the id of the item.
    async fn printed(&self, expected: &[(&str, &str)]) {
        let expected: Vec<Value> =
            expected.iter().map(|(change, id)| json!({"change": change, "item_id": id})).collect();
        let printed = || {
            let raw = self.output.raw();
            // The last line may be incomplete.
            let rows = raw.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
            let changes: Vec<Value> =
                rows.map(|row| json!({"change": row["change"], "item_id": row["item_id"]})).collect();
            (changes == expected).then_some(())
        };
        self.output.wait(&format!("{expected:?}"), printed).await;
    }
}

#[tokio::test]
async fn approvals_and_requested_reviews_wait_in_the_inbox_until_they_are_decided() {
    let sandbox = Sandbox::start(SCRIPT).await;
    let (client, document) = sandbox.with_document().await;
    prompt(&sandbox);
    let extraction = extract(&sandbox);
    let watch = Watch::start(&sandbox, sandbox.url().trim_start_matches("http://"));
    assert_eq!(json_of(&sandbox, &["inbox"], ""), json!([]), "an extraction waits only after a request");

    let requested = json_of(&sandbox, &["review", "--request", &extraction], "");
    assert_eq!(members(&requested, "extraction_id"), [&extraction]);
    assert_eq!(members(&requested, "verified"), [false]);
    assert!(requested[0]["review_requested_by"].as_str().is_some_and(|user| user.starts_with("usr_")), "{requested}");
    let first = ("waiting", extraction.as_str());
    watch.printed(&[first]).await;

    let waiting = client.chat(&document, "tags").await.pause().await;
    let second = ("waiting", waiting.turn_id.as_str());
    watch.printed(&[first, second]).await;
    let listed = json_of(&sandbox, &["inbox"], "");
    assert_eq!(members(&listed, "item_id"), [&extraction, &waiting.turn_id], "the oldest item is the first");
    assert_eq!(members(&listed, "kind"), ["field_review", "approval"]);
    assert_eq!(members(&listed, "subject"), ["0 of 1 values approved, 0 rejected", "create_tag"]);
    assert_eq!(members(&listed, "document_ids"), [&json!([document]), &json!([document])]);
    let (url, token) = (sandbox.url(), sandbox.token());
    let variables = [("FOLIO_SERVER", url.as_str()), ("FOLIO_TOKEN", token.as_str())];
    let printed = folio(sandbox.folder(), &["inbox"], &variables, "");
    assert_eq!(text(&printed.stderr), "", "one process has no index that could be lost");
    let approvals = json_of(&sandbox, &["inbox", "--kind", "approval"], "");
    assert_eq!(members(&approvals, "item_id"), [&waiting.turn_id]);

    let withdrawn = json_of(&sandbox, &["review", "--withdraw", &extraction], "");
    assert_eq!(members(&withdrawn, "review_requested_by"), [""]);
    let third = ("removed", extraction.as_str());
    watch.printed(&[first, second, third]).await;
    assert_eq!(json_of(&sandbox, &["inbox", "--kind", "field-review"], ""), json!([]));
    json_of(&sandbox, &["review", "--request", &extraction], "");
    watch.printed(&[first, second, third, first]).await;

    client.approve_all(&waiting).await;
    let fifth = ("removed", waiting.turn_id.as_str());
    watch.printed(&[first, second, third, first, fifth]).await;
    let reviewed = json_of(&sandbox, &["review", &extraction], "A\n");
    assert_eq!(members(&reviewed, "verified"), [true]);
    watch.printed(&[first, second, third, first, fifth, third]).await;
    assert_eq!(json_of(&sandbox, &["inbox"], ""), json!([]));
    assert_eq!(watch.errors.raw(), "");

    for invalid in [&["review", "--request"][..], &["review", "--request", "--withdraw", extraction.as_str()]] {
        let refused = folio(sandbox.folder(), invalid, &[], "");
        assert_eq!(refused.status.code(), Some(2), "{invalid:?}: {}", text(&refused.stderr));
    }
}

#[tokio::test]
async fn a_watch_of_the_inbox_ends_when_its_reader_ends() {
    let sandbox = Sandbox::start(SCRIPT).await;
    sandbox.with_document().await;
    prompt(&sandbox);
    json_of(&sandbox, &["review", "--request", &extract(&sandbox)], "");
    let mut running = Running(watch(&sandbox, sandbox.url().trim_start_matches("http://"), "csv"));
    let mut output = BufReader::new(running.0.stdout.take().expect("stdout is piped"));
    let mut header = String::new();
    output.read_line(&mut header).expect("a header");
    assert!(header.starts_with("change,kind,item_id,"), "{header}");
    // The inbox does not change any more.
    drop(output);
    let end = || std::future::ready(running.0.try_wait().expect("the state of the command"));
    assert!(folio_testkit::wait_for("the end of the command", LIMIT, end).await.success());
}

#[tokio::test]
async fn a_watch_of_the_inbox_continues_after_a_broken_connection_and_a_restart_of_the_server() {
    let port = |sandbox: &Sandbox| sandbox.url().rsplit(':').next().and_then(|port| port.parse::<u16>().ok());
    let mut sandbox = Sandbox::start(SCRIPT).await;
    sandbox.with_document().await;
    prompt(&sandbox);
    let (one, two) = (extract(&sandbox), extract(&sandbox));
    let (first, second) = (("waiting", one.as_str()), ("waiting", two.as_str()));
    let proxy = Proxy::start_for(1, port(&sandbox)).await;
    let watch = Watch::start(&sandbox, &proxy.address());
    json_of(&sandbox, &["review", "--request", &one], "");
    watch.printed(&[first]).await;

    proxy.cut();
    watch.errors.until("the connection broke; reconnecting", 1).await;
    json_of(&sandbox, &["review", "--request", &two], "");
    watch.printed(&[first, second]).await;

    assert!(sandbox.stop().await, "the stream does not delay the end of the server");
    // The server of another test may listen on the port now.
    proxy.set(Mode::Cut);
    sandbox.restart().await;
    json_of(&sandbox, &["review", "--withdraw", &two], "");
    proxy.set_target(port(&sandbox).expect("a port"));
    proxy.set(Mode::Pass);
    let third = ("removed", two.as_str());
    watch.printed(&[first, second, third]).await;
    json_of(&sandbox, &["review", "--request", &two], "");
    watch.printed(&[first, second, third, second]).await;
}

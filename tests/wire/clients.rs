//! The examples of the clients, against a server with the offline model. `cargo xtask clients` installs the clients for Python and
//! TypeScript, and prints the variables that name them.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use folio_proto::v1;
use folio_proto::v1::policy_service_client::PolicyServiceClient;
use folio_testkit::invoice::sample_invoice;
use serde_json::json;

use crate::client::Client;
use crate::command_line::{folio, text};
use crate::process::{Process, binary, command};
use crate::program::{Output, Running};

const MASTER_KEY: &str = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";
const SECRET: &str = "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";

/// A server without models in its settings, whose offline model answers.
struct Server {
    process: Process,
    folder: tempfile::TempDir,
    token: String,
}

impl Server {
    fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let arguments = ["serve", "--listen", "127.0.0.1:0", "--data", "data"];
        let (networks, keys) = (json!(["127.0.0.1"]).to_string(), json!([MASTER_KEY]).to_string());
        let settings =
            [("FOLIO_PROVIDERS__ALLOWED_NETWORKS", networks.as_str()), ("FOLIO_SECRETS__MASTER_KEYS", keys.as_str())];
        let process = Process::start("folio", folder.path(), &arguments, &settings);
        let token = std::fs::read_to_string(folder.path().join("data/admin.token")).unwrap().trim().to_owned();
        std::fs::write(folder.path().join("invoice.pdf"), sample_invoice()).unwrap();
        Self { process, folder, token }
    }

    /// Requires the approval of an admin for a new schema, so that an example prints a rule.
    async fn set_policy(&self) {
        let client = Client::connect(&self.process.url(), Some(&self.token)).await;
        let ask = v1::Ask { roles: vec![v1::Role::Admin.into()], not_by_requester: false };
        let rule = v1::PolicyRule {
            name: "Schemas".to_owned(),
            tools: vec!["create_schema".to_owned()],
            ruling: Some(v1::policy_rule::Ruling::Ask(ask)),
            ..v1::PolicyRule::default()
        };
        let policy = v1::Policy { rules: vec![rule], ..v1::Policy::default() };
        let request = v1::SetPolicyRequest { policy: Some(policy), ..v1::SetPolicyRequest::default() };
        PolicyServiceClient::new(client.channel).set_policy(request).await.unwrap();
    }

    /// Runs the example that extracts the data of a file, and checks its output.
    async fn run_example(&self, program: &Path, arguments: &[&OsStr]) {
        self.set_policy().await;
        let url = self.process.url();
        let environment = [("FOLIO_SERVER", url.as_str()), ("FOLIO_TOKEN", self.token.as_str())];
        let mut command = command(program, self.folder.path(), &environment);
        let output = command.args(arguments).arg("invoice.pdf").stdin(Stdio::null()).output().unwrap();
        let (out, errors) = (text(&output.stdout), text(&output.stderr));
        assert!(output.status.success(), "{out}{errors}");
        let size = sample_invoice().len();
        for line in [
            format!("sent: {size} of {size} bytes"),
            "read: invoice.pdf, 1 page(s)".to_owned(),
            "waits: create_schema; rule: Schemas; roles: admin; requester excluded: no".to_owned(),
            "waits: create_prompt; rule: none; roles: any; requester excluded: no".to_owned(),
            "batch: 1 of 1 done".to_owned(),
        ] {
            assert!(out.lines().any(|printed| printed == line), "{line:?} is missing:\n{out}{errors}");
        }
        for beginning in ["ran: create_schema, ", "answer: ", "extracted: {", "item: doc_", "error: "] {
            assert!(out.lines().any(|line| line.starts_with(beginning)), "{beginning:?} is missing:\n{out}{errors}");
        }
        let extracted = out.lines().find(|line| line.starts_with("extracted: ")).unwrap_or_default();
        assert!(extracted.contains("INV-2026-0417"), "{extracted}");
        assert!(out.contains("\"extraction_id\""), "{out}");
        assert!(out.lines().last().is_some_and(|line| line.ends_with("INVALID_ID")), "{out}");
    }

    /// Runs the example that receives events, and checks that it accepts only events of the server.
    async fn run_receiver(&self, program: &Path, example: &Path) {
        let environment = [("FOLIO_WEBHOOK_SECRET", SECRET)];
        let mut command = command(program, self.folder.path(), &environment);
        let child = command.arg(example).arg("0").stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
        let mut receiver = Running(child);
        let output = Output::of(receiver.0.stdout.take().unwrap());
        let url = output.wait("the address of the receiver", || {
            let shown = output.shown();
            let (first, _) = shown.split_once('\n')?;
            first.strip_prefix("listening on ").map(str::to_owned)
        });
        let url = url.await;
        let forged = reqwest::Client::new().post(&url).body("{\"type\": \"document.ready\"}").send().await.unwrap();
        assert_eq!(forged.status(), 400);

        let server = self.process.url();
        let environment = [("FOLIO_SERVER", server.as_str()), ("FOLIO_TOKEN", self.token.as_str())];
        let create = ["webhook", "create", &url, "--event", "document.ready", "--secret"];
        for (arguments, input) in [(&create[..], SECRET), (&["webhook", "test", &url][..], "")] {
            let done = folio(self.folder.path(), arguments, &environment, input);
            assert!(done.status.success(), "{arguments:?}: {}", text(&done.stderr));
        }
        output.until("event: webhook.test, ", 1).await;
        assert!(!output.shown().contains("document.ready"), "the forged event is refused");
    }
}

/// Returns the path that a variable names. None: the clients are not installed, so the test is skipped.
fn installed(variable: &str) -> Option<PathBuf> {
    let path = std::env::var_os(variable).filter(|value| !value.is_empty()).map(PathBuf::from);
    if path.is_none() {
        eprintln!("skipped: {variable} is not set; cargo xtask clients installs the clients and prints it");
    }
    path
}

fn checkout() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

#[tokio::test(flavor = "multi_thread")]
async fn the_example_of_the_client_for_rust_extracts_a_file() {
    Server::start().run_example(&binary("examples/client_quickstart"), &[]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_examples_of_the_client_for_python_extract_a_file_and_receive_events() {
    let Some(python) = installed("FOLIO_TEST_PYTHON") else { return };
    let examples = checkout().join("clients/python/examples");
    let server = Server::start();
    server.run_example(&python, &[examples.join("quickstart.py").as_os_str()]).await;
    server.run_receiver(&python, &examples.join("webhook.py")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_examples_of_the_client_for_typescript_extract_a_file_and_receive_events() {
    let Some(packages) = installed("FOLIO_TEST_NODE_MODULES") else { return };
    let examples = packages.join("folio-client/examples");
    let server = Server::start();
    server.run_example(Path::new("node"), &[examples.join("quickstart.js").as_os_str()]).await;
    server.run_receiver(Path::new("node"), &examples.join("webhook.js")).await;
}

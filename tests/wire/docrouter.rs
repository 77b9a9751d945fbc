//! The published clients of DocRouter against a real server: every method of each one.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use folio_testkit::invoice::sample_invoice;
use folio_types::token::Token;
use serde_json::{Value, json};
use tokio::process::Command;

use crate::sandbox::{Sandbox, Setup};

/// Every model call returns the same text, which is also the result of the prompts.
const SCRIPT: &str = "rules:\n  - answer: {text: '{\"total\": 957.0}'}\n";
const LIMIT: Duration = Duration::from_secs(600);
const FILE: &str = "invoice.pdf";

/// Number of methods of the client for Python.
const PYTHON_METHODS: usize = 28;
/// Number of methods of the client for TypeScript.
const TYPESCRIPT_METHODS: usize = 95;

/// The methods of level 2, for features that Folio does not have. The payment methods exist in both classes.
const LEVEL_2: [&str; 31] = [
    "org.createForm",
    "org.listForms",
    "org.getForm",
    "org.updateForm",
    "org.deleteForm",
    "org.listFormVersions",
    "org.submitForm",
    "org.getFormSubmission",
    "org.deleteFormSubmission",
    "org.getCustomerPortal",
    "org.getSubscription",
    "org.activateSubscription",
    "org.cancelSubscription",
    "org.purchaseCredits",
    "org.createCheckoutSession",
    "account.getCustomerPortal",
    "account.getSubscription",
    "account.activateSubscription",
    "account.cancelSubscription",
    "account.purchaseCredits",
    "account.createCheckoutSession",
    "account.sendVerificationEmail",
    "account.sendRegistrationVerificationEmail",
    "account.verifyEmail",
    "account.createAWSConfig",
    "account.getAWSConfig",
    "account.deleteAWSConfig",
    "account.createInvitation",
    "account.getInvitations",
    "account.getInvitation",
    "account.acceptInvitation",
];

fn variable(name: &str) -> Option<PathBuf> {
    std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from)
}

/// Returns a path of the tools that `cargo xtask test --install` installs. `name`: the variable that names another one.
fn installed(name: &str, path: &str) -> PathBuf {
    let cache = || variable("XDG_CACHE_HOME").or_else(|| variable("HOME").map(|home| home.join(".cache")));
    let found = variable(name).or_else(|| cache().map(|cache| cache.join("folio-tools").join(path)));
    let found = found.unwrap_or_default();
    assert!(found.exists(), "{} is missing: `cargo xtask test --install` installs it", found.display());
    found
}

async fn start() -> Sandbox {
    let sandbox = Setup::new(SCRIPT).with("FOLIO_USERS__ENABLED", true).start().await;
    std::fs::write(sandbox.folder().join(FILE), sample_invoice()).unwrap();
    sandbox
}

/// Returns the id of the organization of the administrator.
fn organization(sandbox: &Sandbox) -> String {
    sandbox.token().parse::<Token>().unwrap().org().to_string()
}

/// Runs a script with its client and returns what it prints.
async fn report(sandbox: &Sandbox, program: &Path, arguments: &[&str], account_token: &str) -> Value {
    let mut run = Command::new(program);
    run.kill_on_drop(true).current_dir(sandbox.folder()).args(arguments);
    run.env("FOLIO_TOKEN", sandbox.token()).env("FOLIO_ACCOUNT_TOKEN", account_token);
    run.env("PYTHONDONTWRITEBYTECODE", "1");
    let output = tokio::time::timeout(LIMIT, run.output()).await.expect("the client ends in time").unwrap();
    let (printed, errors) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{printed}{errors}");
    serde_json::from_str(printed.trim()).unwrap_or_else(|error| panic!("{error}: {printed}"))
}

fn script(name: &str) -> String {
    format!("{}/wire/{name}", env!("CARGO_MANIFEST_DIR"))
}

/// Creates a platform administrator that signs in, and returns an account token of it.
async fn account_token(sandbox: &Sandbox) -> String {
    let client = reqwest::Client::new();
    let post = async |path: &str, token: &str, body: Value| -> Value {
        let request = client.post(format!("{}{path}", sandbox.url())).json(&body);
        let request = if token.is_empty() { request } else { request.bearer_auth(token) };
        let response = request.send().await.unwrap();
        let (status, text) = (response.status(), response.text().await.unwrap());
        assert!(status.is_success(), "{path}: {status} {text}");
        serde_json::from_str(&text).unwrap()
    };
    let password = "a SECRET password";
    let user = json!({"user": {"email": "root@example.com", "name": "Root", "platform": true}, "password": password});
    post("/folio.v1.UserService/CreateUser", &sandbox.token(), user).await;
    let credentials = json!({"email": "root@example.com", "password": password});
    let session = post("/folio.v1.AccountService/SignIn", "", credentials).await;
    let session = session["session_token"].as_str().unwrap();
    let created = post("/v0/account/access_tokens", session, json!({"name": "sdk", "lifetime": 0})).await;
    created["token"].as_str().unwrap().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn every_method_of_the_published_client_for_python_works() {
    let python = installed("FOLIO_TEST_DOCROUTER_PYTHON", "python/bin/python3");
    let sandbox = start().await;
    let (url, org, script) = (sandbox.url(), organization(&sandbox), script("docrouter_client.py"));
    let called = report(&sandbox, &python, &[&script, &url, &org, FILE], "").await;
    assert_eq!(called.as_array().unwrap().len(), PYTHON_METHODS, "{called}");
}

#[tokio::test(flavor = "multi_thread")]
async fn every_method_of_level_1_of_the_published_client_for_typescript_works() {
    let packages = installed("FOLIO_TEST_DOCROUTER_NODE_MODULES", "docrouter/node_modules");
    let sandbox = start().await;
    let (url, org, script) = (sandbox.url(), organization(&sandbox), script("docrouter_client.mjs"));
    let account_token = account_token(&sandbox).await;
    let arguments = [script.as_str(), packages.to_str().unwrap(), &url, &org, FILE];
    let outcomes = report(&sandbox, Path::new("node"), &arguments, &account_token).await;
    let outcomes: BTreeMap<String, String> = serde_json::from_value(outcomes).unwrap();
    assert_eq!(outcomes.len(), TYPESCRIPT_METHODS, "{outcomes:?}");
    for (method, outcome) in &outcomes {
        let expected = if LEVEL_2.contains(&method.as_str()) { "501" } else { "ok" };
        assert_eq!(outcome, expected, "{method}");
    }
}

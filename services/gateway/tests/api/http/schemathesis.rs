//! Requests that schemathesis generates from the OpenAPI document, with a fixed seed.

use std::path::PathBuf;
use std::time::Duration;

use folio_gateway::Options;
use folio_types::{OrgId, System};
use tokio::process::Command;

use crate::harness::Server;

const LIMIT: Duration = Duration::from_secs(600);
const SEED: &str = "20261128";
/// Number of requests of each operation.
const EXAMPLES: &str = "6";
const CHECKS: &str =
    "not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance,ignored_auth";

/// Operations that end the calls of the test itself, and those that call a model, which has no answer.
const EXCLUDED: [&str; 6] = [
    "SetLimits",
    "DeleteOrganization",
    "StreamCompletion",
    "post_orgs_organization_id_assistant_ask",
    "post_orgs_organization_id_llm_run",
    "post_account_llm_run",
];

/// Lifetime of a stream. The program reads each response to its end, and a watch ends only here.
const STREAM_LIFETIME: Duration = Duration::from_millis(300);

/// Returns the program, which `cargo xtask test --install` installs.
fn program() -> PathBuf {
    let variable = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let cache = || variable("XDG_CACHE_HOME").or_else(|| variable("HOME").map(|home| home.join(".cache")));
    let installed = || cache().map(|cache| cache.join("folio-tools/python/bin/schemathesis"));
    let program = variable("FOLIO_TEST_SCHEMATHESIS").or_else(installed).unwrap_or_default();
    assert!(program.is_file(), "{} is missing: `cargo xtask test --install` installs it", program.display());
    program
}

#[tokio::test]
async fn generated_requests_find_no_server_error_and_no_undocumented_response() {
    let options =
        Options { failed_attempts_per_minute: 10_000, stream_lifetime: STREAM_LIFETIME, ..Options::default() };
    let server = Server::with(options).await;
    let client = server.platform_admin(&OrgId::generate(&System)).await;
    let folder = tempfile::tempdir().unwrap();
    let settings = folder.path().join("schemathesis.toml");
    // A token of an organization is refused in any other one.
    let values =
        ["path.organization_id", "header.folio-organization"].map(|name| format!("\"{name}\" = \"{}\"\n", client.org));
    std::fs::write(&settings, format!("[parameters]\n{}", values.concat())).unwrap();
    let mut run = Command::new(program());
    run.kill_on_drop(true).current_dir(folder.path());
    run.arg("--config-file")
        .arg(&settings)
        .args(["--no-color", "run"])
        .arg(format!("http://{}/openapi.json", server.address));
    run.args(["--seed", SEED, "--max-examples", EXAMPLES, "--phases", "examples,fuzzing", "--workers", "2"]);
    run.args(["--generation-database", "none", "--request-timeout", "60", "--checks", CHECKS, "--warnings", "off"]);
    run.arg("--header").arg(format!("Authorization: {}", client.authorization().unwrap()));
    for id in EXCLUDED {
        run.args(["--exclude-operation-id", id]);
    }
    let output = tokio::time::timeout(LIMIT, run.output()).await.expect("the run ends in time").unwrap();
    let printed = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{printed}");
    server.stop().await;
}

//! `cargo xtask deploy`: checks the files of a deployment.
//!
//! The chart `helm/folio` is linted, rendered with each of its examples and compared with the accepted snapshots. The
//! temporary files of each pod must fit into its volume. The manifests and `compose.yaml` are validated against their schemas.

mod volumes;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, bail, ensure};

use crate::run::{finish, finish_quietly, root, tools_folder};
use crate::tools::{COMPOSE_SCHEMA, HELM, Install, KUBERNETES_VALIDATE, Tool, missing_of};

/// Kubernetes versions whose schemas validate the manifests: the oldest that the chart supports, and a new one.
const KUBERNETES: [&str; 2] = ["1.27", "1.34"];

/// Python program that validates a YAML file against the schema of the compose specification.
const COMPOSE_CHECK: &str = include_str!("deploy/compose_check.py");

#[derive(clap::Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    install: Install,
    /// Accept the rendered manifests as the new snapshots.
    #[arg(long)]
    accept: bool,
}

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    arguments.install.require(missing)?;
    println!("{} checks passed", check(arguments.accept)?);
    Ok(())
}

pub(crate) fn missing() -> Vec<Tool> {
    missing_of(&[HELM, KUBERNETES_VALIDATE, COMPOSE_SCHEMA])
}

/// Runs every check and returns the number of checks. With `accept`, the rendered manifests become the snapshots.
pub(crate) fn check(accept: bool) -> Result<u64> {
    let chart = root().join("helm/folio");
    let examples = examples(&chart)?;
    let mut checks = 0;
    let mut passed = |what: &str| {
        println!("test deploy::{what} ... ok");
        checks += 1;
    };
    for (name, values) in &examples {
        finish_quietly(helm()?.args(["lint", "--strict", "--quiet"]).arg(&chart).arg("--values").arg(values))?;
        passed(&format!("lint::{name}"));
        let rendered = rendered(&chart, values)?;
        let known = chart.join("examples/snapshots").join(format!("{name}.yaml"));
        if accept {
            std::fs::write(&known, &rendered)?;
        }
        compare(&known, &rendered)?;
        passed(&format!("snapshot::{name}"));
        ensure!(volumes::check(&rendered)? == 2, "{name} must render a gateway and nodes");
        passed(&format!("volumes::{name}"));
        for version in KUBERNETES {
            finish_quietly(tool(&KUBERNETES_VALIDATE)?.args(["--strict", "--quiet", "-k", version]).arg(&known))?;
        }
        passed(&format!("manifests::{name}"));
    }
    check_refusals(&chart, &examples)?;
    passed("values_that_contradict_each_other_are_refused");
    check_compose()?;
    passed("composition");
    Ok(checks)
}

fn examples(chart: &Path) -> Result<Vec<(String, PathBuf)>> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(chart.join("examples"))? {
        let path = entry?.path();
        if path.extension().is_some_and(|end| end == "yaml") {
            let name = path.file_stem().context("an example has no name")?.to_string_lossy().into_owned();
            found.push((name, path));
        }
    }
    found.sort();
    Ok(found)
}

fn tool(tool: &Tool) -> Result<Command> {
    Ok(Command::new(tool.path().with_context(|| format!("{} is not found", tool.program))?))
}

/// Returns `helm` without access to a cluster or to the user's settings.
fn helm() -> Result<Command> {
    let mut command = tool(&HELM)?;
    let empty_home = tools_folder().join("helm");
    command.env("HELM_CONFIG_HOME", &empty_home).env("HELM_CACHE_HOME", &empty_home).env("HELM_DATA_HOME", &empty_home);
    command.env("KUBECONFIG", "/dev/null");
    Ok(command)
}

fn template(chart: &Path, values: &Path) -> Result<Command> {
    let mut command = helm()?;
    command.args(["template", "folio"]).arg(chart).args(["--namespace", "folio", "--kube-version", "1.31"]);
    command.arg("--values").arg(values);
    Ok(command)
}

fn rendered(chart: &Path, values: &Path) -> Result<String> {
    let output = template(chart, values)?.output().context("helm cannot be started")?;
    if !output.status.success() {
        bail!("helm template with {}: {}", values.display(), String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(String::from_utf8(output.stdout)?)
}

/// Fails and prints the difference if the rendered manifests differ from the snapshot.
fn compare(known: &Path, rendered: &str) -> Result<()> {
    if std::fs::read_to_string(known).is_ok_and(|text| text == rendered) {
        return Ok(());
    }
    let now = tools_folder().join("rendered.yaml");
    std::fs::write(&now, rendered)?;
    // A non-zero status only means that there is a difference.
    let _ = Command::new("diff").arg("--unified").arg("--new-file").arg(known).arg(&now).status();
    bail!("the rendered chart differs from {}; `cargo xtask deploy --accept` accepts it", known.display())
}

/// Renders a valid example with invalid values. The schema or the templates must refuse each of them.
fn check_refusals(chart: &Path, examples: &[(String, PathBuf)]) -> Result<()> {
    let good = &examples.iter().find(|(name, _)| name == "plain").context("the example `plain` is missing")?.1;
    for (bad, why) in [
        ("node.replicas=0", "node"),
        ("node.replica=2", "replica"),
        ("redis.url=redis://user:password@host:6379", "redis"),
        ("redis.url=", "redis.url"),
        ("cql.contactPoints=null", "cql.contactPoints"),
        ("blobs.url=", "blobs.url"),
        ("qdrant.url=https://key@host:6334", "qdrant"),
        ("cluster.tls.nodeSecret=only-one", "cluster.tls"),
        ("gateway.proxyProtocol=true", "gateway.trustedProxies"),
        ("gateway.trustedProxies={proxy.example}", "trustedProxies"),
        ("settings=[limits]", "[limits]"),
        ("purchases.port=8082", "purchases.existingSecret"),
        ("purchases.port=8081", "purchases"),
    ] {
        let output = template(chart, good)?.args(["--set", bad]).output().context("helm cannot be started")?;
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        if output.status.success() || !stderr.contains(why) {
            bail!("helm template --set {bad} must be refused because of {why}; its output: {stderr}");
        }
    }
    Ok(())
}

/// Validates `compose.yaml` with `docker compose config` if it is installed, else with the schema of the specification.
fn check_compose() -> Result<()> {
    let file = root().join("compose.yaml");
    let docker = || {
        let mut command = Command::new("docker");
        command.arg("compose").stdin(Stdio::null());
        command
    };
    let available = docker().arg("version").stdout(Stdio::null()).stderr(Stdio::null()).status();
    if available.is_ok_and(|status| status.success()) {
        return finish(docker().arg("--file").arg(&file).args(["config", "--quiet"]));
    }
    let python = COMPOSE_SCHEMA.path().context("the schema of compose files is not found")?.with_file_name("python");
    finish_quietly(Command::new(python).args(["-W", "ignore", "-c", COMPOSE_CHECK]).arg(&file))
}

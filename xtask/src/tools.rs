//! The tools that tests need beside Rust: what is missing, how to get it, and getting it.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::{Result, bail};

use crate::run::{finish, tools_folder};

/// Where programs of Go modules are, below the tools folder.
const GO_BIN: &str = "go/bin";

/// A program that tests call.
#[derive(Clone, Copy)]
pub(crate) struct Tool {
    /// The program.
    pub(crate) program: &'static str,
    /// What tests it for.
    pub(crate) purpose: &'static str,
    /// Where it comes from.
    pub(crate) source: Source,
}

/// Where a tool comes from.
#[derive(Clone, Copy)]
pub(crate) enum Source {
    /// A Debian package.
    Debian(&'static str),
    /// A package of PyPI, npm or Go, whichever client is there: it installs below the tools folder.
    Registry {
        /// Its name on PyPI.
        pypi: &'static str,
        /// Its name on npm.
        npm: &'static str,
    },
    /// A package of PyPI that is used from the tools folder only: what `pip install` is told.
    Python(&'static [&'static str]),
    /// A program of a Go module, with its version.
    Go(&'static str),
}

/// Reads images: text of scanned documents.
pub(crate) const TESSERACT: Tool =
    Tool { program: "tesseract", purpose: "text of images", source: Source::Debian("tesseract-ocr") };
/// Draws the pages of a PDF.
pub(crate) const PDFTOPPM: Tool =
    Tool { program: "pdftoppm", purpose: "text of scanned PDFs", source: Source::Debian("poppler-utils") };
/// Checks the proto files.
pub(crate) const BUF: Tool = Tool {
    program: "buf",
    purpose: "lint of the proto files",
    source: Source::Registry { pypi: "buf-bin", npm: "@bufbuild/buf" },
};
/// Renders and lints the chart.
pub(crate) const HELM: Tool =
    Tool { program: "helm", purpose: "the chart", source: Source::Go("helm.sh/helm/v3/cmd/helm@v3.22.0") };
/// Holds manifests against the schemas of Kubernetes.
pub(crate) const KUBERNETES_VALIDATE: Tool = Tool {
    program: "kubernetes-validate",
    purpose: "schemas of manifests",
    source: Source::Python(&["kubernetes-validate==1.37.0"]),
};
/// Brings the schema of compose files; the program itself is not used. What reads it comes with the tool above.
pub(crate) const COMPOSE_SCHEMA: Tool = Tool {
    program: "docker-compose",
    purpose: "schema of compose.yaml",
    source: Source::Python(&["--no-deps", "docker-compose==1.29.2"]),
};
/// Builds what comes as a Go module.
const GO: Tool = Tool { program: "go", purpose: "building helm", source: Source::Debian("golang-go") };

/// Those that are not there.
pub(crate) fn missing_of(tools: &[Tool]) -> Vec<Tool> {
    tools.iter().copied().filter(|tool| tool.path().is_none()).collect()
}

/// Looks for what is missing; with `install`, gets it. Without, a missing tool is an error that says how to get it.
pub(crate) fn require(find_missing: impl Fn() -> Vec<Tool>, install: bool) -> Result<()> {
    let missing = find_missing();
    if missing.is_empty() {
        return Ok(());
    }
    if !install {
        bail!("missing:\n{}\n`--install` gets them", listed(&missing));
    }
    install_debian(&missing)?;
    for tool in &missing {
        match tool.source {
            Source::Debian(_) => {}
            Source::Registry { pypi, npm } => install_registry(tool, pypi, npm)?,
            Source::Python(packages) => install_python(packages)?,
            Source::Go(module) => install_go(module)?,
        }
    }
    let still = find_missing();
    if !still.is_empty() {
        bail!("installed, but not found or not fit:\n{}", listed(&still));
    }
    Ok(())
}

fn listed(tools: &[Tool]) -> String {
    let lines = tools.iter().map(|tool| format!("  {} ({}): {}", tool.program, tool.purpose, tool.hint()));
    lines.collect::<Vec<_>>().join("\n")
}

impl Tool {
    /// Where the program is: below the tools folder or on the path.
    pub(crate) fn path(&self) -> Option<PathBuf> {
        let own = ["python/bin", "node_modules/.bin", GO_BIN];
        let own = own.map(|folder| tools_folder().join(folder).join(self.program));
        let path = match self.source {
            Source::Python(_) => None,
            _ => std::env::var_os("PATH"),
        };
        let path = path.unwrap_or_default();
        let on_path = std::env::split_paths(&path).map(|folder| folder.join(self.program));
        own.into_iter().chain(on_path).find(|file| file.is_file() && runs(file))
    }

    fn package(&self) -> Option<&'static str> {
        match self.source {
            Source::Debian(package) => Some(package),
            _ => None,
        }
    }

    fn hint(&self) -> String {
        match self.source {
            Source::Debian(package) => format!("apt-get install {package}"),
            Source::Registry { pypi, npm } => format!("pip install {pypi}, or npm install {npm}"),
            Source::Python(packages) => format!("pip install {}", packages.join(" ")),
            Source::Go(module) => format!("go install {module}"),
        }
    }
}

fn runs(file: &PathBuf) -> bool {
    // Some print their version with -v only; all that matters is that the program starts.
    Command::new(file)
        .arg("--version")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok()
}

fn install_debian(missing: &[Tool]) -> Result<()> {
    let packages: Vec<_> = missing
        .iter()
        .filter_map(|tool| match tool.source {
            Source::Go(_) if GO.path().is_none() => GO.package(),
            _ => tool.package(),
        })
        .collect();
    if packages.is_empty() {
        return Ok(());
    }
    let apt = |arguments: &[&str]| {
        let mut command = if is_root() { Command::new("apt-get") } else { Command::new("sudo") };
        if !is_root() {
            command.args(["-n", "apt-get"]);
        }
        command.args(arguments).env("DEBIAN_FRONTEND", "noninteractive").stdin(Stdio::null()).stdout(Stdio::null());
        finish(&mut command)
    };
    apt(&["update", "-q"])?;
    let arguments: Vec<_> = ["install", "-q", "-y", "--no-install-recommends"].into_iter().chain(packages).collect();
    apt(&arguments)
}

fn is_root() -> bool {
    Command::new("id").arg("-u").output().is_ok_and(|output| output.stdout.trim_ascii() == b"0")
}

fn install_registry(tool: &Tool, pypi: &str, npm: &str) -> Result<()> {
    let folder = tools_folder();
    let Err(no_pip) = install_python(&[pypi]) else { return Ok(()) };
    let by_npm =
        finish(Command::new("npm").args(["install", "--silent", "--no-save", "--prefix"]).arg(&folder).arg(npm));
    let Err(no_npm) = by_npm else { return Ok(()) };
    bail!("{} cannot be installed: {no_pip:#}; {no_npm:#}", tool.program)
}

/// Into an environment of its own below the tools folder.
fn install_python(packages: &[&str]) -> Result<()> {
    let python = tools_folder().join("python");
    std::fs::create_dir_all(tools_folder())?;
    finish(Command::new("python3").args(["-m", "venv"]).arg(&python))?;
    finish(Command::new(python.join("bin/pip")).args(["install", "--quiet"]).args(packages))
}

fn install_go(module: &str) -> Result<()> {
    let bin = tools_folder().join(GO_BIN);
    std::fs::create_dir_all(&bin)?;
    finish(Command::new("go").args(["install", module]).env("GOBIN", &bin).current_dir(&bin))
}

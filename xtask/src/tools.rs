//! External tools of the tests: detection, installation hints and installation.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::{Result, bail};

use crate::run::{cargo, finish, tools_folder};

/// Folder of programs that were built from Go modules, below the tools folder.
const GO_BIN: &str = "go/bin";
/// Folder of libraries of npm, below the tools folder. An installation in the folder of another tool would remove that tool.
const NODE_LIBRARIES: &str = "docrouter";

#[derive(Clone, Copy)]
pub(crate) struct Tool {
    pub(crate) program: &'static str,
    /// Shown in the message about the missing tool.
    pub(crate) purpose: &'static str,
    pub(crate) source: Source,
}

#[derive(Clone, Copy)]
pub(crate) enum Source {
    Debian(&'static str),
    /// A package without a program: its name, and a file that it installs. The program is a name for messages.
    DebianFile(&'static str, &'static str),
    /// A package of PyPI or npm, installed below the tools folder with the available client.
    Registry {
        pypi: &'static str,
        npm: &'static str,
    },
    /// A PyPI package that is only used from the tools folder, never from `PATH`: the arguments of `pip install`.
    Python(&'static [&'static str]),
    /// A library of PyPI for the interpreter of the tools folder: the arguments of `pip install`. The program is the module.
    PythonLibrary(&'static [&'static str]),
    /// A library of npm below [`NODE_LIBRARIES`]: the argument of `npm install`. The program is the package.
    NodeLibrary(&'static str),
    /// The path of a Go program, with its version.
    Go(&'static str),
    /// The name and version of a crate with a binary.
    Crate(&'static str, &'static str),
}

pub(crate) const TESSERACT: Tool =
    Tool { program: "tesseract", purpose: "text of images", source: Source::Debian("tesseract-ocr") };
pub(crate) const PDFTOPPM: Tool =
    Tool { program: "pdftoppm", purpose: "text of scanned PDFs", source: Source::Debian("poppler-utils") };
pub(crate) const LIBREOFFICE: Tool = Tool {
    program: "soffice",
    purpose: "PDF renditions of office documents",
    source: Source::Debian("libreoffice-writer-nogui"),
};
pub(crate) const BUF: Tool = Tool {
    program: "buf",
    purpose: "lint of the proto files",
    source: Source::Registry { pypi: "buf-bin", npm: "@bufbuild/buf" },
};
pub(crate) const HELM: Tool =
    Tool { program: "helm", purpose: "the chart", source: Source::Go("helm.sh/helm/v3/cmd/helm@v3.22.0") };
pub(crate) const KUBERNETES_VALIDATE: Tool = Tool {
    program: "kubernetes-validate",
    purpose: "schemas of manifests",
    source: Source::Python(&["kubernetes-validate==1.37.0"]),
};
/// Source of the schema of compose files; the program is not used. [`KUBERNETES_VALIDATE`] provides the validator.
pub(crate) const COMPOSE_SCHEMA: Tool = Tool {
    program: "docker-compose",
    purpose: "schema of compose.yaml",
    source: Source::Python(&["--no-deps", "docker-compose==1.29.2"]),
};
pub(crate) const SCHEMATHESIS: Tool = Tool {
    program: "schemathesis",
    purpose: "requests that are generated from the OpenAPI document",
    source: Source::Python(&["schemathesis==4.32.5"]),
};
pub(crate) const PYTHON_VENV: Tool =
    Tool { program: "python3", purpose: "the client for Python", source: Source::Debian("python3-venv") };
pub(crate) const NODE: Tool =
    Tool { program: "node", purpose: "the client for TypeScript", source: Source::Debian("nodejs") };
pub(crate) const NPM: Tool =
    Tool { program: "npm", purpose: "the client for TypeScript", source: Source::Debian("npm") };
pub(crate) const CHROMIUM: Tool =
    Tool { program: "chromium", purpose: "the web page", source: Source::Debian("chromium") };
pub(crate) const CJK_FONTS: Tool = Tool {
    program: "Noto Sans CJK",
    purpose: "Chinese, Japanese and Korean text on the web page",
    source: Source::DebianFile("fonts-noto-cjk", "/usr/share/fonts/opentype/noto/NotoSansCJK-Regular.ttc"),
};
/// The official client of MCP. The program is not used: a test starts its interpreter.
pub(crate) const MCP: Tool =
    Tool { program: "mcp", purpose: "the official client of MCP", source: Source::Python(&["mcp==2.3.0"]) };
pub(crate) const DOCROUTER_PYTHON: Tool = Tool {
    program: "docrouter_sdk",
    purpose: "DocRouter's published client for Python",
    source: Source::PythonLibrary(&["docrouter-sdk==0.1.5"]),
};
pub(crate) const DOCROUTER_NODE: Tool = Tool {
    program: "@docrouter/sdk",
    purpose: "DocRouter's published client for TypeScript",
    source: Source::NodeLibrary("@docrouter/sdk@1.0.0"),
};
/// The engine of Qdrant, with the network layer of the test server.
pub(crate) const QDRANT_EDGE: Tool = Tool {
    program: "qdrant_edge",
    purpose: "the Qdrant of the tests",
    source: Source::PythonLibrary(&["qdrant-edge-py==0.9.0", "grpcio==1.85.3", "grpcio-tools==1.85.1"]),
};
pub(crate) const MUTANTS: Tool = Tool {
    program: "cargo-mutants",
    purpose: "mutations of the pure crates",
    source: Source::Crate("cargo-mutants", "27.1.0"),
};
const GO: Tool = Tool { program: "go", purpose: "building helm", source: Source::Debian("golang-go") };

pub(crate) fn missing_of(tools: &[Tool]) -> Vec<Tool> {
    tools.iter().copied().filter(|tool| tool.path().is_none()).collect()
}

#[derive(clap::Args)]
pub(crate) struct Install {
    /// Install missing tools, with the system's package manager if it has them.
    #[arg(long)]
    pub(crate) install: bool,
}

impl Install {
    /// Fails with installation hints if a tool is missing. With `--install`, installs the missing tools instead.
    pub(crate) fn require(&self, find_missing: impl Fn() -> Vec<Tool>) -> Result<()> {
        let missing = find_missing();
        if missing.is_empty() {
            return Ok(());
        }
        if !self.install {
            bail!("missing:\n{}\n`--install` installs them", listed(&missing));
        }
        install_debian(&missing)?;
        for tool in &missing {
            match tool.source {
                Source::Debian(_) | Source::DebianFile(..) => {}
                Source::Registry { pypi, npm } => install_registry(tool, pypi, npm)?,
                Source::Python(packages) | Source::PythonLibrary(packages) => install_python(packages)?,
                Source::NodeLibrary(package) => install_node_library(package)?,
                Source::Go(module) => install_go(module)?,
                Source::Crate(name, version) => install_crate(name, version)?,
            }
        }
        let still = find_missing();
        if !still.is_empty() {
            bail!("installed, but not found or not usable:\n{}", listed(&still));
        }
        Ok(())
    }
}

fn listed(tools: &[Tool]) -> String {
    let lines = tools.iter().map(|tool| format!("  {} ({}): {}", tool.program, tool.purpose, tool.hint()));
    lines.collect::<Vec<_>>().join("\n")
}

impl Tool {
    /// Searches the tools folder, then `PATH`. Of a library: a file of its package.
    pub(crate) fn path(&self) -> Option<PathBuf> {
        match self.source {
            Source::DebianFile(_, file) => return Some(PathBuf::from(file)).filter(|file| file.is_file()),
            Source::PythonLibrary(_) => return self.python_library(),
            Source::NodeLibrary(_) => {
                let file = node_libraries().join("node_modules").join(self.program).join("package.json");
                return file.is_file().then_some(file);
            }
            _ => {}
        }
        let own = ["python/bin", "node_modules/.bin", "cargo/bin", GO_BIN];
        let own = own.map(|folder| tools_folder().join(folder).join(self.program));
        let path = match self.source {
            Source::Python(_) => None,
            _ => std::env::var_os("PATH"),
        };
        let path = path.unwrap_or_default();
        let on_path = std::env::split_paths(&path).map(|folder| folder.join(self.program));
        own.into_iter().chain(on_path).find(|file| file.is_file() && runs(file))
    }

    /// Searches the packages of the interpreter, whose folder contains the version of Python.
    fn python_library(&self) -> Option<PathBuf> {
        let versions = std::fs::read_dir(tools_folder().join("python/lib")).ok()?.flatten();
        let file =
            |version: std::fs::DirEntry| version.path().join("site-packages").join(self.program).join("__init__.py");
        versions.map(file).find(|file| file.is_file())
    }

    fn package(&self) -> Option<&'static str> {
        match self.source {
            Source::Debian(package) | Source::DebianFile(package, _) => Some(package),
            _ => None,
        }
    }

    fn hint(&self) -> String {
        match self.source {
            Source::Debian(package) | Source::DebianFile(package, _) => format!("apt-get install {package}"),
            Source::Registry { pypi, npm } => format!("pip install {pypi}, or npm install {npm}"),
            Source::Python(packages) | Source::PythonLibrary(packages) => format!("pip install {}", packages.join(" ")),
            Source::NodeLibrary(package) => format!("npm install {package}"),
            Source::Go(module) => format!("go install {module}"),
            Source::Crate(name, version) => format!("cargo install {name} --version {version}"),
        }
    }
}

fn runs(file: &PathBuf) -> bool {
    // Some programs support only -v; the exit status is ignored, because only the start of the program is checked.
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

fn install_python(packages: &[&str]) -> Result<()> {
    let python = tools_folder().join("python");
    std::fs::create_dir_all(tools_folder())?;
    finish(Command::new("python3").args(["-m", "venv"]).arg(&python))?;
    finish(Command::new(python.join("bin/pip")).args(["install", "--quiet"]).args(packages))
}

fn node_libraries() -> PathBuf {
    tools_folder().join(NODE_LIBRARIES)
}

fn install_node_library(package: &str) -> Result<()> {
    let folder = node_libraries();
    std::fs::create_dir_all(&folder)?;
    finish(Command::new("npm").args(["install", "--silent", "--ignore-scripts", "--prefix"]).arg(&folder).arg(package))
}

fn install_go(module: &str) -> Result<()> {
    let bin = tools_folder().join(GO_BIN);
    std::fs::create_dir_all(&bin)?;
    finish(Command::new("go").args(["install", module]).env("GOBIN", &bin).current_dir(&bin))
}

fn install_crate(name: &str, version: &str) -> Result<()> {
    let root = tools_folder().join("cargo");
    finish(cargo().args(["install", name, "--version", version, "--locked", "--quiet", "--root"]).arg(&root))
}

//! A complete Folio for one test: a model endpoint that plays a script, and a server with its own folder.

use std::path::{Path, PathBuf};

use folio_tests::harness::settings;
pub(crate) use folio_tests::harness::settings::INVOICE;
use tempfile::TempDir;

use crate::client::Client;
use crate::process::Process;
use crate::sim::Sim;

pub(crate) struct Setup {
    script: String,
    settings: Vec<(&'static str, String)>,
}

/// A running pair of processes.
pub(crate) struct Sandbox {
    pub(crate) sim: Sim,
    folio: Option<Process>,
    folder: TempDir,
    settings: Vec<(&'static str, String)>,
}

impl Setup {
    pub(crate) fn new(script: impl Into<String>) -> Self {
        Self { script: script.into(), settings: Vec::new() }
    }

    /// Adds an environment variable of the server, such as `FOLIO_CONVERSATION__APPROVAL_TTL_SECONDS`.
    pub(crate) fn with(mut self, variable: &'static str, value: impl ToString) -> Self {
        self.settings.push((variable, value.to_string()));
        self
    }

    pub(crate) async fn start(self) -> Sandbox {
        let folder = tempfile::tempdir().expect("a folder for the test");
        let sim = Sim::start(folder.path(), &self.script).await;
        let settings = settings::for_models_at(&sim.base_url());
        std::fs::write(folder.path().join("folio.toml"), settings).expect("settings are written");
        let mut sandbox = Sandbox { sim, folio: None, folder, settings: self.settings };
        sandbox.start_folio();
        sandbox
    }
}

impl Sandbox {
    pub(crate) async fn start(script: impl Into<String>) -> Self {
        Setup::new(script).start().await
    }

    fn start_folio(&mut self) {
        let settings: Vec<(&str, &str)> = self.settings.iter().map(|(name, value)| (*name, value.as_str())).collect();
        let arguments = ["serve", "--listen", "127.0.0.1:0", "--data", "data"];
        self.folio = Some(Process::start("folio", self.folder.path(), &arguments, &settings));
    }

    pub(crate) fn server(&self) -> &Process {
        self.folio.as_ref().expect("the server runs")
    }

    /// Waits until the server has died.
    pub(crate) async fn wait_until_dead(&mut self) {
        let Some(mut folio) = self.folio.take() else { return };
        folio_testkit::wait_for("the death of the server", crate::LIMIT, || {
            std::future::ready(folio.is_dead().then_some(()))
        })
        .await;
    }

    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    pub(crate) fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    pub(crate) fn token(&self) -> String {
        let path = self.data().join("admin.token");
        std::fs::read_to_string(&path).expect("the token file exists").trim().to_owned()
    }

    pub(crate) fn url(&self) -> String {
        self.server().url()
    }

    /// Connects with the admin's token, on a new connection.
    pub(crate) async fn client(&self) -> Client {
        Client::connect(&self.url(), Some(&self.token())).await
    }

    /// Returns a client and a document whose text is ready.
    pub(crate) async fn with_document(&self) -> (Client, String) {
        let client = self.client().await;
        let document = client.upload("invoice.txt", INVOICE.as_bytes()).await;
        (client, document)
    }

    /// Kills the server (`kill -9`).
    pub(crate) fn kill(&mut self) {
        self.folio.take().expect("the server runs").kill();
    }

    /// Stops the server by SIGTERM. Returns true if its exit status is 0.
    pub(crate) async fn stop(&mut self) -> bool {
        self.folio.take().expect("the server runs").stop().await
    }

    /// Starts the server again on the same data, at another port, and connects.
    pub(crate) async fn restart(&mut self) -> Client {
        self.start_folio();
        self.client().await
    }

    /// Starts the server again like [`Sandbox::restart`], with another environment variable.
    pub(crate) async fn restart_with(&mut self, variable: &'static str, value: impl ToString) -> Client {
        self.settings.push((variable, value.to_string()));
        self.restart().await
    }
}

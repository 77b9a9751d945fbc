//! A whole Folio of one test: a model endpoint that plays a script, and a server on a folder of its own.

use std::path::{Path, PathBuf};

use folio_storage::Stores;
use folio_storage_embedded::{EmbeddedStore, Options};
use folio_tests::harness::settings;
pub(crate) use folio_tests::harness::settings::INVOICE;
use tempfile::TempDir;

use crate::client::Client;
use crate::process::Process;
use crate::sim::Sim;

/// What a sandbox is started with.
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
    /// With this script and the usual settings.
    pub(crate) fn new(script: impl Into<String>) -> Self {
        Self { script: script.into(), settings: Vec::new() }
    }

    /// With a variable of the server, such as `FOLIO_CONVERSATION__APPROVAL_TTL_SECONDS`.
    pub(crate) fn with(mut self, variable: &'static str, value: impl ToString) -> Self {
        self.settings.push((variable, value.to_string()));
        self
    }

    /// Starts both processes.
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
    /// With this script and the usual settings.
    pub(crate) async fn start(script: impl Into<String>) -> Self {
        Setup::new(script).start().await
    }

    fn start_folio(&mut self) {
        if let Err(errors) = self.try_start_folio() {
            panic!("folio ended before it listened:\n{errors}");
        }
    }

    fn try_start_folio(&mut self) -> Result<(), String> {
        let settings: Vec<(&str, &str)> = self.settings.iter().map(|(name, value)| (*name, value.as_str())).collect();
        let arguments = ["serve", "--listen", "127.0.0.1:0", "--data", "data"];
        self.folio = Some(Process::try_start("folio", self.folder.path(), &arguments, &settings)?);
        Ok(())
    }

    /// Sets a variable for the next start of the server, or takes it away.
    pub(crate) fn set(&mut self, variable: &'static str, value: Option<&str>) {
        self.settings.retain(|(name, _)| *name != variable);
        self.settings.extend(value.map(|value| (variable, value.to_owned())));
    }

    /// Starts the server again where it may die before it listens.
    pub(crate) fn start_until_dead_or_ready(&mut self) {
        // Dying early is what such a start may do; whoever waits for it to be dead finds it so.
        let _ = self.try_start_folio();
    }

    /// A client, if the server lives.
    pub(crate) async fn try_client(&self) -> Option<Client> {
        let url = self.folio.as_ref()?.url();
        Client::try_connect(&url, Some(&self.token())).await.ok()
    }

    /// Waits until the server died by itself.
    pub(crate) async fn dead(&mut self) {
        let Some(mut folio) = self.folio.take() else { return };
        let what = "the server dies";
        folio_testkit::wait_for(what, crate::LIMIT, || std::future::ready(folio.is_dead().then_some(()))).await;
    }

    /// The folder of the test.
    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// The data folder.
    pub(crate) fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    /// The admin's token.
    pub(crate) fn token(&self) -> String {
        let path = self.data().join("admin.token");
        std::fs::read_to_string(&path).expect("the token's file is there").trim().to_owned()
    }

    /// Where the server listens.
    pub(crate) fn url(&self) -> String {
        self.folio.as_ref().expect("the server runs").url()
    }

    /// What the server wrote to stderr so far.
    pub(crate) fn errors(&self) -> String {
        self.folio.as_ref().expect("the server runs").errors()
    }

    /// The server's process.
    pub(crate) fn process_id(&self) -> u32 {
        self.folio.as_ref().expect("the server runs").id()
    }

    /// A client of its own connection with the admin's token.
    pub(crate) async fn client(&self) -> Client {
        Client::connect(&self.url(), Some(&self.token())).await
    }

    /// A client and a document that is ready.
    pub(crate) async fn with_document(&self) -> (Client, String) {
        let client = self.client().await;
        let document = client.upload("invoice.txt", INVOICE.as_bytes()).await;
        (client, document)
    }

    /// `kill -9` of the server.
    pub(crate) fn kill(&mut self) {
        self.folio.take().expect("the server runs").kill();
    }

    /// SIGTERM of the server, without waiting for its end.
    pub(crate) fn ask_to_stop(&self) {
        self.folio.as_ref().expect("the server runs").ask_to_stop();
    }

    /// SIGTERM of the server; whether it ended in order.
    pub(crate) async fn stop(&mut self) -> bool {
        self.folio.take().expect("the server runs").stop().await
    }

    /// Stops the server, changes what it stored, and starts it again.
    pub(crate) async fn offline<T>(&mut self, change: impl AsyncFnOnce(Stores) -> T) -> T {
        assert!(self.stop().await, "the server ends in order");
        let store = EmbeddedStore::open(Options::at(self.data())).expect("the store opens");
        let told = change(store.stores()).await;
        store.close().await;
        self.start_folio();
        told
    }

    /// Starts the server again on the same data, at another port, and connects.
    pub(crate) async fn restart(&mut self) -> Client {
        self.start_folio();
        self.client().await
    }
}

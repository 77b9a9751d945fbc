//! A server on a free port, with real components except the model.

mod client;
mod scripted_model;

use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use folio_accounts::Accounts;
use folio_documents::{
    Cleaner, CleanupOptions, IngestHandle, Ingestor, PageRenderer, TextReader, Uploader, always_sweeper,
};
use folio_gateway::{Counters, Gateway, Options, Shutdown};
use folio_history::job::JobLimits;
use folio_index::{EmbeddedIndex, EmbeddedOptions};
use folio_jobs::{JobControl, JobHints};
use folio_knowledge::Knowledge;
use folio_llm::Models;
use folio_metering::{CreditMeter, QuotaMeter, SharedMeter};
use folio_node::{DocumentImages, JobParts, Node, NodeParts, SharedTurnStores};
use folio_operations::{Components, RunningExports};
use folio_proto::status;
use folio_providers::{Providers, SecretsOptions, Vault};
use folio_quotas::{QuotaCache, Slots};
use folio_resources::quota::Quotas;
use folio_resources::{
    Member, MemberWrite, NewToken, Organization, OrganizationChange, PasswordHash, Session, TokenChange, TokenRecord,
    User, UserChange,
};
use folio_storage::{
    HeartbeatStatus, MembershipSnapshot, NodeRecord, NodeStore, SharedOptions, SharedTurn, SharedTurnStore, Stores,
    TurnCursor,
};
use folio_storage_conformance::layer::{Layered, SharedTurnLayer};
use folio_storage_embedded::EmbeddedStore;
use folio_tools::ToolResources;
use folio_tools::mcp::McpServers;
use folio_tools::retrieval::NoRetriever;
use folio_tools::sections::OutlineCache;
use folio_types::access::Scope;
use folio_types::op::{Expected, Write};
use folio_types::token::Token;
use folio_types::{Environment, Error, OrgId, Role, Secret, SessionToken, System, UserId};
use serde_json::json;
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_util::task::TaskTracker;
use tonic::Status;
use tonic::transport::{Channel, Endpoint};

pub(crate) use self::client::{Client, format};
pub(crate) use self::scripted_model::{Answer, MODEL, Scripted};
use crate::mcp_servers::StaticMcpServers;

/// The secret of a page that signs users in.
pub(crate) const PAGE_SECRET: &str = "the secret of a page that signs users in";

/// 32 bytes in Base64.
const MASTER_KEY: &str = "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=";

/// The membership of a cluster without nodes, whose store has had its data for a time.
pub(crate) struct DataAge(Mutex<Duration>);

impl DataAge {
    pub(crate) fn set(&self, age: Duration) {
        *self.0.lock().unwrap() = age;
    }
}

#[async_trait]
impl NodeStore for DataAge {
    async fn heartbeat(&self, _: &NodeRecord, _: bool) -> folio_types::Result<HeartbeatStatus> {
        Ok(HeartbeatStatus::Live)
    }

    async fn leave(&self, _: &NodeRecord) -> folio_types::Result<()> {
        Ok(())
    }

    async fn nodes(&self) -> folio_types::Result<MembershipSnapshot> {
        let (members, available_for) = (Vec::new(), *self.0.lock().unwrap());
        Ok(MembershipSnapshot { members, available_for, dead_after: Duration::from_secs(5) })
    }
}

/// Counts the reads of the index of pending turns by the gateway.
#[derive(Default)]
pub(crate) struct IndexReads(AtomicU64);

impl IndexReads {
    pub(crate) fn count(&self) -> u64 {
        self.0.load(Ordering::SeqCst)
    }
}

#[async_trait]
impl SharedTurnLayer for IndexReads {
    async fn waiting(
        &self,
        below: &dyn SharedTurnStore,
        org: &OrgId,
        requester: Option<&UserId>,
        after: Option<&TurnCursor>,
        limit: usize,
    ) -> folio_types::Result<Vec<SharedTurn>> {
        self.0.fetch_add(1, Ordering::SeqCst);
        below.waiting(org, requester, after, limit).await
    }
}

pub(crate) struct Server {
    pub(crate) stores: Stores,
    pub(crate) turns: Arc<dyn SharedTurnStore>,
    pub(crate) index_reads: Arc<IndexReads>,
    pub(crate) data_age: Arc<DataAge>,
    pub(crate) model: Arc<Scripted>,
    /// The dependencies of the node, with which a test starts another node.
    pub(crate) node: Option<Node>,
    pub(crate) node_parts: NodeParts,
    pub(crate) channel: Channel,
    pub(crate) address: std::net::SocketAddr,
    pub(crate) shutdown: Shutdown,
    pub(crate) serving: Option<JoinHandle<folio_types::Result<()>>>,
    store: Option<EmbeddedStore>,
    _ingestor: Ingestor,
    _cleaner: Cleaner,
    _folder: TempDir,
}

impl Server {
    pub(crate) async fn start() -> Self {
        Self::with(Options { failed_attempts_per_minute: 10_000, ..Options::default() }).await
    }

    pub(crate) async fn with(options: Options) -> Self {
        Self::on(options, |stores| stores).await
    }

    /// Starts a server on the stores that `change` returns.
    pub(crate) async fn on(options: Options, change: impl FnOnce(Stores) -> Stores) -> Self {
        Self::build(options, folio_metering::Options::default(), Quotas::default(), (true, false), change).await
    }

    /// Starts a server whose settings disable users that sign in.
    pub(crate) async fn without_users() -> Self {
        let (options, credit) = (Options::default(), folio_metering::Options::default());
        Self::build(options, credit, Quotas::default(), (false, false), |stores| stores).await
    }

    pub(crate) async fn configured(credit: folio_metering::Options, quotas: Quotas) -> Self {
        let options = Options { failed_attempts_per_minute: 10_000, ..Options::default() };
        Self::build(options, credit, quotas, (true, false), |stores| stores).await
    }

    /// Starts a server whose documents are ingested when their text is ready.
    pub(crate) async fn ingesting(credit: folio_metering::Options, quotas: Quotas) -> Self {
        Self::build(Options::default(), credit, quotas, (true, true), |stores| stores).await
    }

    async fn build(
        options: Options,
        credit: folio_metering::Options,
        quotas: Quotas,
        (has_users, is_ingesting): (bool, bool),
        change: impl FnOnce(Stores) -> Stores,
    ) -> Self {
        let folder = TempDir::new().unwrap();
        let store = EmbeddedStore::open(folio_storage_embedded::Options::at(folder.path())).unwrap();
        let environment: Arc<dyn Environment> = Arc::new(System);
        let shared = folio_storage_memory::shared_stores(Arc::clone(&environment), SharedOptions::default());
        // The scripts of models state the answers in the order of the items.
        let job_limits = JobLimits { items_running_max: 1, ..JobLimits::default() };
        let mut stores = change(store.stores());
        if is_ingesting {
            let counters = folio_webhooks::Counters::default();
            stores = folio_webhooks::with_events(stores, Arc::clone(&shared.jobs), job_limits, counters);
        }
        let model = Arc::new(Scripted::default());
        let credit = CreditMeter::start(&stores, Arc::clone(&environment), credit).await.unwrap();
        let meter: Arc<dyn folio_metering::Meter> = Arc::new(credit.clone());
        let worker = Some(reader_program());
        let reading = folio_documents::Options { max_bytes: 3 * 1024 * 1024, worker, ..Default::default() };
        let reader = TextReader::new(reading.clone());
        let limits = QuotaCache::new(stores.of(), quotas);
        let slots = Slots::of_model_calls(limits.clone(), shared.slots.clone());
        let meter = Arc::new(QuotaMeter::new(meter, slots)) as SharedMeter;
        let ingest = IngestHandle::new(shared.jobs.clone());
        let uploader = Uploader::new(stores.clone(), Arc::clone(&environment), Some(ingest.clone()), &reading);
        let ingestor = Ingestor::start(stores.clone(), ingest, Arc::clone(&environment), reader, uploader.clone());
        let (turns, cleaning) = (shared.turns.clone(), CleanupOptions::default());
        let (cleaner, clean_up) =
            Cleaner::start(stores.clone(), turns, Arc::clone(&environment), cleaning, always_sweeper());
        let table =
            folio_llm::Options::openai(Secret::new("sk-platform"), Some("http://127.0.0.1:9/v1"), Some("hub-model"));
        let master = SecretsOptions { master_keys: vec![Secret::new(MASTER_KEY)], ..SecretsOptions::default() };
        let vault = Vault::new(&master).unwrap();
        let providers =
            Providers::new(table, &folio_providers::Options::default(), vault, &stores, Arc::clone(&environment))
                .unwrap();
        assert!(model.set.set(providers.clone()).is_ok());
        let hints = JobHints::new(shared.jobs.clone());
        let jobs = JobControl::new(&stores, hints.clone(), Arc::clone(&environment), job_limits);
        let mcp = Arc::new(StaticMcpServers) as Arc<dyn McpServers>;
        let pages = PageRenderer::new(stores.clone(), Arc::clone(&environment), reading);
        let resources = ToolResources {
            stores: stores.clone(),
            models: Arc::clone(&model) as Arc<dyn Models>,
            meter: meter.clone(),
            environment: Arc::clone(&environment),
            extraction: folio_tools::extraction::Options::default(),
            job_limits,
            job_hints: hints.queue(),
            mcp: Arc::clone(&mcp),
            passages: Arc::new(folio_tools::ingestion::NoPassages),
            outlines: OutlineCache::default(),
            retriever: Arc::new(NoRetriever),
            images: Arc::new(DocumentImages(pages.clone())),
            tasks: TaskTracker::new(),
        };
        let index = EmbeddedIndex::open(folder.path().join("index"), EmbeddedOptions::default()).unwrap();
        let knowledge = Knowledge::new(resources, Arc::new(index));
        let parts = NodeParts {
            knowledge: Some(knowledge.clone()),
            jobs: JobParts {
                slots: shared.slots.clone(),
                hints,
                limits: job_limits,
                kinds: Vec::new(),
                conversations: None,
            },
            clock: tokio::sync::watch::channel(true).1,
            turn_slots: Slots::of_turns(limits.clone(), shared.slots.clone()),
            pages,
            mcp: Arc::clone(&mcp),
            stores: stores.clone(),
            models: Arc::clone(&model) as Arc<dyn Models>,
            meter: meter.clone(),
            environment: Arc::clone(&environment),
            extraction: folio_tools::extraction::Options::default(),
            auto_create: folio_tools::auto_create::Options::default(),
            shared_turns: SharedTurnStores { turns: shared.turns.clone(), events: None },
            cluster: None,
        };
        let node = Node::start(folio_node::Options::default(), parts.clone()).await.unwrap();
        let users = folio_accounts::Options { enabled: has_users, page_secret: Secret::new(PAGE_SECRET) };
        let accounts = Accounts::new(&users, shared.rates.clone(), &environment).unwrap();
        let index_reads = Arc::new(IndexReads::default());
        let data_age = Arc::new(DataAge(Mutex::new(Duration::from_secs(3_600))));
        let components = Components {
            quotas,
            stores: stores.clone(),
            open_turns: Layered::over(Arc::clone(&index_reads), &shared.turns),
            nodes: Some(Arc::clone(&data_age) as Arc<dyn NodeStore>),
            conversations: Arc::new(node.clone()),
            knowledge: Some(knowledge),
            models: Arc::clone(&model) as Arc<dyn Models>,
            providers,
            mcp,
            meter,
            credit,
            uploader,
            exports: RunningExports::default(),
            clean_up,
            accounts,
            environment,
            extraction: folio_tools::extraction::Options::default(),
            jobs,
            tasks: TaskTracker::new(),
        };
        let gateway = Gateway { components, rates: shared.rates.clone(), counters: Counters::default(), options };
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let shutdown = Shutdown::default();
        let serving = tokio::spawn(folio_gateway::serve(listener, gateway, shutdown.clone()));
        let channel = Endpoint::from_shared(format!("http://{address}")).unwrap().connect_lazy();
        Self {
            stores,
            turns: shared.turns,
            index_reads,
            data_age,
            model,
            node: Some(node),
            node_parts: parts,
            channel,
            address,
            shutdown,
            serving: Some(serving),
            store: Some(store),
            _ingestor: ingestor,
            _cleaner: cleaner,
            _folder: folder,
        }
    }

    /// Opens another connection.
    pub(crate) async fn connect(&self) -> Channel {
        Endpoint::from_shared(format!("http://{}", self.address)).unwrap().connect().await.unwrap()
    }

    /// Creates an organization unless it exists.
    pub(crate) async fn organization(&self, org: &OrgId) {
        let (key, create) = (format!("test-{org}"), OrganizationChange::Create { name: "test".to_owned() });
        let key = key.parse().unwrap();
        let write = Write::by_platform(OrgId::platform(), key, System.now(), Expected::Absent, create);
        self.stores.of::<Organization>().decide(org, write).await.unwrap();
    }

    /// Returns an organization. None: it does not exist or is deleted.
    pub(crate) async fn organization_of(&self, org: &OrgId) -> Option<Organization> {
        self.stores.of::<Organization>().get(&OrgId::platform(), org).await.unwrap()
    }

    pub(crate) async fn user(&self, org: &OrgId, role: Role) -> Client {
        self.restricted_user(org, role, &[], false).await
    }

    /// Creates a user with a restricted token, or with a token of the platform's administrator.
    pub(crate) async fn restricted_user(&self, org: &OrgId, role: Role, scopes: &[Scope], platform: bool) -> Client {
        let user = UserId::generate(&System);
        let token = Token::generate(org, &System);
        self.organization(org).await;
        let new = NewToken { scopes: scopes.to_vec(), platform, ..record(&token, &user, role) };
        self.store_token(&token, new).await;
        Client::new(self.channel.clone(), org.clone(), user, Some(&token.reveal()))
    }

    /// Stores a user without a password, which therefore cannot sign in.
    pub(crate) async fn account(&self, name: &str, platform: bool) -> User {
        let (users, id) = (self.stores.of::<User>(), UserId::generate(&System));
        let (email, name) = (format!("{id}@example.com"), name.to_owned());
        // No password has this hash.
        let hash = format!("$argon2id$v=19$m=19456,t=2,p=1${}${}", "A".repeat(22), "A".repeat(43));
        let password = PasswordHash::new(hash);
        let (key, create) = (format!("test-{id}"), UserChange::Create { email, name, password, platform });
        let key = key.parse().unwrap();
        let write = Write::by_platform(OrgId::platform(), key, System.now(), Expected::Absent, create);
        users.decide(&id, write).await.unwrap();
        users.get(&OrgId::platform(), &id).await.unwrap().unwrap()
    }

    /// Makes a user a member of an organization, which is created unless it exists.
    pub(crate) async fn join(&self, user: &User, org: &OrgId, role: Role) {
        self.organization(org).await;
        self.stores.accounts().add_organization(&user.id, org).await.unwrap();
        let member = Member::new(user.id.clone(), &user.name, role, System.now());
        let write = MemberWrite::unguarded(None, member);
        assert!(self.stores.access().write_member(org, write).await.unwrap());
    }

    /// Starts a session of a user. None: the caller selects no organization.
    pub(crate) async fn session(&self, user: &User, org: Option<&OrgId>) -> Client {
        let token = SessionToken::generate(&user.id, &System);
        let session = Session::new(&token, user, System.now());
        self.stores.accounts().add_session(&user.id, &session, System.now()).await.unwrap();
        let own = org.cloned().unwrap_or_else(OrgId::platform);
        Client::new(self.channel.clone(), own, user.id.clone(), Some(&token.reveal())).in_organization(org)
    }

    /// Starts a session of a new member of an organization.
    pub(crate) async fn signed_in(&self, org: &OrgId, role: Role, platform: bool) -> Client {
        let user = self.account("signed in", platform).await;
        self.join(&user, org, role).await;
        self.session(&user, Some(org)).await
    }

    pub(crate) async fn store_token(&self, token: &Token, new: NewToken) {
        let write = TokenChange::create_by_platform(token, new, System.now()).unwrap();
        self.stores.of::<TokenRecord>().decide(token.id(), write).await.unwrap();
    }

    pub(crate) fn holder(&self, token: &str) -> Client {
        Client::new(self.channel.clone(), OrgId::generate(&System), UserId::generate(&System), Some(token))
    }

    pub(crate) async fn platform_admin(&self, org: &OrgId) -> Client {
        self.restricted_user(org, Role::Admin, &[], true).await
    }

    pub(crate) async fn member(&self) -> Client {
        self.user(&OrgId::generate(&System), Role::Member).await
    }

    /// Returns a caller with any `authorization` header.
    pub(crate) fn stranger(&self, authorization: Option<&str>) -> Client {
        let (org, user) = (OrgId::generate(&System), UserId::generate(&System));
        Client::with_authorization(self.channel.clone(), org, user, authorization)
    }

    /// Returns all keys and values of the durable stores as text.
    pub(crate) fn everything(&self) -> Vec<String> {
        self.store.as_ref().unwrap().everything().unwrap()
    }

    pub(crate) async fn stop(mut self) {
        self.shutdown.begin.cancel();
        if let Some(serving) = self.serving.take() {
            serving.await.unwrap().unwrap();
        }
        drop(self.node.take());
        if let Some(store) = self.store.take() {
            store.close().await;
        }
    }
}

/// Returns the program of the child process that reads files, from the folder of the test programs.
fn reader_program() -> PathBuf {
    let mut folder = std::env::current_exe().unwrap();
    folder.pop();
    if folder.ends_with("deps") {
        folder.pop();
    }
    let program = folder.join("folio-read-file");
    assert!(program.is_file(), "{} is missing: run `cargo build -p folio-documents --bins` first", program.display());
    program
}

impl Drop for Server {
    fn drop(&mut self) {
        self.shutdown.begin.cancel();
        if let Some(serving) = &self.serving {
            serving.abort();
        }
    }
}

pub(crate) fn record(token: &Token, user: &UserId, role: Role) -> NewToken {
    NewToken::new(token, user.clone(), role, "test")
}

/// Starts an endpoint whose list of models has one entry, `listed`; returns its URL.
pub(crate) async fn model_list() -> (JoinHandle<()>, String) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/v1", listener.local_addr().unwrap());
    let list = axum::Json(json!({"object": "list", "data": [{"id": "listed", "object": "model"}]}));
    // No connection outlives its response, so that the aborted endpoint answers no further request.
    let app = axum::Router::new().fallback(|| async { ([("connection", "close")], list) });
    (tokio::spawn(async move { axum::serve(listener, app).await.unwrap() }), url)
}

pub(crate) fn refused<T>(answer: Result<T, Status>, what: &str) -> Error {
    match answer {
        Ok(_) => panic!("{what}: was not refused"),
        Err(status) => status::to_error(&status),
    }
}

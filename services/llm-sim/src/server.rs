//! The endpoint: builder, handle, shared state.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

use rand::SeedableRng as _;
use rand::rngs::StdRng;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::connection::{Reset, Resettable};
use crate::faults::{Fault, FaultPlan, FaultState, FaultTarget};
use crate::gates::Gates;
use crate::pace::{Latency, Pacing};
use crate::record::{Record, RecordedRequest};
use crate::request::ChatRequest;
use crate::script::{Decision, Script};

mod chat;
mod delivery;
mod retrieval;
mod routes;

pub(crate) use routes::error;

/// Grace period for open responses at shutdown.
const SHUTDOWN_GRACE: Duration = Duration::from_secs(2);

pub(crate) enum Source {
    Script(Box<Script>),
    Offline,
}

impl Source {
    /// Returns the response to a request. The error is the reason of a refusal.
    pub(crate) fn decide(&self, request: &ChatRequest) -> Result<Decision, String> {
        match self {
            Self::Script(script) => script.decide(request),
            Self::Offline => Ok(Decision { answer: crate::offline::answer(request), fault: None }),
        }
    }
}

pub(crate) struct State {
    pub(crate) source: RwLock<Arc<Source>>,
    pub(crate) faults: Mutex<FaultState>,
    pub(crate) rng: Mutex<StdRng>,
    pub(crate) seed: u64,
    pub(crate) record: Arc<Record>,
    pub(crate) hashes_bodies: bool,
    /// Chunks of the script's constant response, after the first request.
    prepared: Mutex<Option<chat::CachedChunks>>,
    pub(crate) gates: Arc<Gates>,
    pub(crate) chats: AtomicU64,
    pub(crate) models: RwLock<Vec<String>>,
    pub(crate) pacing: Pacing,
    pub(crate) latency: Latency,
    pub(crate) dimensions: usize,
    pub(crate) api_key: Option<String>,
    pub(crate) context_tokens: Option<u32>,
    pub(crate) stopping: CancellationToken,
}

impl State {
    pub(crate) fn source(&self) -> Arc<Source> {
        Arc::clone(&self.source.read().unwrap_or_else(PoisonError::into_inner))
    }

    pub(crate) fn set_script(&self, script: Script) {
        let (source, models, faults) = from_script(script);
        *self.models.write().unwrap_or_else(PoisonError::into_inner) = models;
        *self.source.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(source);
        *self.prepared.lock().unwrap_or_else(PoisonError::into_inner) = None;
        self.set_faults(faults);
        self.chats.store(0, Ordering::Relaxed);
    }

    /// Counts a request, and returns its fault.
    pub(crate) fn next_fault(&self, target: FaultTarget) -> Option<Fault> {
        self.faults.lock().unwrap_or_else(PoisonError::into_inner).next(target)
    }

    pub(crate) fn set_faults(&self, plan: FaultPlan) {
        *self.faults.lock().unwrap_or_else(PoisonError::into_inner) = FaultState::new(plan);
    }

    pub(crate) fn reset(&self) {
        self.set_faults(FaultPlan::none());
        self.record.clear();
        self.gates.close_all();
        self.chats.store(0, Ordering::Relaxed);
        *self.rng.lock().unwrap_or_else(PoisonError::into_inner) = StdRng::seed_from_u64(self.seed);
    }
}

fn from_script(script: Script) -> (Source, Vec<String>, FaultPlan) {
    let models = if script.models.is_empty() { vec!["scripted".to_owned()] } else { script.models.clone() };
    let faults = script.faults.clone();
    (Source::Script(Box::new(script)), models, faults)
}

pub struct LlmSimBuilder {
    listen: SocketAddr,
    script: Option<Script>,
    is_offline: bool,
    pacing: Pacing,
    latency: Latency,
    seed: u64,
    record: usize,
    hashes_bodies: bool,
    dimensions: usize,
    api_key: Option<String>,
    context_tokens: Option<u32>,
}

impl LlmSimBuilder {
    #[must_use]
    pub fn script(mut self, script: Script) -> Self {
        self.script = Some(script);
        self
    }

    /// Answers with the offline model instead of a script.
    #[must_use]
    pub fn offline_model(mut self) -> Self {
        self.is_offline = true;
        self
    }

    /// Sets the address. Default: a free port of 127.0.0.1.
    #[must_use]
    pub fn listen(mut self, address: SocketAddr) -> Self {
        self.listen = address;
        self
    }

    #[must_use]
    pub fn pacing(mut self, pacing: Pacing) -> Self {
        self.pacing = pacing;
        self
    }

    #[must_use]
    pub fn latency(mut self, latency: Latency) -> Self {
        self.latency = latency;
        self
    }

    #[must_use]
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// Sets the number of recorded requests. 0 disables the record, which is faster.
    #[must_use]
    pub fn record(mut self, requests: usize) -> Self {
        self.record = requests;
        self
    }

    /// Records a hash of each body instead of the body, which needs less memory.
    #[must_use]
    pub fn hash_bodies(mut self) -> Self {
        self.hashes_bodies = true;
        self
    }

    /// Sets the length of vectors whose request states none. Default: 256.
    #[must_use]
    pub fn dimensions(mut self, dimensions: usize) -> Self {
        self.dimensions = dimensions;
        self
    }

    /// Requires this API key for requests below `/v1/`; others get 401.
    #[must_use]
    pub fn api_key(mut self, key: impl Into<String>) -> Self {
        self.api_key = Some(key.into());
        self
    }

    /// States this context size for every model in the list (`max_model_len`). Default: no size.
    #[must_use]
    pub fn context_tokens(mut self, tokens: u32) -> Self {
        self.context_tokens = Some(tokens);
        self
    }

    /// Serves until the handle is dropped or shut down.
    pub async fn start(self) -> std::io::Result<LlmSim> {
        let listener = TcpListener::bind(self.listen).await?;
        let address = listener.local_addr()?;
        let (source, models, faults) = if self.is_offline {
            (Source::Offline, vec![crate::offline::MODEL.to_owned()], FaultPlan::none())
        } else {
            from_script(self.script.unwrap_or_else(|| Script::always("This is a scripted answer.")))
        };
        let stopping = CancellationToken::new();
        let state = Arc::new(State {
            source: RwLock::new(Arc::new(source)),
            faults: Mutex::new(FaultState::new(faults)),
            rng: Mutex::new(StdRng::seed_from_u64(self.seed)),
            seed: self.seed,
            record: Arc::new(Record::new(self.record)),
            hashes_bodies: self.hashes_bodies,
            prepared: Mutex::new(None),
            gates: Arc::new(Gates::new()),
            chats: AtomicU64::new(0),
            models: RwLock::new(models),
            pacing: self.pacing,
            latency: self.latency,
            dimensions: self.dimensions,
            api_key: self.api_key,
            context_tokens: self.context_tokens,
            stopping: stopping.clone(),
        });
        let service = routes::router(Arc::clone(&state)).into_make_service_with_connect_info::<Reset>();
        let serve =
            axum::serve(Resettable(listener), service).with_graceful_shutdown(stopping.clone().cancelled_owned());
        let task = tokio::spawn(async move { serve.await });
        Ok(LlmSim { address, state, task: Some(task) })
    }
}

/// A running endpoint. Dropping it stops the endpoint.
pub struct LlmSim {
    address: SocketAddr,
    state: Arc<State>,
    task: Option<JoinHandle<std::io::Result<()>>>,
}

impl LlmSim {
    /// Returns a builder with a free port, one constant response, and a record of the last 1,000 requests.
    pub fn builder() -> LlmSimBuilder {
        LlmSimBuilder {
            listen: (Ipv4Addr::LOCALHOST, 0).into(),
            script: None,
            is_offline: false,
            pacing: Pacing::default(),
            latency: Latency::None,
            seed: 0,
            record: 1_000,
            hashes_bodies: false,
            dimensions: 256,
            api_key: None,
            context_tokens: None,
        }
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the base URL for clients, such as `http://127.0.0.1:1234/v1`.
    pub fn url(&self) -> String {
        format!("http://{}/v1", self.address)
    }

    /// Returns the recorded requests, oldest first.
    pub fn requests(&self) -> Vec<RecordedRequest> {
        self.state.record.all()
    }

    /// Returns the recorded chat requests, oldest first.
    pub fn chats(&self) -> Vec<RecordedRequest> {
        self.requests().into_iter().filter(RecordedRequest::is_chat).collect()
    }

    /// Waits until the record satisfies a condition, at most `limit`. Returns the record at that time.
    pub async fn wait_until(
        &self,
        limit: Duration,
        mut is_met: impl FnMut(&[RecordedRequest]) -> bool,
    ) -> Result<Vec<RecordedRequest>, Vec<RecordedRequest>> {
        let mut changes = self.state.record.subscribe();
        let waiting = async {
            loop {
                let requests = self.requests();
                if is_met(&requests) || changes.changed().await.is_err() {
                    return requests;
                }
            }
        };
        tokio::time::timeout(limit, waiting).await.map_err(|_| self.requests())
    }

    /// Replaces the script and its faults.
    pub fn set_script(&self, script: Script) {
        self.state.set_script(script);
    }

    /// Replaces the faults and resets their counter.
    pub fn set_faults(&self, plan: FaultPlan) {
        self.state.set_faults(plan);
    }

    /// Opens a gate for waiting and future requests.
    pub fn open_gate(&self, gate: &str) {
        self.state.gates.open(gate);
    }

    /// Resets counters, record, faults (none), gates (closed) and randomness.
    pub fn reset(&self) {
        self.state.reset();
    }

    /// Stops the endpoint. Open responses are aborted after a grace period.
    pub async fn shutdown(mut self) {
        self.state.stopping.cancel();
        if let Some(mut task) = self.task.take()
            && tokio::time::timeout(SHUTDOWN_GRACE, &mut task).await.is_err()
        {
            task.abort();
        }
    }
}

impl Drop for LlmSim {
    fn drop(&mut self) {
        self.state.stopping.cancel();
        if let Some(task) = &self.task {
            task.abort();
        }
    }
}

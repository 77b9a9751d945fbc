//! The endpoint itself: its builder, its handle, its routes.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

use rand::SeedableRng as _;
use rand::rngs::StdRng;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::brain::Brain;
use crate::connection::{Reset, Resettable};
use crate::faults::{FaultPlan, FaultState};
use crate::gates::Gates;
use crate::offline::OfflineModel;
use crate::pace::{Latency, Pacing};
use crate::record::{Record, Recorded};
use crate::script::{Player, Script};

mod chat;
mod routes;

pub(crate) use routes::error;

/// How long open answers may go on once the endpoint is told to stop.
const STOP_LIMIT: Duration = Duration::from_secs(2);

/// Who answers.
pub(crate) enum Mind {
    /// A script.
    Script(Box<Player>),
    /// Anything else.
    Other(Arc<dyn Brain>),
}

impl Mind {
    pub(crate) fn brain(&self) -> &dyn Brain {
        match self {
            Self::Script(player) => player.as_ref(),
            Self::Other(brain) => brain.as_ref(),
        }
    }
}

/// What the routes share.
pub(crate) struct State {
    pub(crate) mind: RwLock<Arc<Mind>>,
    pub(crate) faults: Mutex<FaultState>,
    pub(crate) rng: Mutex<StdRng>,
    pub(crate) seed: u64,
    pub(crate) record: Arc<Record>,
    /// The chunks of the script's constant answer, once they were asked for.
    prepared: Mutex<Option<chat::Prepared>>,
    pub(crate) gates: Arc<Gates>,
    pub(crate) chats: AtomicU64,
    pub(crate) models: RwLock<Vec<String>>,
    pub(crate) pacing: Pacing,
    pub(crate) latency: Latency,
    pub(crate) dimensions: usize,
    pub(crate) api_key: Option<String>,
    pub(crate) stopping: CancellationToken,
}

impl State {
    pub(crate) fn mind(&self) -> Arc<Mind> {
        Arc::clone(&self.mind.read().unwrap_or_else(PoisonError::into_inner))
    }

    pub(crate) fn set_script(&self, script: Script) {
        let (mind, models, faults) = from_script(script);
        *self.models.write().unwrap_or_else(PoisonError::into_inner) = models;
        *self.mind.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(mind);
        *self.prepared.lock().unwrap_or_else(PoisonError::into_inner) = None;
        self.set_faults(faults);
        self.chats.store(0, Ordering::Relaxed);
    }

    pub(crate) fn set_faults(&self, plan: FaultPlan) {
        *self.faults.lock().unwrap_or_else(PoisonError::into_inner) = FaultState::new(plan);
    }

    pub(crate) fn reset(&self) {
        self.mind().brain().reset();
        self.set_faults(FaultPlan::none());
        self.record.clear();
        self.gates.close_all();
        self.chats.store(0, Ordering::Relaxed);
        *self.rng.lock().unwrap_or_else(PoisonError::into_inner) = StdRng::seed_from_u64(self.seed);
    }
}

fn from_script(script: Script) -> (Mind, Vec<String>, FaultPlan) {
    let models = if script.models.is_empty() { vec!["scripted".to_owned()] } else { script.models.clone() };
    let faults = script.faults.clone();
    (Mind::Script(Box::new(Player::new(script))), models, faults)
}

/// Settings of an endpoint to be.
pub struct LlmSimBuilder {
    listen: SocketAddr,
    script: Option<Script>,
    brain: Option<(Arc<dyn Brain>, Vec<String>)>,
    faults: FaultPlan,
    pacing: Pacing,
    latency: Latency,
    seed: u64,
    record: usize,
    dimensions: usize,
    api_key: Option<String>,
}

impl LlmSimBuilder {
    /// Plays this script.
    #[must_use]
    pub fn script(mut self, script: Script) -> Self {
        self.script = Some(script);
        self
    }

    /// Answers with the offline model instead of a script.
    #[must_use]
    pub fn offline_model(self) -> Self {
        self.brain(Arc::new(OfflineModel::new()), vec![crate::offline::MODEL.to_owned()])
    }

    /// Answers with this brain, under these models' names.
    #[must_use]
    pub fn brain(mut self, brain: Arc<dyn Brain>, models: Vec<String>) -> Self {
        self.brain = Some((brain, models));
        self
    }

    /// Listens here; the default is a free port of 127.0.0.1.
    #[must_use]
    pub fn listen(mut self, address: SocketAddr) -> Self {
        self.listen = address;
        self
    }

    /// Faults to begin with, instead of the script's.
    #[must_use]
    pub fn faults(mut self, plan: FaultPlan) -> Self {
        self.faults = plan;
        self
    }

    /// The pacing where neither the script nor a rule says any.
    #[must_use]
    pub fn pacing(mut self, pacing: Pacing) -> Self {
        self.pacing = pacing;
        self
    }

    /// The latency where neither the script nor a rule says any.
    #[must_use]
    pub fn latency(mut self, latency: Latency) -> Self {
        self.latency = latency;
        self
    }

    /// The seed of latencies and probable faults.
    #[must_use]
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// How many requests the record keeps (the last ones); 0 keeps none and saves the time.
    #[must_use]
    pub fn record(mut self, requests: usize) -> Self {
        self.record = requests;
        self
    }

    /// The length of embeddings.
    #[must_use]
    pub fn dimensions(mut self, dimensions: usize) -> Self {
        self.dimensions = dimensions;
        self
    }

    /// Refuses requests under `/v1/` without this key (401).
    #[must_use]
    pub fn api_key(mut self, key: impl Into<String>) -> Self {
        self.api_key = Some(key.into());
        self
    }

    /// Listens and serves until the handle is dropped or shut down.
    pub async fn start(self) -> std::io::Result<LlmSim> {
        let listener = TcpListener::bind(self.listen).await?;
        let address = listener.local_addr()?;
        let (mind, models, scripted) = match (self.brain, self.script) {
            (Some((brain, models)), _) => (Mind::Other(brain), models, FaultPlan::none()),
            (None, script) => from_script(script.unwrap_or_else(|| Script::always("This is a scripted answer."))),
        };
        let faults = if self.faults.rules.is_empty() { scripted } else { self.faults };
        let stopping = CancellationToken::new();
        let state = Arc::new(State {
            mind: RwLock::new(Arc::new(mind)),
            faults: Mutex::new(FaultState::new(faults)),
            rng: Mutex::new(StdRng::seed_from_u64(self.seed)),
            seed: self.seed,
            record: Arc::new(Record::new(self.record)),
            prepared: Mutex::new(None),
            gates: Arc::new(Gates::new()),
            chats: AtomicU64::new(0),
            models: RwLock::new(models),
            pacing: self.pacing,
            latency: self.latency,
            dimensions: self.dimensions,
            api_key: self.api_key,
            stopping: stopping.clone(),
        });
        let service = routes::router(Arc::clone(&state)).into_make_service_with_connect_info::<Reset>();
        let serve =
            axum::serve(Resettable(listener), service).with_graceful_shutdown(stopping.clone().cancelled_owned());
        let task = tokio::spawn(async move { serve.await });
        Ok(LlmSim { address, state, task: Some(task) })
    }
}

/// A running endpoint. Dropping it stops it.
pub struct LlmSim {
    address: SocketAddr,
    state: Arc<State>,
    task: Option<JoinHandle<std::io::Result<()>>>,
}

impl LlmSim {
    /// An endpoint to set up: a free port, one constant answer, the last 1,000 requests kept.
    pub fn builder() -> LlmSimBuilder {
        LlmSimBuilder {
            listen: (Ipv4Addr::LOCALHOST, 0).into(),
            script: None,
            brain: None,
            faults: FaultPlan::none(),
            pacing: Pacing::default(),
            latency: Latency::None,
            seed: 0,
            record: 1_000,
            dimensions: 256,
            api_key: None,
        }
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The base URL that a client is given, such as `http://127.0.0.1:1234/v1`.
    pub fn url(&self) -> String {
        format!("http://{}/v1", self.address)
    }

    /// The requests that are kept, oldest first.
    pub fn requests(&self) -> Vec<Recorded> {
        self.state.record.all()
    }

    /// The chat requests among them.
    pub fn chats(&self) -> Vec<Recorded> {
        self.requests().into_iter().filter(Recorded::is_chat).collect()
    }

    /// Waits until the record is as wanted, at most `limit`; gives the record as it is then.
    pub async fn wait_until(
        &self,
        limit: Duration,
        mut wanted: impl FnMut(&[Recorded]) -> bool,
    ) -> Result<Vec<Recorded>, Vec<Recorded>> {
        let mut changes = self.state.record.subscribe();
        let waiting = async {
            loop {
                let requests = self.requests();
                if wanted(&requests) || changes.changed().await.is_err() {
                    return requests;
                }
            }
        };
        tokio::time::timeout(limit, waiting).await.map_err(|_| self.requests())
    }

    /// Plays another script from its beginning, with its faults.
    pub fn set_script(&self, script: Script) {
        self.state.set_script(script);
    }

    /// Replaces the faults; counting begins anew.
    pub fn set_faults(&self, plan: FaultPlan) {
        self.state.set_faults(plan);
    }

    /// Lets through who waits at the gate, and who comes to it later.
    pub fn open_gate(&self, gate: &str) {
        self.state.gates.open(gate);
    }

    /// Back to the beginning: counts, record, faults (none), gates (closed), randomness.
    pub fn reset(&self) {
        self.state.reset();
    }

    /// Stops: no new connections, open answers are broken off.
    pub async fn shutdown(mut self) {
        self.state.stopping.cancel();
        if let Some(mut task) = self.task.take()
            && tokio::time::timeout(STOP_LIMIT, &mut task).await.is_err()
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

//! The router of a gateway: finds the node of a thread and calls it.
//!
//! The router calls the cached owner, otherwise the node that placement selects for the thread. It follows one redirect
//! `MOVED(owner)`. If a node is unreachable or drains, the router removes it from the cache and calls another node,
//! which takes over the thread or refuses. A request calls at most [`CALLED_MAX`] nodes. `watch.rs` continues a watch
//! if the owner fails.

mod watch;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use folio_history::command::{
    ApproveAnswer, ApproveCommand, ChatCommand, CreateThreadCommand, DeleteThreadCommand, ForkThreadCommand,
    RenameThreadCommand,
};
use folio_history::event::TurnView;
use folio_history::peer::{ConversationPeer, EventStream, SharedPeer};
use folio_history::thread::{ThreadView, thread_of_chat};
use folio_resources::Rendition;
use folio_storage::{ClusterNode, ThreadStore, TurnEventStore};
use folio_types::profile::DOCUMENT_PROFILE;
use folio_types::{
    DocumentId, Environment, Error, Incarnation, OrgId, Principal, Reason, RequestId, Result, ThreadId, TurnId,
};
use futures::StreamExt as _;
use moka::future::Cache;
use tokio::sync::watch::Receiver;

use crate::options::Options;
use crate::placement::{LoadBound, place};
use crate::remote::{LossStage, Peers, loss_stage, node_lost};

/// Maximum number of nodes that a request calls: the first choice, the owner of a redirect, and a replacement of a lost
/// node.
const CALLED_MAX: usize = 3;

/// Time without a call after which the cached owner of a thread is dropped. The next call is sent to the node that placement selects.
const OWNER_IDLE: Duration = Duration::from_secs(600);

type Key = (OrgId, ThreadId);

/// Sends each command of a conversation to the node of its thread. Cheap to clone.
#[derive(Clone)]
pub struct Router {
    inner: Arc<Inner>,
}

#[derive(Clone)]
struct Inner {
    /// The live nodes of the membership view.
    live: Receiver<Arc<Vec<ClusterNode>>>,
    peers: Peers,
    /// Address and interface of the node in this process.
    local: Option<(Arc<str>, SharedPeer)>,
    /// None: a watch reads no stores.
    shared: Option<watch::WatchStores>,
    /// The last known owners of threads.
    owners: Cache<Key, Incarnation>,
    /// Nodes that were unreachable recently.
    avoided: Cache<Incarnation, ()>,
    environment: Arc<dyn Environment>,
    /// The bound of the load above which placement selects another node.
    bound: LoadBound,
}

impl std::fmt::Debug for Router {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Router").field("peers", &self.inner.peers).finish_non_exhaustive()
    }
}

impl Router {
    /// Creates a router over the live nodes of a membership view.
    pub fn new(
        live: Receiver<Arc<Vec<ClusterNode>>>,
        peers: Peers,
        options: &Options,
        environment: Arc<dyn Environment>,
    ) -> Self {
        Self {
            inner: Arc::new(Inner {
                live,
                peers,
                local: None,
                shared: None,
                owners: Cache::builder().max_capacity(options.owners_remembered).time_to_idle(OWNER_IDLE).build(),
                avoided: Cache::builder().max_capacity(1_024).time_to_live(options.avoid).build(),
                environment,
                bound: options.load_bound(),
            }),
        }
    }

    /// Calls the node of this process directly. `address` is the node's address in the membership.
    #[must_use]
    pub fn with_node(self, address: &str, node: SharedPeer) -> Self {
        let local = Some((address.into(), node));
        Self { inner: Arc::new(Inner { local, ..(*self.inner).clone() }) }
    }

    /// Adds the stores that a watch reads while no owner is reachable: the published events, and the threads to check
    /// the permission.
    #[must_use]
    pub fn with_shared(self, threads: Arc<dyn ThreadStore>, events: Arc<dyn TurnEventStore>) -> Self {
        let shared = Some(watch::WatchStores { threads, events });
        Self { inner: Arc::new(Inner { shared, ..(*self.inner).clone() }) }
    }

    /// Calls the node of a thread. An idempotent request may be resent after it was possibly sent to a lost node; a
    /// change is idempotent if it has a request id.
    async fn call_node<T, F>(&self, key: Key, is_idempotent: bool, call: impl Fn(SharedPeer) -> F) -> Result<T>
    where
        F: Future<Output = Result<T>>,
    {
        self.inner.call_node(key, is_idempotent, call).await.map(|(answer, _)| answer)
    }

    /// Makes a streaming RPC to the node of a thread. The stream fails with `NODE_LOST` when the node dies.
    async fn stream_from_node<F>(&self, key: Key, call: impl Fn(SharedPeer) -> F) -> Result<EventStream>
    where
        F: Future<Output = Result<EventStream>>,
    {
        let (mut events, node) = self.inner.call_node(key, true, call).await?;
        let death = self.inner.death_of(&node);
        let events = async_stream::stream! {
            tokio::pin!(death);
            loop {
                tokio::select! {
                    item = events.next() => match item {
                        Some(item) => yield item,
                        None => break,
                    },
                    error = &mut death => {
                        yield Err(error);
                        break;
                    }
                }
            }
        };
        Ok(events.boxed())
    }
}

impl Inner {
    async fn call_node<T, F>(
        &self,
        key: Key,
        is_idempotent: bool,
        call: impl Fn(SharedPeer) -> F,
    ) -> Result<(T, ClusterNode)>
    where
        F: Future<Output = Result<T>>,
    {
        let mut called: Vec<(Incarnation, Error)> = Vec::new();
        let mut owner: Option<Incarnation> = None;
        while called.len() < CALLED_MAX {
            let Some(node) = self.choose(&key, owner.as_ref(), &called).await else { break };
            let error = match self.call_once(&node, &call).await {
                Ok(answer) => {
                    self.owners.insert(key, node.node.incarnation.clone()).await;
                    return Ok((answer, node));
                }
                Err(error) => error,
            };
            if let Some(now) = error.owner() {
                // If another node redirects to a node that failed, the failure is the result.
                if let Some((_, failure)) = called.iter().find(|(node, _)| *node == now) {
                    return Err(failure.clone());
                }
                // Only one redirect is followed.
                if owner.is_some() {
                    return Err(error);
                }
                self.owners.insert(key.clone(), now.clone()).await;
                owner = Some(now);
            } else if !self.calls_another_node(&error, &node, is_idempotent).await {
                return Err(error);
            } else if self.owners.get(&key).await.as_ref() == Some(&node.node.incarnation) {
                self.owners.invalidate(&key).await;
            }
            called.push((node.node.incarnation, error));
        }
        Err(called.pop().map_or_else(no_node, |(_, error)| error))
    }

    /// Returns true if another node is called after this error.
    async fn calls_another_node(&self, error: &Error, node: &ClusterNode, is_idempotent: bool) -> bool {
        match loss_stage(error) {
            Some(stage) => {
                self.avoided.insert(node.node.incarnation.clone(), ()).await;
                stage == LossStage::NotSent || is_idempotent
            }
            // A draining node refuses a request before it has an effect.
            None => error.reason == Reason::Draining,
        }
    }

    /// Returns the node to call among those that were not called: the owner of the last redirect, the cached owner, or
    /// the placement of the thread. Draining and recently unreachable nodes have the lowest priority.
    async fn choose(
        &self,
        key: &Key,
        redirect: Option<&Incarnation>,
        called: &[(Incarnation, Error)],
    ) -> Option<ClusterNode> {
        let live = Arc::clone(&self.live.borrow());
        let is_uncalled = |node: &ClusterNode| !called.iter().any(|(before, _)| *before == node.node.incarnation);
        if let Some(redirect) = redirect
            && called.last().is_some_and(|(_, error)| error.owner().as_ref() == Some(redirect))
        {
            return find(&live, redirect).filter(|node| is_uncalled(node)).cloned();
        }
        if let Some(cached) = self.owners.get(key).await
            && let Some(node) = find(&live, &cached).filter(|node| is_uncalled(node))
        {
            return Some(node.clone());
        }
        let (org, thread) = key;
        let of = |nodes: Vec<&ClusterNode>| place(org, thread.as_str(), nodes, self.bound).cloned();
        let up: Vec<&ClusterNode> = live.iter().filter(|node| !node.node.draining && is_uncalled(node)).collect();
        let reachable = up.iter().copied().filter(|node| !self.avoided.contains_key(&node.node.incarnation)).collect();
        of(reachable).or_else(|| of(up)).or_else(|| of(live.iter().filter(|node| is_uncalled(node)).collect()))
    }

    async fn call_once<T, F>(&self, node: &ClusterNode, call: &impl Fn(SharedPeer) -> F) -> Result<T>
    where
        F: Future<Output = Result<T>>,
    {
        if let Some((_, local)) = self.local.as_ref().filter(|(address, _)| **address == *node.node.address) {
            return call(Arc::clone(local)).await;
        }
        let peer = Arc::new(self.peers.at(&node.node.address)?);
        tokio::select! {
            answer = call(peer) => answer,
            death = self.death_of(node) => Err(death),
        }
    }

    /// Resolves when the node is dead. A stopped process does not close its connections.
    ///
    /// A restarted node at the same address serves the RPCs to the previous incarnation. Therefore the future is
    /// pending while any incarnation at the address is live; keepalive closes the connections of a stopped process.
    fn death_of(&self, node: &ClusterNode) -> impl Future<Output = Error> + Send + use<> {
        let (mut live, node) = (self.live.clone(), node.node.clone());
        async move {
            let is_same_process =
                |one: &ClusterNode| one.node.incarnation == node.incarnation || one.node.address == node.address;
            if live.wait_for(|live| !live.iter().any(is_same_process)).await.is_err() {
                // Membership has stopped, so no further snapshot can report a death.
                std::future::pending::<()>().await;
            }
            node_lost()
        }
    }
}

fn find<'a>(live: &'a [ClusterNode], incarnation: &Incarnation) -> Option<&'a ClusterNode> {
    live.iter().find(|member| member.node.incarnation == *incarnation)
}

fn no_node() -> Error {
    Error::unavailable(Reason::NodeLost, "no node is available").retry_after(std::time::Duration::from_secs(1))
}

fn key(principal: &Principal, thread: &ThreadId) -> Key {
    (principal.org.clone(), thread.clone())
}

#[async_trait]
impl ConversationPeer for Router {
    async fn chat(&self, principal: &Principal, mut command: ChatCommand) -> Result<EventStream> {
        // Generate the id that a node would generate, so that a second node joins the turn that the first one started.
        let request = command.request_id.get_or_insert_with(|| RequestId::generate(&*self.inner.environment)).clone();
        let thread = command.thread.clone().unwrap_or_else(|| {
            let profile = command.profile.as_deref().unwrap_or(DOCUMENT_PROFILE);
            thread_of_chat(principal, profile, &command, &request)
        });
        let command = &command;
        let call = |peer: SharedPeer| async move { peer.chat(principal, command.clone()).await };
        self.stream_from_node(key(principal, &thread), call).await
    }

    async fn approve(&self, principal: &Principal, command: ApproveCommand) -> Result<ApproveAnswer> {
        let command = &command;
        let call = |peer: SharedPeer| async move { peer.approve(principal, command.clone()).await };
        self.call_node(key(principal, &command.turn.thread), true, call).await
    }

    async fn resume(&self, principal: &Principal, turn: &TurnId) -> Result<EventStream> {
        let call = |peer: SharedPeer| async move { peer.resume(principal, turn).await };
        self.stream_from_node(key(principal, &turn.thread), call).await
    }

    async fn cancel(&self, principal: &Principal, turn: &TurnId) -> Result<TurnView> {
        let call = |peer: SharedPeer| async move { peer.cancel(principal, turn).await };
        self.call_node(key(principal, &turn.thread), true, call).await
    }

    async fn get_turn(&self, principal: &Principal, turn: &TurnId) -> Result<TurnView> {
        let call = |peer: SharedPeer| async move { peer.get_turn(principal, turn).await };
        self.call_node(key(principal, &turn.thread), true, call).await
    }

    async fn open_turn(&self, principal: &Principal, thread: &ThreadId) -> Result<Option<TurnView>> {
        let call = |peer: SharedPeer| async move { peer.open_turn(principal, thread).await };
        self.call_node(key(principal, thread), true, call).await
    }

    async fn watch(&self, principal: &Principal, turn: &TurnId, from_event: u64) -> Result<EventStream> {
        watch::watch(self, principal, turn, from_event).await
    }

    async fn create_thread(&self, principal: &Principal, command: CreateThreadCommand) -> Result<ThreadView> {
        // A new thread has no owner, so any node may create it.
        let key = key(principal, &ThreadId::generate(&*self.inner.environment));
        let command = &command;
        let call = |peer: SharedPeer| async move { peer.create_thread(principal, command.clone()).await };
        self.call_node(key, command.request_id.is_some(), call).await
    }

    async fn rename_thread(&self, principal: &Principal, command: RenameThreadCommand) -> Result<ThreadView> {
        let command = &command;
        let call = |peer: SharedPeer| async move { peer.rename_thread(principal, command.clone()).await };
        self.call_node(key(principal, &command.thread), true, call).await
    }

    async fn delete_thread(&self, principal: &Principal, command: DeleteThreadCommand) -> Result<()> {
        let command = &command;
        let call = |peer: SharedPeer| async move { peer.delete_thread(principal, command.clone()).await };
        self.call_node(key(principal, &command.thread), command.request_id.is_some(), call).await
    }

    async fn fork_thread(&self, principal: &Principal, command: ForkThreadCommand) -> Result<ThreadView> {
        let command = &command;
        let call = |peer: SharedPeer| async move { peer.fork_thread(principal, command.clone()).await };
        self.call_node(key(principal, &command.thread), command.request_id.is_some(), call).await
    }

    async fn render(&self, principal: &Principal, document: &DocumentId, rendition: &Rendition) -> Result<()> {
        // Any node may make a rendition. The id of a thread that does not exist selects the same node for a document.
        let key = key(principal, &ThreadId::derive(&["page images", document.as_str()]));
        let call = |peer: SharedPeer| async move { peer.render(principal, document, rendition).await };
        self.call_node(key, true, call).await
    }
}

//! Nodes on loopback. Each has its own runtime, so that it can be killed with all its tasks and connections.

use std::sync::Arc;
use std::time::Duration;

use folio_cluster::{NodePeer, NodeServer, Options, Peers, RemotePeer, Router, Shutdown};
use folio_history::command::{ApproveCommand, ForkThreadCommand};
use folio_history::event::Event;
use folio_history::peer::EventStream;
use folio_storage::{ClusterNode, NodeRecord};
use folio_types::{OrgId, Principal, Result, Role, Secret, System, ThreadId, TurnId, UserId};
use futures::StreamExt as _;
use tokio::net::TcpListener;
use tokio::runtime::Runtime;
use tokio::sync::watch;
use tonic_health::server::HealthReporter;

use crate::scripted::ScriptedPeer;

pub(crate) const LIMIT: Duration = Duration::from_secs(20);
const SECRET: &str = "the secret of a cluster in a test, 0123456789";

pub(crate) fn options() -> Options {
    Options { secrets: vec![Secret::new(SECRET)], listen: "127.0.0.1:0".into(), ..Options::default() }
}

pub(crate) fn principal() -> Principal {
    Principal::new(OrgId::derive(&["o"]), UserId::derive(&["u"]), Role::Admin)
}

pub(crate) fn thread(number: u32) -> ThreadId {
    ThreadId::derive(&[&number.to_string()])
}

pub(crate) fn turn(number: u32) -> TurnId {
    TurnId::new(thread(number), 1)
}

/// The server of a node. Dropping it kills the server.
pub(crate) struct Server {
    pub(crate) address: String,
    pub(crate) shutdown: Shutdown,
    runtime: Option<Runtime>,
}

impl Server {
    pub(crate) fn start(peer: Arc<dyn NodePeer>, options: &Options) -> Self {
        Self::start_at("127.0.0.1:0", peer, options)
    }

    pub(crate) fn start_at(address: &str, peer: Arc<dyn NodePeer>, options: &Options) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let listener = std::net::TcpListener::bind(address).unwrap();
        listener.set_nonblocking(true).unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let (shutdown, options) = (Shutdown::default(), options.clone());
        let notified = shutdown.clone();
        runtime.spawn(async move {
            let listener = TcpListener::from_std(listener).unwrap();
            NodeServer::serve(listener, peer, &options, Arc::new(System), HealthReporter::new(), notified)
                .await
                .unwrap();
        });
        Self { address, shutdown, runtime: Some(runtime) }
    }

    /// Kills the server and closes every connection, as the death of a process does.
    pub(crate) fn kill(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            // Wait until the listener is closed. A thread of a runtime must not block, so use another one.
            std::thread::spawn(move || runtime.shutdown_timeout(LIMIT)).join().unwrap();
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
    }
}

pub(crate) struct Node {
    pub(crate) scripted: Arc<ScriptedPeer>,
    pub(crate) server: Server,
}

impl Node {
    pub(crate) fn start(name: &str, options: &Options) -> Self {
        let scripted = Arc::new(ScriptedPeer::new(name));
        let server = Server::start(Arc::clone(&scripted) as Arc<dyn NodePeer>, options);
        Self { scripted, server }
    }

    /// Starts a node with the default options. Returns it with a client that calls it.
    pub(crate) fn with_peer() -> (Self, RemotePeer) {
        let node = Self::start("a", &options());
        let peer = peer(&node.server, &options());
        (node, peer)
    }

    pub(crate) fn member(&self) -> ClusterNode {
        let node = NodeRecord::new(self.scripted.incarnation.clone(), &self.server.address, 100_000);
        ClusterNode { node, silent_for: Duration::ZERO, is_dead: false }
    }
}

pub(crate) fn peer(server: &Server, options: &Options) -> RemotePeer {
    Peers::new(options, Arc::new(System)).unwrap().at(&server.address).unwrap()
}

pub(crate) struct Cluster {
    pub(crate) nodes: Vec<Node>,
    members: watch::Sender<Arc<Vec<ClusterNode>>>,
    pub(crate) router: Router,
}

impl Cluster {
    pub(crate) fn start(count: usize) -> Self {
        let options = options();
        let nodes: Vec<_> = (0..count).map(|number| Node::start(&format!("node {number}"), &options)).collect();
        let members = watch::Sender::new(Arc::new(nodes.iter().map(Node::member).collect()));
        let peers = Peers::new(&options, Arc::new(System)).unwrap();
        let router = Router::new(members.subscribe(), peers, &options, Arc::new(System));
        Self { nodes, members, router }
    }

    pub(crate) fn change(&self, change: impl FnOnce(&mut Vec<ClusterNode>)) {
        self.members.send_modify(|members| change(Arc::make_mut(members)));
    }

    /// Returns a thread that is placed at this node.
    pub(crate) fn thread_of(&self, node: usize) -> ThreadId {
        let members: Vec<ClusterNode> = self.nodes.iter().map(Node::member).collect();
        let placed = |thread: &ThreadId| {
            let (org, bound) = (principal().org, options().load_bound());
            folio_cluster::placement::place(&org, thread.as_str(), &members, bound).cloned()
        };
        (0..).map(thread).find(|thread| placed(thread).as_ref() == Some(&members[node])).unwrap()
    }

    pub(crate) fn turn_of(&self, node: usize) -> TurnId {
        TurnId::new(self.thread_of(node), 1)
    }

    pub(crate) fn call_counts(&self) -> Vec<usize> {
        self.nodes.iter().map(|node| node.scripted.call_count()).collect()
    }

    /// Returns the node that served an RPC, by the thread id in its response.
    pub(crate) fn node_of(&self, answer: &ThreadId) -> usize {
        self.nodes.iter().position(|node| node.scripted.own_turn().thread == *answer).unwrap()
    }
}

/// Collects a stream within the time limit.
pub(crate) async fn all(events: EventStream) -> Vec<Result<Event>> {
    with_timeout(events.collect()).await
}

pub(crate) async fn with_timeout<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(LIMIT, future).await.expect("took too long")
}

pub(crate) fn approve(turn: &TurnId) -> ApproveCommand {
    ApproveCommand {
        turn: turn.clone(),
        round: Some(1),
        decisions: Vec::new(),
        reject_undecided: false,
        continue_auto_approved: false,
    }
}

pub(crate) fn fork(thread: &ThreadId, request_id: Option<&str>) -> ForkThreadCommand {
    let request_id = request_id.map(|id| id.parse().unwrap());
    ForkThreadCommand { thread: thread.clone(), message_count: None, title: None, request_id }
}

//! A deciding write that reaches the server after its sender reported a failure has no effect.

use std::sync::Arc;
use std::time::Duration;

use folio_resources::{NewPrompt, Prompt, PromptChange, Tag, TagChange};
use folio_storage::Stores;
use folio_storage_cql::{CqlStore, Options};
use folio_types::op::{Expected, OpKey, OpState, Write, WriteOutcome};
use folio_types::{Digest, OrgId, PromptId, Reason, TagId, Timestamp, UserId};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;

use crate::{SharedStores, nonce, open_shared_stores, options};

const LIMIT: Duration = Duration::from_secs(30);
/// Length of the header of a frame in version 4 of the CQL protocol: version, flags, stream (2), opcode, length (4).
const HEADER_BYTES: usize = 9;
const BATCH: u8 = 0x0d;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// The batch was not sent yet.
    Waiting,
    /// The proxy has the batch. Contains the stream of the batch.
    Delayed([u8; 2]),
    /// The batch may pass.
    Released([u8; 2]),
    /// The server answered the batch.
    Answered,
}

/// A proxy to a CQL server that delays the first batch with a text. Every other request passes.
struct LateBatchProxy {
    address: String,
    phase: Arc<watch::Sender<Phase>>,
    _tasks: JoinSet<()>,
}

impl LateBatchProxy {
    async fn start(server: &str, text: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let phase = Arc::new(watch::Sender::new(Phase::Waiting));
        let (server, text, shared) = (server.to_owned(), text.to_owned(), Arc::clone(&phase));
        let mut tasks = JoinSet::new();
        tasks.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((client, _)) = listener.accept().await {
                let server = TcpStream::connect(&server).await.unwrap();
                let (from_client, to_client) = client.into_split();
                let (from_server, to_server) = server.into_split();
                let (frames, passing) = mpsc::channel(16);
                connections.spawn(read_requests(from_client, frames));
                connections.spawn(write_requests(passing, to_server, text.clone(), Arc::clone(&shared)));
                connections.spawn(forward_answers(from_server, to_client, Arc::clone(&shared)));
            }
        });
        Self { address, phase, _tasks: tasks }
    }

    async fn wait_until_delayed(&self) {
        let mut phase = self.phase.subscribe();
        let delayed = phase.wait_for(|phase| *phase != Phase::Waiting);
        tokio::time::timeout(LIMIT, delayed).await.expect("the batch is sent").unwrap();
    }

    /// Lets the batch pass, and waits for its answer.
    async fn release(&self) {
        self.phase.send_modify(|phase| {
            if let Phase::Delayed(stream) = *phase {
                *phase = Phase::Released(stream);
            }
        });
        let mut phase = self.phase.subscribe();
        let answered = phase.wait_for(|phase| *phase == Phase::Answered);
        tokio::time::timeout(LIMIT, answered).await.expect("the batch is answered").unwrap();
    }
}

async fn frame(from: &mut OwnedReadHalf) -> Option<Vec<u8>> {
    let mut frame = vec![0; HEADER_BYTES];
    from.read_exact(&mut frame).await.ok()?;
    let length = u32::from_be_bytes([frame[5], frame[6], frame[7], frame[8]]);
    frame.resize(HEADER_BYTES + length as usize, 0);
    from.read_exact(&mut frame[HEADER_BYTES..]).await.ok()?;
    Some(frame)
}

async fn read_requests(mut from: OwnedReadHalf, frames: mpsc::Sender<Vec<u8>>) {
    while let Some(frame) = frame(&mut from).await {
        if frames.send(frame).await.is_err() {
            return;
        }
    }
}

async fn write_requests(
    mut frames: mpsc::Receiver<Vec<u8>>,
    mut to: OwnedWriteHalf,
    text: String,
    phase: Arc<watch::Sender<Phase>>,
) {
    let mut delayed = None;
    let mut changes = phase.subscribe();
    loop {
        let passing = tokio::select! {
            frame = frames.recv() => match frame {
                Some(frame) if is_delayed(&frame, &text, &phase) => {
                    delayed = Some(frame);
                    continue;
                }
                Some(frame) => frame,
                None => return,
            },
            _ = changes.wait_for(|phase| matches!(phase, Phase::Released(_))), if delayed.is_some() => {
                delayed.take().unwrap()
            }
        };
        if to.write_all(&passing).await.is_err() {
            return;
        }
    }
}

/// Returns true for the first batch with the text.
fn is_delayed(frame: &[u8], text: &str, phase: &watch::Sender<Phase>) -> bool {
    let is_match = frame[4] == BATCH && frame.windows(text.len()).any(|window| window == text.as_bytes());
    is_match
        && phase.send_if_modified(|phase| {
            let is_first = *phase == Phase::Waiting;
            if is_first {
                *phase = Phase::Delayed([frame[2], frame[3]]);
            }
            is_first
        })
}

async fn forward_answers(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, phase: Arc<watch::Sender<Phase>>) {
    while let Some(frame) = frame(&mut from).await {
        phase.send_if_modified(|phase| {
            // No stream has an answer before its request passed, and only one connection has the batch.
            let is_answer = *phase == Phase::Released([frame[2], frame[3]]);
            if is_answer {
                *phase = Phase::Answered;
            }
            is_answer
        });
        if to.write_all(&frame).await.is_err() {
            return;
        }
    }
}

struct Fixture {
    /// Stores whose batch is late.
    late: Stores,
    /// Stores of another process.
    other: Stores,
    proxy: LateBatchProxy,
    org: OrgId,
    tag: TagId,
    _opened: SharedStores,
}

/// The request whose batch is late.
const REQUEST: &str = "late-deletion";

impl Fixture {
    async fn start() -> Self {
        let (opened, org) = (open_shared_stores().await, OrgId::derive(&[&nonce()]));
        let direct = options("folio_suites").await;
        // The op key of the batch contains the request.
        let proxy = LateBatchProxy::start(&direct.contact_points[0], REQUEST).await;
        let through_proxy = Options { contact_points: vec![proxy.address.clone()], ..direct };
        let late = CqlStore::open(through_proxy).await.unwrap().stores(opened.stores.blobs.clone());
        let other = opened.stores.clone();
        let tag = TagId::derive(&[org.as_str(), "tag"]);
        let fixture = Self { late, other, proxy, org, tag, _opened: opened };
        let create = TagChange::Create { name: "used".to_owned(), color: None, description: None };
        let create = fixture.write("create", Expected::Absent, create);
        let created = fixture.other.of::<Tag>().decide(&fixture.tag, create).await.unwrap();
        assert!(matches!(created, WriteOutcome::Row(row) if matches!(row.state, OpState::Done(_))));
        fixture
    }

    fn write<C>(&self, request: &str, expected: Expected, change: C) -> Write<C> {
        let user = UserId::derive(&["user"]);
        Write {
            org: self.org.clone(),
            op: OpKey::Request { user: user.clone(), request: request.parse().unwrap() },
            digest: Digest::of(request.as_bytes()),
            by: user,
            at: Timestamp::constant(1_790_000_000, 0),
            expected,
            change,
        }
    }

    async fn delete(&self, stores: &Stores) -> folio_types::Result<WriteOutcome> {
        let write = self.write(REQUEST, Expected::Version(1), TagChange::Delete);
        stores.of::<Tag>().decide(&self.tag, write).await
    }

    /// Uses the tag in a prompt, so that the tag cannot be deleted.
    async fn use_tag(&self) {
        let (name, content, tags) = ("uses".to_owned(), "Read.".to_owned(), vec![self.tag.clone()]);
        let create = PromptChange::Create(NewPrompt { name, content, tags, ..NewPrompt::default() });
        self.change_prompt("use", Expected::Absent, create).await;
    }

    async fn stop_using_tag(&self) {
        self.change_prompt("stop", Expected::Version(1), PromptChange::Delete).await;
    }

    async fn change_prompt(&self, request: &str, expected: Expected, change: PromptChange) {
        let id = PromptId::derive(&[self.org.as_str(), "prompt"]);
        let decided = self.other.of::<Prompt>().decide(&id, self.write(request, expected, change)).await;
        assert!(matches!(decided, Ok(WriteOutcome::Row(_))), "{decided:?}");
    }

    async fn tag_exists(&self) -> bool {
        self.other.of::<Tag>().get(&self.org, &self.tag).await.unwrap().is_some()
    }
}

#[tokio::test]
async fn invariant_3_a_late_batch_of_a_refused_request_has_no_effect() {
    let fixture = Fixture::start().await;
    let meanwhile = async {
        fixture.proxy.wait_until_delayed().await;
        fixture.use_tag().await;
    };
    // The outcome of the batch is unknown, and the second attempt finds that the tag is in use.
    let (refused, ()) = tokio::join!(fixture.delete(&fixture.late), meanwhile);
    assert_eq!(refused.unwrap_err().reason, Reason::InUse);
    fixture.stop_using_tag().await;
    fixture.proxy.release().await;
    assert!(fixture.tag_exists().await, "the deletion was reported as refused");
}

#[tokio::test]
async fn invariant_3_a_late_batch_of_a_request_that_was_repeated_elsewhere_and_refused_has_no_effect() {
    let fixture = Fixture::start().await;
    let refused = {
        let interrupted = fixture.delete(&fixture.late);
        tokio::pin!(interrupted);
        tokio::select! {
            decided = &mut interrupted => panic!("{decided:?}"),
            () = fixture.proxy.wait_until_delayed() => {}
        }
        // The client repeats the request at another process, because the first one does not answer.
        fixture.use_tag().await;
        fixture.delete(&fixture.other).await
    };
    assert_eq!(refused.unwrap_err().reason, Reason::InUse);
    fixture.stop_using_tag().await;
    fixture.proxy.release().await;
    assert!(fixture.tag_exists().await, "the deletion was reported as refused");
}

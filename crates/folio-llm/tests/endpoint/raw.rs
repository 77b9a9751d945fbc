//! A server that answers with exactly the bytes of a test.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

#[derive(Clone)]
pub(crate) enum Step {
    Send(Vec<u8>),
    /// Sends these bytes repeatedly until the client closes.
    Forever(Vec<u8>),
    Pause(Duration),
    /// Sends nothing more and keeps the connection open until the client closes it.
    Hang,
}

/// Response head of an event stream with chunked encoding.
pub(crate) const HEAD: &str =
    "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";

/// Encodes one chunk of the body.
pub(crate) fn chunk(text: &str) -> String {
    format!("{:x}\r\n{text}\r\n", text.len())
}

pub(crate) const END: &str = "0\r\n\r\n";

pub(crate) fn send(text: impl Into<String>) -> Step {
    Step::Send(text.into().into_bytes())
}

pub(crate) struct RawServer {
    pub(crate) address: SocketAddr,
    connections: Arc<AtomicUsize>,
    requests: Arc<AtomicUsize>,
    _task: JoinSet<()>,
}

impl RawServer {
    /// Answers every request with these steps; the connection stays open after them.
    pub(crate) async fn start(steps: Vec<Step>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (connections, requests) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let (accepted, answered) = (Arc::clone(&connections), Arc::clone(&requests));
        let mut task = JoinSet::new();
        task.spawn(async move {
            let mut open = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                accepted.fetch_add(1, Ordering::SeqCst);
                let (steps, answered) = (steps.clone(), Arc::clone(&answered));
                open.spawn(async move {
                    let _ = serve(stream, &steps, &answered).await;
                });
            }
        });
        Self { address, connections, requests, _task: task }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}/v1", self.address)
    }

    pub(crate) fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }

    pub(crate) fn requests(&self) -> usize {
        self.requests.load(Ordering::SeqCst)
    }
}

async fn serve(mut stream: TcpStream, steps: &[Step], answered: &AtomicUsize) -> std::io::Result<()> {
    while read_request(&mut stream).await?.is_some() {
        answered.fetch_add(1, Ordering::SeqCst);
        for step in steps {
            match step {
                Step::Send(bytes) => stream.write_all(bytes).await?,
                Step::Forever(bytes) => loop {
                    stream.write_all(bytes).await?;
                },
                // A slow server.
                Step::Pause(time) => tokio::time::sleep(*time).await,
                Step::Hang => {
                    while stream.read(&mut [0; 64]).await? > 0 {}
                    return Ok(());
                }
            }
        }
    }
    Ok(())
}

/// Reads one request. None: the client closed the connection.
async fn read_request(stream: &mut TcpStream) -> std::io::Result<Option<()>> {
    let mut bytes = Vec::new();
    let mut buffer = [0; 4096];
    loop {
        if let Some(head) = bytes.windows(4).position(|window| window == b"\r\n\r\n") {
            let text = String::from_utf8_lossy(&bytes[..head]).to_lowercase();
            let length = text.lines().find_map(|line| line.strip_prefix("content-length:"));
            let length: usize = length.map_or(0, |length| length.trim().parse().unwrap());
            if bytes.len() >= head + 4 + length {
                return Ok(Some(()));
            }
        }
        match stream.read(&mut buffer).await? {
            0 => return Ok(None),
            count => bytes.extend_from_slice(&buffer[..count]),
        }
    }
}

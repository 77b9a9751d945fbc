//! A TCP proxy between a process and a server, so that a test can cut or stall their connections.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;

/// The treatment of connections by a [`Proxy`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// Data passes in both directions.
    Pass,
    /// Existing and new connections are closed.
    Cut,
    /// Connections stay open, and no data passes.
    Stall,
    /// Data of the client passes; responses do not pass.
    Mute,
}

/// The mode, and the numbers of calls of [`Proxy::cut`] and [`Proxy::blackhole`].
#[derive(Debug, Clone, Copy)]
struct State {
    mode: Mode,
    cuts: u64,
    blackholes: u64,
}

/// Dropping the proxy closes its connections.
#[derive(Debug)]
pub struct Proxy {
    port: u16,
    state: watch::Sender<State>,
    target: Arc<Mutex<Option<u16>>>,
    _tasks: JoinSet<()>,
}

impl Proxy {
    /// Starts a proxy on a free port of 127.0.0.1. [`Proxy::set_target`] sets its target.
    pub async fn start() -> Self {
        Self::start_for(1, None).await
    }

    /// Starts a proxy on a port that is free on the first `hosts` loopback addresses. Each address forwards to the port
    /// `target` of the same address; without a target, connections are closed.
    pub async fn start_for(hosts: u8, target: Option<u16>) -> Self {
        let (port, listeners) = loop {
            if let Some(found) = listeners(hosts).await {
                break found;
            }
        };
        let (state, watched) = watch::channel(State { mode: Mode::Pass, cuts: 0, blackholes: 0 });
        let target = Arc::new(Mutex::new(target));
        let mut tasks = JoinSet::new();
        for (listener, host) in listeners.into_iter().zip(1..) {
            tasks.spawn(serve(listener, Ipv4Addr::new(127, 0, 0, host), Arc::clone(&target), watched.clone()));
        }
        Self { port, state, target, _tasks: tasks }
    }

    /// Sets the port of the target for new connections.
    pub fn set_target(&self, port: u16) {
        *self.target.lock().unwrap_or_else(PoisonError::into_inner) = Some(port);
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    pub fn set(&self, mode: Mode) {
        self.state.send_modify(|state| state.mode = mode);
    }

    /// Closes the current connections. New connections work.
    pub fn cut(&self) {
        self.state.send_modify(|state| state.cuts += 1);
    }

    /// Blocks the current connections forever. New connections work, as if a machine vanished and another machine took
    /// over its address.
    pub fn blackhole(&self) {
        self.state.send_modify(|state| state.blackholes += 1);
    }
}

/// Returns listeners on one port of the first `hosts` loopback addresses. None: the port is in use on one of them.
async fn listeners(hosts: u8) -> Option<(u16, Vec<TcpListener>)> {
    let first = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.ok()?;
    let port = first.local_addr().ok()?.port();
    let mut all = vec![first];
    for host in 2..=hosts {
        all.push(TcpListener::bind((Ipv4Addr::new(127, 0, 0, host), port)).await.ok()?);
    }
    Some((port, all))
}

async fn serve(listener: TcpListener, host: Ipv4Addr, target: Arc<Mutex<Option<u16>>>, state: watch::Receiver<State>) {
    let mut connections = JoinSet::new();
    while let Ok((client, _)) = listener.accept().await {
        while connections.try_join_next().is_some() {}
        let port = *target.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(port) = port {
            connections.spawn(forward(client, SocketAddr::from((host, port)), state.clone()));
        }
    }
}

/// Forwards one connection until a side closes it or it is cut.
async fn forward(client: TcpStream, target: SocketAddr, mut state: watch::Receiver<State>) {
    let State { mode, cuts, blackholes } = *state.borrow_and_update();
    if mode == Mode::Cut {
        return;
    }
    let Ok(server) = TcpStream::connect(target).await else { return };
    let _ = (client.set_nodelay(true), server.set_nodelay(true));
    let (from_client, to_client) = client.into_split();
    let (from_server, to_server) = server.into_split();
    let forwards_requests =
        move |now: &State| now.blackholes == blackholes && matches!(now.mode, Mode::Pass | Mode::Mute);
    let forwards_responses = move |now: &State| now.blackholes == blackholes && now.mode == Mode::Pass;
    let (up, down) = (
        copy(from_client, to_server, state.clone(), forwards_requests),
        copy(from_server, to_client, state.clone(), forwards_responses),
    );
    tokio::select! {
        ((), ()) = async { tokio::join!(up, down) } => {}
        _ = state.wait_for(|now| now.mode == Mode::Cut || now.cuts != cuts) => {}
    }
}

async fn copy(
    mut from: tokio::net::tcp::OwnedReadHalf,
    mut to: tokio::net::tcp::OwnedWriteHalf,
    mut state: watch::Receiver<State>,
    passes: impl Fn(&State) -> bool,
) {
    let mut buffer = vec![0; 64 * 1024];
    while let Ok(count @ 1..) = from.read(&mut buffer).await {
        let Some(bytes) = buffer.get(..count) else { return };
        if state.wait_for(&passes).await.is_err() || to.write_all(bytes).await.is_err() {
            return;
        }
    }
    let _ = to.shutdown().await;
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// Timeout of a byte that arrives.
    const SOON: Duration = Duration::from_secs(20);
    /// Time in which a byte that is blocked would arrive.
    const SILENCE: Duration = Duration::from_millis(300);

    async fn echo() -> u16 {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        // The task ends with the test's runtime.
        tokio::spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((mut stream, _)) = listener.accept().await {
                connections.spawn(async move {
                    let mut byte = [0; 1];
                    while stream.read_exact(&mut byte).await.is_ok() {
                        let _ = stream.write_all(&byte).await;
                    }
                });
            }
        });
        port
    }

    /// Sends a byte. Returns the byte that arrives within `limit`.
    async fn echo_of(stream: &mut TcpStream, byte: u8, limit: Duration) -> Option<u8> {
        stream.write_all(&[byte]).await.ok()?;
        let mut answer = [0; 1];
        let read = tokio::time::timeout(limit, stream.read_exact(&mut answer));
        read.await.ok()?.ok().map(|_| answer[0])
    }

    async fn assert_echo(stream: &mut TcpStream, byte: u8) {
        assert_eq!(echo_of(stream, byte, SOON).await, Some(byte));
    }

    async fn assert_silent(stream: &mut TcpStream, byte: u8) {
        assert_eq!(echo_of(stream, byte, SILENCE).await, None);
    }

    #[tokio::test]
    async fn a_proxy_passes_stalls_mutes_blackholes_and_cuts() {
        let proxy = Proxy::start().await;
        proxy.set_target(echo().await);
        let connect = || TcpStream::connect(proxy.address());
        let mut stream = connect().await.unwrap();
        assert_echo(&mut stream, 1).await;
        proxy.set(Mode::Stall);
        assert_silent(&mut stream, 2).await;
        proxy.set(Mode::Pass);
        let mut answer = [0; 1];
        stream.read_exact(&mut answer).await.unwrap();
        assert_eq!(answer, [2], "stalled data arrives later");
        proxy.set(Mode::Mute);
        assert_silent(&mut stream, 3).await;
        proxy.set(Mode::Cut);
        assert_silent(&mut stream, 4).await;
        let mut other = connect().await.unwrap();
        assert_silent(&mut other, 5).await;
        proxy.set(Mode::Pass);
        let mut blackholed = connect().await.unwrap();
        assert_echo(&mut blackholed, 6).await;
        proxy.blackhole();
        assert_silent(&mut blackholed, 7).await;
        let mut cut = connect().await.unwrap();
        assert_echo(&mut cut, 8).await;
        proxy.cut();
        assert_silent(&mut cut, 9).await;
        assert_echo(&mut connect().await.unwrap(), 10).await;
    }
}

//! A proxy before a server: it cuts connections, lets them fall silent, refuses new ones, and leads elsewhere.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::{Context as _, Result};

use crate::ports;

/// How often a thread looks whether it is to do something else.
const LOOK: Duration = Duration::from_millis(20);

/// What the proxy does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Traffic {
    /// Passes everything on.
    Flows,
    /// Keeps connections open and passes nothing on, as a network that loses every packet.
    Silent,
    /// Closes new connections at once.
    Refused,
}

/// A proxy on loopback. Dropped, it ends with all its connections.
#[derive(Debug)]
pub struct Proxy {
    address: SocketAddr,
    shared: Arc<Mutex<Shared>>,
    accepting: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared {
    target: SocketAddr,
    traffic: Traffic,
    ended: bool,
    open: Vec<TcpStream>,
    /// Connections that were made so far; those before the second number are silent.
    made: u64,
    silent_before: u64,
}

impl Shared {
    fn is_silent(&self, number: u64) -> bool {
        !self.ended && (self.traffic == Traffic::Silent || number < self.silent_before)
    }
}

impl Proxy {
    /// Starts one on a free port before `target`.
    ///
    /// # Errors
    /// There is no free port.
    pub fn start(target: SocketAddr) -> Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, ports::free(1)?)).context("a proxy cannot listen")?;
        let address = listener.local_addr()?;
        let shared =
            Shared { target, traffic: Traffic::Flows, ended: false, open: Vec::new(), made: 0, silent_before: 0 };
        let shared = Arc::new(Mutex::new(shared));
        let theirs = Arc::clone(&shared);
        let accepting = std::thread::spawn(move || accept(&listener, &theirs));
        Ok(Self { address, shared, accepting: Some(accepting) })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// From now on it does this, with open connections too.
    pub fn set(&self, traffic: Traffic) {
        lock(&self.shared).traffic = traffic;
    }

    /// Closes every open connection.
    pub fn cut(&self) {
        let mut shared = lock(&self.shared);
        for connection in shared.open.drain(..) {
            let _ = connection.shutdown(Shutdown::Both);
        }
    }

    /// Every open connection is silent from now on; new ones are not: as where a machine vanished and another has its address.
    pub fn strand(&self) {
        let mut shared = lock(&self.shared);
        shared.silent_before = shared.made;
    }

    /// New connections lead there.
    pub fn lead_to(&self, target: SocketAddr) {
        lock(&self.shared).target = target;
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        lock(&self.shared).ended = true;
        self.cut();
        // Wakes who accepts.
        let _ = TcpStream::connect(self.address);
        if let Some(accepting) = self.accepting.take() {
            let _ = accepting.join();
        }
    }
}

fn lock(shared: &Mutex<Shared>) -> MutexGuard<'_, Shared> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

fn accept(listener: &TcpListener, shared: &Arc<Mutex<Shared>>) {
    for connection in listener.incoming() {
        let (target, traffic, ended) = {
            let shared = lock(shared);
            (shared.target, shared.traffic, shared.ended)
        };
        if ended {
            return;
        }
        if let Ok(connection) = connection
            && traffic != Traffic::Refused
        {
            // A target that is away closes the connection.
            let _ = join(connection, target, shared);
        }
    }
}

/// Two threads pass on what comes, one in each direction; both end with the connection.
fn join(client: TcpStream, target: SocketAddr, shared: &Arc<Mutex<Shared>>) -> Result<()> {
    let server = TcpStream::connect_timeout(&target, Duration::from_secs(1))?;
    for stream in [&client, &server] {
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(LOOK))?;
    }
    let ends = [client.try_clone()?, server.try_clone()?];
    let number = {
        let mut shared = lock(shared);
        shared.open.extend(ends);
        shared.made += 1;
        shared.made - 1
    };
    for (from, to) in [(client.try_clone()?, server.try_clone()?), (server, client)] {
        let shared = Arc::clone(shared);
        std::thread::spawn(move || pass(from, to, number, &shared));
    }
    Ok(())
}

fn pass(mut from: TcpStream, mut to: TcpStream, number: u64, shared: &Mutex<Shared>) {
    let mut buffer = [0; 16 * 1024];
    loop {
        let read = match from.read(&mut buffer) {
            Ok(0) => break,
            Ok(read) => read,
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => 0,
            Err(_) => break,
        };
        // What was read while it falls silent waits too.
        while lock(shared).is_silent(number) {
            std::thread::sleep(LOOK);
        }
        let Some(bytes) = buffer.get(..read) else { break };
        if to.write_all(bytes).is_err() {
            break;
        }
    }
    let _ = from.shutdown(Shutdown::Both);
    let _ = to.shutdown(Shutdown::Both);
}

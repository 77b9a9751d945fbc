//! Bounds the connections.
//!
//! | connection | bound | beyond it |
//! |---|---|---|
//! | without an authenticated call | in total and per address, and in time | the oldest is closed, so that a new caller can always present its token |
//! | with an authenticated call | in total and per organization of the first such call | the call is refused; the connection counts as unauthenticated |
//!
//! A connection of a trusted proxy carries the calls of many callers: only the totals bound it. A connection without any
//! traffic, including the answer to a ping, is closed. A connection of HTTP/1, which has no pings, is not closed while a
//! call is in progress.

use std::io;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use folio_permits::{Amount, EvictablePermit, EvictingPermits, Permit, Permits, RefusalReason};
use folio_proto::status;
use folio_types::{Error, OrgId, Reason, Result};
use futures::{Stream, StreamExt as _};
use http::Version;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::{Instant, Sleep};
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::WaitForCancellationFutureOwned;
use tonic::transport::server::{Connected, TcpIncoming};

use crate::client_address::{TrustedProxies, network};
use crate::counters::{Counters, OpenConnection};
use crate::options::Options;
use crate::proxy_protocol::{self, TIMEOUT};
use crate::tls::Socket;

/// Maximum number of connections whose PROXY header is awaited.
const HEADERS_MAX: usize = 1_024;
/// Interval at which a connection is checked whose time without an authenticated call is over while it has a call.
const RECHECK: Duration = Duration::from_secs(1);

/// Accepts the connections of a listener, with TLS if there is an acceptor.
pub(crate) fn connections(
    listener: TcpListener,
    acceptor: Option<TlsAcceptor>,
    options: &Options,
    counters: Counters,
) -> impl Stream<Item = io::Result<Connection>> + use<> {
    let proxies = Arc::new(TrustedProxies::new(&options.trusted_proxies));
    let expects_header = options.proxy_protocol;
    let pool = ConnectionPool::new(options, Arc::clone(&proxies), counters);
    let accepted = TcpIncoming::from(listener).with_nodelay(Some(true)).map(move |accepted| {
        let proxies = Arc::clone(&proxies);
        async move {
            let mut stream = accepted?;
            let peer = stream.peer_addr().ok().map(|address| address.ip());
            let has_header = expects_header && peer.is_some_and(|peer| proxies.contains(peer));
            let announced = if has_header { proxy_protocol::source(&mut stream, TIMEOUT).await? } else { None };
            Ok::<_, io::Error>((stream, announced.or(peer)))
        }
    });
    // The server skips errors.
    let accepted = accepted.buffer_unordered(HEADERS_MAX);
    accepted.map(move |accepted| accepted.map(|(stream, source)| pool.open(stream, source, acceptor.as_ref())))
}

/// The owner of a connection in the bounds of unauthenticated connections.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Origin {
    /// The network of the caller. None: the address is not known.
    Network(Option<IpAddr>),
    /// A connection of a trusted proxy, by its number.
    Proxy(u64),
}

/// The owner of a connection in the bounds of authenticated connections.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Holder {
    Organization(OrgId),
    /// A connection of a trusted proxy, by its number.
    Proxy(u64),
}

/// The bounds of connections, and the time limits of a connection.
struct ConnectionPool {
    proxies: Arc<TrustedProxies>,
    unauthenticated: EvictingPermits<Origin>,
    authenticated: Permits<Holder>,
    limits: Limits,
    last: AtomicU64,
    counters: Counters,
}

#[derive(Clone, Copy)]
struct Limits {
    /// Maximum time without traffic. A live connection answers a ping within this time.
    silence: Duration,
    /// Maximum time without an authenticated call, while no call is in progress.
    authentication: Duration,
    /// Maximum time without an authenticated call.
    lifetime: Duration,
}

impl ConnectionPool {
    fn new(options: &Options, proxies: Arc<TrustedProxies>, counters: Counters) -> Self {
        let Options { unauthenticated_connections, unauthenticated_connections_per_address, .. } = *options;
        let (total, each) = (options.connections, options.connections_per_organization);
        let limits = Limits {
            silence: options.keepalive_interval.saturating_add(options.keepalive_timeout),
            authentication: options.authentication_timeout,
            lifetime: options.authentication_timeout.saturating_add(options.public_lifetime),
        };
        Self {
            proxies,
            unauthenticated: EvictingPermits::new(unauthenticated_connections, unauthenticated_connections_per_address),
            authenticated: Permits::without_queue(Amount::permits(total), Amount::permits(each)),
            limits,
            last: AtomicU64::new(0),
            counters,
        }
    }

    /// Registers a connection from an address.
    fn open(&self, stream: TcpStream, source: Option<IpAddr>, acceptor: Option<&TlsAcceptor>) -> Connection {
        let proxy = source.is_some_and(|source| self.proxies.contains(source));
        let proxy = proxy.then(|| self.last.fetch_add(1, Ordering::Relaxed));
        let origin = proxy.map_or_else(|| Origin::Network(source.map(network)), Origin::Proxy);
        let permit = self.unauthenticated.acquire(&origin);
        if permit.has_evicted() {
            self.counters.count_eviction();
        }
        let evicted = Box::pin(permit.evicted().clone().cancelled_owned());
        let handle = ConnectionHandle {
            source,
            proxy,
            authenticated: self.authenticated.clone(),
            admission: Arc::new(Mutex::new(Admission::Unauthenticated { _permit: permit })),
            calls: Arc::default(),
            is_http1: Arc::default(),
        };
        let opened = Instant::now();
        let limits = self.limits;
        let timer = Box::pin(tokio::time::sleep(limits.silence.min(limits.authentication)));
        let open = self.counters.open_connection();
        let stream = Socket::new(stream, acceptor);
        Connection { stream, handle, limits, opened, last_read: opened, timer, evicted: Some(evicted), _open: open }
    }
}

enum Admission {
    Unauthenticated { _permit: EvictablePermit<Origin> },
    Authenticated { _permit: Permit<Holder> },
}

/// The connection of a call. Clones share the permit: every call of the connection has one.
#[derive(Clone)]
pub(crate) struct ConnectionHandle {
    /// Address of the peer, or the address that a proxy announced. None: it is not known.
    pub(crate) source: Option<IpAddr>,
    /// Number of the connection if its peer is a trusted proxy.
    proxy: Option<u64>,
    authenticated: Permits<Holder>,
    admission: Arc<Mutex<Admission>>,
    /// Number of calls in progress.
    calls: Arc<AtomicUsize>,
    /// True after a call of HTTP/1.
    is_http1: Arc<AtomicBool>,
}

impl ConnectionHandle {
    /// Registers an authenticated call of an organization. The first one takes a permit for authenticated connections.
    /// Error: `OVERLOADED`.
    pub(crate) fn authenticate(&self, org: &OrgId) -> Result<()> {
        let mut admission = self.lock();
        if matches!(*admission, Admission::Unauthenticated { .. }) {
            let holder = self.proxy.map_or_else(|| Holder::Organization(org.clone()), Holder::Proxy);
            let permit = self.authenticated.try_acquire(&holder, 0).map_err(|reason| {
                let whose = if reason == RefusalReason::KeyBound { "the organization" } else { "the server" };
                Error::exhausted(Reason::Overloaded, format!("{whose} has too many connections; try again later"))
                    .retry_after(status::RETRY_SOON)
            })?;
            *admission = Admission::Authenticated { _permit: permit };
        }
        Ok(())
    }

    /// Counts a call in progress until the guard is dropped.
    pub(crate) fn begin_call(&self, version: Version) -> ActiveCall {
        if version < Version::HTTP_2 {
            self.is_http1.store(true, Ordering::Relaxed);
        }
        self.calls.fetch_add(1, Ordering::Relaxed);
        ActiveCall { calls: Arc::clone(&self.calls) }
    }

    fn is_authenticated(&self) -> bool {
        matches!(*self.lock(), Admission::Authenticated { .. })
    }

    fn lock(&self) -> MutexGuard<'_, Admission> {
        self.admission.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A call in progress.
pub(crate) struct ActiveCall {
    calls: Arc<AtomicUsize>,
}

impl Drop for ActiveCall {
    fn drop(&mut self) {
        self.calls.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The state of a connection that its time limits depend on.
#[derive(Debug, Clone, Copy)]
struct Activity {
    is_authenticated: bool,
    has_calls: bool,
    /// True if the peer cannot answer a ping: HTTP/1 has none.
    is_http1: bool,
    /// Time since the connection was opened.
    age: Duration,
    /// Time since the last byte was received.
    silence: Duration,
}

impl Limits {
    /// Returns the time until the connection must be checked again, or the reason to close it.
    fn check(&self, now: Activity) -> Result<Duration, &'static str> {
        let silence = self.silence.checked_sub(now.silence).filter(|left| !left.is_zero());
        // A client of HTTP/1 sends nothing while it waits for a response. The limits of the call apply.
        let silence = silence.or_else(|| (now.is_http1 && now.has_calls).then_some(RECHECK));
        let silence = silence.ok_or("the connection was silent")?;
        if now.is_authenticated {
            return Ok(silence);
        }
        let late = "the connection had no authenticated call in time";
        let lifetime = self.lifetime.checked_sub(now.age).filter(|left| !left.is_zero()).ok_or(late)?;
        match self.authentication.checked_sub(now.age).filter(|left| !left.is_zero()) {
            Some(left) => Ok(silence.min(left)),
            None if now.has_calls => Ok(silence.min(lifetime).min(RECHECK)),
            None => Err(late),
        }
    }
}

pub(crate) struct Connection {
    stream: Socket,
    handle: ConnectionHandle,
    limits: Limits,
    opened: Instant,
    last_read: Instant,
    timer: Pin<Box<Sleep>>,
    /// Completes when a newer connection took the permit. None: it was taken after an authenticated call.
    evicted: Option<Pin<Box<WaitForCancellationFutureOwned>>>,
    _open: OpenConnection,
}

impl Connection {
    /// Polled while the peer is awaited. Resolves to the reason to close the connection.
    fn poll_end(&mut self, context: &mut Context<'_>) -> Poll<io::Error> {
        let closed = |why: &'static str| Poll::Ready(io::Error::new(io::ErrorKind::TimedOut, why));
        if self.evicted.as_mut().is_some_and(|evicted| evicted.as_mut().poll(context).is_ready()) {
            self.evicted = None;
            if !self.handle.is_authenticated() {
                return closed("the connection had no authenticated call, and newer ones needed its permit");
            }
        }
        // The timer is reset only when it fires, not at each read.
        loop {
            ready!(self.timer.as_mut().poll(context));
            let activity = Activity {
                is_authenticated: self.handle.is_authenticated(),
                has_calls: self.handle.calls.load(Ordering::Relaxed) > 0,
                is_http1: self.handle.is_http1.load(Ordering::Relaxed),
                age: self.opened.elapsed(),
                silence: self.last_read.elapsed(),
            };
            match self.limits.check(activity) {
                Ok(left) => self.timer.as_mut().reset(Instant::now() + left),
                Err(why) => return closed(why),
            }
        }
    }
}

impl Connected for Connection {
    type ConnectInfo = ConnectionHandle;

    fn connect_info(&self) -> ConnectionHandle {
        self.handle.clone()
    }
}

impl AsyncRead for Connection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = &mut *self;
        if let Poll::Ready(read) = Pin::new(&mut this.stream).poll_read(context, buffer) {
            this.last_read = Instant::now();
            return Poll::Ready(read);
        }
        this.poll_end(context).map(Err)
    }
}

/// A write waits for the peer during the TLS handshake, before the first read.
impl AsyncWrite for Connection {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match Pin::new(&mut self.stream).poll_write(context, bytes) {
            Poll::Pending => self.poll_end(context).map(Err),
            written => written,
        }
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffers: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match Pin::new(&mut self.stream).poll_write_vectored(context, buffers) {
            Poll::Pending => self.poll_end(context).map(Err),
            written => written,
        }
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    const LIMITS: Limits = Limits { silence: seconds(40), authentication: seconds(30), lifetime: seconds(630) };
    const NEW: Activity = Activity {
        is_authenticated: false,
        has_calls: false,
        is_http1: false,
        age: Duration::ZERO,
        silence: Duration::ZERO,
    };

    #[test]
    fn a_connection_without_an_authenticated_call_ends_in_time() {
        assert_eq!(LIMITS.check(NEW), Ok(seconds(30)));
        assert_eq!(LIMITS.check(Activity { age: seconds(20), silence: seconds(20), ..NEW }), Ok(seconds(10)));
        assert!(LIMITS.check(Activity { age: seconds(30), ..NEW }).is_err());
        let with_calls = Activity { has_calls: true, ..NEW };
        assert_eq!(LIMITS.check(Activity { age: seconds(30), ..with_calls }), Ok(RECHECK));
        assert_eq!(LIMITS.check(Activity { age: seconds(629), ..with_calls }), Ok(seconds(1)));
        assert!(LIMITS.check(Activity { age: seconds(630), ..with_calls }).is_err());
    }

    #[test]
    fn only_silence_ends_an_authenticated_connection() {
        let authenticated = Activity { is_authenticated: true, age: seconds(100_000), ..NEW };
        assert_eq!(LIMITS.check(authenticated), Ok(seconds(40)));
        assert_eq!(LIMITS.check(Activity { silence: seconds(39), ..authenticated }), Ok(seconds(1)));
        assert!(LIMITS.check(Activity { silence: seconds(40), ..authenticated }).is_err());
        assert!(LIMITS.check(Activity { silence: seconds(40), ..NEW }).is_err());
    }

    #[test]
    fn a_client_of_http1_may_be_silent_while_it_waits_for_a_response() {
        let silent = Activity { is_authenticated: true, is_http1: true, silence: seconds(3_600), ..NEW };
        assert!(LIMITS.check(silent).is_err());
        assert_eq!(LIMITS.check(Activity { has_calls: true, ..silent }), Ok(RECHECK));
        assert!(LIMITS.check(Activity { has_calls: true, is_http1: false, ..silent }).is_err());
        let anonymous = Activity { is_authenticated: false, has_calls: true, age: seconds(630), ..silent };
        assert!(LIMITS.check(anonymous).is_err());
    }
}

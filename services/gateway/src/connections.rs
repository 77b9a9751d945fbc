//! Bounds the number of connections.
//!
//! A connection without a permit is still served under one of a few extra permits, so that its calls are refused with a
//! reason and a retry delay. The next call of such a connection acquires a regular permit if one is free. If no extra
//! permit is free, a new connection is closed immediately. A connection without any traffic, including the answer to a
//! ping, is closed.

use std::io;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use folio_proto::status;
use folio_types::{Error, Reason, Result};
use futures::{Stream, StreamExt as _};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpListener;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, Sleep};
use tokio_rustls::TlsAcceptor;
use tonic::transport::server::{Connected, TcpIncoming};

use crate::counters::{Counters, OpenConnection};
use crate::options::Options;
use crate::tls::Socket;

/// Number of extra permits: connections whose calls are all refused.
const REFUSED_MAX: usize = 64;

/// Accepts the connections of a listener, with TLS if there is an acceptor.
pub(crate) fn connections(
    listener: TcpListener,
    acceptor: Option<TlsAcceptor>,
    options: &Options,
    counters: Counters,
) -> impl Stream<Item = io::Result<Connection>> + use<> {
    let permits = Arc::new(Semaphore::new(options.connections));
    let refused = Arc::new(Semaphore::new(REFUSED_MAX));
    // A live connection answers a ping within this time.
    let silent = options.keepalive_interval.saturating_add(options.keepalive_timeout);
    TcpIncoming::from(listener).with_nodelay(Some(true)).filter_map(move |accepted| {
        let connection = accepted.map(|stream| {
            let kind = match Arc::clone(&permits).try_acquire_owned() {
                Ok(permit) => Admission::Served { _permit: permit },
                Err(_) => Admission::Refused { _permit: Arc::clone(&refused).try_acquire_owned().ok()? },
            };
            let source = stream.peer_addr().ok().map(|address| address.ip());
            let permit =
                ConnectionPermit { permits: Arc::clone(&permits), admission: Arc::new(Mutex::new(kind)), source };
            let socket = Socket::new(stream, acceptor.as_ref());
            Some(Connection::new(socket, permit, silent, counters.open_connection()))
        });
        if matches!(connection, Ok(None)) {
            tracing::debug!("a connection was closed: no permit is free");
        }
        std::future::ready(connection.transpose())
    })
}

enum Admission {
    Served { _permit: OwnedSemaphorePermit },
    Refused { _permit: OwnedSemaphorePermit },
}

/// Clones share the permit: every call of the connection has one.
#[derive(Clone)]
pub(crate) struct ConnectionPermit {
    permits: Arc<Semaphore>,
    admission: Arc<Mutex<Admission>>,
    pub(crate) source: Option<IpAddr>,
}

impl ConnectionPermit {
    /// Admits a call of this connection. Error: `OVERLOADED`.
    pub(crate) fn admit(&self) -> Result<()> {
        let mut admission = self.admission.lock().unwrap_or_else(PoisonError::into_inner);
        if matches!(*admission, Admission::Refused { .. }) {
            let permit = Arc::clone(&self.permits).try_acquire_owned().map_err(|_| {
                Error::exhausted(Reason::Overloaded, "the server has too many connections; try again later")
                    .retry_after(status::RETRY_SOON)
            })?;
            *admission = Admission::Served { _permit: permit };
        }
        Ok(())
    }
}

pub(crate) struct Connection {
    stream: Socket,
    permit: ConnectionPermit,
    silence_max: Duration,
    last_read: Instant,
    timer: Pin<Box<Sleep>>,
    _open: OpenConnection,
}

impl Connection {
    fn new(stream: Socket, permit: ConnectionPermit, silence_max: Duration, open: OpenConnection) -> Self {
        let last_read = Instant::now();
        let timer = Box::pin(tokio::time::sleep_until(last_read + silence_max));
        Self { stream, permit, silence_max, last_read, timer, _open: open }
    }
}

impl Connected for Connection {
    type ConnectInfo = ConnectionPermit;

    fn connect_info(&self) -> ConnectionPermit {
        self.permit.clone()
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
        // The timer is reset only when it fires, not at each read.
        loop {
            ready!(this.timer.as_mut().poll(context));
            let until = this.last_read + this.silence_max;
            if until <= Instant::now() {
                return Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "the connection was silent")));
            }
            this.timer.as_mut().reset(until);
        }
    }
}

impl AsyncWrite for Connection {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffers: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(context, buffers)
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

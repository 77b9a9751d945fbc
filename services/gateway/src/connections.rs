//! Connections: each has a place, and there are so many.
//!
//! One that finds no place is still served, in one of a few places of its own, so that its calls are told why they are
//! refused and when to come back; it moves up with its next call once a place is free. Where those are taken too it is
//! closed at once. A connection that says nothing, not even an answer to a ping, is closed.

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

use crate::counts::{Connected as Counted, Counts};
use crate::options::Options;
use crate::tls::Socket;

/// Connections that are only told that there is no place.
const REFUSED_AT_ONCE: usize = 64;

/// The connections of a listener; with an acceptor, those with TLS.
pub(crate) fn connections(
    listener: TcpListener,
    acceptor: Option<TlsAcceptor>,
    options: &Options,
    counts: Counts,
) -> impl Stream<Item = io::Result<Connection>> + use<> {
    let places = Arc::new(Semaphore::new(options.connections));
    let refused = Arc::new(Semaphore::new(REFUSED_AT_ONCE));
    // A connection that lives answers a ping within this.
    let silent = options.keepalive_interval.saturating_add(options.keepalive_timeout);
    TcpIncoming::from(listener).with_nodelay(Some(true)).filter_map(move |accepted| {
        let connection = accepted.map(|stream| {
            let held = match Arc::clone(&places).try_acquire_owned() {
                Ok(place) => Held::Place { _permit: place },
                Err(_) => Held::Refused { _permit: Arc::clone(&refused).try_acquire_owned().ok()? },
            };
            let source = stream.peer_addr().ok().map(|address| address.ip());
            let place = Place { places: Arc::clone(&places), held: Arc::new(Mutex::new(held)), source };
            let socket = Socket::new(stream, acceptor.as_ref());
            Some(Connection::new(socket, place, silent, counts.connected()))
        });
        if matches!(connection, Ok(None)) {
            tracing::debug!("a connection was closed at once: no place is free");
        }
        std::future::ready(connection.transpose())
    })
}

/// What a connection holds until it ends.
enum Held {
    Place { _permit: OwnedSemaphorePermit },
    Refused { _permit: OwnedSemaphorePermit },
}

/// A connection's place, as its calls see it.
#[derive(Clone)]
pub(crate) struct Place {
    places: Arc<Semaphore>,
    held: Arc<Mutex<Held>>,
    /// Where the connection comes from.
    pub(crate) source: Option<IpAddr>,
}

impl Place {
    /// Whether calls of this connection are taken.
    ///
    /// Errors: `OVERLOADED`.
    pub(crate) fn admit(&self) -> Result<()> {
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        if matches!(*held, Held::Refused { .. }) {
            let place = Arc::clone(&self.places).try_acquire_owned().map_err(|_| {
                Error::exhausted(Reason::Overloaded, "the server has as many connections as it may")
                    .retry_after(status::RETRY_SOON)
            })?;
            *held = Held::Place { _permit: place };
        }
        Ok(())
    }
}

/// A connection with its place.
pub(crate) struct Connection {
    stream: Socket,
    place: Place,
    silent: Duration,
    heard: Instant,
    look: Pin<Box<Sleep>>,
    _counted: Counted,
}

impl Connection {
    fn new(stream: Socket, place: Place, silent: Duration, counted: Counted) -> Self {
        let heard = Instant::now();
        let look = Box::pin(tokio::time::sleep_until(heard + silent));
        Self { stream, place, silent, heard, look, _counted: counted }
    }
}

impl Connected for Connection {
    type ConnectInfo = Place;

    fn connect_info(&self) -> Place {
        self.place.clone()
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
            this.heard = Instant::now();
            return Poll::Ready(read);
        }
        // The timer is set when it fires, not at each read.
        loop {
            ready!(this.look.as_mut().poll(context));
            let until = this.heard + this.silent;
            if until <= Instant::now() {
                return Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "the connection was silent")));
            }
            this.look.as_mut().reset(until);
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
        pieces: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(context, pieces)
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

//! Connections that a request handler can reset.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use axum::extract::connect_info::Connected;
use axum::serve::{IncomingStream, Listener};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};

#[derive(Debug)]
pub(crate) struct Resettable(pub(crate) TcpListener);

/// A handle with which a handler resets its connection.
#[derive(Debug, Clone, Default)]
pub(crate) struct Reset(Arc<AtomicBool>);

impl Reset {
    /// Makes all further writes fail, so that the connection closes with RST.
    pub(crate) fn reset(&self) {
        self.0.store(true, Ordering::Release);
    }

    fn is_set(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}

#[derive(Debug)]
pub(crate) struct Connection {
    stream: TcpStream,
    reset: Reset,
}

impl Connection {
    fn check(&self) -> io::Result<()> {
        if self.reset.is_set() {
            self.stream.set_zero_linger()?;
            return Err(io::ErrorKind::ConnectionReset.into());
        }
        Ok(())
    }
}

impl Listener for Resettable {
    type Io = Connection;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Connection, SocketAddr) {
        let (stream, address) = Listener::accept(&mut self.0).await;
        // A failure only affects latency.
        let _ = stream.set_nodelay(true);
        (Connection { stream, reset: Reset::default() }, address)
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.0.local_addr()
    }
}

impl Connected<IncomingStream<'_, Resettable>> for Reset {
    fn connect_info(stream: IncomingStream<'_, Resettable>) -> Self {
        stream.io().reset.clone()
    }
}

impl AsyncRead for Connection {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buf)
    }
}

impl AsyncWrite for Connection {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        self.check()?;
        Pin::new(&mut self.stream).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.check()?;
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.check()?;
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

//! A connection with or without TLS.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::server::TlsStream;
use tokio_rustls::{Accept, TlsAcceptor};

/// A connection. The first read or write performs the handshake, so that a slow handshake delays no other connection.
/// The timeout for silent connections bounds the handshake.
pub(crate) enum Socket {
    Plain(TcpStream),
    /// TLS before the end of the handshake.
    Handshake(Box<Accept<TcpStream>>),
    /// TLS after the handshake.
    Encrypted(Box<TlsStream<TcpStream>>),
}

impl Socket {
    /// Creates a connection with TLS, or without TLS if `acceptor` is None.
    pub(crate) fn new(stream: TcpStream, acceptor: Option<&TlsAcceptor>) -> Self {
        match acceptor {
            None => Self::Plain(stream),
            Some(acceptor) => Self::Handshake(Box::new(acceptor.accept(stream))),
        }
    }

    /// Returns the stream of application data once the handshake is complete.
    fn poll_open(&mut self, context: &mut Context<'_>) -> Poll<io::Result<Pin<&mut dyn Stream>>> {
        if let Self::Handshake(accept) = self {
            let stream = ready!(Pin::new(accept.as_mut()).poll(context))?;
            *self = Self::Encrypted(Box::new(stream));
        }
        Poll::Ready(match self {
            Self::Plain(stream) => Ok(Pin::new(stream)),
            Self::Encrypted(stream) => Ok(Pin::new(stream.as_mut())),
            Self::Handshake(_) => Err(io::ErrorKind::NotConnected.into()),
        })
    }
}

trait Stream: AsyncRead + AsyncWrite + Unpin {}

impl<T: AsyncRead + AsyncWrite + Unpin> Stream for T {}

impl AsyncRead for Socket {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        ready!(self.poll_open(context))?.poll_read(context, buffer)
    }
}

impl AsyncWrite for Socket {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        ready!(self.poll_open(context))?.poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffers: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        ready!(self.poll_open(context))?.poll_write_vectored(context, buffers)
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_open(context))?.poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_open(context))?.poll_shutdown(context)
    }
}

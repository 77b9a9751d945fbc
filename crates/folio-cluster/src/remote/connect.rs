//! Cached connections to nodes, one per node.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use folio_types::{Environment, Error, Result};
use tokio::sync::Semaphore;
use tonic::transport::{Channel, Endpoint};

use super::{Clients, ConversationServiceClient, Inner, NodeServiceClient, RemotePeer, ThreadServiceClient};
use crate::options::Options;
use crate::signed_principal::PrincipalSigner;
use crate::signed_principal::body::{RequestSigner, SigningChannel};
use crate::tls::Tls;

/// Maximum number of cached nodes. Beyond it the cache is cleared, and later RPCs reconnect.
const PEERS_MAX: usize = 1_024;

/// The nodes in other processes by address. Cheap to clone.
#[derive(Clone)]
pub struct Peers {
    inner: Arc<Shared>,
}

struct Shared {
    options: Options,
    signer: PrincipalSigner,
    tls: RwLock<Option<Tls>>,
    environment: Arc<dyn Environment>,
    cached: Mutex<HashMap<Arc<str>, RemotePeer>>,
}

impl std::fmt::Debug for Peers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Peers").field("tls", &self.inner.options.tls.is_enabled()).finish_non_exhaustive()
    }
}

impl Peers {
    /// # Errors
    /// Secrets or certificates are missing or invalid.
    pub fn new(options: &Options, environment: Arc<dyn Environment>) -> Result<Self> {
        let signer = PrincipalSigner::new(&options.all_secrets()?)?;
        let tls = RwLock::new(Tls::load(options)?);
        let cached = Mutex::default();
        Ok(Self { inner: Arc::new(Shared { options: options.clone(), signer, tls, environment, cached }) })
    }

    /// Reloads the certificate files periodically. A change applies to new connections; an existing connection closes
    /// after its last RPC. Never returns.
    pub async fn reload_certificates(&self) {
        loop {
            let now = self.inner.tls();
            let changed = Tls::wait_for_change(&self.inner.options, now.as_ref()).await;
            *self.inner.tls.write().unwrap_or_else(PoisonError::into_inner) = Some(changed);
            self.inner.cached.lock().unwrap_or_else(PoisonError::into_inner).clear();
        }
    }

    /// Returns the node at an address (`host:port`). The first RPC connects.
    ///
    /// # Errors
    /// The address is malformed, or it is not loopback and neither TLS nor `insecure` is configured.
    pub fn at(&self, address: &str) -> Result<RemotePeer> {
        let mut cached = self.inner.cached.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(peer) = cached.get(address) {
            return Ok(peer.clone());
        }
        if cached.len() >= PEERS_MAX {
            cached.clear();
        }
        let peer = self.inner.connect(address)?;
        cached.insert(Arc::clone(&peer.inner.address), peer.clone());
        Ok(peer)
    }
}

impl Shared {
    fn tls(&self) -> Option<Tls> {
        self.tls.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn connect(&self, address: &str) -> Result<RemotePeer> {
        let options = &self.options;
        // The address comes from another process: its error is no fault of the caller.
        options.check_address(address).map_err(|error| Error::internal(error.message))?;
        let request_signer = RequestSigner { signer: self.signer.clone(), environment: Arc::clone(&self.environment) };
        let channel = SigningChannel::new(self.channel(address)?, request_signer);
        macro_rules! client {
            ($client:ident) => {
                $client::new(channel.clone())
                    .max_decoding_message_size(options.answer_bytes)
                    .max_encoding_message_size(options.request_bytes)
            };
        }
        let clients = Clients {
            conversations: client!(ConversationServiceClient),
            threads: client!(ThreadServiceClient),
            node: client!(NodeServiceClient),
        };
        Ok(RemotePeer {
            inner: Arc::new(Inner {
                address: address.into(),
                clients,
                calls: Arc::new(Semaphore::new(options.calls_per_peer)),
                call_timeout: options.call_timeout,
                turn_timeout: options.turn_timeout,
            }),
        })
    }

    fn channel(&self, address: &str) -> Result<Channel> {
        let (options, tls) = (&self.options, self.tls());
        let scheme = if tls.is_some() { "https" } else { "http" };
        let failed = |error: tonic::transport::Error| Error::internal(format!("invalid endpoint {address}: {error:?}"));
        let mut endpoint = Endpoint::from_shared(format!("{scheme}://{address}"))
            .map_err(failed)?
            .connect_timeout(options.connect_timeout)
            .tcp_nodelay(true)
            .http2_keep_alive_interval(options.keepalive_interval)
            .keep_alive_timeout(options.keepalive_timeout)
            .keep_alive_while_idle(true);
        if let Some(tls) = &tls {
            endpoint = endpoint.tls_config(tls.client()).map_err(failed)?;
        }
        Ok(endpoint.connect_lazy())
    }
}

//! The listener of a node, for gateways and other nodes only.

use std::sync::Arc;

use folio_proto::cluster::v1::node_service_server::NodeServiceServer;
use folio_proto::v1::conversation_service_server::ConversationServiceServer;
use folio_proto::v1::thread_service_server::ThreadServiceServer;
use folio_types::{Environment, Error, Result};
use futures::stream::FuturesUnordered;
use futures::{FutureExt as _, StreamExt as _};
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tonic::transport::Server;
use tonic::transport::server::TcpIncoming;
use tonic_health::pb::health_server::HealthServer;
use tonic_health::server::{HealthReporter, HealthService};
use tower::filter::AsyncFilterLayer;

use crate::options::Options;
use crate::peer::NodePeer;
use crate::service::NodeService;
use crate::shutdown::Shutdown;
use crate::signed_principal::PrincipalSigner;
use crate::signed_principal::body::BodyDigest;
use crate::streams::StreamLimits;
use crate::tls::Tls;

#[derive(Debug, Clone, Copy)]
pub struct NodeServer;

impl NodeServer {
    /// Serves a node on this listener until shutdown, see [`Shutdown`]. The caller drains the node first: until the
    /// node has released its threads, other nodes send requests about these threads to this listener. `health` is
    /// visible to every process that may connect.
    ///
    /// # Errors
    /// Secrets or certificates are missing or invalid, the listener's address requires certificates, or the listener
    /// failed.
    pub async fn serve(
        listener: TcpListener,
        peer: Arc<dyn NodePeer>,
        options: &Options,
        environment: Arc<dyn Environment>,
        health: HealthReporter,
        shutdown: Shutdown,
    ) -> Result<()> {
        let address = listener.local_addr();
        let address = address.map_err(|error| Error::internal(format!("the listener has no address: {error}")))?;
        options.check_address(&address.to_string())?;
        let service = NodeService {
            peer,
            signer: PrincipalSigner::new(&options.all_secrets()?)?,
            environment,
            calls: Arc::new(Semaphore::new(options.calls)),
            limits: StreamLimits {
                initial_item_timeout: options.stream_first,
                idle_timeout: options.stream_idle,
                max_lifetime: options.stream_lifetime,
            },
            drain_ended: shutdown.abort.clone(),
        };
        let services = Services {
            conversations: ConversationServiceServer::new(service.clone())
                .max_decoding_message_size(options.request_bytes),
            threads: ThreadServiceServer::new(service.clone()).max_decoding_message_size(options.request_bytes),
            node: NodeServiceServer::new(service).max_decoding_message_size(options.request_bytes),
            health: HealthServer::new(HealthService::from_health_reporter(health)),
        };
        let listener = listener.into_std().map_err(unbound)?;
        let mut tls = Tls::load(options)?;
        // Servers with earlier certificates, until their RPCs have ended.
        let mut earlier = FuturesUnordered::new();
        loop {
            let end = shutdown.begin.child_token();
            let server = services.server(&listener, options, tls.as_ref(), end.clone())?;
            tracing::info!(%address, tls = tls.is_some(), "listening for the cluster");
            let mut serving = shutdown.run(server, std::future::ready(())).boxed();
            let changed = loop {
                tokio::select! {
                    ended = &mut serving => {
                        while earlier.next().await.is_some() {}
                        return ended;
                    }
                    changed = Tls::wait_for_change(options, tls.as_ref()) => break changed,
                    Some(_) = earlier.next() => {}
                }
            };
            end.cancel();
            earlier.push(serving);
            tls = Some(changed);
        }
    }
}

struct Services {
    conversations: ConversationServiceServer<NodeService>,
    threads: ThreadServiceServer<NodeService>,
    node: NodeServiceServer<NodeService>,
    health: HealthServer<HealthService>,
}

impl Services {
    /// Serves this listener, which several servers may share, until `end`.
    fn server(
        &self,
        listener: &std::net::TcpListener,
        options: &Options,
        tls: Option<&Tls>,
        end: CancellationToken,
    ) -> Result<impl Future<Output = Result<(), tonic::transport::Error>> + Send + use<>> {
        let mut server = Server::builder();
        if let Some(tls) = tls {
            server = server.tls_config(tls.server()).map_err(unusable)?;
        }
        // A peer sends all RPCs over one connection, so the peer's own limit is reached first.
        let streams = u32::try_from(options.calls_per_peer).unwrap_or(u32::MAX).saturating_add(16);
        let listener = listener.try_clone().and_then(TcpListener::from_std).map_err(unbound)?;
        Ok(server
            .http2_keepalive_interval(Some(options.keepalive_interval))
            .http2_keepalive_timeout(Some(options.keepalive_timeout))
            .max_concurrent_streams(streams)
            .layer(AsyncFilterLayer::new(BodyDigest { max: options.request_bytes }))
            .add_service(self.conversations.clone())
            .add_service(self.threads.clone())
            .add_service(self.node.clone())
            .add_service(self.health.clone())
            .serve_with_incoming_shutdown(TcpIncoming::from(listener).with_nodelay(Some(true)), end.cancelled_owned()))
    }
}

fn unbound(error: std::io::Error) -> Error {
    Error::internal(format!("the cluster listener failed: {error}"))
}

fn unusable(error: tonic::transport::Error) -> Error {
    Error::internal(format!("invalid certificates in cluster.tls: {error:?}"))
}

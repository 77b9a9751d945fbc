//! The ports of a process. They are bound before anything else, so that one that is taken costs nothing.

use std::net::SocketAddr;

use anyhow::{Context as _, Result};
use tokio::net::TcpListener;

use crate::settings::{Role, Settings};

/// Bound listeners; what a process does not do has none.
pub(crate) struct Listeners {
    /// The public API.
    pub(crate) public: Option<TcpListener>,
    /// For gateways and other nodes.
    pub(crate) node: Option<TcpListener>,
    /// Probes and monitors.
    pub(crate) health: Option<TcpListener>,
    /// Messages of a payment system.
    pub(crate) purchases: Option<TcpListener>,
}

impl Listeners {
    /// Binds those of this form of a server.
    pub(crate) async fn bind(settings: &Settings) -> Result<Self> {
        let server = &settings.server;
        let in_cluster = settings.storage.is_shared();
        let public = server.is(Role::Gateway).then_some(server.listen.as_str());
        let node = (server.is(Role::Node) && in_cluster).then_some(settings.cluster.listen.as_str());
        let health = Some(server.health_listen.as_str()).filter(|place| !place.is_empty());
        let purchases = Some(settings.purchases.listen.as_str()).filter(|place| !place.is_empty());
        let bound = Self {
            public: listen(public).await?,
            node: listen(node).await?,
            health: listen(health).await?,
            purchases: listen(purchases).await?,
        };
        if let Some(public) = &bound.public {
            settings.gateway.allows(public.local_addr()?)?;
        }
        Ok(bound)
    }

    /// Where a process is reached first: by callers, or as a node.
    pub(crate) fn main(&self) -> Result<SocketAddr> {
        let listener = self.public.as_ref().or(self.node.as_ref()).context("the process listens nowhere")?;
        Ok(listener.local_addr()?)
    }
}

async fn listen(place: Option<&str>) -> Result<Option<TcpListener>> {
    let Some(place) = place else { return Ok(None) };
    TcpListener::bind(place).await.map(Some).with_context(|| format!("cannot listen on {place}"))
}

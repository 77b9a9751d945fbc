//! The ports of a process. They are bound before anything else, so that a port in use costs nothing.

use std::net::SocketAddr;

use anyhow::{Context as _, Result};
use tokio::net::TcpListener;

use crate::settings::{Role, Settings};

/// Bound listeners. A role that the process does not have has no listener.
pub(crate) struct Listeners {
    /// The public API.
    pub(crate) public: Option<TcpListener>,
    /// The port for gateways and other nodes.
    pub(crate) node: Option<TcpListener>,
    /// The health port.
    pub(crate) health: Option<TcpListener>,
    /// The port for messages of a payment system.
    pub(crate) purchases: Option<TcpListener>,
}

impl Listeners {
    /// Binds the listeners that the settings name.
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

    /// The main address of the process: for callers, or of the node.
    pub(crate) fn main(&self) -> Result<SocketAddr> {
        let listener = self.public.as_ref().or(self.node.as_ref()).context("the process has no listener")?;
        Ok(listener.local_addr()?)
    }
}

async fn listen(address: Option<&str>) -> Result<Option<TcpListener>> {
    let Some(address) = address else { return Ok(None) };
    TcpListener::bind(address).await.map(Some).with_context(|| format!("cannot listen on {address}"))
}

//! The ports of a process. They are bound before any other component starts, so that a process that fails because a
//! port is in use has no side effects.

use std::net::SocketAddr;

use anyhow::{Context as _, Result};
use tokio::net::TcpListener;

use crate::settings::{Role, Settings};

/// Bound listeners. None: the process does not have the role, or the settings name no address.
pub(crate) struct Listeners {
    pub(crate) public: Option<TcpListener>,
    /// Listener for RPCs of gateways and other nodes.
    pub(crate) node: Option<TcpListener>,
    pub(crate) health: Option<TcpListener>,
    /// Listener for events of a payment system.
    pub(crate) purchases: Option<TcpListener>,
}

impl Listeners {
    pub(crate) async fn bind(settings: &Settings) -> Result<Self> {
        let server = &settings.server;
        let in_cluster = settings.storage.is_shared();
        let public = server.is(Role::Gateway).then_some(server.listen.as_str());
        let node = (server.is(Role::Node) && in_cluster).then_some(settings.cluster.listen.as_str());
        let health = Some(server.health_listen.as_str()).filter(|address| !address.is_empty());
        let purchases = Some(settings.purchases.listen.as_str()).filter(|address| !address.is_empty());
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

    /// Returns the address of the public listener, or of the node listener if there is no public one.
    pub(crate) fn primary_address(&self) -> Result<SocketAddr> {
        let listener = self.public.as_ref().or(self.node.as_ref()).context("the process has no listener")?;
        Ok(listener.local_addr()?)
    }
}

async fn listen(address: Option<&str>) -> Result<Option<TcpListener>> {
    let Some(address) = address else { return Ok(None) };
    TcpListener::bind(address).await.map(Some).with_context(|| format!("cannot listen on {address}"))
}

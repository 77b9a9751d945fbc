//! The ports of a process. They are bound before any other component starts, so that a process that fails because a
//! port is in use, or because its certificate is unusable, has no side effects.

use std::io;
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
            settings.gateway.check_files().await?;
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
    match TcpListener::bind(address).await {
        Ok(listener) => Ok(Some(listener)),
        Err(error) => {
            let problem = format!("cannot listen on {address}: {}", remedy(error.kind()));
            Err(anyhow::Error::new(error).context(problem))
        }
    }
}

/// Returns the next step after a failure to bind an address.
fn remedy(failure: io::ErrorKind) -> &'static str {
    match failure {
        io::ErrorKind::AddrInUse => "another process uses the port; stop it, or choose another port",
        io::ErrorKind::AddrNotAvailable => "choose an address of this machine",
        io::ErrorKind::PermissionDenied => "choose a port above 1023, or permit the process to use this one",
        _ => "expected HOST:PORT with a name or address of this machine",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_failure_to_listen_names_the_address_and_the_remedy() {
        let used = listen(Some("127.0.0.1:0")).await.unwrap().unwrap();
        let address = used.local_addr().unwrap().to_string();
        for (address, remedy) in [(address.as_str(), "choose another port"), ("no address", "expected HOST:PORT")] {
            let error = format!("{:#}", listen(Some(address)).await.unwrap_err());
            assert!(error.contains(&format!("cannot listen on {address}: ")) && error.contains(remedy), "{error}");
        }
        assert!(listen(None).await.unwrap().is_none());
    }
}

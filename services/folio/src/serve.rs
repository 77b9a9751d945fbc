//! `folio serve`: runs the server until a signal stops it.

use std::io::Write as _;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Result;

use crate::StoreLayer;
use crate::arguments::{Flags, ListenArguments, SettingsArguments, StoreArguments, path_value, set};
use crate::local_endpoint;
use crate::next_steps::{NextSteps, page_url};
use crate::server;
use crate::settings::{Role, Settings};

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    pub(crate) settings: SettingsArguments,
    #[command(flatten)]
    listen: ListenArguments,
    /// The roles of the process: gateway, node, or both, separated by a comma [default: gateway,node].
    #[arg(long, value_name = "ROLES", value_delimiter = ',')]
    roles: Vec<Role>,
    /// The model of chats that do not name a model. Without a provider and OPENAI_API_KEY: a model of an endpoint on this
    /// machine.
    #[arg(long)]
    model: Option<String>,
    /// Do not search for model endpoints on this machine.
    #[arg(long)]
    no_detect: bool,
    #[command(flatten)]
    stores: StoreArguments,
    /// The storage of document bytes: s3://BUCKET[/PREFIX], or a folder [default: in the data folder].
    #[arg(long, value_name = "URL or FOLDER")]
    blobs: Option<String>,
    /// The address on which a node listens for gateways and other nodes [default: 127.0.0.1:7400].
    #[arg(long, value_name = "HOST:PORT")]
    node_listen: Option<String>,
    /// The address at which gateways and other nodes reach the node [default: the address on which it listens].
    #[arg(long, value_name = "HOST:PORT")]
    node_advertise: Option<String>,
    /// The certificate of the listener, a PEM file. It is read again when it changes.
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    tls_cert: Option<PathBuf>,
    /// The private key of the certificate, a PEM file.
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<PathBuf>,
    /// Permit plain text on an address that is not loopback.
    #[arg(long)]
    insecure: bool,
    /// The address of the health port, which serves health and metrics in plain text without a token [default: health
    /// on the listener only].
    #[arg(long, value_name = "HOST:PORT")]
    health_listen: Option<String>,
}

impl Arguments {
    pub(crate) fn flags(&self) -> Flags {
        let mut flags = self.stores.flags();
        flags.extend(self.listen.flags());
        let roles: Vec<_> = self.roles.iter().map(|role| role.name()).collect();
        set(&mut flags, "server.roles", Some(roles).filter(|roles| !roles.is_empty()));
        set(&mut flags, "cluster.listen", self.node_listen.as_deref());
        set(&mut flags, "cluster.advertise", self.node_advertise.as_deref());
        set(&mut flags, "storage.blobs", self.blobs.as_deref());
        set(&mut flags, "gateway.tls.certificate", path_value(self.tls_cert.as_ref()));
        set(&mut flags, "gateway.tls.key", path_value(self.tls_key.as_ref()));
        set(&mut flags, "gateway.insecure", self.insecure.then_some(true));
        set(&mut flags, "server.health_listen", self.health_listen.as_deref());
        set(&mut flags, "models.local.detect", self.no_detect.then_some(false));
        flags
    }
}

pub(crate) async fn run(arguments: Arguments, settings: Settings, layer: StoreLayer) -> Result<()> {
    // The signal handler is installed after the question, so that Ctrl-C ends the process.
    let local = local_endpoint::choose(&settings.models, arguments.model.as_deref()).await?;
    let roles: Vec<_> = settings.server.roles.iter().map(|role| role.name()).collect();
    let telemetry = folio_process::telemetry::start(&settings.log, &settings.telemetry, &roles.join(","))?;
    folio_process::signals::survive_file_size_limit()?;
    let shutdown = folio_process::signals::shutdown_on_signal()?;
    let drain = Duration::from_secs(settings.server.drain_timeout_seconds);
    let next_steps = NextSteps::of(&settings);
    let page = settings.server.is(Role::Gateway).then_some(settings.gateway.tls.is_enabled());
    let start = server::start(settings, (arguments.model.as_deref(), local), Some(&telemetry), layer);
    let mut server = Box::pin(start).await?;
    announce(&server, page, next_steps.as_ref())?;
    tokio::select! {
        () = shutdown.cancelled() => {
            server.stop(drain).await;
            telemetry.stop().await;
            Ok(())
        }
        error = server.failed() => Err(error),
    }
}

/// Prints the addresses, the first token, which is shown only once, and the next steps. `page`: true if the web page is
/// served with TLS; None: the process serves no page.
fn announce(server: &server::Server, page: Option<bool>, next_steps: Option<&NextSteps>) -> Result<()> {
    let mut out = std::io::stdout();
    if let Some(first) = &server.first_token {
        first.print(&mut out)?;
    }
    writeln!(out, "{}", server.endpoint)?;
    for (name, address) in server.further_addresses() {
        writeln!(out, "{name} on {address}")?;
    }
    if let Some(has_tls) = page {
        writeln!(out, "page at {}", page_url(server.address, has_tls))?;
    }
    writeln!(out, "listening on {}", server.address)?;
    if let Some(next_steps) = next_steps {
        write!(out, "{}", next_steps.text(server.address))?;
    }
    Ok(out.flush()?)
}

//! A gRPC client of the public API with an access token.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, Result};
use folio_proto::v1;
use tonic::metadata::{Ascii, MetadataValue};
use tonic::service::Interceptor;
use tonic::service::interceptor::InterceptedService;
use tonic::transport::Channel;

use crate::endpoint::TlsArguments;
use crate::settings::Settings;

/// The server and the token of a command.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct ServerArguments {
    /// The server [default: the address of `folio serve` with the same settings].
    #[arg(long, env = "FOLIO_SERVER", value_name = "HOST:PORT or URL")]
    server: Option<String>,
    #[command(flatten)]
    tls: TlsArguments,
    /// The token [default: FOLIO_TOKEN, then admin.token in the data folder].
    #[arg(long, env = "FOLIO_TOKEN", hide_env_values = true)]
    token: Option<String>,
}

impl ServerArguments {
    pub(crate) async fn connect(&self, settings: &Settings) -> Result<Client> {
        let server = self.server.as_ref().unwrap_or(&settings.server.listen);
        let token = match &self.token {
            Some(token) => token.clone(),
            None => token_of(&settings.storage.data.join(crate::server::TOKEN_FILE))?,
        };
        Client::connect(server, &self.tls, &token).await
    }
}

fn token_of(path: &Path) -> Result<String> {
    std::fs::read_to_string(path)
        .with_context(|| format!("no token: pass --token, set FOLIO_TOKEN, or make {} readable", path.display()))
}

/// A channel that sends the token with every call.
pub(crate) type Authorized = InterceptedService<Channel, Bearer>;

#[derive(Clone)]
pub(crate) struct Bearer(MetadataValue<Ascii>);

impl Interceptor for Bearer {
    fn call(&mut self, mut request: tonic::Request<()>) -> Result<tonic::Request<()>, tonic::Status> {
        request.metadata_mut().insert("authorization", self.0.clone());
        Ok(request)
    }
}

macro_rules! services {
    ($($name:ident: $module:ident :: $client:ident),+ $(,)?) => {
        $(pub(crate) fn $name(&self) -> v1::$module::$client<Authorized> {
            v1::$module::$client::new(self.channel.clone()).max_decoding_message_size(MESSAGE_BYTES)
        })+
    };
}

/// The services of a server. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Client {
    channel: Authorized,
}

impl Client {
    pub(crate) async fn connect(server: &str, tls: &TlsArguments, token: &str) -> Result<Self> {
        let endpoint = tls
            .endpoint(server)?
            .connect_timeout(Duration::from_secs(5))
            .http2_keep_alive_interval(Duration::from_secs(20))
            .keep_alive_while_idle(true);
        let channel = endpoint.connect().await.with_context(|| format!("cannot connect to {}", endpoint.uri()))?;
        let mut bearer: MetadataValue<Ascii> =
            format!("Bearer {}", token.trim()).parse().ok().context("the token contains invalid characters")?;
        bearer.set_sensitive(true);
        Ok(Self { channel: InterceptedService::new(channel, Bearer(bearer)) })
    }

    services! {
        conversations: conversation_service_client::ConversationServiceClient,
        documents: document_service_client::DocumentServiceClient,
        models: model_service_client::ModelServiceClient,
        prompts: prompt_service_client::PromptServiceClient,
        schemas: schema_service_client::SchemaServiceClient,
        audits: audit_service_client::AuditServiceClient,
        credits: credit_service_client::CreditServiceClient,
        usages: usage_service_client::UsageServiceClient,
        tokens: token_service_client::TokenServiceClient,
        threads: thread_service_client::ThreadServiceClient,
    }
}

/// Maximum size of a message in bytes. A snapshot of a turn contains up to ten rounds with long tool results.
const MESSAGE_BYTES: usize = 64 * 1024 * 1024;

/// Returns the message of a response. Error: the status, formatted for users.
pub(crate) async fn answer<T>(call: impl Future<Output = Result<tonic::Response<T>, tonic::Status>>) -> Result<T> {
    Ok(call.await.map_err(|status| explain(&status))?.into_inner())
}

/// Formats a status for users: the message of the server and the reason.
pub(crate) fn explain(status: &tonic::Status) -> anyhow::Error {
    let error = folio_proto::status::to_error(status);
    anyhow::anyhow!("{} ({})", error.message, error.reason.as_str())
}

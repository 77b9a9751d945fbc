//! A gRPC client of the public API with an access token.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, Result};
use folio_proto::v1;
use tonic::metadata::{Ascii, MetadataValue};
use tonic::service::Interceptor;
use tonic::service::interceptor::InterceptedService;
use tonic::transport::Channel;

use crate::arguments::{Flags, SettingsArguments};
use crate::endpoint::TlsArguments;
use crate::login::Login;
use crate::settings::{self, Purpose, Settings};

/// The server and the token of a command.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct ServerArguments {
    /// The server [default: the server of `folio login`, otherwise of `folio serve` with the same settings].
    #[arg(long, env = "FOLIO_SERVER", value_name = "HOST:PORT or URL")]
    pub(crate) server: Option<String>,
    #[command(flatten)]
    tls: TlsArguments,
    /// The token [default: FOLIO_TOKEN, then that of `folio login` for this server, then admin.token in the data folder
    /// of the settings].
    #[arg(long, env = "FOLIO_TOKEN", hide_env_values = true)]
    pub(crate) token: Option<String>,
    #[command(flatten)]
    settings: SettingsArguments,
}

/// A server with the source of its address and of the token.
pub(crate) struct Target {
    pub(crate) server: Sourced<String>,
    pub(crate) tls: TlsArguments,
    /// None: no token is stored.
    pub(crate) token: Option<Sourced<String>>,
    /// The file that contains the token if no other source does.
    pub(crate) token_file: PathBuf,
}

/// A value with a description of its source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Sourced<T> {
    pub(crate) value: T,
    pub(crate) source: String,
}

impl<T> Sourced<T> {
    fn new(value: T, source: impl Into<String>) -> Self {
        Self { value, source: source.into() }
    }
}

impl ServerArguments {
    pub(crate) async fn connect(&self) -> Result<Client> {
        self.target()?.connect().await
    }

    /// Loads the settings of the command, with flags of its own.
    pub(crate) fn load_settings(&self, flags: &Flags) -> Result<Settings> {
        settings::load(&self.settings, flags, Purpose::Command)
    }

    /// Returns the server and the token that the command uses.
    pub(crate) fn target(&self) -> Result<Target> {
        let settings = self.load_settings(&Flags::new())?;
        let token_file = settings.storage.data.join(crate::server::TOKEN_FILE);
        let local_token = std::fs::read_to_string(&token_file).ok();
        Ok(self.resolve(Login::load()?, &settings.server.listen, token_file, local_token))
    }

    /// Chooses between the arguments, the stored login and the local server. The token of a login is sent to no other
    /// server.
    fn resolve(&self, login: Option<Login>, listen: &str, token_file: PathBuf, local_token: Option<String>) -> Target {
        let server = match (&self.server, &login) {
            (Some(server), _) => Sourced::new(server.clone(), "--server or FOLIO_SERVER"),
            (None, Some(login)) => Sourced::new(login.server.clone(), "folio login"),
            (None, None) => Sourced::new(listen.to_owned(), "the settings"),
        };
        let login = login.filter(|login| login.server == server.value);
        let tls = self.tls.clone().or(login.as_ref().and_then(|login| login.tls_ca.clone()));
        let given = self.token.clone().map(|token| Sourced::new(token, "--token or FOLIO_TOKEN"));
        let stored = login.map(|login| Sourced::new(login.token, "folio login"));
        let local = local_token.map(|token| Sourced::new(token, token_file.display().to_string()));
        Target { server, tls, token: given.or(stored).or(local), token_file }
    }
}

impl Target {
    pub(crate) async fn connect(&self) -> Result<Client> {
        let token = self.token.as_ref().with_context(|| {
            let file = self.token_file.display();
            format!("no token: use folio login, pass --token, set FOLIO_TOKEN, or make {file} readable")
        })?;
        Client::connect(&self.server.value, &self.tls, &token.value).await
    }
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
        extractions: extraction_service_client::ExtractionServiceClient,
        prompts: prompt_service_client::PromptServiceClient,
        schemas: schema_service_client::SchemaServiceClient,
        audits: audit_service_client::AuditServiceClient,
        credits: credit_service_client::CreditServiceClient,
        usages: usage_service_client::UsageServiceClient,
        tags: tag_service_client::TagServiceClient,
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

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;

    #[derive(clap::Parser)]
    struct Line {
        #[command(flatten)]
        server: ServerArguments,
    }

    /// Returns the server with its source, and the token with its source, of a command line.
    fn chosen(line: &[&str], login: Option<(&str, &str)>, local: Option<&str>) -> (String, String, String) {
        let Line { mut server } = Line::parse_from(std::iter::once("folio").chain(line.iter().copied()));
        // The variables of the machine that runs the test have no effect.
        let has = |flag: &str| line.contains(&flag);
        server.server = server.server.filter(|_| has("--server"));
        server.token = server.token.filter(|_| has("--token"));
        let login = login.map(|(server, token)| Login {
            server: server.to_owned(),
            token: token.to_owned(),
            tls_ca: Some("ca.pem".into()),
        });
        let target = server.resolve(login, "127.0.0.1:8080", "data/admin.token".into(), local.map(str::to_owned));
        let token = target.token.map_or_else(String::new, |token| format!("{} of {}", token.value, token.source));
        let has_authority = if target.tls.authority().is_some() { "ca.pem" } else { "" };
        (format!("{} of {}", target.server.value, target.server.source), token, has_authority.to_owned())
    }

    #[test]
    fn arguments_precede_the_login_and_the_login_precedes_the_local_server() {
        let login = Some(("https://h", "stored"));
        let found = |line: &[&str], login, local| {
            let (server, token, authority) = chosen(line, login, local);
            [server, token, authority].join("; ")
        };
        assert_eq!(found(&[], None, Some("local")), "127.0.0.1:8080 of the settings; local of data/admin.token; ");
        assert_eq!(found(&[], None, None), "127.0.0.1:8080 of the settings; ; ");
        assert_eq!(found(&[], login, Some("local")), "https://h of folio login; stored of folio login; ca.pem");
        assert_eq!(
            found(&["--token", "mine"], login, None),
            "https://h of folio login; mine of --token or FOLIO_TOKEN; ca.pem"
        );
        assert_eq!(
            found(&["--server", "https://h"], login, None),
            "https://h of --server or FOLIO_SERVER; stored of folio login; ca.pem"
        );
        assert_eq!(
            found(&["--server", "https://other"], login, None),
            "https://other of --server or FOLIO_SERVER; ; ",
            "the token of a login is sent to no other server"
        );
    }
}

//! A gRPC client of the public API with an access token.

use std::error::Error as _;
use std::path::PathBuf;
use std::task::{Context, Poll};
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow};
use folio_proto::v1;
use futures::future::BoxFuture;
use tonic::body::Body;
use tonic::codegen::Service;
use tonic::codegen::http::header::{AUTHORIZATION, HeaderMap, HeaderValue};
use tonic::codegen::http::{Request, Response};
use tonic::metadata::{BinaryMetadataValue, MetadataMap};
use tonic::transport::Channel;
use tonic::{Code, Status};

use crate::arguments::{Flags, SettingsArguments};
use crate::endpoint::TlsArguments;
use crate::login::Login;
use crate::settings::{self, Purpose, Settings};

/// The variable that sets the server.
const SERVER: &str = "FOLIO_SERVER";
/// The variable that sets the token.
const TOKEN: &str = "FOLIO_TOKEN";

/// The server and the token of a command.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct ServerArguments {
    /// The server [default: the server of `folio login`, otherwise of `folio serve` with the same settings].
    #[arg(long, env = SERVER, value_name = "HOST:PORT or URL")]
    pub(crate) server: Option<String>,
    #[command(flatten)]
    tls: TlsArguments,
    /// The token [default: FOLIO_TOKEN, then that of `folio login` for this server, then admin.token in the data folder
    /// of the settings].
    #[arg(long, env = TOKEN, hide_env_values = true)]
    pub(crate) token: Option<String>,
    #[command(flatten)]
    settings: SettingsArguments,
}

/// A server with the source of its address and of the token.
pub(crate) struct Target {
    pub(crate) server: Sourced<String>,
    /// True if an argument, a variable or a login names the server. False: the address is that of the settings, and possibly no
    /// server listens there.
    is_named: bool,
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
    pub(crate) fn new(value: T, source: impl Into<String>) -> Self {
        Self { value, source: source.into() }
    }
}

impl ServerArguments {
    /// Returns the argument `--server` with a leading blank, for a further command line. Empty: the environment or the settings
    /// name the server.
    pub(crate) fn repeated(&self) -> String {
        let is_of_environment = |server: &&str| std::env::var(SERVER).is_ok_and(|value| value == **server);
        let server = self.server.as_deref().filter(|server| !is_of_environment(server));
        server.map(|server| format!(" --server {server}")).unwrap_or_default()
    }

    pub(crate) async fn connect(&self) -> Result<Client> {
        self.target()?.connect().await
    }

    /// Connects to the server. None: no server is named, and none listens at the address of the settings.
    pub(crate) async fn connect_if_any(&self) -> Result<Option<Client>> {
        let target = self.target()?;
        if target.is_named {
            return target.connect().await.map(Some);
        }
        Ok(target.connect().await.ok())
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
        let variables = Variables { server: std::env::var(SERVER).ok(), token: std::env::var(TOKEN).ok() };
        Ok(self.resolve(&variables, Login::load()?, &settings.server.listen, token_file, local_token))
    }

    /// Chooses between the arguments, the stored login and the local server. The token of a login is sent to no other
    /// server.
    fn resolve(
        &self,
        variables: &Variables,
        login: Option<Login>,
        listen: &str,
        token_file: PathBuf,
        local_token: Option<String>,
    ) -> Target {
        let server = match (&self.server, &login) {
            (Some(server), _) => {
                Sourced::new(server.clone(), flag_or_variable(server, &variables.server, "--server", SERVER))
            }
            (None, Some(login)) => Sourced::new(login.server.clone(), "folio login"),
            (None, None) => Sourced::new(listen.to_owned(), "the settings"),
        };
        let is_named = self.server.is_some() || login.is_some();
        let login = login.filter(|login| login.server == server.value);
        let tls = self.tls.clone().or(login.as_ref().and_then(|login| login.tls_ca.clone()));
        let given = self.token.clone().map(|token| {
            let source = flag_or_variable(&token, &variables.token, "--token", TOKEN);
            Sourced::new(token, source)
        });
        let stored = login.map(|login| Sourced::new(login.token, "folio login"));
        let local = local_token.map(|token| Sourced::new(token, token_file.display().to_string()));
        Target { server, is_named, tls, token: given.or(stored).or(local), token_file }
    }
}

/// The variables that set a server and a token.
struct Variables {
    server: Option<String>,
    token: Option<String>,
}

/// Returns the source of an argument that a variable can set, too.
fn flag_or_variable(value: &str, set: &Option<String>, flag: &'static str, variable: &'static str) -> &'static str {
    if set.as_deref() == Some(value) { variable } else { flag }
}

impl Target {
    pub(crate) async fn connect(&self) -> Result<Client> {
        let token = self.token.as_ref().with_context(|| {
            let file = self.token_file.display();
            format!("no token: use folio login, pass --token, set FOLIO_TOKEN, or make {file} readable")
        })?;
        Client::connect(&self.server.value, &self.tls, token).await
    }
}

/// A channel that sends the token with every call, and adds the source of the token to a status that refuses it.
#[derive(Clone)]
pub(crate) struct Authorized {
    channel: Channel,
    token: HeaderValue,
    source: HeaderMap,
}

impl Service<Request<Body>> for Authorized {
    type Response = Response<Body>;
    type Error = tonic::transport::Error;
    type Future = BoxFuture<'static, Result<Self::Response, Self::Error>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.channel.poll_ready(context)
    }

    fn call(&mut self, mut request: Request<Body>) -> Self::Future {
        request.headers_mut().insert(AUTHORIZATION, self.token.clone());
        let (sent, source) = (self.channel.call(request), self.source.clone());
        Box::pin(async move {
            let mut response = sent.await?;
            if response.headers().get("grpc-status").is_some_and(|code| code.as_bytes() == UNAUTHENTICATED) {
                response.headers_mut().extend(source);
            }
            Ok(response)
        })
    }
}

/// The header in which [`Authorized`] adds the source of a refused token. It never leaves the process.
const TOKEN_SOURCE: &str = "folio-token-source-bin";
/// The code of a status that refuses the token, as in the header.
const UNAUTHENTICATED: &[u8] = b"16";

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
    /// Connects to a server. A status that refuses the token names its source.
    pub(crate) async fn connect(server: &str, tls: &TlsArguments, token: &Sourced<String>) -> Result<Self> {
        let endpoint = tls
            .endpoint(server)?
            .connect_timeout(Duration::from_secs(5))
            .http2_keep_alive_interval(Duration::from_secs(20))
            .keep_alive_while_idle(true);
        let channel = endpoint.connect().await.map_err(|error| {
            // Each layer of the transport repeats the message of the layer below.
            let error = anyhow::Error::from(error);
            let (uri, cause) = (endpoint.uri(), error.root_cause());
            let remedy = match uri.scheme_str() {
                Some("https") => "check the address and --tls-ca, or use http:// for a server without a certificate",
                _ => "start folio serve, or pass the address with --server",
            };
            anyhow!("cannot connect to {uri}: {cause}; {remedy}")
        })?;
        let mut bearer: HeaderValue = format!("Bearer {}", token.value.trim())
            .parse()
            .ok()
            .with_context(|| format!("the token from {} contains invalid characters", token.source))?;
        bearer.set_sensitive(true);
        Ok(Self { channel: Authorized { channel, token: bearer, source: source_headers(&token.source) } })
    }

    /// Sends a request over HTTP with the token.
    pub(crate) async fn send(&self, request: Request<Body>) -> Result<Response<Body>> {
        let mut channel = self.channel.clone();
        std::future::poll_fn(|context| channel.poll_ready(context)).await?;
        Ok(channel.call(request).await?)
    }

    services! {
        conversations: conversation_service_client::ConversationServiceClient,
        documents: document_service_client::DocumentServiceClient,
        models: model_service_client::ModelServiceClient,
        organizations: organization_service_client::OrganizationServiceClient,
        extractions: extraction_service_client::ExtractionServiceClient,
        inbox: inbox_service_client::InboxServiceClient,
        jobs: job_service_client::JobServiceClient,
        prompts: prompt_service_client::PromptServiceClient,
        proposals: proposal_service_client::ProposalServiceClient,
        schemas: schema_service_client::SchemaServiceClient,
        audits: audit_service_client::AuditServiceClient,
        credits: credit_service_client::CreditServiceClient,
        usages: usage_service_client::UsageServiceClient,
        tags: tag_service_client::TagServiceClient,
        tokens: token_service_client::TokenServiceClient,
        threads: thread_service_client::ThreadServiceClient,
        webhooks: webhook_endpoint_service_client::WebhookEndpointServiceClient,
    }
}

/// Maximum size of a message in bytes. A snapshot of a turn contains up to ten rounds with long tool results.
const MESSAGE_BYTES: usize = 64 * 1024 * 1024;

/// Returns the message of a response. Error: the status, formatted for users.
pub(crate) async fn answer<T>(call: impl Future<Output = Result<tonic::Response<T>, tonic::Status>>) -> Result<T> {
    Ok(call.await.map_err(|status| explain(&status))?.into_inner())
}

/// Returns the headers that add the source of a token to a status.
fn source_headers(source: &str) -> HeaderMap {
    let mut metadata = MetadataMap::new();
    metadata.insert_bin(TOKEN_SOURCE, BinaryMetadataValue::from_bytes(source.as_bytes()));
    metadata.into_headers()
}

/// Returns the source of the refused token. None: the status does not refuse the token.
fn token_source(status: &Status) -> Option<String> {
    let source = status.metadata().get_bin(TOKEN_SOURCE).filter(|_| status.code() == Code::Unauthenticated)?;
    Some(String::from_utf8_lossy(&source.to_bytes().ok()?).into_owned())
}

/// Formats a status for users: the message of the server, with arguments in place of fields, and the reason. A status
/// without details is no answer of a Folio server.
pub(crate) fn explain(status: &Status) -> anyhow::Error {
    if status.details().is_empty() {
        let cause = cause_of(status);
        match status.code() {
            Code::Unknown | Code::Internal | Code::Unimplemented => {
                return anyhow::anyhow!(
                    "the server is not a Folio server of this version: {cause}; check --server, and use https:// for TLS"
                );
            }
            Code::Unavailable => return anyhow::anyhow!("the connection to the server failed: {cause}; try again"),
            _ => {}
        }
    }
    let error = folio_proto::status::to_error(status);
    let (message, reason) = (crate::field_names::message_of(&error), error.reason.as_str());
    match token_source(status) {
        Some(source) => anyhow::anyhow!("{message} ({reason}); the token is from {source}"),
        None => anyhow::anyhow!("{message} ({reason})"),
    }
}

/// Returns the first cause of a failure in transport, or the message of the status.
pub(crate) fn cause_of(status: &Status) -> String {
    let mut cause = status.source();
    while let Some(inner) = cause.and_then(|error| error.source()) {
        cause = Some(inner);
    }
    cause.map_or_else(|| status.message().to_owned(), ToString::to_string)
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
        let variables = Variables { server: None, token: Some("variable".to_owned()) };
        let target =
            server.resolve(&variables, login, "127.0.0.1:8080", "data/admin.token".into(), local.map(str::to_owned));
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
        assert_eq!(found(&["--token", "mine"], login, None), "https://h of folio login; mine of --token; ca.pem");
        assert_eq!(
            found(&["--server", "https://h"], login, None),
            "https://h of --server; stored of folio login; ca.pem"
        );
        assert_eq!(
            found(&["--token", "variable"], None, None),
            "127.0.0.1:8080 of the settings; variable of FOLIO_TOKEN; "
        );
        assert_eq!(
            found(&["--server", "https://other"], login, None),
            "https://other of --server; ; ",
            "the token of a login is sent to no other server"
        );
    }

    #[test]
    fn a_refused_token_names_its_source() {
        let refused = folio_types::Error::new(
            folio_types::Code::Unauthenticated,
            folio_types::Reason::InvalidToken,
            "the token is unknown",
        );
        let mut status = folio_proto::status::from_error(refused);
        assert_eq!(explain(&status).to_string(), "the token is unknown (INVALID_TOKEN)");
        *status.metadata_mut() = MetadataMap::from_headers(source_headers("/home/ä/admin.token"));
        assert_eq!(
            explain(&status).to_string(),
            "the token is unknown (INVALID_TOKEN); the token is from /home/ä/admin.token"
        );
    }

    #[test]
    fn an_answer_of_another_server_is_no_internal_error() {
        for (status, problem) in [
            (Status::internal("h2 protocol error"), "not a Folio server of this version: h2 protocol error"),
            (Status::unimplemented("unknown service"), "not a Folio server of this version: unknown service"),
            (Status::unavailable("connection reset"), "the connection to the server failed: connection reset"),
        ] {
            let text = explain(&status).to_string();
            assert!(text.contains(problem) && !text.contains("(INTERNAL)") && !text.contains("OVERLOADED"), "{text}");
        }
        let fault = folio_proto::status::from_error(folio_types::Error::internal("a fault"));
        assert!(explain(&fault).to_string().ends_with("(INTERNAL)"), "a fault of the server remains one");
    }
}

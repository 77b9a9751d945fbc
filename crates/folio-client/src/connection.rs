//! The connection to a server, with a token on each call.

use std::path::PathBuf;
use std::task::{Context, Poll};
use std::time::Duration;

use folio_proto::v1;
use folio_types::{Environment as _, System};
use futures::future::BoxFuture;
use tonic::body::Body;
use tonic::codegen::Service;
use tonic::codegen::http::header::{AUTHORIZATION, HeaderMap, HeaderValue};
use tonic::codegen::http::{Request, Response, Uri};
use tonic::metadata::{BinaryMetadataValue, MetadataMap};
use tonic::transport::{Certificate, Channel, ClientTlsConfig, Endpoint};
use tonic::{Code, Status};

use crate::error::{Error, Result};
use crate::retry::RetryPolicy;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
const KEEPALIVE: Duration = Duration::from_secs(20);
/// The header with the organization in which a session or an account token acts.
const ORGANIZATION: &str = "folio-organization";
/// Maximum size of a message in bytes. A snapshot of a turn contains up to ten rounds with long tool results.
const MESSAGE_BYTES: usize = 64 * 1024 * 1024;

/// Files of common systems with the trusted certificate authorities. `SSL_CERT_FILE` takes precedence.
const SYSTEM_BUNDLES: [&str; 3] =
    ["/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/cert.pem"];

/// The reason why a client cannot connect.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    #[error("invalid address {0:?}: expected HOST:PORT, http://HOST:PORT or https://HOST:PORT")]
    Address(String),
    #[error("certificate authorities require an https:// address, got {0}")]
    AuthoritiesWithoutTls(String),
    #[error("no file with trusted certificate authorities found: set SSL_CERT_FILE or pass the authorities")]
    NoAuthorities,
    #[error("{} cannot be read: {error}", .file.display())]
    UnreadableAuthorities { file: PathBuf, error: std::io::Error },
    #[error("the certificate authorities are invalid: {0}")]
    InvalidAuthorities(tonic::transport::Error),
    #[error("the token contains invalid characters")]
    Token,
    #[error("the id of the organization contains invalid characters")]
    Organization,
    #[error("cannot connect to {uri}: {cause}")]
    Unreachable { uri: Uri, cause: String },
}

/// Returns the endpoint of `http://HOST:PORT`, `https://HOST:PORT` or `HOST:PORT` (TLS only with `authorities`). `authorities`: PEM;
/// None: those of the system.
///
/// # Errors
/// An invalid address, or authorities that cannot be used.
pub fn endpoint(server: &str, authorities: Option<Vec<u8>>) -> Result<Endpoint, ConnectError> {
    let scheme = if authorities.is_some() { "https" } else { "http" };
    let url = if server.contains("://") { server.to_owned() } else { format!("{scheme}://{server}") };
    let invalid = || ConnectError::Address(server.to_owned());
    let is_tls = url.starts_with("https://");
    if !is_tls && !url.starts_with("http://") {
        return Err(invalid());
    }
    let endpoint = Endpoint::from_shared(url.clone()).map_err(|_| invalid())?;
    match (is_tls, authorities) {
        (false, None) => Ok(endpoint),
        (false, Some(_)) => Err(ConnectError::AuthoritiesWithoutTls(url)),
        (true, authorities) => {
            let pem = authorities.map_or_else(system_authorities, Ok)?;
            let tls = ClientTlsConfig::new().ca_certificate(Certificate::from_pem(pem));
            endpoint.tls_config(tls).map_err(ConnectError::InvalidAuthorities)
        }
    }
}

fn system_authorities() -> Result<Vec<u8>, ConnectError> {
    let configured = std::env::var_os("SSL_CERT_FILE").map(PathBuf::from);
    let bundle = SYSTEM_BUNDLES.iter().map(PathBuf::from).find(|file| file.is_file());
    let file = configured.or(bundle).ok_or(ConnectError::NoAuthorities)?;
    std::fs::read(&file).map_err(|error| ConnectError::UnreadableAuthorities { file, error })
}

/// The options of a connection. It has no `Debug`, because it contains a token.
#[derive(Clone)]
pub struct Connect {
    server: String,
    token: Option<String>,
    organization: Option<String>,
    authorities: Option<Vec<u8>>,
    token_source: String,
    retry: RetryPolicy,
}

impl Connect {
    /// `server`: `HOST:PORT`, `http://HOST:PORT` or `https://HOST:PORT`.
    pub fn new(server: impl Into<String>, token: impl Into<String>) -> Self {
        Self { token: Some(token.into()), ..Self::without_token(server) }
    }

    /// Sends no token, for a sign-in. The server refuses all other calls.
    pub fn without_token(server: impl Into<String>) -> Self {
        Self {
            server: server.into(),
            token: None,
            organization: None,
            authorities: None,
            token_source: String::new(),
            retry: RetryPolicy::default(),
        }
    }

    /// Selects the organization in which a session or an account token acts, by its id. None: the token names its organization.
    #[must_use]
    pub fn organization(self, organization_id: Option<&str>) -> Self {
        Self { organization: organization_id.map(str::to_owned), ..self }
    }

    /// Trusts these certificate authorities (PEM) instead of those of the system.
    #[must_use]
    pub fn authorities(self, pem: Option<Vec<u8>>) -> Self {
        Self { authorities: pem, ..self }
    }

    /// Describes the source of the token, which [`token_source`] returns for a status that refuses the token.
    #[must_use]
    pub fn token_source(self, source: impl Into<String>) -> Self {
        Self { token_source: source.into(), ..self }
    }

    #[must_use]
    pub fn retry(self, policy: RetryPolicy) -> Self {
        Self { retry: policy, ..self }
    }

    /// Connects within five seconds.
    ///
    /// # Errors
    /// An invalid option, or a server that is not reachable.
    pub async fn connect(self) -> Result<Client, ConnectError> {
        let credential = credential(self.token.as_deref(), self.organization.as_deref())?;
        let endpoint = endpoint(&self.server, self.authorities)?
            .connect_timeout(CONNECT_TIMEOUT)
            .http2_keep_alive_interval(KEEPALIVE)
            .keep_alive_while_idle(true);
        let channel = endpoint.connect().await.map_err(|error| {
            // Each layer of the transport repeats the message of the layer below.
            let mut cause: &dyn std::error::Error = &error;
            while let Some(inner) = cause.source() {
                cause = inner;
            }
            ConnectError::Unreachable { uri: endpoint.uri().clone(), cause: cause.to_string() }
        })?;
        let source = source_headers(&self.token_source);
        Ok(Client { channel: Authorized { channel, credential, source }, retry: self.retry })
    }
}

/// Returns the headers of every call.
fn credential(token: Option<&str>, organization: Option<&str>) -> Result<HeaderMap, ConnectError> {
    let mut headers = HeaderMap::new();
    if let Some(token) = token {
        let mut bearer: HeaderValue = format!("Bearer {}", token.trim()).parse().map_err(|_| ConnectError::Token)?;
        bearer.set_sensitive(true);
        headers.insert(AUTHORIZATION, bearer);
    }
    if let Some(organization) = organization {
        let id: HeaderValue = organization.parse().map_err(|_| ConnectError::Organization)?;
        headers.insert(ORGANIZATION, id);
    }
    Ok(headers)
}

/// A channel that sends the token with every call, and adds the source of the token to a status that refuses it.
#[derive(Clone)]
pub struct Authorized {
    channel: Channel,
    /// The token, and the organization in which it acts.
    credential: HeaderMap,
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
        request.headers_mut().extend(self.credential.clone());
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

/// Returns the headers that add the source of a token to a status.
fn source_headers(source: &str) -> HeaderMap {
    let mut metadata = MetadataMap::new();
    if !source.is_empty() {
        metadata.insert_bin(TOKEN_SOURCE, BinaryMetadataValue::from_bytes(source.as_bytes()));
    }
    metadata.into_headers()
}

/// Returns the source of the refused token. None: the status does not refuse the token, or the source is unknown.
pub fn token_source(status: &Status) -> Option<String> {
    let source = status.metadata().get_bin(TOKEN_SOURCE).filter(|_| status.code() == Code::Unauthenticated)?;
    Some(String::from_utf8_lossy(&source.to_bytes().ok()?).into_owned())
}

macro_rules! services {
    ($($name:ident: $module:ident :: $client:ident),+ $(,)?) => {
        /// The services of the API.
        impl Client {
            $(pub fn $name(&self) -> v1::$module::$client<Authorized> {
                v1::$module::$client::new(self.channel.clone()).max_decoding_message_size(MESSAGE_BYTES)
            })+
        }
    };
}

/// A connection to a server. Cheap to clone.
#[derive(Clone)]
pub struct Client {
    channel: Authorized,
    pub(crate) retry: RetryPolicy,
}

services! {
    accounts: account_service_client::AccountServiceClient,
    audits: audit_service_client::AuditServiceClient,
    collections: collection_service_client::CollectionServiceClient,
    completions: completion_service_client::CompletionServiceClient,
    conversations: conversation_service_client::ConversationServiceClient,
    credits: credit_service_client::CreditServiceClient,
    dictionary: dictionary_service_client::DictionaryServiceClient,
    documents: document_service_client::DocumentServiceClient,
    extractions: extraction_service_client::ExtractionServiceClient,
    inbox: inbox_service_client::InboxServiceClient,
    ingestions: ingestion_service_client::IngestionServiceClient,
    jobs: job_service_client::JobServiceClient,
    limits: limit_service_client::LimitServiceClient,
    links: link_service_client::LinkServiceClient,
    mcp_servers: mcp_server_service_client::McpServerServiceClient,
    models: model_service_client::ModelServiceClient,
    organizations: organization_service_client::OrganizationServiceClient,
    policies: policy_service_client::PolicyServiceClient,
    prompts: prompt_service_client::PromptServiceClient,
    proposals: proposal_service_client::ProposalServiceClient,
    providers: provider_service_client::ProviderServiceClient,
    retrieval: retrieval_service_client::RetrievalServiceClient,
    schemas: schema_service_client::SchemaServiceClient,
    stacks: stack_service_client::StackServiceClient,
    tags: tag_service_client::TagServiceClient,
    threads: thread_service_client::ThreadServiceClient,
    tokens: token_service_client::TokenServiceClient,
    usages: usage_service_client::UsageServiceClient,
    users: user_service_client::UserServiceClient,
    webhooks: webhook_endpoint_service_client::WebhookEndpointServiceClient,
}

impl Client {
    /// Connects to a server; [`Connect`] has further options.
    ///
    /// # Errors
    /// An invalid address or token, or a server that is not reachable.
    pub async fn connect(server: &str, token: &str) -> Result<Self, ConnectError> {
        Connect::new(server, token).connect().await
    }

    /// Sends a request over HTTP with the token: for paths that are no service, such as `/mcp`.
    ///
    /// # Errors
    /// A failure of the connection. Any status of the response is no error.
    pub async fn send(&self, request: Request<Body>) -> Result<Response<Body>, tonic::transport::Error> {
        let mut channel = self.channel.clone();
        std::future::poll_fn(|context| channel.poll_ready(context)).await?;
        channel.call(request).await
    }

    /// Repeats a call as the server requests, within the bounds of the [`RetryPolicy`]. Set a `request_id` in a request that changes
    /// something, so that a repetition changes nothing twice.
    ///
    /// ```no_run
    /// # async fn list(client: folio_client::Client) -> folio_client::Result<()> {
    /// let tags = client.repeat(|| {
    ///     let mut service = client.tags();
    ///     async move { service.list_tags(folio_client::v1::ListTagsRequest::default()).await }
    /// });
    /// println!("{}", tags.await?.total_size);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// The error of the last call.
    pub async fn repeat<T, F>(&self, mut call: impl FnMut() -> F) -> Result<T>
    where
        F: Future<Output = Result<tonic::Response<T>, Status>>,
    {
        let mut attempt = 0;
        loop {
            attempt += 1;
            let error = match call().await {
                Ok(response) => return Ok(response.into_inner()),
                Err(status) => Error::from(status),
            };
            let Some(delay) = self.retry.delay(&error, attempt, random()) else { return Err(error) };
            tokio::time::sleep(delay).await;
        }
    }
}

/// Returns a random number from 0 to 1.
fn random() -> f64 {
    f64::from(u32::try_from(System.random() % 1_000).unwrap_or_default()) / 1_000.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_has_a_scheme() {
        let uri = |server: &str| endpoint(server, None).map(|endpoint| endpoint.uri().to_string());
        assert_eq!(uri("127.0.0.1:8080").unwrap(), "http://127.0.0.1:8080/");
        assert_eq!(uri("http://[::1]:8080").unwrap(), "http://[::1]:8080/");
        for server in ["", "ftp://a:1", "http://", "a b"] {
            let refused = uri(server).unwrap_err().to_string();
            assert!(refused.contains("expected HOST:PORT"), "{server:?}: {refused}");
        }
    }

    #[test]
    fn authorities_require_tls() {
        let refused = endpoint("http://a:1", Some(Vec::new())).unwrap_err();
        assert!(matches!(refused, ConnectError::AuthoritiesWithoutTls(_)), "{refused}");
        // The certificates are read when a connection is opened.
        let endpoint = endpoint("a:1", Some(Vec::new())).unwrap();
        assert_eq!(endpoint.uri().scheme_str(), Some("https"));
    }

    #[tokio::test]
    async fn an_invalid_token_is_refused_and_not_repeated_in_the_message() {
        let refused = Client::connect("127.0.0.1:1", "geheim\n1").await.err().unwrap();
        assert!(matches!(refused, ConnectError::Token), "{refused}");
        assert!(!refused.to_string().contains("geheim"));
    }

    #[test]
    fn every_call_carries_the_token_and_the_organization() {
        let headers = |token, organization| {
            let headers = credential(token, organization).map_err(|error| error.to_string())?;
            let value = |name: &str| headers.get(name).map(|value| value.to_str().unwrap().to_owned());
            Ok::<_, String>((value("authorization"), value(ORGANIZATION)))
        };
        let bearer = Some("Bearer secret".to_owned());
        assert_eq!(headers(None, None), Ok((None, None)));
        assert_eq!(headers(Some(" secret\n"), None), Ok((bearer.clone(), None)));
        assert_eq!(headers(Some("secret"), Some("org_1")), Ok((bearer, Some("org_1".to_owned()))));
        assert!(headers(Some("secret"), Some("org\n1")).unwrap_err().contains("id of the organization"));
        assert!(credential(Some("secret"), None).unwrap()[AUTHORIZATION].is_sensitive());
    }

    #[tokio::test]
    async fn an_unreachable_server_is_named() {
        let refused = Client::connect("127.0.0.1:1", "token").await.err().unwrap().to_string();
        assert!(refused.starts_with("cannot connect to http://127.0.0.1:1/: "), "{refused}");
    }

    #[test]
    fn a_status_that_refuses_the_token_names_its_source() {
        let mut status = Status::unauthenticated("the token is unknown");
        assert_eq!(token_source(&status), None);
        *status.metadata_mut() = MetadataMap::from_headers(source_headers("/home/ä/admin.token"));
        assert_eq!(token_source(&status).as_deref(), Some("/home/ä/admin.token"));
        let mut other = Status::not_found("x");
        *other.metadata_mut() = status.metadata().clone();
        assert_eq!(token_source(&other), None);
        assert!(source_headers("").is_empty());
    }
}

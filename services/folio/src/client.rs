//! The server and the token of a command, and the errors of RPCs as messages of the command line.

use std::error::Error as _;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow};
pub(crate) use folio_client::Client;
use folio_client::{Connect, ConnectError, RetryPolicy, token_source};
use tonic::{Code, Status};

use crate::arguments::{Flags, SettingsArguments};
use crate::endpoint::{self, TlsArguments};
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
    /// The organization in which a session or an account token acts [default: FOLIO_ORGANIZATION, then that of `folio
    /// login`].
    #[arg(long, env = "FOLIO_ORGANIZATION", value_name = "ORGANIZATION_ID")]
    org: Option<String>,
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
    /// The organization in which the token acts. None: that of the token.
    pub(crate) organization: Option<String>,
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
    /// Returns ` --server SERVER` for a command line that is suggested to the user. Empty: the flag was not passed, so that the
    /// suggested command finds the same server without it.
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

    /// Loads the settings of the command. `flags`: settings that flags of the command set.
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
        // The organization of a login belongs to its token.
        let selected = login.as_ref().filter(|_| given.is_none()).and_then(|login| login.organization.clone());
        let organization = self.org.clone().or(selected);
        let stored = login.map(|login| Sourced::new(login.token, "folio login"));
        let local = local_token.map(|token| Sourced::new(token, token_file.display().to_string()));
        Target { server, is_named, tls, token: given.or(stored).or(local), organization, token_file }
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
            let start = if self.is_named { "" } else { "start `folio serve` in this folder, " };
            format!(
                "no token: {start}use folio login, pass --token, or set FOLIO_TOKEN; {file} is missing or unreadable"
            )
        })?;
        open(&self.server.value, &self.tls, Some(token), self.organization.as_deref()).await
    }
}

/// The note about a broken connection.
pub(crate) const RECONNECTING: &str = "the connection broke; reconnecting";

/// The note about an incomplete list of approvals.
pub(crate) const APPROVALS_INCOMPLETE: &str =
    "approvals may be missing, because their index was lost a short time ago; all are listed within eleven minutes";

/// Maximum delay after which a refused request is repeated if the server states a delay. With a longer delay, the command fails, and
/// the user decides.
const RETRY_DELAY_MAX: Duration = Duration::from_secs(1);

/// Connects to a server with a token of one organization.
pub(crate) async fn connect(server: &str, tls: &TlsArguments, token: &Sourced<String>) -> Result<Client> {
    open(server, tls, Some(token), None).await
}

/// Connects to a server. Errors that refuse the token name the source of the token. Without a token, only a sign-in is possible.
/// `organization`: the id of the organization in which the token acts. None: that of the token.
pub(crate) async fn open(
    server: &str,
    tls: &TlsArguments,
    token: Option<&Sourced<String>>,
    organization: Option<&str>,
) -> Result<Client> {
    let retry = RetryPolicy { max_delay: RETRY_DELAY_MAX, ..RetryPolicy::default() };
    let connect = match token {
        Some(token) => Connect::new(server, &token.value).token_source(&token.source),
        None => Connect::without_token(server),
    };
    let connect = connect.organization(organization).authorities(tls.read()?).retry(retry);
    connect.connect().await.map_err(|error| match (error, token) {
        (ConnectError::Token, Some(token)) => anyhow!("the token from {} contains invalid characters", token.source),
        (error, _) => endpoint::explain(error),
    })
}

/// Returns the message of a response. Error: the status, formatted for users.
pub(crate) async fn answer<T>(call: impl Future<Output = Result<tonic::Response<T>, tonic::Status>>) -> Result<T> {
    Ok(call.await.map_err(|status| explain(&status))?.into_inner())
}

/// Formats a status for users: the message of the server, with names of arguments instead of names of fields, and the reason. A
/// status without details is no answer of a Folio server.
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

/// Like [`explain`], for an error of the client.
pub(crate) fn explain_error(error: &folio_client::Error) -> anyhow::Error {
    match error.status() {
        Some(status) => explain(status),
        None => anyhow!("{error}"),
    }
}

/// Returns the root cause of a failure of the transport. Without a cause: the message of the status.
pub(crate) fn cause_of(status: &Status) -> String {
    let mut cause = status.source();
    while let Some(inner) = cause.and_then(|error| error.source()) {
        cause = Some(inner);
    }
    cause.map_or_else(|| status.message().to_owned(), ToString::to_string)
}

#[cfg(test)]
mod tests {
    use folio_proto::v1;

    use super::*;
    use crate::arguments::parse_arguments;

    /// Returns the server with its source, and the token with its source, of a command line.
    fn chosen(line: &[&str], login: Option<(&str, &str)>, local: Option<&str>) -> (String, String, String) {
        let target = target(line, login, local);
        let token = target.token.map_or_else(String::new, |token| format!("{} of {}", token.value, token.source));
        let has_authority = if target.tls.authority().is_some() { "ca.pem" } else { "" };
        (format!("{} of {}", target.server.value, target.server.source), token, has_authority.to_owned())
    }

    fn target(line: &[&str], login: Option<(&str, &str)>, local: Option<&str>) -> Target {
        let mut server: ServerArguments = parse_arguments(line).unwrap();
        // The variables of the machine that runs the test have no effect.
        let has = |flag: &str| line.contains(&flag);
        server.server = server.server.filter(|_| has("--server"));
        server.token = server.token.filter(|_| has("--token"));
        server.org = server.org.filter(|_| has("--org"));
        let login = login.map(|(server, token)| Login {
            server: server.to_owned(),
            token: token.to_owned(),
            tls_ca: Some("ca.pem".into()),
            organization: Some("org_login".to_owned()),
        });
        let variables = Variables { server: None, token: Some("variable".to_owned()) };
        server.resolve(&variables, login, "127.0.0.1:8080", "data/admin.token".into(), local.map(str::to_owned))
    }

    #[test]
    fn the_organization_of_a_login_belongs_to_its_token() {
        let login = Some(("https://h", "stored"));
        let organization = |line: &[&str], login| target(line, login, Some("local")).organization;
        assert_eq!(organization(&[], login).as_deref(), Some("org_login"));
        assert_eq!(organization(&["--org", "org_mine"], login).as_deref(), Some("org_mine"));
        assert_eq!(organization(&["--token", "mine"], login), None);
        assert_eq!(organization(&["--server", "https://other"], login), None);
        assert_eq!(organization(&["--org", "org_mine"], None).as_deref(), Some("org_mine"));
        assert_eq!(organization(&[], None), None);
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
    fn an_error_of_the_client_is_explained_like_its_status() {
        let refused = folio_types::Error::new(
            folio_types::Code::Unauthenticated,
            folio_types::Reason::InvalidToken,
            "the token is unknown",
        );
        let error = folio_client::Error::from(folio_proto::status::from_error(refused));
        assert_eq!(explain_error(&error).to_string(), "the token is unknown (INVALID_TOKEN)");
        let failed = v1::Error { message: "m".to_owned(), reason: "MODEL_TIMEOUT".to_owned(), ..Default::default() };
        assert_eq!(explain_error(&folio_client::Error::of_message(failed)).to_string(), "m (MODEL_TIMEOUT)");
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

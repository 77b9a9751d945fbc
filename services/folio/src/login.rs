//! `folio login` and `folio logout`: the server and the token of later commands, in the user's configuration folder.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail, ensure};
use folio_proto::v1;
use folio_types::SessionToken;
use folio_types::token::Token;
use serde::{Deserialize, Serialize};

use crate::client::{Client, Sourced, answer, connect, open};
use crate::endpoint::TlsArguments;
use crate::secret_input;
use crate::terminal::{note, write_stdout};
use crate::{private_file, status};

/// Maximum size of the file of a login, in bytes.
const FILE_BYTES: u64 = 64 * 1024;

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The server.
    #[arg(value_name = "HOST:PORT or URL", default_value = "127.0.0.1:8080")]
    server: String,
    /// Sign in with this e-mail address and a password, which is read instead of a token.
    #[arg(long, value_name = "ADDRESS")]
    email: Option<String>,
    /// The organization of later commands with --email or an account token, by id or name [default: the only one of the user].
    #[arg(long, value_name = "ORGANIZATION")]
    organization: Option<String>,
    #[command(flatten)]
    tls: TlsArguments,
}

/// A stored login. It has no `Debug`, because it contains a token.
#[derive(Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Login {
    pub(crate) server: String,
    pub(crate) token: String,
    /// The certificate authorities of the server. None: the system's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) tls_ca: Option<PathBuf>,
    /// The id of the organization in which a session or an account token acts. None: the token names its organization.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) organization: Option<String>,
}

impl Login {
    /// Reads the stored login. None: no login is stored.
    pub(crate) fn load() -> Result<Option<Self>> {
        match file() {
            Some(file) => Self::read(&file),
            None => Ok(None),
        }
    }

    fn read(file: &Path) -> Result<Option<Self>> {
        let unreadable = || format!("the login {} cannot be read: use folio login again", file.display());
        match std::fs::metadata(file) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            metadata => ensure!(metadata.with_context(unreadable)?.len() <= FILE_BYTES, unreadable()),
        }
        let text = std::fs::read_to_string(file).with_context(unreadable)?;
        // The error of the parser is omitted, because it quotes the line with the token.
        toml::from_str(&text).ok().with_context(unreadable).map(Some)
    }

    fn write(&self, file: &Path) -> Result<()> {
        if let Some(folder) = file.parent() {
            std::fs::create_dir_all(folder).with_context(|| format!("{} cannot be created", folder.display()))?;
        }
        let text = toml::to_string(self)?;
        private_file::write(file, &text).with_context(|| format!("{} cannot be written", file.display()))
    }
}

/// Returns the file of the login: `folio/login.toml` in `$XDG_CONFIG_HOME` or `~/.config`. None: neither is known.
fn file() -> Option<PathBuf> {
    file_in(std::env::var_os("XDG_CONFIG_HOME").map(PathBuf::from), std::env::var_os("HOME").map(PathBuf::from))
}

fn file_in(configuration: Option<PathBuf>, home: Option<PathBuf>) -> Option<PathBuf> {
    // The standard requires that a relative path is ignored.
    let configuration = configuration.filter(|folder| folder.is_absolute());
    let home = home.filter(|folder| folder.is_absolute()).map(|home| home.join(".config"));
    Some(configuration.or(home)?.join("folio").join("login.toml"))
}

/// Reads a token or a password, checks it with the server, and stores the token.
pub(crate) async fn run(arguments: Arguments) -> Result<()> {
    let shutdown = folio_process::signals::shutdown_on_signal()?;
    tokio::select! {
        result = log_in(arguments) => result,
        () = shutdown.cancelled() => bail!("stopped by a signal"),
    }
}

async fn log_in(Arguments { server, email, organization, tls }: Arguments) -> Result<()> {
    let file = file().context("no folder for the login: set HOME or XDG_CONFIG_HOME")?;
    let (token, organization) = match email {
        Some(email) => sign_in(&server, &tls, email, organization).await?,
        None => {
            let token = secret_input::read("token: ").await?;
            ensure!(!token.is_empty(), "the token is empty: create one with folio token create");
            let token = Sourced::new(token, "the input");
            let client = connect(&server, &tls, &token).await?;
            let organization = match (names_its_organization(&token.value), organization) {
                (true, None) => status::check_token(&client).await.map(|()| None)?,
                (true, Some(_)) => {
                    bail!("--organization requires --email or an account token: this token names its organization")
                }
                (false, wanted) => select(&client, wanted.as_deref()).await?,
            };
            (token.value, organization)
        }
    };
    let tls_ca = tls.authority().map(std::path::absolute).transpose()?;
    Login { server: server.clone(), token, tls_ca, organization }.write(&file)?;
    write_stdout(&format!("logged in to {server}; stored in {}\n", file.display()))?;
    Ok(())
}

/// Starts a session. Returns its token and the id of the organization in which later commands act.
async fn sign_in(
    server: &str,
    tls: &TlsArguments,
    email: String,
    organization: Option<String>,
) -> Result<(String, Option<String>)> {
    let password = secret_input::read_line("password: ").await?;
    let client = open(server, tls, None, None).await?;
    let signed_in = answer(client.accounts().sign_in(v1::SignInRequest { email, password })).await?;
    let token = Sourced::new(signed_in.session_token, "the sign-in");
    let client = connect(server, tls, &token).await?;
    match select(&client, organization.as_deref()).await {
        Ok(chosen) => Ok((token.value, chosen)),
        Err(error) => {
            // A session that no command uses must not remain.
            answer(client.accounts().sign_out(v1::SignOutRequest::default())).await?;
            Err(error)
        }
    }
}

/// Returns true unless the token is an account token, which acts in any organization of its user.
fn names_its_organization(token: &str) -> bool {
    !token.parse::<Token>().is_ok_and(|token| token.is_of_account())
}

/// Returns the id of the organization in which later commands act. None: the user has no organization.
async fn select(client: &Client, wanted: Option<&str>) -> Result<Option<String>> {
    let request = v1::ListAccountOrganizationsRequest { page_size: 1_000, ..Default::default() };
    let found = answer(client.accounts().list_account_organizations(request)).await?.organizations;
    let found: Vec<_> = found.into_iter().filter_map(|found| found.organization).collect();
    chosen(&found, wanted)
}

/// Chooses the organization of a user by id or name, or the only one. None: the user has no organization.
fn chosen(found: &[v1::Organization], wanted: Option<&str>) -> Result<Option<String>> {
    let is_wanted = |found: &&v1::Organization| match wanted {
        Some(wanted) => found.organization_id == wanted || found.name == wanted,
        None => true,
    };
    let matching: Vec<_> = found.iter().filter(is_wanted).collect();
    match (matching.as_slice(), wanted) {
        ([only], _) => Ok(Some(only.organization_id.clone())),
        ([], None) => {
            note("the user belongs to no organization yet; log in again when an admin has added it as a member");
            Ok(None)
        }
        ([], Some(wanted)) => bail!("the user belongs to no organization {wanted:?}"),
        (several, _) => {
            let listed: Vec<_> =
                several.iter().map(|found| format!("{} ({})", found.organization_id, found.name)).collect();
            bail!("the user belongs to several organizations: pass --organization: {}", listed.join(", "))
        }
    }
}

/// Removes the stored login, and ends its session. An access token remains valid.
pub(crate) async fn logout() -> Result<()> {
    let file = file().context("no folder for the login: set HOME or XDG_CONFIG_HOME")?;
    // A damaged login is removed, too.
    let session = Login::read(&file).ok().flatten().filter(|login| login.token.parse::<SessionToken>().is_ok());
    if let Some(login) = &session
        && let Err(error) = end_session(login).await
    {
        note(&format!("the session may remain open until it expires: {error:#}"));
    }
    let rest = if session.is_some() { "" } else { "; the token remains valid until folio token revoke" };
    let text = match std::fs::remove_file(&file) {
        Ok(()) => format!("removed {}{rest}\n", file.display()),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => "no login is stored\n".to_owned(),
        Err(error) => return Err(error).with_context(|| format!("{} cannot be removed", file.display())),
    };
    Ok(write_stdout(&text)?)
}

async fn end_session(login: &Login) -> Result<()> {
    let tls = TlsArguments::default().or(login.tls_ca.clone());
    let client = connect(&login.server, &tls, &Sourced::new(login.token.clone(), "folio login")).await?;
    answer(client.accounts().sign_out(v1::SignOutRequest::default())).await.map(drop)
}

#[cfg(test)]
mod tests {
    use folio_types::{OrgId, System};

    use super::*;

    #[test]
    fn a_login_is_read_back_and_a_damaged_one_is_reported_without_its_token() {
        let folder = tempfile::tempdir().unwrap();
        let file = file_in(Some(folder.path().to_owned()), None).unwrap();
        assert!(Login::read(&file).unwrap().is_none());
        let organization = Some("org_a".to_owned());
        let login =
            Login { server: "https://h".to_owned(), token: "folio_a_b_c".to_owned(), tls_ca: None, organization };
        login.write(&file).unwrap();
        let read = Login::read(&file).unwrap().unwrap();
        assert_eq!((read.server, read.token, read.tls_ca), (login.server, login.token, None));
        assert_eq!(read.organization, login.organization);
        std::fs::write(&file, "server = \"https://h\"\ntoken = \"t\"\n").unwrap();
        assert_eq!(Login::read(&file).unwrap().unwrap().organization, None, "a login of an earlier version");
        for damaged in ["token = \"folio_secret\"\nserver", "x".repeat(70_000).as_str()] {
            std::fs::write(&file, damaged).unwrap();
            let error = format!("{:#}", Login::read(&file).err().unwrap());
            assert!(error.contains("use folio login again") && !error.contains("folio_secret"), "{error}");
        }
    }

    #[test]
    fn a_login_selects_the_only_organization_or_the_wanted_one() {
        let organization = |id: &str, name: &str| v1::Organization {
            organization_id: id.to_owned(),
            name: name.to_owned(),
            ..v1::Organization::default()
        };
        let two = [organization("org_1", "Acme"), organization("org_2", "Beta")];
        let selected = |found: &[v1::Organization], wanted| chosen(found, wanted).map_err(|error| error.to_string());
        assert_eq!(selected(&[], None), Ok(None));
        assert_eq!(selected(&two[..1], None), Ok(Some("org_1".to_owned())));
        for wanted in ["org_2", "Beta"] {
            assert_eq!(selected(&two, Some(wanted)), Ok(Some("org_2".to_owned())));
        }
        let several = selected(&two, None).unwrap_err();
        assert!(several.contains("org_1 (Acme), org_2 (Beta)"), "{several}");
        assert!(selected(&two, Some("Gamma")).unwrap_err().contains("Gamma"));
    }

    #[test]
    fn an_account_token_names_no_organization() {
        let token = |org: &OrgId| Token::generate(org, &System).reveal();
        assert!(names_its_organization(&token(&OrgId::first())));
        assert!(!names_its_organization(&token(&OrgId::platform())));
        assert!(names_its_organization("eyJhbGciOi.eyJzdWIi.c2ln"));
    }

    #[test]
    fn the_file_is_in_the_configuration_folder_of_the_user() {
        let path = |configuration: Option<&str>, home: Option<&str>| {
            file_in(configuration.map(PathBuf::from), home.map(PathBuf::from))
        };
        assert_eq!(path(Some("/c"), Some("/h")), Some("/c/folio/login.toml".into()));
        assert_eq!(path(Some("c"), Some("/h")), Some("/h/.config/folio/login.toml".into()));
        assert_eq!(path(None, None), None);
    }
}

//! `folio login` and `folio logout`: the server and the token of later commands, in the user's configuration folder.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail, ensure};
use serde::{Deserialize, Serialize};

use crate::client::{Sourced, connect};
use crate::endpoint::TlsArguments;
use crate::secret_input;
use crate::{private_file, status};

/// Maximum size of the file of a login, in bytes.
const FILE_BYTES: u64 = 64 * 1024;

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The server.
    #[arg(value_name = "HOST:PORT or URL", default_value = "127.0.0.1:8080")]
    server: String,
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

/// Reads a token, checks it with the server, and stores both.
pub(crate) async fn run(arguments: Arguments) -> Result<()> {
    let shutdown = folio_process::signals::shutdown_on_signal()?;
    tokio::select! {
        result = log_in(arguments) => result,
        () = shutdown.cancelled() => bail!("stopped by a signal"),
    }
}

async fn log_in(Arguments { server, tls }: Arguments) -> Result<()> {
    let file = file().context("no folder for the login: set HOME or XDG_CONFIG_HOME")?;
    let token = secret_input::read("token: ").await?;
    ensure!(!token.is_empty(), "the token is empty: create one with folio token create");
    let token = Sourced::new(token, "the input");
    let client = connect(&server, &tls, &token).await?;
    status::check_token(&client).await?;
    let tls_ca = tls.authority().map(std::path::absolute).transpose()?;
    Login { server: server.clone(), token: token.value, tls_ca }.write(&file)?;
    crate::terminal::write_stdout(&format!("logged in to {server}; stored in {}\n", file.display()))?;
    Ok(())
}

/// Removes the stored login. The token remains valid.
pub(crate) fn logout() -> Result<()> {
    let file = file().context("no folder for the login: set HOME or XDG_CONFIG_HOME")?;
    let text = match std::fs::remove_file(&file) {
        Ok(()) => format!("removed {}; the token remains valid until folio token revoke\n", file.display()),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => "no login is stored\n".to_owned(),
        Err(error) => return Err(error).with_context(|| format!("{} cannot be removed", file.display())),
    };
    Ok(crate::terminal::write_stdout(&text)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_login_is_read_back_and_a_damaged_one_is_reported_without_its_token() {
        let folder = tempfile::tempdir().unwrap();
        let file = file_in(Some(folder.path().to_owned()), None).unwrap();
        assert!(Login::read(&file).unwrap().is_none());
        let login = Login { server: "https://h".to_owned(), token: "folio_a_b_c".to_owned(), tls_ca: None };
        login.write(&file).unwrap();
        let read = Login::read(&file).unwrap().unwrap();
        assert_eq!((read.server, read.token, read.tls_ca), (login.server, login.token, None));
        for damaged in ["token = \"folio_secret\"\nserver", "x".repeat(70_000).as_str()] {
            std::fs::write(&file, damaged).unwrap();
            let error = format!("{:#}", Login::read(&file).err().unwrap());
            assert!(error.contains("use folio login again") && !error.contains("folio_secret"), "{error}");
        }
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

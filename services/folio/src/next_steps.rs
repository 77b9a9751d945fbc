//! The commands that the start of a server in one process suggests.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};

use crate::server::TOKEN_FILE;
use crate::settings::{Role, Settings};

/// A file that the commands create.
const SAMPLE: &str = "folio-sample.txt";

/// The properties of a server that its clients on this machine need.
pub(crate) struct NextSteps {
    /// The program, as a shell finds it from any folder.
    program: String,
    /// The file with the administrator's token, as an absolute path.
    token_file: PathBuf,
}

impl NextSteps {
    /// Returns the steps for a server in one process. None: the process is part of a cluster, or its certificate has a
    /// name that is unknown here.
    pub(crate) fn of(settings: &Settings) -> Option<Self> {
        let is_alone = settings.server.is(Role::Gateway) && !settings.storage.is_shared();
        if !is_alone || settings.gateway.tls.is_enabled() {
            return None;
        }
        let token_file = std::path::absolute(settings.storage.data.join(TOKEN_FILE)).ok()?;
        let name = std::env::args_os().next().and_then(|name| name.into_string().ok());
        Some(Self { program: program(name.as_deref()), token_file })
    }

    /// Returns the text, with three commands for a shell in any folder. `address`: the address of the listener.
    pub(crate) fn text(&self, address: SocketAddr) -> String {
        let server = reachable(address);
        let connect = match self.token_file.is_file() {
            true => {
                let file = quoted(&self.token_file.to_string_lossy());
                format!("export FOLIO_SERVER={server} FOLIO_TOKEN=\"$(cat {file})\"")
            }
            // The administrator stored the token elsewhere.
            false => format!("{} login {server}", self.program),
        };
        let program = &self.program;
        format!(
            "\nNext, in another terminal:\n  {connect}\n  {program} status\n  \
             echo 'Invoice: INV-7. Total: 12.50 EUR' > {SAMPLE} && {program} chat {SAMPLE}\n"
        )
    }
}

/// Returns the URL of the web page. `has_tls`: the listener expects TLS.
pub(crate) fn page_url(address: SocketAddr, has_tls: bool) -> String {
    let scheme = if has_tls { "https" } else { "http" };
    format!("{scheme}://{}/", reachable(address))
}

/// Returns the address at which clients on this machine reach a listener.
fn reachable(address: SocketAddr) -> SocketAddr {
    let ip = match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => IpAddr::V4(Ipv4Addr::LOCALHOST),
        IpAddr::V6(ip) if ip.is_unspecified() => IpAddr::V6(Ipv6Addr::LOCALHOST),
        ip => ip,
    };
    SocketAddr::new(ip, address.port())
}

/// Returns the program as a word of a shell. `name`: the name under which it was started. A name without a folder is
/// found in the folders of `PATH`.
fn program(name: Option<&str>) -> String {
    let path = name.filter(|name| name.contains('/')).and_then(|name| std::path::absolute(Path::new(name)).ok());
    path.map_or_else(|| "folio".to_owned(), |path| quoted(&path.to_string_lossy()))
}

/// Returns a text as one word of a shell.
fn quoted(text: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '/' | '.' | '_' | '-' | ':' | '+' | ',');
    if text.chars().all(is_plain) { text.to_owned() } else { format!("'{}'", text.replace('\'', "'\\''")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_has_a_url_that_a_browser_on_this_machine_reaches() {
        let urls = [("0.0.0.0:8080", false), ("[::1]:80", true)]
            .map(|(address, has_tls)| page_url(address.parse().unwrap(), has_tls));
        assert_eq!(urls, ["http://127.0.0.1:8080/", "https://[::1]:80/"]);
    }

    #[test]
    fn the_commands_name_the_server_and_its_token() {
        let folder = tempfile::tempdir().unwrap();
        let token_file = folder.path().join("it's a token");
        let steps = NextSteps { program: program(Some("folio")), token_file: token_file.clone() };
        let address = "0.0.0.0:8080".parse().unwrap();
        assert!(steps.text(address).contains("\n  folio login 127.0.0.1:8080\n  folio status\n"), "no file");
        std::fs::write(&token_file, "folio_a_b_c").unwrap();
        let text = steps.text(address);
        let file = format!("{}/it'\\''s a token", folder.path().display());
        let export = format!("  export FOLIO_SERVER=127.0.0.1:8080 FOLIO_TOKEN=\"$(cat '{file}')\"\n");
        assert!(text.contains(&export) && text.ends_with(" && folio chat folio-sample.txt\n"), "{text}");
        assert!(!text.contains("folio_a_b_c"), "the token is not printed again");
    }

    #[test]
    fn a_program_outside_of_path_is_named_by_its_absolute_path() {
        assert_eq!(program(None), "folio");
        assert_eq!(program(Some("/opt/folio/bin/folio")), "/opt/folio/bin/folio");
        assert_eq!(program(Some("/opt/my tools/folio")), "'/opt/my tools/folio'");
        assert!(program(Some("target/debug/folio")).starts_with('/'));
    }

    #[test]
    fn a_listener_on_every_address_is_reached_by_the_loopback_interface() {
        for (listener, reached) in [("0.0.0.0:1", "127.0.0.1:1"), ("[::]:1", "[::1]:1"), ("10.0.0.1:1", "10.0.0.1:1")] {
            assert_eq!(reachable(listener.parse().unwrap()).to_string(), reached);
        }
    }

    #[test]
    fn a_cluster_has_no_such_steps() {
        assert!(NextSteps::of(&Settings::default()).is_some());
        let mut settings = Settings::default();
        settings.server.roles = vec![Role::Node];
        assert!(NextSteps::of(&settings).is_none());
        let mut settings = Settings::default();
        settings.gateway.tls.certificate = Some("cert.pem".into());
        assert!(NextSteps::of(&settings).is_none());
    }
}

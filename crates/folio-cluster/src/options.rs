//! Settings of the RPCs between processes.

use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use folio_types::limits::DAY;
use folio_types::settings::{InvalidSettings, Problems};
use folio_types::{Error, Reason, Result, Secret};

use crate::membership::MembershipOptions;
use crate::placement::LoadBound;
use crate::signed_principal::SECRET_BYTES_MIN;

folio_types::settings! {
    /// The settings section `cluster`.
    pub struct Options {
        /// Address on which a node listens for gateways and other nodes: `HOST:PORT`. Port 0: any free port.
        pub listen: String = "127.0.0.1:7400".to_owned(),
        /// Address at which other processes reach the node: `HOST:PORT`. Empty: the listen address.
        pub advertise: String = String::new(),
        /// Secrets that sign the principal of an RPC, at least 32 bytes each. The first secret signs; all are accepted.
        pub secrets: Vec<Secret> = Vec::new(),
        /// A file with further secrets, one per line, which precede those in `secrets`.
        pub secret_file: Option<PathBuf> = None,
        /// Certificates of the cluster. Required unless all addresses are loopback or `insecure` is true.
        pub tls: TlsOptions = TlsOptions::default(),
        /// If true, addresses that are not loopback are permitted without certificates.
        pub insecure: bool = false,
        /// Maximum number of RPCs in flight to one node. Further RPCs fail with `OVERLOADED`.
        pub calls_per_peer: usize = 8_192,
        /// Maximum number of RPCs in flight at a node. Further RPCs fail with `OVERLOADED`.
        pub calls: usize = 16_384,
        /// Maximum size of a request in bytes.
        pub request_bytes: usize = 8 * 1024 * 1024,
        /// Maximum size of a response or event in bytes.
        pub answer_bytes: usize = 64 * 1024 * 1024,
        /// Timeout of connecting, and of the TLS handshake.
        pub connect_timeout: Duration as "connect_timeout_seconds" = Duration::from_secs(2),
        /// Interval of keepalive pings.
        pub keepalive_interval: Duration as "keepalive_interval_seconds" = Duration::from_secs(2),
        /// Timeout of a keepalive ping.
        pub keepalive_timeout: Duration as "keepalive_timeout_seconds" = Duration::from_secs(3),
        /// Timeout of an RPC that does not wait for a model.
        pub call_timeout: Duration as "call_timeout_seconds" = Duration::from_secs(70),
        /// Timeout of `Approve`, and of a stream until the node accepts it.
        pub turn_timeout: Duration as "turn_timeout_seconds" = Duration::from_secs(2 * 60 * 60 + 60),
        /// Maximum time until the first event of a stream.
        pub stream_first: Duration as "stream_first_seconds" = Duration::from_secs(60),
        /// Maximum time between two events of a stream.
        pub stream_idle: Duration as "stream_idle_seconds" = Duration::from_secs(15 * 60),
        /// Maximum lifetime of a stream.
        pub stream_lifetime: Duration as "stream_lifetime_seconds" = Duration::from_secs(6 * 60 * 60),
        /// Interval between two heartbeats of a node, and between two reads of the membership by one process.
        pub heartbeat: Duration as "heartbeat_seconds" = Duration::from_millis(1_500),
        /// Timeout of the store's response to a heartbeat.
        pub heartbeat_answer: Duration as "heartbeat_answer_seconds" = Duration::from_secs(1),
        /// Time without a heartbeat after which a node is declared dead and other nodes take over its threads. Must be
        /// equal in every process.
        pub dead_after: Duration as "dead_after_seconds" = Duration::from_secs(5),
        /// Time for which the router prefers other nodes to an unreachable node.
        pub avoid: Duration as "avoid_seconds" = Duration::from_secs(1),
        /// Maximum number of threads whose owner a gateway caches.
        pub owners_remembered: u64 = 100_000,
        /// Maximum number of conversations of a node in percent of the mean over the nodes. Further threads are placed
        /// on other nodes.
        pub load_percent: u64 = LoadBound::default().percent,
        /// Number of conversations by which a node may exceed the maximum of `load_percent`.
        pub load_slack: u64 = LoadBound::default().slack,
    }
}

folio_types::settings! {
    /// Certificates in PEM files. Either all three files are set or none.
    pub struct TlsOptions {
        /// Certificates of the cluster's own authority. Only certificates that this authority signed are trusted.
        pub ca: Option<PathBuf> = None,
        /// Certificate of this process, followed by the chain to the authority.
        pub certificate: Option<PathBuf> = None,
        /// Private key of the certificate.
        pub key: Option<PathBuf> = None,
        /// Server name that the certificate of every node contains, because node addresses change.
        pub server_name: String = NODE_NAME.to_owned(),
        /// Interval between two reads of the files. A change applies to new connections. Invalid files are logged, and
        /// the previous certificates stay in use.
        pub reload_interval: Duration as "reload_interval_seconds" = Duration::from_secs(5),
    }
}

/// Default of [`TlsOptions::server_name`].
pub const NODE_NAME: &str = "folio-node";

impl TlsOptions {
    pub fn is_enabled(&self) -> bool {
        self.ca.is_some() || self.certificate.is_some() || self.key.is_some()
    }
}

const TIMEOUT_MIN: Duration = Duration::from_millis(10);
const HOUR: Duration = Duration::from_secs(60 * 60);
const MEBIBYTE: usize = 1024 * 1024;

impl Options {
    /// Returns every invalid setting. Does not check that secrets and certificates exist; the listener and the
    /// connections do.
    pub fn check(&self) -> Result<(), InvalidSettings> {
        let mut problems = Problems::of("cluster");
        for (at, secret) in self.secrets.iter().enumerate() {
            let path = format!("secrets[{at}]");
            problems.check(!secret.is_mask(), &path, "is the mask that printed settings contain in place of a secret");
            let is_long_enough = secret.reveal().len() >= SECRET_BYTES_MIN;
            problems.check(is_long_enough, &path, format_args!("must have at least {SECRET_BYTES_MIN} bytes"));
        }
        let tls = [&self.tls.ca, &self.tls.certificate, &self.tls.key];
        let is_complete = tls.iter().all(|file| file.is_some());
        problems.check(is_complete || !self.tls.is_enabled(), "tls", "ca, certificate and key must be set together");
        problems.check(!self.tls.server_name.is_empty(), "tls.server_name", "must not be empty");
        for (path, address) in [("listen", &self.listen), ("advertise", &self.advertise)] {
            if !(address.is_empty() && path == "advertise")
                && let Err(error) = self.check_address(address)
            {
                problems.add(path, error.message);
            }
        }
        for (path, value) in [("calls_per_peer", self.calls_per_peer), ("calls", self.calls)] {
            problems.number(path, value, 1, 1_000_000);
        }
        for (path, value) in [("request_bytes", self.request_bytes), ("answer_bytes", self.answer_bytes)] {
            problems.number(path, value, MEBIBYTE, 1024 * MEBIBYTE);
        }
        problems.number("owners_remembered", self.owners_remembered, 1, 100_000_000);
        problems.number("load_percent", self.load_percent, 100, 1_000);
        problems.number("load_slack", self.load_slack, 0, 1_000_000);
        for (path, value, max) in [
            ("connect_timeout_seconds", self.connect_timeout, HOUR),
            ("keepalive_interval_seconds", self.keepalive_interval, HOUR),
            ("keepalive_timeout_seconds", self.keepalive_timeout, HOUR),
            ("call_timeout_seconds", self.call_timeout, HOUR),
            ("turn_timeout_seconds", self.turn_timeout, DAY),
            ("stream_first_seconds", self.stream_first, DAY),
            ("stream_idle_seconds", self.stream_idle, 30 * DAY),
            ("stream_lifetime_seconds", self.stream_lifetime, 30 * DAY),
            ("avoid_seconds", self.avoid, HOUR),
            ("heartbeat_seconds", self.heartbeat, HOUR),
            ("heartbeat_answer_seconds", self.heartbeat_answer, HOUR),
            ("dead_after_seconds", self.dead_after, HOUR),
            ("tls.reload_interval_seconds", self.tls.reload_interval, DAY),
        ] {
            problems.seconds(path, value, TIMEOUT_MIN, max);
        }
        // If no membership call reaches the store for more than half of `dead_after`, the store treats the gap as its
        // own downtime and not as silence of a node. A live node must therefore call more often.
        let is_frequent = (self.heartbeat + self.heartbeat_answer).saturating_mul(2) <= self.dead_after;
        let why = "must be at least 2 × (heartbeat_seconds + heartbeat_answer_seconds)";
        problems.check(is_frequent, "dead_after_seconds", why);
        problems.into_result()
    }

    /// Checks that an address may be used: it is loopback, or certificates are configured, or `insecure` is set.
    ///
    /// # Errors
    /// The address is malformed or not permitted.
    pub fn check_address(&self, address: &str) -> Result<()> {
        let invalid = |message: String| Error::invalid(Reason::InvalidField, message);
        let host = host(address).ok_or_else(|| invalid(format!("invalid address {address:?}: expected HOST:PORT")))?;
        if self.tls.is_enabled() || self.insecure || is_loopback(host) {
            return Ok(());
        }
        Err(invalid(format!("address {address:?} is not loopback: set cluster.tls or cluster.insecure")))
    }

    /// Returns all secrets, those of the file first.
    ///
    /// # Errors
    /// `INVALID_FIELD`: the file cannot be read.
    pub(crate) fn all_secrets(&self) -> Result<Vec<Secret>> {
        let mut secrets = Vec::new();
        if let Some(path) = &self.secret_file {
            let text = std::fs::read_to_string(path).map_err(|error| {
                let message = format!("cannot read cluster.secret_file {}: {error}", path.display());
                Error::invalid(Reason::InvalidField, message)
            })?;
            secrets.extend(text.lines().map(str::trim).filter(|line| !line.is_empty()).map(Secret::new));
        }
        secrets.extend(self.secrets.iter().cloned());
        Ok(secrets)
    }

    pub fn has_secret(&self) -> bool {
        self.secret_file.is_some() || !self.secrets.is_empty()
    }

    pub fn membership(&self) -> MembershipOptions {
        MembershipOptions { heartbeat: self.heartbeat, store_timeout: self.heartbeat_answer }
    }

    pub fn load_bound(&self) -> LoadBound {
        LoadBound { percent: self.load_percent, slack: self.load_slack }
    }
}

fn host(address: &str) -> Option<&str> {
    let (host, port) = address.rsplit_once(':')?;
    port.parse::<u16>().ok()?;
    let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    Some(host).filter(|host| !host.is_empty() && !host.contains(['/', '@', ' ']))
}

fn is_loopback(host: &str) -> bool {
    host == "localhost" || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problems(change: impl FnOnce(&mut Options)) -> String {
        let mut options = Options::default();
        change(&mut options);
        options.check().err().map(|problems| problems.to_string()).unwrap_or_default()
    }

    #[test]
    fn the_default_settings_are_valid() {
        assert_eq!(problems(|_| {}), "");
    }

    #[test]
    fn addresses_outside_loopback_require_certificates_unless_settings_permit_plain_text() {
        for good in ["127.0.0.1:1", "127.9.9.9:1", "[::1]:7", "localhost:0"] {
            assert_eq!(problems(|o| o.listen = good.into()), "", "{good}");
        }
        for open in ["0.0.0.0:1", "[::]:1", "10.0.0.1:1", "node-1.folio:7400"] {
            assert!(problems(|o| o.listen = open.into()).contains("cluster.listen"), "{open}");
            assert!(problems(|o| o.advertise = open.into()).contains("cluster.advertise"), "{open}");
            let insecure = |o: &mut Options| (o.listen, o.insecure) = (open.into(), true);
            assert_eq!(problems(insecure), "");
            let secure = |o: &mut Options| {
                o.listen = open.into();
                (o.tls.ca, o.tls.certificate, o.tls.key) = (Some("a".into()), Some("b".into()), Some("c".into()));
            };
            assert_eq!(problems(secure), "");
        }
        for bad in ["", ":1", "host", "host:port", "host:70000", "http://host:1"] {
            assert!(problems(|o| (o.listen, o.insecure) = (bad.into(), true)).contains("expected HOST:PORT"), "{bad}");
            assert_eq!(Options::default().check_address(bad).unwrap_err().reason, Reason::InvalidField, "{bad}");
        }
    }

    #[test]
    fn secrets_have_a_minimum_length_and_are_masked() {
        assert!(problems(|o| o.secrets = vec![Secret::new("short")]).contains("cluster.secrets[0]"));
        assert!(problems(|o| o.secrets = vec![Secret::new("********")]).contains("mask"));
        let options = Options { secrets: vec![Secret::new(&"very-".repeat(9))], ..Options::default() };
        assert_eq!(options.check(), Ok(()));
        assert!(!format!("{options:?} {}", serde_json::to_string(&options).unwrap()).contains("very"));
    }

    #[test]
    fn the_first_secret_of_the_file_signs() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("secret");
        std::fs::write(&file, "first\n\n second \n").unwrap();
        let options = Options { secret_file: Some(file), secrets: vec![Secret::new("third")], ..Options::default() };
        let secrets: Vec<_> = options.all_secrets().unwrap().iter().map(|s| s.reveal().to_owned()).collect();
        assert_eq!(secrets, ["first", "second", "third"]);
        let missing = Options { secret_file: Some(folder.path().join("none")), ..Options::default() };
        let refused = missing.all_secrets().unwrap_err();
        assert!(refused.reason == Reason::InvalidField && refused.message.contains("secret_file"), "{refused}");
    }

    #[test]
    fn certificate_files_are_set_together() {
        assert!(problems(|o| o.tls.ca = Some("ca.pem".into())).contains("cluster.tls"));
        assert!(problems(|o| o.calls = 0).contains("cluster.calls"));
        assert!(problems(|o| o.heartbeat = Duration::from_secs(2)).contains("cluster.dead_after_seconds"));
        assert!(problems(|o| o.keepalive_timeout = Duration::ZERO).contains("keepalive_timeout_seconds"));
    }
}

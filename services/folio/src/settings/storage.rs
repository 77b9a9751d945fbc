//! Settings of the storage.

use std::path::PathBuf;

use folio_storage_client::Tls;
use folio_storage_cql::Options as CqlAdapter;
use folio_storage_redis::RedisOptions as RedisAdapter;
use folio_types::Secret;
use folio_types::settings::{InvalidSettings, Problems};
use serde::{Deserialize, Serialize};

folio_types::settings! {
    /// The settings section `storage`: embedded in a folder, or the stores that the processes of a cluster share.
    pub(crate) struct StorageOptions {
        /// The folder of all embedded data. Only one process may use it at a time.
        pub(crate) data: PathBuf = PathBuf::from("./folio-data"),
        /// Free space of the disk of the data folder that new content must leave. 0: none.
        pub(crate) reserve_bytes: u64 = 256 * 1024 * 1024,
        /// The storage of document bytes: `s3://BUCKET[/PREFIX]`, or a folder. Empty: in the data folder.
        pub(crate) blobs: String = String::new(),
        pub(crate) s3: BucketOptions = BucketOptions::default(),
        /// The fast store that the processes of a cluster share.
        pub(crate) redis: RedisOptions = RedisOptions::default(),
        /// The durable store of a cluster.
        pub(crate) cql: CqlOptions = CqlOptions::default(),
    }
}

/// The connection to a bucket. The environment provides the keys, as for every S3 client (`AWS_ACCESS_KEY_ID`,
/// `AWS_SECRET_ACCESS_KEY`, web identity and the like), and the empty fields.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct BucketOptions {
    /// The server, unless it is Amazon's: `http://HOST:PORT` or `https://…`.
    pub(crate) endpoint: String,
    pub(crate) region: String,
}

folio_types::settings! {
    pub(crate) struct RedisOptions {
        /// `redis://[USER:PASSWORD@]HOST[:PORT][/DB]`, or `rediss://` for TLS. The servers of a Redis Cluster are
        /// separated by commas. Empty: none.
        pub(crate) url: Secret = Secret::default(),
        /// The prefix of every key, which separates clusters that share a server.
        pub(crate) prefix: String = "folio".to_owned(),
        /// The trusted authorities of a `rediss://` connection.
        pub(crate) tls: TlsOptions = TlsOptions::default(),
    }
}

folio_types::settings! {
    pub(crate) struct CqlOptions {
        /// Servers, `HOST` or `HOST:PORT`. The remaining servers are discovered. Empty: embedded stores.
        pub(crate) contact_points: Vec<String> = Vec::new(),
        /// The keyspace, which is created if it is missing.
        pub(crate) keyspace: String = "folio".to_owned(),
        /// Replicas of each row in the data center, applied only when the keyspace is created.
        pub(crate) replication_factor: u8 = 3,
        /// The data center of this process. Empty: the data center of the first server that responds.
        pub(crate) datacenter: String = String::new(),
        /// If true, a keyspace with replicas in several data centers is refused.
        pub(crate) single_datacenter: bool = false,
        /// Empty: the servers require no user.
        pub(crate) user: String = String::new(),
        pub(crate) password: Secret = Secret::default(),
        /// If true, connections are encrypted. The servers' certificates must contain their IP addresses.
        pub(crate) encrypted: bool = false,
        pub(crate) tls: TlsOptions = TlsOptions::default(),
    }
}

/// PEM files of an encrypted connection to a store.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct TlsOptions {
    /// The authorities of the servers' certificates. Empty: the public authorities.
    pub(crate) ca: PathBuf,
    /// The client certificate chain, for a server that requires one. Empty: none.
    pub(crate) cert: PathBuf,
    pub(crate) key: PathBuf,
}

impl TlsOptions {
    fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    fn adapter(&self) -> Tls {
        let non_empty = |path: &PathBuf| Some(path.clone()).filter(|path| !path.as_os_str().is_empty());
        Tls { authorities: non_empty(&self.ca), client: non_empty(&self.cert).zip(non_empty(&self.key)) }
    }

    fn check(&self, path: &str, problems: &mut Problems) {
        let both = self.cert.as_os_str().is_empty() == self.key.as_os_str().is_empty();
        problems.check(both, format_args!("{path}.cert"), format_args!("requires {path}.key, and the reverse"));
    }
}

impl CqlOptions {
    pub(crate) fn adapter(&self) -> CqlAdapter {
        let credentials = Some((self.user.clone(), self.password.reveal().to_owned()));
        CqlAdapter {
            keyspace: self.keyspace.clone(),
            replication_factor: self.replication_factor,
            datacenter: Some(self.datacenter.clone()).filter(|name| !name.is_empty()),
            single_datacenter: self.single_datacenter,
            credentials: credentials.filter(|(user, _)| !user.is_empty()),
            tls: self.encrypted.then(|| self.tls.adapter()),
            ..CqlAdapter::at(self.contact_points.clone())
        }
    }
}

impl RedisOptions {
    pub(crate) fn adapter(&self) -> RedisAdapter {
        let tls = Some(self.tls.adapter()).filter(|_| !self.tls.is_empty());
        RedisAdapter { prefix: self.prefix.clone(), tls, ..RedisAdapter::at(self.url.reveal()) }
    }
}

impl StorageOptions {
    /// Returns true if the settings name a store of a cluster.
    pub(crate) fn is_shared(&self) -> bool {
        !self.cql.contact_points.is_empty() || !self.redis.url.is_empty()
    }

    pub(crate) fn check(&self) -> Result<(), InvalidSettings> {
        let mut problems = Problems::of("storage");
        let bucket = self.blobs.strip_prefix("s3://");
        let has_bucket = bucket.is_none_or(|bucket| !bucket.starts_with('/') && !bucket.is_empty());
        problems.check(has_bucket, "blobs", "has no bucket: expected s3://BUCKET[/PREFIX]");
        let cql = &self.cql;
        let empty = cql.contact_points.iter().any(|point| point.trim().is_empty());
        problems.check(!empty, "cql.contact_points", "contains an empty entry: expected HOST or HOST:PORT");
        let both = cql.user.is_empty() == cql.password.is_empty();
        problems.check(both, "cql.user", "requires cql.password, and the reverse");
        problems.number("reserve_bytes", self.reserve_bytes, 0, 1 << 50);
        problems.number("cql.replication_factor", u64::from(cql.replication_factor), 1, 10);
        let letters = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
        let name = cql.keyspace.starts_with(|c: char| c.is_ascii_lowercase()) && cql.keyspace.chars().all(letters);
        let rule = "must be up to 48 lower-case letters, digits and underscores, a letter first";
        problems.check(name && cql.keyspace.len() <= 48, "cql.keyspace", rule);
        let prefix = &self.redis.prefix;
        let rule = "must be up to 64 letters, digits, `-`, `_` and `:`";
        let is_valid = prefix.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | ':'));
        problems.check(is_valid && !prefix.is_empty() && prefix.len() <= 64, "redis.prefix", rule);
        cql.tls.check("cql.tls", &mut problems);
        problems.check(cql.encrypted || cql.tls.is_empty(), "cql.tls", "requires cql.encrypted");
        self.redis.tls.check("redis.tls", &mut problems);
        problems.into_result()
    }
}

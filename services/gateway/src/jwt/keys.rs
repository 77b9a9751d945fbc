//! The keys of an issuer. One task reads them from a file or a URL periodically, and additionally when a token names an
//! unknown key.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use folio_types::token::Token;
use folio_types::{Error, Reason, Result};
use jsonwebtoken::jwk::{AlgorithmParameters, EllipticCurve, Jwk, PublicKeyUse};
use jsonwebtoken::{Algorithm, AlgorithmFamily, DecodingKey, Header};
use reqwest::Url;
use serde::Deserialize;
use serde_json::Value;
use tokio::io::AsyncReadExt as _;
use tokio::sync::{Notify, watch};
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::options::{IssuerOptions, is_local};

/// Maximum size of a key set in bytes.
const SET_BYTES: usize = 256 * 1024;
/// Maximum number of keys of a set; further keys are ignored.
const KEYS_MAX: usize = 100;

pub(super) struct Key {
    id: Option<String>,
    algorithms: Vec<Algorithm>,
    pub(super) decoding: DecodingKey,
}

impl Key {
    /// Parses a key that verifies signatures. None: the key has another use or an unsupported type.
    fn of(value: Value) -> Option<Self> {
        let jwk: Jwk = serde_json::from_value(value).ok()?;
        if jwk.common.public_key_use.as_ref().is_some_and(|used| *used != PublicKeyUse::Signature) {
            return None;
        }
        // The type of a key determines its algorithms, so that no token can choose another one.
        let mut algorithms = match &jwk.algorithm {
            AlgorithmParameters::RSA(_) => AlgorithmFamily::Rsa.algorithms().to_vec(),
            AlgorithmParameters::EllipticCurve(key) => match key.curve {
                EllipticCurve::P256 => vec![Algorithm::ES256],
                EllipticCurve::P384 => vec![Algorithm::ES384],
                _ => return None,
            },
            AlgorithmParameters::OctetKeyPair(key) if key.curve == EllipticCurve::Ed25519 => vec![Algorithm::EdDSA],
            _ => return None,
        };
        if let Some(named) = jwk.common.key_algorithm {
            let named: Algorithm = named.to_string().parse().ok()?;
            algorithms.retain(|algorithm| *algorithm == named);
        }
        let decoding = DecodingKey::from_jwk(&jwk).ok().filter(|_| !algorithms.is_empty())?;
        Some(Self { id: jwk.common.key_id, algorithms, decoding })
    }
}

/// The key set of an issuer.
struct Set(Vec<Arc<Key>>);

impl Set {
    fn parse(text: &[u8]) -> Result<Self, String> {
        #[derive(Deserialize)]
        struct Keys {
            keys: Vec<Value>,
        }
        let Keys { keys } = serde_json::from_slice(text).map_err(|_| "it is not a JWK set".to_owned())?;
        let keys: Vec<_> = keys.into_iter().take(KEYS_MAX).filter_map(Key::of).map(Arc::new).collect();
        if keys.is_empty() { Err("it contains no key that verifies signatures".to_owned()) } else { Ok(Self(keys)) }
    }

    /// Returns the key that the header names; without a key id, the only key that supports the algorithm.
    fn find(&self, header: &Header) -> Option<Arc<Key>> {
        let mut fitting = self.0.iter().filter(|key| {
            key.algorithms.contains(&header.alg) && (header.kid.is_none() || key.id.is_some() && key.id == header.kid)
        });
        let first = fitting.next()?;
        (header.kid.is_some() || fitting.next().is_none()).then(|| Arc::clone(first))
    }
}

#[derive(Clone, Default)]
struct CachedKeys {
    /// The keys and the time at which they were read.
    set: Option<(Arc<Set>, Instant)>,
    /// Time of the last attempt to read the keys.
    attempted_at: Option<Instant>,
}

pub(super) struct Keys {
    cached: watch::Receiver<CachedKeys>,
    refetch_requested: Arc<Notify>,
    refetch: Duration,
    age_max: Duration,
    read_timeout: Duration,
}

impl Keys {
    /// Starts a task in `tasks` that reads the keys and never returns.
    ///
    /// # Errors
    /// The file is unusable, or no HTTP client can be built for the URL.
    pub(super) async fn start(name: &str, options: &IssuerOptions, tasks: &mut JoinSet<()>) -> Result<Self> {
        let source = Source::of(options).await?;
        if let Source::File(_) = source {
            let bad = |why| {
                let message = format!("gateway.jwt.{name}.jwks_file is unusable: {why}");
                Error::invalid(Reason::InvalidField, message)
            };
            source.read().await.map_err(bad)?;
        }
        let (sender, cached) = watch::channel(CachedKeys::default());
        let refetch_requested = Arc::new(Notify::new());
        let (refresh, refetch) = (options.refresh, options.refetch);
        let requested = Arc::clone(&refetch_requested);
        tasks.spawn(read_periodically(name.to_owned(), source, sender, requested, (refresh, refetch)));
        // The time-out of the task, plus time to publish the result.
        let read_timeout = options.fetch_timeout + Duration::from_secs(1);
        Ok(Self { cached, refetch_requested, refetch, age_max: options.stale, read_timeout })
    }

    /// Returns the key of a token. An unknown key triggers a read of the keys, unless the last read was less than
    /// `refetch` ago.
    ///
    /// # Errors
    /// `INVALID_TOKEN`: the issuer has no such key. `UNAVAILABLE`: the last successful read is older than `age_max`.
    pub(super) async fn find(&self, header: &Header) -> Result<Arc<Key>> {
        let mut cached = self.cached.clone();
        let CachedKeys { set, attempted_at } = cached.borrow_and_update().clone();
        if let Some(key) = self.usable(set).and_then(|set| set.find(header)) {
            return Ok(key);
        }
        let again = attempted_at.is_some_and(|at| at.elapsed() >= self.refetch);
        if again {
            self.refetch_requested.notify_one();
        }
        // The first attempt starts immediately.
        if again || attempted_at.is_none() {
            // The result is checked below.
            let _ = tokio::time::timeout(self.read_timeout, cached.changed()).await;
        }
        let set = cached.borrow().set.clone();
        match self.usable(set) {
            Some(set) => set.find(header).ok_or_else(Token::refused),
            None => {
                let message = "the keys of the token's issuer cannot be read";
                Err(Error::unavailable(Reason::IssuerUnavailable, message).retry_after(self.refetch))
            }
        }
    }

    fn usable(&self, set: Option<(Arc<Set>, Instant)>) -> Option<Arc<Set>> {
        set.filter(|(_, read)| read.elapsed() <= self.age_max).map(|(set, _)| set)
    }
}

/// Reads the keys every `refresh`, and after `refetch` if a token names an unknown key or the last read failed. Never
/// returns.
async fn read_periodically(
    name: String,
    source: Source,
    sender: watch::Sender<CachedKeys>,
    refetch_requested: Arc<Notify>,
    (refresh, refetch): (Duration, Duration),
) {
    loop {
        let read = source.read().await;
        let failed = read.is_err();
        if let Err(why) = &read {
            tracing::warn!(issuer = name, why, "cannot read the keys of a JWT issuer; the cached keys stay in use");
        }
        let now = Instant::now();
        sender.send_modify(|cached| {
            cached.attempted_at = Some(now);
            if let Ok(set) = read {
                cached.set = Some((Arc::new(set), now));
            }
        });
        let pause = if failed { refresh.min(refetch) } else { refresh };
        tokio::select! {
            () = tokio::time::sleep_until(now + pause) => {}
            () = async { tokio::time::sleep_until(now + refetch).await; refetch_requested.notified().await } => {}
        }
    }
}

enum Source {
    File(PathBuf),
    Url(reqwest::Client, Url),
}

impl Source {
    async fn of(options: &IssuerOptions) -> Result<Self> {
        if let Some(file) = &options.jwks_file {
            return Ok(Self::File(file.clone()));
        }
        let bad = |what: &str| Error::internal(format!("the keys of {} cannot be read: {what}", options.issuer));
        let url = options.url().map_err(bad)?;
        let mut client = reqwest::Client::builder()
            .user_agent(concat!("folio/", env!("CARGO_PKG_VERSION")))
            .timeout(options.fetch_timeout)
            // Redirects are not followed, so that only the configured host is called.
            .redirect(reqwest::redirect::Policy::none());
        if is_local(&url) {
            client = client.no_proxy();
        }
        if let Some(file) = &options.ca {
            let pem = tokio::fs::read(file).await.map_err(|error| bad(&format!("{}: {error}", file.display())))?;
            let authorities = reqwest::Certificate::from_pem_bundle(&pem).map_err(|error| bad(&error.to_string()))?;
            client = client.tls_certs_only(authorities);
        }
        let client = client.build().map_err(|error| bad(&error.to_string()))?;
        Ok(Self::Url(client, url))
    }

    async fn read(&self) -> Result<Set, String> {
        let text = match self {
            Self::File(file) => read_file(file).await.map_err(|error| format!("{}: {error}", file.display()))?,
            Self::Url(client, url) => fetch(client, url.clone()).await?,
        };
        if text.len() > SET_BYTES {
            return Err(format!("it has more than {SET_BYTES} bytes"));
        }
        Set::parse(&text)
    }
}

/// Reads a file, but at most one byte more than the maximum size.
async fn read_file(file: &PathBuf) -> io::Result<Vec<u8>> {
    let mut text = Vec::new();
    let bound = u64::try_from(SET_BYTES).unwrap_or(u64::MAX);
    tokio::fs::File::open(file).await?.take(bound.saturating_add(1)).read_to_end(&mut text).await?;
    Ok(text)
}

/// Reads the body of a response. Its size is bounded here, its duration by the client.
async fn fetch(client: &reqwest::Client, url: Url) -> Result<Vec<u8>, String> {
    let without_url = |error: reqwest::Error| error.without_url().to_string();
    let mut answer = client.get(url).send().await.map_err(without_url)?;
    if !answer.status().is_success() {
        return Err(format!("the answer is {}", answer.status()));
    }
    let mut text = Vec::new();
    while let Some(chunk) = answer.chunk().await.map_err(without_url)? {
        text.extend_from_slice(&chunk);
        if text.len() > SET_BYTES {
            break;
        }
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const X: &str = "f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU";
    const Y: &str = "x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0";

    fn ec(kid: &str) -> Value {
        json!({ "kty": "EC", "crv": "P-256", "x": X, "y": Y, "kid": kid })
    }

    fn header(algorithm: Algorithm, kid: Option<&str>) -> Header {
        Header { kid: kid.map(str::to_owned), ..Header::new(algorithm) }
    }

    fn set(keys: Value) -> Result<Set, String> {
        Set::parse(json!({ "keys": keys }).to_string().as_bytes())
    }

    #[test]
    fn a_key_is_for_its_own_algorithms_only() {
        let secret = json!({ "kty": "oct", "k": "c2VjcmV0", "kid": "oct" });
        let rsa = json!({ "kty": "RSA", "n": "u1SU1LfVLPHCozMxH2Mo", "e": "AQAB", "kid": "rsa", "alg": "RS256", "use": "sig" });
        let sealing = json!({ "kty": "RSA", "n": "u1SU1LfVLPHCozMxH2Mo", "e": "AQAB", "kid": "enc", "use": "enc" });
        let exchange = json!({ "kty": "OKP", "crv": "X25519", "x": X, "kid": "x" });
        let keys = set(json!([secret, rsa, sealing, exchange, ec("ec"), { "kty": "new" }, 7])).unwrap();
        let ids: Vec<_> = keys.0.iter().map(|key| key.id.as_deref().unwrap()).collect();
        assert_eq!(ids, ["rsa", "ec"]);
        let fits = |algorithm, kid| keys.find(&header(algorithm, kid)).is_some();
        assert!(fits(Algorithm::RS256, Some("rsa")) && fits(Algorithm::ES256, Some("ec")));
        for algorithm in [Algorithm::HS256, Algorithm::ES256, Algorithm::RS512, Algorithm::PS256] {
            assert!(!fits(algorithm, Some("rsa")), "{algorithm:?}");
        }
        assert!(!fits(Algorithm::HS256, Some("oct")) && !fits(Algorithm::ES384, Some("ec")));
    }

    #[test]
    fn a_token_that_names_no_key_gets_the_only_one_that_fits() {
        let one = set(json!([ec("a")])).unwrap();
        assert!(one.find(&header(Algorithm::ES256, None)).is_some());
        assert!(one.find(&header(Algorithm::ES256, Some("b"))).is_none());
        let two = set(json!([ec("a"), ec("b")])).unwrap();
        assert!(two.find(&header(Algorithm::ES256, None)).is_none(), "the key is ambiguous");
        let nameless = json!({ "kty": "EC", "crv": "P-256", "x": X, "y": Y });
        assert!(set(json!([nameless])).unwrap().find(&header(Algorithm::ES256, Some("a"))).is_none());
    }

    #[test]
    fn a_malformed_key_set_is_refused() {
        for bad in
            ["", "[]", "{}", "{\"keys\":[]}", "{\"keys\":{}}", "{\"keys\":[{\"kty\":\"oct\",\"k\":\"c2VjcmV0\"}]}"]
        {
            assert!(Set::parse(bad.as_bytes()).is_err(), "{bad}");
        }
        let many: Vec<_> = (0..200).map(|at| ec(&at.to_string())).collect();
        assert_eq!(set(json!(many)).unwrap().0.len(), KEYS_MAX);
    }
}

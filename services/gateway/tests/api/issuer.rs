//! An issuer of JWTs: its keys, the tokens that it signs, and the server that publishes its keys.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::http::header::LOCATION;
use axum::response::{IntoResponse as _, Response};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use folio_types::{Environment as _, System};
use jsonwebtoken::{Algorithm, EncodingKey, Header};
use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::server::TlsStream;
use tokio_util::task::AbortOnDropHandle;

pub(crate) struct Signer {
    pub(crate) kid: String,
    pub(crate) algorithm: Algorithm,
    key: EncodingKey,
    public: Value,
}

impl Signer {
    pub(crate) fn ec(kid: &str) -> Self {
        let pair = rcgen::KeyPair::generate_for(&rcgen::PKCS_ECDSA_P256_SHA256).unwrap();
        let point = pair.public_key_raw();
        let (x, y) = (base64(&point[1..33]), base64(&point[33..]));
        let public = json!({ "kty": "EC", "crv": "P-256", "x": x, "y": y, "kid": kid, "use": "sig" });
        let key = EncodingKey::from_ec_pem(pair.serialize_pem().as_bytes()).unwrap();
        Self { kid: kid.to_owned(), algorithm: Algorithm::ES256, key, public }
    }

    pub(crate) fn ed(kid: &str) -> Self {
        let pair = rcgen::KeyPair::generate_for(&rcgen::PKCS_ED25519).unwrap();
        let public = json!({ "kty": "OKP", "crv": "Ed25519", "x": base64(pair.public_key_raw()), "kid": kid });
        let key = EncodingKey::from_ed_pem(pair.serialize_pem().as_bytes()).unwrap();
        Self { kid: kid.to_owned(), algorithm: Algorithm::EdDSA, key, public }
    }

    /// Generates an RSA key for this algorithm.
    pub(crate) fn rsa(kid: &str, algorithm: Algorithm) -> Self {
        let pair = rcgen::KeyPair::generate_for(&rcgen::PKCS_RSA_SHA256).unwrap();
        let key = EncodingKey::from_rsa_pem(pair.serialize_pem().as_bytes()).unwrap();
        let public = jsonwebtoken::jwk::Jwk::from_encoding_key(&key, algorithm).unwrap();
        let mut public = serde_json::to_value(public).unwrap();
        public["kid"] = kid.into();
        Self { kid: kid.to_owned(), algorithm, key, public }
    }

    pub(crate) fn header(&self) -> Header {
        Header { kid: Some(self.kid.clone()), ..Header::new(self.algorithm) }
    }

    /// Signs a token with these claims.
    pub(crate) fn sign(&self, claims: &Value) -> String {
        self.sign_as(&self.header(), claims)
    }

    pub(crate) fn sign_as(&self, header: &Header, claims: &Value) -> String {
        jsonwebtoken::encode(header, claims, &self.key).unwrap()
    }

    /// Returns the text of the public key, which an attacker would use as a shared secret.
    pub(crate) fn public_text(&self) -> String {
        self.public.to_string()
    }
}

pub(crate) fn key_set(signers: &[&Signer]) -> String {
    let keys: Vec<_> = signers.iter().map(|signer| &signer.public).collect();
    json!({ "keys": keys }).to_string()
}

pub(crate) fn base64(bytes: &[u8]) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

/// Returns the current time in seconds since 1970.
pub(crate) fn now() -> i64 {
    System.now().as_second()
}

#[derive(Clone)]
pub(crate) enum Answer {
    Keys(String),
    Redirect(String),
    Fault,
    /// The server does not respond.
    Silence,
}

/// A server of key sets on loopback.
pub(crate) struct KeyServer {
    pub(crate) url: String,
    state: Arc<Mutex<(Answer, usize)>>,
    _task: AbortOnDropHandle<()>,
}

impl KeyServer {
    /// Starts the server in plain text.
    pub(crate) async fn start(signers: &[&Signer]) -> Self {
        Self::listen(signers, None, "http://127.0.0.1").await
    }

    /// Starts the server with TLS; also returns its self-signed certificate.
    pub(crate) async fn with_tls(signers: &[&Signer]) -> (Self, String) {
        let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
        let chain = vec![CertificateDer::from_pem_slice(made.cert.pem().as_bytes()).unwrap()];
        let key = PrivateKeyDer::from_pem_slice(made.signing_key.serialize_pem().as_bytes()).unwrap();
        let config = ServerConfig::builder().with_no_client_auth().with_single_cert(chain, key).unwrap();
        let acceptor = TlsAcceptor::from(Arc::new(config));
        (Self::listen(signers, Some(acceptor), "https://localhost").await, made.cert.pem())
    }

    async fn listen(signers: &[&Signer], acceptor: Option<TlsAcceptor>, origin: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address: SocketAddr = listener.local_addr().unwrap();
        let state = Arc::new(Mutex::new((Answer::Keys(key_set(signers)), 0)));
        let app = Router::new().fallback(reply).with_state(Arc::clone(&state));
        let task = tokio::spawn(async move {
            match acceptor {
                None => axum::serve(listener, app).await,
                Some(acceptor) => axum::serve(TlsListener(listener, acceptor), app).await,
            }
            .unwrap();
        });
        Self { url: format!("{origin}:{}/keys", address.port()), state, _task: AbortOnDropHandle::new(task) }
    }

    pub(crate) fn answer(&self, answer: Answer) {
        self.state.lock().unwrap().0 = answer;
    }

    /// Publishes these keys from now on.
    pub(crate) fn rotate(&self, signers: &[&Signer]) {
        self.answer(Answer::Keys(key_set(signers)));
    }

    pub(crate) fn requests(&self) -> usize {
        self.state.lock().unwrap().1
    }
}

async fn reply(State(state): State<Arc<Mutex<(Answer, usize)>>>) -> Response {
    let answer = {
        let mut state = state.lock().unwrap();
        state.1 += 1;
        state.0.clone()
    };
    match answer {
        Answer::Keys(keys) => keys.into_response(),
        Answer::Redirect(url) => (StatusCode::FOUND, [(LOCATION, url)]).into_response(),
        Answer::Fault => StatusCode::SERVICE_UNAVAILABLE.into_response(),
        Answer::Silence => std::future::pending().await,
    }
}

/// A listener that accepts TLS connections one after another.
struct TlsListener(TcpListener, TlsAcceptor);

impl axum::serve::Listener for TlsListener {
    type Io = TlsStream<TcpStream>;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Self::Io, SocketAddr) {
        loop {
            let (stream, address) = self.0.accept().await.unwrap();
            if let Ok(stream) = self.1.accept(stream).await {
                return (stream, address);
            }
        }
    }

    fn local_addr(&self) -> std::io::Result<SocketAddr> {
        self.0.local_addr()
    }
}

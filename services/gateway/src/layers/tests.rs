//! Tests of the layers of the gateway.

use super::*;
use bytes::Bytes;
use http_body::{Body as _, Frame};
use std::convert::Infallible;
use std::future::poll_fn;

use crate::empty_store::EmptyStore;

fn test_layers(options: &Options, drained: CancellationToken) -> Layers {
    let counters = Counters::default();
    let authenticator = EmptyStore::default().authenticator(options).with_counters(counters.clone());
    layers(options, authenticator, drained, CallObservers::default(), counters)
}

async fn send<S>(service: &mut S, path: &str) -> Response<Body>
where
    S: Service<Request<Body>, Response = Response<Body>, Error = Infallible>,
{
    let request = Request::builder().uri(path).body(Body::empty()).unwrap();
    let answer: Result<_, Infallible> = service.call(request).await;
    answer.unwrap()
}

fn reason(response: &Response<Body>) -> Error {
    status::to_error(&Status::from_header_map(response.headers()).unwrap())
}

const HEALTH: &str = "/grpc.health.v1.Health/Check";

#[tokio::test]
async fn an_answer_carries_the_id_of_its_call() {
    let served = tower::service_fn(|_: Request<Body>| async { Ok::<_, Infallible>(Response::new(Body::empty())) });
    let mut service = test_layers(&Options::default(), CancellationToken::new()).layer(served);
    let mut answered = async |sent: Option<&str>| {
        let request = sent.into_iter().fold(Request::builder().uri(HEALTH), |request, id| request.header(CALL_ID, id));
        let answer: Result<_, Infallible> = service.call(request.body(Body::empty()).unwrap()).await;
        answer.unwrap().headers()[CALL_ID].to_str().unwrap().to_owned()
    };
    assert_eq!(answered(Some("client-1.a_b")).await, "client-1.a_b");
    for refused in [None, Some("a b"), Some(""), Some("x".repeat(65).as_str())] {
        let generated = answered(refused).await;
        assert!(generated.len() == 32 && Some(generated.as_str()) != refused, "{generated}");
    }
}

#[tokio::test]
async fn a_panic_fails_only_its_own_call() {
    let broken = tower::service_fn(|request: Request<Body>| async move {
        assert!(request.uri().path() != HEALTH, "a secret of the handler");
        Ok::<_, Infallible>(Response::new(Body::empty()))
    });
    let mut service = test_layers(&Options::default(), CancellationToken::new()).layer(broken);
    let error = reason(&send(&mut service, HEALTH).await);
    assert_eq!((error.code, error.reason), (Code::Internal, Reason::Internal));
    assert!(error.message.starts_with("internal error ") && !error.message.contains("secret"), "{error}");
    assert!(Status::from_header_map(send(&mut service, "/grpc.health.v1.Health/Watch").await.headers()).is_none());
}

#[tokio::test]
async fn a_permit_is_kept_until_the_last_byte_of_the_response() {
    struct PendingBody;
    impl http_body::Body for PendingBody {
        type Data = Bytes;
        type Error = Status;
        fn poll_frame(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
            Poll::Pending
        }
    }
    let served =
        tower::service_fn(|_: Request<Body>| async { Ok::<_, Infallible>(Response::new(Body::new(PendingBody))) });
    let options = Options { public_calls: 1, ..Options::default() };
    let layers = test_layers(&options, CancellationToken::new());
    let mut service = layers.layer(served);
    let mut first = send(&mut service, HEALTH).await;
    let second = send(&mut service, HEALTH).await;
    let frame = poll_fn(|context| Pin::new(first.body_mut()).poll_frame(context)).await.unwrap().unwrap();
    let status = Status::from_header_map(frame.trailers_ref().unwrap()).unwrap();
    assert_eq!(status::to_error(&status).reason, Reason::Overloaded);
    assert_eq!(layers.inner.counters.evictions(), 1);
    drop(second);
    send(&mut service, HEALTH).await;
    assert_eq!(layers.inner.counters.evictions(), 1);
}

#[tokio::test]
async fn a_call_without_a_token_reaches_no_service() {
    let never = tower::service_fn(|request: Request<Body>| async move {
        assert!(request.uri().path().is_empty(), "was reached");
        Ok::<_, Infallible>(Response::new(Body::empty()))
    });
    let mut service = test_layers(&Options::default(), CancellationToken::new()).layer(never);
    let with_token = folio_operations::operations().filter(|operation| operation.access != Access::Public);
    for operation in with_token {
        let path = crate::access::rpc_path(operation);
        assert_eq!(reason(&send(&mut service, &path).await).reason, Reason::InvalidToken, "{path}");
    }
}

#[test]
fn a_request_selects_at_most_one_well_formed_organization() {
    let (org, other) = (OrgId::derive(&["acme"]), OrgId::derive(&["other"]));
    let selected = |access, path: Option<&str>, values: &[&str]| {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(ORGANIZATION, value.parse().unwrap());
        }
        selected_organization(access, path, &headers).map_err(|error| error.violations[0].field.clone())
    };
    let (one, in_path) = (Ok::<_, String>(Some(org.clone())), Some(org.as_str()));
    let refused = Err::<Option<OrgId>, _>(ORGANIZATION.to_owned());
    for access in [Access::Organization, Access::Installation] {
        assert_eq!(selected(access, None, &[]), Ok(None));
        assert_eq!(selected(access, None, &[org.as_str()]), one);
        for wrong in [&["acme"][..], &[""], &["../x"], &[org.as_str(), org.as_str()], &[org.as_str(), other.as_str()]] {
            assert_eq!(selected(access, None, wrong), refused, "{wrong:?}");
        }
        assert_eq!(selected(access, in_path, &[org.as_str()]), one);
        assert_eq!(selected(access, in_path, &[other.as_str()]), refused, "two organizations");
    }
    assert_eq!(selected(Access::Account, None, &["acme"]), Ok(None), "an account has no organization");
    assert_eq!(selected(Access::Account, in_path, &[]), one);
    assert_eq!(selected(Access::Organization, Some("acme"), &[]), Ok(None), "a malformed path is refused later");
}

#[test]
fn the_organization_in_a_path_must_be_that_of_the_caller() {
    let refusal = |credential| {
        let caller = Caller { credential, ..Caller::anonymous() };
        assert!(check_organization(&caller, caller.principal.org.as_str()).is_ok());
        check_organization(&caller, "acme").unwrap_err().reason
    };
    assert_eq!(refusal(CredentialKind::Token), Reason::InvalidToken);
    for credential in [CredentialKind::Jwt, CredentialKind::AccountToken, CredentialKind::Session] {
        assert_eq!(refusal(credential), Reason::NotAMember, "{credential:?}");
    }
}

#[tokio::test]
async fn refused_sign_ins_count_as_failures_of_their_address() {
    let refusing = tower::service_fn(|_: Request<Body>| async {
        let refused = Error::new(Code::Unauthenticated, Reason::SignInFailed, "wrong");
        Ok::<_, Infallible>(refusal(refused))
    });
    let layers = test_layers(&Options::default(), CancellationToken::new());
    let mut service = layers.layer(refusing);
    let answer = send(&mut service, "/folio.v1.AccountService/SignIn").await;
    assert_eq!(reason(&answer).reason, Reason::SignInFailed, "reaches its service without a token");
    assert_eq!(layers.inner.counters.failed_authentications(), 1);
    let rest = tower::service_fn(|_: Request<Body>| async {
        let response = Response::builder().status(http::StatusCode::UNAUTHORIZED).body(Body::empty()).unwrap();
        Ok::<_, Infallible>(response)
    });
    send(&mut layers.layer(rest), "/folio.v1.AccountService/SignIn").await;
    assert_eq!(layers.inner.counters.failed_authentications(), 2);
}

#[tokio::test]
async fn after_the_drain_every_call_is_refused() {
    let hangs = tower::service_fn(|_: Request<Body>| std::future::pending::<Result<Response<Body>, Infallible>>());
    let drained = CancellationToken::new();
    let mut service = test_layers(&Options::default(), drained.clone()).layer(hangs);
    let waiting = send(&mut service, HEALTH);
    drained.cancel();
    assert_eq!(reason(&waiting.await).reason, Reason::Draining);
    assert_eq!(reason(&send(&mut service, HEALTH).await).reason, Reason::Draining);
}

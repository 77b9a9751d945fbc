//! Tokens that are not good.

use std::time::Duration;

use folio_proto::v1;
use folio_types::token::Token;
use folio_types::{Environment as _, OrgId, Role, System, UserId};
use tonic::Code;

use crate::harness::{Server, record};

#[tokio::test]
async fn every_bad_token_gets_the_same_answer() {
    let server = Server::start().await;
    let (org, user) = (OrgId::generate(&System), UserId::generate(&System));
    server.organization(&org).await;
    let good = Token::generate(&System);
    server.stores.access.create_token(record(&good, &org, &user, Role::Admin)).await.unwrap();
    let (expired, revoked) = (Token::generate(&System), Token::generate(&System));
    let mut old = record(&expired, &org, &user, Role::Admin);
    old.expires_at = Some(System.now() - Duration::from_secs(1));
    server.stores.access.create_token(old).await.unwrap();
    let mut withdrawn = record(&revoked, &org, &user, Role::Admin);
    withdrawn.revoked_at = Some(System.now() - Duration::from_secs(1));
    server.stores.access.create_token(withdrawn).await.unwrap();

    let other_secret = {
        let other = Token::generate(&System).reveal();
        let secret = other.rsplit('_').next().unwrap().to_owned();
        format!("folio_{}_{secret}", good.id())
    };
    let bad = [
        None,
        Some(String::new()),
        Some("Bearer".into()),
        Some("Bearer nonsense".into()),
        Some(format!("Basic {}", good.reveal())),
        Some(good.reveal()),
        Some(format!("Bearer {}x", good.reveal())),
        Some(format!("Bearer {}", Token::generate(&System).reveal())),
        Some(format!("Bearer {other_secret}")),
        Some(format!("Bearer {}", expired.reveal())),
        Some(format!("Bearer {}", revoked.reveal())),
        Some(format!("Bearer folio_{}_{}", "0".repeat(10_000), "0".repeat(64))),
    ];
    let mut answers = Vec::new();
    for authorization in &bad {
        let client = server.stranger(authorization.as_deref());
        let status = client.tags().list_tags(v1::ListTagsRequest::default()).await.unwrap_err();
        answers.push((status.code(), status.message().to_owned(), status.details().to_vec()));
    }
    assert_eq!(answers[0].0, Code::Unauthenticated);
    for (answer, token) in answers.iter().zip(&bad) {
        assert_eq!(*answer, answers[0], "{token:?}");
    }
    let client = server.stranger(Some(&format!("bearer {}", good.reveal())));
    assert!(client.tags().list_tags(v1::ListTagsRequest::default()).await.is_ok());
    server.stop().await;
}

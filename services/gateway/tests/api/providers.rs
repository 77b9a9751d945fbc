//! ProviderService: the required roles, and that no response contains a key.

use std::time::Duration;

use folio_proto::v1;
use folio_types::{OrgId, Reason, Role, System};

use crate::harness::{Server, refused};

const KEY: &str = "sk-tenant-very-secret-0123456789";

fn own(models: &[&str]) -> v1::UpdateProviderRequest {
    let model = |name: &&str| v1::ProviderModel {
        name: (*name).to_owned(),
        enabled: true,
        chat: true,
        prompts: true,
        input_price_microdollars: Some(5),
        ..Default::default()
    };
    v1::UpdateProviderRequest {
        provider: Some(v1::Provider {
            name: "mine".into(),
            base_url: "https://models.example/v1".into(),
            models: models.iter().map(model).collect(),
            api_key: KEY.into(),
            ..Default::default()
        }),
        ..Default::default()
    }
}

#[tokio::test]
async fn an_unresponsive_endpoint_blocks_no_change() {
    let server = Server::start().await;
    let org = OrgId::generate(&System);
    let (platform, them) =
        (server.platform_admin(&org).await, server.user(&OrgId::generate(&System), Role::Admin).await);
    // The endpoint accepts connections and never answers.
    let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/v1", silent.local_addr().unwrap());
    let owner = v1::ProviderOwner::Platform.into();
    let mut set = v1::UpdateProviderRequest { owner, ..own(&["silent"]) };
    set.provider.as_mut().unwrap().base_url = url;
    platform.providers().update_provider(set).await.unwrap();
    let mut calls = tokio::task::JoinSet::new();
    for _ in 0..20 {
        let client = platform.clone();
        calls.spawn(async move {
            let discover = v1::DiscoverModelsRequest { name: "mine".into(), owner, ..Default::default() };
            client.providers().discover_models(discover).await.map(drop)
        });
    }
    for _ in 0..18 {
        let answer = tokio::time::timeout(Duration::from_secs(10), calls.join_next()).await;
        let answer =
            answer.expect("two calls wait for the endpoint, the others are refused immediately").unwrap().unwrap();
        assert_eq!(refused(answer, "above the limit of an organization").reason, Reason::Overloaded);
    }
    for client in [&platform, &them] {
        let create = v1::CreateTokenRequest {
            token: Some(v1::Token { name: "x".into(), role: v1::Role::Viewer.into(), ..Default::default() }),
            ..Default::default()
        };
        let made = client.tokens().create_token(create).await.unwrap().into_inner().token.unwrap();
        client
            .tokens()
            .revoke_token(v1::RevokeTokenRequest { token_id: made.token_id, ..Default::default() })
            .await
            .unwrap();
    }
    assert_eq!(calls.len(), 2, "the two calls still wait");
    drop(silent);
    server.stop().await;
}

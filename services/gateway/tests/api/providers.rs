//! ProviderService: the required roles, and that no response contains a key.

use std::time::Duration;

use folio_proto::v1;
use folio_types::{Code, OrgId, Reason, Role, System};
use prost::Message as _;

use crate::harness::{MODEL, Server, mask, refused};

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

fn list(owner: v1::ProviderOwner) -> v1::ListProvidersRequest {
    v1::ListProvidersRequest { owner: owner.into(), ..Default::default() }
}

#[tokio::test]
async fn invariant_6_providers_are_private_to_their_organization_and_keys_are_never_returned() {
    let server = Server::start().await;
    let us = server.user(&OrgId::generate(&System), Role::Admin).await;
    let them = server.user(&OrgId::generate(&System), Role::Admin).await;
    let made = us.providers().update_provider(own(&["a"])).await.unwrap().into_inner();
    assert!(made.provider.as_ref().unwrap().has_api_key && made.etag == "v1");
    them.providers().update_provider(own(&["b"])).await.unwrap();
    let listed = us.providers().list_providers(list(v1::ProviderOwner::Unspecified)).await.unwrap().into_inner();
    assert_eq!(listed.platform_providers, ["openai"]);
    let [provider] = listed.providers.as_slice() else { panic!("{listed:?}") };
    assert_eq!((provider.models.len(), provider.models[0].name.as_str()), (1, "a"));
    let answers = [made.encode_to_vec(), listed.encode_to_vec()].concat();
    assert!(!String::from_utf8_lossy(&answers).contains("very-secret"));

    let fallbacks = Some(v1::ModelNames { models: vec!["a".into(), "hub-model".into()] });
    let defaults = v1::SetModelDefaultsRequest { default_model: Some("a".into()), fallbacks, ..Default::default() };
    us.providers().set_model_defaults(defaults.clone()).await.unwrap();
    let error = refused(them.providers().set_model_defaults(defaults).await, "a model of others");
    assert_eq!(error.reason, Reason::ModelNotAvailable);
    assert!(!error.message.contains("\"b\"") && error.details["allowed"] == "hub-model, b", "{error}");

    let delete = v1::DeleteProviderRequest { name: "mine".into(), ..Default::default() };
    us.providers().delete_provider(delete.clone()).await.unwrap();
    let missing = refused(us.providers().delete_provider(delete).await, "twice");
    assert_eq!(missing.code, Code::NotFound);
    let other_list = them.providers().list_providers(list(v1::ProviderOwner::Organization)).await.unwrap().into_inner();
    assert_eq!(other_list.providers[0].models[0].name, "b");
    let discover = v1::DiscoverModelsRequest { name: "mine".into(), ..Default::default() };
    assert_eq!(refused(us.providers().discover_models(discover).await, "the provider is deleted").code, Code::NotFound);
    server.stop().await;
}

#[tokio::test]
async fn platform_providers_are_set_by_its_administrator_and_apply_to_all() {
    let server = Server::start().await;
    let org = OrgId::generate(&System);
    let (admin, platform) = (server.user(&org, Role::Admin).await, server.platform_admin(&org).await);
    let owner = v1::ProviderOwner::Platform.into();
    let change = v1::UpdateProviderRequest { owner, ..own(&["for-all"]) };
    let error = refused(admin.providers().update_provider(change.clone()).await, "an organization's admin");
    assert_eq!((error.code, error.reason), (Code::PermissionDenied, Reason::RoleNotAllowed));
    refused(admin.providers().list_providers(list(v1::ProviderOwner::Platform)).await, "an organization's admin");
    platform.providers().update_provider(change).await.unwrap();
    let seen = admin.providers().list_providers(list(v1::ProviderOwner::Organization)).await.unwrap().into_inner();
    assert_eq!((seen.platform_providers.len(), seen.providers.len()), (2, 0));
    // Theirs may be narrowed, and says nothing of where it is.
    let off = v1::UpdateProviderRequest {
        provider: Some(v1::Provider { name: "mine".into(), ..Default::default() }),
        update_mask: Some(mask(&["enabled"])),
        ..Default::default()
    };
    let narrowed = admin.providers().update_provider(off).await.unwrap().into_inner().provider.unwrap();
    assert_eq!((narrowed.base_url.as_str(), narrowed.has_api_key, narrowed.enabled), ("", false, false));
    server.stop().await;
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

#[tokio::test]
async fn the_call_of_a_provider_test_is_metered() {
    let server = Server::start().await;
    let admin = server.user(&OrgId::generate(&System), Role::Admin).await;
    server.model.answer("ready");
    let request = v1::TestProviderRequest { name: "test".into(), model: MODEL.into(), ..Default::default() };
    let answer = admin.providers().test_provider(request).await.unwrap().into_inner();
    assert!(answer.answered && answer.model == MODEL, "{answer:?}");
    let recorded = server.stores.usage.list(&admin.org, folio_types::Timestamp::MIN, 10).await.unwrap();
    let calls: Vec<_> = recorded.iter().map(|record| (record.operation.as_str(), record.model.as_str())).collect();
    assert_eq!(calls, [("test", MODEL)]);
    // The model has no scripted answer: the call fails, and the response contains the problem.
    let request = v1::TestProviderRequest { name: "test".into(), ..Default::default() };
    let answer = admin.providers().test_provider(request).await.unwrap().into_inner();
    assert!(!answer.answered && !answer.problem.is_empty(), "{answer:?}");
    let request = v1::TestProviderRequest { name: "missing".into(), ..Default::default() };
    let error = refused(admin.providers().test_provider(request).await, "a missing provider");
    assert_eq!(error.reason, Reason::ModelNotAvailable);
    server.stop().await;
}

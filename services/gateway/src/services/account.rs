//! Serves `AccountService`.

use std::net::IpAddr;

use folio_accounts::Password;
use folio_operations::Call;
use folio_operations::account_sessions::{AccountSession, EndAccountSession, ListAccountSessions};
use folio_operations::account_tokens::{CreateAccountToken, ListAccountTokens, RevokeAccountToken};
use folio_operations::accounts::{
    AccountOrganization, DeleteAccount, GetAccount, ListAccountOrganizations, UpdateAccount,
};
use folio_operations::sign_in::{ChangePassword, SignIn, SignInProof, SignOut, SignedIn};
use folio_operations::tokens::CreatedToken;
use folio_proto::{fields, time, v1};
use folio_resources::User;
use folio_types::Result;
use tonic::Request;
use v1::account_service_server::AccountService;

use super::handler::{change, list, read};
use super::token::{listed, scope};
use super::{Api, RpcResult};
use crate::client_address::ClientNetwork;

#[tonic::async_trait]
impl AccountService for Api {
    async fn sign_in(&self, request: Request<v1::SignInRequest>) -> RpcResult<v1::SignInResponse> {
        let network = request.extensions().get::<ClientNetwork>().and_then(|client| client.0);
        self.call(request, |request| sign_in(request, network).map(Call::new), signed_in).await
    }

    change!(sign_out, SignOutRequest, SignOutResponse, |request| SignOut {}, |()| v1::SignOutResponse {});

    read!(get_account, GetAccountRequest, GetAccountResponse, |_request| GetAccount {}, |found: User| {
        v1::GetAccountResponse { user: Some((&found).into()) }
    });

    change!(update_account, UpdateAccountRequest, UpdateAccountResponse { user }, |request| UpdateAccount {
        name: Some(request.name).filter(|name| !name.is_empty()),
    });

    change!(
        change_password,
        ChangePasswordRequest,
        ChangePasswordResponse,
        |request| ChangePassword {
            current_password: Password::parse("current_password", &request.current_password)?,
            new_password: Password::parse("new_password", &request.new_password)?,
        },
        |()| v1::ChangePasswordResponse {}
    );

    change!(
        delete_account,
        DeleteAccountRequest,
        DeleteAccountResponse,
        |request| DeleteAccount { email: request.email },
        |()| v1::DeleteAccountResponse {}
    );

    list!(
        list_account_organizations,
        ListAccountOrganizationsRequest,
        ListAccountOrganizations {},
        ListAccountOrganizationsResponse { organizations: organization }
    );

    change!(
        create_account_token,
        CreateAccountTokenRequest,
        CreateAccountTokenResponse,
        |request| {
            let token = fields::required("token", request.token)?;
            let role = fields::choice::<v1::Role>("token.role", token.role)?.specified();
            CreateAccountToken {
                name: token.name,
                role: fields::required("token.role", role)?,
                scopes: token.scopes.iter().map(|number| scope(*number)).collect::<Result<_>>()?,
                ttl_seconds: request.ttl_seconds,
                platform: token.platform,
            }
        },
        |created: CreatedToken| v1::CreateAccountTokenResponse {
            token: Some((&created.record).into()),
            secret: created.secret.unwrap_or_default().reveal().to_owned(),
        }
    );

    list!(
        list_account_tokens,
        ListAccountTokensRequest,
        ListAccountTokens {},
        ListAccountTokensResponse { tokens: listed }
    );

    change!(
        revoke_account_token,
        RevokeAccountTokenRequest,
        RevokeAccountTokenResponse,
        |request| RevokeAccountToken { token_id: fields::id("token_id", &request.token_id)? },
        |()| v1::RevokeAccountTokenResponse {}
    );

    list!(
        list_account_sessions,
        ListAccountSessionsRequest,
        ListAccountSessions {},
        ListAccountSessionsResponse { sessions: session }
    );

    change!(
        end_account_session,
        EndAccountSessionRequest,
        EndAccountSessionResponse,
        |request| EndAccountSession { session_id: fields::id("session_id", &request.session_id)? },
        |()| v1::EndAccountSessionResponse {}
    );
}

fn sign_in(request: v1::SignInRequest, network: Option<IpAddr>) -> Result<SignIn> {
    let client = fields::text_of(network.as_ref());
    let proof = SignInProof::Password(Password::parse("password", &request.password)?);
    Ok(SignIn { email: request.email, proof, client })
}

fn signed_in(SignedIn { user, token, expires_at }: SignedIn) -> v1::SignInResponse {
    v1::SignInResponse {
        session_token: token.reveal().to_owned(),
        expire_time: Some(time::to_proto(expires_at)),
        user: Some((&user).into()),
    }
}

fn session(found: &AccountSession) -> v1::AccountSession {
    v1::AccountSession {
        session_id: found.id.to_string(),
        create_time: Some(time::to_proto(found.created_at)),
        expire_time: Some(time::to_proto(found.expires_at)),
        current: found.is_current,
    }
}

fn organization(found: &AccountOrganization) -> v1::AccountOrganization {
    let role = v1::Role::from(found.role).into();
    v1::AccountOrganization { organization: Some((&found.organization).into()), role }
}

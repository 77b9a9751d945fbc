//! Serves `UserService`.

use folio_accounts::Password;
use folio_operations::users::{CreateUser, DeleteUser, GetUser, ListUsers, ResetPassword, UpdateUser};
use folio_proto::{fields, v1};
use folio_resources::User;
use v1::user_service_server::UserService;

use super::Api;
use super::handler::{change, list, read};

#[tonic::async_trait]
impl UserService for Api {
    change!(create_user, CreateUserRequest, CreateUserResponse { user }, |request| {
        let user = fields::required("user", request.user)?;
        let password = Password::parse("password", &request.password)?;
        CreateUser { email: user.email, name: user.name, password, platform: user.platform }
    });

    read!(
        get_user,
        GetUserRequest,
        GetUserResponse,
        |request| GetUser { user_id: fields::id("user_id", &request.user_id)? },
        |found: User| v1::GetUserResponse { user: Some((&found).into()) }
    );

    list!(list_users, ListUsersRequest, ListUsers {}, ListUsersResponse { users });

    change!(update_user, UpdateUserRequest, UpdateUserResponse { user }, |request| {
        let user = fields::required("user", request.user)?;
        let user_id = fields::id("user.user_id", &user.user_id)?;
        let set = [("email", !user.email.is_empty()), ("name", !user.name.is_empty()), ("platform", user.platform)];
        let mask = fields::mask(request.update_mask.as_ref(), &set)?;
        UpdateUser {
            user_id,
            email: mask.take("email", user.email),
            name: mask.take("name", user.name),
            platform: mask.take("platform", user.platform),
            etag: fields::etag("user.etag", &user.etag)?,
        }
    });

    change!(
        reset_password,
        ResetPasswordRequest,
        ResetPasswordResponse,
        |request| ResetPassword {
            user_id: fields::id("user_id", &request.user_id)?,
            password: Password::parse("password", &request.password)?,
            revoke_account_tokens: request.revoke_account_tokens,
        },
        |()| v1::ResetPasswordResponse {}
    );

    change!(
        delete_user,
        DeleteUserRequest,
        DeleteUserResponse,
        |request| DeleteUser { user_id: fields::id("user_id", &request.user_id)?, email: request.email },
        |()| v1::DeleteUserResponse {}
    );
}

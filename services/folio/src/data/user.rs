//! `folio users`.

use anyhow::{Result, bail};
use folio_proto::v1;
use folio_types::UserId;
use serde_json::{Value, json};

use super::organization::Switch;
use super::output::View;
use super::{DataArguments, ListArguments, deleted, list_items, present, set_fields, time, update_mask};
use crate::client::{Client, answer};
use crate::{names, secret_input};

#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    /// List users, newest first. Requires the platform's administrator, like all other commands on users.
    List(ListArguments),
    /// Print a user.
    Show(Item),
    /// Create a user. Reads the password from the terminal or standard input.
    Create(Create),
    /// Change the e-mail address, the name or the platform right of a user.
    Update(Update),
    /// Replace a lost password, and end the sessions of the user. Reads the password from the terminal or standard input.
    ResetPassword(ResetPassword),
    /// Delete a user, and remove it from all organizations.
    #[command(visible_alias = "delete")]
    Rm(Item),
    /// Change your own password, and end your sessions. Reads the current and the new password, one per line.
    ChangePassword(ChangePassword),
}

/// A user of a command.
#[derive(Debug, clap::Args)]
pub(crate) struct Item {
    /// The id or the e-mail address.
    #[arg(value_name = "ID or EMAIL")]
    user: String,
    #[command(flatten)]
    data: DataArguments,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Create {
    /// The e-mail address with which the user signs in.
    email: String,
    /// The display name [default: the e-mail address].
    #[arg(long)]
    name: Option<String>,
    /// Let the user administer the platform.
    #[arg(long)]
    platform: bool,
    #[command(flatten)]
    data: DataArguments,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Update {
    /// The id or the e-mail address.
    #[arg(value_name = "ID or EMAIL")]
    user: String,
    /// The new e-mail address.
    #[arg(long, value_name = "ADDRESS")]
    email: Option<String>,
    /// The new display name.
    #[arg(long)]
    name: Option<String>,
    /// Grant or withdraw the administration of the platform.
    #[arg(long, value_enum, value_name = "STATE")]
    platform: Option<Switch>,
    #[command(flatten)]
    data: DataArguments,
}

#[derive(Debug, clap::Args)]
pub(crate) struct ResetPassword {
    /// The id or the e-mail address.
    #[arg(value_name = "ID or EMAIL")]
    user: String,
    /// Revoke the account tokens of the user, too.
    #[arg(long)]
    revoke_tokens: bool,
    #[command(flatten)]
    data: DataArguments,
}

#[derive(Debug, clap::Args)]
pub(crate) struct ChangePassword {
    #[command(flatten)]
    data: DataArguments,
}

pub(crate) async fn run(command: Command) -> Result<()> {
    match command {
        Command::List(list) => list.data.run(async |client| users(&client, &list).await).await,
        Command::Show(item) => {
            item.data.run(async |client| Ok(View::one(row(&find(&client, &item.user).await?)))).await
        }
        Command::Create(create) => create.data.run(async |client| make(&client, &create).await).await,
        Command::Update(update) => update.data.run(async |client| change(&client, &update).await).await,
        Command::ResetPassword(reset) => reset.data.run(async |client| reset_password(&client, &reset).await).await,
        Command::Rm(item) => item.data.run(async |client| remove(&client, &item.user).await).await,
        Command::ChangePassword(change) => change.data.run(async |client| change_password(&client).await).await,
    }
}

async fn users(client: &Client, list: &ListArguments) -> Result<View> {
    let found = list_items! {
        list.limit, client.users().list_users(ListUsersRequest { filter: list.filter() }) => users
    };
    Ok(View::list(["user_id", "email", "name", "platform"], found.await?.iter().map(row).collect()))
}

/// Returns the user with an id or an e-mail address, which is compared without regard to case.
pub(super) async fn find(client: &Client, what: &str) -> Result<v1::User> {
    if what.parse::<UserId>().is_ok() {
        let request = v1::GetUserRequest { user_id: what.to_owned() };
        return present(answer(client.users().get_user(request)).await?.user);
    }
    let request =
        v1::ListUsersRequest { page_size: names::CANDIDATES, filter: names::filter(what), ..Default::default() };
    let found = answer(client.users().list_users(request)).await?.users;
    match found.into_iter().find(|user| user.email.to_lowercase() == what.to_lowercase()) {
        Some(user) => Ok(user),
        None => bail!("no user has the e-mail address {what:?}: list the users with folio users list"),
    }
}

async fn make(client: &Client, create: &Create) -> Result<View> {
    let user = v1::User {
        email: create.email.clone(),
        name: create.name.clone().unwrap_or_else(|| create.email.clone()),
        platform: create.platform,
        ..v1::User::default()
    };
    let password = secret_input::read_line("password: ").await?;
    let request = v1::CreateUserRequest { user: Some(user), password, ..Default::default() };
    Ok(View::one(row(&present(answer(client.users().create_user(request)).await?.user)?)))
}

async fn change(client: &Client, update: &Update) -> Result<View> {
    let (user, fields) = changes(update);
    if fields.is_empty() {
        bail!("nothing to change: pass --email, --name or --platform");
    }
    let user = Some(v1::User { user_id: find(client, &update.user).await?.user_id, ..user });
    let request = v1::UpdateUserRequest { user, update_mask: update_mask(&fields), ..Default::default() };
    Ok(View::one(row(&present(answer(client.users().update_user(request)).await?.user)?)))
}

/// Returns the new values, and the names of the changed fields.
fn changes(update: &Update) -> (v1::User, Vec<&'static str>) {
    let user = v1::User {
        email: update.email.clone().unwrap_or_default(),
        name: update.name.clone().unwrap_or_default(),
        platform: update.platform == Some(Switch::On),
        ..v1::User::default()
    };
    let fields =
        [("email", update.email.is_some()), ("name", update.name.is_some()), ("platform", update.platform.is_some())];
    (user, set_fields(&fields))
}

async fn reset_password(client: &Client, reset: &ResetPassword) -> Result<View> {
    let user = find(client, &reset.user).await?;
    let password = secret_input::read_line("new password: ").await?;
    let (user_id, revoke_account_tokens) = (user.user_id.clone(), reset.revoke_tokens);
    let request = v1::ResetPasswordRequest { user_id, password, revoke_account_tokens, ..Default::default() };
    answer(client.users().reset_password(request)).await?;
    Ok(View::one(row(&user)))
}

async fn remove(client: &Client, what: &str) -> Result<View> {
    let v1::User { user_id, email, .. } = find(client, what).await?;
    let request = v1::DeleteUserRequest { user_id: user_id.clone(), email, ..Default::default() };
    answer(client.users().delete_user(request)).await?;
    Ok(deleted(&user_id))
}

async fn change_password(client: &Client) -> Result<View> {
    let current_password = secret_input::read_line("current password: ").await?;
    let new_password = secret_input::read_line("new password: ").await?;
    let request = v1::ChangePasswordRequest { current_password, new_password, ..Default::default() };
    answer(client.accounts().change_password(request)).await?;
    Ok(View::one(json!({ "sessions": "ended: use folio login --email" })))
}

fn row(user: &v1::User) -> Value {
    json!({
        "user_id": user.user_id, "email": user.email, "name": user.name,
        "platform": if user.platform { "on" } else { "off" }, "create_time": time(user.create_time.as_ref()),
        "update_time": time(user.update_time.as_ref()), "etag": user.etag,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arguments::parse_arguments;

    #[test]
    fn an_update_names_the_given_fields_only() {
        let changed = |flags: &[&str]| {
            let (user, paths) = changes(&parse_arguments(&[&["ann@example.com"][..], flags].concat()).unwrap());
            (user.email, user.name, user.platform, paths.join(","))
        };
        let none = String::new;
        assert_eq!(changed(&[]), (none(), none(), false, none()));
        assert_eq!(changed(&["--platform", "off"]), (none(), none(), false, "platform".into()));
        let all = changed(&["--email", "b@c", "--name", "Bo", "--platform", "on"]);
        assert_eq!(all, ("b@c".into(), "Bo".into(), true, "email,name,platform".into()));
    }
}

//! `folio member`.

use anyhow::{Result, ensure};
use folio_proto::v1;
use folio_types::UserId;
use serde_json::{Value, json};

use super::job::word;
use super::output::View;
use super::{
    DataArguments, ItemArguments, ListArguments, deleted, list_items, present, set_fields, time, update_mask, user,
};
use crate::client::{Client, answer};
use crate::names::{self, Choice, chosen};
use crate::token::Role;

#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    /// List the members of the organization, newest first.
    List(ListArguments),
    /// Add a member: a user that signs in, or a new one for which an admin creates tokens. Requires the role admin.
    Add(Add),
    /// Change the name or the role of a member. Requires the role admin.
    Update(Update),
    /// Remove a member, and revoke its tokens. Requires the role admin.
    #[command(visible_alias = "delete")]
    Rm(ItemArguments),
}

#[derive(Debug, clap::Args)]
pub(crate) struct Add {
    /// The display name.
    name: String,
    /// The user, by id; the platform's administrator may pass the e-mail address [default: a new one].
    #[arg(long, value_name = "ID or EMAIL")]
    user: Option<String>,
    /// The maximum role of the member's tokens and sessions.
    #[arg(long, value_enum, default_value = "member")]
    role: Role,
    #[command(flatten)]
    data: DataArguments,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Update {
    /// The member, by id or name.
    #[arg(value_name = "ID or NAME")]
    item: String,
    /// The new display name.
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// The new role. A lower role takes effect within seconds.
    #[arg(long, value_enum)]
    role: Option<Role>,
    #[command(flatten)]
    data: DataArguments,
}

pub(crate) async fn run(command: Command) -> Result<()> {
    match command {
        Command::List(list) => list.data.run(async |client| members(&client, &list).await).await,
        Command::Add(add) => add.data.run(async |client| make(&client, &add).await).await,
        Command::Update(update) => update.data.run(async |client| change(&client, &update).await).await,
        Command::Rm(rm) => rm.data.run(async |client| remove(&client, &rm.item).await).await,
    }
}

async fn members(client: &Client, list: &ListArguments) -> Result<View> {
    let found = list_items! {
        list.limit, client.organizations().list_members(ListMembersRequest { filter: list.filter() }) => members
    };
    Ok(View::list(["user_id", "name", "role", "create_time"], found.await?.iter().map(row).collect()))
}

async fn make(client: &Client, add: &Add) -> Result<View> {
    let user_id = match &add.user {
        None => String::new(),
        Some(id) if id.parse::<UserId>().is_ok() => id.clone(),
        Some(email) => user::find(client, email).await?.user_id,
    };
    let member =
        v1::Member { user_id, name: add.name.clone(), role: v1::Role::from(add.role).into(), ..v1::Member::default() };
    let request = v1::AddMemberRequest { member: Some(member), ..Default::default() };
    Ok(View::one(row(&present(answer(client.organizations().add_member(request)).await?.member)?)))
}

async fn change(client: &Client, update: &Update) -> Result<View> {
    let (member, fields) = changes(update);
    ensure!(!fields.is_empty(), "nothing to change: pass --name or --role");
    let request = v1::UpdateMemberRequest {
        member: Some(v1::Member { user_id: id(client, &update.item, names::choose).await?, ..member }),
        update_mask: update_mask(&fields),
        ..Default::default()
    };
    Ok(View::one(row(&present(answer(client.organizations().update_member(request)).await?.member)?)))
}

/// Returns the new values, and the names of the changed fields.
fn changes(update: &Update) -> (v1::Member, Vec<&'static str>) {
    let member = v1::Member {
        name: update.name.clone().unwrap_or_default(),
        role: update.role.map_or(v1::Role::Unspecified, v1::Role::from).into(),
        ..v1::Member::default()
    };
    (member, set_fields(&[("name", update.name.is_some()), ("role", update.role.is_some())]))
}

async fn remove(client: &Client, what: &str) -> Result<View> {
    let user_id = id(client, what, names::choose_only).await?;
    let request = v1::RemoveMemberRequest { user_id: user_id.clone(), ..Default::default() };
    answer(client.organizations().remove_member(request)).await?;
    Ok(deleted(&user_id))
}

/// Returns the id of a member that is named by id or name.
async fn id(client: &Client, what: &str, choose: Choice<v1::Member>) -> Result<String> {
    if what.parse::<UserId>().is_ok() {
        return Ok(what.to_owned());
    }
    let chosen = chosen!("member", what, choose, client.organizations().list_members(ListMembersRequest) => members);
    Ok(chosen?.user_id)
}

fn row(member: &v1::Member) -> Value {
    json!({
        "user_id": member.user_id, "name": member.name, "role": word(member.role().as_str_name(), "ROLE_"),
        "create_time": time(member.create_time.as_ref()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arguments::parse_arguments;

    #[test]
    fn an_update_names_the_given_fields_only() {
        let changed = |flags: &[&str]| {
            let (member, paths) = changes(&parse_arguments(&[&["Ann"][..], flags].concat()).unwrap());
            (row(&member), paths.join(","))
        };
        assert_eq!(changed(&[]).1, "");
        let (values, paths) = changed(&["--role", "viewer"]);
        assert_eq!((&values["role"], paths.as_str()), (&json!("viewer"), "role"));
        let (values, paths) = changed(&["--name", "Bo", "--role", "admin"]);
        assert_eq!((&values["name"], &values["role"], paths.as_str()), (&json!("Bo"), &json!("admin"), "name,role"));
    }
}

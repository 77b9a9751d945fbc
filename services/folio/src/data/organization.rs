//! `folio organization`.

use anyhow::{Result, bail};
use folio_proto::v1;
use serde_json::{Value, json};

use super::job::word;
use super::output::View;
use super::{DataArguments, ListArguments, deleted, list_items, present, set_fields, time, update_mask, user};
use crate::client::{Client, answer};
use crate::terminal::note;

#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    /// Print the organization of the token with its settings and the role of the token.
    Show(Show),
    /// Change the settings of the organization of the token. Requires the role admin.
    Update(Update),
    /// List all organizations, newest first. Requires the platform's administrator.
    List(ListArguments),
    /// Create an organization with its first admin, and print a token of the admin once. Requires the platform's administrator.
    Create(Create),
    /// Delete an organization with all of its data. Requires the platform's administrator.
    #[command(visible_alias = "delete")]
    Rm(Remove),
}

#[derive(Debug, clap::Args)]
pub(crate) struct Show {
    #[command(flatten)]
    data: DataArguments,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Update {
    /// The new name.
    #[arg(long)]
    name: Option<String>,
    /// Delete threads after this number of days without activity; 0 keeps them.
    #[arg(long, value_name = "DAYS")]
    thread_retention_days: Option<u32>,
    /// Run prompts on documents that become ready or get a tag, if they share a tag.
    #[arg(long, value_enum, value_name = "STATE")]
    tag_runs: Option<Switch>,
    /// Maximum number of documents on which a prompt runs when it gets a tag or a revision; 0 for none.
    #[arg(long, value_name = "N")]
    tag_batch_documents: Option<u32>,
    /// Let an agent propose a schema, a prompt and an extraction for each uploaded document.
    #[arg(long, value_enum, value_name = "STATE")]
    auto_create: Option<Switch>,
    /// Ingest documents whose text becomes ready: off, index (the steps without a chat model), fast (also terms, summaries and
    /// images) or agentic (agents decide).
    #[arg(long, value_enum, value_name = "MODE")]
    ingestion: Option<IngestionMode>,
    #[command(flatten)]
    data: DataArguments,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Create {
    /// The name.
    name: String,
    /// The user that becomes the first admin, by id or e-mail address [default: a new one, which uses tokens].
    #[arg(long, value_name = "ID or EMAIL")]
    admin: Option<String>,
    /// The display name of the first admin [default: the name of the user, otherwise admin].
    #[arg(long, value_name = "NAME")]
    admin_name: Option<String>,
    #[command(flatten)]
    data: DataArguments,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Remove {
    /// The id of the organization, from `folio organization list`.
    #[arg(value_name = "ID")]
    organization_id: String,
    /// The exact name of the organization, as a confirmation.
    #[arg(long)]
    name: String,
    #[command(flatten)]
    data: DataArguments,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Switch {
    On,
    Off,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum IngestionMode {
    Off,
    Index,
    Fast,
    Agentic,
}

impl From<IngestionMode> for v1::IngestionMode {
    fn from(mode: IngestionMode) -> Self {
        match mode {
            IngestionMode::Off => Self::Off,
            IngestionMode::Index => Self::Index,
            IngestionMode::Fast => Self::Fast,
            IngestionMode::Agentic => Self::Agentic,
        }
    }
}

pub(crate) async fn run(command: Command) -> Result<()> {
    match command {
        Command::Show(arguments) => arguments.data.run(async |client| show(&client).await).await,
        Command::Update(update) => update.data.run(async |client| change(&client, &update).await).await,
        Command::List(list) => list.data.run(async |client| organizations(&client, &list).await).await,
        Command::Create(create) => create.data.run(async |client| make(&client, &create).await).await,
        Command::Rm(rm) => rm.data.run(async |client| remove(&client, &rm).await).await,
    }
}

async fn organizations(client: &Client, list: &ListArguments) -> Result<View> {
    let found = list_items! {
        list.limit, client.organizations().list_organizations(ListOrganizationsRequest {
            filter: list.filter()
        }) => organizations
    };
    Ok(View::list(["organization_id", "name", "create_time"], found.await?.iter().map(row).collect()))
}

async fn make(client: &Client, create: &Create) -> Result<View> {
    let (admin_user_id, name) = match &create.admin {
        None => (String::new(), "admin".to_owned()),
        Some(what) => {
            let user = user::find(client, what).await?;
            (user.user_id, user.name)
        }
    };
    let request = v1::CreateOrganizationRequest {
        organization: Some(v1::Organization { name: create.name.clone(), ..v1::Organization::default() }),
        admin_name: create.admin_name.clone().unwrap_or(name),
        admin_user_id,
        ..Default::default()
    };
    let created = answer(client.organizations().create_organization(request)).await?;
    let (organization, admin) = (present(created.organization)?, present(created.admin)?);
    note("the token of the admin is shown only once");
    Ok(View::one(json!({
        "organization_id": organization.organization_id, "name": organization.name, "admin_user_id": admin.user_id,
        "admin_name": admin.name, "admin_token": created.admin_token,
        "create_time": time(organization.create_time.as_ref()),
    })))
}

async fn remove(client: &Client, rm: &Remove) -> Result<View> {
    let (organization_id, name) = (rm.organization_id.clone(), rm.name.clone());
    let request = v1::DeleteOrganizationRequest { organization_id, name, ..Default::default() };
    answer(client.organizations().delete_organization(request)).await?;
    Ok(deleted(&rm.organization_id))
}

async fn show(client: &Client) -> Result<View> {
    let found = answer(client.organizations().get_organization(v1::GetOrganizationRequest::default())).await?;
    let role = word(found.caller_role().as_str_name(), "ROLE_");
    let mut row = row(&present(found.organization)?);
    if let Some(members) = row.as_object_mut() {
        members.insert("role".to_owned(), role.into());
    }
    Ok(View::one(row))
}

async fn change(client: &Client, update: &Update) -> Result<View> {
    let (organization, fields) = changes(update);
    if fields.is_empty() {
        bail!("nothing to change: pass a setting such as --name or --auto-create");
    }
    let request = v1::UpdateOrganizationRequest {
        organization: Some(organization),
        update_mask: update_mask(&fields),
        ..Default::default()
    };
    let changed = answer(client.organizations().update_organization(request)).await?;
    Ok(View::one(row(&present(changed.organization)?)))
}

/// Returns the new values, and the names of the changed fields.
fn changes(update: &Update) -> (v1::Organization, Vec<&'static str>) {
    let organization = v1::Organization {
        name: update.name.clone().unwrap_or_default(),
        thread_retention_days: update.thread_retention_days.unwrap_or_default(),
        tag_runs_disabled: update.tag_runs == Some(Switch::Off),
        tag_batch_documents: update.tag_batch_documents.unwrap_or_default(),
        auto_create: update.auto_create == Some(Switch::On),
        ingestion: update.ingestion.map_or(v1::IngestionMode::Unspecified, Into::into).into(),
        ..v1::Organization::default()
    };
    let fields = set_fields(&[
        ("name", update.name.is_some()),
        ("thread_retention_days", update.thread_retention_days.is_some()),
        ("tag_runs_disabled", update.tag_runs.is_some()),
        ("tag_batch_documents", update.tag_batch_documents.is_some()),
        ("auto_create", update.auto_create.is_some()),
        ("ingestion", update.ingestion.is_some()),
    ]);
    (organization, fields)
}

fn row(organization: &v1::Organization) -> Value {
    json!({
        "organization_id": organization.organization_id, "name": organization.name,
        "thread_retention_days": organization.thread_retention_days,
        "tag_runs": if organization.tag_runs_disabled { "off" } else { "on" },
        "tag_batch_documents": organization.tag_batch_documents,
        "auto_create": if organization.auto_create { "on" } else { "off" },
        "ingestion": word(organization.ingestion().as_str_name(), "INGESTION_MODE_"),
        "create_time": time(organization.create_time.as_ref()), "etag": organization.etag,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arguments::parse_arguments;

    fn changed(flags: &[&str]) -> (Value, Vec<&'static str>) {
        let (organization, paths) = changes(&parse_arguments(flags).unwrap());
        (row(&organization), paths)
    }

    #[test]
    fn an_update_names_the_given_settings_only() {
        assert!(changed(&[]).1.is_empty());
        let (values, paths) = changed(&["--tag-runs", "on", "--tag-batch-documents", "0"]);
        assert_eq!((&values["tag_runs"], &values["tag_batch_documents"]), (&json!("on"), &json!(0)));
        assert_eq!(paths, ["tag_runs_disabled", "tag_batch_documents"]);
        let (values, paths) = changed(&["--auto-create", "on"]);
        assert_eq!((&values["auto_create"], paths), (&json!("on"), vec!["auto_create"]));
        let (values, paths) = changed(&["--ingestion", "fast"]);
        assert_eq!((&values["ingestion"], paths), (&json!("fast"), vec!["ingestion"]));
        let (values, paths) = changed(&["--tag-runs", "off", "--name", "Acme", "--thread-retention-days", "30"]);
        assert_eq!((&values["tag_runs"], &values["name"]), (&json!("off"), &json!("Acme")));
        assert_eq!(paths, ["name", "thread_retention_days", "tag_runs_disabled"]);
    }
}

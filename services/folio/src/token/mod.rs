//! `folio token`: what an admin does with tokens.

mod create;
mod list;

use anyhow::Result;
use folio_proto::v1;

use crate::client::{ServerArguments, explain};
use crate::settings::Settings;

/// The subcommands of `folio token`.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    /// Make a token and print it, the one time that it is shown.
    Create(create::Arguments),
    /// List the tokens that are not revoked.
    List(list::Arguments),
    /// Revoke a token: within seconds it is refused everywhere.
    Revoke(Revoke),
}

/// Which token is revoked, and where.
#[derive(Debug, clap::Args)]
pub(crate) struct Revoke {
    /// Its public part: the digits between the underscores.
    token_id: String,
    #[command(flatten)]
    server: ServerArguments,
}

/// Does it.
pub(crate) async fn run(command: Command, settings: &Settings) -> Result<()> {
    match command {
        Command::Create(arguments) => create::run(arguments, settings).await,
        Command::List(arguments) => list::run(&arguments, settings).await,
        Command::Revoke(Revoke { token_id, server }) => {
            let client = server.connect(settings).await?;
            let request = v1::RevokeTokenRequest { token_id: token_id.clone() };
            client.tokens().revoke_token(request).await.map_err(|status| explain(&status))?;
            println!("revoked {token_id}");
            Ok(())
        }
    }
}

/// A role as a command line names it.
#[derive(Debug, Clone, Copy, clap::ValueEnum)]
pub(crate) enum Role {
    /// Reads.
    Viewer,
    /// Also chats, approves and edits.
    Member,
    /// Also tokens, members and settings.
    Admin,
}

impl From<Role> for v1::Role {
    fn from(role: Role) -> Self {
        match role {
            Role::Viewer => Self::Viewer,
            Role::Member => Self::Member,
            Role::Admin => Self::Admin,
        }
    }
}

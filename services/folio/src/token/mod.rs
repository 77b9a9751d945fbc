//! `folio token`: manage access tokens.

mod create;
mod list;

use anyhow::Result;
use folio_proto::v1;

use crate::client::{ServerArguments, answer};
use crate::terminal::write_stdout;

#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    /// Create a token and print it. It is shown once.
    Create(create::Arguments),
    /// List the tokens that are not revoked, newest first.
    List(list::Arguments),
    /// Revoke a token. It is refused everywhere within seconds.
    Revoke(Revoke),
}

#[derive(Debug, clap::Args)]
pub(crate) struct Revoke {
    /// The id of the token, from `folio token list`.
    token_id: String,
    /// Revoke a token of your account. Requires a session or such a token.
    #[arg(long)]
    account: bool,
    #[command(flatten)]
    server: ServerArguments,
}

pub(crate) async fn run(command: Command) -> Result<()> {
    match command {
        Command::Create(arguments) => create::run(arguments).await,
        Command::List(arguments) => list::run(arguments).await,
        Command::Revoke(Revoke { token_id, account, server }) => {
            let client = server.connect().await?;
            if account {
                let request = v1::RevokeAccountTokenRequest { token_id: token_id.clone(), ..Default::default() };
                answer(client.accounts().revoke_account_token(request)).await?;
            } else {
                let request = v1::RevokeTokenRequest { token_id: token_id.clone(), ..Default::default() };
                answer(client.tokens().revoke_token(request)).await?;
            }
            Ok(write_stdout(&format!("revoked {token_id}\n"))?)
        }
    }
}

/// A role on the command line.
#[derive(Debug, Clone, Copy, clap::ValueEnum)]
pub(crate) enum Role {
    /// Reads.
    Viewer,
    /// Chats, approves tool calls and edits resources.
    Member,
    /// Manages tokens, members and settings.
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

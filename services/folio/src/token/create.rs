//! `folio token create`.

use anyhow::{Context as _, Result, anyhow};
use folio_proto::v1;
use folio_types::access::Scope;

use super::Role;
use crate::client::{ServerArguments, answer};
use crate::terminal::{note, write_stdout};

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The purpose of the token.
    name: String,
    /// The role of the token.
    #[arg(long, value_enum, default_value = "member")]
    role: Role,
    /// The scopes of the token, separated by commas: conversations, documents, definitions, extractions, usage,
    /// administration [default: all].
    #[arg(long, value_name = "SCOPE", value_delimiter = ',', value_parser = scope)]
    scope: Vec<Scope>,
    /// The lifetime: a number and s, m, h, d or y (365 days), such as 30d; at most ten years [default: unlimited].
    #[arg(long, value_name = "TIME", value_parser = seconds)]
    expires_in: Option<u64>,
    /// The id of the member that the token authenticates [default: the caller].
    #[arg(long, value_name = "USER")]
    user: Option<String>,
    /// Create a token of your account, over all your organizations. Requires a session or such a token.
    #[arg(long, conflicts_with = "user")]
    account: bool,
    #[command(flatten)]
    server: ServerArguments,
}

/// Creates the token. The token is printed on stdout, other text on stderr.
pub(crate) async fn run(arguments: Arguments) -> Result<()> {
    let client = arguments.server.connect().await?;
    let token = v1::Token {
        name: arguments.name,
        user_id: arguments.user.unwrap_or_default(),
        role: v1::Role::from(arguments.role).into(),
        scopes: arguments.scope.into_iter().map(|scope| v1::Scope::from(scope).into()).collect(),
        ..v1::Token::default()
    };
    let (token, ttl_seconds) = (Some(token), arguments.expires_in.unwrap_or(0));
    let (token, secret) = if arguments.account {
        let request = v1::CreateAccountTokenRequest { token, ttl_seconds, ..Default::default() };
        let created = answer(client.accounts().create_account_token(request)).await?;
        (created.token, created.secret)
    } else {
        let request = v1::CreateTokenRequest { token, ttl_seconds, ..Default::default() };
        let created = answer(client.tokens().create_token(request)).await?;
        (created.token, created.secret)
    };
    let token = token.context("invalid response of the server: the token is missing")?;
    note(&format!("token {}, shown only once:", token.token_id));
    // A closed output is an error here, because the secret is lost.
    write_stdout(&format!("{secret}\n")).map_err(|error| {
        anyhow!("the secret of the token cannot be printed: {error}; use folio token revoke {}", token.token_id)
    })
}

fn scope(name: &str) -> Result<Scope, String> {
    Scope::parse("scope", name).map_err(|error| error.message)
}

/// Parses a duration: a number followed by s, m, h, d or y.
fn seconds(text: &str) -> Result<u64, String> {
    let wrong = || format!("invalid duration {text:?}: expected a number and s, m, h, d or y, such as 12h or 30d");
    let (number, unit) = text.split_at_checked(text.len().saturating_sub(1)).ok_or_else(wrong)?;
    let unit = match unit {
        "s" => 1,
        "m" => 60,
        "h" => 60 * 60,
        "d" => 24 * 60 * 60,
        "y" => 365 * 24 * 60 * 60,
        _ => return Err(wrong()),
    };
    let seconds = number.parse::<u64>().ok().and_then(|number| number.checked_mul(unit));
    seconds.filter(|seconds| *seconds > 0).ok_or_else(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_a_number_and_a_unit() {
        assert_eq!(seconds("90s"), Ok(90));
        assert_eq!(seconds("30m"), Ok(1_800));
        assert_eq!(seconds("2d"), Ok(172_800));
        for wrong in ["", "d", "0d", "-1d", "5", "1w", "1dd", "99999999999999999999d", "٣d"] {
            assert!(seconds(wrong).is_err(), "{wrong}");
        }
    }
}

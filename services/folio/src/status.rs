//! `folio status`: the server and the token of commands, and whether the server accepts both.

use anyhow::Result;
use folio_proto::v1;
use folio_types::SessionToken;
use folio_types::token::Token;
use tonic::Code;

use crate::client::{Client, ServerArguments, Target, explain};

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    server: ServerArguments,
}

/// Prints the report. Fails after the report if the server does not answer or refuses the token.
pub(crate) async fn run(arguments: Arguments) -> Result<()> {
    let target = arguments.server.target()?;
    crate::terminal::write_stdout(&report(&target))?;
    let checked = match target.connect().await {
        Ok(client) => check_token(&client).await,
        Err(error) => Err(error),
    };
    checked?;
    Ok(crate::terminal::write_stdout("answer  the server accepts the token\n")?)
}

/// Checks that the server accepts the token. A token without the scope of the call is accepted.
pub(crate) async fn check_token(client: &Client) -> Result<()> {
    let request = v1::ListDocumentsRequest { page_size: 1, ..v1::ListDocumentsRequest::default() };
    match client.documents().list_documents(request).await {
        Err(status) if status.code() != Code::PermissionDenied => Err(explain(&status)),
        Ok(_) | Err(_) => Ok(()),
    }
}

fn report(target: &Target) -> String {
    let token = match &target.token {
        Some(token) => format!("{} (from {})", masked(&token.value), token.source),
        None => format!("none (no login, no FOLIO_TOKEN, no {})", target.token_file.display()),
    };
    let organization = target.organization.as_ref().map(|id| format!("org     {id}\n")).unwrap_or_default();
    format!("server  {} (from {})\ntoken   {token}\n{organization}", target.server.value, target.server.source)
}

/// Returns the public part of an access token or of the token of a session, and nothing of any other token.
fn masked(token: &str) -> String {
    match (token.trim().parse::<Token>(), token.trim().parse::<SessionToken>()) {
        (Ok(token), _) => format!("{token:?}"),
        (_, Ok(token)) => format!("{token:?}"),
        _ => "********".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use folio_types::{OrgId, System, UserId};

    use super::*;

    #[test]
    fn a_token_is_shown_without_its_secret() {
        let token = Token::generate(&OrgId::first(), &System).reveal();
        let session = SessionToken::generate(&UserId::generate(&System), &System).reveal();
        for text in [token, session] {
            let (public, secret) = text.rsplit_once('_').unwrap();
            let shown = masked(&format!("{text}\n"));
            assert!(shown.starts_with(public) && !shown.contains(secret), "{shown}");
        }
        assert_eq!(masked("eyJhbGciOi.eyJzdWIi.c2ln"), "********");
    }
}

//! `folio token list`.

use std::io::Write as _;

use anyhow::Result;
use folio_proto::v1;

use crate::client::{Client, ServerArguments, answer};
use crate::terminal::printable;

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// List the tokens of your account. Requires a session or such a token.
    #[arg(long)]
    account: bool,
    #[command(flatten)]
    server: ServerArguments,
}

/// Prints one line per token, newest first.
pub(crate) async fn run(arguments: Arguments) -> Result<()> {
    let client = arguments.server.connect().await?;
    let mut out = std::io::stdout();
    let mut page_token = String::new();
    loop {
        let (tokens, next) = page(&client, arguments.account, page_token).await?;
        for token in &tokens {
            writeln!(out, "{}", line(token))?;
        }
        if next.is_empty() {
            return Ok(());
        }
        page_token = next;
    }
}

/// Returns the tokens of a page, and the token of the next page.
async fn page(client: &Client, is_of_account: bool, page_token: String) -> Result<(Vec<v1::Token>, String)> {
    if is_of_account {
        let request = v1::ListAccountTokensRequest { page_token, ..Default::default() };
        let page = answer(client.accounts().list_account_tokens(request)).await?;
        return Ok((page.tokens, page.next_page_token));
    }
    let request = v1::ListTokensRequest { page_token, ..Default::default() };
    let page = answer(client.tokens().list_tokens(request)).await?;
    Ok((page.tokens, page.next_page_token))
}

fn line(token: &v1::Token) -> String {
    let word = |name: &str, prefix: &str| name.trim_start_matches(prefix).to_lowercase();
    let role = word(token.role().as_str_name(), "ROLE_");
    let scopes: Vec<_> = token.scopes().map(|scope| word(scope.as_str_name(), "SCOPE_")).collect();
    let scopes = if scopes.is_empty() { "all".to_owned() } else { scopes.join(",") };
    let platform = if token.platform { " platform" } else { "" };
    let [expires, used] = [&token.expire_time, &token.last_use_time]
        .map(|at| at.as_ref().map_or_else(|| "never".to_owned(), ToString::to_string));
    let name = printable(&token.name);
    format!("{} {role}{platform} {scopes} expires={expires} used={used} {} {name}", token.token_id, token.user_id)
}

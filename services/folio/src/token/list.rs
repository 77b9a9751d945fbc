//! `folio token list`.

use std::io::Write as _;

use anyhow::Result;
use folio_proto::v1;

use crate::client::{ServerArguments, answer};
use crate::terminal::printable;

/// Prints one line per token, newest first.
pub(crate) async fn run(server: &ServerArguments) -> Result<()> {
    let client = server.connect().await?;
    let mut out = std::io::stdout();
    let mut request = v1::ListTokensRequest::default();
    loop {
        let page = answer(client.tokens().list_tokens(request.clone())).await?;
        for token in &page.tokens {
            writeln!(out, "{}", line(token))?;
        }
        if page.next_page_token.is_empty() {
            return Ok(());
        }
        request.page_token = page.next_page_token;
    }
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

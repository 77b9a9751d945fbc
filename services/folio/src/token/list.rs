//! `folio token list`.

use anyhow::Result;
use folio_proto::v1;
use serde_json::{Value, json};

use crate::client::{Client, answer};
use crate::data::output::View;
use crate::data::{DataArguments, collect, time};

/// The columns of the table. The name is the last one, because scripts find a token by the end of its line.
const COLUMNS: [&str; 8] =
    ["token_id", "role", "platform", "scopes", "expire_time", "last_use_time", "user_id", "name"];

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// List the tokens of your account. Requires a session or such a token.
    #[arg(long)]
    account: bool,
    /// Maximum number of tokens.
    #[arg(long, value_name = "N", default_value = "1000")]
    limit: usize,
    #[command(flatten)]
    data: DataArguments,
}

pub(crate) async fn run(arguments: Arguments) -> Result<()> {
    arguments.data.run(async |client| tokens(&client, &arguments).await).await
}

async fn tokens(client: &Client, arguments: &Arguments) -> Result<View> {
    let found = collect(arguments.limit, async |page_size, page_token| {
        if arguments.account {
            let request = v1::ListAccountTokensRequest { page_size, page_token, ..Default::default() };
            let page = answer(client.accounts().list_account_tokens(request)).await?;
            return Ok((page.tokens, page.next_page_token));
        }
        let request = v1::ListTokensRequest { page_size, page_token, ..Default::default() };
        let page = answer(client.tokens().list_tokens(request)).await?;
        Ok((page.tokens, page.next_page_token))
    });
    Ok(View::list(COLUMNS, found.await?.iter().map(row).collect()))
}

fn row(token: &v1::Token) -> Value {
    let word = |name: &str, prefix: &str| name.trim_start_matches(prefix).to_lowercase();
    let scopes: Vec<_> = token.scopes().map(|scope| word(scope.as_str_name(), "SCOPE_")).collect();
    json!({
        "token_id": token.token_id, "name": token.name, "role": word(token.role().as_str_name(), "ROLE_"),
        "platform": token.platform, "scopes": if scopes.is_empty() { vec!["all".to_owned()] } else { scopes },
        "user_id": token.user_id, "created_by_user_id": token.created_by_user_id,
        "create_time": time(token.create_time.as_ref()), "expire_time": time(token.expire_time.as_ref()),
        "last_use_time": time(token.last_use_time.as_ref()),
    })
}

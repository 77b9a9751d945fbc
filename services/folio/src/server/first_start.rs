//! The first start on a data folder: an organization, and a token that opens it for its administrator.

use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use anyhow::{Context as _, Result};
use folio_storage::Stores;
use folio_types::access::Organization;
use folio_types::token::{Token, TokenRecord};
use folio_types::{Environment, OrgId, Role, UserId};

/// The name of the first organization.
const ORGANIZATION: &str = "default";

/// Makes the organization and its admin token unless they are there. Gives the token the one time that it is made.
///
/// The file comes first, then the organization, then the token. A start that dies before the organization is made again
/// whole; one that dies after it left a file whose token the next start finds unknown, and stores.
pub(crate) async fn ensure(stores: &Stores, environment: &dyn Environment, file: &Path) -> Result<Option<Token>> {
    let token = match stores.access.first_organization().await? {
        None => {
            let token = Token::generate(environment);
            let written = write(file, &token.reveal());
            written.with_context(|| format!("the admin token cannot be written to {}", file.display()))?;
            let created_at = environment.now();
            let organization = Organization { id: organization_id(), name: ORGANIZATION.to_owned(), created_at };
            stores.access.create_organization(organization).await?;
            token
        }
        Some(_) => match unknown_token(stores, file).await? {
            Some(token) => token,
            None => return Ok(None),
        },
    };
    stores.access.create_token(record(&token, environment)).await?;
    Ok(Some(token))
}

/// The token of the file, where the store does not know it.
async fn unknown_token(stores: &Stores, file: &Path) -> Result<Option<Token>> {
    // A file that is gone, or is not ours, is the administrator's doing.
    let token = std::fs::read_to_string(file).ok().and_then(|text| text.trim().parse::<Token>().ok());
    Ok(match token {
        Some(token) if stores.access.token(token.id()).await?.is_none() => Some(token),
        _ => None,
    })
}

fn organization_id() -> OrgId {
    OrgId::derive(&["first organization"])
}

fn record(token: &Token, environment: &dyn Environment) -> TokenRecord {
    TokenRecord {
        id: token.id().clone(),
        hash: token.hash(),
        org: organization_id(),
        user: UserId::derive(&["first user"]),
        role: Role::Admin,
        name: "admin".to_owned(),
        created_at: environment.now(),
        expires_at: None,
        revoked_at: None,
    }
}

/// A file that only its owner can read, whole or not there, durable before the token counts.
fn write(file: &Path, text: &str) -> std::io::Result<()> {
    let temporary = file.with_extension("token.new");
    let _ = std::fs::remove_file(&temporary);
    let mut out = std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&temporary)?;
    writeln!(out, "{text}")?;
    out.sync_all()?;
    std::fs::rename(&temporary, file)?;
    match file.parent() {
        Some(folder) => std::fs::File::open(folder)?.sync_all(),
        None => Ok(()),
    }
}

//! The first start: creates an organization, and the token of its administrator.
//!
//! On embedded stores the token is also stored in a file of the data folder. In a cluster the first process that
//! serves, or `folio migrate`, creates the token and prints it once, on stdout. All processes derive the same token id,
//! so that only one insert succeeds. The audit log of the organization records each token that is created this way.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use folio_resources::audit::{AuditEntry, AuditKind, AuditTarget};
use folio_resources::{
    Member, MemberChange, MemberWrite, NewToken, Organization, OrganizationChange, Resource, TokenChange, TokenRecord,
};
use folio_storage::{AccessStore, AuditStore, ResourceExecutor, ResourceStore, Stores};
use folio_types::op::{self, Expected};
use folio_types::token::Token;
use folio_types::{Code, Environment, Error, OrgId, Reason, Role, TokenId, UserId};

use crate::private_file;

const ORGANIZATION: &str = "default";
/// The author of the first token in the audit log.
const FIRST_START: &str = "first start";
/// The author of a replacement token in the audit log.
const MIGRATE: &str = "folio migrate --admin-token";

/// Time within which the first start of a cluster is repeated while a store does not answer. The conditional writes of processes that
/// start at once on an empty keyspace delay each other.
const REPEAT_LIMIT: Duration = Duration::from_secs(30);
const REPEAT_PAUSE: Duration = Duration::from_millis(250);

/// The administrator's token. It exists only in the process that creates it.
pub(crate) struct FirstToken {
    token: Token,
    /// The file that also contains the token. None: only the digest is stored.
    file: Option<PathBuf>,
}

impl FirstToken {
    pub(crate) fn reveal(&self) -> String {
        self.token.reveal()
    }

    pub(crate) fn print(&self, out: &mut impl Write) -> std::io::Result<()> {
        match &self.file {
            Some(file) => writeln!(out, "admin token, shown once and stored in {}:", file.display())?,
            None => writeln!(out, "admin token, shown once (only its digest is stored):")?,
        }
        writeln!(out, "{}", self.reveal())
    }
}

/// The stores that the first start writes to.
pub(crate) struct AccessStores {
    pub(crate) access: AccessStore,
    pub(crate) resources: Arc<dyn ResourceExecutor>,
    pub(crate) audit: Arc<dyn AuditStore>,
}

impl AccessStores {
    fn of_kind<R: Resource>(&self) -> ResourceStore<R> {
        ResourceStore::new(Arc::clone(&self.resources))
    }

    pub(crate) fn of(stores: &Stores) -> Self {
        let (resources, audit) = (Arc::clone(&stores.resources), Arc::clone(&stores.audit));
        Self { access: stores.access(), resources, audit }
    }
}

/// Creates the organization of a cluster and its admin token, unless they exist or another process creates them. A write whose outcome
/// is unknown is repeated with the same token, so that a token that was stored is also printed.
///
/// If a process crashes after it stored the token and before it prints it, the token is lost; [`replace_admin_token`]
/// replaces it.
pub(crate) async fn ensure_first_token_in_cluster(
    stores: &AccessStores,
    environment: &dyn Environment,
) -> Result<Option<FirstToken>> {
    let token = Token::with_id(&OrgId::first(), TokenId::derive(&["first admin token"]), environment);
    let since = Instant::now();
    loop {
        match store_in_cluster(stores, &token, environment).await {
            Ok(is_new) => return Ok(is_new.then_some(FirstToken { token, file: None })),
            Err(error) if is_unavailable(&error) && since.elapsed() <= REPEAT_LIMIT => {
                tracing::warn!(%error, "the first organization and its token cannot be stored; retrying");
            }
            Err(error) => return Err(error),
        }
        tokio::time::sleep(REPEAT_PAUSE).await;
    }
}

/// Stores the organization and its admin token. Returns true if the token is the stored one.
async fn store_in_cluster(stores: &AccessStores, token: &Token, environment: &dyn Environment) -> Result<bool> {
    make_organization(stores, environment).await?;
    store(stores, token, FIRST_START, environment).await
}

fn is_unavailable(error: &anyhow::Error) -> bool {
    error.downcast_ref::<Error>().is_some_and(|error| error.code == Code::Unavailable)
}

/// Creates another token of the first organization's administrator, to replace a lost one.
pub(crate) async fn replace_admin_token(stores: &AccessStores, environment: &dyn Environment) -> Result<FirstToken> {
    let token = Token::generate(&OrgId::first(), environment);
    make_organization(stores, environment).await?;
    restore_admin(&stores.access, environment).await?;
    // The token is printed only after the audit log contains it.
    store(stores, &token, MIGRATE, environment).await?;
    Ok(FirstToken { token, file: None })
}

/// Creates the organization and its admin token on embedded stores, unless they exist. Returns the token only if this
/// call created it.
///
/// The file is written first, then the organization, then the token. After a crash before the organization is stored,
/// the next start repeats everything. After a crash before the token is stored, the next start stores the token of the
/// file.
pub(crate) async fn ensure_first_token(
    stores: &Stores,
    environment: &dyn Environment,
    file: PathBuf,
) -> Result<Option<FirstToken>> {
    let first = stores.of::<Organization>().get(&OrgId::platform(), &OrgId::first()).await?;
    let token = match first {
        None => {
            let token = Token::generate(&OrgId::first(), environment);
            let written = private_file::write(&file, &format!("{}\n", token.reveal()));
            written.with_context(|| format!("the admin token cannot be written to {}", file.display()))?;
            make_organization(&AccessStores::of(stores), environment).await?;
            token
        }
        Some(_) => match unknown_token(stores, &file).await? {
            Some(token) => token,
            None => return Ok(None),
        },
    };
    let is_new = store(&AccessStores::of(stores), &token, FIRST_START, environment).await?;
    Ok(is_new.then_some(FirstToken { token, file: Some(file) }))
}

/// Returns the token of the file if it is not in the store.
async fn unknown_token(stores: &Stores, file: &Path) -> Result<Option<Token>> {
    // The administrator may have removed or replaced the file.
    let token = std::fs::read_to_string(file).ok().and_then(|text| text.trim().parse::<Token>().ok());
    Ok(match token {
        Some(token) if *token.org() == OrgId::first() => {
            let stored = stores.of::<TokenRecord>().get(token.org(), token.id()).await?;
            stored.is_none().then_some(token)
        }
        _ => None,
    })
}

/// Creates the organization with its administrator as a member, unless they exist.
async fn make_organization(stores: &AccessStores, environment: &dyn Environment) -> Result<()> {
    let (access, created_at) = (&stores.access, environment.now());
    let (key, create) = ("first-start".parse()?, OrganizationChange::Create { name: ORGANIZATION.to_owned() });
    let write = op::Write::by_platform(OrgId::platform(), key, created_at, Expected::Absent, create);
    stores.of_kind::<Organization>().decide(&OrgId::first(), write).await?;
    if access.member(&OrgId::first(), &user_id()).await?.is_none() {
        let add = MemberChange::Add { name: "admin".to_owned(), role: Role::Admin };
        let admin = Member::after(&user_id(), &add, None, created_at)?;
        // A refusal means that another process added the member.
        access.write_member(&OrgId::first(), MemberWrite::unguarded(None, admin)).await?;
    }
    Ok(())
}

/// Restores the administrator's role and membership, because otherwise its token would be refused.
async fn restore_admin(access: &AccessStore, environment: &dyn Environment) -> Result<()> {
    while let Some(before) = access.member(&OrgId::first(), &user_id()).await? {
        let after = Member::after(&user_id(), &MemberChange::Restore, Some(&before), environment.now())?;
        if after == before || access.write_member(&OrgId::first(), MemberWrite::unguarded(Some(before), after)).await? {
            break;
        }
    }
    Ok(())
}

fn user_id() -> UserId {
    UserId::derive(&["first user"])
}

/// Stores a token of the first organization's administrator, and records its creation in the audit log, without a user.
/// Returns false if a token with this id has another secret or was revoked.
async fn store(stores: &AccessStores, token: &Token, by: &str, environment: &dyn Environment) -> Result<bool> {
    let new = NewToken { platform: true, ..NewToken::new(token, user_id(), Role::Admin, "admin") };
    let write = TokenChange::create_by_platform(token, new, environment.now())?;
    let tokens = stores.of_kind::<TokenRecord>();
    match tokens.decide(token.id(), write).await {
        Err(error) if error.reason == Reason::NotFound => return Ok(false),
        decided => drop(decided?),
    }
    let stored = tokens.get(token.org(), token.id()).await?;
    let Some(record) = stored.filter(|stored| stored.hash == token.hash()) else { return Ok(false) };
    let target = AuditTarget::new("token", &record.id);
    let entry = AuditEntry::new(&format!("token:{}", record.id), AuditKind::ChangeApplied, record.created_at, None, by);
    stores.audit.append(&record.org, &[AuditEntry { target: Some(target), ..entry }]).await?;
    Ok(true)
}

//! Organizations of a cluster, which are created in its stores before its processes start, or over the API.

use std::path::Path;

use folio_blobs::{S3Options, blobs_at};
use folio_proto::v1;
use folio_proto::v1::organization_service_client::OrganizationServiceClient;
use folio_resources::{NewToken, Organization, OrganizationChange, Resource, TagRunsPatch, TokenChange, TokenRecord};
use folio_storage::Stores;
use folio_storage_cql::{CqlStore, Options};
use folio_types::op::{Expected, Write};
use folio_types::token::Token;
use folio_types::{Code, Environment as _, IngestionMode, OrgId, Role, System, UserId};

use super::LIMIT;
use super::client::{Client, answered};

#[derive(Debug, Clone)]
pub struct Tenant {
    pub org: OrgId,
    /// Marker of the tenant. All names and texts that the tenant creates contain it.
    pub marker: String,
    pub token: String,
}

/// Creates or migrates a keyspace and opens its stores. `cql` contains addresses, separated by commas.
pub async fn open_stores(cql: &str, keyspace: &str, replication_factor: u8, folder: &Path) -> Stores {
    let contact_points = cql.split(',').map(str::to_owned).collect();
    let options = Options { keyspace: keyspace.to_owned(), replication_factor, ..Options::at(contact_points) };
    let store = Box::pin(CqlStore::open(options)).await.expect("the keyspace is opened");
    store.stores(
        blobs_at(&folder.join("blobs").display().to_string(), &S3Options::default()).expect("a folder for blobs"),
    )
}

async fn create_organization(stores: &Stores, org: &OrgId, name: &str) {
    let (key, create) = (format!("create-{org}"), OrganizationChange::Create { name: name.to_owned() });
    let key = key.parse().expect("a request id");
    let write = Write::by_platform(OrgId::platform(), key, System.now(), Expected::Absent, create);
    store::<Organization>(stores, org, write).await;
    // Most tests count jobs, or stop nodes at the steps of one job.
    let (key, set) = (format!("ingestion-{org}"), without_ingestion());
    let key = key.parse().expect("a request id");
    let write = Write::by_platform(OrgId::platform(), key, System.now(), Expected::Version(1), set);
    store::<Organization>(stores, org, write).await;
}

/// Makes a write. It is repeated while the store does not answer: the conditional writes to a new keyspace are slow on a busy machine.
async fn store<R: Resource>(stores: &Stores, id: &R::Id, write: Write<R::Change>) {
    let resources = stores.of::<R>();
    folio_testkit::wait_for("a write of a tenant", LIMIT, || async {
        match resources.decide(id, write.clone()).await {
            Err(error) if error.code == Code::Unavailable => None,
            written => Some(written.expect("the write is accepted")),
        }
    })
    .await;
}

/// Returns the change after which documents are ingested on request only.
fn without_ingestion() -> OrganizationChange {
    OrganizationChange::Update {
        name: None,
        thread_retention_days: None,
        tag_runs: TagRunsPatch::default(),
        auto_create: None,
        ingestion: Some(IngestionMode::Off),
    }
}

async fn store_token(stores: &Stores, token: &Token, new: NewToken) {
    let write = TokenChange::create_by_platform(token, new, System.now()).expect("an op key");
    store::<TokenRecord>(stores, token.id(), write).await;
}

impl Tenant {
    /// Creates an organization with an administrator.
    pub async fn create(stores: &Stores, marker: &str) -> Self {
        let org = OrgId::generate(&System);
        let token = Token::generate(&org, &System);
        create_organization(stores, &org, marker).await;
        store_token(stores, &token, NewToken::new(&token, UserId::generate(&System), Role::Admin, "admin")).await;
        Self { org, marker: marker.to_owned(), token: token.reveal() }
    }

    /// Creates another administrator of the organization. Returns the organization with the token of this user.
    pub async fn with_second_user(&self, stores: &Stores) -> Self {
        let token = Token::generate(&self.org, &System);
        store_token(stores, &token, NewToken::new(&token, UserId::generate(&System), Role::Admin, "second")).await;
        Self { token: token.reveal(), ..self.clone() }
    }

    /// Creates an organization with an administrator over the API. The client has the token of a platform administrator. The request
    /// is repeated while the server is unavailable.
    pub async fn create_over_api(platform: &Client, marker: &str) -> Self {
        let request = v1::CreateOrganizationRequest {
            organization: Some(v1::Organization { name: marker.to_owned(), ..Default::default() }),
            admin_name: "admin".to_owned(),
            request_id: format!("create-{marker}"),
            ..Default::default()
        };
        let organizations = OrganizationServiceClient::new(platform.channel.clone());
        let created = folio_testkit::wait_for("an organization", LIMIT, || async {
            answered(organizations.clone().create_organization(request.clone()).await)
        });
        let created = created.await.into_inner();
        let org = created.organization.expect("an organization").organization_id.parse().expect("an organization's id");
        Self { org, marker: marker.to_owned(), token: created.admin_token }
    }

    /// Creates the platform's administrator in a separate organization.
    pub async fn platform(stores: &Stores) -> Self {
        let tenant = Self::create(stores, "platform").await;
        let token = Token::generate(&tenant.org, &System);
        let new = NewToken::new(&token, UserId::generate(&System), Role::Admin, "platform");
        store_token(stores, &token, NewToken { platform: true, ..new }).await;
        Self { token: token.reveal(), ..tenant }
    }
}

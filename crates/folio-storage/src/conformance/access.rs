//! [`crate::AccessStore`].

use folio_types::access::{Organization, Role};
use folio_types::token::{Token, TokenRecord};

use super::context::Context;
use super::{Outcome, check, refused, same};

pub(crate) async fn suite(context: &Context) -> Outcome {
    organizations(context).await?;
    tokens(context).await
}

async fn organizations(context: &Context) -> Outcome {
    let store = &context.stores.access;
    let organization = Organization { id: context.org.clone(), name: "one".to_owned(), created_at: context.now() };
    same!(store.organization(&context.org).await?, None, "an organization before it is made");
    same!(store.create_organization(organization.clone()).await?, organization, "a new organization");
    let again = Organization { name: "two".to_owned(), ..organization.clone() };
    same!(store.create_organization(again).await?, organization, "an organization made again");
    same!(store.organization(&context.org).await?, Some(organization), "an organization read back");
    let first = store.first_organization().await?;
    check!(first.is_some(), "there is an organization, and yet no first one");
    let other = Organization { id: context.other(), name: "other".to_owned(), created_at: context.now() };
    store.create_organization(other).await?;
    same!(store.first_organization().await?, first, "the first organization after a second was made");
    Ok(())
}

async fn tokens(context: &Context) -> Outcome {
    let store = &context.stores.access;
    let digits = format!("{:x}", u128::from(context.fresh()) ^ 0x0123_4567_89ab_cdef_0123_4567_89ab_cdef);
    let seed = folio_types::Digest::of(format!("{}{digits}", context.org).as_bytes());
    let id: String = seed.as_str().chars().take(24).collect();
    let shown: Token = format!("folio_{id}_{}", seed.as_str()).parse()?;
    let record = TokenRecord {
        id: shown.id().clone(),
        hash: shown.hash(),
        org: context.org.clone(),
        user: context.user.clone(),
        role: Role::Admin,
        name: "first".to_owned(),
        created_at: context.now(),
        expires_at: None,
        revoked_at: None,
    };
    same!(store.token(&record.id).await?, None, "a token before it is made");
    store.create_token(record.clone()).await?;
    same!(store.token(&record.id).await?, Some(record.clone()), "a token read back");
    store.create_token(record.clone()).await?;
    let theirs = TokenRecord { org: context.other(), ..record.clone() };
    check!(store.create_token(theirs).await.is_err(), "a token of an id that is taken was stored");
    same!(store.token(&record.id).await?, Some(record.clone()), "a token after another one of its id was refused");
    let nobody = folio_types::OrgId::derive(&["nobody", context.org.as_str()]);
    let other: Token = format!("folio_{}_{}", id.chars().rev().collect::<String>(), seed.as_str()).parse()?;
    let orphan = TokenRecord { id: other.id().clone(), org: nobody, ..record };
    refused!(store.create_token(orphan).await, NotFound, "a token of an organization that is not there");
    same!(store.token(other.id()).await?, None, "a token that was refused");
    Ok(())
}

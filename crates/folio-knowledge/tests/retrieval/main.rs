//! Tests of searches and answers over the embedded stores and the embedded index, with scripted models.

mod ask;
mod fixture;
mod search;
mod tenants;

//! The public API over real gRPC on a real embedded store.

#[cfg(test)]
mod audits;
#[cfg(test)]
mod calls;
#[cfg(test)]
mod conversations;
#[cfg(test)]
mod credits;
#[cfg(test)]
mod documents;
#[cfg(test)]
mod extractions;
#[cfg(test)]
mod faulty;
#[cfg(test)]
mod harness;
#[cfg(test)]
mod issuer;
#[cfg(test)]
mod jwt;
#[cfg(test)]
mod limits;
#[cfg(test)]
mod lists;
#[cfg(test)]
mod malformed;
#[cfg(test)]
mod many;
#[cfg(test)]
mod organizations;
#[cfg(test)]
mod pending;
#[cfg(test)]
mod policies;
#[cfg(test)]
mod policy_conditions;
#[cfg(test)]
mod prompts;
mod providers;
mod repetitions;
#[cfg(test)]
mod roles;
#[cfg(test)]
mod samples;
#[cfg(test)]
mod schemas;
#[cfg(test)]
mod server;
#[cfg(test)]
mod tags;
#[cfg(test)]
mod tenants;
#[cfg(test)]
mod threads;
#[cfg(test)]
mod tls;
#[cfg(test)]
mod tokens;

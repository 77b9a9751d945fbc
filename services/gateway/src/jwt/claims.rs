//! The claims of a JWT: organization, user, role, scopes and expiry. Performs no I/O; the signature is verified before.

use std::time::Duration;

use folio_types::access::Scope;
use folio_types::{OrgId, Role, Timestamp, UserId};
use serde_json::{Map, Value};

use super::IssuerOptions;

/// Maximum number of characters of a subject.
const SUBJECT_CHARS: usize = 255;

/// The content of a valid JWT.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct VerifiedClaims {
    pub(crate) org: OrgId,
    pub(crate) user: UserId,
    /// The role that the token claims. The role of a member bounds it.
    pub(crate) role: Role,
    /// The scopes that the token is restricted to. Empty: unrestricted.
    pub(crate) scopes: Vec<Scope>,
    /// The time from which the token is refused.
    pub(crate) expires_at: Timestamp,
}

/// Reason for the refusal of a JWT. It is logged, but not returned to the caller.
pub(super) type RejectionReason = &'static str;

pub(super) type Claims = Map<String, Value>;

pub(super) fn read(
    options: &IssuerOptions,
    claims: &Claims,
    now: Timestamp,
) -> Result<VerifiedClaims, RejectionReason> {
    if claims.get("iss").and_then(Value::as_str) != Some(&options.issuer) {
        return Err("iss names another issuer");
    }
    if !strings(claims.get("aud")).any(|audience| options.audiences.iter().any(|ours| ours == audience)) {
        return Err("the token is for another audience");
    }
    Ok(VerifiedClaims {
        expires_at: expires_at(options, claims, now)?,
        org: organization(options, claims)?,
        user: user(options, claims)?,
        role: role(options, claims)?,
        scopes: scopes(options, claims)?,
    })
}

/// Returns the time from which the token is refused, according to `exp` and the maximum age. Error: the token has
/// expired, or is not valid yet.
fn expires_at(options: &IssuerOptions, claims: &Claims, now: Timestamp) -> Result<Timestamp, RejectionReason> {
    let leeway = options.leeway;
    let expires = time(claims, "exp")?.ok_or("exp is missing")?;
    let issued = time(claims, "iat")?.ok_or("iat is missing")?;
    let begins = time(claims, "nbf")?.unwrap_or(issued).max(issued);
    let later = |at: Timestamp, by: Duration| at.checked_add(by).map_err(|_| "a time is out of bounds");
    let expires_at = later(expires.min(later(issued, options.max_age)?), leeway)?;
    if now >= expires_at {
        return Err("the token has expired or exceeds the maximum age");
    }
    if later(now, leeway)? < begins { Err("the token is not valid yet") } else { Ok(expires_at) }
}

/// Reads a time in seconds since 1970, with optional fractions.
fn time(claims: &Claims, name: &str) -> Result<Option<Timestamp>, RejectionReason> {
    let wrong = "a time is not a number, or out of range";
    let Some(value) = claims.get(name) else { return Ok(None) };
    let seconds = value.as_f64().ok_or(wrong)?;
    // Larger than any representable time. A conversion from a larger float would saturate.
    if !(0.0..1e11).contains(&seconds) {
        return Err(wrong);
    }
    #[expect(clippy::cast_possible_truncation, reason = "checked above")]
    let milliseconds = (seconds * 1_000.0) as i64;
    Timestamp::from_millisecond(milliseconds).map(Some).map_err(|_| wrong)
}

fn organization(options: &IssuerOptions, claims: &Claims) -> Result<OrgId, RejectionReason> {
    if let Some(org) = &options.organization {
        return Ok(org.clone());
    }
    let name = claim(claims, &options.organization_claim)
        .and_then(Value::as_str)
        .ok_or("the organization claim is missing")?;
    if options.organizations.is_empty() {
        return name.parse().map_err(|_| "the organization claim is not an organization's id");
    }
    options.organizations.get(name).cloned().ok_or("the organization claim has no entry in `organizations`")
}

/// Returns the user. A Folio id is used unchanged; for any other subject an id is derived, which differs between
/// issuers.
fn user(options: &IssuerOptions, claims: &Claims) -> Result<UserId, RejectionReason> {
    let subject = claim(claims, &options.user_claim).and_then(Value::as_str).unwrap_or_default();
    if subject.is_empty() || subject.chars().count() > SUBJECT_CHARS {
        return Err("the user claim is missing or too long");
    }
    Ok(subject.parse().unwrap_or_else(|_| UserId::derive(&["jwt", &options.issuer, subject])))
}

fn role(options: &IssuerOptions, claims: &Claims) -> Result<Role, RejectionReason> {
    let named = strings(claim(claims, &options.role_claim)).filter_map(|name| options.roles.role(name)).max();
    named.or(options.default_role).ok_or("the role claim names no role")
}

fn scopes(options: &IssuerOptions, claims: &Claims) -> Result<Vec<Scope>, RejectionReason> {
    if options.scopes_claim.is_empty() {
        return Ok(Vec::new());
    }
    let words = strings(claim(claims, &options.scopes_claim)).flat_map(str::split_whitespace);
    let names = words.filter_map(|word| word.strip_prefix(options.scope_prefix.as_str()));
    let mut scopes: Vec<Scope> = names.filter_map(|name| Scope::parse("scope", name).ok()).collect();
    scopes.sort_unstable();
    scopes.dedup();
    // An empty list would mean an unrestricted token.
    if scopes.is_empty() { Err("the scopes claim names no scope") } else { Ok(scopes) }
}

/// Returns the claim with exactly this name; otherwise the claim at this path, in which periods separate the names.
fn claim<'a>(claims: &'a Claims, path: &str) -> Option<&'a Value> {
    if let Some(value) = claims.get(path) {
        return Some(value);
    }
    let (first, rest) = path.split_once('.')?;
    rest.split('.').try_fold(claims.get(first)?, |value, name| value.get(name))
}

/// Returns a text as one item, and a list as its texts.
fn strings(value: Option<&Value>) -> impl Iterator<Item = &str> {
    let values = match value {
        Some(Value::Array(values)) => values.as_slice(),
        Some(value) => std::slice::from_ref(value),
        None => &[],
    };
    values.iter().filter_map(Value::as_str)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const ORG: &str = "org_0190b2f0a1c27d3e8f4a5b6c7d8e9f00";
    const USER: &str = "usr_0190b2f0a1c27d3e8f4a5b6c7d8e9f00";
    const NOW: i64 = 1_800_000_000;

    fn options() -> IssuerOptions {
        IssuerOptions { issuer: "me".into(), audiences: vec!["folio".into(), "two".into()], ..IssuerOptions::default() }
    }

    fn claims(changes: Value) -> Claims {
        let good = json!({ "iss": "me", "aud": "folio", "sub": "ada", "org": ORG, "role": "member", "iat": NOW, "exp": NOW + 600 });
        let (Value::Object(mut good), Value::Object(changes)) = (good, changes) else { panic!("objects") };
        for (name, value) in changes {
            if value.is_null() {
                good.remove(&name)
            } else {
                good.insert(name, value)
            };
        }
        good
    }

    fn claims_of(options: &IssuerOptions, changes: Value) -> Result<VerifiedClaims, RejectionReason> {
        read(options, &claims(changes), Timestamp::from_second(NOW).unwrap())
    }

    #[test]
    fn claims_define_the_user_the_organization_and_the_role() {
        let verified = claims_of(&options(), json!({})).unwrap();
        assert_eq!(
            (verified.org.as_str(), verified.role, verified.scopes.as_slice()),
            (ORG, Role::Member, [].as_slice())
        );
        assert_eq!(verified.expires_at, Timestamp::from_second(NOW + 630).unwrap());
        assert_eq!(verified.user, UserId::derive(&["jwt", "me", "ada"]));
        assert_eq!(
            claims_of(&options(), json!({ "sub": USER })).unwrap().user.as_str(),
            USER,
            "a Folio id is used unchanged"
        );
        let other = IssuerOptions { issuer: "you".into(), ..options() };
        assert_ne!(
            claims_of(&other, json!({ "iss": "you" })).unwrap().user,
            verified.user,
            "ada of another issuer is another user"
        );
        for audience in [json!(["x", "folio"]), json!("two")] {
            assert!(claims_of(&options(), json!({ "aud": audience })).is_ok());
        }
    }

    #[test]
    fn missing_claims_and_claims_of_another_type_are_refused() {
        for name in ["iss", "aud", "sub", "org", "role", "iat", "exp"] {
            for wrong in
                [json!(null), json!({}), json!([]), json!(true), json!(""), json!("other"), json!(-1), json!(1e300)]
            {
                // Any text is a valid subject.
                if (name, &wrong) != ("sub", &json!("other")) {
                    assert!(claims_of(&options(), json!({ name: wrong })).is_err(), "{name}: {wrong}");
                }
            }
        }
        assert!(claims_of(&options(), json!({ "sub": "x".repeat(256) })).is_err());
        assert!(claims_of(&options(), json!({ "nbf": "soon" })).is_err());
        assert!(claims_of(&options(), json!({ "org": [ORG] })).is_err(), "a list names no one organization");
    }

    #[test]
    fn time_is_bounded_at_both_ends() {
        let accepted = |changes| claims_of(&options(), changes).is_ok();
        assert!(accepted(json!({ "exp": NOW - 29 })) && !accepted(json!({ "exp": NOW - 30 })), "leeway after the end");
        assert!(
            accepted(json!({ "nbf": NOW + 30 })) && !accepted(json!({ "nbf": NOW + 31 })),
            "leeway before the beginning"
        );
        assert!(accepted(json!({ "iat": NOW + 30 })) && !accepted(json!({ "iat": NOW + 31 })), "issued in the future");
        let day = 86_400;
        assert!(
            accepted(json!({ "iat": NOW - day })) && !accepted(json!({ "iat": NOW - day - 31 })),
            "too old, although exp is later"
        );
        let verified = claims_of(&options(), json!({ "exp": NOW + 10 * day })).unwrap();
        assert_eq!(verified.expires_at, Timestamp::from_second(NOW + day + 30).unwrap(), "the age bounds the end");
        assert!(accepted(json!({ "exp": f64::from(1_800_000_000) + 0.5 })), "fractions are seconds, too");
    }

    #[test]
    fn an_issuer_reaches_the_organizations_that_are_its_own() {
        let other: OrgId = "org_0190b2f0a1c27d3e8f4a5b6c7d8e9f01".parse().unwrap();
        let fixed = IssuerOptions { organization: Some(other.clone()), ..options() };
        assert_eq!(claims_of(&fixed, json!({})).unwrap().org, other, "the claim is not read");
        let named = IssuerOptions { organizations: [("acme".into(), other.clone())].into(), ..options() };
        assert_eq!(claims_of(&named, json!({ "org": "acme" })).unwrap().org, other);
        assert!(claims_of(&named, json!({})).is_err(), "an id that is not in the list, though well-formed");
        assert!(claims_of(&named, json!({ "org": other.as_str() })).is_err(), "the table maps names only");
    }

    #[test]
    fn roles_are_mapped_and_the_highest_counts() {
        let mut options = IssuerOptions { role_claim: "realm_access.roles".into(), ..options() };
        options.roles.admin = vec!["boss".into()];
        let of_roles = |options: &IssuerOptions, roles: Value| {
            claims_of(options, json!({ "realm_access": { "roles": roles } })).map(|s| s.role)
        };
        assert_eq!(of_roles(&options, json!(["viewer", "boss", "else"])), Ok(Role::Admin));
        assert_eq!(of_roles(&options, json!("member")), Ok(Role::Member));
        for none in [json!(["admin"]), json!(["Boss"]), json!([1, {}]), json!({ "boss": true })] {
            assert!(of_roles(&options, none.clone()).is_err(), "{none}");
        }
        let lenient = IssuerOptions { default_role: Some(Role::Viewer), ..options.clone() };
        assert_eq!(of_roles(&lenient, json!([])), Ok(Role::Viewer));
        let whole = claims(json!({ "realm_access.roles": "boss" }));
        assert_eq!(role(&options, &whole), Ok(Role::Admin), "a name with dots in it");
    }

    #[test]
    fn scopes_limit_and_their_absence_does_not_open() {
        let limited = IssuerOptions { scopes_claim: "scope".into(), scope_prefix: "folio:".into(), ..options() };
        let scopes = |scope: Value| claims_of(&limited, json!({ "scope": scope })).map(|verified| verified.scopes);
        let two = vec![Scope::Documents, Scope::Usage];
        assert_eq!(scopes(json!("openid folio:usage folio:documents folio:usage")), Ok(two.clone()));
        assert_eq!(scopes(json!(["folio:documents", "folio:usage"])), Ok(two));
        for none in [json!(null), json!(""), json!("openid documents"), json!([]), json!("folio:everything")] {
            assert!(scopes(none.clone()).is_err(), "{none}");
        }
    }
}

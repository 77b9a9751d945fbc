//! Settings of an issuer of JWTs.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::time::Duration;

use folio_types::limits::DAY;
use folio_types::settings::Problems;
use folio_types::{OrgId, Role};
use jsonwebtoken::{Algorithm, AlgorithmFamily};
use reqwest::Url;

folio_types::settings! {
    /// An issuer whose JWTs are accepted as access tokens. Example in `folio.toml`:
    ///
    /// ```toml
    #[doc = include_str!("example.toml")]
    /// ```
    pub struct IssuerOptions {
        /// The value of the claim `iss`.
        pub issuer: String = String::new(),
        /// The accepted audiences: the claim `aud` must contain at least one.
        pub audiences: Vec<String> = Vec::new(),
        /// The URL of the JWK set (at most 256 KiB): `https://…`. Exactly one of `jwks_url` and `jwks_file` is
        /// required.
        pub jwks_url: String = String::new(),
        /// The file with the JWK set, which is read periodically.
        pub jwks_file: Option<PathBuf> = None,
        /// The certificate authority (PEM) of `jwks_url`. None: the public authorities.
        pub ca: Option<PathBuf> = None,
        /// Permits `http://` to an address that is not loopback, because the network to the issuer is trusted.
        pub insecure: bool = false,
        /// Interval at which the keys are read.
        pub refresh: Duration as "refresh_seconds" = Duration::from_secs(300),
        /// Minimum time between two reads, if a token names an unknown key or the last read failed.
        pub refetch: Duration as "refetch_seconds" = Duration::from_secs(10),
        /// Time-out of one read of the keys.
        pub fetch_timeout: Duration as "fetch_timeout_seconds" = Duration::from_secs(5),
        /// Maximum age of keys that cannot be refreshed. After that, the issuer's tokens are refused with
        /// `UNAVAILABLE`.
        pub stale: Duration as "stale_seconds" = DAY,
        /// The accepted algorithms. Only algorithms with a public key are allowed: RS256, RS384, RS512, PS256, PS384,
        /// PS512, ES256, ES384, EdDSA.
        pub algorithms: Vec<Algorithm> = asymmetric(),
        /// Maximum difference between the clocks of issuer and gateway.
        pub leeway: Duration as "leeway_seconds" = Duration::from_secs(30),
        /// Maximum age of a token since `iat`, regardless of `exp`.
        pub max_age: Duration as "max_age_seconds" = DAY,
        /// The organization of all tokens. None: `organization_claim` names it.
        pub organization: Option<OrgId> = None,
        /// The claim that names the organization.
        pub organization_claim: String = "org".to_owned(),
        /// The values of `organization_claim`, each with its organization. Empty: the claim contains an organization's
        /// id, and every organization is accepted, so that the issuer is trusted for all organizations.
        pub organizations: BTreeMap<String, OrgId> = BTreeMap::new(),
        /// The claim that names the user: a Folio id, or any other text, from which an id is derived. Users must not be
        /// able to change the value of this claim.
        pub user_claim: String = "sub".to_owned(),
        /// The claim that names the role. If the claim names several roles, the highest applies.
        pub role_claim: String = "role".to_owned(),
        /// The names of the roles in `role_claim`.
        pub roles: RoleNames = RoleNames::default(),
        /// The role of tokens whose claim names no role. None: these tokens are refused.
        pub default_role: Option<Role> = None,
        /// The claim that restricts a token to parts of the API: a list, or a text with blanks between the scopes. A
        /// token without the claim, or without a scope in the claim, is refused. Empty: no token is restricted.
        pub scopes_claim: String = String::new(),
        /// The prefix of the names of scopes in `scopes_claim`.
        pub scope_prefix: String = String::new(),
    }
}

folio_types::settings! {
    /// An issuer's names of the roles.
    pub struct RoleNames {
        pub viewer: Vec<String> = vec![Role::Viewer.as_str().to_owned()],
        pub member: Vec<String> = vec![Role::Member.as_str().to_owned()],
        pub admin: Vec<String> = vec![Role::Admin.as_str().to_owned()],
    }
}

impl RoleNames {
    pub(super) fn role(&self, name: &str) -> Option<Role> {
        let roles = [(Role::Admin, &self.admin), (Role::Member, &self.member), (Role::Viewer, &self.viewer)];
        roles.into_iter().find(|(_, names)| names.iter().any(|known| known == name)).map(|(role, _)| role)
    }
}

/// Returns the algorithms with a public key.
fn asymmetric() -> Vec<Algorithm> {
    let families = [AlgorithmFamily::Rsa, AlgorithmFamily::Ec, AlgorithmFamily::Ed];
    families.iter().flat_map(AlgorithmFamily::algorithms).copied().collect()
}

const ISSUERS_MAX: usize = 100;

pub(crate) fn check(issuers: &BTreeMap<String, IssuerOptions>, problems: &mut Problems) {
    problems.check(issuers.len() <= ISSUERS_MAX, "jwt", format_args!("has more than {ISSUERS_MAX} issuers"));
    let mut names = BTreeSet::new();
    for (name, options) in issuers {
        options.check(name, problems);
        problems.check(
            names.insert(&options.issuer),
            format_args!("jwt.{name}.issuer"),
            "is also set in another section",
        );
    }
}

impl IssuerOptions {
    fn check(&self, name: &str, problems: &mut Problems) {
        let at = |field: &str| format!("jwt.{name}.{field}");
        for (field, text) in
            [("issuer", &self.issuer), ("user_claim", &self.user_claim), ("role_claim", &self.role_claim)]
        {
            problems.check(!text.is_empty(), at(field), "is missing");
        }
        let has_audiences = !self.audiences.is_empty() && self.audiences.iter().all(|audience| !audience.is_empty());
        let reason = "must name at least one, because otherwise a token for any service would be accepted";
        problems.check(has_audiences, at("audiences"), reason);
        let has_organization = self.organization.is_some() || !self.organization_claim.is_empty();
        problems.check(has_organization, at("organization_claim"), "requires organization_claim or organization");
        let is_unambiguous = self.organization.is_none() || self.organizations.is_empty();
        problems.check(is_unambiguous, at("organizations"), "has no effect with organization");
        match (&self.jwks_file, self.jwks_url.as_str()) {
            (None, "") => problems.add(at("jwks_url"), "requires jwks_url or jwks_file"),
            (Some(_), "") => {}
            (None, _) => problems.check(self.url().is_ok(), at("jwks_url"), self.url().err().unwrap_or_default()),
            (Some(_), _) => problems.add(at("jwks_file"), "has no effect with jwks_url"),
        }
        problems.check(!self.algorithms.is_empty(), at("algorithms"), "must name at least one algorithm");
        let is_asymmetric = self.algorithms.iter().all(|algorithm| asymmetric().contains(algorithm));
        problems.check(is_asymmetric, at("algorithms"), "contains an algorithm without a public key");
        let (min, minute) = (Duration::from_millis(10), Duration::from_secs(60));
        for (field, value, min, max) in [
            ("refresh_seconds", self.refresh, min, DAY),
            ("refetch_seconds", self.refetch, min, DAY),
            ("fetch_timeout_seconds", self.fetch_timeout, min, minute),
            ("stale_seconds", self.stale, Duration::ZERO, 30 * DAY),
            ("leeway_seconds", self.leeway, Duration::ZERO, 5 * minute),
            ("max_age_seconds", self.max_age, Duration::from_secs(1), 30 * DAY),
        ] {
            problems.seconds(at(field), value, min, max);
        }
        problems.check(self.stale >= self.refresh, at("stale_seconds"), "is less than refresh_seconds");
    }

    /// Returns the URL of the keys. Error: the problem, for the operator.
    pub(super) fn url(&self) -> Result<Url, &'static str> {
        // The message omits the URL, because it may contain a password.
        let url = Url::parse(&self.jwks_url).map_err(|_| "is not a valid URL")?;
        if !url.username().is_empty() || url.password().is_some() {
            return Err("must not contain a user or a password");
        }
        match url.scheme() {
            "https" if url.has_host() => Ok(url),
            "http" if self.insecure || is_local(&url) => Ok(url),
            "http" => Err(
                "is plain text to an address that is not loopback, so that keys could be replaced in transit; use https or set insecure = true",
            ),
            _ => Err("must begin with https:// and a host"),
        }
    }
}

/// Returns true if a URL refers to this machine.
pub(super) fn is_local(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default().trim_matches(['[', ']']);
    host == "localhost" || host.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(serde::Deserialize)]
    struct File {
        gateway: crate::Options,
    }

    fn good() -> IssuerOptions {
        IssuerOptions {
            issuer: "https://login.example".to_owned(),
            audiences: vec!["folio".to_owned()],
            jwks_url: "https://login.example/keys".to_owned(),
            ..IssuerOptions::default()
        }
    }

    fn problems(issuers: &[IssuerOptions]) -> String {
        let mut found = Problems::of("gateway");
        check(&issuers.iter().enumerate().map(|(at, issuer)| (format!("i{at}"), issuer.clone())).collect(), &mut found);
        found.into_result().map_or_else(|bad| bad.to_string(), |()| String::new())
    }

    #[test]
    fn the_documented_example_is_read_and_good() {
        let file: File = toml::from_str(include_str!("example.toml")).unwrap();
        file.gateway.check().unwrap();
        let company = &file.gateway.jwt["company"];
        assert_eq!(company.roles.role("analyst"), Some(Role::Member));
        assert_eq!((company.default_role, company.roles.role("admin")), (Some(Role::Viewer), None));
        let programs = &file.gateway.jwt["programs"];
        assert_eq!((programs.organizations.len(), programs.algorithms.len()), (2, asymmetric().len()));
    }

    #[test]
    fn the_documented_example_has_every_key() {
        let example: toml::Table = toml::from_str(include_str!("example.toml")).unwrap();
        let issuers = example["gateway"]["jwt"].as_table().unwrap();
        let known = serde_json::to_value(IssuerOptions::default()).unwrap();
        let lacks = |name: &&String| issuers.values().all(|issuer| issuer.get(name.as_str()).is_none());
        assert_eq!(known.as_object().unwrap().keys().filter(lacks).collect::<Vec<_>>(), Vec::<&String>::new());
        let known = serde_json::to_value(RoleNames::default()).unwrap();
        let roles = issuers["company"]["roles"].as_table().unwrap();
        assert!(known.as_object().unwrap().keys().all(|role| roles.contains_key(role)), "{roles:?}");
    }

    #[test]
    fn insecure_issuer_options_are_reported() {
        assert_eq!(problems(&[good()]), "");
        let org: OrgId = "org_0190b2f0a1c27d3e8f4a5b6c7d8e9f00".parse().unwrap();
        let bad = [
            (IssuerOptions { issuer: String::new(), ..good() }, "gateway.jwt.i0.issuer"),
            (IssuerOptions { audiences: Vec::new(), ..good() }, "gateway.jwt.i0.audiences"),
            (IssuerOptions { jwks_url: String::new(), ..good() }, "gateway.jwt.i0.jwks_url: requires"),
            (IssuerOptions { jwks_file: Some("keys".into()), ..good() }, "gateway.jwt.i0.jwks_file"),
            (IssuerOptions { jwks_url: "http://login.example/keys".into(), ..good() }, "plain text"),
            (IssuerOptions { jwks_url: "https://u:p@login.example/".into(), ..good() }, "a password"),
            (IssuerOptions { jwks_url: "file:///etc/keys".into(), ..good() }, "https://"),
            (IssuerOptions { algorithms: vec![Algorithm::RS256, Algorithm::HS256], ..good() }, "without a public key"),
            (IssuerOptions { algorithms: Vec::new(), ..good() }, "gateway.jwt.i0.algorithms"),
            (IssuerOptions { organization_claim: String::new(), ..good() }, "gateway.jwt.i0.organization_claim"),
            (IssuerOptions { leeway: DAY, ..good() }, "gateway.jwt.i0.leeway_seconds"),
            (IssuerOptions { max_age: Duration::ZERO, ..good() }, "gateway.jwt.i0.max_age_seconds"),
            (IssuerOptions { stale: Duration::ZERO, ..good() }, "gateway.jwt.i0.stale_seconds"),
            (
                IssuerOptions { organization: Some(org.clone()), organizations: [("a".into(), org)].into(), ..good() },
                "gateway.jwt.i0.organizations",
            ),
        ];
        for (options, expected) in bad {
            let reported = problems(&[options]);
            assert!(reported.contains(expected) && !reported.contains("u:p"), "{expected}: {reported}");
        }
        assert!(problems(&[good(), good()]).contains("gateway.jwt.i1.issuer"), "two sections of one issuer");
        for local in ["http://127.0.0.1:1/k", "http://[::1]/k", "http://localhost/k"] {
            assert_eq!(problems(&[IssuerOptions { jwks_url: local.into(), ..good() }]), "", "{local}");
        }
        let trusted = IssuerOptions { jwks_url: "http://dex:5556/keys".into(), insecure: true, ..good() };
        assert_eq!(problems(&[trusted]), "");
    }
}

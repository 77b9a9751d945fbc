use super::*;
use folio_testkit::unknown_fields::add_unknown_fields;
use folio_types::{OrgId, Role, UserId};
use proptest::prelude::*;

const OLD: &str = "an old secret of the cluster 0123456789";
const NEW: &str = "a new secret of the cluster 01234567890";

fn signer(secrets: &[&str]) -> PrincipalSigner {
    PrincipalSigner::new(&secrets.iter().map(|text| Secret::new(text)).collect::<Vec<_>>()).unwrap()
}

fn principal() -> Principal {
    Principal::new(OrgId::derive(&["o"]), UserId::derive(&["u"]), Role::Member)
}

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(1_700_000_000 + second).unwrap()
}

fn signed(signer: &PrincipalSigner) -> MetadataMap {
    signed_for(signer, Some(principal()), 1)
}

fn signed_for(signer: &PrincipalSigner, principal: Option<Principal>, hop: u8) -> MetadataMap {
    let header = signer.sign(UnsignedClaims { principal, method: "Chat", hop }, &body(), at(0)).unwrap();
    MetadataMap::from_headers([(HEADER.parse().unwrap(), header)].into_iter().collect())
}

fn body() -> Digest {
    Digest::of(b"the body")
}

fn refusal(signer: &PrincipalSigner, metadata: &MetadataMap, now: Timestamp) -> String {
    let error = signer.verify(metadata, "Chat", Some(&body()), now).unwrap_err();
    assert_eq!((error.code, error.reason), (Code::Unauthenticated, Reason::InvalidPrincipal));
    error.message
}

#[test]
fn a_signed_principal_is_returned_by_the_verification() {
    let signer = signer(&[NEW]);
    let claims = signer.verify(&signed(&signer), "Chat", Some(&body()), at(29)).unwrap();
    assert_eq!((claims.principal, claims.hop), (Some(principal()), 1));
    let claims = signer.verify(&signed_for(&signer, None, 2), "Chat", Some(&body()), at(0)).unwrap();
    assert_eq!((claims.principal, claims.hop), (None, 2));
}

#[test]
fn claims_that_a_newer_build_signed_are_ignored() {
    let signer = signer(&[NEW]);
    let metadata = signed(&signer);
    let (claims, _) = metadata.get(HEADER).unwrap().to_str().unwrap().split_once('.').unwrap();
    let mut claims: serde_json::Value = serde_json::from_slice(&BASE64.decode(claims).unwrap()).unwrap();
    let parse = |claims: &serde_json::Value| {
        serde_json::from_value::<Claims>(claims.clone()).map(drop).map_err(|error| error.to_string())
    };
    assert_eq!(add_unknown_fields(&mut claims, parse), 2, "the claims and the principal");
    let newer = claims.to_string();
    let tag = mac(&signer.keys[0], newer.as_bytes()).finalize().into_bytes();
    let mut metadata = MetadataMap::new();
    metadata.insert(HEADER, format!("{}.{}", BASE64.encode(newer), BASE64.encode(tag)).parse().unwrap());
    let read = signer.verify(&metadata, "Chat", Some(&body()), at(0)).unwrap();
    assert_eq!((read.principal, read.hop), (Some(principal()), 1));
}

#[test]
fn a_header_is_valid_for_half_a_minute() {
    let signer = signer(&[NEW]);
    let metadata = signed(&signer);
    assert!(signer.verify(&metadata, "Chat", Some(&body()), at(34)).is_ok(), "clocks may differ a little");
    assert!(refusal(&signer, &metadata, at(35)).contains("expired"));
    assert!(signer.verify(&metadata, "Chat", Some(&body()), at(-5)).is_ok());
    assert!(refusal(&signer, &metadata, at(-6)).contains("not valid yet"));
}

#[test]
fn a_header_is_valid_only_for_its_own_rpc() {
    let signer = signer(&[NEW]);
    let error = signer.verify(&signed(&signer), "DeleteThread", Some(&body()), at(0)).unwrap_err();
    assert_eq!((error.reason, error.message.contains("another RPC")), (Reason::InvalidPrincipal, true));
}

#[test]
fn a_header_is_valid_only_for_its_own_body() {
    let signer = signer(&[NEW]);
    for received in [None, Some(Digest::of(b"another body"))] {
        let error = signer.verify(&signed(&signer), "Chat", received.as_ref(), at(0)).unwrap_err();
        assert_eq!((error.reason, error.message.contains("another body")), (Reason::InvalidPrincipal, true));
    }
}

#[test]
fn missing_repeated_and_malformed_headers_are_refused() {
    let signer = signer(&[NEW]);
    assert!(refusal(&signer, &MetadataMap::new(), at(0)).contains("missing"));
    let mut doubled = signed(&signer);
    doubled.append(HEADER, "x.y".parse().unwrap());
    assert!(refusal(&signer, &doubled, at(0)).contains("malformed"));
    for bad in ["", ".", "a", "a.b.c", "%.%", &"a".repeat(HEADER_BYTES + 1)] {
        let mut metadata = MetadataMap::new();
        metadata.insert(HEADER, bad.parse().unwrap());
        signer.verify(&metadata, "Chat", Some(&body()), at(0)).unwrap_err();
    }
}

#[test]
fn a_header_signed_with_an_unknown_secret_is_refused() {
    let (old, new) = (signer(&[OLD]), signer(&[NEW]));
    assert!(refusal(&new, &signed(&old), at(0)).contains("another secret"));
    // During a rotation, every process has both secrets and signs with the first.
    let (first, then) = (signer(&[OLD, NEW]), signer(&[NEW, OLD]));
    for (sender, verifier) in [(&old, &first), (&first, &old), (&first, &then), (&then, &first), (&then, &new)] {
        assert!(verifier.verify(&signed(sender), "Chat", Some(&body()), at(0)).is_ok());
    }
    assert!(old.verify(&signed(&then), "Chat", Some(&body()), at(0)).is_err());
}

#[test]
fn a_forged_body_is_refused_even_if_its_times_are_valid() {
    let signer = signer(&[NEW]);
    let method = "Chat".to_owned();
    let long = Claims {
        principal: None,
        method,
        issued: at(0).as_second(),
        expires: at(31).as_second(),
        hop: 0,
        body: body(),
    };
    let body = serde_json::to_vec(&long).unwrap();
    let header = |mac: &[u8]| {
        let mut metadata = MetadataMap::new();
        let text = format!("{}.{}", BASE64.encode(&body), BASE64.encode(mac));
        metadata.insert(HEADER, text.parse().unwrap());
        metadata
    };
    assert!(refusal(&signer, &header(b""), at(0)).contains("another secret"));
    let key: Hmac<Sha256> = Hmac::new_from_slice(NEW.as_bytes()).unwrap();
    let without_purpose = key.clone().chain_update(&body).finalize().into_bytes();
    assert!(refusal(&signer, &header(&without_purpose), at(0)).contains("another secret"));
    let good = mac(&key, &body).finalize().into_bytes();
    assert!(refusal(&signer, &header(&good[..16]), at(0)).contains("another secret"), "a truncated MAC is invalid");
    assert!(refusal(&signer, &header(&good), at(0)).contains("longer than permitted"));
}

#[test]
fn a_short_or_missing_secret_is_refused() {
    assert!(PrincipalSigner::new(&[]).is_err());
    assert!(PrincipalSigner::new(&[Secret::new(NEW), Secret::new("short")]).is_err());
    assert!(!format!("{:?}", signer(&[NEW])).contains("cluster"));
}

proptest! {
    #[test]
    fn a_modified_header_is_refused(at_byte in 0usize..300, flip in 1u8..=255) {
        let signer = signer(&[NEW]);
        let metadata = signed(&signer);
        let text = metadata.get(HEADER).unwrap().to_str().unwrap();
        let (claims, mac) = text.split_once('.').unwrap();
        let mut bytes = [BASE64.decode(claims).unwrap(), BASE64.decode(mac).unwrap()];
        let position = at_byte % (bytes[0].len() + bytes[1].len());
        match position.checked_sub(bytes[0].len()) {
            Some(position) => bytes[1][position] ^= flip,
            None => bytes[0][position] ^= flip,
        }
        let mut altered = MetadataMap::new();
        let text = format!("{}.{}", BASE64.encode(&bytes[0]), BASE64.encode(&bytes[1]));
        altered.insert(HEADER, text.parse().unwrap());
        prop_assert!(signer.verify(&altered, "Chat", Some(&body()), at(0)).is_err());
    }
}

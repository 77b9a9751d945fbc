use super::*;
use folio_types::{OrgId, Role, UserId};
use proptest::prelude::*;

const OLD: &str = "an old secret of the cluster 0123456789";
const NEW: &str = "a new secret of the cluster 01234567890";

fn seal(secrets: &[&str]) -> PrincipalSigner {
    PrincipalSigner::new(&secrets.iter().map(|text| Secret::new(text)).collect::<Vec<_>>()).unwrap()
}

fn principal() -> Principal {
    Principal { org: OrgId::derive(&["o"]), user: UserId::derive(&["u"]), role: Role::Member }
}

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(1_700_000_000 + second).unwrap()
}

fn signed(seal: &PrincipalSigner) -> MetadataMap {
    let mut metadata = MetadataMap::new();
    seal.sign(Some(&principal()), "Chat", 1, at(0), &mut metadata).unwrap();
    metadata
}

fn why(seal: &PrincipalSigner, metadata: &MetadataMap, now: Timestamp) -> String {
    let error = seal.check(metadata, "Chat", now).unwrap_err();
    assert_eq!((error.code, error.reason), (Code::Unauthenticated, Reason::InvalidPrincipal));
    error.message
}

#[test]
fn a_signed_principal_is_returned_by_the_check() {
    let seal = seal(&[NEW]);
    let claims = seal.check(&signed(&seal), "Chat", at(29)).unwrap();
    assert_eq!((claims.principal, claims.hop), (Some(principal()), 1));
    let mut metadata = MetadataMap::new();
    seal.sign(None, "Chat", 2, at(0), &mut metadata).unwrap();
    let claims = seal.check(&metadata, "Chat", at(0)).unwrap();
    assert_eq!((claims.principal, claims.hop), (None, 2));
}

#[test]
fn a_header_is_valid_for_half_a_minute() {
    let seal = seal(&[NEW]);
    let metadata = signed(&seal);
    assert!(seal.check(&metadata, "Chat", at(34)).is_ok(), "clocks may differ a little");
    assert!(why(&seal, &metadata, at(35)).contains("expired"));
    assert!(seal.check(&metadata, "Chat", at(-5)).is_ok());
    assert!(why(&seal, &metadata, at(-6)).contains("not valid yet"));
}

#[test]
fn a_header_is_valid_only_for_its_own_rpc() {
    let seal = seal(&[NEW]);
    let error = seal.check(&signed(&seal), "DeleteThread", at(0)).unwrap_err();
    assert_eq!((error.reason, error.message.contains("another RPC")), (Reason::InvalidPrincipal, true));
}

#[test]
fn missing_repeated_and_malformed_headers_are_refused() {
    let seal = seal(&[NEW]);
    assert!(why(&seal, &MetadataMap::new(), at(0)).contains("missing"));
    let mut doubled = signed(&seal);
    doubled.append(HEADER, "x.y".parse().unwrap());
    assert!(why(&seal, &doubled, at(0)).contains("malformed"));
    for bad in ["", ".", "a", "a.b.c", "%.%", &"a".repeat(HEADER_BYTES + 1)] {
        let mut metadata = MetadataMap::new();
        metadata.insert(HEADER, bad.parse().unwrap());
        seal.check(&metadata, "Chat", at(0)).unwrap_err();
    }
}

#[test]
fn a_header_signed_with_an_unknown_secret_is_refused() {
    let (old, new) = (seal(&[OLD]), seal(&[NEW]));
    assert!(why(&new, &signed(&old), at(0)).contains("another secret"));
    // During a rotation, every process has both secrets and signs with the first.
    let (first, then) = (seal(&[OLD, NEW]), seal(&[NEW, OLD]));
    for (signs, checks) in [(&old, &first), (&first, &old), (&first, &then), (&then, &first), (&then, &new)] {
        assert!(checks.check(&signed(signs), "Chat", at(0)).is_ok());
    }
    assert!(old.check(&signed(&then), "Chat", at(0)).is_err());
}

#[test]
fn a_forged_body_is_refused_even_if_its_times_are_valid() {
    let seal = seal(&[NEW]);
    let call = "Chat".to_owned();
    let long = Claims { principal: None, call, issued: at(0).as_second(), expires: at(31).as_second(), hop: 0 };
    let body = serde_json::to_vec(&long).unwrap();
    let header = |mac: &[u8]| {
        let mut metadata = MetadataMap::new();
        let text = format!("{}.{}", BASE64.encode(&body), BASE64.encode(mac));
        metadata.insert(HEADER, text.parse().unwrap());
        metadata
    };
    assert!(why(&seal, &header(b""), at(0)).contains("another secret"));
    let key: Hmac<Sha256> = Hmac::new_from_slice(NEW.as_bytes()).unwrap();
    let without_purpose = key.clone().chain_update(&body).finalize().into_bytes();
    assert!(why(&seal, &header(&without_purpose), at(0)).contains("another secret"));
    let good = mac(&key, &body).finalize().into_bytes();
    assert!(why(&seal, &header(&good[..16]), at(0)).contains("another secret"), "a truncated MAC is invalid");
    assert!(why(&seal, &header(&good), at(0)).contains("longer than permitted"));
}

#[test]
fn a_short_or_missing_secret_is_refused() {
    assert!(PrincipalSigner::new(&[]).is_err());
    assert!(PrincipalSigner::new(&[Secret::new(NEW), Secret::new("short")]).is_err());
    assert!(!format!("{:?}", seal(&[NEW])).contains("cluster"));
}

proptest! {
    #[test]
    fn a_modified_header_is_refused(at_byte in 0usize..300, flip in 1u8..=255) {
        let seal = seal(&[NEW]);
        let metadata = signed(&seal);
        let text = metadata.get(HEADER).unwrap().to_str().unwrap();
        let (body, given) = text.split_once('.').unwrap();
        let mut bytes = [BASE64.decode(body).unwrap(), BASE64.decode(given).unwrap()];
        let place = at_byte % (bytes[0].len() + bytes[1].len());
        match place.checked_sub(bytes[0].len()) {
            Some(place) => bytes[1][place] ^= flip,
            None => bytes[0][place] ^= flip,
        }
        let mut altered = MetadataMap::new();
        let text = format!("{}.{}", BASE64.encode(&bytes[0]), BASE64.encode(&bytes[1]));
        altered.insert(HEADER, text.parse().unwrap());
        prop_assert!(seal.check(&altered, "Chat", at(0)).is_err());
    }
}

//! Certificates for a server and its clients.

use folio_storage_client::Tls;
use folio_test_servers::Identity;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa, KeyPair};

/// Returns a new authority, and a certificate of it for 127.0.0.1 that servers and clients can use.
pub(crate) fn identity() -> Identity {
    let mut authority = CertificateParams::new(vec![]).unwrap();
    authority.distinguished_name.push(DnType::CommonName, "an authority");
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority = CertifiedIssuer::self_signed(authority, KeyPair::generate().unwrap()).unwrap();
    let mut params = CertificateParams::new(vec!["127.0.0.1".to_owned(), "localhost".to_owned()]).unwrap();
    params.distinguished_name.push(DnType::CommonName, "a server");
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
    let key = KeyPair::generate().unwrap();
    let certificate = params.signed_by(&key, &authority).unwrap();
    Identity { authority_pem: authority.pem(), certificate_pem: certificate.pem(), key_pem: key.serialize_pem() }
}

/// Writes the files of a client that trusts this authority and uses this certificate. The folder is not removed.
pub(crate) fn client_files(identity: &Identity) -> Tls {
    let folder = tempfile::Builder::new().prefix("folio-identity-").tempdir().unwrap().keep();
    let file = |name: &str, text: &str| {
        let path = folder.join(name);
        std::fs::write(&path, text).unwrap();
        path
    };
    let authorities = Some(file("ca.pem", &identity.authority_pem));
    Tls {
        authorities,
        client: Some((file("client.pem", &identity.certificate_pem), file("key.pem", &identity.key_pem))),
    }
}

//! The mesh's authority: signs who pods are, and nothing that the API server would believe.
//!
//! It is a root of its own. Were it below the cluster's authority, whoever has a pod's certificate could show it to the
//! API server as that of a user. Its key is made of the cluster's, so that all servers have the same one without sharing
//! another secret, and it can be had from nothing else.

use jiff::{SignedDuration, Timestamp};
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer,
    KeyPair, KeyUsagePurpose, SanType,
};
use ring::hmac;

use super::authority::{random_serial, set_lifetime};
use super::csr::{Csr, CsrError};
use super::{Identity, PkiError, pem};

const NAME: &str = "minik8s-mesh-ca";
const PURPOSE: &[u8] = b"minik8s mesh authority v1";
const AUTHORITY_LIFETIME: SignedDuration = SignedDuration::from_hours(24 * 365);
/// Of a pod's certificate. What is asked for beyond it is not given.
const LONGEST: SignedDuration = SignedDuration::from_hours(24);
const SHORTEST: SignedDuration = SignedDuration::from_mins(10);
/// What comes before the 32 bytes of an Ed25519 key in PKCS#8.
const PKCS8: [u8; 16] = [0x30, 0x2e, 2, 1, 0, 0x30, 5, 6, 3, 0x2b, 0x65, 0x70, 4, 0x22, 4, 0x20];

/// A certificate for the identity in the request, and the authority's own: what a pod must trust.
pub(super) fn sign(
    cluster: &Identity,
    request: &Csr,
    seconds: Option<i32>,
    now: Timestamp,
) -> Result<String, CsrError> {
    let [identity] = request.uris.as_slice() else { return Err(CsrError::OneUri) };
    let (issuer, authority) = authority(cluster, now)?;
    let failed = |source| PkiError::Issue { subject: identity.clone(), source };
    let mut params = CertificateParams::default();
    params.distinguished_name = named("minik8s-mesh");
    params.subject_alt_names = vec![SanType::URI(identity.as_str().try_into().map_err(failed)?)];
    params.is_ca = IsCa::ExplicitNoCa;
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages =
        vec![ExtendedKeyUsagePurpose::ClientAuth, ExtendedKeyUsagePurpose::ServerAuth];
    params.serial_number = Some(random_serial());
    let asked = seconds.map_or(LONGEST, |seconds| SignedDuration::from_secs(seconds.into()));
    set_lifetime(&mut params, now, now.as_second() + asked.clamp(SHORTEST, LONGEST).as_secs());
    let certificate = params.signed_by(request.public_key(), &issuer).map_err(failed)?;
    Ok(pem::encode("CERTIFICATE", certificate.der()) + &authority)
}

/// The authority and its certificate. Certificates of several servers differ in their times alone.
fn authority(cluster: &Identity, now: Timestamp) -> Result<(Issuer<'static, KeyPair>, String), PkiError> {
    let failed = |source| PkiError::Issue { subject: NAME.to_owned(), source };
    let secret = hmac::Key::new(hmac::HMAC_SHA256, cluster.key_der().secret_der());
    let seed = hmac::sign(&secret, PURPOSE);
    let key = KeyPair::try_from([&PKCS8[..], seed.as_ref()].concat()).map_err(failed)?;
    let mut params = CertificateParams::default();
    params.distinguished_name = named(NAME);
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature, KeyUsagePurpose::KeyCertSign];
    params.serial_number = Some(random_serial());
    set_lifetime(&mut params, now, now.as_second() + AUTHORITY_LIFETIME.as_secs());
    let certificate = params.self_signed(&key).map_err(failed)?;
    let text = pem::encode("CERTIFICATE", certificate.der());
    Ok((Issuer::new(params, key), text))
}

fn named(name: &str) -> DistinguishedName {
    let mut subject = DistinguishedName::new();
    subject.push(DnType::CommonName, name);
    subject
}

#[cfg(test)]
mod tests {
    use rcgen::PublicKeyData;
    use rustls_pki_types::CertificateDer;
    use rustls_pki_types::pem::PemObject;
    use x509_parser::extensions::GeneralName;
    use x509_parser::prelude::{FromDer, X509Certificate};

    use super::super::authority::Authority;
    use super::super::tests::now;
    use super::super::{Csr, Signer};
    use super::*;

    const ANN: &str = "spiffe://cluster.local/ns/shop/sa/ann";

    fn request(uris: &[&str], dns: &[&str]) -> (Csr, KeyPair) {
        let key = KeyPair::generate().unwrap();
        let mut params =
            CertificateParams::new(dns.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>()).unwrap();
        params.distinguished_name = named("system:masters");
        params.subject_alt_names.extend(uris.iter().map(|uri| SanType::URI((*uri).try_into().unwrap())));
        let pem = params.serialize_request(&key).unwrap().pem().unwrap();
        (Csr::parse(&pem).unwrap(), key)
    }

    fn certificates(text: &str) -> Vec<CertificateDer<'static>> {
        CertificateDer::pem_slice_iter(text.as_bytes()).map(Result::unwrap).collect()
    }

    /// Whatever the subject of the request says, the certificate is the mesh's: for one identity, for a day, and not of
    /// the authority that the API server believes.
    #[test]
    fn certificate_is_of_the_meshs_own_authority() {
        let cluster = Authority::create(now()).unwrap();
        let (csr, key) = request(&[ANN], &[]);
        let usages = ["digital signature", "client auth", "server auth"].map(str::to_owned);
        csr.check(Signer::Mesh, &usages).unwrap();
        let chain = certificates(&sign(&cluster, &csr, Some(1_000_000), now()).unwrap());
        let [leaf, root] = &chain[..] else { panic!("{}", chain.len()) };
        let (_, leaf) = X509Certificate::from_der(leaf).unwrap();
        let (_, root) = X509Certificate::from_der(root).unwrap();
        let (_, clusters) = X509Certificate::from_der(cluster.certificate_der()).unwrap();
        leaf.verify_signature(Some(root.public_key())).unwrap();
        root.verify_signature(Some(root.public_key())).unwrap();
        assert!(leaf.verify_signature(Some(clusters.public_key())).is_err());
        assert!(root.verify_signature(Some(clusters.public_key())).is_err());
        assert_eq!(leaf.public_key().subject_public_key.data.as_ref(), key.der_bytes());
        assert!(leaf.subject().iter_common_name().all(|name| name.as_str() == Ok("minik8s-mesh")));
        let names = leaf.subject_alternative_name().unwrap().unwrap().value.general_names.clone();
        assert_eq!(names, [GeneralName::URI(ANN)]);
        let day = leaf.validity().not_after.timestamp() - now().as_second();
        assert_eq!(day, 24 * 3600);
        assert!(!leaf.is_ca() && root.is_ca());
        // Another server, at another time, has the same key; another cluster has another.
        let later = now() + SignedDuration::from_hours(5);
        let again = certificates(&sign(&cluster, &csr, None, later).unwrap());
        let (_, again) = X509Certificate::from_der(&again[1]).unwrap();
        assert_eq!(again.public_key(), root.public_key());
        let other = certificates(&sign(&Authority::create(now()).unwrap(), &csr, None, now()).unwrap());
        let (_, other) = X509Certificate::from_der(&other[1]).unwrap();
        assert_ne!(other.public_key(), root.public_key());
    }

    #[test]
    fn request_names_one_identity_and_nothing_else() {
        let check = |uris: &[&str], dns: &[&str], usages: &[&str]| {
            let usages: Vec<String> = usages.iter().map(|usage| (*usage).to_owned()).collect();
            request(uris, dns).0.check(Signer::Mesh, &usages).is_ok()
        };
        let both = ["client auth", "server auth"];
        assert!(check(&[ANN], &[], &both));
        assert!(!check(&[], &[], &both));
        assert!(!check(&[ANN, "spiffe://cluster.local/ns/shop/sa/bob"], &[], &both));
        assert!(!check(&[ANN], &["kubernetes"], &both));
        assert!(!check(&["spiffe://cluster.local/ns/shop"], &[], &both), "not of the form");
        assert!(!check(&[ANN], &[], &["client auth", "cert sign"]));
        assert!(!check(&[ANN], &[], &["client auth"]));
        // Other signers do not take such a request.
        let nodes = request(&[ANN], &[]).0.check(Signer::KubeletClient, &["client auth".to_owned()]);
        assert!(nodes.is_err());
    }
}

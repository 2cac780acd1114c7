//! Two proxies that meet, with certificates of a pretended authority.

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, SanType,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};
use tokio_rustls::{TlsAcceptor, TlsConnector};

use super::*;
use crate::sidecar::hello;

pub struct FakeAuthority {
    issuer: Issuer<'static, KeyPair>,
    certificate: String,
}

impl FakeAuthority {
    pub fn new() -> Self {
        let key = KeyPair::generate_for(&rcgen::PKCS_ED25519).unwrap();
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, "mesh");
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        let certificate = params.self_signed(&key).unwrap().pem();
        FakeAuthority { issuer: Issuer::new(params, key), certificate }
    }

    pub fn issue(&self, uri: &str) -> Credentials {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::default();
        params.subject_alt_names = vec![SanType::URI(uri.try_into().unwrap())];
        params.extended_key_usages =
            vec![ExtendedKeyUsagePurpose::ClientAuth, ExtendedKeyUsagePurpose::ServerAuth];
        let certificate = params.signed_by(&key, &self.issuer).unwrap().pem();
        Credentials { certificates: certificate + &self.certificate, key: key.serialize_pem() }
    }

    pub fn account(&self, account: &str) -> Tls {
        let (namespace, name) = account.split_once('/').unwrap();
        Tls::new(&self.issue(&Identity::new("cluster.local", namespace, name).to_string())).unwrap()
    }
}

/// Who the server saw, or that they did not come together.
async fn meet(client: &Tls, expects: &str, server: &Tls) -> Result<Option<Identity>, ()> {
    let (near, far) = duplex(64 << 10);
    let config = client.client(expects).unwrap();
    let connecting = async move {
        let name = ServerName::try_from("backend.invalid").unwrap();
        let mut stream = TlsConnector::from(config).connect(name, near).await.map_err(drop)?;
        stream.write_all(b"hello").await.map_err(drop)?;
        let mut answer = [0; 5];
        stream.read_exact(&mut answer).await.map_err(drop).map(drop)
    };
    let accepting = async move {
        let mut stream = TlsAcceptor::from(server.server.clone()).accept(far).await.map_err(drop)?;
        let mut asked = [0; 5];
        stream.read_exact(&mut asked).await.map_err(drop)?;
        stream.write_all(&asked).await.map_err(drop)?;
        Ok(server.peer(stream.get_ref().1.peer_certificates()))
    };
    let (connected, accepted) = tokio::join!(connecting, accepting);
    connected.and(accepted)
}

#[tokio::test]
async fn both_ends_prove_who_they_are() {
    let authority = FakeAuthority::new();
    let (web, reviews) = (authority.account("shop/web"), authority.account("shop/reviews"));
    let seen = meet(&web, "shop/reviews", &reviews).await.unwrap().unwrap();
    assert_eq!(seen.to_string(), "spiffe://cluster.local/ns/shop/sa/web");
    assert!(meet(&web, "shop/bank", &reviews).await.is_err(), "somebody else answers");
    let other = FakeAuthority::new();
    assert!(meet(&other.account("shop/web"), "shop/reviews", &reviews).await.is_err(), "another authority");
    assert!(meet(&web, "shop/reviews", &other.account("shop/reviews")).await.is_err());
    let foreign = Tls::new(&authority.issue("spiffe://elsewhere/ns/shop/sa/web")).unwrap();
    assert_eq!(foreign.identity.domain, "elsewhere");
    // Its own domain is what it expects of others, too, so it would not even connect.
    assert!(meet(&foreign, "shop/reviews", &reviews).await.is_err());
}

#[test]
fn what_a_proxy_sends_first_is_known() {
    let web = FakeAuthority::new().account("shop/web");
    let hello = |config: Arc<ClientConfig>| {
        let name = ServerName::try_from("backend.invalid").unwrap();
        let mut connection = rustls::ClientConnection::new(config, name).unwrap();
        let mut bytes = Vec::new();
        connection.write_tls(&mut bytes).unwrap();
        bytes
    };
    let config = web.client("shop/reviews").unwrap();
    let ours = hello(config.clone());
    assert_eq!(hello::is_mesh(&ours), Some(true));
    for length in 0..ours.len() {
        assert_eq!(hello::is_mesh(&ours[..length]), None, "{length}");
    }
    let mut plain = ClientConfig::clone(&config);
    plain.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    assert_eq!(hello::is_mesh(&hello(Arc::new(plain))), Some(false), "the pod's own TLS");
    assert_eq!(hello::is_mesh(b"GET / HTTP/1.1\r\n"), Some(false));
    assert_eq!(hello::is_mesh(b"\x16GET / HTTP/1.1\r\n"), Some(false));
}

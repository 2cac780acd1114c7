//! An etcd that speaks TLS only and lets nobody in without a certificate: a server whose cluster is there, its backup
//! and copy; and strangers, who are told why they stay outside.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use http::Method;
use minik8s_store::EtcdAddress;
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, ExtendedKeyUsagePurpose, IsCa, KeyPair,
    KeyUsagePurpose,
};
use serde_json::json;

use crate::harness::control_plane::Server;
use crate::harness::etcd_server::{EtcdServer, Tls};

/// An authority, and who has a certificate of it: files in one directory.
struct Authority {
    directory: PathBuf,
    issuer: CertifiedIssuer<'static, KeyPair>,
}

impl Authority {
    fn new(directory: &Path) -> Authority {
        std::fs::create_dir(directory).unwrap();
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
        let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        std::fs::write(directory.join("ca.pem"), issuer.pem()).unwrap();
        Authority { directory: directory.to_owned(), issuer }
    }

    fn file(&self, name: &str) -> String {
        self.directory.join(name).to_str().unwrap().to_owned()
    }

    /// `NAME.pem` and `NAME.key`.
    fn issue(&self, name: &str, address: &str) {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(vec![address.to_owned()]).unwrap();
        params.extended_key_usages =
            vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        std::fs::write(self.directory.join(format!("{name}.pem")), certificate.pem()).unwrap();
        std::fs::write(self.directory.join(format!("{name}.key")), key.serialize_pem()).unwrap();
    }

    /// The flags of somebody who trusts this authority, and shows that certificate.
    fn flags(&self, name: Option<(&Authority, &str)>) -> Vec<String> {
        let mut flags = vec!["--etcd-cafile".to_owned(), self.file("ca.pem")];
        if let Some((authority, name)) = name {
            flags.extend(["--etcd-certfile".to_owned(), authority.file(&format!("{name}.pem"))]);
            flags.extend(["--etcd-keyfile".to_owned(), authority.file(&format!("{name}.key"))]);
        }
        flags
    }
}

async fn start(authority: &Authority, member: &str) -> EtcdServer {
    let file = |name: &str| authority.file(name);
    let read = |name: &str| std::fs::read(file(name)).unwrap();
    let flags = [
        ["--cert-file", &file(&format!("{member}.pem"))],
        ["--key-file", &file(&format!("{member}.key"))],
        ["--trusted-ca-file", &file("ca.pem")],
    ];
    let mut flags: Vec<String> = flags.concat().into_iter().map(str::to_owned).collect();
    flags.push("--client-cert-auth".to_owned());
    let client = EtcdAddress {
        endpoints: Vec::new(),
        authority: Some(read("ca.pem")),
        identity: Some((read("server.pem"), read("server.key"))),
    };
    EtcdServer::start_with(Some(Tls { flags, client })).await
}

fn minik8s(arguments: &[&str], flags: &[String]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_minik8s")).args(arguments).args(flags).output().unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_whom_etcd_knows_is_let_in() {
    let scratch = tempfile::tempdir().unwrap();
    let path = |name: &str| scratch.path().join(name).to_str().unwrap().to_owned();
    let ours = Authority::new(&scratch.path().join("ours"));
    let theirs = Authority::new(&scratch.path().join("theirs"));
    ours.issue("etcd", "127.0.0.1");
    ours.issue("server", "server.example");
    theirs.issue("server", "server.example");
    let etcd = start(&ours, "etcd").await;
    let url = format!("etcd={}", etcd.endpoint());
    let known = ours.flags(Some((&ours, "server")));

    let directory = scratch.path().join("data");
    std::fs::create_dir(&directory).unwrap();
    let mut server = Server::new(&directory);
    let flags: Vec<&str> = ["--store", &url].into_iter().chain(known.iter().map(String::as_str)).collect();
    server.start_with(&flags);
    let mut connection = server.ready().await.connect().await.unwrap();
    let maps = "/api/v1/namespaces/default/configmaps";
    let body = json!({"metadata": {"name": "kept"}});
    assert_eq!(connection.send(Method::POST, maps, "application/json", &body).await.unwrap().0, 201);
    server.stop();

    // Everything that opens a store takes the same flags.
    let succeed = |arguments: &[&str]| {
        let output = minik8s(arguments, &known);
        assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    };
    succeed(&["backup", &path("backup"), "--store", &url]);
    succeed(&["store", "copy", "--from", &url, "--to", &format!("redb:{}", path("copy"))]);
    succeed(&["restore", &path("backup"), "--store", &url, "--force"]);
    let mut server = Server::new(&scratch.path().join("copy"));
    server.start();
    let mut connection = server.ready().await.connect().await.unwrap();
    assert_eq!(connection.get(&format!("{maps}/kept")).await.unwrap().0, 200);
    server.stop();

    let check = |url: &str, flags: &[String], expected: &str| {
        let output = minik8s(&["backup", &path("stolen"), "--store", url], flags);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && said.contains(expected), "{flags:?}: {said}");
        assert!(!Path::new(&path("stolen")).exists());
    };
    check(&url, &ours.flags(None), "it wants a certificate of us");
    check(&url, &ours.flags(Some((&theirs, "server"))), "it wants another certificate of us");
    check(&url, &theirs.flags(Some((&ours, "server"))), "of another authority");
    check(&url, &[], "of another authority");
    check(&url.replace("127.0.0.1", "localhost"), &known, "its certificate names other addresses");
    check(&url.replace("https", "http"), &[], "check that it runs and that the addresses are right");
    check(&url.replace("https", "http"), &known, "use https://");
    check(&url, &["--etcd-cafile".to_owned(), path("missing.pem")], "missing.pem");
    // The server says the same, and ends.
    let output = minik8s(&["server", "--no-agent", "--store", &url, "--data-dir", &path("none")], &[]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && said.contains("of another authority"), "{said}");
}

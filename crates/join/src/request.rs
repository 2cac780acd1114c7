//! Asking the cluster for a certificate.

use std::net::IpAddr;
use std::time::Duration;

use k8s_openapi::ByteString;
use k8s_openapi::api::certificates::v1::{CertificateSigningRequest, CertificateSigningRequestSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::{Api, PostParams};
use kube::runtime::wait::await_condition;
use minik8s_auth::pki::Identity;
use rcgen::{CertificateParams, DnType, KeyPair, PublicKeyData};
use sha2::{Digest, Sha256};

use crate::JoinError;

/// The cluster decides about nodes by itself, at once.
const TIMEOUT: Duration = Duration::from_secs(30);

/// What a certificate is to be for.
#[derive(Debug, Clone, Copy)]
pub enum Purpose<'a> {
    Client,
    /// The node's own port, reached under its name and its addresses.
    Serving(&'a [IpAddr]),
}

/// A certificate for this key, as soon as it is issued.
pub async fn obtain(
    client: &kube::Client,
    node: &str,
    key: &KeyPair,
    purpose: Purpose<'_>,
) -> Result<Identity, JoinError> {
    let api: Api<CertificateSigningRequest> = Api::all(client.clone());
    let request = request(node, key, purpose).map_err(JoinError::Key)?;
    let name = request.metadata.name.clone().unwrap_or_default();
    match api.create(&PostParams::default(), &request).await {
        // Asked before, by this machine: the name is made of the key.
        Err(kube::Error::Api(status)) if status.code == 409 => {}
        other => drop(other?),
    }
    let answered = await_condition(api.clone(), &name, |seen: Option<&CertificateSigningRequest>| {
        seen.is_some_and(|seen| certificate(seen).is_some() || refusal(seen).is_some())
    });
    let answered = match tokio::time::timeout(TIMEOUT, answered).await {
        Ok(Ok(Some(answered))) => answered,
        _ => return Err(JoinError::Undecided(name)),
    };
    if let Some(why) = refusal(&answered) {
        return Err(JoinError::Denied(why));
    }
    let certificate = certificate(&answered).unwrap_or_default();
    Identity::parse(&format!("{certificate}{}", key.serialize_pem())).map_err(JoinError::Unusable)
}

fn request(
    node: &str,
    key: &KeyPair,
    purpose: Purpose<'_>,
) -> Result<CertificateSigningRequest, rcgen::Error> {
    let (kind, signer, usage) = match purpose {
        Purpose::Client => ("client", "kubernetes.io/kube-apiserver-client-kubelet", "client auth"),
        Purpose::Serving(_) => ("serving", "kubernetes.io/kubelet-serving", "server auth"),
    };
    let mut params = match purpose {
        Purpose::Client => CertificateParams::default(),
        Purpose::Serving(addresses) => {
            let names: Vec<String> =
                [node.to_owned()].into_iter().chain(addresses.iter().map(ToString::to_string)).collect();
            CertificateParams::new(names)?
        }
    };
    params.distinguished_name = rcgen::DistinguishedName::new();
    params.distinguished_name.push(DnType::OrganizationName, "system:nodes");
    params.distinguished_name.push(DnType::CommonName, format!("system:node:{node}"));
    let pem = params.serialize_request(key)?.pem()?;
    let hash = Sha256::digest(key.der_bytes());
    let hash: String = hash.iter().take(10).map(|byte| format!("{byte:02x}")).collect();
    Ok(CertificateSigningRequest {
        metadata: ObjectMeta { name: Some(format!("node-{kind}-{hash}")), ..ObjectMeta::default() },
        spec: CertificateSigningRequestSpec {
            request: ByteString(pem.into_bytes()),
            signer_name: signer.to_owned(),
            usages: Some(vec!["digital signature".to_owned(), usage.to_owned()]),
            ..CertificateSigningRequestSpec::default()
        },
        status: None,
    })
}

fn certificate(request: &CertificateSigningRequest) -> Option<String> {
    let certificate = request.status.as_ref()?.certificate.as_ref()?;
    Some(String::from_utf8_lossy(&certificate.0).into_owned()).filter(|text| !text.is_empty())
}

fn refusal(request: &CertificateSigningRequest) -> Option<String> {
    let conditions = request.status.as_ref()?.conditions.as_ref()?;
    let no = conditions.iter().find(|condition| matches!(condition.type_.as_str(), "Denied" | "Failed"))?;
    Some(no.message.clone().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use minik8s_auth::pki::{Csr, Signer};

    use super::*;

    #[test]
    fn requests_are_what_the_signers_accept() {
        let key = KeyPair::generate().unwrap();
        let check = |purpose: Purpose<'_>| {
            let request = request("n1", &key, purpose).unwrap();
            let csr = Csr::parse(std::str::from_utf8(&request.spec.request.0).unwrap()).unwrap();
            let signer = Signer::by_name(&request.spec.signer_name).unwrap();
            csr.check(signer, &request.spec.usages.unwrap()).unwrap();
            assert_eq!(csr.node_name(), Some("n1"));
            (request.metadata.name, csr)
        };
        let (client, _) = check(Purpose::Client);
        let (serving, csr) =
            check(Purpose::Serving(&["10.0.0.5".parse().unwrap(), "fd00::5".parse().unwrap()]));
        assert_ne!(client, serving);
        let ips: Vec<String> = csr.alt_names.ips.iter().map(ToString::to_string).collect();
        assert!(csr.alt_names.dns.contains("n1"));
        assert_eq!(ips, ["10.0.0.5", "fd00::5"]);
        assert!(check(Purpose::Serving(&[])).1.alt_names.ips.is_empty());
    }
}

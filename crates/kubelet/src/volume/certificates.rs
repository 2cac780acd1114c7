//! Certificates for `podCertificate` sources of projected volumes: a key made here, a PodCertificateRequest that a signer
//! answers, a new one when the signer says that it is time.
//!
//! What a source has is a [`Credential`] that moves by the pure [`settle`]; only [`CertificateCache::fetch`] talks to the
//! API server. A refusal is final for the pod, as upstream has it. Keys never leave memory but into the pod's volume: an
//! agent that starts anew requests new certificates.

use std::collections::BTreeMap;
use std::time::Duration;

use futures::{StreamExt, TryStreamExt};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::ByteString;
use k8s_openapi::api::certificates::v1::{PodCertificateRequest, PodCertificateRequestSpec};
use k8s_openapi::api::core::v1 as core;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use kube::api::{Api, PostParams, WatchEvent, WatchParams};
use parking_lot::Mutex;
use rcgen::{CertificateParams, DistinguishedName, KeyPair};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use thiserror::Error;

use super::openssl::{self, OpensslError};
use super::trust_anchors::pem;
use crate::pod::DesiredPod;

/// How long one attempt waits for the signer. A pod that starts tries again; one that runs keeps what it has.
const SIGNER_TIMEOUT: Duration = Duration::from_secs(30);
/// How soon a renewal that failed is tried again.
const RETRY: SignedDuration = SignedDuration::from_secs(30);
/// A request that is gone, or that nobody answered for so long, is made again.
const ABANDON: SignedDuration = SignedDuration::from_mins(10);

/// The volume's name, and the source's place in it.
pub type CertificateKey = (String, usize);

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Certificate {
    pub key: String,
    pub chain: String,
}

#[derive(Debug, Error)]
pub enum CertificateError {
    #[error(transparent)]
    Api(#[from] kube::Error),
    #[error("PodCertificateRequest {0:?} is not issued yet: its signer has not answered")]
    Pending(String),
    #[error("{0}")]
    Refused(String),
    #[error(
        "keyType {0:?}: nodes make keys of the types ECDSAP256, ECDSAP384, ECDSAP521, ED25519, RSA3072 and RSA4096"
    )]
    KeyType(String),
    #[error("keyType {0}: {1}")]
    Openssl(String, OpensslError),
    #[error("cannot make a key: {0}")]
    Key(#[from] rcgen::Error),
}

#[derive(Default)]
pub struct CertificateCache {
    /// By pod UID.
    credentials: Mutex<BTreeMap<String, BTreeMap<CertificateKey, Credential>>>,
}

/// What one source has come to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Credential {
    issued: Option<Issued>,
    wait: Option<Wait>,
    refused: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Issued {
    certificate: Certificate,
    renew_at: Timestamp,
}

/// A request on its way, and the key that only this agent has.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Wait {
    request: String,
    key: String,
    since: Timestamp,
}

/// Who asks, for whom: a node for one of its pods.
pub struct Applicant<'a> {
    pub client: &'a kube::Client,
    pub node: &'a str,
    pub desired_pod: &'a DesiredPod,
}

type Source = core::PodCertificateProjection;

/// What a pod's volumes ask for.
fn wanted(desired_pod: &DesiredPod) -> Vec<(CertificateKey, &Source)> {
    let volumes = desired_pod.spec().and_then(|spec| spec.volumes.as_deref()).unwrap_or_default();
    let sources = volumes.iter().flat_map(|volume| {
        let sources = volume.projected.iter().filter_map(|projected| projected.sources.as_ref()).flatten();
        sources.enumerate().map(|(index, source)| ((volume.name.clone(), index), source))
    });
    sources.filter_map(|(key, source)| Some((key, source.pod_certificate.as_ref()?))).collect()
}

impl CertificateCache {
    /// All certificates that the pod wants, and when the first of them must be renewed.
    pub async fn fetch(
        &self,
        applicant: &Applicant<'_>,
        now: Timestamp,
    ) -> Result<(BTreeMap<CertificateKey, Certificate>, Option<Timestamp>), CertificateError> {
        let (mut certificates, mut renew_at) = (BTreeMap::new(), None);
        for (key, source) in wanted(applicant.desired_pod) {
            let mut credential = self.get(applicant.desired_pod, &key);
            let result = refresh(applicant, source, &mut credential, now).await;
            self.set(applicant.desired_pod, &key, credential.clone());
            let next = match (result, credential.issued.as_mut()) {
                (Ok(()), Some(issued)) => issued.renew_at,
                // An old certificate is better than none: signers come back.
                (Err(_), Some(_)) => now + RETRY,
                (Err(error), None) => return Err(error),
                (Ok(()), None) => return Err(CertificateError::Pending(source.signer_name.clone())),
            };
            renew_at = renew_at.into_iter().chain([next]).min();
            certificates.extend(credential.issued.map(|issued| (key, issued.certificate)));
        }
        Ok((certificates, renew_at))
    }

    pub fn forget(&self, uid: &str) {
        self.credentials.lock().remove(uid);
    }

    fn get(&self, desired_pod: &DesiredPod, key: &CertificateKey) -> Credential {
        let credentials = self.credentials.lock();
        credentials.get(&desired_pod.uid).and_then(|of_pod| of_pod.get(key)).cloned().unwrap_or_default()
    }

    fn set(&self, desired_pod: &DesiredPod, key: &CertificateKey, credential: Credential) {
        let mut credentials = self.credentials.lock();
        credentials.entry(desired_pod.uid.clone()).or_default().insert(key.clone(), credential);
    }
}

/// Brings one credential as far as it gets now. What was begun stays in it also when this fails.
async fn refresh(
    applicant: &Applicant<'_>,
    source: &Source,
    credential: &mut Credential,
    now: Timestamp,
) -> Result<(), CertificateError> {
    if let Some(why) = &credential.refused {
        return Err(CertificateError::Refused(why.clone()));
    }
    if credential.issued.as_ref().is_some_and(|issued| issued.renew_at > now) {
        return Ok(());
    }
    if credential.wait.as_ref().is_none_or(|wait| wait.since + ABANDON < now) {
        credential.wait = Some(request(applicant, source, now).await?);
    }
    let Some(name) = credential.wait.as_ref().map(|wait| wait.request.clone()) else { return Ok(()) };
    let answered = tokio::time::timeout(SIGNER_TIMEOUT, answer(applicant, &name)).await;
    let answered = answered.map_err(|_| CertificateError::Pending(name.clone()))??;
    settle(credential, answered.as_ref(), now);
    match (&credential.refused, &credential.wait) {
        (Some(why), _) => Err(CertificateError::Refused(why.clone())),
        (None, None) if credential.issued.is_some() => Ok(()),
        _ => Err(CertificateError::Pending(name)),
    }
}

/// What an answered request makes of a credential. `None`: the request is gone.
fn settle(credential: &mut Credential, request: Option<&PodCertificateRequest>, now: Timestamp) {
    let Some(wait) = credential.wait.take() else { return };
    let Some((request, (kind, why))) = request.and_then(|request| Some((request, decision(request)?))) else {
        return;
    };
    if kind != "Issued" {
        let namespace = request.metadata.namespace.as_deref().unwrap_or_default();
        let what = if kind == "Denied" { "was denied" } else { "failed" };
        credential.refused =
            Some(format!("PodCertificateRequest {namespace}/{} {what}, {why}", wait.request));
        return;
    }
    let status = request.status.as_ref();
    let chain = status.and_then(|status| status.certificate_chain.as_deref()).unwrap_or_default();
    let renew_at =
        status.and_then(|status| status.begin_refresh_at.as_ref()).map_or(now + ABANDON, |at| at.0);
    let certificate = Certificate { key: wait.key, chain: certificates_of(chain) };
    credential.issued = Some(Issued { certificate, renew_at: renew_at.max(now + RETRY) });
}

/// The condition that ends a request, and why it was set.
fn decision(request: &PodCertificateRequest) -> Option<(&str, String)> {
    let conditions = request.status.as_ref()?.conditions.as_ref()?;
    let ended = |kind: &str| matches!(kind, "Issued" | "Denied" | "Failed");
    let condition = conditions.iter().find(|condition| ended(&condition.type_))?;
    Some((&condition.type_, format!("reason={:?}, message={:?}", condition.reason, condition.message)))
}

/// Nothing but certificates gets into the file.
fn certificates_of(chain: &str) -> String {
    let certificates = CertificateDer::pem_slice_iter(chain.as_bytes()).filter_map(Result::ok);
    certificates.map(|der| pem(&der)).collect()
}

/// Waits until a signer has decided; `None` if the request vanishes.
async fn answer(
    applicant: &Applicant<'_>,
    name: &str,
) -> Result<Option<PodCertificateRequest>, CertificateError> {
    let api: Api<PodCertificateRequest> =
        Api::namespaced(applicant.client.clone(), &applicant.desired_pod.namespace);
    let fields = format!("metadata.name={name},spec.nodeName={}", applicant.node);
    // From version 0 a watch begins with what is there.
    let mut events = api.watch(&WatchParams::default().fields(&fields), "0").await?.boxed();
    while let Some(event) = events.try_next().await? {
        match event {
            WatchEvent::Added(request) | WatchEvent::Modified(request) if decision(&request).is_some() => {
                return Ok(Some(request));
            }
            WatchEvent::Deleted(_) => return Ok(None),
            WatchEvent::Error(status) => return Err(kube::Error::Api(status).into()),
            _ => {}
        }
    }
    Err(CertificateError::Pending(name.to_owned()))
}

/// Makes a key and asks for its certificate.
async fn request(
    applicant: &Applicant<'_>,
    source: &Source,
    now: Timestamp,
) -> Result<Wait, CertificateError> {
    let Applicant { client, node, desired_pod } = applicant;
    let account = desired_pod.spec().and_then(|spec| spec.service_account_name.as_deref());
    let account = account.filter(|name| !name.is_empty()).unwrap_or("default");
    let accounts: Api<core::ServiceAccount> = Api::namespaced((*client).clone(), &desired_pod.namespace);
    let account_uid = accounts.get(account).await?.metadata.uid.unwrap_or_default();
    let node_uid =
        Api::<core::Node>::all((*client).clone()).get(node).await?.metadata.uid.unwrap_or_default();
    let (key, stub) = key_and_request(&source.key_type).await?;
    let owner = OwnerReference {
        api_version: "v1".to_owned(),
        kind: "Pod".to_owned(),
        name: desired_pod.name.clone(),
        uid: desired_pod.uid.clone(),
        ..Default::default()
    };
    let request = PodCertificateRequest {
        metadata: ObjectMeta {
            generate_name: Some("req-".to_owned()),
            owner_references: Some(vec![owner]),
            ..Default::default()
        },
        spec: PodCertificateRequestSpec {
            signer_name: source.signer_name.clone(),
            pod_name: desired_pod.name.clone(),
            pod_uid: desired_pod.uid.clone(),
            service_account_name: account.to_owned(),
            service_account_uid: account_uid,
            node_name: (*node).to_owned(),
            node_uid,
            max_expiration_seconds: source.max_expiration_seconds,
            stub_pkc_s10_request: ByteString(stub),
            unverified_user_annotations: source.user_annotations.clone(),
        },
        status: None,
    };
    let api: Api<PodCertificateRequest> = Api::namespaced((*client).clone(), &desired_pod.namespace);
    let created = api.create(&PostParams::default(), &request).await?;
    Ok(Wait { request: created.metadata.name.unwrap_or_default(), key, since: now })
}

/// A new key in PEM, and a request that proves that we have it and says nothing else.
async fn key_and_request(key_type: &str) -> Result<(String, Vec<u8>), CertificateError> {
    let by_openssl = match key_type {
        "ECDSAP521" => Some(openssl::ECDSA_P521),
        "RSA3072" => Some(openssl::RSA_3072),
        "RSA4096" => Some(openssl::RSA_4096),
        _ => None,
    };
    if let Some(algorithm) = by_openssl {
        let made = openssl::key_and_request(openssl::OPENSSL, algorithm).await;
        return made.map_err(|error| CertificateError::Openssl(key_type.to_owned(), error));
    }
    let algorithm = match key_type {
        "ECDSAP256" => &rcgen::PKCS_ECDSA_P256_SHA256,
        "ECDSAP384" => &rcgen::PKCS_ECDSA_P384_SHA384,
        "ED25519" => &rcgen::PKCS_ED25519,
        other => return Err(CertificateError::KeyType(other.to_owned())),
    };
    let key = KeyPair::generate_for(algorithm)?;
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    let request = params.serialize_request(&key)?;
    Ok((key.serialize_pem(), request.der().to_vec()))
}

#[cfg(test)]
#[path = "certificates_tests.rs"]
mod tests;

//! Certificate signing requests: what they ask for, and what each signer of `certificates.k8s.io` accepts.
//!
//! Approval is somebody else's decision; this checks the rules that hold even for an approved request.

use std::net::IpAddr;

use base64::Engine;
use jiff::{SignedDuration, Timestamp};
use rcgen::SubjectPublicKeyInfo;
use rustls_pki_types::CertificateSigningRequestDer;
use rustls_pki_types::pem::PemObject;
use thiserror::Error;
use x509_parser::certification_request::X509CertificationRequest;
use x509_parser::extensions::{GeneralName, ParsedExtension};
use x509_parser::oid_registry::{OID_PKCS1_SHA1WITHRSA, OID_SHA1_WITH_RSA};
use x509_parser::prelude::FromDer;

use super::authority::{Authority, Profile, Usage};
use super::{AltNames, KUBELET_CLIENT, PkiError, Subject, pem};
use crate::user::{MASTERS, NODES};

/// The signers that this cluster runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Signer {
    /// `kubernetes.io/kube-apiserver-client`: any user.
    Client,
    /// `kubernetes.io/kube-apiserver-client-kubelet`: a node's client certificate.
    KubeletClient,
    /// `kubernetes.io/kubelet-serving`: a node's serving certificate.
    KubeletServing,
    /// `minik8s.io/mesh`: who a pod is, between pods. By an authority of its own.
    Mesh,
}

/// A parsed request whose signature proves that the requester holds the key.
#[derive(Debug, Clone)]
pub struct Csr {
    pub subject: Subject,
    pub alt_names: AltNames,
    /// Mail addresses and the other kinds that no signer here grants.
    pub has_other_alt_names: bool,
    /// Only the mesh's signer grants one.
    pub uris: Vec<String>,
    public_key: SubjectPublicKeyInfo,
}

/// Why a request will not be signed; the text fits a CertificateSigningRequest's `Failed` condition.
#[derive(Debug, Error)]
pub enum CsrError {
    #[error("the request is not a PEM block of type CERTIFICATE REQUEST")]
    Pem,
    #[error("the request is not valid PKCS#10: {0}")]
    Malformed(&'static str),
    #[error("the request's signature does not match its public key")]
    Signature,
    #[error(
        "the request's key or signature algorithm is not supported; use RSA with 2048 bits, ECDSA P-256 or P-384, or Ed25519"
    )]
    Algorithm,
    #[error("the subject's common name is not usable: {0}")]
    CommonName(String),
    #[error(
        "usages {found:?} are not those of the signer: it wants {wanted:?} and allows \"digital signature\" and \"key encipherment\""
    )]
    Usages { found: Vec<String>, wanted: &'static str },
    #[error("the signer does not issue certificates for the group system:masters")]
    Masters,
    #[error("the signer does not issue certificates for {KUBELET_CLIENT}: that is the API server itself")]
    ApiServer,
    #[error("subject organization is not system:nodes")]
    NotNodesGroup,
    #[error("subject common name does not begin with system:node:")]
    NotNodeName,
    #[error("subjectAltNames are not allowed")]
    AltNamesForbidden,
    #[error("DNS or IP subjectAltName is required, and no other kind is allowed")]
    AltNamesWanted,
    #[error(
        "one URI subjectAltName of the form spiffe://DOMAIN/ns/NAMESPACE/sa/ACCOUNT is required, and no other"
    )]
    OneUri,
    #[error(transparent)]
    Issue(#[from] PkiError),
}

impl Signer {
    pub fn by_name(name: &str) -> Option<Self> {
        match name {
            "kubernetes.io/kube-apiserver-client" => Some(Signer::Client),
            "kubernetes.io/kube-apiserver-client-kubelet" => Some(Signer::KubeletClient),
            "kubernetes.io/kubelet-serving" => Some(Signer::KubeletServing),
            "minik8s.io/mesh" => Some(Signer::Mesh),
            _ => None,
        }
    }

    pub fn usage(self) -> Usage {
        match self {
            Signer::Client | Signer::KubeletClient => Usage::Client,
            Signer::KubeletServing | Signer::Mesh => Usage::Server,
        }
    }
}

impl Csr {
    /// Reads PEM, or the base64 of it that `spec.request` holds in JSON.
    pub fn parse(text: &str) -> Result<Self, CsrError> {
        let decoded;
        let pem = if text.contains("-----BEGIN") {
            text.as_bytes()
        } else {
            decoded = base64::engine::general_purpose::STANDARD.decode(text).map_err(|_| CsrError::Pem)?;
            &decoded
        };
        let der = CertificateSigningRequestDer::from_pem_slice(pem).map_err(|_| CsrError::Pem)?;
        let (rest, request) =
            X509CertificationRequest::from_der(&der).map_err(|_| CsrError::Malformed("its structure"))?;
        if !rest.is_empty() {
            return Err(CsrError::Malformed("bytes follow it"));
        }
        // ring verifies SHA-1 for old times' sake; a key proved that way proves little.
        let algorithm = &request.signature_algorithm.algorithm;
        if *algorithm == OID_PKCS1_SHA1WITHRSA || *algorithm == OID_SHA1_WITH_RSA {
            return Err(CsrError::Algorithm);
        }
        let info = &request.certification_request_info;
        let public_key =
            SubjectPublicKeyInfo::from_der(info.subject_pki.raw).map_err(|_| CsrError::Algorithm)?;
        request.verify_signature().map_err(|_| CsrError::Signature)?;

        let subject = Subject::read(&info.subject).map_err(CsrError::CommonName)?;
        let mut csr = Csr {
            subject,
            alt_names: AltNames::default(),
            has_other_alt_names: false,
            uris: Vec::new(),
            public_key,
        };
        for extension in request.requested_extensions().into_iter().flatten() {
            if let ParsedExtension::SubjectAlternativeName(names) = extension {
                csr.add_alt_names(&names.general_names)?;
            }
        }
        Ok(csr)
    }

    fn add_alt_names(&mut self, names: &[GeneralName<'_>]) -> Result<(), CsrError> {
        for name in names {
            match name {
                GeneralName::DNSName(name) => drop(self.alt_names.dns.insert((*name).to_owned())),
                GeneralName::IPAddress(bytes) => {
                    let address = ip_address(bytes).ok_or(CsrError::Malformed("an IP address in it"))?;
                    self.alt_names.ips.insert(address);
                }
                GeneralName::URI(uri) => self.uris.push((*uri).to_owned()),
                _ => self.has_other_alt_names = true,
            }
        }
        Ok(())
    }

    /// Whether the signer may sign this for these `spec.usages`.
    pub fn check(&self, signer: Signer, usages: &[String]) -> Result<(), CsrError> {
        if signer == Signer::Mesh {
            return self.check_mesh(usages);
        }
        let wanted = match signer.usage() {
            Usage::Client => "client auth",
            Usage::Server => "server auth",
        };
        let allowed = [wanted, "digital signature", "key encipherment"];
        if !usages.iter().any(|u| u == wanted) || usages.iter().any(|u| !allowed.contains(&u.as_str())) {
            return Err(CsrError::Usages { found: usages.to_vec(), wanted });
        }
        let no_alt_names = self.alt_names == AltNames::default();
        let has_other_alt_names = self.has_other_alt_names || !self.uris.is_empty();
        match signer {
            Signer::Client if self.subject.organizations.iter().any(|o| o == MASTERS) => {
                Err(CsrError::Masters)
            }
            // Kubelets take orders from whoever bears that name.
            Signer::Client if self.subject.common_name == KUBELET_CLIENT => Err(CsrError::ApiServer),
            Signer::Client => Ok(()),
            _ if self.subject.organizations != [NODES] => Err(CsrError::NotNodesGroup),
            _ if self.node_name().is_none() => Err(CsrError::NotNodeName),
            Signer::KubeletClient if !no_alt_names || has_other_alt_names => Err(CsrError::AltNamesForbidden),
            Signer::KubeletServing if no_alt_names || has_other_alt_names => Err(CsrError::AltNamesWanted),
            _ => Ok(()),
        }
    }

    /// Whose it may be is for whoever approves it.
    fn check_mesh(&self, usages: &[String]) -> Result<(), CsrError> {
        let is_wanted = |usage: &str| usages.iter().any(|one| one == usage);
        let allowed = ["client auth", "server auth", "digital signature"];
        let is_allowed = |usage: &String| allowed.contains(&usage.as_str());
        if !is_wanted("client auth") || !is_wanted("server auth") || !usages.iter().all(is_allowed) {
            return Err(CsrError::Usages { found: usages.to_vec(), wanted: "client auth and server auth" });
        }
        let nothing_else = self.alt_names == AltNames::default() && !self.has_other_alt_names;
        match self.uris.as_slice() {
            [uri] if nothing_else && is_identity(uri) => Ok(()),
            _ => Err(CsrError::OneUri),
        }
    }

    pub(super) fn public_key(&self) -> &SubjectPublicKeyInfo {
        &self.public_key
    }

    /// The node that the request is for.
    pub fn node_name(&self) -> Option<&str> {
        self.subject.common_name.strip_prefix("system:node:").filter(|name| !name.is_empty())
    }

    pub(super) fn sign(
        &self,
        authority: &Authority,
        usage: Usage,
        lifetime: SignedDuration,
        now: Timestamp,
    ) -> Result<String, CsrError> {
        let profile =
            Profile { subject: self.subject.clone(), alt_names: self.alt_names.clone(), usage, lifetime };
        let certificate = authority.certify(&profile, &self.public_key, now)?;
        Ok(pem::encode("CERTIFICATE", &certificate))
    }
}

/// `spiffe://DOMAIN/ns/NAMESPACE/sa/ACCOUNT`, in plain letters.
fn is_identity(uri: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-.".contains(&byte);
    let is_name = |name: &&str| !name.is_empty() && name.len() <= 253 && name.bytes().all(plain);
    let parts: Vec<&str> = uri.strip_prefix("spiffe://").unwrap_or_default().split('/').collect();
    matches!(parts[..], [_, "ns", _, "sa", _]) && parts.iter().all(is_name)
}

/// An address as certificates encode it.
pub(super) fn ip_address(bytes: &[u8]) -> Option<IpAddr> {
    match bytes.len() {
        4 => <[u8; 4]>::try_from(bytes).ok().map(IpAddr::from),
        16 => <[u8; 16]>::try_from(bytes).ok().map(IpAddr::from),
        _ => None,
    }
}

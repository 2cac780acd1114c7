//! Files of configMap, secret, downwardAPI and projected volumes. Pure: what they refer to was fetched before.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1 as core;
use thiserror::Error;

use super::certificates::{Certificate, CertificateKey};
use super::trust_anchors::{TrustAnchorError, trust_anchors};
use crate::container::{FieldError, Placement, field, resource};
use crate::image::ViewMount;
use crate::objects::{Claims, Data, Objects};
use crate::pod::DesiredPod;

pub const DEFAULT_MODE: i32 = 0o644;

/// Files by their path below the volume.
pub type Payload = BTreeMap<String, File>;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct File {
    pub content: Vec<u8>,
    pub mode: u32,
}

#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum PayloadError {
    #[error("{kind} {namespace:?}/{name:?} not found")]
    Missing { kind: &'static str, namespace: String, name: String },
    #[error("references non-existent {kind} key: {key}")]
    MissingKey { kind: &'static str, key: String },
    #[error("invalid path {0:?}: it must be relative and must not contain '..'")]
    Path(String),
    #[error(transparent)]
    Field(#[from] FieldError),
    #[error("no token for audience {0:?}")]
    Token(String),
    #[error(transparent)]
    TrustAnchors(#[from] TrustAnchorError),
    #[error("no certificate of signer {0:?}")]
    PodCertificate(String),
}

/// Everything that a payload may be made of.
pub struct Sources<'a> {
    pub desired_pod: &'a DesiredPod,
    pub placement: &'a Placement,
    pub objects: &'a Objects,
    pub claims: &'a Claims,
    /// Service account tokens by audience and lifetime.
    pub tokens: &'a BTreeMap<TokenKey, String>,
    /// Certificates of the pod's own, by volume and place.
    pub certificates: &'a BTreeMap<CertificateKey, Certificate>,
    /// What shows the files of images, by the names of their volumes.
    pub images: &'a BTreeMap<String, Vec<ViewMount>>,
}

/// Audience (empty: the API server's own) and lifetime in seconds.
pub type TokenKey = (String, i64);

pub const DEFAULT_TOKEN_SECONDS: i64 = 3600;

pub fn token_key(source: &core::ServiceAccountTokenProjection) -> TokenKey {
    let audience = source.audience.clone().unwrap_or_default();
    (audience, source.expiration_seconds.unwrap_or(DEFAULT_TOKEN_SECONDS))
}

impl Sources<'_> {
    pub fn config_map(&self, volume: &core::ConfigMapVolumeSource) -> Result<Payload, PayloadError> {
        let mode = volume.default_mode.unwrap_or(DEFAULT_MODE);
        self.object("configmap", &volume.name, volume.items.as_deref(), volume.optional, mode)
    }

    pub fn secret(&self, volume: &core::SecretVolumeSource) -> Result<Payload, PayloadError> {
        let mode = volume.default_mode.unwrap_or(DEFAULT_MODE);
        let name = volume.secret_name.as_deref().unwrap_or_default();
        self.object("secret", name, volume.items.as_deref(), volume.optional, mode)
    }

    pub fn downward(&self, volume: &core::DownwardAPIVolumeSource) -> Result<Payload, PayloadError> {
        self.fields(volume.items.as_deref(), volume.default_mode.unwrap_or(DEFAULT_MODE))
    }

    /// Later sources win.
    pub fn projected(
        &self,
        name: &str,
        volume: &core::ProjectedVolumeSource,
    ) -> Result<Payload, PayloadError> {
        let mode = volume.default_mode.unwrap_or(DEFAULT_MODE);
        let mut payload = Payload::new();
        for (index, source) in volume.sources.iter().flatten().enumerate() {
            if let Some(s) = &source.config_map {
                payload.extend(self.object("configmap", &s.name, s.items.as_deref(), s.optional, mode)?);
            }
            if let Some(s) = &source.secret {
                payload.extend(self.object("secret", &s.name, s.items.as_deref(), s.optional, mode)?);
            }
            if let Some(s) = &source.downward_api {
                payload.extend(self.fields(s.items.as_deref(), mode)?);
            }
            if let Some(s) = &source.service_account_token {
                let token = self.tokens.get(&token_key(s));
                let token =
                    token.ok_or_else(|| PayloadError::Token(s.audience.clone().unwrap_or_default()))?;
                let file = File { content: token.clone().into_bytes(), mode: self.token_mode(mode) };
                payload.insert(checked(&s.path)?, file);
            }
            if let Some(s) = &source.cluster_trust_bundle {
                let anchors = trust_anchors(s, &self.objects.trust_bundles)?;
                let file = File { content: anchors.into_bytes(), mode: self.token_mode(mode) };
                payload.insert(checked(&s.path)?, file);
            }
            if let Some(s) = &source.pod_certificate {
                // Never a pod without a file that it was promised.
                let certificate = self.certificates.get(&(name.to_owned(), index));
                let certificate =
                    certificate.ok_or_else(|| PayloadError::PodCertificate(s.signer_name.clone()))?;
                payload.extend(certificate_files(s, certificate, self.token_mode(mode))?);
            }
        }
        Ok(payload)
    }

    /// With a group for its volumes a pod's tokens are for that group only.
    fn token_mode(&self, mode: i32) -> u32 {
        let context = self.desired_pod.spec().and_then(|spec| spec.security_context.as_ref());
        if context.is_some_and(|c| c.fs_group.is_some()) { 0o600 } else { mode as u32 }
    }

    fn object(
        &self,
        kind: &'static str,
        name: &str,
        items: Option<&[core::KeyToPath]>,
        optional: Option<bool>,
        mode: i32,
    ) -> Result<Payload, PayloadError> {
        let data = if kind == "secret" { self.objects.secret(name) } else { self.objects.config_map(name) };
        let optional = optional == Some(true);
        match data {
            Some(data) => pick(kind, data, items, optional, mode),
            None if optional => Ok(Payload::new()),
            None => Err(PayloadError::Missing {
                kind,
                namespace: self.desired_pod.namespace.clone(),
                name: name.to_owned(),
            }),
        }
    }

    fn fields(
        &self,
        items: Option<&[core::DownwardAPIVolumeFile]>,
        mode: i32,
    ) -> Result<Payload, PayloadError> {
        let mut payload = Payload::new();
        for item in items.unwrap_or_default() {
            let value = match (&item.field_ref, &item.resource_field_ref) {
                (Some(selector), _) => field(self.desired_pod, self.placement, &selector.field_path)?,
                (None, Some(selector)) => resource(self.desired_pod, self.placement, "", selector)?,
                (None, None) => String::new(),
            };
            let file = File { content: value.into_bytes(), mode: item.mode.unwrap_or(mode) as u32 };
            payload.insert(checked(&item.path)?, file);
        }
        Ok(payload)
    }
}

/// The key and the chain, each in the files that the pod wants them in.
fn certificate_files(
    source: &core::PodCertificateProjection,
    certificate: &Certificate,
    mode: u32,
) -> Result<Payload, PayloadError> {
    let Certificate { key, chain } = certificate;
    let files = [
        (&source.credential_bundle_path, format!("{key}{chain}")),
        (&source.key_path, key.clone()),
        (&source.certificate_chain_path, chain.clone()),
    ];
    let wanted = files.into_iter().filter_map(|(path, text)| Some((path.as_deref()?, text)));
    wanted
        .filter(|(path, _)| !path.is_empty())
        .map(|(path, text)| Ok((checked(path)?, File { content: text.into_bytes(), mode })))
        .collect()
}

fn pick(
    kind: &'static str,
    data: &Data,
    items: Option<&[core::KeyToPath]>,
    optional: bool,
    mode: i32,
) -> Result<Payload, PayloadError> {
    let Some(items) = items else {
        let file = |content: &Vec<u8>| File { content: content.clone(), mode: mode as u32 };
        return data.iter().map(|(key, content)| Ok((checked(key)?, file(content)))).collect();
    };
    let mut payload = Payload::new();
    for item in items {
        match data.get(&item.key) {
            Some(content) => {
                let file = File { content: content.clone(), mode: item.mode.unwrap_or(mode) as u32 };
                payload.insert(checked(&item.path)?, file);
            }
            None if optional => {}
            None => return Err(PayloadError::MissingKey { kind, key: item.key.clone() }),
        }
    }
    Ok(payload)
}

/// A path that stays in the volume and out of the way of the atomic swap.
fn checked(path: &str) -> Result<String, PayloadError> {
    let bad = path.is_empty()
        || path.starts_with('/')
        || path.starts_with("..")
        || path.contains('\0')
        || path.split('/').any(|part| part == "..");
    if bad { Err(PayloadError::Path(path.to_owned())) } else { Ok(path.to_owned()) }
}

#[cfg(test)]
#[path = "payload_tests.rs"]
mod tests;

//! Flags about front proxies that name users in headers, by the names that kube-apiserver gives them.

use std::path::PathBuf;

use anyhow::{Context, ensure};
use clap::Args;
use http::HeaderName;
use minik8s_api::RequestHeaderSettings;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;

#[derive(Debug, Clone, Default, Args)]
pub struct RequestHeaderFlags {
    /// Believe front proxies with certificates of these authorities (PEM) when they say in headers who asks
    #[arg(long, value_name = "FILE")]
    requestheader_client_ca_file: Option<PathBuf>,
    /// The common names that such certificates may have; any by default
    #[arg(
        long,
        value_name = "NAME[,NAME...]",
        value_delimiter = ',',
        requires = "requestheader_client_ca_file"
    )]
    requestheader_allowed_names: Vec<String>,
    /// The headers that have the user's name; the first that is there counts
    #[arg(long, value_name = "NAME[,NAME...]", default_value = "X-Remote-User", value_delimiter = ',')]
    requestheader_username_headers: Vec<HeaderName>,
    /// The headers that have the user's UID
    #[arg(long, value_name = "NAME[,NAME...]", default_value = "X-Remote-Uid", value_delimiter = ',')]
    requestheader_uid_headers: Vec<HeaderName>,
    /// The headers that have the user's groups, each once for each group
    #[arg(long, value_name = "NAME[,NAME...]", default_value = "X-Remote-Group", value_delimiter = ',')]
    requestheader_group_headers: Vec<HeaderName>,
    /// What begins the headers that have the user's extra fields
    #[arg(long, value_name = "TEXT[,TEXT...]", default_value = "X-Remote-Extra-", value_delimiter = ',')]
    requestheader_extra_headers_prefix: Vec<HeaderName>,
}

impl RequestHeaderFlags {
    /// None where nobody is to be believed.
    pub fn settings(&self) -> anyhow::Result<Option<RequestHeaderSettings>> {
        let Some(path) = &self.requestheader_client_ca_file else { return Ok(None) };
        let at = || format!("--requestheader-client-ca-file {}", path.display());
        let text = std::fs::read(path).with_context(at)?;
        let certificates = CertificateDer::pem_slice_iter(&text).collect::<Result<Vec<_>, _>>();
        let certificates = certificates.with_context(at)?;
        ensure!(!certificates.is_empty(), "{}: there is no certificate in it", at());
        Ok(Some(RequestHeaderSettings {
            authorities: certificates.iter().map(|certificate| certificate.to_vec()).collect(),
            allowed_names: self.requestheader_allowed_names.clone(),
            username_headers: self.requestheader_username_headers.clone(),
            uid_headers: self.requestheader_uid_headers.clone(),
            group_headers: self.requestheader_group_headers.clone(),
            extra_prefixes: self
                .requestheader_extra_headers_prefix
                .iter()
                .map(|prefix| prefix.as_str().to_owned())
                .collect(),
        }))
    }
}

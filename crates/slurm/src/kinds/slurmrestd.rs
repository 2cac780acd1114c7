//! Where Slurm's REST daemon is: the other way into a cluster. It runs jobs and tells of them, but carries no files.

use minik8s_api::{At, FieldErrors};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Slurmrestd is the address of Slurm's REST daemon, which speaks its API v0.0.38 (Slurm 22.05 to 23.11).
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "io.minik8s.v1.Slurmrestd")]
#[serde(rename_all = "camelCase")]
pub struct Slurmrestd {
    /// url of the daemon, e.g. "https://slurm.example:6820". The token goes there: over plain http everybody on the way
    /// can read it.
    pub url: String,
    /// certificateAuthority is the certificate that the daemon's own must be signed by, in PEM. Those of the node by
    /// default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub certificate_authority: Option<String>,
}

/// A cluster is reached by one way: what belongs to the other is a mistake.
pub(super) fn validate(spec: &At<'_>, errors: &mut FieldErrors) {
    for other in ["host", "hostKey", "port"] {
        if spec.field(other).is_set() {
            spec.field(other).forbidden(errors, "a cluster with slurmrestd is not reached by ssh");
        }
    }
    let daemon = spec.field("slurmrestd");
    let url = daemon.field("url");
    if url.need(errors) && !is_url(url.text()) {
        url.invalid(errors, "must be http://HOST:PORT or https://HOST:PORT, with a path at most");
    }
    let authority = daemon.field("certificateAuthority");
    if authority.is_set() && !authority.text().contains("-----BEGIN CERTIFICATE-----") {
        authority.invalid(errors, "must be a certificate in PEM");
    }
}

/// Without a user, a query or anything that could end a line of a request.
fn is_url(text: &str) -> bool {
    let rest = text.strip_prefix("http://").or_else(|| text.strip_prefix("https://"));
    rest.is_some_and(|rest| {
        rest.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '[')
            && rest.chars().all(|c| c.is_ascii_alphanumeric() || ".-_:[]/~".contains(c))
    })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::super::slurm_clusters;
    use super::*;

    fn errors(spec: Value) -> Vec<String> {
        let mut object = json!({"spec": spec});
        let resource = slurm_clusters();
        resource.strategy.default(&mut object);
        let mut errors = FieldErrors::default();
        resource.strategy.validate(&object, &mut errors);
        errors.iter().map(ToString::to_string).collect()
    }

    fn cluster(slurmrestd: Value) -> Value {
        json!({"user": "me", "secretRef": {"name": "token"}, "slurmrestd": slurmrestd})
    }

    #[test]
    fn one_way_leads_to_a_cluster() {
        for url in ["http://10.0.0.1:6820", "https://slurm.example/api", "https://[::1]:6820"] {
            assert_eq!(errors(cluster(json!({"url": url}))), Vec::<String>::new(), "{url}");
        }
        for url in ["", "slurm:6820", "ftp://x", "http://u@h", "http://h/?x=y", "http://h\r\nX: y", "http://"]
        {
            let errors = errors(cluster(json!({"url": url})));
            assert!(errors.len() == 1 && errors[0].starts_with("spec.slurmrestd.url"), "{url}: {errors:?}");
        }
        let mut both = cluster(json!({"url": "http://h:6820"}));
        both["host"] = json!("login.example");
        assert_eq!(errors(both).len(), 1);
        let bad = cluster(json!({"url": "http://h:6820", "certificateAuthority": "x"}));
        assert!(errors(bad)[0].starts_with("spec.slurmrestd.certificateAuthority"));
    }
}

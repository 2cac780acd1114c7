//! Credentials for registries from `imagePullSecrets`. Pure.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use k8s_cri::v1::AuthConfig;
use serde_json::Value;

use crate::objects::Data;

/// Credentials for an image, the most specific first.
pub fn credentials<'a>(image: &str, secrets: impl IntoIterator<Item = &'a Data>) -> Vec<AuthConfig> {
    let name = crate::image::normalize(image);
    let mut found: Vec<(usize, AuthConfig)> = Vec::new();
    for secret in secrets {
        for (registry, entry) in entries(secret) {
            let place = registry_place(&registry);
            if matches(&place, &name)
                && let Some(auth) = auth(&entry)
            {
                found.push((place.len(), auth));
            }
        }
    }
    found.sort_by_key(|(length, _)| std::cmp::Reverse(*length));
    found.into_iter().map(|(_, auth)| auth).collect()
}

fn entries(secret: &Data) -> Vec<(String, Value)> {
    let new = secret.get(".dockerconfigjson").and_then(|bytes| serde_json::from_slice::<Value>(bytes).ok());
    let old = secret.get(".dockercfg").and_then(|bytes| serde_json::from_slice::<Value>(bytes).ok());
    let all = new.map(|config| config["auths"].clone()).or(old);
    all.as_ref()
        .and_then(Value::as_object)
        .into_iter()
        .flatten()
        .map(|(k, v)| (k.clone(), v.clone()))
        .collect()
}

/// `https://index.docker.io/v1/` and `docker.io` mean the same place.
fn registry_place(registry: &str) -> String {
    let place = registry.trim_start_matches("https://").trim_start_matches("http://").trim_end_matches('/');
    let place = place.strip_suffix("/v1").or_else(|| place.strip_suffix("/v2")).unwrap_or(place);
    match place {
        "index.docker.io" | "registry-1.docker.io" => "docker.io".to_owned(),
        other => other.to_owned(),
    }
}

/// The place is the image's registry, or a path in it. A host may begin with `*.`.
fn matches(place: &str, image: &str) -> bool {
    if let Some(rest) = place.strip_prefix("*.") {
        return image.split_once('.').is_some_and(|(_, tail)| matches(rest, tail));
    }
    let rest = image.strip_prefix(place);
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['/', ':', '@']))
}

/// Without the registry's address: containerd would compare it with the host that it asks, which a mirror is not.
fn auth(entry: &Value) -> Option<AuthConfig> {
    let text = |key: &str| entry[key].as_str().unwrap_or_default().to_owned();
    let (mut username, mut password) = (text("username"), text("password"));
    if username.is_empty() {
        let decoded =
            STANDARD.decode(text("auth").trim()).ok().and_then(|bytes| String::from_utf8(bytes).ok());
        if let Some((user, pass)) = decoded.as_deref().and_then(|pair| pair.split_once(':')) {
            (username, password) = (user.to_owned(), pass.to_owned());
        }
    }
    let identity_token = text("identitytoken");
    if username.is_empty() && identity_token.is_empty() {
        return None;
    }
    Some(AuthConfig { username, password, identity_token, ..Default::default() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(config: &str, image: &str, want: &[&str]) {
        let secret = Data::from([(".dockerconfigjson".to_owned(), config.as_bytes().to_vec())]);
        let got: Vec<_> = credentials(image, [&secret])
            .into_iter()
            .map(|a| format!("{}:{}", a.username, a.password))
            .collect();
        assert_eq!(got, want, "{config} {image}");
    }

    #[test]
    fn registries_are_matched() {
        let one =
            |registry: &str| format!(r#"{{"auths":{{"{registry}":{{"username":"u","password":"p"}}}}}}"#);
        check(&one("quay.io"), "quay.io/a/b:1", &["u:p"]);
        check(&one("quay.io/a"), "quay.io/a/b:1", &["u:p"]);
        check(&one("quay.io/x"), "quay.io/a/b:1", &[]);
        check(&one("quay.i"), "quay.io/a", &[]);
        check(&one("https://index.docker.io/v1/"), "busybox", &["u:p"]);
        check(&one("*.example.com"), "reg.example.com/a", &["u:p"]);
        check(&one("localhost:5000"), "localhost:5000/a", &["u:p"]);
        check(r#"{"auths":{"quay.io":{"auth":"bWU6c2VjcmV0"}}}"#, "quay.io/a", &["me:secret"]);
        check(r#"{"auths":{"quay.io":{"auth":"rubbish"}}}"#, "quay.io/a", &[]);
        let two = r#"{"auths":{"q.io":{"username":"a"},"q.io/x":{"username":"b"}}}"#;
        check(two, "q.io/x/y", &["b:", "a:"]);
        check("rubbish", "a", &[]);
    }
}

//! Images of the cluster's own registry that belong to another namespace than the pod.
//!
//! containerd shows the registry the node's certificate, which may have such an image for some other pod here. So the server
//! is asked first whether the pod's own credentials may; without such credentials nothing is pulled, and whether the image is
//! on the node already says nothing.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::{Request, header};
use k8s_cri::v1::AuthConfig;
use kube::Client;
use kube::client::Body;
use minik8s_meta::image_repository::REGISTRY_HOST;

/// Whether an image is of the cluster's own registry, and of another namespace there.
pub fn is_foreign(image: &str, namespace: &str) -> bool {
    path(image).is_some_and(|path| path.split('/').next() != Some(namespace))
}

/// The first of the credentials that may have the image.
pub async fn allowed(
    client: &Client,
    image: &str,
    credentials: Vec<AuthConfig>,
) -> Result<AuthConfig, String> {
    let Some(manifest) = manifest(image) else {
        return Err(format!("{image} is not an image of a namespace"));
    };
    let mut said =
        "it belongs to another namespace: imagePullSecrets must hold a token that may get it".to_owned();
    for auth in credentials {
        let shown = STANDARD.encode(format!("{}:{}", auth.username, auth.password));
        let request = Request::head(&manifest).header(header::AUTHORIZATION, format!("Basic {shown}"));
        let request = request.body(Body::empty()).map_err(|error| error.to_string())?;
        match client.send(request).await {
            Ok(answer) if answer.status().is_success() => return Ok(auth),
            Ok(answer) => {
                said = format!("the registry answers {} to the pod's imagePullSecrets", answer.status())
            }
            Err(error) => said = error.to_string(),
        }
    }
    Err(said)
}

fn path(image: &str) -> Option<&str> {
    image.strip_prefix(REGISTRY_HOST)?.strip_prefix('/')
}

/// Where the registry has the image's manifest.
fn manifest(image: &str) -> Option<String> {
    let path = path(image)?;
    let (path, digest) = path.split_once('@').map_or((path, None), |(path, digest)| (path, Some(digest)));
    let (path, tag) = path.split_once(':').unwrap_or((path, "latest"));
    let (namespace, name) = path.split_once('/')?;
    Some(format!("/v2/{namespace}/{name}/manifests/{}", digest.unwrap_or(tag)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn foreign_images_are_those_of_other_namespaces() {
        let check = |image: &str, want: bool| assert_eq!(is_foreign(image, "shop"), want, "{image}");
        check("registry.minik8s.local/shop/app:1", false);
        check("registry.minik8s.local/other/app:1", true);
        check("registry.minik8s.local/shopping/app:1", true);
        check("registry.minik8s.localhost/other/app:1", false);
        check("other/app:1", false);
    }

    #[test]
    fn manifest_is_that_of_the_tag_or_digest() {
        let check = |image: &str, want: Option<&str>| assert_eq!(manifest(image).as_deref(), want, "{image}");
        check("registry.minik8s.local/shop/app:1", Some("/v2/shop/app/manifests/1"));
        check("registry.minik8s.local/shop/app", Some("/v2/shop/app/manifests/latest"));
        check("registry.minik8s.local/shop/app:1@sha256:ab", Some("/v2/shop/app/manifests/sha256:ab"));
        check("registry.minik8s.local/app", None);
        check("docker.io/shop/app", None);
    }
}

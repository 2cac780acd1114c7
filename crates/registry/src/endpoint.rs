//! What a path of the distribution protocol stands for, and what right it takes. Pure.

use http::Method;
use minik8s_api::ResourceRequest;
use uuid::Uuid;

use crate::digest::Digest;
use crate::error::{ErrorCode, RegistryError, Result};
use crate::name::{Reference, RepositoryName};

pub const ROOT: &str = "/v2/";

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Endpoint {
    /// Whether this is spoken here.
    Base,
    Catalog,
    Tags(RepositoryName),
    Manifest(RepositoryName, Reference),
    Blob(RepositoryName, Digest),
    NewUpload(RepositoryName),
    Upload(RepositoryName, Uuid),
}

impl Endpoint {
    pub fn parse(path: &str) -> Result<Self> {
        let rest = path.strip_prefix(ROOT).unwrap_or_default();
        let rest = rest.replace("%3A", ":").replace("%3a", ":");
        let parts: Vec<&str> = rest.split('/').collect();
        Ok(match parts.as_slice() {
            [""] => Endpoint::Base,
            ["_catalog"] => Endpoint::Catalog,
            [name @ .., "tags", "list"] => Endpoint::Tags(RepositoryName::parse(name)?),
            [name @ .., "manifests", reference] => {
                Endpoint::Manifest(RepositoryName::parse(name)?, Reference::parse(reference)?)
            }
            [name @ .., "blobs", "uploads", ""] | [name @ .., "blobs", "uploads"] => {
                Endpoint::NewUpload(RepositoryName::parse(name)?)
            }
            [name @ .., "blobs", "uploads", id] => {
                let unknown = || RegistryError::new(ErrorCode::UploadUnknown, "there is no such upload");
                Endpoint::Upload(RepositoryName::parse(name)?, id.parse().map_err(|_| unknown())?)
            }
            [name @ .., "blobs", digest] => Endpoint::Blob(RepositoryName::parse(name)?, digest.parse()?),
            _ => {
                let told = "there is nothing at this path of the distribution protocol";
                return Err(RegistryError::new(ErrorCode::NameUnknown, told));
            }
        })
    }

    /// The right that a request takes; `None` where it says nothing of anybody's images.
    pub fn right(&self, method: &Method) -> Option<ResourceRequest> {
        let reads = matches!(*method, Method::GET | Method::HEAD);
        let (verb, repository) = match self {
            Endpoint::Base => return None,
            Endpoint::Catalog => ("list", None),
            Endpoint::Tags(repository) => ("get", Some(repository)),
            Endpoint::Manifest(repository, _) | Endpoint::Blob(repository, _) if reads => {
                ("get", Some(repository))
            }
            Endpoint::Manifest(repository, _) | Endpoint::Blob(repository, _)
                if *method == Method::DELETE =>
            {
                ("delete", Some(repository))
            }
            Endpoint::Manifest(repository, _)
            | Endpoint::Blob(repository, _)
            | Endpoint::NewUpload(repository)
            | Endpoint::Upload(repository, _) => ("update", Some(repository)),
        };
        Some(ResourceRequest {
            verb,
            group: "minik8s.io",
            resource: "imagerepositories",
            namespace: repository.map(|named| named.namespace.clone()).unwrap_or_default(),
            name: repository.map(|named| named.name.clone()).unwrap_or_default(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_take_rights_on_their_repository() {
        let check = |method: &str, path: &str, expected: &str| {
            let right = Endpoint::parse(path).unwrap().right(&method.parse().unwrap());
            let shown = right.map(|right| format!("{} {}/{}", right.verb, right.namespace, right.name));
            assert_eq!(shown.unwrap_or_default(), expected, "{method} {path}");
        };
        let digest = Digest::of(b"x");
        let upload = Uuid::nil();
        check("GET", "/v2/", "");
        check("GET", "/v2/_catalog", "list /");
        check("GET", "/v2/a/b/tags/list", "get a/b");
        check("HEAD", "/v2/a/b/manifests/latest", "get a/b");
        check("PUT", "/v2/a/b/manifests/latest", "update a/b");
        check("DELETE", "/v2/a/b/manifests/latest", "delete a/b");
        check("GET", &format!("/v2/a/b/blobs/{digest}"), "get a/b");
        check("POST", "/v2/a/b/blobs/uploads/", "update a/b");
        check("POST", "/v2/a/b/blobs/uploads", "update a/b");
        for method in ["PATCH", "PUT", "GET", "DELETE"] {
            check(method, &format!("/v2/a/b/blobs/uploads/{upload}"), "update a/b");
        }
        // A repository may be called as the protocol calls its own parts.
        check("GET", "/v2/tags/list/tags/list", "get tags/list");
        check("GET", "/v2/blobs/manifests/manifests/x", "get blobs/manifests");
    }

    #[test]
    fn other_paths_are_refused() {
        for path in [
            "/v2/a/b",
            "/v2/a/tags/list",
            "/v2/a/../b/tags/list",
            "/v2/a/b/blobs/uploads/x",
            "/v2/a/b/blobs/sha256:1",
        ] {
            assert!(Endpoint::parse(path).is_err(), "{path}");
        }
    }

    #[test]
    fn fuzz_endpoint_parse() {
        let digest = format!("/v2/a/b/blobs/{}", Digest::of(b"x"));
        let inputs: [&[u8]; 3] = [b"/v2/a/b/manifests/latest", digest.as_bytes(), b"/v2/a/b/blobs/uploads/"];
        let words = &["/v2/", "..", "%2e", "%3A", "/", "blobs", "uploads", "manifests", "tags", "list"];
        minik8s_fuzz::fuzz("endpoint", 1, minik8s_fuzz::Corpus { inputs: &inputs, words }, |input| {
            let path = String::from_utf8_lossy(input);
            if let Ok(endpoint) = Endpoint::parse(&path)
                && let Some(right) = endpoint.right(&Method::PUT)
            {
                assert!(!right.name.contains(['/', '%']) && !right.namespace.contains(['/', '.']));
            }
        });
    }
}

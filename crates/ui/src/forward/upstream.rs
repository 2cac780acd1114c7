//! A port of a pod, and connections to it through the API server with the kubeconfig's credentials.

use http::StatusCode;
use k8s_openapi::api::core::v1::Pod;
use kube::{Api, Client};
use tokio::io::DuplexStream;

use super::Refusal;

/// Names of objects are no longer.
const LONGEST_NAME: usize = 253;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    pub namespace: String,
    pub pod: String,
    pub port: u16,
}

impl Target {
    /// Names become parts of a path: what is no name of an object is refused.
    pub fn new(namespace: String, pod: String, port: u16) -> Result<Target, Refusal> {
        let is_name = |name: &str| {
            let known = |letter: u8| letter.is_ascii_lowercase() || letter.is_ascii_digit();
            let inside = |letter: u8| known(letter) || matches!(letter, b'-' | b'.');
            let ends = [name.bytes().next(), name.bytes().last()];
            name.len() <= LONGEST_NAME
                && name.bytes().all(inside)
                && ends.into_iter().all(|end| end.is_some_and(known))
        };
        if !is_name(&namespace) || !is_name(&pod) || port == 0 {
            let problem = "a forward takes the namespace, the name and a port of a pod".to_owned();
            return Err((StatusCode::BAD_REQUEST, problem));
        }
        Ok(Target { namespace, pod, port })
    }

    pub async fn connect(&self, client: &Client) -> Result<DuplexStream, Refusal> {
        let pods: Api<Pod> = Api::namespaced(client.clone(), &self.namespace);
        let mut forwarder = pods.portforward(&self.pod, &[self.port]).await.map_err(|error| match error {
            kube::Error::Api(status) => {
                let code = StatusCode::from_u16(status.code).unwrap_or(StatusCode::BAD_GATEWAY);
                (code, status.message)
            }
            error => (StatusCode::BAD_GATEWAY, format!("the pod cannot be reached: {error}")),
        })?;
        let stream = forwarder.take_stream(self.port);
        stream.ok_or((StatusCode::BAD_GATEWAY, "the pod cannot be reached".to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_objects() {
        let check = |namespace: &str, pod: &str, port: u16, good: bool| {
            let made = Target::new(namespace.to_owned(), pod.to_owned(), port);
            assert_eq!(made.is_ok(), good, "{namespace} {pod} {port}");
        };
        check("shop", "web-7f.x", 80, true);
        check("shop", "web", 0, false);
        check("", "web", 80, false);
        check("shop", "", 80, false);
        check("shop", "../nodes/n1/proxy", 80, false);
        check("shop", "web?x=1", 80, false);
        check("..", "web", 80, false);
        check("shop", "Web", 80, false);
        check("shop", &"w".repeat(254), 80, false);
    }
}

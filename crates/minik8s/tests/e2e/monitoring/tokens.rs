//! Who may read nodes' pages and the discovery page: nobody without a token, nobody without the right.

use http::Request;
use kube::Client;
use serde_json::Value;

use super::site::Site;
use crate::harness::cluster::{NODE, block_on};

/// What somebody with this token is answered: the code, and the text.
async fn ask(url: &str, path: &str, token: Option<&str>, ca: &[u8]) -> (u16, String) {
    let mut config = kube::Config::new(url.parse().unwrap());
    config.root_cert = Some(pem(ca));
    config.auth_info.token = token.map(|token| token.to_owned().into());
    let client = Client::try_from(config).unwrap();
    match client.request_text(Request::get(path).body(Vec::new()).unwrap()).await {
        Ok(text) => (200, text),
        Err(kube::Error::Api(status)) => (status.code, status.message),
        Err(error) => panic!("{url}{path}: {error}"),
    }
}

fn pem(bundle: &[u8]) -> Vec<Vec<u8>> {
    use rustls::pki_types::CertificateDer;
    use rustls::pki_types::pem::PemObject;
    CertificateDer::pem_slice_iter(bundle).map(|one| one.unwrap().to_vec()).collect()
}

/// Two accounts, of which one may read metrics.
fn accounts(site: &Site) -> (String, String) {
    site.apply(ACCOUNTS);
    let may = |what: &[&str]| {
        let words = ["auth", "can-i", "get", "--as=system:serviceaccount:default:scraper"];
        site.output(&[&words[..], what].concat()).contains("yes")
    };
    site.eventually("its rights count", || {
        may(&["nodes", "--subresource=metrics"]) && may(&["/monitoring/discovery/node"])
    });
    let token = |words: &[&str]| site.run(words).trim().to_owned();
    (token(&["create", "token", "scraper"]), token(&["create", "token", "nobody"]))
}

fn authority(site: &Site) -> Vec<u8> {
    let map = site.run(&["get", "configmap", "kube-root-ca.crt", "-o", "json"]);
    let map: Value = serde_json::from_str(&map).unwrap();
    map["data"]["ca.crt"].as_str().unwrap().as_bytes().to_vec()
}

/// The usual job of kube-prometheus: `https://NODE:10250/metrics` with the token of a ServiceAccount.
pub fn node_port(site: &Site) {
    let (scraper, nobody) = accounts(site);
    let elsewhere = site.run(&["create", "token", "scraper", "--audience", "https://vault.example"]);
    let node: Value = serde_json::from_str(&site.run(&["get", "node", NODE, "-o", "json"])).unwrap();
    let addresses = node["status"]["addresses"].as_array().unwrap();
    let address =
        addresses.iter().find(|one| one["type"] == "InternalIP").unwrap()["address"].as_str().unwrap();
    let port = &node["status"]["daemonEndpoints"]["kubeletEndpoint"]["Port"];
    let (url, ca) = (format!("https://{address}:{port}"), authority(site));
    let check = |path: &str, token: Option<&str>, code: u16, part: &str| {
        let (found, said) = block_on(ask(&url, path, token, &ca));
        assert_eq!(found, code, "{path}: {said}");
        assert!(said.contains(part), "{path}: {said}");
    };
    for (path, part) in [
        ("/metrics", "kubelet_running_pods"),
        ("/metrics/cadvisor", "machine_memory_bytes"),
        ("/metrics/resource", "node_cpu_usage_seconds_total"),
        ("/metrics/probes", "prober_probe_total"),
        ("/metrics/node", "node_load1"),
    ] {
        check(path, Some(&scraper), 200, part);
        check(path, None, 401, "Bearer TOKEN");
        check(path, Some("not.a.token"), 401, "Bearer TOKEN");
        check(path, Some(elsewhere.trim()), 401, "Bearer TOKEN");
        check(path, Some(&nobody), 403, "cannot get nodes/metrics");
    }
    // A token opens metrics; all else is for the API server.
    for path in
        ["/pods", "/metrics/stream", "/containerLogs/a/b/c", "/exec/a/b/c?command=id", "/healthz", "/"]
    {
        check(path, Some(&scraper), 403, "API server only");
    }
}

pub fn discovery(site: &Site) {
    let (scraper, nobody) = accounts(site);
    let (url, ca) = (cluster_url(site), authority(site));
    let get = |path: &str, token: Option<&str>| block_on(ask(&url, path, token, &ca));
    let page = "/monitoring/discovery/node";
    assert_eq!(get(page, None).0, 403, "anonymous");
    assert_eq!(get(page, Some("not.a.token")).0, 401);
    assert_eq!(get(page, Some(&nobody)).0, 403);
    let (code, text) = get(page, Some(&scraper));
    let targets: Value = serde_json::from_str(&text).unwrap();
    assert_eq!((code, targets.as_array().unwrap().len()), (200, 1), "{text}");
    assert_eq!(targets[0]["labels"]["__meta_kubernetes_node_name"], NODE);
}

fn cluster_url(site: &Site) -> String {
    let config = site.run(&["config", "view", "-o", "jsonpath={.clusters[0].cluster.server}"]);
    config.trim().to_owned()
}

const ACCOUNTS: &str = "
apiVersion: v1
kind: ServiceAccount
metadata: {name: scraper}
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: nobody}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: scraper}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: 'system:monitoring'}
subjects: [{kind: ServiceAccount, name: scraper, namespace: default}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: scraper-discovery}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: 'minik8s:monitoring'}
subjects: [{kind: ServiceAccount, name: scraper, namespace: default}]
";

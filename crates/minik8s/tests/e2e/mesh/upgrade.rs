//! Another program on the node, while the pods of the mesh run.

use std::os::unix::fs::MetadataExt;

use serde_json::json;

use super::shop::Shop;
use crate::harness::cluster::{Cluster, block_on};

const BINARY: &str = env!("CARGO_BIN_EXE_minik8s");

/// Asks once, says so, and asks again on the same connection when it is told to.
const LONG_CLIENT: &str = r#"
import http.client, sys
connection = http.client.HTTPConnection(sys.argv[1], 9080, timeout=60)
def ask():
    connection.request("GET", "/reviews/1")
    answer = connection.getresponse()
    answer.read()
    print(answer.status, answer.getheader("connection"), flush=True)
ask()
socket = connection.sock
sys.stdin.readline()
ask()
print(connection.sock is socket or connection.sock is None, flush=True)
"#;

pub fn proxies_follow_the_program_of_their_node(shop: &Shop, cluster: &Cluster) {
    shop.route(&json!([{"name": "v1", "weight": 1}, {"name": "v2", "weight": 1}]));
    let pods = ["client".to_owned(), shop.pod_of("reviews-v1"), shop.pod_of("reviews-v2")];
    let address = shop.get("pod", &pods[1])["status"]["podIP"].as_str().unwrap().to_owned();
    // Through the pod's proxy alone, which does not look into it.
    let opaque = shop.begin(LONG_CLIENT, &[&address]);
    let looked_into = shop.begin(LONG_CLIENT, &["reviews"]);
    let load = shop.load(&[]);
    let new = cluster.dir.join("minik8s-new");
    std::fs::copy(BINARY, &new).unwrap();
    let inode = std::fs::metadata(&new).unwrap().ino();
    cluster.crash_server();
    block_on(cluster.restart_server_as(&new));
    let runs_new =
        |pid: &u32| std::fs::metadata(format!("/proc/{pid}/exe")).is_ok_and(|exe| exe.ino() == inode);
    for pod in &pods {
        shop.until("a proxy of the new program", || shop.pids(pod, "minik8s-proxy").iter().any(runs_new));
    }
    std::thread::sleep(std::time::Duration::from_secs(2));
    let (counts, said) = load.end();
    assert_eq!(counts.get("failed"), None, "{counts:?} {said}");
    // Connections that were open before go on; those that are looked into end with an answer that says so.
    assert_eq!(opaque.end().0, "200 None\n200 None\nTrue\n");
    assert_eq!(looked_into.end().0, "200 None\n200 close\nTrue\n");
    let is_replaced = || shop.pids("client", "minik8s-proxy").iter().all(runs_new);
    shop.until("the former program is gone with its last connection", is_replaced);
    assert!(!shop.ask(20, &[]).contains_key("failed"));
    for pod in &pods {
        let status = &shop.get("pod", pod)["status"];
        for list in ["initContainerStatuses", "containerStatuses"] {
            assert_eq!(status[list][0]["restartCount"], 0, "{status}");
        }
    }
    // It is still there to be ended, and to be started anew.
    shop.kubectl(&["delete", "pod", "client", "--timeout=180s"]);
}

//! The dashboard's windows into containers, in a real browser: logs as they grow, a shell, a debug container, a forward to a
//! pod's pages, how a pod failed; and what is on a node, for whom.

use std::path::Path;
use std::process::Stdio;

use http::Method;
use minik8s_kubelet::image::{BUSYBOX, busybox};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, BufReader};

use super::space::{IDLE, Space, shell};
use crate::harness::cluster::load_image;

const MINIK8S: &str = env!("CARGO_BIN_EXE_minik8s");

/// What `web/tests/pod.mjs` looks at.
pub async fn logs_and_shells_in_a_browser(space: Space) {
    let talk = format!(
        "echo '<img src=x onerror=alert(1)>'; i=0; while [ $i -lt 3000 ]; do i=$((i+1)); echo line $i 中文; done; {IDLE}"
    );
    space.pod("talker", json!({"containers": [shell("main", &talk)]})).await;
    // A page that would like to be more than it is, and a program that tells what it was sent.
    let pages = format!(
        "mkdir -p /tmp/www/cgi-bin; echo '<title>x</title><script>document.title = \"read:\" + document.cookie</script>' \
         >/tmp/www/index.html; printf '#!/bin/sh\\nprintf \"Content-Type: text/plain\\\\n\\\\n\"; echo \"got:$HTTP_COOKIE\"\\n' \
         >/tmp/www/cgi-bin/cookie; chmod +x /tmp/www/cgi-bin/cookie; httpd -p 8080 -h /tmp/www; {IDLE}"
    );
    let mut pages = shell("pages", &pages);
    pages["ports"] = json!([{"name": "http", "containerPort": 8080}]);
    space.pod("pages", json!({"containers": [pages]})).await;
    space.pod("broken", json!({"containers": [shell("main", "echo no luck; exit 3")]})).await;
    space.ready("talker").await;
    space.ready("pages").await;
    inventory_by_rights(&space).await;
    space.waiting("broken", "CrashLoopBackOff").await;
    let mut dashboard = space
        .command(MINIK8S)
        .args(["dashboard", "--print-url"])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let link = BufReader::new(dashboard.stdout.take().unwrap()).lines().next_line().await.unwrap().unwrap();
    let web = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../web");
    let run = tokio::process::Command::new("node")
        .current_dir(&web)
        .args(["tests/pod.mjs", &link, &space.name, &node_of(&space).await])
        .args(std::env::var("SCREENSHOTS"))
        .output()
        .await
        .expect("node runs: scripts/setup --test installs it");
    let said = String::from_utf8_lossy(&run.stdout).into_owned() + &String::from_utf8_lossy(&run.stderr);
    assert!(run.status.success(), "{said}");
    dashboard.kill().await.unwrap();
}

async fn node_of(space: &Space) -> String {
    let pod = space.get(&space.path("pods", "talker")).await.unwrap();
    pod["spec"]["nodeName"].as_str().unwrap().to_owned()
}

/// Containers of a node with their owners, also a stranger; images with their users, of which none goes that is used.
async fn inventory_by_rights(space: &Space) {
    const UNUSED: &str = "minik8s.io/unused-here:1";
    let node = node_of(space).await;
    load_image(
        space.cluster.node_dir(),
        "unused.tar",
        busybox().unwrap().named(UNUSED).directory("unused", 0o755),
    );
    let socket = space.cluster.config().containerd_socket();
    let stranger = Stranger::make(&socket);
    let path = |what: &str| format!("/apis/node.minik8s.io/v1/nodes/{node}/{what}");
    let ask = async |method: Method, what: &str| space.send(method, &path(what), Value::Null).await;

    let found = ask(Method::GET, "containers").await.unwrap();
    let owner = |name: &str, namespace: &str| {
        let all = found["containers"].as_array().unwrap();
        let one = all.iter().find(|one| one["name"] == name && one["runtimeNamespace"] == namespace);
        one.map(|one| (one["owner"].clone(), one["podName"].clone(), one["state"].clone()))
    };
    assert_eq!(owner("pages", "k8s.io"), Some((json!("pod"), json!("pages"), json!("running"))), "{found:#}");
    assert_eq!(
        owner("stranger", "elsewhere"),
        Some((json!("foreign"), Value::Null, json!("stopped"))),
        "{found:#}"
    );
    assert!(found["containers"].as_array().unwrap().iter().any(|one| one["owner"] == "sandbox"));
    drop(stranger);

    let images = ask(Method::GET, "images").await.unwrap();
    let image = |name: &str| {
        let all = images["images"].as_array().unwrap();
        all.iter().find(|image| image["names"].as_array().unwrap().contains(&json!(name))).unwrap().clone()
    };
    let user = json!(format!("{}/pages", space.name));
    assert!(image(BUSYBOX)["usedBy"].as_array().unwrap().contains(&user), "{images:#}");
    assert_eq!(image(UNUSED)["usedBy"], json!([]), "{images:#}");
    // What is used stays, whatever is asked for.
    let refused = ask(Method::DELETE, &format!("images?image={BUSYBOX}")).await.unwrap_err();
    assert!(refused.to_string().contains("is used by"), "{refused}");
    let would = ask(Method::DELETE, "images?all=true&dryRun=All").await.unwrap();
    let names: Vec<&Value> =
        would["removed"].as_array().unwrap().iter().map(|one| &one["names"][0]).collect();
    assert!(names.contains(&&json!(UNUSED)) && !names.contains(&&json!(BUSYBOX)), "{would:#}");
    let gone = ask(Method::DELETE, &format!("images?image={UNUSED}")).await.unwrap();
    assert_eq!(gone["removed"].as_array().unwrap().len(), 1, "{gone:#}");
    let again = ask(Method::DELETE, &format!("images?image={UNUSED}")).await.unwrap_err();
    assert!(again.to_string().contains("no image"), "{again}");

    // Rights of their own: to see containers is not to see images, to see them is not to remove them.
    let images = path("images");
    let raw = |verb: &'static str, path: String| async move {
        space.try_kubectl(&[verb, "--raw", &path, "--as", "jane"]).await
    };
    for refused in [raw("get", path("containers")).await, raw("get", images.clone()).await] {
        assert!(refused.err.contains("forbidden"), "{refused:?}");
    }
    let role = json!({"metadata": {"name": "image-reader"}, "rules": [
        {"apiGroups": ["node.minik8s.io"], "resources": ["nodes/images"], "resourceNames": [node], "verbs": ["get"]},
        // Not enough for anything here.
        {"apiGroups": [""], "resources": ["nodes"], "verbs": ["get", "list"]},
    ]});
    let rbac = "/apis/rbac.authorization.k8s.io/v1";
    space.send(Method::POST, &format!("{rbac}/clusterroles"), role).await.unwrap();
    space
        .kubectl(&[
            "create",
            "clusterrolebinding",
            "image-reader",
            "--clusterrole=image-reader",
            "--user=jane",
        ])
        .await;
    space
        .eventually("jane may see images", async || raw("get", images.clone()).await.out.contains(BUSYBOX))
        .await;
    let refused = raw("delete", images.clone()).await;
    assert!(refused.err.contains("forbidden"), "{refused:?}");
    let refused = raw("get", path("containers")).await;
    assert!(refused.err.contains("forbidden"), "{refused:?}");
    let refused = raw("get", images.replace(&node, "another")).await;
    assert!(refused.err.contains("forbidden"), "{refused:?}");
    space.kubectl(&["delete", "clusterrolebinding/image-reader", "clusterrole/image-reader"]).await;
}

/// A container in the node's containerd that is none of Kubernetes'.
struct Stranger<'a>(&'a Path);

impl<'a> Stranger<'a> {
    fn make(socket: &'a Path) -> Self {
        let stranger = Stranger(socket);
        stranger.ctr(&["namespaces", "create", "elsewhere"]);
        stranger.ctr(&["-n", "elsewhere", "containers", "create", "--rootfs", "/usr", "stranger", "true"]);
        stranger
    }

    fn ctr(&self, arguments: &[&str]) {
        let run =
            std::process::Command::new("ctr").arg("--address").arg(self.0).args(arguments).output().unwrap();
        assert!(run.status.success(), "ctr {arguments:?}: {}", String::from_utf8_lossy(&run.stderr));
    }
}

impl Drop for Stranger<'_> {
    fn drop(&mut self) {
        for arguments in [
            ["-n", "elsewhere", "containers", "delete", "stranger"].as_slice(),
            &["namespaces", "remove", "elsewhere"],
        ] {
            let _ = std::process::Command::new("ctr").arg("--address").arg(self.0).args(arguments).output();
        }
    }
}

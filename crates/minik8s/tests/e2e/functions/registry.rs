//! The registry in the server as others' programs use it: skopeo pushes, the node's containerd pulls, and each may what
//! RBAC allows it in that namespace.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use minik8s_kubelet::image::busybox;

use super::local_registry::LocalRegistry;
use super::site::{Site, eventually};
use crate::harness::cluster::{Cluster, load_image};

const HOST: &str = "registry.minik8s.local";

pub struct Skopeo {
    server: String,
    /// A folder with the cluster's authority: TLS is checked.
    certificates: PathBuf,
    dir: tempfile::TempDir,
}

impl Skopeo {
    pub fn new(cluster: &Cluster, site: &Site) -> Skopeo {
        let dir = tempfile::tempdir().unwrap();
        let certificates = dir.path().join("certificates");
        std::fs::create_dir(&certificates).unwrap();
        std::fs::copy(cluster.node_dir().join("pki/ca.crt"), certificates.join("ca.crt")).unwrap();
        let server = site.server().trim_start_matches("https://").to_owned();
        Skopeo { server, certificates, dir }
    }

    fn archive(&self) -> PathBuf {
        let path = self.dir.path().join("image.tar");
        busybox().unwrap().write(std::fs::File::create(&path).unwrap()).unwrap();
        path
    }

    fn push(&self, archive: &Path, to: &str, token: &str) -> Output {
        let mut command = Command::new("skopeo");
        command.args(["--insecure-policy", "copy", "--dest-cert-dir"]).arg(&self.certificates);
        if !token.is_empty() {
            command.args(["--dest-creds", &format!("any:{token}")]);
        }
        command.arg(format!("oci-archive:{}", archive.display()));
        command.arg(format!("docker://{}/{to}", self.server)).output().unwrap()
    }

    /// `inspect` or `delete`.
    pub fn ask(&self, verb: &str, image: &str, token: &str) -> Output {
        let mut command = Command::new("skopeo");
        command.args([verb, "--cert-dir"]).arg(&self.certificates);
        // Code of functions is no image that could run.
        command.args((verb == "inspect").then_some("--raw"));
        command.args(["--creds", &format!("any:{token}"), &format!("docker://{}/{image}", self.server)]);
        command.output().unwrap()
    }
}

pub fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).to_lowercase()
}

fn token(site: &Site, account: &str) -> String {
    site.kubectl(&["create", "serviceaccount", account]);
    site.kubectl(&["create", "token", account]).trim().to_owned()
}

fn run(site: &Site, pod: &str, image: &str, rest: &str) {
    site.apply(&format!(
        "apiVersion: v1\nkind: Pod\nmetadata: {{name: {pod}}}\nspec:\n  terminationGracePeriodSeconds: 0\n  containers:\n  \
         - {{name: main, image: {HOST}/{image}, command: [sleep, '1000']}}\n{rest}"
    ));
}

fn waits_for(site: &Site, pod: &str, phase: &str) {
    let reached = || {
        let status = site.get(&format!("pod/{pod}"))["status"].clone();
        status["phase"] == phase || status["containerStatuses"][0]["state"]["waiting"]["reason"] == phase
    };
    eventually(&format!("{pod} is {phase}"), reached);
}

#[test]
fn registry_serves_whom_rbac_allows_and_no_foreign_namespace() {
    Cluster::builder().run(|cluster| {
        let (site, other) = (Site::new(&cluster, "shop"), Site::new(&cluster, "other"));
        let skopeo = Skopeo::new(&cluster, &site);
        let archive = skopeo.archive();
        let pusher = token(&site, "pusher");
        let rights =
            ["create", "role", "pusher", "--verb=get,update", "--resource=imagerepositories.minik8s.io"];
        site.kubectl(&rights);
        site.kubectl(&["create", "rolebinding", "pusher", "--role=pusher", "--serviceaccount=shop:pusher"]);
        let foreign = token(&other, "editor");
        let editor = "--serviceaccount=other:editor";
        other.kubectl(&["create", "rolebinding", "editor", "--clusterrole=edit", editor]);
        site.until_may("pusher", "update", "imagerepositories.minik8s.io");
        other.until_may("editor", "update", "imagerepositories.minik8s.io");

        for (token, told) in [("", "auth"), ("guess", "auth"), (&foreign, "forbidden")] {
            let refused = skopeo.push(&archive, "shop/app:1", token);
            assert!(!refused.status.success() && said(&refused).contains(told), "{refused:?}");
        }
        assert!(site.kubectl(&["get", "imagerepositories", "-o", "name"]).trim().is_empty());
        let pushed = skopeo.push(&archive, "shop/app:1", &pusher);
        assert!(pushed.status.success(), "{pushed:?}");
        assert!(skopeo.ask("inspect", "shop/app:1", &pusher).status.success());
        assert!(said(&skopeo.ask("inspect", "shop/app:1", &foreign)).contains("forbidden"));
        assert!(skopeo.push(&archive, "other/app:1", &foreign).status.success());
        let missing = skopeo.ask("delete", "shop/app:1", &pusher);
        assert!(!missing.status.success() && said(&missing).contains("cannot delete"), "{missing:?}");

        nodes_pull(&site, &other);
        by_the_program(&cluster, &site);
        of_others(&cluster, &site, &archive);
        let admin = token(&site, "admin");
        site.kubectl(&["create", "rolebinding", "a", "--clusterrole=admin", "--serviceaccount=shop:admin"]);
        site.until_may("admin", "delete", "imagerepositories.minik8s.io");
        assert!(skopeo.ask("delete", "shop/app:1", &admin).status.success());
        assert!(!skopeo.ask("inspect", "shop/app:1", &pusher).status.success());
    });
}

/// For pods of the image's own namespace; for others only with credentials that may, also where the image is there.
fn nodes_pull(site: &Site, other: &Site) {
    run(site, "app", "shop/app:1", "");
    waits_for(site, "app", "Running");
    run(other, "thief", "shop/app:1", "");
    waits_for(other, "thief", "ImagePullBackOff");
    let reader = token(site, "reader");
    site.kubectl(&["create", "role", "reader", "--verb=get", "--resource=imagerepositories.minik8s.io"]);
    site.kubectl(&["create", "rolebinding", "reader", "--role=reader", "--serviceaccount=shop:reader"]);
    let (server, password) = (format!("--docker-server={HOST}"), format!("--docker-password={reader}"));
    other.kubectl(&[
        "create",
        "secret",
        "docker-registry",
        "pull",
        &server,
        "--docker-username=x",
        &password,
    ]);
    run(other, "guest", "shop/app:1", "  imagePullSecrets: [{name: pull}]\n");
    waits_for(other, "guest", "Running");
}

/// `minik8s image push`, and what the API shows of it.
fn by_the_program(cluster: &Cluster, site: &Site) {
    load_image(cluster.node_dir(), "box.tar", busybox().unwrap());
    let dir = cluster.node_dir().to_str().unwrap();
    let pushed =
        site.kubectl(&["image", "push", "minik8s.io/busybox:1", "--to", "shop/box:2", "--data-dir", dir]);
    assert_eq!(pushed.trim(), format!("pushed {HOST}/shop/box:2"));
    let shown = site.get("imagerepository/box");
    assert_eq!(
        (&shown["tags"][0]["name"], &shown["image"]),
        (&"2".into(), &format!("{HOST}/shop/box").into())
    );
    assert!(shown["bytes"].as_i64().unwrap() > 500_000, "{shown}");
    run(site, "box", "shop/box:2", "");
    waits_for(site, "box", "Running");
}

/// `minik8s image pull`, from a registry that is not the cluster's: a pod that may pull nothing then has the image.
fn of_others(cluster: &Cluster, site: &Site, archive: &Path) {
    let registry = LocalRegistry::start(archive);
    let image = format!("127.0.0.1:{}/tools/box:1", registry.port);
    let dir = cluster.node_dir().to_str().unwrap();
    let pulled = site.kubectl(&["image", "pull", &image, "--data-dir", dir]);
    assert!(pulled.contains(&format!("pulled {image} ")), "{pulled}");
    let listed = site.kubectl(&["image", "list", "--data-dir", dir]);
    assert!(listed.contains(&image), "{listed}");
    site.apply(&format!(
        "apiVersion: v1\nkind: Pod\nmetadata: {{name: pulled}}\nspec:\n  terminationGracePeriodSeconds: 0\n  containers:\n  \
         - {{name: main, image: '{image}', imagePullPolicy: Never, command: [sleep, '1000']}}\n"
    ));
    waits_for(site, "pulled", "Running");
}

//! Volumes: what is in them, who may do what, and how they change.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::Method;
use minik8s_kubelet::image::BUSYBOX;
use serde_json::{Value, json};

use super::space::{IDLE, Space, idle, once, shell, state};

/// A spec of one container with volumes, each at the path of its name.
fn with_volumes(script: &str, volumes: &[(&str, Value)]) -> Value {
    let mut spec = once(script);
    let mount = |(name, _): &(&str, Value)| json!({"name": name, "mountPath": format!("/{name}")});
    spec["containers"][0]["volumeMounts"] = volumes.iter().map(mount).collect();
    let volume = |(name, source): &(&str, Value)| {
        let mut volume = source.clone();
        volume["name"] = (*name).into();
        volume
    };
    spec["volumes"] = volumes.iter().map(volume).collect();
    spec
}

pub async fn empty_dirs(space: Space) {
    let script = "stat -c %a /disk /mem; stat -f -c %T /mem; echo x > /disk/f; echo y > /mem/f; cat /disk/f /mem/f; id -u";
    let volumes = [("disk", json!({"emptyDir": {}})), ("mem", json!({"emptyDir": {"medium": "Memory"}}))];
    assert_eq!(space.output("root", with_volumes(script, &volumes)).await, "777\n1777\ntmpfs\nx\ny\n0\n");
    let mut spec = with_volumes(script, &volumes);
    spec["securityContext"] = json!({"runAsUser": 1000});
    assert_eq!(space.output("user", spec).await, "777\n1777\ntmpfs\nx\ny\n1000\n");
    // A restarted container finds its files again.
    let mut spec = with_volumes("test -e /disk/f && exit 0; touch /disk/f; exit 1", &volumes[..1]);
    spec["restartPolicy"] = "OnFailure".into();
    space.output("again", spec).await;
}

pub async fn host_paths(space: Space) {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    std::fs::write(path("file"), "from the host\n").unwrap();
    let source = |name: &str, kind: &str| json!({"hostPath": {"path": path(name), "type": kind}});
    let volumes = [
        ("file", source("file", "File")),
        ("made", source("made", "DirectoryOrCreate")),
        ("null", json!({"hostPath": {"path": "/dev/null", "type": "CharDevice"}})),
    ];
    let log = space
        .output("good", with_volumes("cat /file; echo back > /made/answer; stat -c %F /null", &volumes))
        .await;
    assert_eq!(log, "from the host\ncharacter special file\n");
    assert_eq!(std::fs::read_to_string(path("made/answer")).unwrap(), "back\n");

    let mut spec = with_volumes("touch /made/new 2>/dev/null || echo refused", &volumes[1..2]);
    spec["containers"][0]["volumeMounts"][0]["readOnly"] = true.into();
    assert!(space.output("read-only", spec).await.ends_with("refused\n"));

    space.pod("wrong", with_volumes("true", &[("file", source("file", "Directory"))])).await;
    space.event("wrong", "FailedMount", "hostPath type check failed").await;
    std::fs::remove_file(path("file")).unwrap();
    std::fs::create_dir(path("file")).unwrap();
    space.phase("wrong", "Succeeded").await;
}

pub async fn files_from_objects(space: Space) {
    space.config_map("cm", json!({"one": "1", "two": "2"})).await;
    space.secret("sec", json!({"word": "xyzzy"})).await;
    let field = |path: &str, field: &str| json!({"path": path, "fieldRef": {"fieldPath": field}});
    let info = json!({"items": [field("name", "metadata.name"), field("labels", "metadata.labels"),
        {"path": "cpu", "resourceFieldRef": {"containerName": "main", "resource": "limits.cpu", "divisor": "1m"}}]});
    let volumes = [
        ("cm", json!({"configMap": {"name": "cm"}})),
        (
            "part",
            json!({"configMap": {"name": "cm", "items": [{"key": "two", "path": "deep/file", "mode": 256}]}}),
        ),
        ("sec", json!({"secret": {"secretName": "sec", "defaultMode": 288}})),
        ("info", json!({"downwardAPI": info})),
        (
            "all",
            json!({"projected": {"sources": [{"configMap": {"name": "cm", "items": [{"key": "one", "path": "c/one"}]}}, {"secret": {"name": "sec"}}, {"downwardAPI": {"items": [field("space", "metadata.namespace")]}}]}}),
        ),
    ];
    let script = "cd /; for f in cm/one cm/two part/deep/file sec/word info/name info/labels info/cpu all/c/one all/word all/space; do echo $f $(stat -L -c %a $f) $(cat $f); done; ls part";
    let mut spec = with_volumes(script, &volumes);
    spec["containers"][0]["resources"] = json!({"limits": {"cpu": "250m"}});
    space.labelled_pod("pod", json!({"a": "b"}), spec).await;
    space.phase("pod", "Succeeded").await;
    let want = format!(
        "cm/one 644 1\ncm/two 644 2\npart/deep/file 400 2\nsec/word 440 xyzzy\ninfo/name 644 pod\n\
         info/labels 644 a=\"b\"\ninfo/cpu 644 250\nall/c/one 644 1\nall/word 644 xyzzy\nall/space 644 {}\ndeep\n",
        space.name
    );
    assert_eq!(space.kubectl(&["logs", "pod"]).await, want);

    // Another user with the pod's group may read.
    let mut spec = with_volumes("cat /sec/word; stat -L -c '%g %a' /sec/word", &volumes[2..3]);
    spec["securityContext"] = json!({"runAsUser": 1000, "fsGroup": 1234});
    assert_eq!(space.output("group", spec).await, "xyzzy1234 440\n");
}

/// All files of a volume change at once, in every container, without a restart.
pub async fn files_follow_changes(space: Space) {
    space.config_map("cm", json!({"a": "1", "b": "1", "old": "x"})).await;
    space.secret("sec", json!({"s": "1"})).await;
    let script = "until test -s /sec/s; do sleep 0.05; done; \
        for i in $(seq 300); do a=$(cat /cm/..data/a); b=$(cat /cm/a); \
        if [ $(cat /cm/b) = 2 ] && [ $(cat /sec/s) = 2 ] && grep -q new /info/labels; then ls /cm; exit 0; fi; sleep 0.3; done; exit 1";
    let volumes = [
        ("cm", json!({"configMap": {"name": "cm"}})),
        ("sec", json!({"projected": {"sources": [{"secret": {"name": "sec"}}]}})),
        (
            "info",
            json!({"downwardAPI": {"items": [{"path": "labels", "fieldRef": {"fieldPath": "metadata.labels"}}]}}),
        ),
    ];
    space.labelled_pod("pod", json!({"state": "old"}), with_volumes(script, &volumes)).await;
    space.phase("pod", "Running").await;
    space.change("configmaps", "cm", json!({"data": {"a": "2", "b": "2", "old": null, "more": "y"}})).await;
    space.change("secrets", "sec", json!({"data": {"s": "Mg=="}})).await;
    space.change("pods", "pod", json!({"metadata": {"labels": {"state": "new"}}})).await;
    space.phase("pod", "Succeeded").await;
    assert_eq!(space.kubectl(&["logs", "pod"]).await, "a\nb\nmore\n");
}

/// What is secret never reaches the node's disk, and no container changes files that the agent keeps.
pub async fn secrets_in_memory(space: Space) {
    space.config_map("cm", json!({"a": "1"})).await;
    space.secret("sec", json!({"word": "xyzzy"})).await;
    let field = json!([{"path": "name", "fieldRef": {"fieldPath": "metadata.name"}}]);
    let token = json!({"path": "token", "expirationSeconds": 600});
    let volumes = [
        ("cm", json!({"configMap": {"name": "cm"}})),
        ("sec", json!({"secret": {"secretName": "sec", "defaultMode": 256}})),
        ("info", json!({"downwardAPI": {"items": field}})),
        (
            "all",
            json!({"projected": {"sources": [{"secret": {"name": "sec"}}, {"serviceAccountToken": token}]}}),
        ),
    ];
    let script = "for v in sec info all; do stat -f -c %T /$v; done; stat -L -c %a /sec/word; \
        for v in cm sec info all; do touch /$v/new 2>/dev/null || echo $v refused; done; sleep 1000";
    space.pod("pod", with_volumes(script, &volumes)).await;
    let pod = space.ready("pod").await;
    let want = "tmpfs\ntmpfs\ntmpfs\n400\ncm refused\nsec refused\ninfo refused\nall refused\n";
    space.eventually("said", async || space.kubectl(&["logs", "pod"]).await == want).await;
    let dir =
        space.cluster.config().pods_dir().join(pod["metadata"]["uid"].as_str().unwrap()).join("volumes");
    for (name, in_memory) in [("cm", false), ("sec", true), ("info", true), ("all", true)] {
        let is_mounted = minik8s_datadir::is_mount_point(&dir.join(name));
        assert_eq!(is_mounted, in_memory, "{name}");
    }
    // An update that does not fit beside the old files makes room for itself.
    let large = base64::Engine::encode(&base64::engine::general_purpose::STANDARD, vec![b'x'; 500_000]);
    space.change("secrets", "sec", json!({"data": {"word": large, "more": large}})).await;
    let grown = || std::fs::metadata(dir.join("sec/word")).is_ok_and(|file| file.len() == 500_000);
    space.eventually("grown", async || grown()).await;
    space.delete("pod", 0).await;
    space.deleted("pod").await;
    space.eventually("gone from the node", async || !dir.exists()).await;
}

/// subPath and subPathExpr, and no way out of the volume.
pub async fn parts_of_volumes(space: Space) {
    space.config_map("cm", json!({"k": "value"})).await;
    let dir = tempfile::tempdir().unwrap();
    std::os::unix::fs::symlink("/etc", dir.path().join("escape")).unwrap();
    let mut main =
        shell("main", "cat /file; echo; echo here > /dir/f; ls /whole /whole/parts; cat /whole/parts/pod/f");
    main["env"] = json!([{"name": "POD", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}]);
    main["volumeMounts"] = json!([
        {"name": "cm", "mountPath": "/file", "subPath": "k"},
        {"name": "v", "mountPath": "/dir", "subPathExpr": "parts/$(POD)"},
        {"name": "v", "mountPath": "/whole"},
    ]);
    let volumes = json!([{"name": "cm", "configMap": {"name": "cm"}}, {"name": "v", "emptyDir": {}}, {"name": "host", "hostPath": {"path": dir.path()}}]);
    let log = space
        .output("pod", json!({"restartPolicy": "Never", "containers": [main], "volumes": volumes}))
        .await;
    assert_eq!(log, "value\n/whole:\nparts\n\n/whole/parts:\npod\nhere\n");

    let mut thief = shell("main", "cat /stolen/passwd");
    thief["volumeMounts"] = json!([{"name": "host", "mountPath": "/stolen", "subPath": "escape"}]);
    space.pod("thief", json!({"restartPolicy": "Never", "containers": [thief], "volumes": volumes})).await;
    let refused = |pod: &Value| state(pod)["waiting"]["reason"] == "CreateContainerConfigError";
    space.until("thief", "refused", refused).await;
}

/// A pod can talk to the API server with what it was given.
pub async fn service_account_tokens(space: Space) {
    let dir = "/var/run/secrets/kubernetes.io/serviceaccount";
    let script = format!(
        "cat {dir}/namespace; echo; head -1 {dir}/ca.crt; cut -d. -f2 {dir}/token; echo; cut -d. -f2 /own/t"
    );
    let volumes = [(
        "own",
        json!({"projected": {"sources": [{"serviceAccountToken": {"path": "t", "audience": "vault", "expirationSeconds": 600}}]}}),
    )];
    let log = space.output("pod", with_volumes(&script, &volumes)).await;
    let lines: Vec<_> = log.lines().filter(|line| !line.is_empty()).collect();
    assert_eq!(lines[..2], [space.name.as_str(), "-----BEGIN CERTIFICATE-----"]);
    let claims = |part: &str| -> Value {
        use base64::Engine;
        let bytes = base64::engine::general_purpose::URL_SAFE_NO_PAD.decode(part).unwrap();
        serde_json::from_slice(&bytes).unwrap()
    };
    let (default, own) = (claims(lines[2]), claims(lines[3]));
    assert_eq!(default["sub"], format!("system:serviceaccount:{}:default", space.name));
    assert_eq!(default["kubernetes.io"]["pod"]["name"], "pod");
    assert_eq!(own["aud"], json!(["vault"]));

    let mut spec = with_volumes(&format!("ls {dir} || echo none"), &[]);
    spec["automountServiceAccountToken"] = false.into();
    assert!(space.output("without", spec).await.contains("none"));
}

/// What is optional may be missing, and appears when it is there.
pub async fn optional_objects(space: Space) {
    let volumes = [
        ("cm", json!({"configMap": {"name": "later", "optional": true}})),
        ("sec", json!({"secret": {"secretName": "later", "optional": true}})),
    ];
    let script = format!(
        "ls /cm /sec; until [ -s /cm/k ] && [ -s /sec/k ]; do sleep 0.3; done; cat /cm/k /sec/k; echo; {IDLE}"
    );
    let mut spec = with_volumes(&script, &volumes);
    spec["containers"][0]["image"] = BUSYBOX.into();
    space.pod("pod", spec).await;
    space.ready("pod").await;
    space.config_map("later", json!({"k": "c"})).await;
    space.secret("later", json!({"k": "s"})).await;
    space.eventually("both files", async || space.kubectl(&["logs", "pod"]).await.ends_with("cs\n")).await;
}

/// Claims that are bound to directories of this node.
pub async fn bound_claims(space: Space) {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    std::fs::create_dir(path("local")).unwrap();
    for (name, source) in [
        ("host", json!({"hostPath": {"path": path("host"), "type": "DirectoryOrCreate"}})),
        ("local", json!({"local": {"path": path("local")}})),
    ] {
        let volume = format!("{}-{name}", space.name);
        let mut spec = json!({"capacity": {"storage": "1Mi"}, "accessModes": ["ReadWriteOnce"], "storageClassName": "by-hand",
            "claimRef": {"namespace": space.name, "name": name}});
        spec.as_object_mut().unwrap().extend(source.as_object().unwrap().clone());
        if name == "local" {
            spec["nodeAffinity"] = json!({"required": {"nodeSelectorTerms": [{"matchExpressions": [
                {"key": "kubernetes.io/hostname", "operator": "In", "values": [crate::harness::cluster::NODE]}]}]}});
        }
        space
            .send(
                http::Method::POST,
                "/api/v1/persistentvolumes",
                json!({"metadata": {"name": volume}, "spec": spec}),
            )
            .await
            .unwrap();
        let claim = json!({"metadata": {"name": name}, "spec": {"accessModes": ["ReadWriteOnce"], "storageClassName": "by-hand",
            "volumeName": volume, "resources": {"requests": {"storage": "1Mi"}}}});
        space.create("persistentvolumeclaims", claim).await;
    }
    let claim = |name: &str, read_only: bool| json!({"persistentVolumeClaim": {"claimName": name, "readOnly": read_only}});
    let script = "echo one > /host/f; echo two > /local/f; touch /locked/g 2>/dev/null || echo locked";
    let volumes =
        [("host", claim("host", false)), ("local", claim("local", false)), ("locked", claim("local", true))];
    let log = space.output("pod", with_volumes(script, &volumes)).await;
    assert!(log.ends_with("locked\n"), "{log}");
    space.delete("pod", 0).await;
    space.deleted("pod").await;
    // What a pod wrote outlives it.
    assert_eq!(std::fs::read_to_string(path("host/f")).unwrap(), "one\n");
    assert_eq!(std::fs::read_to_string(path("local/f")).unwrap(), "two\n");
}

/// Certificates of all bundles of a signer, as they change.
pub async fn trust_bundles(space: Space) {
    let all = "/apis/certificates.k8s.io/v1/clustertrustbundles";
    let pem = |text: &str| format!("-----BEGIN CERTIFICATE-----\n{text}\n-----END CERTIFICATE-----\n");
    let signer = format!("minik8s.io/{}", space.name);
    let name = |name: &str| format!("minik8s.io:{}:{name}", space.name);
    let bundle = |own: &str, certificates: String| {
        let spec = json!({"signerName": signer, "trustBundle": certificates});
        json!({"metadata": {"name": name(own), "labels": {"use": "test"}}, "spec": spec})
    };
    let pod = |source: Value| {
        let mut spec = idle();
        spec["containers"][0]["volumeMounts"] = json!([{"name": "v", "mountPath": "/v"}]);
        spec["volumes"] = json!([{"name": "v", "projected": {"sources": [source]}}]);
        spec
    };
    let source =
        json!({"signerName": signer, "path": "ca.pem", "labelSelector": {"matchLabels": {"use": "test"}}});
    space.pod("pod", pod(json!({"clusterTrustBundle": source}))).await;
    space.event("pod", "FailedMount", "matched zero ClusterTrustBundles").await;
    space.send(Method::POST, all, bundle("one", pem("b25l"))).await.unwrap();
    space.ready("pod").await;
    assert_eq!(space.kubectl(&["exec", "pod", "--", "cat", "/v/ca.pem"]).await, pem("b25l"));
    space.send(Method::POST, all, bundle("two", pem("dHdv") + &pem("b25l"))).await.unwrap();
    let both = pem("b25l") + &pem("dHdv");
    space
        .eventually("both", async || space.kubectl(&["exec", "pod", "--", "cat", "/v/ca.pem"]).await == both)
        .await;
    for own in ["one", "two"] {
        space.send(Method::DELETE, &format!("{all}/{}", name(own)), Value::Null).await.unwrap();
    }
}

/// One volume of 150 bundles, and 150 volumes of one bundle each.
pub async fn many_trust_bundles(space: Space) {
    const COUNT: usize = 150;
    let all = "/apis/certificates.k8s.io/v1/clustertrustbundles";
    let signer = format!("minik8s.io/{}", space.name);
    let name = |i: usize| format!("minik8s.io:{}:{i}", space.name);
    let pem = |i: usize| {
        let text = STANDARD.encode(format!("certificate {i}"));
        format!("-----BEGIN CERTIFICATE-----\n{text}\n-----END CERTIFICATE-----\n")
    };
    for i in 0..COUNT {
        let spec = json!({"signerName": signer, "trustBundle": pem(i)});
        space.send(Method::POST, all, json!({"metadata": {"name": name(i)}, "spec": spec})).await.unwrap();
    }
    let source = |i: usize| json!({"clusterTrustBundle": {"name": name(i), "path": format!("{i}.pem")}});
    let expected = (0..COUNT).map(pem).collect::<String>();
    let script = |path: &str| format!("for i in $(seq 0 {}); do cat {path}/$i.pem; done", COUNT - 1);

    let mut one = once(&script("/v"));
    one["containers"][0]["volumeMounts"] = json!([{"name": "v", "mountPath": "/v"}]);
    let sources: Vec<Value> = (0..COUNT).map(source).collect();
    one["volumes"] = json!([{"name": "v", "projected": {"sources": sources}}]);
    assert_eq!(space.output("one", one).await, expected);

    let mut many = once(&script("/v/$i"));
    let mount = |i: usize| json!({"name": format!("v{i}"), "mountPath": format!("/v/{i}")});
    let volume = |i: usize| json!({"name": format!("v{i}"), "projected": {"sources": [source(i)]}});
    many["containers"][0]["volumeMounts"] = (0..COUNT).map(mount).collect();
    many["volumes"] = (0..COUNT).map(volume).collect();
    assert_eq!(space.output("many", many).await, expected);
    for i in 0..COUNT {
        space.send(Method::DELETE, &format!("{all}/{}", name(i)), Value::Null).await.unwrap();
    }
}

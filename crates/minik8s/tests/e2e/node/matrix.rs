//! Many small cases of one kind, each row of a table a volume, a user or a mode.

use minik8s_kubelet::image::{BUSYBOX, WEB};
use serde_json::{Value, json};

use super::space::{IDLE, Space, once, state};

/// A pod whose volumes are mounted at `/v0`, `/v1`, …
fn mounting(script: &str, volumes: &[Value]) -> Value {
    let mut spec = once(script);
    let named = |(n, source): (usize, &Value)| {
        let mut volume = source.clone();
        volume["name"] = format!("v{n}").into();
        volume
    };
    spec["volumes"] = volumes.iter().enumerate().map(named).collect();
    spec["containers"][0]["volumeMounts"] =
        (0..volumes.len()).map(|n| json!({"name": format!("v{n}"), "mountPath": format!("/v{n}")})).collect();
    spec
}

/// Volumes of ConfigMaps and Secrets, alone and projected: plain, with modes, mapped, twice, for other users.
pub async fn files_of_every_mode(space: Space) {
    space.config_map("same", json!({"data-1": "value-1"})).await;
    space.secret("same", json!({"data-1": "value-1"})).await;
    let items = json!([{"key": "data-1", "path": "path/to/data-2"}]);
    let with_mode = json!([{"key": "data-1", "path": "path/to/data-2", "mode": 256}]);
    let mut volumes = Vec::new();
    let mut want = Vec::new();
    for (fields, file, mode) in [
        (json!({}), "data-1", "644"),
        (json!({"defaultMode": 256}), "data-1", "400"),
        (json!({"items": items}), "path/to/data-2", "644"),
        (json!({"items": with_mode}), "path/to/data-2", "400"),
        // The same again: two volumes of one object.
        (json!({}), "data-1", "644"),
    ] {
        let mut own = fields.clone();
        let mode_of_all = own.as_object_mut().unwrap().remove("defaultMode");
        let named = |mut source: Value, key: &str| {
            source[key] = "same".into();
            source
        };
        let projected = |kind: &str| {
            let mut volume = json!({"projected": {"sources": [{kind: named(own.clone(), "name")}]}});
            if let Some(mode) = &mode_of_all {
                volume["projected"]["defaultMode"] = mode.clone();
            }
            volume
        };
        volumes.extend([
            json!({"configMap": named(fields.clone(), "name")}),
            json!({"secret": named(fields.clone(), "secretName")}),
            projected("configMap"),
            projected("secret"),
        ]);
        want.extend(std::iter::repeat_n((file, mode), 4));
    }
    let commands: Vec<String> = want
        .iter()
        .enumerate()
        .map(|(n, (file, _))| format!("stat -L -c %a /v{n}/{file}; cat /v{n}/{file}; echo"))
        .collect();
    let as_root = space.output("root", mounting(&commands.join("; "), &volumes)).await;
    let expected: String = want.iter().map(|(_, mode)| format!("{mode}\nvalue-1\n")).collect();
    assert_eq!(as_root, expected);

    // An object of the same name in another namespace is another object.
    let elsewhere = Space::new(space.cluster.clone(), &format!("{}-elsewhere", space.name)).await;
    elsewhere.secret("same", json!({"data-1": "value-2"})).await;
    elsewhere.config_map("same", json!({"data-1": "value-2"})).await;
    let own = elsewhere
        .output("pod", mounting("cat /v0/data-1 /v1/data-1; stat -L -c %a /v1/data-1", &volumes[..2]));
    assert_eq!(own.await, "value-2value-2644\n");

    // Another user reads what everybody may; with a group of its own also what the owner alone could.
    let mut spec = mounting(&commands.join("; "), &volumes);
    spec["securityContext"] = json!({"runAsUser": 1000, "fsGroup": 1001});
    let as_user = space.output("user", spec).await;
    let expected: String = want
        .iter()
        .map(|(_, mode)| format!("{}\nvalue-1\n", if *mode == "400" { "440" } else { "644" }))
        .collect();
    assert_eq!(as_user, expected);
    let readable: Vec<usize> = (0..want.len()).filter(|n| want[*n].1 == "644").collect();
    let script: Vec<String> = readable.iter().map(|n| commands[*n].clone()).collect();
    let mut spec = mounting(&script.join("; "), &volumes);
    spec["securityContext"] = json!({"runAsUser": 1000});
    assert_eq!(space.output("other", spec).await, "644\nvalue-1\n".repeat(readable.len()));
}

/// Text and bytes, objects that may be missing, and one that comes, changes and goes.
pub async fn objects_that_come_and_go(space: Space) {
    space
        .create(
            "configmaps",
            json!({"metadata": {"name": "bytes"}, "data": {"text": "a"}, "binaryData": {"raw": "3sr+"}}),
        )
        .await;
    let log = space
        .output(
            "binary",
            mounting(
                "cat /v0/text; echo; hexdump -C /v0/raw | head -1 | cut -c11-18",
                &[json!({"configMap": {"name": "bytes"}})],
            ),
        )
        .await;
    assert_eq!(log, "a\nde ca fe\n");

    let object = |kind: &str, key: &str, name: &str| json!({kind: {key: name, "optional": true}});
    let volumes: Vec<Value> = ["going", "changing", "coming"]
        .into_iter()
        .flat_map(|name| {
            [
                object("configMap", "name", name),
                object("secret", "secretName", name),
                json!({"projected": {"sources": [object("configMap", "name", name)]}}),
                json!({"projected": {"sources": [object("secret", "name", name)]}}),
            ]
        })
        .collect();
    for name in ["going", "changing"] {
        space.config_map(name, json!({"k": "1"})).await;
        space.secret(name, json!({"k": "1"})).await;
    }
    let script = format!(
        "for v in 0 1 2 3 4 5 6 7; do cat /v$v/k; done; echo; \
        until [ \"$(cat /v4/k /v5/k /v6/k /v7/k /v8/k /v9/k /v10/k /v11/k 2>/dev/null)\" = 22223333 ] && [ -z \"$(ls /v0 /v1 /v2 /v3 | grep k)\" ]; do sleep 0.3; done; echo all; {IDLE}"
    );
    space.pod("pod", mounting(&script, &volumes)).await;
    let log = async || space.kubectl(&["logs", "pod"]).await;
    space.ready("pod").await;
    space.eventually("the first values", async || log().await.starts_with("11111111\n")).await;
    for resource in ["configmaps", "secrets"] {
        space.send(http::Method::DELETE, &space.path(resource, "going"), Value::Null).await.unwrap();
    }
    space.change("configmaps", "changing", json!({"data": {"k": "2"}})).await;
    space.change("secrets", "changing", json!({"data": {"k": "Mg=="}})).await;
    space.config_map("coming", json!({"k": "3"})).await;
    space.secret("coming", json!({"k": "3"})).await;
    space.eventually("every change", async || log().await.ends_with("all\n")).await;
}

/// emptyDirs on disk and in memory, for root and others, with files of several modes.
pub async fn empty_dirs_of_every_mode(space: Space) {
    let volumes = [json!({"emptyDir": {}}), json!({"emptyDir": {"medium": "Memory"}})];
    let script = "for v in /v0 /v1; do stat -c %a $v; for m in 644 666 777; do echo content > $v/$m; chmod $m $v/$m; \
        stat -c %a $v/$m; cat $v/$m; done; done; stat -f -c %T /v1";
    let files = "644\ncontent\n666\ncontent\n777\ncontent\n";
    for (name, context) in [("root", json!({})), ("user", json!({"runAsUser": 1001}))] {
        let mut spec = mounting(script, &volumes);
        spec["securityContext"] = context;
        assert_eq!(space.output(name, spec).await, format!("777\n{files}1777\n{files}tmpfs\n"), "{name}");
    }
}

/// Fields and resources of a pod as files, alone and projected, and how they follow the pod.
pub async fn files_about_the_pod(space: Space) {
    let field = |path: &str, field: &str| json!({"path": path, "fieldRef": {"fieldPath": field}});
    let resource = |path: &str, container: &str, resource: &str, divisor: &str| json!({"path": path, "resourceFieldRef": {"containerName": container, "resource": resource, "divisor": divisor}});
    let mut secret = field("secret", "metadata.name");
    secret["mode"] = 256.into();
    let items = json!([
        field("name", "metadata.name"),
        field("labels", "metadata.labels"),
        field("annotations", "metadata.annotations"),
        secret,
        resource("cpu-limit", "main", "limits.cpu", "1m"),
        resource("cpu-request", "main", "requests.cpu", "1m"),
        resource("memory-limit", "main", "limits.memory", "1Mi"),
        resource("memory-request", "main", "requests.memory", "1Mi"),
        resource("all-cpu", "plain", "limits.cpu", "1"),
        resource("all-memory", "plain", "limits.memory", "1"),
    ]);
    let volumes = [
        json!({"downwardAPI": {"items": items}}),
        json!({"projected": {"sources": [{"downwardAPI": {"items": items}}]}}),
        json!({"downwardAPI": {"defaultMode": 256, "items": [field("name", "metadata.name")]}}),
        json!({"projected": {"defaultMode": 256, "sources": [{"downwardAPI": {"items": [field("name", "metadata.name")]}}]}}),
    ];
    let script = format!(
        "cd /; for v in v0 v1; do cat $v/name; echo; for f in cpu-limit cpu-request memory-limit memory-request; do cat $v/$f; echo; done; \
        stat -L -c %a $v/name $v/secret; [ $(cat $v/all-cpu) -gt 0 ] && [ $(cat $v/all-memory) -gt 1000000 ] && echo allocatable; done; stat -L -c %a v2/name v3/name; \
        until grep -q new v0/labels && grep -q new v1/labels && grep -q new v0/annotations && grep -q new v1/annotations; do sleep 0.3; done; echo changed; {IDLE}"
    );
    let mut spec = mounting(&script, &volumes);
    spec["containers"][0]["resources"] =
        json!({"limits": {"cpu": "500m", "memory": "64Mi"}, "requests": {"cpu": "250m", "memory": "32Mi"}});
    spec["containers"].as_array_mut().unwrap().push(json!({"name": "plain", "command": ["sh", "-c", IDLE]}));
    space.labelled_pod("pod", json!({"state": "old"}), spec).await;
    space.ready("pod").await;
    let log = async || space.kubectl(&["logs", "pod", "-c", "main"]).await;
    space.eventually("the first values", async || log().await.contains("400\n400\n")).await;
    let metadata = json!({"metadata": {"labels": {"state": "new"}, "annotations": {"state": "new"}}});
    space.change("pods", "pod", metadata).await;
    space.eventually("the new values", async || log().await.ends_with("changed\n")).await;
    let one = "pod\n500\n250\n64\n32\n644\n400\nallocatable\n";
    assert_eq!(log().await, format!("{one}{one}400\n400\nchanged\n"));
}

/// Parts of every kind of volume of files, also over a file that is there.
pub async fn parts_of_files(space: Space) {
    space.config_map("cm", json!({"k": "from cm"})).await;
    space.secret("sec", json!({"k": "from secret"})).await;
    let item = json!({"items": [{"path": "k", "fieldRef": {"fieldPath": "metadata.name"}}]});
    let volumes = [
        json!({"configMap": {"name": "cm"}}),
        json!({"secret": {"secretName": "sec"}}),
        json!({"downwardAPI": item}),
        json!({"projected": {"sources": [{"configMap": {"name": "cm"}}]}}),
    ];
    let mut spec =
        mounting("cat /p0; echo; cat /p1; echo; cat /p2; echo; cat /p3; echo; cat /etc/passwd", &volumes);
    let mut mounts: Vec<Value> = (0..4)
        .map(|n| json!({"name": format!("v{n}"), "mountPath": format!("/p{n}"), "subPath": "k"}))
        .collect();
    mounts.push(json!({"name": "v0", "mountPath": "/etc/passwd", "subPath": "k"}));
    spec["containers"][0]["volumeMounts"] = mounts.into();
    assert_eq!(space.output("pod", spec).await, "from cm\nfrom secret\npod\nfrom cm\nfrom cm");
}

/// Paths made of variables: what may not be in them keeps a container from starting, and may be mended.
pub async fn paths_of_variables(space: Space) {
    let spec = |annotation: &str| {
        let mut spec = mounting("test -d /v0 && touch /v0/file && ls /whole/*", &[json!({"emptyDir": {}})]);
        let main = &mut spec["containers"][0];
        main["env"] = json!([{"name": "PART", "valueFrom": {"fieldRef": {"fieldPath": format!("metadata.annotations['{annotation}']")}}}]);
        main["volumeMounts"] = json!([{"name": "v0", "mountPath": "/v0", "subPathExpr": "$(PART)"}, {"name": "v0", "mountPath": "/whole"}]);
        spec
    };
    let create = async |name: &str, part: &str| {
        let mut pod =
            json!({"metadata": {"name": name, "annotations": {"part": part}}, "spec": spec("part")});
        pod["spec"]["containers"][0]["image"] = BUSYBOX.into();
        space.create("pods", pod).await;
    };
    create("good", "here").await;
    create("absolute", "/tmp").await;
    create("backticks", "`ls`/..").await;
    space.phase("good", "Succeeded").await;
    assert_eq!(space.kubectl(&["logs", "good"]).await, "file\n");
    for name in ["absolute", "backticks"] {
        space
            .until(name, "refused", |pod| state(pod)["waiting"]["reason"] == "CreateContainerConfigError")
            .await;
    }
    space.change("pods", "absolute", json!({"metadata": {"annotations": {"part": "mended"}}})).await;
    space.phase("absolute", "Succeeded").await;
    space.delete("backticks", 0).await;
    space.deleted("backticks").await;
}

/// The image's words, or the pod's own.
pub async fn commands_and_arguments(space: Space) {
    space.pod("entrypoint", json!({"containers": [{"name": "main", "image": WEB}]})).await;
    let run = |command: Value, arguments: Value| {
        let mut spec = once("");
        spec["containers"][0] =
            json!({"name": "main", "image": BUSYBOX, "command": command, "args": arguments});
        spec
    };
    // The image's own command is `sh`, without an entrypoint.
    assert_eq!(space.output("default", run(Value::Null, Value::Null)).await, "");
    assert_eq!(
        space.output("arguments", run(Value::Null, json!(["echo", "only arguments"]))).await,
        "only arguments\n"
    );
    assert_eq!(
        space.output("command", run(json!(["echo", "only a command"]), Value::Null)).await,
        "only a command\n"
    );
    assert_eq!(space.output("both", run(json!(["echo", "a"]), json!(["b", "c"]))).await, "a b c\n");
    space.ready("entrypoint").await;
    assert_eq!(
        space
            .kubectl(&[
                "exec",
                "entrypoint",
                "--",
                "sh",
                "-c",
                "until wget -q -O - localhost; do sleep 0.1; done"
            ])
            .await,
        "entrypoint\n"
    );
}

/// Hooks that ask another pod, and what that pod heard.
pub async fn hooks_that_ask(space: Space) {
    let script = "mkdir /tmp/w; touch /tmp/w/started /tmp/w/stopped; exec httpd -f -vv -p 8080 -h /tmp/w";
    space.pod("server", json!({"containers": [super::space::shell("main", script)]})).await;
    let server = space.ready("server").await;
    let heard = async |path: &str| space.kubectl(&["logs", "server"]).await.contains(path);
    let ask =
        |path: &str| json!({"httpGet": {"host": server["status"]["podIP"], "port": 8080, "path": path}});
    let mut main = super::space::shell("main", IDLE);
    main["lifecycle"] = json!({"postStart": ask("/started"), "preStop": ask("/stopped")});
    // httpd may not listen yet at the very first moment.
    let up = "until wget -q -O /dev/null localhost:8080/started; do sleep 0.1; done";
    space.kubectl(&["exec", "server", "--", "sh", "-c", up]).await;
    space.pod("client", json!({"containers": [main]})).await;
    space.ready("client").await;
    let pod = server["status"]["podIP"].clone();
    assert!(pod.is_string() && !heard("/stopped").await);
    space.kubectl(&["delete", "pod", "client"]).await;
    space.eventually("both questions", async || heard("/started").await && heard("/stopped").await).await;
}

/// Names, labels, generations: what a pod goes through while people change and delete it.
pub async fn a_pods_life(space: Space) {
    let mut spec = json!({"containers": [super::space::shell("main", IDLE)]});
    spec["terminationGracePeriodSeconds"] = 5.into();
    space.labelled_pod("pod", json!({"time": "one"}), spec).await;
    let named = async |label: &str| space.kubectl(&["get", "pods", "-o", "name", "-l", label]).await;
    assert_eq!(named("time=one").await, "pod/pod\n");
    let pod = space.ready("pod").await;
    let generation = pod["metadata"]["generation"].as_i64().unwrap();
    assert_eq!(pod["status"]["observedGeneration"], generation);
    assert!(pod["status"]["hostIP"].as_str().unwrap().parse::<std::net::IpAddr>().is_ok());
    assert_eq!(pod["status"]["hostIPs"][0]["ip"], pod["status"]["hostIP"]);
    space
        .change(
            "pods",
            "pod",
            json!({"metadata": {"labels": {"time": "two"}}, "spec": {"activeDeadlineSeconds": 3000}}),
        )
        .await;
    assert_eq!(named("time=two").await, "pod/pod\n");
    let seen = |pod: &Value| {
        pod["metadata"]["generation"] == generation + 1
            && pod["status"]["observedGeneration"] == generation + 1
    };
    space.until("pod", "seen again", seen).await;
    space.delete("pod", 5).await;
    let pod = space
        .until("pod", "ending", |pod| pod["metadata"]["deletionTimestamp"].is_string() || pod.is_null())
        .await;
    assert!(pod.is_null() || pod["metadata"]["generation"] == generation + 2, "{:#}", pod["metadata"]);
    space.deleted("pod").await;
    assert_eq!(named("time=two").await, "");
}

/// /etc/hosts is ours, unless the pod brings its own or uses the node's network.
pub async fn hosts_files(space: Space) {
    let mut spec = once("head -1 /etc/hosts");
    spec["containers"]
        .as_array_mut()
        .unwrap()
        .push(json!({"name": "own", "image": BUSYBOX, "command": ["cat", "/etc/hosts"],
        "volumeMounts": [{"name": "hosts", "mountPath": "/etc/hosts"}]}));
    spec["volumes"] = json!([{"name": "hosts", "hostPath": {"path": "/etc/hosts", "type": "File"}}]);
    space.pod("pod", spec).await;
    let mut spec = once("cat /etc/hosts");
    spec["hostNetwork"] = true.into();
    let on_host = space.output("host", spec).await;
    space.phase("pod", "Succeeded").await;
    let managed = space.kubectl(&["logs", "pod", "-c", "main"]).await;
    assert!(managed.starts_with("# Kubernetes-managed hosts file"), "{managed}");
    // Other clusters on this machine add and remove blocks of their own at the end.
    let machines_own = |text: &str| text.split("# BEGIN minik8s").next().unwrap_or_default().to_owned();
    let host = machines_own(&std::fs::read_to_string("/etc/hosts").unwrap());
    assert_eq!(machines_own(&space.kubectl(&["logs", "pod", "-c", "own"]).await), host);
    assert!(host.lines().all(|line| on_host.contains(line)), "{on_host}");
}

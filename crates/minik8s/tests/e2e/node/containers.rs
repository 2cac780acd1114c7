//! What containers of a pod share, in which order they come, and what they are told.

use serde_json::{Value, json};

use super::space::{IDLE, Space, once, shell, state};
use crate::harness::cluster::NODE;

pub async fn shared_network_and_volumes(space: Space) {
    let mount = json!([{"name": "shared", "mountPath": "/shared"}]);
    let mut server = shell("server", "hostname > /shared/index.html; exec httpd -f -p 8080 -h /shared");
    let mut client = shell(
        "client",
        "until wget -q -O - localhost:8080 2>/dev/null; do sleep 0.1; done; hostname; \
         ps | grep -q \"[h]ttpd -f\" || echo alone; echo done > /shared/done; ls /shared",
    );
    server["volumeMounts"] = mount.clone();
    client["volumeMounts"] = mount;
    space.pod("pair", json!({"containers": [client, server], "restartPolicy": "Never", "volumes": [{"name": "shared", "emptyDir": {}}]})).await;
    space.until("pair", "half over", |pod| state(pod)["terminated"]["exitCode"] == 0).await;
    assert_eq!(
        space.kubectl(&["logs", "pair", "-c", "client"]).await,
        "pair\npair\nalone\ndone\nindex.html\n"
    );
    assert_eq!(space.kubectl(&["exec", "pair", "-c", "server", "--", "cat", "/shared/done"]).await, "done\n");
}

/// All containers see each other's processes and signals, and somebody reaps orphans.
pub async fn shared_processes(space: Space) {
    let names = json!([
        shell("a", IDLE),
        shell(
            "b",
            // One that has just ended may be seen before it is reaped.
            "sh -c 'sleep 0.2 &'; sleep 1; for i in $(seq 100); do ps -o stat | grep -q ^Z || break; sleep 0.1; done; \
             ps -o pid,stat,args; kill -0 1 && echo reached; sleep 1000"
        )
    ]);
    space.pod("shared", json!({"shareProcessNamespace": true, "containers": names})).await;
    space.ready("shared").await;
    let log = async || space.kubectl(&["logs", "shared", "-c", "b"]).await;
    space.eventually("its processes", async || log().await.contains("reached")).await;
    let log = log().await;
    assert!(log.contains("/pause") && log.contains(IDLE), "{log}");
    assert!(!log.contains(" Z "), "a zombie is left: {log}");
    space.delete("shared", 1).await;
}

pub async fn host_namespaces(space: Space) {
    let bridge = format!("mk-{}", space.cluster.config().instance());
    let mut main = shell(
        "main",
        &format!("grep -c {bridge} /proc/net/dev; hostname; ls -d /proc/{}", std::process::id()),
    );
    main["securityContext"] = json!({});
    let spec = json!({"restartPolicy": "Never", "hostNetwork": true, "hostPID": true, "hostIPC": true, "containers": [main]});
    let log = space.output("host", spec).await;
    let own = nix::unistd::gethostname().unwrap().into_string().unwrap();
    assert_eq!(log, format!("1\n{own}\n/proc/{}\n", std::process::id()));
    let pod = space.get(&space.path("pods", "host")).await.unwrap();
    assert_eq!(pod["status"]["podIP"], pod["status"]["hostIP"]);
}

pub async fn init_containers_in_order(space: Space) {
    let mount = json!([{"name": "v", "mountPath": "/v"}]);
    let step = |name: &str, script: &str| {
        let mut container = shell(name, script);
        container["volumeMounts"] = mount.clone();
        container
    };
    let spec = json!({
        "restartPolicy": "Never",
        "initContainers": [step("one", "echo one >> /v/log"), step("two", "test -e /v/once || { touch /v/once; exit 0; }; exit 1"), step("three", "echo three >> /v/log")],
        "containers": [step("main", "cat /v/log")],
        "volumes": [{"name": "v", "emptyDir": {}}],
    });
    assert_eq!(space.output("steps", spec).await, "one\nthree\n");
    let pod = space.get(&space.path("pods", "steps")).await.unwrap();
    let init = pod["status"]["initContainerStatuses"].as_array().unwrap();
    assert!(
        init.iter().all(|s| s["ready"] == true && s["state"]["terminated"]["reason"] == "Completed"),
        "{init:#?}"
    );
    assert_eq!(super::space::condition(&pod, "Initialized")["status"], "True");
}

pub async fn a_failing_init_container(space: Space) {
    let spec = |policy: &str| json!({"restartPolicy": policy, "initContainers": [shell("first", "exit 1")], "containers": [shell("main", IDLE)]});
    space.pod("never", spec("Never")).await;
    space.pod("always", spec("Always")).await;
    let pod = space.phase("never", "Failed").await;
    assert!(pod["status"]["containerStatuses"][0]["state"]["waiting"].is_object(), "{:#}", pod["status"]);
    let waits = |pod: &Value| {
        pod["status"]["initContainerStatuses"][0]["state"]["waiting"]["reason"] == "CrashLoopBackOff"
    };
    let pod = space.until("always", "CrashLoopBackOff", waits).await;
    assert_eq!(pod["status"]["phase"], "Pending");
    assert_eq!(state(&pod)["waiting"]["reason"], "PodInitializing");
    let row = space.kubectl(&["get", "pods", "--no-headers"]).await;
    assert!(row.contains("Init:CrashLoopBackOff") && row.contains("Init:Error"), "{row}");
}

/// Init containers come first also in a pod that stays.
pub async fn init_containers_of_a_lasting_pod(space: Space) {
    let init = json!([shell("one", "true"), shell("two", "true")]);
    space
        .pod(
            "pod",
            json!({"restartPolicy": "Always", "initContainers": init, "containers": [shell("main", IDLE)]}),
        )
        .await;
    let pod = space.ready("pod").await;
    let statuses = pod["status"]["initContainerStatuses"].as_array().unwrap();
    assert!(statuses.len() == 2 && statuses.iter().all(|s| s["state"]["terminated"]["exitCode"] == 0));
    assert!(state(&pod)["running"].is_object());
}

/// A sidecar starts before those that come after it, stays, is restarted, and ends last.
pub async fn sidecars(space: Space) {
    let dir = tempfile::tempdir().unwrap();
    let mount = json!([{"name": "v", "mountPath": "/v"}]);
    let with_volume = |mut container: Value| {
        container["volumeMounts"] = mount.clone();
        container
    };
    let mut side = with_volume(shell(
        "side",
        "echo side up >> /v/log; trap 'echo side down >> /v/log; exit 0' TERM; touch /v/up; sleep 1000 & wait",
    ));
    side["restartPolicy"] = "Always".into();
    let is_up = json!({"command": ["test", "-e", "/v/up"]});
    // Also on a busy machine.
    side["startupProbe"] =
        json!({"exec": is_up, "periodSeconds": 1, "timeoutSeconds": 20, "failureThreshold": 60});
    let spec = json!({
        "restartPolicy": "Never",
        "initContainers": [side, with_volume(shell("init", "test -e /v/up && echo init >> /v/log"))],
        "containers": [with_volume(shell("main", "echo main >> /v/log; sleep 0.3; echo main ends >> /v/log"))],
        "volumes": [{"name": "v", "hostPath": {"path": dir.path()}}],
    });
    space.pod("pod", spec).await;
    space.phase("pod", "Succeeded").await;
    let log = || std::fs::read_to_string(dir.path().join("log")).unwrap();
    // A phase that is final means that nothing runs any more.
    assert_eq!(log(), "side up\ninit\nmain\nmain ends\nside down\n");

    let mut dying = shell("dying", "sleep 0.5; exit 1");
    dying["restartPolicy"] = "Always".into();
    space.pod("again", json!({"initContainers": [dying], "containers": [shell("main", IDLE)]})).await;
    let restarted =
        |pod: &Value| pod["status"]["initContainerStatuses"][0]["restartCount"].as_u64() >= Some(1);
    let pod = space.until("again", "restarted its sidecar", restarted).await;
    assert_eq!(pod["status"]["containerStatuses"][0]["restartCount"], 0);
}

pub async fn environment(space: Space) {
    space.config_map("settings", json!({"colour": "green", "taste": "sour"})).await;
    space.secret("hidden", json!({"word": "xyzzy"})).await;
    space
        .create("services", json!({"metadata": {"name": "my-db"}, "spec": {"ports": [{"port": 5432}]}}))
        .await;
    // The agent learns of Services by a watch.
    tokio::time::sleep(std::time::Duration::from_millis(300)).await;
    let field = |path: &str| json!({"fieldRef": {"fieldPath": path}});
    let resource = |name: &str| json!({"resourceFieldRef": {"resource": name}});
    let main = json!({
        "name": "main",
        "command": ["sh", "-c", "env | sort; echo ARGUMENT=$0; echo COMMAND=$(GREETING)"],
        "args": ["$(GREETING)-$(NOBODY)-$$(GREETING)"],
        "resources": {"limits": {"cpu": "1500m", "memory": "64Mi"}, "requests": {"cpu": "10m", "memory": "32Mi"}},
        "envFrom": [{"configMapRef": {"name": "settings"}, "prefix": "CM_"}, {"secretRef": {"name": "hidden"}}, {"secretRef": {"name": "hidden"}, "prefix": "p_"},
            {"configMapRef": {"name": "absent", "optional": true}}],
        "env": [
            {"name": "GREETING", "value": "hello"},
            {"name": "TWICE", "value": "$(GREETING) $(GREETING) $(LATER)"},
            {"name": "LATER", "value": "late"},
            {"name": "COLOUR", "valueFrom": {"configMapKeyRef": {"name": "settings", "key": "colour"}}},
            {"name": "WORD", "valueFrom": {"secretKeyRef": {"name": "hidden", "key": "word"}}},
            {"name": "OPTIONAL", "valueFrom": {"secretKeyRef": {"name": "absent", "key": "word", "optional": true}}},
            {"name": "POD", "valueFrom": field("metadata.name")},
            {"name": "SPACE", "valueFrom": field("metadata.namespace")},
            {"name": "POD_UID", "valueFrom": field("metadata.uid")},
            {"name": "LABEL", "valueFrom": field("metadata.labels['tier']")},
            {"name": "NODE", "valueFrom": field("spec.nodeName")},
            {"name": "ACCOUNT", "valueFrom": field("spec.serviceAccountName")},
            {"name": "POD_IP", "valueFrom": field("status.podIP")},
            {"name": "HOST_IP", "valueFrom": field("status.hostIP")},
            {"name": "HOST_IPS", "valueFrom": field("status.hostIPs")},
            {"name": "CPU_LIMIT", "valueFrom": resource("limits.cpu")},
            {"name": "MEMORY_LIMIT", "valueFrom": resource("limits.memory")},
            {"name": "MEMORY_REQUEST", "valueFrom": resource("requests.memory")},
        ],
    });
    space
        .labelled_pod("env", json!({"tier": "back"}), json!({"restartPolicy": "Never", "containers": [main]}))
        .await;
    let pod = space.phase("env", "Succeeded").await;
    let log = space.kubectl(&["logs", "env"]).await;
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let (uid, ip, host) =
        (text(&pod["metadata"]["uid"]), text(&pod["status"]["podIP"]), text(&pod["status"]["hostIP"]));
    let service = space.get(&space.path("services", "my-db")).await.unwrap();
    let address = service["spec"]["clusterIP"].as_str().unwrap();
    for (name, value) in [
        ("GREETING", "hello"),
        ("TWICE", "hello hello $(LATER)"),
        ("ARGUMENT", "hello-$(NOBODY)-$(GREETING)"),
        ("COMMAND", "hello"),
        ("p_word", "xyzzy"),
        ("CM_colour", "green"),
        ("CM_taste", "sour"),
        ("word", "xyzzy"),
        ("COLOUR", "green"),
        ("WORD", "xyzzy"),
        ("POD", "env"),
        ("SPACE", &space.name),
        ("POD_UID", &uid),
        ("LABEL", "back"),
        ("NODE", NODE),
        ("ACCOUNT", "default"),
        ("POD_IP", &ip),
        ("HOST_IP", &host),
        ("HOST_IPS", &host),
        ("CPU_LIMIT", "2"),
        ("MEMORY_LIMIT", "67108864"),
        ("MEMORY_REQUEST", "33554432"),
        ("HOSTNAME", "env"),
        ("MY_DB_SERVICE_PORT", "5432"),
        ("MY_DB_SERVICE_HOST", address),
        ("MY_DB_PORT", &format!("tcp://{address}:5432")),
        ("MY_DB_PORT_5432_TCP", &format!("tcp://{address}:5432")),
        ("MY_DB_PORT_5432_TCP_PORT", "5432"),
        ("MY_DB_PORT_5432_TCP_PROTO", "tcp"),
        ("MY_DB_PORT_5432_TCP_ADDR", address),
        ("KUBERNETES_SERVICE_PORT", "443"),
    ] {
        assert!(log.lines().any(|line| line == format!("{name}={value}")), "{name}={value} is not in\n{log}");
    }
    assert!(!log.contains("OPTIONAL="), "{log}");

    // Without limits of its own a container is told what the node has.
    let node = space.get(&format!("/api/v1/nodes/{NODE}")).await.unwrap();
    let memory = text(&node["status"]["allocatable"]["memory"]);
    let kibibytes: u64 = memory.strip_suffix("Ki").unwrap().parse().unwrap();
    let mut spec = once("echo $CPU $MEMORY");
    spec["containers"][0]["env"] = json!([{"name": "CPU", "valueFrom": resource("limits.cpu")}, {"name": "MEMORY", "valueFrom": resource("limits.memory")}]);
    let want = format!("{} {}\n", text(&node["status"]["allocatable"]["cpu"]), kibibytes * 1024);
    assert_eq!(space.output("unlimited", spec).await, want);
}

/// The kernel knows which addresses a pod may send from before the pod does anything.
pub async fn guarded_ports(space: Space) {
    space
        .pod("guarded", json!({"containers": [shell("main", IDLE)], "terminationGracePeriodSeconds": 0}))
        .await;
    let pod = space.ready("guarded").await;
    let address = pod["status"]["podIP"].as_str().unwrap().to_owned();
    let table = format!("minik8s-{}", space.cluster.config().instance());
    let list = ["list", "set", "bridge", &table, "addresses"];
    let listed = std::process::Command::new("nft").args(list).output().unwrap();
    let listed = String::from_utf8_lossy(&listed.stdout).into_owned();
    let elements = listed.split(['{', '}', ',', '\n']).map(str::trim);
    let own = elements.filter(|element| element.ends_with(&format!(" . {address}"))).count();
    assert_eq!(own, 1, "{address}: {listed}");
}

pub async fn names_and_dns(space: Space) {
    let main = "hostname; hostname -f; grep -E 'one|two' /etc/hosts; cat /etc/resolv.conf";
    let mut spec = once(main);
    spec["hostname"] = "me".into();
    spec["subdomain"] = "group".into();
    spec["hostAliases"] = json!([{"ip": "192.0.2.9", "hostnames": ["one", "two"]}]);
    let log = space.output("named", spec).await;
    let own = format!("{}.svc.cluster.local", space.name);
    assert!(log.starts_with(&format!("me\nme.group.{own}\n192.0.2.9\tone\ttwo\n")), "{log}");
    assert!(log.contains(&format!("search {own} svc.cluster.local cluster.local")), "{log}");
    assert!(log.contains("options ndots:5"), "{log}");

    let mut spec = once("cat /etc/resolv.conf");
    spec["dnsPolicy"] = "None".into();
    spec["dnsConfig"] = json!({"nameservers": ["192.0.2.53"], "searches": ["example.org"], "options": [{"name": "ndots", "value": "2"}, {"name": "edns0"}]});
    let log = space.output("own-dns", spec).await;
    let lines: std::collections::BTreeSet<_> = log.lines().collect();
    assert_eq!(lines, ["nameserver 192.0.2.53", "search example.org", "options ndots:2 edns0"].into());
    // An address in the status is the one that the pod has.
    space.pod("address", once("ip -4 -o addr show eth0; sleep 0.2")).await;
    let pod = space.phase("address", "Succeeded").await;
    let log = space.kubectl(&["logs", "address"]).await;
    assert!(log.contains(pod["status"]["podIP"].as_str().unwrap()), "{log}");
}

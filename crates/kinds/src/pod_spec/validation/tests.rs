use serde_json::{Value, json};

use super::{Place, pod_spec};
use crate::At;
use crate::pod_spec::defaults;
use crate::{FieldErrors, Path};

/// The errors of a spec, defaulted first as every real one is.
fn errors_of(mut spec: Value) -> Vec<String> {
    defaults::pod_spec(&mut spec);
    let mut errors = FieldErrors::default();
    pod_spec(&At { path: Path::new("spec"), value: &spec }, Place::Pod, &mut errors);
    errors.iter().map(ToString::to_string).collect()
}

fn container() -> Value {
    json!({"name": "a", "image": "i"})
}

/// A good pod with `changes` merged into its spec.
fn pod(changes: Value) -> Value {
    let mut spec = json!({ "containers": [container()] });
    for (field, value) in changes.as_object().expect("object") {
        spec[field] = value.clone();
    }
    spec
}

/// A good pod with `changes` merged into its container.
fn with(changes: Value) -> Value {
    let mut container = container();
    for (field, value) in changes.as_object().expect("object") {
        container[field] = value.clone();
    }
    pod(json!({ "containers": [container], "volumes": [{"name": "v"}] }))
}

#[track_caller]
fn good(spec: Value) {
    assert_eq!(errors_of(spec.clone()), Vec::<String>::new(), "{spec}");
}

/// The errors must begin with these texts, one each.
#[track_caller]
fn bad(spec: Value, expected: &[&str]) {
    let errors = errors_of(spec.clone());
    let same = errors.len() == expected.len() && errors.iter().zip(expected).all(|(e, x)| e.starts_with(x));
    assert!(same, "{spec}\ngives    {errors:#?}\nexpected {expected:#?}");
}

#[test]
fn names_and_images() {
    good(pod(json!({})));
    bad(json!({}), &["spec.containers: Required value"]);
    bad(with(json!({"name": ""})), &["spec.containers[0].name: Required value"]);
    bad(
        with(json!({"name": "A"})),
        &["spec.containers[0].name: Invalid value: \"A\": a lowercase RFC 1123 label"],
    );
    bad(with(json!({"image": ""})), &["spec.containers[0].image: Required value"]);
    bad(
        with(json!({"image": " i"})),
        &["spec.containers[0].image: Invalid value: \" i\": must not have leading"],
    );
    bad(
        pod(json!({"initContainers": [container()]})),
        &["spec.initContainers[0].name: Duplicate value: \"a\""],
    );
    bad(
        with(json!({"imagePullPolicy": "Sometimes"})),
        &[
            "spec.containers[0].imagePullPolicy: Unsupported value: \"Sometimes\": supported values: \"Always\", \"IfNotPresent\", \"Never\"",
        ],
    );
}

#[test]
fn ports() {
    let ports = |ports: Value| with(json!({ "ports": ports }));
    good(ports(json!([{"containerPort": 80, "name": "http"}, {"containerPort": 80, "protocol": "UDP"}])));
    let at = "spec.containers[0].ports[0]";
    bad(ports(json!([{}])), &[&format!("{at}.containerPort: Required value")]);
    bad(
        ports(json!([{"containerPort": 70000}])),
        &[&format!("{at}.containerPort: Invalid value: 70000: must be between 1 and 65535, inclusive")],
    );
    bad(
        ports(json!([{"containerPort": 80, "protocol": "ICMP"}])),
        &[&format!("{at}.protocol: Unsupported value")],
    );
    bad(
        ports(json!([{"containerPort": 80, "name": "Web_1"}])),
        &[&format!("{at}.name: Invalid value: \"Web_1\": must contain only")],
    );
    bad(
        ports(json!([{"containerPort": 1, "name": "x"}, {"containerPort": 2, "name": "x"}])),
        &["spec.containers[0].ports[1].name: Duplicate value: \"x\""],
    );
    bad(
        ports(json!([{"containerPort": 1, "hostPort": 9}, {"containerPort": 2, "hostPort": 9}])),
        &["spec.containers[0].ports[1].hostPort: Duplicate value: \"TCP//9\""],
    );
    let mut host = ports(json!([{"containerPort": 1, "hostPort": 2}]));
    host["hostNetwork"] = json!(true);
    bad(host, &[&format!("{at}.hostPort: Invalid value: 2: must match `containerPort`")]);
}

#[test]
fn environment() {
    let env = |variable: Value| with(json!({ "env": [variable] }));
    let at = "spec.containers[0].env[0]";
    good(env(json!({"name": "A", "value": "b"})));
    good(env(json!({"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels['a/b']"}}})));
    bad(env(json!({"value": "b"})), &[&format!("{at}.name: Required value")]);
    bad(env(json!({"name": "A=B"})), &[&format!("{at}.name: Invalid value: \"A=B\": a valid environment")]);
    bad(
        env(json!({"name": "A", "valueFrom": {}})),
        &[&format!("{at}.valueFrom: Invalid value: \"\": must specify one of")],
    );
    bad(
        env(json!({"name": "A", "value": "x", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}})),
        &[&format!("{at}.valueFrom: Invalid value: \"\": may not be specified when `value` is not empty")],
    );
    bad(
        env(json!({"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "spec.x"}}})),
        &[&format!("{at}.valueFrom.fieldRef.fieldPath: Unsupported value: \"spec.x\"")],
    );
    bad(
        env(json!({"name": "A", "valueFrom": {"resourceFieldRef": {"resource": "limits.disk"}}})),
        &[&format!("{at}.valueFrom.resourceFieldRef.resource: Unsupported value")],
    );
    bad(
        env(json!({"name": "A", "valueFrom": {"secretKeyRef": {"name": "s", "key": "a b"}}})),
        &[&format!("{at}.valueFrom.secretKeyRef.key: Invalid value: \"a b\"")],
    );
    bad(
        with(json!({"envFrom": [{}]})),
        &[
            "spec.containers[0].envFrom[0]: Invalid value: \"\": must specify one of: `configMapRef` or `secretRef`",
        ],
    );
}

#[test]
fn volumes() {
    let volume = |volume: Value| pod(json!({ "volumes": [volume] }));
    bad(volume(json!({"emptyDir": {}})), &["spec.volumes[0].name: Required value"]);
    bad(
        pod(json!({"volumes": [{"name": "a"}, {"name": "a"}]})),
        &["spec.volumes[1].name: Duplicate value: \"a\""],
    );
    bad(
        volume(json!({"name": "a", "emptyDir": {}, "hostPath": {"path": "/"}})),
        &["spec.volumes[0].hostPath: Forbidden: may not specify more than 1 volume type"],
    );
    bad(
        volume(json!({"name": "a", "hostPath": {"path": "/a/../b"}})),
        &["spec.volumes[0].hostPath.path: Invalid"],
    );
    bad(
        volume(json!({"name": "a", "hostPath": {"path": "/a", "type": "Dir"}})),
        &["spec.volumes[0].hostPath.type"],
    );
    bad(volume(json!({"name": "a", "secret": {}})), &["spec.volumes[0].secret.secretName: Required value"]);
    bad(
        volume(json!({"name": "a", "configMap": {"name": "c", "defaultMode": 1000}})),
        &["spec.volumes[0].configMap.defaultMode: Invalid value: 1000: must be a number between 0 and 0777"],
    );
    bad(
        volume(json!({"name": "a", "configMap": {"name": "c", "items": [{"key": "k", "path": "/x"}]}})),
        &["spec.volumes[0].configMap.items[0].path: Invalid value: \"/x\": must be a relative path"],
    );
    bad(
        volume(
            json!({"name": "a", "projected": {"sources": [{"serviceAccountToken": {"path": "t", "expirationSeconds": 1}}]}}),
        ),
        &[
            "spec.volumes[0].projected.sources[0].serviceAccountToken.expirationSeconds: Invalid value: 1: may not specify a duration less",
        ],
    );
    bad(
        volume(json!({"name": "a", "emptyDir": {"sizeLimit": "1 Gi"}})),
        &["spec.volumes[0].emptyDir.sizeLimit: Invalid value: \"1 Gi\": quantities must match"],
    );
}

#[test]
fn mounts() {
    let mounts = |mounts: Value| with(json!({ "volumeMounts": mounts }));
    let at = "spec.containers[0].volumeMounts";
    good(mounts(json!([{"name": "v", "mountPath": "/a"}])));
    bad(mounts(json!([{"name": "w", "mountPath": "/a"}])), &[&format!("{at}[0].name: Not found: \"w\"")]);
    bad(mounts(json!([{"name": "v"}])), &[&format!("{at}[0].mountPath: Required value")]);
    bad(
        mounts(json!([{"name": "v", "mountPath": "/a"}, {"name": "v", "mountPath": "/a"}])),
        &[&format!("{at}[1].mountPath: Invalid value: \"/a\": must be unique")],
    );
    bad(
        mounts(json!([{"name": "v", "mountPath": "/a", "subPath": "../x"}])),
        &[&format!("{at}[0].subPath: Invalid value: \"../x\": must not contain '..'")],
    );
    bad(
        mounts(json!([{"name": "v", "mountPath": "/a", "mountPropagation": "Bidirectional"}])),
        &[&format!("{at}[0].mountPropagation: Forbidden")],
    );
    bad(
        with(json!({"volumeDevices": [{"name": "v", "devicePath": "/dev/x"}]})),
        &["spec.containers[0].volumeDevices[0].name: Invalid value: \"v\": can only use volume source"],
    );
}

#[test]
fn probes_and_hooks() {
    let probe = |probe: Value| with(json!({ "livenessProbe": probe }));
    let at = "spec.containers[0].livenessProbe";
    good(probe(json!({"httpGet": {"port": "http"}})));
    bad(probe(json!({})), &[&format!("{at}: Required value: must specify a handler type")]);
    bad(
        probe(json!({"exec": {"command": ["a"]}, "tcpSocket": {"port": 1}})),
        &[&format!("{at}.tcpSocket: Forbidden: may not specify more than 1 handler type")],
    );
    bad(probe(json!({"httpGet": {"port": 0}})), &[&format!("{at}.httpGet.port: Invalid value: 0")]);
    bad(probe(json!({"exec": {}})), &[&format!("{at}.exec.command: Required value")]);
    bad(
        probe(json!({"tcpSocket": {"port": 1}, "periodSeconds": -1})),
        &[&format!("{at}.periodSeconds: Invalid value: -1: must be greater than or equal to 0")],
    );
    bad(
        probe(json!({"tcpSocket": {"port": 1}, "successThreshold": 2})),
        &[&format!("{at}.successThreshold: Invalid value: 2: must be 1")],
    );
    bad(
        with(json!({"lifecycle": {"preStop": {}}})),
        &["spec.containers[0].lifecycle.preStop: Required value"],
    );
    bad(
        with(json!({"lifecycle": {"preStop": {"sleep": {"seconds": 31}}}})),
        &["spec.containers[0].lifecycle.preStop.sleep.seconds: Invalid value: 31"],
    );
    let init = |changes: Value| {
        let mut init = json!({"name": "i", "image": "i", "readinessProbe": {"tcpSocket": {"port": 1}}});
        init["restartPolicy"] = changes;
        pod(json!({ "initContainers": [init] }))
    };
    good(init(json!("Always")));
    bad(init(Value::Null), &["spec.initContainers[0].readinessProbe: Forbidden: may not be set for init"]);
}

#[test]
fn resources() {
    let resources = |requests: Value, limits: Value| {
        with(json!({ "resources": {"requests": requests, "limits": limits} }))
    };
    let at = "spec.containers[0].resources";
    good(resources(json!({"cpu": 1, "memory": "1Gi"}), json!({"cpu": "1500m", "nvidia.com/gpu": 1})));
    bad(
        resources(json!({"memory": "2Gi"}), json!({"memory": "1Gi"})),
        &[&format!(
            "{at}.requests: Invalid value: \"2Gi\": must be less than or equal to memory limit of 1Gi"
        )],
    );
    bad(
        resources(json!({"cpu": "-1"}), json!({})),
        &[&format!("{at}.requests[cpu]: Invalid value: \"-1\": must be greater than or equal to 0")],
    );
    bad(
        resources(json!({"cpu": "1x"}), json!({})),
        &[&format!("{at}.requests[cpu]: Invalid value: \"1x\": quantities must")],
    );
    bad(
        resources(json!({"disk": "1"}), json!({})),
        &[&format!(
            "{at}.requests[disk]: Invalid value: \"disk\": must be a standard resource for containers"
        )],
    );
    bad(
        resources(json!({"a.b/gpu": "1"}), json!({})),
        &[&format!("{at}.limits: Required value: Limit must be set for non overcommitable resources")],
    );
    bad(
        resources(json!({}), json!({"a.b/gpu": "500m"})),
        &[
            &format!("{at}.limits[a.b/gpu]: Invalid value: \"500m\": must be an integer"),
            &format!("{at}.requests[a.b/gpu]: Invalid value"),
        ],
    );
}

#[test]
fn placement() {
    bad(
        pod(json!({"nodeSelector": {"a b": "c"}})),
        &["spec.nodeSelector: Invalid value: \"a b\": name part must consist of"],
    );
    bad(
        pod(json!({"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {}}}})),
        &[
            "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms: Required",
        ],
    );
    let term = |expression: Value| json!([{"weight": 1, "preference": {"matchExpressions": [expression]}}]);
    let nodes = |terms: Value| {
        pod(json!({"affinity": {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": terms}}}))
    };
    good(nodes(term(json!({"key": "a", "operator": "Gt", "values": ["1"]}))));
    let at = "spec.affinity.nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution[0]";
    bad(
        nodes(term(json!({"key": "a", "operator": "Like", "values": ["1"]}))),
        &[&format!(
            "{at}.preference.matchExpressions[0].operator: Invalid value: \"Like\": not a valid selector operator"
        )],
    );
    bad(
        nodes(json!([{"weight": 0, "preference": {}}])),
        &[&format!("{at}.weight: Invalid value: 0: must be in the range 1-100")],
    );
    bad(
        pod(
            json!({"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{}]}}}),
        ),
        &[
            "spec.affinity.podAntiAffinity.requiredDuringSchedulingIgnoredDuringExecution[0].topologyKey: Required value: can not be empty",
        ],
    );
    bad(
        pod(json!({"tolerations": [{"operator": "Equal"}]})),
        &[
            "spec.tolerations[0].operator: Invalid value: \"Equal\": operator must be Exists when `key` is empty",
        ],
    );
    bad(
        pod(json!({"tolerations": [{"key": "a", "operator": "Exists", "value": "x"}]})),
        &["spec.tolerations[0].operator: Invalid value: \"x\": value must be empty"],
    );
    bad(
        pod(json!({"tolerations": [{"key": "a", "effect": "NoSchedule", "tolerationSeconds": 1}]})),
        &["spec.tolerations[0].effect: Invalid value: \"NoSchedule\": effect must be 'NoExecute'"],
    );
    bad(
        pod(json!({"topologySpreadConstraints": [{"maxSkew": 0, "whenUnsatisfiable": "x"}]})),
        &[
            "spec.topologySpreadConstraints[0].maxSkew: Invalid value: 0: must be greater than zero",
            "spec.topologySpreadConstraints[0].topologyKey: Required value: can not be empty",
            "spec.topologySpreadConstraints[0].whenUnsatisfiable: Unsupported value",
        ],
    );
    bad(
        pod(json!({"nodeName": "n", "schedulingGates": [{"name": "g"}]})),
        &["spec.nodeName: Forbidden: cannot be set until all schedulingGates have been cleared"],
    );
}

#[test]
fn pod_fields() {
    bad(pod(json!({"restartPolicy": "Maybe"})), &["spec.restartPolicy: Unsupported value: \"Maybe\""]);
    bad(
        pod(json!({"activeDeadlineSeconds": 0})),
        &["spec.activeDeadlineSeconds: Invalid value: 0: must be between 1"],
    );
    bad(pod(json!({"hostname": "A.b"})), &["spec.hostname: Invalid value"]);
    bad(pod(json!({"hostnameOverride": "A.b"})), &["spec.hostnameOverride: Invalid value"]);
    bad(pod(json!({"hostnameOverride": "a.".repeat(32) + "a"})), &["spec.hostnameOverride: Invalid value"]);
    let both = json!({"hostnameOverride": "a.b", "setHostnameAsFQDN": true});
    bad(pod(both), &["spec.hostnameOverride: Forbidden: may not be set when `setHostnameAsFQDN` is true"]);
    bad(
        pod(json!({"hostAliases": [{"ip": "1.2.3"}]})),
        &["spec.hostAliases[0].ip: Invalid value: \"1.2.3\""],
    );
    bad(pod(json!({"dnsPolicy": "None"})), &["spec.dnsConfig: Required value: must provide `dnsConfig`"]);
    bad(
        pod(json!({"dnsConfig": {"nameservers": ["x"], "searches": ["a b"], "options": [{}]}})),
        &[
            "spec.dnsConfig.nameservers[0]: Invalid value: \"x\"",
            "spec.dnsConfig.searches[0]: Invalid value: \"a b\"",
            "spec.dnsConfig.options[0].name: Required value",
        ],
    );
    bad(
        pod(json!({"shareProcessNamespace": true, "hostPID": true})),
        &["spec.shareProcessNamespace: Invalid value: true"],
    );
}

#[test]
fn security() {
    bad(
        pod(json!({"securityContext": {"runAsUser": -1, "fsGroup": 1_i64 << 40}})),
        &[
            "spec.securityContext.runAsUser: Invalid value: -1: must be between 0",
            "spec.securityContext.fsGroup",
        ],
    );
    bad(
        pod(json!({"securityContext": {"sysctls": [{"name": "A b"}, {"name": "a.b"}, {"name": "a/b"}]}})),
        &["spec.securityContext.sysctls[0].name: Invalid", "spec.securityContext.sysctls[2].name: Duplicate"],
    );
    bad(
        pod(json!({"securityContext": {"seccompProfile": {"type": "Localhost"}}})),
        &["spec.securityContext.seccompProfile.localhostProfile: Required value: must be set when seccomp"],
    );
    bad(
        with(json!({"securityContext": {"privileged": true, "allowPrivilegeEscalation": false}})),
        &["spec.containers[0].securityContext: Invalid value: {"],
    );
}

#[test]
fn ephemeral_containers() {
    let debug = |changes: Value| {
        let mut debug = json!({"name": "d", "image": "i"});
        for (field, value) in changes.as_object().expect("object") {
            debug[field] = value.clone();
        }
        pod(json!({ "ephemeralContainers": [debug] }))
    };
    good(debug(json!({"targetContainerName": "a"})));
    bad(
        debug(json!({"targetContainerName": "x"})),
        &["spec.ephemeralContainers[0].targetContainerName: Not found"],
    );
    bad(debug(json!({"ports": [{"containerPort": 1}]})), &["spec.ephemeralContainers[0].ports: Forbidden"]);
}

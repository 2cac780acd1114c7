//! What our program prints is what kubectl prints, and every command of it has its output fixed by a test: the lists
//! are in `harness/verbs.rs`.

use std::collections::BTreeSet;
use std::path::Path;

use base64::prelude::{BASE64_STANDARD, Engine as _};

use super::authority::signing_request;
use crate::harness::verbs::{ASKED, DONE, ELSEWHERE, ON_A_NODE, SHOWN, SHOWN_ON_A_NODE};
use crate::harness::{Kubectl, Output, Server, installed, ours, plain, run_to_end};

/// How often both are asked the same while what they are told changes.
const ROUNDS: u32 = 20;

/// Questions, to the same objects.
#[test]
fn asked_byte_for_byte() {
    // So that the node that is none is soon given up.
    let server = Server::start_with(&["--node-grace", "3"]);
    let kubectl = installed().pop().expect("a kubectl");
    let theirs = Kubectl::new(&server, &kubectl, "same");
    prepare(&theirs);
    let mut own = Kubectl::new(&server, &ours(&server), "other");
    own.namespace.clone_from(&theirs.namespace);
    let mut different = Vec::new();
    for command in ASKED {
        different.extend(compare(&theirs, &own, command).err());
    }
    assert!(different.is_empty(), "{} differ:\n{}", different.len(), different.join("\n\n"));
}

/// Something may happen between the two: they differ only if they differ in the same words when both are asked again.
fn compare(theirs: &Kubectl, own: &Kubectl, command: &str) -> Result<(), String> {
    let timeless = |output: &Output| (output.code, timeless(&output.stdout), timeless(&output.stderr));
    let (mut before, mut rounds) = (None, 0);
    loop {
        let [expected, printed] = at_once(|| theirs.output(command, ""), || own.output(command, ""));
        let said = [timeless(&expected), timeless(&printed)];
        if said[0] == said[1] {
            return Ok(());
        }
        rounds += 1;
        if rounds == ROUNDS || before.as_ref() == Some(&said) {
            return Err(told(&expected, &printed));
        }
        before = Some(said);
    }
}

/// Without ages, which may change between two questions, and the blanks behind them.
fn timeless(text: &str) -> String {
    let age = regex::Regex::new(r"\b(\d+y)?(\d+d)?(\d+h)?(\d+m)?(\d+s)?\b *").expect("a pattern");
    let replace = |found: &regex::Captures<'_>| match found[0].trim().is_empty() {
        true => found[0].to_owned(),
        false => "AGE ".to_owned(),
    };
    age.replace_all(text, replace).into_owned()
}

/// Both, side by side: what depends on the moment is then mostly the same.
fn at_once(one: impl FnOnce() -> Output + Send, other: impl FnOnce() -> Output + Send) -> [Output; 2] {
    std::thread::scope(|scope| {
        let other = scope.spawn(other);
        [one(), other.join().expect("an end")]
    })
}

fn told(expected: &Output, printed: &Output) -> String {
    let text = |output: &Output| format!("{}{}exit code {}", output.stdout, output.stderr, output.code);
    format!("=== {}\n{}\n--- ours\n{}", expected.command, text(expected), text(printed))
}

/// Something of every kind that is described.
fn prepare(k: &Kubectl) {
    k.run("create configmap settings --from-literal=a=1 --from-literal=text='two words: #1'");
    k.run("create configmap other --from-literal=a=2");
    k.run("label configmap settings color=red");
    k.run("create secret generic login --from-literal=user=me");
    k.run("create service clusterip inside --tcp=80:8080");
    k.run("create role reader --verb=get,list --resource=pods,deployments.apps");
    k.run("create rolebinding readers --role=reader --user=jane");
    k.run("create job once --image=busybox -- echo hi");
    k.run("create cronjob tick --image=busybox --schedule='0 0 1 1 *' -- date");
    k.run("create pdb guard --selector=app=web --min-available=1");
    k.run("create ingress front --rule=shop.example/cart=inside:80");
    k.run("create quota few --hard=pods=1000,requests.cpu=2000m,count/secrets=50");
    k.run_with(&OBJECTS.replace("NAMESPACE", &k.namespace), "create -f -");
    k.run("wait crd/gadgets.same.example --for=condition=Established --timeout=180s");
    k.run_with(GADGET, "create -f -");
    k.run_with(super::DEPLOYMENT, "create -f -");
    k.run("rollout status deployment/app --timeout=180s");
    k.run("autoscale deployment app --min=1 --max=3 --cpu-percent=50");
    // What controllers write about them does not change any more once it is there.
    k.run("wait quota/few --for=jsonpath='{.status.used.pods}'=2 --timeout=180s");
    k.run("wait pod/one --for=condition=PodScheduled=false --timeout=180s");
    k.run("wait job/once --for=jsonpath='{.status.active}'=1 --timeout=180s");
    k.run("wait pdb/guard --for=jsonpath='{.status.observedGeneration}'=1 --timeout=180s");
    let given_up = "{.spec.taints[?(@.key==\"node.kubernetes.io/unreachable\")].effect}";
    k.run(&format!("wait node/still --for=jsonpath='{given_up}'=NoSchedule --timeout=180s"));
    k.run("wait hpa/app --for=condition=ScalingActive=false --timeout=180s");
    for (set, field) in [("statefulset/db", "observedGeneration"), ("daemonset/agent", "observedGeneration")]
    {
        k.run(&format!("wait {set} --for=jsonpath='{{.status.{field}}}'=1 --timeout=180s"));
    }
    k.run("wait rc/old --for=jsonpath='{.status.observedGeneration}'=1 --timeout=180s");
}

const GADGET: &str =
    "apiVersion: same.example/v1\nkind: Gadget\nmetadata: {name: one}\nspec: {size: 3, tags: [a, b]}\n";

const OBJECTS: &str = r#"
{apiVersion: v1, kind: Pod, metadata: {name: one, labels: {app: one}}, spec: {
  containers: [{name: main, image: 'nginx:1', ports: [{containerPort: 80}], env: [{name: A, value: b}],
    resources: {requests: {cpu: 1000m, memory: 64Mi}, limits: {cpu: '2', memory: 1024Mi}},
    readinessProbe: {httpGet: {path: /, port: 80}}, volumeMounts: [{name: cache, mountPath: /cache}]}],
  volumes: [{name: cache, emptyDir: {sizeLimit: 1024Mi}}]}}
---
{apiVersion: v1, kind: ReplicationController, metadata: {name: old}, spec: {replicas: 0, selector: {app: old},
  template: {metadata: {labels: {app: old}}, spec: {containers: [{name: c, image: 'nginx:1'}]}}}}
---
{apiVersion: apps/v1, kind: StatefulSet, metadata: {name: db}, spec: {replicas: 0, serviceName: db,
  selector: {matchLabels: {app: db}},
  template: {metadata: {labels: {app: db}}, spec: {containers: [{name: c, image: 'nginx:1'}]}},
  volumeClaimTemplates: [{metadata: {name: data}, spec: {accessModes: [ReadWriteOnce],
    resources: {requests: {storage: 1024Mi}}}}]}}
---
{apiVersion: apps/v1, kind: DaemonSet, metadata: {name: agent}, spec: {selector: {matchLabels: {app: agent}},
  template: {metadata: {labels: {app: agent}}, spec: {nodeSelector: {none: such}, containers: [{name: c, image: 'nginx:1'}]}}}}
---
{apiVersion: v1, kind: LimitRange, metadata: {name: bounds}, spec: {limits: [{type: Container,
  min: {memory: 8Mi}, max: {memory: 4096Mi}, default: {memory: 256Mi}, defaultRequest: {memory: 64Mi}}]}}
---
{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: disk}, spec: {accessModes: [ReadWriteOnce],
  storageClassName: '', volumeName: nowhere, resources: {requests: {storage: 1Gi}}}}
---
{apiVersion: v1, kind: PersistentVolume, metadata: {name: shelf}, spec: {accessModes: [ReadOnlyMany],
  capacity: {storage: 2048Mi}, storageClassName: none, hostPath: {path: /srv/shelf}}}
---
{apiVersion: storage.k8s.io/v1, kind: StorageClass, metadata: {name: quick}, provisioner: example.com/quick,
  parameters: {speed: high}}
---
{apiVersion: networking.k8s.io/v1, kind: NetworkPolicy, metadata: {name: quiet}, spec: {podSelector: {matchLabels: {app: one}},
  policyTypes: [Ingress], ingress: [{from: [{podSelector: {matchLabels: {app: web}}}], ports: [{port: 80}]}]}}
---
{apiVersion: v1, kind: Node, metadata: {name: still, labels: {zone: a}}, spec: {unschedulable: true,
  taints: [{key: disk, value: slow, effect: NoSchedule}]}}
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: gadgets.same.example}
spec:
  group: same.example
  scope: Namespaced
  names: {plural: gadgets, singular: gadget, kind: Gadget}
  versions:
  - name: v1
    served: true
    storage: true
    schema:
      openAPIV3Schema:
        description: Gadget is a thing of this test.
        type: object
        properties:
          spec:
            description: What it is like.
            type: object
            properties:
              size: {type: integer, description: How large it is.}
              tags: {type: array, items: {type: string}}
---
{apiVersion: v1, kind: Event, metadata: {name: told}, involvedObject: {apiVersion: v1, kind: ConfigMap, namespace: NAMESPACE,
  name: settings}, reason: Told, message: something happened, type: Normal, source: {component: test},
  firstTimestamp: '2020-01-01T00:00:00Z', lastTimestamp: '2020-01-01T00:00:00Z', count: 2}
"#;

/// Changes, each in a namespace of its own.
#[test]
fn done_in_the_same_words() {
    let server = Server::start();
    let programs = [installed().pop().expect("a kubectl"), ours(&server)];
    let both = [Kubectl::new(&server, &programs[0], "theirs"), Kubectl::new(&server, &programs[1], "ours")];
    let dirs = both.each_ref().map(|k| k.dir().join(&k.namespace));
    let request = BASE64_STANDARD.encode(signing_request());
    for dir in &dirs {
        std::fs::create_dir(dir).expect("a directory");
        key_pair(dir);
        overlay(dir);
    }
    let mut different = Vec::new();
    for (input, command) in DONE {
        let run = |i: usize| {
            let own = |text: &str| {
                let dir = dirs[i].to_str().expect("a path of letters");
                text.replace("{me}", &both[i].namespace).replace("{dir}", dir).replace("{request}", &request)
            };
            both[i].output(&own(command), &own(input))
        };
        if command.starts_with("rollout status") {
            // What it says on the way depends on the moment in which it is asked.
            at_once(|| run(0), || run(1));
        }
        let [expected, printed] = at_once(|| run(0), || run(1));
        let said = |output: &Output, i: usize| {
            let own = |text: &str| comparable(text, &both[i].namespace);
            (output.code, own(&output.stdout), own(&output.stderr))
        };
        if said(&expected, 0) != said(&printed, 1) {
            different.push(told(&expected, &printed));
        }
    }
    assert!(different.is_empty(), "{} differ:\n{}", different.len(), different.join("\n\n"));
}

/// Without names of namespaces, tokens, and the names and times of temporary files.
fn comparable(text: &str, namespace: &str) -> String {
    const PATTERNS: &[(&str, &str)] = &[
        (r"eyJ[A-Za-z0-9_.-]{40,}", "TOKEN"),
        // Versions after 1.33 leave it out, as we do.
        (r"(?m)^ *creationTimestamp: null\n", ""),
        (r"(?m)^(---|\+\+\+|diff -u -N) .*$", "$1"),
        (r"/tmp/[^ \n\x22]+", "FILE"),
        (r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", "UID"),
    ];
    PATTERNS.iter().fold(text.replace(namespace, "NAMESPACE"), |text, (pattern, word)| {
        regex::Regex::new(pattern).expect("a pattern").replace_all(&text, *word).into_owned()
    })
}

/// A base with a Deployment that uses what is generated, and an overlay that changes most of it.
fn overlay(dir: &Path) {
    let base = "resources: [app.yaml]\n\
        configMapGenerator: [{name: settings, literals: [a=1, 'b=two words'], files: [note=app.yaml]}]\n\
        secretGenerator: [{name: keys, literals: [k=<&>]}]\n";
    let over = "resources: [../base]\nnamePrefix: my-\nnameSuffix: -x\ncommonAnnotations: {note: hi}\n\
        labels: [{pairs: {part: shop}, includeSelectors: true}, {pairs: {more: labels}}]\n\
        images: [{name: nginx, newTag: '7'}, {name: busybox, newName: other/busybox, digest: 'sha256:0123'}]\n\
        replicas: [{name: app, count: 0}]\n\
        configMapGenerator: [{name: settings, behavior: merge, literals: [a=2]}]\n\
        patches:\n\
        - {path: patch.yaml}\n\
        - {target: {kind: Deploy.*}, patch: '[{\"op\": \"add\", \"path\": \"/spec/paused\", \"value\": true}]'}\n\
        replacements:\n\
        - source: {kind: Deployment, fieldPath: spec.template.spec.containers.0.image}\n  \
          targets: [{select: {kind: Deployment}, fieldPaths: [metadata.annotations.first], options: {create: true}}]\n";
    let patch = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: app}\nspec: {template: {spec: {\
        containers: [{name: new, image: nginx}, {name: main, envFrom: [{configMapRef: {name: settings}}, {secretRef: {name: keys}}], \
        env: [{name: C, value: '3'}]}], volumes: [{name: v, projected: {sources: [{secret: {name: keys}}]}}]}}}\n";
    for (name, text) in [
        ("base/app.yaml", super::DEPLOYMENT),
        ("base/kustomization.yaml", base),
        ("overlay/kustomization.yaml", over),
        ("overlay/patch.yaml", patch),
    ] {
        let file = dir.join(name);
        std::fs::create_dir_all(file.parent().expect("a directory")).expect("a directory");
        std::fs::write(file, text).expect("a file");
    }
}

fn key_pair(dir: &Path) {
    let pair = rcgen::generate_simple_self_signed(["web.example".to_owned()]).expect("a certificate");
    std::fs::write(dir.join("tls.crt"), pair.cert.pem()).expect("a file");
    std::fs::write(dir.join("tls.key"), pair.signing_key.serialize_pem()).expect("a file");
}

/// The program's own commands, with our own words where we have better ones.
#[test]
fn shown_as_in_the_snapshots() {
    let server = Server::start();
    let program = Path::new(env!("CARGO_BIN_EXE_minik8s"));
    let k = Kubectl::new(&server, program, "shown");
    // Found as people have it found: by the environment.
    let config = k.dir().join("config");
    std::fs::copy(server.kubeconfig(), &config).expect("a kubeconfig");
    k.run(&format!(
        "config set-context --current --namespace={} --kubeconfig={}",
        k.namespace,
        config.display()
    ));
    let dir = k.dir().join("shown");
    std::fs::create_dir(&dir).expect("a directory");
    std::fs::write(dir.join("wrong.yaml"), super::DEPLOYMENT.replace("replicas: 0", "replicass: 0"))
        .expect("a file");
    std::fs::write(
        dir.join("indent.yaml"),
        "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\n labels: {}\n",
    )
    .expect("a file");
    k.run("run one --image=nginx --overrides='{\"spec\":{\"nodeSelector\":{\"disk\":\"fast\"}}}'");
    k.run("create configmap settings");
    k.run("wait pod/one --for=condition=PodScheduled=false --timeout=60s");
    for command in SHOWN {
        let mut minik8s = std::process::Command::new(program);
        minik8s.env("KUBECONFIG", &config).env("HOME", k.dir());
        let words = command.replace("{dir}", dir.to_str().expect("a path of letters"));
        let output = run_to_end(minik8s, &words, "");
        let mut text = output.stdout;
        if command.starts_with("completion") {
            // A script of its own; that shells take it is tested elsewhere.
            text = text.lines().next().unwrap_or_default().to_owned() + "\n";
        }
        let text = format!("{}{}exit code {}\n", plain(&text), plain(&output.stderr), output.code);
        let name = command.replace("{dir}/", "").replace([' ', '/', '=', '.'], "-");
        insta::with_settings!({description => *command, omit_expression => true}, {
            insta::assert_snapshot!(name, text);
        });
    }
}

/// No command without a case: they are those of the reference page, which is made from the program itself.
#[test]
fn every_command_has_its_output_fixed() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let page = std::fs::read_to_string(root.join("../../docs/cli.md")).expect("the reference page");
    let commands: BTreeSet<&str> =
        page.lines().filter_map(|line| line.strip_prefix("## minik8s ")).map(str::trim).collect();
    assert!(commands.len() > 80, "{commands:?}");
    let is_group = |command: &str| commands.iter().any(|other| other.starts_with(&format!("{command} ")));
    let done = DONE.iter().map(|(_, command)| *command);
    let cases: Vec<String> = ASKED
        .iter()
        .chain(ON_A_NODE)
        .chain(SHOWN)
        .chain(SHOWN_ON_A_NODE)
        .copied()
        .chain(done)
        .map(|case| case.split(' ').filter(|word| !word.starts_with('-')).collect::<Vec<_>>().join(" ") + " ")
        .collect();
    let missing: Vec<_> = commands
        .iter()
        // `create -f` is a command and a group.
        .filter(|command| !is_group(command) || **command == "create")
        .filter(|command| !cases.iter().any(|case| case.starts_with(&format!("{command} "))))
        .filter(|command| !ELSEWHERE.iter().any(|(elsewhere, _, _)| elsewhere == *command))
        .collect();
    assert!(missing.is_empty(), "no test fixes the output of: {missing:?}");
    for (command, file, test) in ELSEWHERE {
        let text = std::fs::read_to_string(root.join(file)).unwrap_or_default();
        assert!(text.contains(&format!("fn {test}")), "{command}: {file} has no {test}");
    }
}

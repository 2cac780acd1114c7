//! The pod that listens to a subject of a NATS server: of the user's namespace, so that it reaches what the user's pods
//! reach and nothing else, with one key by which it signs what it tells. The control plane connects nowhere. Pure.

use k8s_openapi::api::core::v1::Pod;
use minik8s_meta::function::RUNTIMES;
use minik8s_meta::trigger::{Trigger, TriggerNats};
use minik8s_runtime::{Plan, owner_reference};
use serde_json::{Value, json};

use super::Observed;
use super::file::{GENERATION, KEY, USER, keep};
use super::plan::Ready;

const PROGRAM: &str = include_str!("nats.py");
const USUAL_PORT: u16 = 4222;
const LONGEST_SUBJECT: usize = 200;

/// The Secret with the key of a trigger's pod.
pub fn key_name(trigger: &str) -> String {
    format!("{trigger}-nats-key")
}

pub fn plan(seen: &Observed, plan: &mut Plan) -> Ready {
    let Some(nats) = &seen.trigger.spec.source.nats else { return ("False", "NoSubject", String::new()) };
    let make = |generation: &str| pod(&seen.trigger, nats, generation, seen.router_port);
    keep(seen, &make, plan)
}

/// Host and port of `nats://HOST[:PORT]`, or what is wrong with it.
pub fn address(url: &str) -> Result<(String, u16), String> {
    let example = "give it as nats://HOST:4222; credentials come from secretRef";
    let Some(rest) = url.strip_prefix("nats://") else { return Err(example.to_owned()) };
    let rest = rest.trim_end_matches('/');
    let (host, port) = match rest.rsplit_once(':') {
        Some((host, port)) => (
            host,
            port.parse::<u16>().ok().filter(|port| *port > 0).ok_or("the port is no number of a port")?,
        ),
        None => (rest, USUAL_PORT),
    };
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '.' || c == '-';
    match !host.is_empty() && host.len() <= 253 && host.chars().all(plain) {
        true => Ok((host.to_owned(), port)),
        false => Err(example.to_owned()),
    }
}

/// Words with dots between them; `*` is any word, and `>` as the last one all that follow.
pub fn is_subject(subject: &str) -> bool {
    let words: Vec<&str> = subject.split('.').collect();
    let last = words.len() - 1;
    let is_part = |(at, word): (usize, &&str)| match *word {
        "*" => true,
        ">" => at == last,
        word => is_word(word) && !word.contains(['*', '>']),
    };
    subject.len() <= LONGEST_SUBJECT && words.iter().enumerate().all(is_part)
}

/// What can stand in a line of the protocol without being anything else.
pub fn is_word(word: &str) -> bool {
    !word.is_empty() && word.len() <= LONGEST_SUBJECT && word.chars().all(|c| c.is_ascii_graphic())
}

fn pod(trigger: &Trigger, nats: &TriggerNats, generation: &str, router_port: u16) -> Pod {
    let meta = &trigger.metadata;
    let (namespace, name) =
        (meta.namespace.as_deref().unwrap_or_default(), meta.name.as_deref().unwrap_or_default());
    let (host, port) = address(&nats.url).unwrap_or_default();
    let set = |name: &str, value: &str| json!({"name": name, "value": value});
    let from_secret = |variable: &str, secret: &str, key: &str| {
        let reference = json!({"name": secret, "key": key, "optional": true});
        json!({"name": variable, "valueFrom": {"secretKeyRef": reference}})
    };
    let mut env: Vec<Value> = vec![
        json!({"name": "HOST_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.hostIP"}}}),
        json!({"name": "NATS_KEY", "valueFrom": {"secretKeyRef": {"name": key_name(name), "key": KEY}}}),
        set("NATS_POST", &format!("http://$(HOST_IP):{router_port}/fn/{namespace}/-/hooks/{name}")),
        set("NATS_HOST", &host),
        set("NATS_PORT", &port.to_string()),
        set("NATS_SUBJECT", &nats.subject),
        set("NATS_GROUP", nats.group.as_deref().unwrap_or_default()),
        set("NATS_NAME", &format!("{namespace}/{name}")),
    ];
    if let Some(secret) = &nats.secret_ref {
        for (variable, key) in [("NATS_USER", "user"), ("NATS_PASSWORD", "password"), ("NATS_TOKEN", "token")]
        {
            env.push(from_secret(variable, &secret.name, key));
        }
    }
    let pod = json!({
        "metadata": {
            "name": format!("{name}-nats"),
            "namespace": namespace,
            "labels": {"app.kubernetes.io/name": "trigger-nats", GENERATION: generation},
            "ownerReferences": [owner_reference(trigger)],
        },
        "spec": {
            "restartPolicy": "Always",
            "terminationGracePeriodSeconds": 5,
            "automountServiceAccountToken": false,
            "enableServiceLinks": false,
            "securityContext": {
                "runAsNonRoot": true, "runAsUser": USER, "runAsGroup": USER,
                "seccompProfile": {"type": "RuntimeDefault"},
            },
            "containers": [{
                "name": "nats",
                "image": RUNTIMES[0].image,
                "imagePullPolicy": "IfNotPresent",
                "command": ["/usr/bin/python3.11", "-c", PROGRAM],
                "env": env,
                // It listens while it is subscribed.
                "readinessProbe": {"tcpSocket": {"port": 8080}, "periodSeconds": 1, "failureThreshold": 3},
                "resources": {"requests": {"cpu": "1m", "memory": "16Mi"}, "limits": {"memory": "128Mi"}},
                "securityContext": {
                    "allowPrivilegeEscalation": false, "readOnlyRootFilesystem": true, "capabilities": {"drop": ["ALL"]},
                },
            }],
        },
    });
    serde_json::from_value(pod).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader, Write};
    use std::net::TcpListener;
    use std::process::{Child, Command};
    use std::time::{Duration, Instant};

    use super::*;

    #[test]
    fn addresses_of_servers() {
        let check = |url: &str, want: Option<(&str, u16)>| {
            let want = want.map(|(host, port)| (host.to_owned(), port));
            assert_eq!(address(url).ok(), want, "{url}");
        };
        check("nats://nats:4222", Some(("nats", 4222)));
        check("nats://nats.shop.svc/", Some(("nats.shop.svc", 4222)));
        check("nats://10.0.0.1:1", Some(("10.0.0.1", 1)));
        for bad in [
            "nats",
            "http://nats:1",
            "nats://",
            "nats://a:0",
            "nats://a:x",
            "nats://user:pass@a:1",
            "nats://a b",
        ] {
            check(bad, None);
        }
    }

    #[test]
    fn subjects_are_words_with_dots() {
        for good in ["orders", "orders.paid", "orders.*.paid", "orders.>", ">", "*"] {
            assert!(is_subject(good), "{good}");
        }
        for bad in ["", "a..b", ".a", "a.", "a b", "a.>.b", "a*", "a\r\nPUB x 1", &"x".repeat(300)] {
            assert!(!is_subject(bad), "{bad}");
        }
    }

    #[test]
    fn pod_has_no_token_and_credentials_only_from_the_secret() {
        let mut trigger = Trigger::default();
        trigger.metadata.name = Some("orders".to_owned());
        trigger.metadata.namespace = Some("shop".to_owned());
        let mut nats =
            TriggerNats { url: "nats://nats".into(), subject: "a".into(), ..TriggerNats::default() };
        let variables = |nats: &TriggerNats| {
            let pod = pod(&trigger, nats, "1", 80).spec.unwrap();
            assert_eq!(pod.automount_service_account_token, Some(false));
            let env = pod.containers[0].env.clone().unwrap();
            env.into_iter().map(|variable| variable.name).collect::<Vec<_>>()
        };
        assert!(!variables(&nats).contains(&"NATS_TOKEN".to_owned()));
        nats.secret_ref = Some(minik8s_meta::trigger::TriggerNatsSecret { name: "s".into() });
        assert!(variables(&nats).contains(&"NATS_TOKEN".to_owned()));
    }

    /// The program of the pod, ended with the test.
    struct Program(Child);

    impl Drop for Program {
        fn drop(&mut self) {
            let _ = self.0.kill();
            let _ = self.0.wait();
        }
    }

    /// What it says to a server that asks it for nothing: its three first lines.
    fn said(variables: &[(&str, &str)]) -> [String; 3] {
        let server = TcpListener::bind("127.0.0.1:0").unwrap();
        server.set_nonblocking(true).unwrap();
        let mut program = Command::new("/usr/bin/python3.11");
        program.args(["-c", PROGRAM]).env_clear().envs(variables.iter().copied());
        program
            .env("NATS_HOST", "127.0.0.1")
            .env("NATS_PORT", server.local_addr().unwrap().port().to_string());
        program.env("NATS_SUBJECT", "orders.*").env("NATS_NAME", "shop/orders");
        program.env("NATS_POST", "http://127.0.0.1:9/").env("NATS_KEY", "k");
        let _program = Program(program.spawn().unwrap());
        let deadline = Instant::now() + Duration::from_secs(60);
        let mut stream = loop {
            match server.accept() {
                Ok((stream, _)) => break stream,
                Err(error) => assert!(Instant::now() < deadline, "it does not connect: {error}"),
            }
            std::thread::sleep(Duration::from_millis(20));
        };
        stream.set_nonblocking(false).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        stream.write_all(b"INFO {}\r\n").unwrap();
        let mut lines = BufReader::new(stream).lines();
        [(); 3].map(|()| lines.next().unwrap().unwrap())
    }

    #[test]
    fn subscription_has_the_group_and_shows_the_credentials() {
        let [connect, subscribe, ping] = said(&[("NATS_GROUP", "workers"), ("NATS_TOKEN", "s3cret")]);
        let options: Value = serde_json::from_str(connect.strip_prefix("CONNECT ").unwrap()).unwrap();
        assert_eq!((&options["auth_token"], &options["name"]), (&json!("s3cret"), &json!("shop/orders")));
        assert_eq!((&options["user"], &options["verbose"]), (&Value::Null, &json!(false)));
        assert_eq!((subscribe.as_str(), ping.as_str()), ("SUB orders.* workers 1", "PING"));

        let of_user =
            [("NATS_GROUP", ""), ("NATS_USER", "shop"), ("NATS_PASSWORD", "s3cret"), ("NATS_TOKEN", "")];
        let [connect, subscribe, _] = said(&of_user);
        let options: Value = serde_json::from_str(connect.strip_prefix("CONNECT ").unwrap()).unwrap();
        assert_eq!((&options["user"], &options["pass"]), (&json!("shop"), &json!("s3cret")));
        assert_eq!(options["auth_token"], Value::Null);
        assert_eq!(
            subscribe.split_whitespace().collect::<Vec<_>>(),
            ["SUB", "orders.*", "1"],
            "everybody hears"
        );
    }
}

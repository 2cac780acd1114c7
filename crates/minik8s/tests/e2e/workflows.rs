//! Workflows on a real server: by kubectl and by `minik8s workflow`, through a crash, and past those who may not.

use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use crate::harness::Server;

/// Generous: the machine may be busy with other tests.
const TIMEOUT: Duration = Duration::from_secs(120);

/// A client of the server: our own program.
struct Client<'a>(&'a Server);

impl Client<'_> {
    fn ask(&self, arguments: &[&str]) -> Result<String, String> {
        let output = Command::new(env!("CARGO_BIN_EXE_minik8s"))
            .args(arguments)
            .env("KUBECONFIG", self.0.kubeconfig())
            .output()
            .unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim_end().to_owned();
        if output.status.success() { Ok(text(&output.stdout)) } else { Err(text(&output.stderr)) }
    }

    #[track_caller]
    fn run(&self, arguments: &[&str]) -> String {
        self.ask(arguments).unwrap_or_else(|error| panic!("{arguments:?}: {error}"))
    }

    fn file(&self, name: &str, content: &Value) -> PathBuf {
        let path = self.0.scratch().join(name);
        std::fs::write(&path, format!("{content:#}")).unwrap();
        path
    }

    #[track_caller]
    fn create(&self, name: &str, definition: &Value) {
        let file = self.file(&format!("{name}.json"), definition);
        self.run(&["workflow", "create", name, "-f", file.to_str().unwrap()]);
    }

    fn get(&self, run: &str) -> Value {
        serde_json::from_str(&self.run(&["get", "workflowrun", run, "-o", "json"])).unwrap()
    }

    #[track_caller]
    fn wait_for(&self, run: &str, phase: &str) -> Value {
        let start = Instant::now();
        loop {
            let found = self.get(run);
            if found["status"]["phase"] == phase {
                return found;
            }
            assert!(start.elapsed() < TIMEOUT, "{run} is not {phase}: {found:#}");
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

/// An HTTP service: notes what it is asked, and answers with JSON of it once `open` says so.
struct Service {
    port: u16,
    asked: Arc<Mutex<Vec<(String, String)>>>,
    open: Arc<Mutex<bool>>,
}

impl Service {
    fn start(open: bool) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let (asked, open) = (Arc::new(Mutex::new(Vec::new())), Arc::new(Mutex::new(open)));
        let (noted, gate) = (asked.clone(), open.clone());
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (noted, gate) = (noted.clone(), gate.clone());
                std::thread::spawn(move || answer(stream, &noted, &gate));
            }
        });
        Service { port, asked, open }
    }

    fn url(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}{path}", self.port)
    }

    fn asked(&self, path: &str) -> Vec<String> {
        self.asked
            .lock()
            .unwrap()
            .iter()
            .filter(|(asked, _)| asked == path)
            .map(|(_, key)| key.clone())
            .collect()
    }

    fn task(&self, path: &str, next: &str) -> Value {
        let mut task = json!({"Type": "Task", "Resource": "arn:aws:states:::http:invoke",
            "Parameters": {"ApiEndpoint": self.url(path), "Method": "POST", "RequestBody.$": "$"},
            "ResultSelector": {"body.$": "$.ResponseBody"}, "OutputPath": "$.body"});
        if next.is_empty() {
            task["End"] = true.into();
        } else {
            task["Next"] = next.into();
        }
        task
    }
}

fn answer(mut stream: TcpStream, noted: &Mutex<Vec<(String, String)>>, gate: &Mutex<bool>) {
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    let (mut line, mut key, mut length) = (String::new(), String::new(), 0);
    reader.read_line(&mut line).unwrap();
    let path = line.split(' ').nth(1).unwrap_or_default().to_owned();
    loop {
        let mut header = String::new();
        reader.read_line(&mut header).unwrap();
        let Some((name, value)) = header.trim_end().split_once(": ") else { break };
        match name.to_ascii_lowercase().as_str() {
            "idempotency-key" => key = value.to_owned(),
            "content-length" => length = value.parse().unwrap(),
            _ => {}
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).unwrap();
    noted.lock().unwrap().push((path.clone(), key));
    while path == "/slow" && !*gate.lock().unwrap() {
        std::thread::sleep(Duration::from_millis(20));
    }
    let input: Value = serde_json::from_slice(&body).unwrap_or_default();
    let answer = json!({"path": path, "was": input}).to_string();
    // The server may have died meanwhile.
    let _ = write!(
        stream,
        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{answer}",
        answer.len()
    );
}

fn pass() -> Value {
    json!({"StartAt": "a", "States": {"a": {"Type": "Pass", "Result": {"x": [1, null], "y": {"z": null}}, "End": true}}})
}

#[test]
fn workflow_is_made_run_and_seen() {
    let server = Server::start();
    let client = Client(&server);
    client.create("hello", &pass());
    let output = client.run(&["workflow", "run", "hello", "--wait"]);
    assert_eq!(serde_json::from_str::<Value>(&output).unwrap(), json!({"x": [1, null], "y": {"z": null}}));
    // Twice by the same key is once.
    for _ in 0..2 {
        client.run(&["workflow", "run", "hello", "--idempotency-key", "k", "--wait"]);
    }
    let runs = client.run(&["workflow", "runs", "hello"]);
    assert_eq!(runs.lines().count(), 3, "{runs}");
    let run = client.run(&["get", "workflowruns", "-o", "jsonpath={.items[0].metadata.name}"]);
    assert!(client.run(&["workflow", "history", &run]).contains("Succeeded: "));
    let events: Value =
        serde_json::from_str(&client.run(&["workflow", "history", &run, "--events"])).unwrap();
    assert_eq!(events["events"].as_array().unwrap().len(), 4, "{events:#}");
    assert!(client.run(&["workflow", "graph", "--run", &run]).contains("a  Pass  ✓"));
    assert!(client.run(&["workflow", "graph", "hello", "--svg"]).starts_with("<svg"));
    assert!(client.run(&["workflow", "why", &run]).contains("is Succeeded"));
    assert!(client.run(&["get", "workflows"]).contains("Standard"));
    // A bad one is refused with the path, by the server, and with the line, by the command.
    let bad = json!({"apiVersion": "minik8s.io/v1", "kind": "Workflow", "metadata": {"name": "bad"},
        "spec": {"definition": {"StartAt": "a", "States": {"a": {"Type": "Pass", "Next": "b"}}}}});
    let file = client.file("bad.json", &bad);
    let refused = client.ask(&["apply", "-f", file.to_str().unwrap()]).unwrap_err();
    assert!(
        refused.contains("spec.definition.States.a.Next: Invalid value: \"b\": MISSING_TRANSITION_TARGET"),
        "{refused}"
    );
    let refused = client.ask(&["workflow", "validate", "-f", file.to_str().unwrap()]).unwrap_err();
    assert!(refused.contains("bad.json:13:") && refused.contains("/States/a/Next"), "{refused}");
    let failed = client.run(&["workflow", "run", "hello"]);
    let failed = failed.split([' ', '/']).nth(1).unwrap().to_owned();
    client.wait_for(&failed, "Succeeded");
    // A run of nothing fails and says so.
    let lost = json!({"apiVersion": "minik8s.io/v1", "kind": "WorkflowRun", "metadata": {"name": "lost"}, "spec": {"workflow": "nope"}});
    client.run(&["apply", "-f", client.file("lost.json", &lost).to_str().unwrap()]);
    let lost = client.wait_for("lost", "Failed");
    assert_eq!(lost["status"]["error"], "StateMachineDoesNotExist");
}

#[test]
fn run_goes_on_after_kill_minus_nine_and_repeats_nothing_that_had_ended() {
    let mut server = Server::start();
    let service = Service::start(false);
    let client = Client(&server);
    let allowed = format!("workflows.allowed-addresses=127.0.0.1:{}", service.port);
    client.run(&["cluster", "set", &allowed]);
    client.create(
        "chain",
        &json!({"StartAt": "one", "States": {"one": service.task("/one", "two"), "two": service.task("/slow", "wait"),
            "wait": {"Type": "Wait", "Seconds": 1, "Next": "three"}, "three": service.task("/three", "")}}),
    );
    client.run(&["workflow", "run", "chain", "-d", "{\"n\": null}", "--idempotency-key", "c"]);
    let run = client.run(&["get", "workflowruns", "-o", "name"]);
    let run = run.rsplit('/').next().unwrap().to_owned();
    let start = Instant::now();
    while service.asked("/slow").is_empty() {
        assert!(start.elapsed() < TIMEOUT, "{}", server.log());
        std::thread::sleep(Duration::from_millis(20));
    }
    server.crash_and_restart();
    *service.open.lock().unwrap() = true;
    let client = Client(&server);
    let ended = client.wait_for(&run, "Succeeded");
    let expected =
        json!({"path": "/three", "was": {"path": "/slow", "was": {"path": "/one", "was": {"n": null}}}});
    assert_eq!(ended["status"]["output"], expected);
    assert_eq!(service.asked("/one").len(), 1, "a task that had ended is not run again");
    let slow = service.asked("/slow");
    assert_eq!(slow.len(), 2, "a task that was under way is asked for again");
    assert_eq!(slow[0], slow[1], "with the same key");
    assert_eq!(service.asked("/three").len(), 1);
    assert!(ended["status"]["historyBytes"].as_u64().unwrap() < 2048, "{ended:#}");
    // Deleting the run deletes its history.
    client.run(&["delete", "workflowrun", &run]);
    let gone = client.ask(&["workflow", "history", &run]).unwrap_err();
    assert!(gone.contains("not found"), "{gone}");
}

#[test]
fn run_reaches_nothing_that_its_user_does_not() {
    let server = Server::start();
    let service = Service::start(true);
    let client = Client(&server);
    let api = server.url.replace("https", "http");
    for (index, address) in [
        service.url("/secret"),
        format!("http://localhost:{}/secret", service.port),
        format!("http://[::ffff:127.0.0.1]:{}/secret", service.port),
        format!("http://2130706433:{}/secret", service.port),
        format!("{api}/version"),
        "http://169.254.169.254/latest/meta-data".to_owned(),
        "http://kubernetes.default.svc.cluster.local:443/version".to_owned(),
    ]
    .iter()
    .enumerate()
    {
        let definition = json!({"StartAt": "t", "States": {"t": {"Type": "Task", "Resource": "arn:aws:states:::http:invoke",
            "Parameters": {"ApiEndpoint": address, "Method": "GET"}, "End": true}}});
        let name = format!("probe{index}");
        if address.contains("kubernetes.default") {
            client.run(&["create", "namespace", "tenant"]);
            let file = client.file("tenant.json", &definition);
            client.run(&["workflow", "create", &name, "-f", file.to_str().unwrap(), "-n", "tenant"]);
            let refused = client.ask(&["workflow", "run", &name, "--wait", "-n", "tenant"]).unwrap_err();
            assert!(refused.contains("States.Http.Forbidden"), "{address}: {refused}");
            continue;
        }
        client.create(&name, &definition);
        let refused = client.ask(&["workflow", "run", &name, "--wait"]).unwrap_err();
        assert!(refused.contains("States.Http."), "{address}: {refused}");
    }
    assert!(service.asked.lock().unwrap().is_empty(), "nothing was reached");
}

#[test]
fn task_token_is_answered_by_who_has_it_and_may() {
    let server = Server::start();
    let service = Service::start(true);
    let client = Client(&server);
    client.run(&["cluster", "set", &format!("workflows.allowed-addresses=127.0.0.1:{}", service.port)]);
    let definition = json!({"StartAt": "ask", "States": {"ask": {
        "Type": "Task", "Resource": "arn:aws:states:::http:invoke.waitForTaskToken", "HeartbeatSeconds": 600,
        "Parameters": {"ApiEndpoint.$": format!("States.Format('{}/{{}}', $$.Task.Token)", service.url("")), "Method": "POST"},
        "End": true}}});
    client.create("approve", &definition);
    let started = client.run(&["workflow", "run", "approve"]);
    let run = started.split([' ', '/']).nth(1).unwrap().to_owned();
    let start = Instant::now();
    let token = loop {
        if let Some((path, _)) = service.asked.lock().unwrap().first() {
            break path.trim_start_matches('/').to_owned();
        }
        assert!(start.elapsed() < TIMEOUT, "{}", server.log());
        std::thread::sleep(Duration::from_millis(20));
    };
    assert!(token.starts_with(&run), "{token}");
    let forged = format!("{}0", &token[..token.len() - 1]);
    for wrong in [forged.as_str(), &format!("{run}.2.00"), &format!("{run}.x.y")] {
        if *wrong == *token {
            continue;
        }
        let refused = client.ask(&["workflow", "answer", wrong, "-d", "1"]).unwrap_err();
        assert!(refused.contains("InvalidToken"), "{refused}");
    }
    // Who may not create workflowruns/tasks may not answer, token or not; nor start, nor read history.
    for (verb, resource) in
        [("create", "workflowruns/tasks"), ("create", "workflowruns"), ("get", "workflowruns/history")]
    {
        let may = client.ask(&["auth", "can-i", verb, resource, "--as", "bob"]);
        assert_eq!(may.unwrap_or_else(|_| "no".to_owned()), "no", "{verb} {resource}");
    }
    let refused = client.ask(&["workflow", "answer", &token, "-d", "1", "--as", "bob"]).unwrap_err();
    assert!(refused.contains("forbidden") || refused.contains("cannot create"), "{refused}");
    client.run(&["workflow", "answer", &token, "--heartbeat"]);
    client.run(&["workflow", "answer", &token, "-d", "{\"approved\": true}"]);
    let ended = client.wait_for(&run, "Succeeded");
    assert_eq!(ended["status"]["output"], json!({"approved": true}));
    let late = client.ask(&["workflow", "answer", &token, "-d", "2"]).unwrap_err();
    assert!(late.contains("TaskTimedOut"), "{late}");
}

#[test]
fn run_is_stopped_redriven_and_started_by_another() {
    let server = Server::start();
    let client = Client(&server);
    client.create("sleep", &json!({"StartAt": "w", "States": {"w": {"Type": "Wait", "Seconds": 3600, "Next": "p"}, "p": {"Type": "Pass", "End": true}}}));
    let started = client.run(&["workflow", "run", "sleep"]);
    let run = started.split([' ', '/']).nth(1).unwrap().to_owned();
    client.wait_for(&run, "Running");
    let start = Instant::now();
    while !client.run(&["workflow", "why", &run]).contains("waits in w (Wait)") {
        assert!(start.elapsed() < TIMEOUT, "{}", client.run(&["workflow", "why", &run]));
        std::thread::sleep(Duration::from_millis(50));
    }
    client.run(&["workflow", "stop", &run, "--error", "Enough", "--cause", "too long"]);
    let stopped = client.wait_for(&run, "Aborted");
    assert_eq!(
        (stopped["status"]["error"].as_str(), stopped["status"]["cause"].as_str()),
        (Some("Enough"), Some("too long"))
    );
    client.run(&["workflow", "redrive", &run]);
    assert_eq!(client.wait_for(&run, "Running")["status"]["redrives"], 1);
    // A run of another workflow, awaited; and one that fails.
    client.create("child", &pass());
    client.create(
        "bad",
        &json!({"StartAt": "f", "States": {"f": {"Type": "Fail", "Error": "Broken", "Cause": "on purpose"}}}),
    );
    let parent = |child: &str| {
        json!({"StartAt": "c", "States": {"c": {"Type": "Task", "Resource": "arn:aws:states:::states:startExecution.sync:2",
            "Parameters": {"StateMachineArn": child, "Input": {"n": 1}}, "OutputPath": "$.Output", "End": true}}})
    };
    client.create("parent", &parent("child"));
    let output = client.run(&["workflow", "run", "parent", "--wait"]);
    assert_eq!(serde_json::from_str::<Value>(&output).unwrap()["y"], json!({"z": null}));
    client.create("sad", &parent("arn:aws:states:eu-west-1:1:stateMachine:bad"));
    let failed = client.ask(&["workflow", "run", "sad", "--wait"]).unwrap_err();
    assert!(failed.contains("States.TaskFailed") && failed.contains("on purpose"), "{failed}");
    let simple = client.file("simple.json", &json!({"startAt": "add", "nodes": {"add": {"type": "Task"}}}));
    assert!(client.run(&["workflow", "convert", "-f", simple.to_str().unwrap()]).contains("function:add"));
    // Express keeps no history.
    let file = client.file("express.json", &pass());
    client.run(&["workflow", "create", "fast", "--type", "Express", "-f", file.to_str().unwrap()]);
    client.run(&["workflow", "run", "fast", "--idempotency-key", "x", "--wait"]);
    let fast = client.run(&[
        "get",
        "workflowruns",
        "-o",
        "jsonpath={.items[?(@.spec.workflow==\"fast\")].metadata.name}",
    ]);
    assert!(client.ask(&["workflow", "history", &fast]).unwrap_err().contains("Express"));
}

/// Each iteration of a distributed Map is a run of its own, of the definition that the Map's run began with, and goes
/// with it; whoever is stopped stops them.
#[test]
fn distributed_map_is_runs_of_their_own() {
    let server = Server::start();
    let client = Client(&server);
    let machine = |state: Value| {
        json!({"StartAt": "m", "States": {"m": {"Type": "Map", "End": true,
            "ItemSelector": {"value.$": "$$.Map.Item.Value", "index.$": "$$.Map.Item.Index"},
            "ItemProcessor": {"ProcessorConfig": {"Mode": "DISTRIBUTED", "ExecutionType": "STANDARD"}, "StartAt": "s",
                "States": {"s": state}}}}})
    };
    client.create("many", &machine(json!({"Type": "Pass", "OutputPath": "$.value", "End": true})));
    let items: Vec<i64> = (0..30).collect();
    let input = json!(items).to_string();
    let output = client.run(&["workflow", "run", "many", "-d", &input, "--idempotency-key", "k", "--wait"]);
    assert_eq!(serde_json::from_str::<Value>(&output).unwrap(), json!(items));
    let runs: Value = serde_json::from_str(&client.run(&["get", "workflowruns", "-o", "json"])).unwrap();
    let children: Vec<&Value> =
        runs["items"].as_array().unwrap().iter().filter(|run| run["spec"]["iteration"].is_object()).collect();
    assert_eq!(children.len(), 30);
    let child = children[7]["metadata"]["name"].as_str().unwrap();
    let parent = children[7]["spec"]["iteration"]["run"].as_str().unwrap();
    assert!(client.run(&["workflow", "history", child]).contains("Succeeded: "));
    let told: Value =
        serde_json::from_str(&client.run(&["workflow", "history", parent, "--events"])).unwrap();
    let kinds: Vec<&str> =
        told["events"].as_array().unwrap().iter().filter_map(|event| event["type"].as_str()).collect();
    assert!(kinds.contains(&"MapRunSucceeded") && kinds.len() < 10, "{kinds:?}");
    client.run(&["delete", "workflowrun", parent]);
    let start = Instant::now();
    while client.run(&["get", "workflowruns", "-o", "name"]).contains(parent) {
        assert!(start.elapsed() < TIMEOUT, "the iterations outlive their run");
        std::thread::sleep(Duration::from_millis(100));
    }
    // A stopped run stops its iterations.
    client.create("slow", &machine(json!({"Type": "Wait", "Seconds": 3600, "End": true})));
    let started = client.run(&["workflow", "run", "slow", "-d", "[1, 2]"]);
    let run = started.split([' ', '/']).nth(1).unwrap().to_owned();
    let iterations = || -> Vec<Value> {
        let runs: Value = serde_json::from_str(&client.run(&["get", "workflowruns", "-o", "json"])).unwrap();
        let all = runs["items"].as_array().unwrap().iter();
        all.filter(|one| one["spec"]["iteration"]["run"] == json!(run)).cloned().collect()
    };
    let until = |what: &str, holds: &dyn Fn() -> bool| {
        let start = Instant::now();
        while !holds() {
            assert!(start.elapsed() < TIMEOUT, "{what}: {:#?}", iterations());
            std::thread::sleep(Duration::from_millis(100));
        }
    };
    until("two wait", &|| iterations().iter().filter(|one| one["status"]["phase"] == "Running").count() == 2);
    client.run(&["workflow", "stop", &run]);
    until("both are stopped", &|| iterations().iter().all(|one| one["status"]["phase"] == "Aborted"));
    // Who names a run of another namespace gets nothing of it.
    client.run(&["create", "namespace", "tenant"]);
    let theft = json!({"apiVersion": "minik8s.io/v1", "kind": "WorkflowRun", "metadata": {"name": "theft", "namespace": "tenant"},
        "spec": {"workflow": "slow", "iteration": {"run": run, "map": ["m/0"], "index": 0}}});
    client.run(&["apply", "-f", client.file("theft.json", &theft).to_str().unwrap()]);
    until("the thief fails", &|| {
        let found =
            client.run(&["get", "workflowrun", "theft", "-n", "tenant", "-o", "jsonpath={.status.cause}"]);
        found.contains("is gone")
    });
}

//! What people type: logs, exec, attach, port-forward, cp, debug, describe.

use futures::StreamExt;
use hyper_util::rt::TokioIo;
use minik8s_kubelet::image::{BUSYBOX, WEB};
use serde_json::json;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::Role;

use super::space::{IDLE, Space, idle, once, said, shell};
use crate::harness::cluster::TIMEOUT;

pub async fn logs(space: Space) {
    let talk = format!("echo line 1; echo line 2; echo line 3; sleep 0.3; echo oops >&2; {IDLE}");
    space.kubectl(&["run", "talker", &format!("--image={BUSYBOX}"), "--", "sh", "-c", &talk]).await;
    let crash = "echo attempt; exit 1";
    space.pod("crash", json!({"containers": [shell("main", crash)]})).await;
    space.pod("two", json!({"containers": [shell("a", &format!("echo from a; {IDLE}")), shell("b", &format!("echo from b; {IDLE}"))]})).await;
    space.ready("talker").await;
    space.eventually("all lines", async || space.kubectl(&["logs", "talker"]).await.contains("oops")).await;
    let log = async |flags: &[&str]| space.kubectl(&[&["logs"], flags].concat()).await;
    assert_eq!(log(&["talker"]).await, "line 1\nline 2\nline 3\noops\n");
    assert_eq!(log(&["talker", "--tail=2"]).await, "line 3\noops\n");
    assert_eq!(log(&["talker", "--tail=1"]).await, "oops\n");
    assert_eq!(log(&["talker", "--tail=0"]).await, "");
    assert_eq!(log(&["talker", "--limit-bytes=1"]).await, "l");
    assert_eq!(log(&["talker", "--limit-bytes=9"]).await, "line 1\nli");
    assert_eq!(log(&["talker", "--since=1h"]).await, "line 1\nline 2\nline 3\noops\n");
    assert_eq!(log(&["talker", "--since=24h"]).await, "line 1\nline 2\nline 3\noops\n");
    space.eventually("a second of silence", async || log(&["talker", "--since=1s"]).await.is_empty()).await;
    assert_eq!(log(&["talker", "--since-time=2999-01-01T00:00:00Z"]).await, "");
    let stamped = log(&["talker", "--timestamps", "--tail=2"]).await;
    let times: Vec<_> = stamped.lines().map(|line| line.split_once(' ').unwrap()).collect();
    assert_eq!(times.iter().map(|(_, text)| *text).collect::<Vec<_>>(), ["line 3", "oops"]);
    assert!(times.iter().all(|(time, _)| time.parse::<jiff::Timestamp>().is_ok()), "{stamped}");

    space.waiting("crash", "CrashLoopBackOff").await;
    assert_eq!(log(&["crash", "--previous"]).await, "attempt\n");
    space.ready("two").await;
    for (name, words) in [("a", "from a\n"), ("b", "from b\n")] {
        space.eventually(words, async || log(&["two", "-c", name]).await == words).await;
    }
    // kubectl asks for one container after the other, in no order.
    let both = log(&["two", "--all-containers"]).await;
    assert!(["from a\nfrom b\n", "from b\nfrom a\n"].contains(&both.as_str()), "{both}");
    let wrong = space.try_kubectl(&["logs", "two", "-c", "nobody"]).await;
    assert!(wrong.code != 0 && wrong.err.contains("nobody"), "{wrong:?}");
    let never = space.try_kubectl(&["logs", "talker", "--previous"]).await;
    assert!(never.code != 0 && never.err.contains("not found"), "{never:?}");
}

/// A follower sees every line and ends with the container.
pub async fn following_logs(space: Space) {
    space.pod("counts", once("for i in 1 2 3 4 5; do echo $i; sleep 1; done")).await;
    space.begun("counts").await;
    assert_eq!(space.kubectl(&["logs", "-f", "counts"]).await, "1\n2\n3\n4\n5\n");
}

/// Through a WebSocket, as bytes or as text.
pub async fn logs_in_messages(space: Space) {
    space.pod("counts", once("for i in 1 2 3; do echo line $i; sleep 1; done")).await;
    space.begun("counts").await;
    let path = space.path("pods", "counts/log");
    let followed = messages(&space, &format!("{path}?container=main&follow=true"), "binary.k8s.io").await;
    assert!(followed.iter().all(Message::is_binary), "{followed:?}");
    let bytes: Vec<u8> = followed.iter().flat_map(|message| message.clone().into_data()).collect();
    assert_eq!(String::from_utf8_lossy(&bytes), "line 1\nline 2\nline 3\n");
    let tail = messages(&space, &format!("{path}?tailLines=1"), "base64.binary.k8s.io").await;
    assert_eq!(tail, [Message::text(""), Message::text("bGluZSAzCg==")]);
}

/// Everything that comes through a WebSocket until the other side closes it. The subprotocol may be empty.
async fn messages(space: &Space, path: &str, subprotocol: &str) -> Vec<Message> {
    let headers = [
        ("connection", "Upgrade"),
        ("upgrade", "websocket"),
        ("sec-websocket-version", "13"),
        ("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ=="),
        ("sec-websocket-protocol", subprotocol),
    ];
    let mut request = http::Request::get(path);
    let headers = headers.into_iter().filter(|(_, value)| !value.is_empty());
    request.headers_mut().unwrap().extend(headers.map(|(name, value)| {
        (http::HeaderName::from_static(name), http::HeaderValue::from_str(value).unwrap())
    }));
    let response = space.client.send(request.body(kube::client::Body::empty()).unwrap()).await.unwrap();
    assert_eq!(response.status(), http::StatusCode::SWITCHING_PROTOCOLS);
    let agreed = response.headers().get("sec-websocket-protocol").map_or("", |name| name.to_str().unwrap());
    assert_eq!(agreed, subprotocol);
    let upgraded = TokioIo::new(hyper::upgrade::on(response).await.unwrap());
    let socket = WebSocketStream::from_raw_socket(upgraded, Role::Client, None).await;
    let whole = socket.map(Result::unwrap).take_while(|message| std::future::ready(!message.is_close()));
    tokio::time::timeout(TIMEOUT, whole.collect()).await.unwrap()
}

pub async fn exec(space: Space) {
    space.pod("box", json!({"containers": [shell("a", IDLE), shell("b", IDLE)]})).await;
    space.pod("over", once("exit 0")).await;
    space.ready("box").await;
    let both = space
        .try_kubectl(&["exec", "box", "-c", "a", "--", "sh", "-c", "echo out; echo err >&2; exit 7"])
        .await;
    assert_eq!(both.out, "out\n");
    assert!(both.err.starts_with("err\n"), "{both:?}");
    assert!(!both.err.contains("Unknown stream"), "{both:?}");
    assert_eq!(both.code, 7);
    let million = vec![b'x'; 1_000_000];
    let counted =
        space.kubectl_with_input(&["exec", "-i", "box", "-c", "b", "--", "wc", "-c"], &million).await;
    assert_eq!(counted.out.trim(), "1000000", "{counted:?}");
    // Who does not read its input ends all the same, however much was sent.
    let unread = space.kubectl_with_input(
        &["exec", "-i", "box", "-c", "b", "--", "sh", "-c", "sleep 1; echo end; exit 4"],
        &million,
    );
    let unread = unread.await;
    assert_eq!((unread.out.as_str(), unread.code), ("end\n", 4), "{unread:?}");
    let large = space.kubectl(&["exec", "box", "-c", "a", "--", "head", "-c", "1000000", "/dev/zero"]).await;
    assert_eq!(large.len(), 1_000_000);
    let absent = space.try_kubectl(&["exec", "box", "-c", "a", "--", "/not/there"]).await;
    assert!(absent.code != 0 && absent.err.contains("no such file or directory"), "{absent:?}");
    let wrong = space.try_kubectl(&["exec", "box", "-c", "nobody", "--", "true"]).await;
    assert!(wrong.code != 0 && wrong.err.contains("nobody"), "{wrong:?}");
    old_clients(&space).await;
    space.phase("over", "Succeeded").await;
    let over = space.try_kubectl(&["exec", "over", "--", "true"]).await;
    assert!(over.code != 0, "{over:?}");
}

/// WebSocket clients from before v4: told in words what went wrong, and nothing of what went well.
async fn old_clients(space: &Space) {
    let run = async |command: &str, subprotocol: &str| {
        let path = space.path("pods", "box/exec");
        let query = format!("container=a&command=sh&command=-c&command={command}&stdout=1");
        messages(space, &format!("{path}?{query}"), subprotocol).await
    };
    let binary = |bytes: &[u8]| Message::binary(bytes.to_vec());
    for subprotocol in ["channel.k8s.io", ""] {
        assert_eq!(
            run("echo+hi", subprotocol).await,
            [binary(b"\x01"), binary(b"\x01hi\n")],
            "{subprotocol}"
        );
        let failed = run("exit+3", subprotocol).await;
        let [greeting, Message::Binary(why)] = failed.as_slice() else { panic!("{failed:?}") };
        assert_eq!(*greeting, binary(b"\x01"));
        let why = String::from_utf8_lossy(why);
        assert!(why.starts_with('\u{3}') && why.contains("exit code 3"), "{why}");
    }
    assert_eq!(run("echo+hi", "base64.channel.k8s.io").await, ["1", "1aGkK"].map(Message::text));
    let status = run("echo+hi", "v4.base64.channel.k8s.io").await;
    assert_eq!(status[..2], ["1", "1aGkK"].map(Message::text));
    assert!(status[2].to_text().unwrap().starts_with("3eyJ"), "a Status in JSON: {status:?}");
}

/// With a terminal: its size arrives, and so does the exit code.
pub async fn a_terminal(space: Space) {
    space.pod("box", idle()).await;
    space.ready("box").await;
    // On a busy machine the size may come later than the terminal.
    let line = "stty rows 37 cols 91; kubectl exec -it box -- sh -c \
        'tty; until [ \"$(stty size)\" = \"37 91\" ]; do sleep 0.1; done; stty size; exit 4'";
    let output = space.command("script").args(["-qec", line, "/dev/null"]).output().await.unwrap();
    let said = said(output);
    assert!(said.out.contains("/dev/pts/0"), "{said:?}");
    assert!(said.out.contains("37 91"), "{said:?}");
    assert_eq!(said.code, 4, "{said:?}");
}

pub async fn attach(space: Space) {
    let mut cat = shell("main", "echo ready; cat; echo end");
    cat["stdin"] = true.into();
    cat["stdinOnce"] = true.into();
    space.pod("cat", json!({"restartPolicy": "Never", "containers": [cat]})).await;
    space.ready("cat").await;
    let attached = space.kubectl_with_input(&["attach", "-i", "cat"], b"some words\n").await;
    assert!(attached.out.contains("some words\n"), "{attached:?}");
    space.phase("cat", "Succeeded").await;
    assert_eq!(space.kubectl(&["logs", "cat"]).await, "ready\nsome words\nend\n");

    let image = format!("--image={BUSYBOX}");
    let run =
        ["run", "once", "-i", "--rm", "--restart=Never", &image, "--", "sh", "-c", "cat; sleep 0.5; exit 5"];
    let ran = space.kubectl_with_input(&run, b"typed\n").await;
    assert!(ran.out.contains("typed"), "{ran:?}");
    assert_eq!(ran.code, 5, "{ran:?}");
    space.deleted("once").await;
}

pub async fn port_forward(space: Space) {
    space.pod("web", json!({"containers": [{"name": "web", "image": WEB}]})).await;
    space.ready("web").await;
    for program in ["kubectl", env!("CARGO_BIN_EXE_minik8s")] {
        forwarded(&space, program).await;
    }
}

async fn forwarded(space: &Space, program: &str) {
    let mut forward = space.command(program).args(["port-forward", "pod/web", ":80"]).spawn().unwrap();
    let mut lines = BufReader::new(forward.stdout.take().unwrap()).lines();
    let line = lines.next_line().await.unwrap().unwrap();
    let port: u16 = line.split(&[':', ' '][..]).find_map(|word| word.parse().ok()).unwrap();
    assert_eq!(line, format!("Forwarding from 127.0.0.1:{port} -> 80"));
    // The web server may need a moment after its start; each connection is a stream of its own.
    let ask = async || -> std::io::Result<String> {
        let mut stream = tokio::net::TcpStream::connect(("127.0.0.1", port)).await?;
        stream.write_all(b"GET / HTTP/1.0\r\n\r\n").await?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await?;
        Ok(answer)
    };
    for _ in 0..3 {
        space
            .eventually("an answer", async || ask().await.is_ok_and(|answer| answer.ends_with("web\n")))
            .await;
    }
    forward.kill().await.unwrap();
}

pub async fn copy(space: Space) {
    space.pod("box", idle()).await;
    let dir = tempfile::tempdir().unwrap();
    let file = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    let content: Vec<u8> = (0..3_000_000_u32).map(|n| (n.wrapping_mul(7919) >> 3) as u8).collect();
    std::fs::write(file("there"), &content).unwrap();
    space.ready("box").await;
    for (n, program) in ["kubectl", env!("CARGO_BIN_EXE_minik8s")].into_iter().enumerate() {
        let copy = async |from: &str, to: &str| {
            let output = space.command(program).args(["cp", from, to]).output().await.unwrap();
            said(output)
        };
        let (there, back) = (format!("box:/tmp/copy-{n}"), file(&format!("back-{n}")));
        for (from, to) in [(&file("there"), &there), (&there, &back)] {
            let said = copy(from, to).await;
            assert_eq!(said.code, 0, "{program} cp {from} {to}: {said:?}");
        }
        assert!(std::fs::read(&back).unwrap() == content, "the copy of {program} differs");
        if program == "kubectl" {
            // Its errors race with its end.
            continue;
        }
        let missing = copy("box:/tmp/missing", &file("missing")).await;
        assert!(missing.code != 0 && !std::fs::exists(file("missing")).unwrap(), "{missing:?}");
        let nowhere = copy(&file("there"), "box:/not/there/copy").await;
        assert_ne!(nowhere.code, 0, "{nowhere:?}");
    }
}

/// An ephemeral container sees the processes of the one it was made for.
pub async fn debug(space: Space) {
    space.pod("box", idle()).await;
    space.ready("box").await;
    let image = format!("--image={BUSYBOX}");
    let script = format!("ps; echo looked; {IDLE}");
    space
        .kubectl(&["debug", "box", &image, "--target=main", "--container=look", "--", "sh", "-c", &script])
        .await;
    let looks = |pod: &serde_json::Value| {
        pod["status"]["ephemeralContainerStatuses"][0]["state"]["running"].is_object()
    };
    let pod = space.until("box", "debugged", looks).await;
    assert_eq!(pod["status"]["containerStatuses"][0]["restartCount"], 0);
    space
        .eventually("its words", async || {
            space.kubectl(&["logs", "box", "-c", "look"]).await.contains("looked")
        })
        .await;
    let log = space.kubectl(&["logs", "box", "-c", "look"]).await;
    assert!(log.contains("sleep 1000"), "{log}");
    assert_eq!(space.kubectl(&["exec", "box", "-c", "look", "--", "echo", "hi"]).await, "hi\n");
    // A second one beside it.
    space.kubectl(&["debug", "box", &image, "--container=again", "--", "sh", "-c", IDLE]).await;
    let both = |pod: &serde_json::Value| {
        let statuses = pod["status"]["ephemeralContainerStatuses"].as_array();
        statuses.is_some_and(|all| all.len() == 2 && all.iter().all(|s| s["state"]["running"].is_object()))
    };
    let pod = space.until("box", "debugged twice", both).await;
    assert_eq!(pod["spec"]["ephemeralContainers"].as_array().unwrap().len(), 2);
    own_debug(&space, &image).await;
    space.delete("box", 1).await;
    space.deleted("box").await;
}

/// The same by our own program: beside the containers of a pod, in a copy of it, and on its node.
async fn own_debug(space: &Space, image: &str) {
    let debug = async |flags: &[&str], what: &str| {
        let script = format!("{what}; {IDLE}");
        let arguments = [&["debug"], flags, &[image, "--quiet", "--", "sh", "-c", &script]].concat();
        let output = space.command(env!("CARGO_BIN_EXE_minik8s")).args(arguments).output().await.unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    };
    let says = async |pod: &str, container: &str, words: &str| {
        space
            .eventually(&format!("{container} of {pod} says {words:?}"), async || {
                space.try_kubectl(&["logs", pod, "-c", container]).await.out.contains(words)
            })
            .await;
    };
    debug(&["box", "--target=main", "--container=own"], "ps").await;
    says("box", "own", "sleep 1000").await;
    debug(&["box", "--copy-to=copy", "--container=tools"], "sleep 2; ps").await;
    says("copy", "tools", "sleep 1000").await;
    let node = space.kubectl(&["get", "nodes", "-o", "name"]).await;
    debug(&[node.trim()], "ls /host/proc/1/").await;
    let made = space.kubectl(&["get", "pods", "-o", "name"]).await;
    let made = made
        .lines()
        .find_map(|line| line.strip_prefix("pod/").filter(|name| name.starts_with("node-debugger")));
    says(made.unwrap(), "debugger", "cmdline").await;
    for pod in ["copy", made.unwrap()] {
        space.delete(pod, 0).await;
        space.deleted(pod).await;
    }
}

pub async fn describe(space: Space) {
    let mut main = shell("main", IDLE);
    main["resources"] = json!({"requests": {"cpu": "10m"}});
    main["readinessProbe"] = json!({"exec": {"command": ["true"]}});
    space.pod("box", json!({"containers": [main]})).await;
    space.ready("box").await;
    space.event("box", "Started", "Started container main").await;
    let text = space.kubectl(&["describe", "pod", "box"]).await;
    let has = |part: &str| assert!(text.contains(part), "{part:?} is not in\n{text}");
    [
        "Running",
        "Burstable",
        "Started container main",
        "Successfully assigned",
        "Container ID:",
        "containerd://",
        "Ready",
        "exec [true]",
    ]
    .into_iter()
    .for_each(has);
    let row = space.kubectl(&["get", "pod", "box", "-o", "wide", "--no-headers"]).await;
    let row: Vec<_> = row.split_whitespace().collect();
    assert_eq!(row[..4], ["box", "1/1", "Running", "0"]);
    assert!(row.contains(&crate::harness::cluster::NODE), "{row:?}");
}

//! Our own program where kubectl is: the same words on a real node, terminals, and the screens that only it has.

use minik8s_kubelet::image::BUSYBOX;
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;

use super::space::{IDLE, Said, Space, idle, once, said, shell};
use crate::harness::plain;
use crate::harness::verbs::{ON_A_NODE, SHOWN_ON_A_NODE};
use crate::harness::words::words;

const MINIK8S: &str = env!("CARGO_BIN_EXE_minik8s");
/// How often what is measured is looked at until both see the same.
const MEASUREMENTS: usize = 10;

/// Two containers that each have said a word.
fn pair() -> Value {
    let says = |name: &str| shell(name, &format!("echo from {name}; {IDLE}"));
    json!({"terminationGracePeriodSeconds": 0, "containers": [says("main"), says("side")]})
}

async fn talking(space: &Space) {
    let talk = format!("echo line 1; echo line 2; {IDLE}");
    space.pod("talker", json!({"containers": [shell("main", &talk)]})).await;
    space.labelled_pod("pair", json!({"app": "pair"}), pair()).await;
    space.pod("done", once("echo all done")).await;
    space.ready("talker").await;
    space.ready("pair").await;
    space.phase("done", "Succeeded").await;
    space
        .eventually("their words", async || {
            let both = space.kubectl(&["logs", "pair", "--all-containers"]).await;
            space.kubectl(&["logs", "talker"]).await.contains("line 2") && both.lines().count() == 2
        })
        .await;
}

/// Through a link named kubectl it says what kubectl says, but for metrics.
pub async fn same_words(space: Space) {
    talking(&space).await;
    let measured = async |what: &[&str]| space.try_kubectl(&[&["top"], what].concat()).await.code == 0;
    for what in [&["pod", "talker"][..], &["pod", "pair"], &["node"]] {
        space.eventually("measured", async || measured(what).await).await;
    }
    let dir = tempfile::tempdir().unwrap();
    let link = dir.path().join("kubectl");
    std::os::unix::fs::symlink(MINIK8S, &link).unwrap();
    let ours = link.to_str().unwrap();
    let mut different = Vec::new();
    for command in ON_A_NODE {
        let command = command.replace("{dir}", dir.path().to_str().unwrap());
        let ask = async |program: &str| {
            let output = space.command(program).args(words(&command)).output().await.unwrap();
            let Said { out, err, code } = said(output);
            let mut out = plain(&out);
            if command.contains("--all-containers") {
                // kubectl keeps containers in a map, and goes through it in any order.
                let mut lines: Vec<&str> = out.lines().collect();
                lines.sort_unstable();
                out = lines.join("\n");
            }
            (out, plain(&err), code)
        };
        let both = async || match command.starts_with("run ") {
            // It makes a pod of the same name.
            true => (ask("kubectl").await, ask(ours).await),
            false => tokio::join!(ask("kubectl"), ask(ours)),
        };
        let (mut theirs, mut own) = both().await;
        // A busy node may miss a measurement between the two.
        for _ in 0..MEASUREMENTS {
            if theirs == own || !command.starts_with("top ") {
                break;
            }
            (theirs, own) = both().await;
        }
        if theirs != own {
            different.push(format!("=== {command}\n{theirs:#?}\n--- ours\n{own:#?}"));
        }
    }
    assert!(different.is_empty(), "{}", different.join("\n\n"));
}

/// What only our program shows; snapshots, with volatile values left out.
pub async fn own_screens(space: Space) {
    talking(&space).await;
    space.pod("broken", json!({"containers": [shell("main", "echo no luck; exit 3")]})).await;
    let nowhere = json!({"nodeSelector": {"disk": "fast"}, "containers": [shell("main", IDLE)]});
    space.pod("stuck", nowhere).await;
    space.eventually("measured", async || space.try_kubectl(&["top", "node"]).await.code == 0).await;
    let numbers = regex::Regex::new(r"\b\d+\b").unwrap();
    let dir = tempfile::tempdir().unwrap();
    for command in SHOWN_ON_A_NODE {
        let data = space.cluster.node_dir().to_str().unwrap();
        let arguments =
            words(&command.replace("{data}", data).replace("{dir}", dir.path().to_str().unwrap()));
        let Said { out, err, code } = loop {
            // Now and then it runs for a moment: what was said then is not what is to be shown.
            let before = waiting(&space).await;
            let output = space.command(MINIK8S).args(&arguments).output().await.unwrap();
            if waiting(&space).await == before {
                break said(output);
            }
        };
        let text = plain(&format!("{out}{err}"));
        // Other cases have pods and images of their own.
        let text: String = match *command {
            "status" => text.split("Workloads").next().unwrap_or_default().to_owned(),
            command if command.starts_with("image list") => {
                let own = |line: &&str| line.contains("IMAGE") || line.contains("busybox:1");
                text.lines().filter(own).map(|line| format!("{line}\n")).collect()
            }
            _ => text,
        };
        let text = numbers.replace_all(&text, "N");
        let name =
            command.replace(" --data-dir={data}", "").replace(['{', '}'], "").replace([' ', '/', ':'], "-");
        insta::with_settings!({description => *command, omit_expression => true}, {
            insta::assert_snapshot!(name, format!("{text}exit code {code}\n"));
        });
    }
}

/// How often the broken pod has been started when it next waits for another start.
async fn waiting(space: &Space) -> i64 {
    let pod = space.waiting("broken", "CrashLoopBackOff").await;
    pod["status"]["containerStatuses"][0]["restartCount"].as_i64().unwrap()
}

/// Runs a line of shell on a terminal of its own, with something typed.
async fn on_a_terminal(space: &Space, line: &str, typed: &str) -> Said {
    let mut script = space.command("script");
    script.env("TERM", "xterm").args(["-qec", line, "/dev/null"]).stdin(std::process::Stdio::piped());
    let mut child = script.spawn().unwrap();
    let mut keyboard = child.stdin.take().unwrap();
    keyboard.write_all(typed.as_bytes()).await.unwrap();
    // The keyboard stays until the command is over: its end would be typed as ^D.
    let output = tokio::time::timeout(crate::harness::cluster::TIMEOUT, child.wait_with_output()).await;
    drop(keyboard);
    said(output.unwrap_or_else(|_| panic!("{line}: does not end")).unwrap())
}

/// The line, run so that the terminal must be afterwards as it was before.
fn restoring(line: &str) -> String {
    format!(
        "stty rows 37 cols 91; before=$(stty -g); {line}; code=$?; \
         [ \"$(stty -g)\" = \"$before\" ] || exit 99; exit $code"
    )
}

/// `exec -it`, `attach -it` and `run -it`: the size arrives, so does what is typed, so does the exit code, and the
/// terminal is as before.
pub async fn own_terminals(space: Space) {
    space.pod("box", idle()).await;
    let mut sh = shell("main", "echo ready; stty size; read word; echo \"got $word\"; exit 6");
    sh["stdin"] = true.into();
    sh["tty"] = true.into();
    space.pod("shell", json!({"restartPolicy": "Never", "containers": [sh]})).await;
    space.ready("box").await;
    space.ready("shell").await;

    let script = "tty; until [ \"$(stty size)\" = \"37 91\" ]; do sleep 0.1; done; stty size; read word; \
        echo \"got $word\"; exit 4";
    let line = format!("{MINIK8S} exec -it box -- sh -c '{script}'");
    let exec = on_a_terminal(&space, &restoring(&line), "hello\r").await;
    for part in ["/dev/pts/0", "37 91", "got hello", "command terminated with exit code 4"] {
        assert!(exec.out.contains(part), "{part}: {exec:?}");
    }
    assert_eq!(exec.code, 4, "{exec:?}");

    let attach = on_a_terminal(&space, &restoring(&format!("{MINIK8S} attach -it shell")), "there\r").await;
    assert!(attach.out.contains("got there") && attach.code == 0, "{attach:?}");
    space.phase("shell", "Failed").await;

    let line = format!(
        "{MINIK8S} run once -it --rm --restart=Never --image={BUSYBOX} -- sh -c \
         'read word; echo \"got $word\"; sleep 0.3; exit 5'"
    );
    let ran = on_a_terminal(&space, &restoring(&line), "again\r").await;
    assert!(ran.out.contains("got again") && ran.out.contains("pod \"once\" deleted"), "{ran:?}");
    assert_eq!(ran.code, 5, "{ran:?}");
    space.deleted("once").await;
}

/// Of several pods each line has a prefix, coloured on a terminal; progress never mixes with it.
pub async fn own_colours(space: Space) {
    talking(&space).await;
    let line = format!("{MINIK8S} logs -l app=pair --all-containers");
    let shown = on_a_terminal(&space, &line, "").await;
    let prefix = |colour: u8, name: &str| format!("\u{1b}[{colour}m[pod/pair/{name}]\u{1b}[0m from {name}");
    let has = |name: &str| (30..40).any(|colour| shown.out.contains(&prefix(colour, name)));
    assert!(has("main") && has("side") && shown.code == 0, "{shown:?}");
    let piped = said(space.command(MINIK8S).args(words(&line)[1..].to_vec()).output().await.unwrap());
    assert_eq!(piped.out, "[pod/pair/main] from main\n[pod/pair/side] from side\n");
}

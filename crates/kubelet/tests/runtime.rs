//! The runtime layer against a real containerd, without an API server.

#![allow(clippy::unwrap_used, reason = "a test may panic")]
mod support;

use std::io::Cursor;
use std::time::{Duration, Instant};

use containerd_client::services::v1 as containerd;
use containerd_client::services::v1::containers_client::ContainersClient;
use containerd_client::services::v1::snapshots::MountsRequest;
use containerd_client::services::v1::snapshots::snapshots_client::SnapshotsClient;
use containerd_client::services::v1::tasks_client::TasksClient;
use jiff::{SignedDuration, Timestamp};
use k8s_cri::v1 as cri;
use minik8s_kubelet::containerd::{Orphans, connect};
use minik8s_kubelet::cri::{ContainerState, Cri, POD_NAME, POD_NAMESPACE, POD_UID, Runtime};
use minik8s_kubelet::image::{ImageStore, in_namespace};
use nix::sys::signal::Signal;
use support::{BUSYBOX, Node, busybox_archive, on_a_node};

/// Generous: the machine may be busy with other tests.
const TIMEOUT: Duration = Duration::from_secs(60);

fn sandbox_config(node: &Node, uid: &str) -> cri::PodSandboxConfig {
    let labels = [(POD_NAME, "pod"), (POD_NAMESPACE, "default"), (POD_UID, uid)];
    cri::PodSandboxConfig {
        metadata: Some(cri::PodSandboxMetadata {
            name: "pod".into(),
            uid: uid.into(),
            namespace: "default".into(),
            attempt: 0,
        }),
        hostname: "pod".into(),
        log_directory: node.config.logs_dir().join(uid).to_string_lossy().into_owned(),
        labels: labels.map(|(k, v)| (k.to_owned(), v.to_owned())).into(),
        linux: Some(cri::LinuxPodSandboxConfig {
            cgroup_parent: format!("{}/pod{uid}", node.config.cgroup_root()),
            ..Default::default()
        }),
        ..Default::default()
    }
}

fn container_config(uid: &str, name: &str, script: &str) -> cri::ContainerConfig {
    let labels = [(POD_NAME, "pod"), (POD_NAMESPACE, "default"), (POD_UID, uid)];
    cri::ContainerConfig {
        metadata: Some(cri::ContainerMetadata { name: name.into(), attempt: 0 }),
        image: Some(cri::ImageSpec { image: BUSYBOX.into(), ..Default::default() }),
        command: ["sh", "-c", script].map(str::to_owned).to_vec(),
        labels: labels.map(|(k, v)| (k.to_owned(), v.to_owned())).into(),
        log_path: format!("{name}.log"),
        ..Default::default()
    }
}

#[test]
fn a_container_lives_and_dies() {
    on_a_node(|node| async move {
        let cri = Cri::new(&node.config.cri_socket());
        let uid = "00000000-0000-0000-0000-000000000001";
        let sandbox = sandbox_config(&node, uid);
        let sandbox_id = cri.run_sandbox(sandbox.clone(), "").await.unwrap();
        let config =
            container_config(uid, "main", "echo hello; trap 'exit 7' TERM; while :; do sleep 0.1; done");
        let id = cri.create_container(&sandbox_id, config, sandbox).await.unwrap();
        cri.start_container(&id).await.unwrap();

        let pod = cri.pod(uid).await.unwrap();
        assert_eq!(pod.sandbox().unwrap().id, sandbox_id);
        assert_eq!(pod.sandbox().unwrap().ips.len(), 1, "{pod:?}");
        assert!(pod.container("main").unwrap().is_running());
        assert_eq!(cri.pod_uid_of(&id).await.unwrap().as_deref(), Some(uid));
        assert_eq!(cri.pod_uid_of(&sandbox_id).await.unwrap().as_deref(), Some(uid));
        let command = ["sh".to_owned(), "-c".to_owned(), "echo $((6*7)); exit 3".to_owned()];
        let output = cri.exec(&id, &command, TIMEOUT).await.unwrap();
        assert_eq!((output.stdout.as_slice(), output.exit_code), (b"42\n".as_slice(), 3));

        cri.stop_container(&id, TIMEOUT).await.unwrap();
        let pod = cri.pod(uid).await.unwrap();
        assert_eq!(pod.container("main").unwrap().exit_code(), Some(7));
        cri.stop_sandbox(&sandbox_id).await.unwrap();
        cri.remove_sandbox(&sandbox_id).await.unwrap();
        cri.remove_sandbox(&sandbox_id).await.unwrap();
        assert!(cri.pod(uid).await.unwrap().is_empty());
    });
}

#[test]
fn the_pause_program_reaps_orphans() {
    on_a_node(|node| async move {
        let cri = Cri::new(&node.config.cri_socket());
        let uid = "00000000-0000-0000-0000-000000000002";
        let sandbox = sandbox_config(&node, uid);
        let sandbox_id = cri.run_sandbox(sandbox.clone(), "").await.unwrap();
        // The inner shell's child outlives it and ends up with process 1 of the pod.
        let script = r#"sh -c 'sh -c "echo \$\$ >/tmp/pid; sleep 0.2" &'; sleep 1000"#;
        let mut config = container_config(uid, "main", script);
        config.linux = Some(cri::LinuxContainerConfig {
            security_context: Some(cri::LinuxContainerSecurityContext {
                namespace_options: Some(cri::NamespaceOption {
                    pid: cri::NamespaceMode::Pod as i32,
                    ..Default::default()
                }),
                ..Default::default()
            }),
            ..Default::default()
        });
        let id = cri.create_container(&sandbox_id, config, sandbox).await.unwrap();
        cri.start_container(&id).await.unwrap();
        // A zombie keeps its number.
        let look =
            "[ -s /tmp/pid ] && ! [ -e /proc/$(cat /tmp/pid) ]; gone=$?; ps -o pid,stat,comm; exit $gone";
        let command = ["sh", "-c", look].map(str::to_owned);
        let begun = Instant::now();
        loop {
            let output = cri.exec(&id, &command, TIMEOUT).await.unwrap();
            let processes = String::from_utf8(output.stdout).unwrap();
            assert!(processes.contains("pause"), "{processes}");
            if output.exit_code == 0 {
                break;
            }
            assert!(begun.elapsed() < TIMEOUT, "a zombie is left: {processes}");
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    });
}

/// A container that containerd has and CRI does not know goes when no start can be under way any more.
#[test]
fn what_interrupted_starts_left_goes() {
    on_a_node(|node| async move {
        let cri = Cri::new(&node.config.cri_socket());
        let uid = "00000000-0000-0000-0000-000000000004";
        let sandbox = sandbox_config(&node, uid);
        let sandbox_id = cri.run_sandbox(sandbox.clone(), "").await.unwrap();
        let id =
            cri.create_container(&sandbox_id, container_config(uid, "main", "sleep 1000"), sandbox).await;
        cri.start_container(&id.unwrap()).await.unwrap();
        let before = cri.pod(uid).await.unwrap();

        let channel = connect(&node.config.containerd_socket());
        let mut containers = ContainersClient::new(channel.clone());
        let mut all = async || {
            let list = in_namespace(containerd::ListContainersRequest::default());
            containers.list(list).await.unwrap().into_inner().containers
        };
        let real = all().await.remove(0);
        for (id, label) in [("lost", "io.cri-containerd.kind"), ("somebodys", "made.by/hand")] {
            let container = containerd::Container {
                id: id.to_owned(),
                labels: [(label.to_owned(), "container".to_owned())].into(),
                runtime: real.runtime.clone(),
                spec: real.spec.clone(),
                ..Default::default()
            };
            let create = containerd::CreateContainerRequest { container: Some(container) };
            ContainersClient::new(channel.clone()).create(in_namespace(create)).await.unwrap();
        }
        let mut orphans = Orphans::new(&node.config);
        let mut sweep = async |now: Timestamp| orphans.sweep(cri.ids(), now).await.unwrap();
        let now = Timestamp::now();
        assert_eq!(sweep(now).await, Vec::<String>::new(), "a start may be under way");
        let later = now + SignedDuration::from_hours(1);
        assert_eq!(sweep(later).await, ["lost"]);
        assert_eq!(sweep(later).await, Vec::<String>::new());
        assert_eq!(cri.pod(uid).await.unwrap(), before);
        assert!(all().await.iter().any(|container| container.id == "somebodys"));
    });
}

/// A start that was cut off may leave what runs to containerd alone; the container goes all the same.
#[test]
fn container_whose_task_cri_does_not_know_is_removed() {
    on_a_node(|node| async move {
        let cri = Cri::new(&node.config.cri_socket());
        let uid = "00000000-0000-0000-0000-000000000005";
        let sandbox = sandbox_config(&node, uid);
        let sandbox_id = cri.run_sandbox(sandbox.clone(), "").await.unwrap();
        let config = container_config(uid, "main", "sleep 1000");
        let id = cri.create_container(&sandbox_id, config, sandbox).await.unwrap();

        let channel = connect(&node.config.containerd_socket());
        let get = in_namespace(containerd::GetContainerRequest { id: id.clone() });
        let container = ContainersClient::new(channel.clone()).get(get).await.unwrap().into_inner();
        let container = container.container.unwrap();
        let mounts = in_namespace(MountsRequest {
            snapshotter: container.snapshotter.clone(),
            key: container.snapshot_key.clone(),
        });
        let rootfs = SnapshotsClient::new(channel.clone()).mounts(mounts).await.unwrap().into_inner().mounts;
        let mut tasks = TasksClient::new(channel);
        let create = containerd::CreateTaskRequest { container_id: id.clone(), rootfs, ..Default::default() };
        tasks.create(in_namespace(create)).await.unwrap();

        cri.remove_container(&id).await.unwrap();
        assert!(cri.pod(uid).await.unwrap().containers.is_empty());
        let get = in_namespace(containerd::GetRequest { container_id: id, ..Default::default() });
        assert_eq!(tasks.get(get).await.unwrap_err().code(), tonic::Code::NotFound);
    });
}

#[test]
fn images_are_listed_and_removed() {
    on_a_node(|node| async move {
        let store = ImageStore::new(&node.config.containerd_socket());
        let names =
            || async { store.list().await.unwrap().into_iter().map(|image| image.name).collect::<Vec<_>>() };
        assert_eq!(names().await, [BUSYBOX, "minik8s.io/pause:1"]);
        store.remove(BUSYBOX).await.unwrap();
        assert_eq!(names().await, ["minik8s.io/pause:1"]);
        let error = store.remove("nothing:1").await.unwrap_err();
        assert_eq!(error.to_string(), "no image \"nothing:1\" on this node");
        // containerd, which looks at what is new, does not bring back what is gone by then.
        for round in 0..30 {
            store.load(Cursor::new(busybox_archive()), |_| {}).await.unwrap();
            store.remove(BUSYBOX).await.unwrap();
            assert_eq!(names().await, ["minik8s.io/pause:1"], "round {round}");
        }
    });
}

#[test]
fn pods_survive_the_death_of_containerd() {
    on_a_node(|mut node| async move {
        let cri = Cri::new(&node.config.cri_socket());
        let uid = "00000000-0000-0000-0000-000000000003";
        let sandbox = sandbox_config(&node, uid);
        let sandbox_id = cri.run_sandbox(sandbox.clone(), "").await.unwrap();
        let config = container_config(uid, "main", "sleep 1000");
        let id = cri.create_container(&sandbox_id, config, sandbox).await.unwrap();
        cri.start_container(&id).await.unwrap();
        let before = cri.pod(uid).await.unwrap();

        let mut containerd = node.containerd.take().unwrap();
        let supervisor = tokio::spawn(async move { containerd.supervise(Duration::from_secs(5)).await });
        let pid_file = node.config.containerd_dir().join("pid");
        // One that is gone, and one that hangs.
        for signal in [Signal::SIGKILL, Signal::SIGSTOP] {
            let old = std::fs::read_to_string(&pid_file).unwrap();
            let pid: i32 = old.split(' ').next().unwrap().parse().unwrap();
            nix::sys::signal::kill(nix::unistd::Pid::from_raw(pid), signal).unwrap();
            let after = loop {
                match cri.pod(uid).await {
                    Ok(pod) if std::fs::read_to_string(&pid_file).unwrap() != old => break pod,
                    _ => tokio::time::sleep(Duration::from_millis(50)).await,
                }
            };
            assert!(matches!(after.container("main").unwrap().state, ContainerState::Running { .. }));
            assert_eq!(before, after, "{signal}");
        }
        supervisor.abort();
        let _ = supervisor.await;

        // A second agent finds the running one instead of starting its own.
        let pid = std::fs::read_to_string(&pid_file).unwrap();
        assert!(minik8s_kubelet::prepare(&node.config).await.unwrap().is_some());
        assert_eq!(std::fs::read_to_string(&pid_file).unwrap(), pid);
        // So does one whose predecessor was killed before it wrote down which.
        std::fs::remove_file(&pid_file).unwrap();
        assert!(minik8s_kubelet::prepare(&node.config).await.unwrap().is_some());
        assert_eq!(std::fs::read_to_string(&pid_file).unwrap(), pid);
    });
}

//! Workers without a runtime: what becomes of one that panics.

use std::path::Path;

use minik8s_informer::Caches;
use parking_lot::Mutex;
use serde_json::json;
use tokio::sync::{Semaphore, oneshot};
use tokio::time::timeout;

use super::*;
use crate::Config;
use crate::cgroup::Hierarchy;
use crate::context::{MetricsContext, VolumeContext};
use crate::cri::Cri;
use crate::devices::Devices;
use crate::events::Recorder;
use crate::machine::Machine;
use crate::pod::PodIndex;
use crate::sandbox::ResolvConf;

const LONG: Duration = Duration::from_secs(3600);

/// Nobody answers: neither a runtime nor an API server.
fn context(dir: &Path) -> Arc<PodContext> {
    let config = Config::new("n", dir, "127.0.0.1".parse().unwrap());
    let node = Arc::new(NodeContext {
        machine: Machine::default(),
        host_dns: ResolvConf::default(),
        cgroups: Hierarchy::detect(),
        runtime: Arc::new(Cri::new(&dir.join("no.sock"))),
        pods: PodIndex::default(),
        starts: Semaphore::new(1),
        image_ages: Mutex::default(),
        image_maker: tokio::sync::Mutex::default(),
        config,
    });
    let nobody = tower::service_fn(|_: http::Request<kube::client::Body>| {
        std::future::pending::<Result<http::Response<kube::client::Body>, std::convert::Infallible>>()
    });
    let caches = Caches::detached();
    let client = kube::Client::new(nobody, "default");
    let volumes = VolumeContext::new(node.clone(), client, Recorder::new(caches.recorder()));
    let devices = Arc::new(Devices::new(&node.config));
    Arc::new(PodContext::new(Arc::new(volumes), Arc::new(MetricsContext::default()), devices, &caches))
}

fn pod(label: &str) -> Arc<core::Pod> {
    let pod = json!({"metadata": {"name": "p", "namespace": "ns", "uid": "u", "labels": {"is": label}}});
    Arc::new(serde_json::from_value(pod).unwrap())
}

/// Until the worker has taken all that it was sent.
async fn taken(mailbox: &Mailbox) {
    let taken = async {
        while mailbox.0.capacity() < MAILBOX {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    timeout(Duration::from_secs(60), taken).await.expect("nobody takes the messages");
}

#[tokio::test]
async fn worker_that_panics_goes_on() {
    let dir = tempfile::tempdir().unwrap();
    let (done, mut ended) = oneshot::channel();
    let mailbox = Worker::spawn(context(dir.path()), pod("old"), Origin::Api, Birth::default(), async move {
        let _ = done.send(());
    });
    // At work, and again while it rests.
    for _ in 0..2 {
        mailbox.send(Message::Fault).await;
        taken(&mailbox).await;
        for _ in 0..2 * MAILBOX {
            mailbox.send(Message::RuntimeChanged).await;
        }
        taken(&mailbox).await;
        assert!(!mailbox.0.is_closed() && ended.try_recv().is_err(), "its pod is nobody's");
    }
    drop(mailbox);
    timeout(Duration::from_secs(60), ended).await.expect("it ends with the agent").unwrap();
}

#[tokio::test(start_paused = true)]
async fn worker_that_begins_anew_knows_what_it_was_told_and_nothing_else() {
    let dir = tempfile::tempdir().unwrap();
    let (mut worker, mailbox) = Worker::new(context(dir.path()), pod("old"), Origin::Api, Birth::default());
    worker.is_new = true;
    worker.local_state.busy.insert(Target::Pod);
    worker.operations.spawn(async {
        tokio::time::sleep(LONG).await;
        Finished { action: Action::Remove, sources: 0, result: Ok(Done::default()) }
    });
    let end = ForcedTermination {
        reason: "Evicted".to_owned(),
        message: String::new(),
        at_once: false,
        rejected: false,
    };
    for message in [Message::Pod(pod("new")), Message::Gone, Message::ForcedTermination(end)] {
        mailbox.send(message).await;
    }
    let begun = tokio::time::Instant::now();
    assert!(worker.rest(Duration::from_secs(1)).await);
    assert!(begun.elapsed() >= LONG, "an operation of before was still under way");
    worker.begin_anew();
    assert_eq!(worker.desired_pod.pod.metadata.labels, pod("new").metadata.labels);
    assert!(worker.gone && worker.desired_pod.deleted.is_some());
    assert_eq!(worker.local_state.end.map(|end| end.reason).as_deref(), Some("Evicted"));
    assert!(worker.local_state.busy.is_empty() && !worker.is_new && !worker.stop.is_cancelled());
}

#[tokio::test]
async fn operation_that_panics_has_failed() {
    let odd = || -> Result<Done, OperationError> { std::panic::resume_unwind(Box::new("an odd mount")) };
    let failed = caught(async move { odd() }).await;
    let message = "the agent has panicked: an odd mount".to_owned();
    assert_eq!(failed, Err(OperationError { reason: "FailedSync", message }));
    assert_eq!(caught(async { Ok(Done::default()) }).await, Ok(Done::default()));
}

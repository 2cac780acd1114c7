use std::time::{Duration, Instant};

use minik8s_meta::function::{FunctionInstance, FunctionShare};

use super::*;

pub(super) fn endpoints(instances: &[&str], problem: Option<&str>) -> FunctionEndpoints {
    let instance = |ip: &&str| FunctionInstance {
        pod: (*ip).to_owned(),
        ip: (*ip).to_owned(),
        node: "n".to_owned(),
        ready: true,
        revision: (*ip).to_owned(),
    };
    let mut endpoints = FunctionEndpoints::default();
    (endpoints.metadata.namespace, endpoints.metadata.name) = (Some("ns".to_owned()), Some("f".to_owned()));
    endpoints.spec = FunctionEndpointsSpec {
        concurrency: 2,
        queue_max: 3,
        queue_seconds: 30,
        instances: instances.iter().map(instance).collect(),
        problem: problem
            .map(|reason| FunctionProblem { reason: reason.to_owned(), ..FunctionProblem::default() }),
        ..FunctionEndpointsSpec::default()
    };
    endpoints
}

pub(super) fn gate(gates: &Gates, endpoints: &FunctionEndpoints) -> Arc<Gate> {
    gates.apply([endpoints].into_iter(), "n");
    gates.get(&("ns".to_owned(), "f".to_owned())).unwrap()
}

impl Gate {
    /// Instances of tests listen at ports of their own.
    pub(crate) fn place(&self, addresses: &[SocketAddr]) {
        let instance = |at: &SocketAddr| Instance { pod: at.to_string(), ready: true, ..Instance::default() };
        self.state.lock().instances = addresses.iter().map(|at| (*at, instance(at))).collect();
    }
}

fn soon() -> Instant {
    Instant::now() + Duration::from_secs(10)
}

#[tokio::test]
async fn requests_spread_up_to_the_limit_and_then_wait_in_order() {
    let gates = Gates::default();
    let gate = gate(&gates, &endpoints(&["10.0.0.1", "10.0.0.2"], None));
    let mut held = Vec::new();
    for _ in 0..4 {
        held.push(gate.acquire(soon()).await.unwrap());
    }
    let first = held.iter().filter(|permit| permit.address.ip().to_string() == "10.0.0.1").count();
    assert_eq!((first, gate.counts()), (2, (4, 0)));
    let (one, two) = (gate.clone(), gate.clone());
    let one = tokio::spawn(async move { one.acquire(soon()).await });
    while gate.counts().1 < 1 {
        tokio::task::yield_now().await;
    }
    let two = tokio::spawn(async move { two.acquire(soon()).await });
    while gate.counts().1 < 2 {
        tokio::task::yield_now().await;
    }
    drop(held.pop());
    let permit = one.await.unwrap().unwrap();
    assert!(!two.is_finished(), "who came second waits on");
    drop(permit);
    two.await.unwrap().unwrap();
}

#[tokio::test]
async fn requests_wait_for_the_first_instance() {
    let gates = Gates::default();
    let zero = gate(&gates, &endpoints(&[], None));
    let waiting = zero.clone();
    let waiting = tokio::spawn(async move { waiting.acquire(soon()).await.map(|permit| permit.address) });
    while zero.counts().1 < 1 {
        tokio::task::yield_now().await;
    }
    gate(&gates, &endpoints(&["10.0.0.1"], None));
    assert_eq!(waiting.await.unwrap().unwrap().to_string(), "10.0.0.1:8080");
    assert_eq!(zero.counts(), (0, 0));
}

#[tokio::test]
async fn queue_is_bounded_in_number_and_time() {
    let gates = Gates::default();
    let gate = gate(&gates, &endpoints(&[], None));
    let mut waiting = Vec::new();
    for number in 1..=3 {
        let one = gate.clone();
        waiting.push(tokio::spawn(async move { one.acquire(soon()).await.map(drop) }));
        while gate.counts().1 < number {
            tokio::task::yield_now().await;
        }
    }
    assert_eq!(gate.acquire(soon()).await.err(), Some(Refused::Full(3)));
    waiting.iter().for_each(tokio::task::JoinHandle::abort);
    for task in waiting {
        let _ = task.await;
    }
    assert_eq!(gate.counts().1, 0, "who goes away waits no more");
    assert!(matches!(gate.acquire(Instant::now()).await.err(), Some(Refused::Late(_))));
}

#[tokio::test]
async fn problems_are_told_at_once_to_those_that_wait() {
    let gates = Gates::default();
    let zero = gate(&gates, &endpoints(&[], None));
    let waiting = zero.clone();
    let waiting = tokio::spawn(async move { waiting.acquire(soon()).await.map(drop) });
    while zero.counts().1 < 1 {
        tokio::task::yield_now().await;
    }
    gate(&gates, &endpoints(&[], Some("ImportError")));
    let is_import =
        |refused: Option<Refused>| matches!(refused, Some(Refused::Problem(p)) if p.reason == "ImportError");
    assert!(is_import(waiting.await.unwrap().err()));
    assert!(is_import(zero.acquire(soon()).await.err()));
}

#[tokio::test]
async fn instances_that_leave_get_nothing_more() {
    let gates = Gates::default();
    let gate = gate(&gates, &endpoints(&["10.0.0.1", "10.0.0.2"], None));
    gate.mark_leaving("10.0.0.1:8080".parse().unwrap());
    let held = [gate.acquire(soon()).await.unwrap(), gate.acquire(soon()).await.unwrap()];
    assert!(held.iter().all(|permit| permit.address.ip().to_string() == "10.0.0.2"));
}

/// It may be reached again: at first with one request, and the others wait for how that goes.
#[tokio::test]
async fn instance_that_cannot_be_reached_is_tried_again_ever_later() {
    let gates = Gates::default();
    let gate = gate(&gates, &endpoints(&["10.0.0.1"], None));
    let address = "10.0.0.1:8080".parse().unwrap();
    for seconds in [1, 2, 4, 8, 16, 30, 30] {
        assert_eq!(gate.mark_unreachable(address), Some(Duration::from_secs(seconds)));
        assert_eq!(gate.mark_unreachable(address), None, "somebody sees to it already");
        assert!(!gate.is_ready());
        let waiting: Vec<_> = [(); 2]
            .map(|()| gate.clone())
            .into_iter()
            .map(|gate| tokio::spawn(async move { gate.acquire(soon()).await.unwrap() }))
            .collect();
        while gate.counts().1 < 2 {
            tokio::task::yield_now().await;
        }
        gate.try_again(address);
        assert_eq!(gate.counts(), (1, 1), "one tries it");
        waiting.iter().for_each(tokio::task::JoinHandle::abort);
        for task in waiting {
            let _ = task.await;
        }
        assert_eq!(gate.counts(), (0, 0));
    }
    gate.mark_ready(address);
    assert_eq!(gate.mark_unreachable(address), Some(Duration::from_secs(1)), "it was there meanwhile");
}

#[tokio::test]
async fn instance_that_could_not_be_reached_comes_after_the_others() {
    let gates = Gates::default();
    let gate = gate(&gates, &endpoints(&["10.0.0.1", "10.0.0.2"], None));
    let address = "10.0.0.1:8080".parse().unwrap();
    gate.mark_unreachable(address);
    gate.try_again(address);
    let mut held = Vec::new();
    for _ in 0..3 {
        held.push(gate.acquire(soon()).await.unwrap());
    }
    let order: Vec<String> = held.iter().map(|permit| permit.address.ip().to_string()).collect();
    assert_eq!(order, ["10.0.0.2", "10.0.0.2", "10.0.0.1"]);
    gate.mark_leaving(address);
    gate.try_again(address);
    drop(held);
    assert!((0..2).all(|_| gate.state.lock().take(None).unwrap().address != address), "it ends");
    assert!(gate.state.lock().take(None).is_none());
}

/// What runs there since before says nothing, and keeps nobody from finding out.
#[tokio::test]
async fn instance_is_tried_again_beside_what_runs_there() {
    let gates = Gates::default();
    let mut roomy = endpoints(&["10.0.0.1"], None);
    roomy.spec.concurrency = 4;
    let gate = gate(&gates, &roomy);
    let address = "10.0.0.1:8080".parse().unwrap();
    let runs = gate.acquire(soon()).await.unwrap();
    gate.mark_unreachable(address);
    gate.try_again(address);
    let tries = gate.acquire(soon()).await.unwrap();
    assert!(!runs.doubtful && tries.doubtful);
    assert!(gate.state.lock().take(None).is_none(), "one tries it");
    drop(tries);
    let tries = gate.acquire(soon()).await.unwrap();
    assert!(tries.doubtful, "the one before has shown nothing");
    gate.mark_ready(address);
    let all = gate.acquire(soon()).await.unwrap();
    assert!(!all.doubtful && gate.state.lock().take(None).is_some());
}

/// A request that waits for one revision does not hold up those of another.
#[tokio::test]
async fn revisions_get_their_part_each_with_a_queue_of_its_own() {
    let gates = Gates::default();
    let mut parts = endpoints(&["10.0.0.1", "10.0.0.2"], None);
    let share = |revision: &str, percent| FunctionShare { revision: revision.to_owned(), percent };
    parts.spec.traffic = vec![share("10.0.0.1", 50), share("10.0.0.2", 50)];
    parts.spec.concurrency = 1;
    let gate = gate(&gates, &parts);
    let (one, two) = (gate.acquire(soon()).await.unwrap(), gate.acquire(soon()).await.unwrap());
    assert_ne!(one.address, two.address);
    let waits = gate.clone();
    let third = tokio::spawn(async move { waits.acquire(soon()).await });
    while gate.counts().1 < 1 {
        tokio::task::yield_now().await;
    }
    let (first, second) = (one.address, two.address);
    drop(two);
    let fourth = gate.acquire(soon()).await.unwrap();
    assert_eq!((fourth.address, third.is_finished()), (second, false));
    drop(one);
    assert_eq!(third.await.unwrap().unwrap().address, first);
}

/// What was learned of a pod is not true of the next one with its address.
#[tokio::test]
async fn another_pod_at_the_same_address_is_another_instance() {
    let gates = Gates::default();
    let mut known = endpoints(&["10.0.0.1"], None);
    let gate = gate(&gates, &known);
    gate.mark_leaving("10.0.0.1:8080".parse().unwrap());
    known.spec.instances[0].pod = "next".to_owned();
    gates.apply([&known].into_iter(), "n");
    assert_eq!(gate.acquire(soon()).await.unwrap().address.port(), 8080);
}

//! kill -9 at any moment loses nothing that was acknowledged; SIGTERM ends the server in order.

mod workloads;

use std::time::{Duration, Instant};

use http::Method;
use serde_json::json;
use tokio::sync::watch;

use crate::harness::consistency::witness::Witness;
use crate::harness::consistency::writer::Writer;
use crate::harness::consistency::{MAPS, version};
use crate::harness::control_plane::{Connection, Server};

const WRITERS: usize = 6;
const CRASHES: u32 = 10;
/// After the least number of crashes the test goes on until this time is over.
const BUDGET: Duration = Duration::from_secs(20);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_acknowledged_is_lost() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut server = Server::new(dir.path());
    server.start();
    let credentials = server.ready().await;
    let mut connection = credentials.connect().await.expect("a connection");
    // A leader makes it, and no server lives long enough here to become one.
    let namespace = json!({"metadata": {"name": "default"}});
    let (code, _) = connection
        .send(Method::POST, "/api/v1/namespaces", "application/json", &namespace)
        .await
        .expect("an answer");
    assert!(matches!(code, 201 | 409), "{code}");
    let (announce, reachable) = watch::channel(Some((0, credentials)));
    let (finish, finished) = watch::channel(false);
    let witness = tokio::spawn(Witness::default().run(reachable.clone(), finished.clone()));
    let writers: Vec<_> = (0..WRITERS)
        .map(|id| tokio::spawn(Writer::new(id).run(reachable.clone(), finished.clone())))
        .collect();

    let begun = Instant::now();
    let mut crashes = 0;
    while crashes < CRASHES || (begun.elapsed() < BUDGET && crashes < 3 * CRASHES) {
        tokio::time::sleep(Duration::from_millis(150 + 37 * u64::from(crashes % 7))).await;
        let _ = announce.send(None);
        server.crash();
        crashes += 1;
        server.start();
        if crashes % 4 == 0 {
            // Also while it is still starting.
            tokio::time::sleep(Duration::from_millis(20 * u64::from(crashes))).await;
            server.crash();
            crashes += 1;
            server.start();
        }
        let credentials = server.ready().await;
        let _ = announce.send(Some((crashes, credentials)));
    }
    tokio::time::sleep(Duration::from_millis(200)).await;
    let _ = finish.send(true);

    let mut all = Vec::new();
    for writer in writers {
        all.push(writer.await.expect("a writer ends"));
    }
    let credentials = server.ready().await;
    let mut connection = credentials.connect().await.expect("a connection");
    let (code, list) = connection.get(MAPS).await.expect("a list");
    assert_eq!(code, 200);
    let witness = witness.await.expect("the witness ends");
    let acknowledged: usize = all.iter().map(|writer| writer.acknowledged.len()).sum();
    assert!(acknowledged > 100, "too little was written to prove anything: {acknowledged}");
    for writer in &all {
        assert_eq!(writer.faults(&list), [""; 0]);
    }
    let versions = all.iter().flat_map(|writer| writer.acknowledged.iter().copied());
    assert_eq!(witness.faults(&list, versions), [""; 0]);
    later_versions_are_greater(&mut connection, &witness).await;
    println!("{crashes} crashes, {acknowledged} acknowledged writes, {} events", witness.events());
}

/// A version is never given twice, not even to a write that was never acknowledged but seen.
async fn later_versions_are_greater(connection: &mut Connection, witness: &Witness) {
    let body = json!({"metadata": {"name": "last"}});
    let (code, made) =
        connection.send(Method::POST, MAPS, "application/json", &body).await.expect("an answer");
    assert_eq!(code, 201);
    assert!(version(&made) > witness.last_version());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sigterm_ends_the_server_in_order() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut server = Server::new(dir.path());
    server.start();
    let credentials = server.ready().await;
    let mut watches = Vec::new();
    for _ in 0..20 {
        let mut connection = credentials.connect().await.expect("a connection");
        let watch = connection.watch("/api/v1/configmaps?watch=1&resourceVersion=0").await.expect("a watch");
        watches.push((connection, watch));
    }
    let mut idle = credentials.connect().await.expect("a connection");
    idle.get("/version").await.expect("an answer");
    let ends: Vec<_> = watches
        .into_iter()
        .map(|(connection, mut watch)| {
            tokio::spawn(async move {
                while let Some(_event) = watch.next().await? {}
                drop(connection);
                anyhow::Ok(())
            })
        })
        .collect();
    let (took, status) = tokio::task::spawn_blocking(move || server.stop()).await.expect("it stops");
    assert!(status.success(), "{status}");
    // It waits two seconds at most for those who watch; the rest is a busy machine's.
    assert!(took < Duration::from_secs(10), "{took:?}");
    // That its parts end is what was asked for.
    let said = std::fs::read_to_string(dir.path().join("log")).expect("a log");
    assert!(!said.contains("ERROR"), "{said}");
    for end in ends {
        end.await.expect("a task").expect("the stream ends in order");
    }
}

//! What a feature starts with, and what it starts.

use std::path::PathBuf;
use std::sync::Arc;

use kube::Client;
use minik8s_api::Records;
use minik8s_runtime::{Caches, Catalog, Controller, Manager, Settings};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

/// The control plane that features add their controllers and tasks to.
pub struct Parts {
    pub client: Client,
    /// One cache per kind, shared by all.
    pub caches: Arc<Caches>,
    /// Every kind that the API serves.
    pub catalog: Arc<Catalog>,
    /// What features keep beside objects, where the API server is in this process.
    pub records: Option<Arc<dyn Records>>,
    /// Where this server keeps its files, if it has a place for them.
    pub data_dir: Option<PathBuf>,
    /// Controllers work only while this says true; tasks see to it themselves.
    pub leads: watch::Receiver<bool>,
    /// Ends every task.
    pub stop: CancellationToken,
    manager: Manager,
    tasks: JoinSet<()>,
}

impl Parts {
    pub fn new(client: Client, caches: Arc<Caches>, settings: Settings) -> Self {
        let (stop, leads) = (settings.stop.clone(), settings.leads.clone());
        let manager = Manager::new(client.clone(), caches.clone(), settings);
        Parts {
            client,
            caches,
            catalog: Arc::default(),
            records: None,
            data_dir: None,
            leads,
            stop,
            manager,
            tasks: JoinSet::new(),
        }
    }

    pub fn controller<C: Controller>(&mut self, controller: C) {
        self.manager.add(controller);
    }

    /// Something that runs until [`Parts::stop`] and never ends by itself.
    pub fn task(&mut self, task: impl Future<Output = ()> + Send + 'static) {
        self.tasks.spawn(task);
    }

    /// Until all of them have ended, which they do after `stop`; or until one ends by itself, for whoever runs this to
    /// see.
    pub async fn run(self) {
        let Parts { client, caches, catalog, stop, manager, mut tasks, .. } = self;
        let ended = CancellationToken::new();
        let tasks = async {
            while let Some(task) = tasks.join_next().await {
                if !stop.is_cancelled() {
                    let cause = task.err().map(|error| error.to_string()).unwrap_or_default();
                    tracing::error!(cause, "a task of a feature has ended");
                    ended.cancel();
                }
            }
        };
        let all = async {
            tokio::join!(
                report_end(manager.run(), &stop, &ended),
                report_end(catalog.run(client, caches, stop.clone()), &stop, &ended),
                tasks
            )
        };
        tokio::select! {
            _ = all => {}
            () = ended.cancelled() => {}
        }
    }
}

/// Tells of an end before `stop`.
async fn report_end(part: impl Future<Output = ()>, stop: &CancellationToken, ended: &CancellationToken) {
    part.await;
    if !stop.is_cancelled() {
        ended.cancel();
    }
}

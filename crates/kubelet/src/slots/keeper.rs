//! Makes slots and takes them away, as [`super::plan`] says. Sleeps while no function uses a runtime.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use minik8s_datadir::remove_tree;
use minik8s_meta::function::runtime;
use tokio::sync::watch;
use tracing::{debug, info, warn};

use super::form::Form;
use super::plan::{Free, Seen, plan};
use super::record::SlotRecord;
use super::{PREFIX, RECENT, Slots, door, is_slot, tell_failure};
use crate::cgroup::{self, PodLimits};
use crate::context::NodeContext;
use crate::cri::{Runtime, RuntimeError};
use crate::pod::guard_port;
use crate::pressure::{Pressure, Resource};

/// Between two looks at what slots there are.
const LOOK: Duration = Duration::from_secs(20);
/// Pods that start go first.
const BUSY: Duration = Duration::from_millis(200);
/// How long a runtime may take until it waits.
const START_TIMEOUT: Duration = Duration::from_secs(60);
const START_POLL: Duration = Duration::from_millis(10);
/// The least that the kernel knows: whatever else runs goes first.
const CPU_SHARES: i64 = 2;

/// Names of runtimes that functions use.
type Used = Arc<BTreeSet<String>>;

/// Runs for ever.
pub async fn keep(
    context: Arc<NodeContext>,
    runtime: Arc<dyn Runtime>,
    slots: Arc<Slots>,
    mut pressure: watch::Receiver<Pressure>,
) {
    let Some(mut used) = context.config.function_runtimes.clone() else {
        return std::future::pending().await;
    };
    let starts = context.starts.available_permits();
    let mut keeper = Keeper { context, runtime, slots, starts, is_swept: false };
    loop {
        let wanted = used.borrow_and_update().clone();
        let is_short = pressure.borrow_and_update().is_short_of(Resource::Memory);
        let pause = keeper.round(&wanted, is_short).await;
        // With no function and no slot there is nothing to look at.
        let is_idle = wanted.is_empty() && keeper.slots.is_empty();
        tokio::select! {
            changed = used.changed() => if changed.is_err() { return std::future::pending().await },
            changed = pressure.changed(), if !is_idle => if changed.is_err() { return std::future::pending().await },
            () = keeper.slots.changed.notified() => {}
            () = tokio::time::sleep(pause), if !is_idle => {}
        }
    }
}

struct Keeper {
    context: Arc<NodeContext>,
    runtime: Arc<dyn Runtime>,
    slots: Arc<Slots>,
    /// Leave for starts that there is while nothing starts.
    starts: usize,
    /// What an agent of before left in the runtime without a word has been found.
    is_swept: bool,
}

impl Keeper {
    /// Returns when to look again.
    async fn round(&mut self, used: &Used, is_short: bool) -> Duration {
        if let Err(error) = self.sweep().await {
            warn!(%error, "cannot look for slots of before");
            return LOOK;
        }
        self.destroy_spoiled().await;
        let forms = self.forms(used).await;
        let found = self.look(&forms, is_short);
        let (make, destroyed) = found;
        if destroyed {
            self.destroy_spoiled().await;
        }
        let Some(image) = make else { return LOOK };
        if self.context.starts.available_permits() < self.starts {
            return BUSY;
        }
        let Some(form) = forms.get(&image) else { return LOOK };
        let begun = Instant::now();
        match self.make(form).await {
            Ok(uid) => {
                info!(slot = uid, image, took = ?begun.elapsed(), "made a slot for functions");
                Duration::ZERO
            }
            Err((uid, error)) => {
                tell_failure(&uid, &error);
                self.slots.spoil(&uid);
                LOOK
            }
        }
    }

    /// Slots whose pods are gone; and, once, those of which nothing is written down.
    async fn sweep(&mut self) -> Result<(), RuntimeError> {
        if !self.is_swept {
            let known = |uid: &String| self.slots.state.lock().slots.contains_key(uid);
            let unknown =
                self.runtime.pod_uids().await?.into_iter().filter(|uid| is_slot(uid) && !known(uid));
            unknown.for_each(|uid| self.slots.state.lock().spoiled.push(uid));
            self.is_swept = true;
        }
        let adopted = self.slots.adopted_sandboxes();
        if adopted.is_empty() {
            return Ok(());
        }
        let there = self.runtime.ids().await?;
        let pods: BTreeSet<_> =
            self.context.pods.all().iter().filter_map(|pod| pod.metadata.uid.clone()).collect();
        for (uid, sandbox, pod) in adopted {
            if !there.contains(&sandbox) && !pods.contains(&pod) {
                self.slots.spoil(&uid);
            }
        }
        Ok(())
    }

    /// How slots are made of the images that this node has.
    async fn forms(&self, used: &Used) -> BTreeMap<String, Form> {
        let NodeContext { config, host_dns, machine, .. } = self.context.as_ref();
        let mut forms = BTreeMap::new();
        for image in used.iter().filter_map(|name| runtime(name)).map(|runtime| runtime.image) {
            match self.runtime.image(image).await {
                Ok(Some(record)) => {
                    forms.extend(
                        Form::new(image, &record, config, host_dns, machine.memory)
                            .map(|form| (image.to_owned(), form)),
                    );
                }
                // Made when the first instance starts here.
                Ok(None) => {}
                Err(error) => debug!(%error, image, "cannot look for a runtime's image"),
            }
        }
        self.slots.state.lock().forms.clone_from(&forms);
        forms
    }

    /// Withdraws what is not to be there; returns the image of a slot to be made, and whether something was withdrawn.
    fn look(&self, forms: &BTreeMap<String, Form>, is_short: bool) -> (Option<String>, bool) {
        let NodeContext { config, cgroups, machine, .. } = self.context.as_ref();
        let mut state = self.slots.state.lock();
        let now = Instant::now();
        state.starts.retain(|(at, _)| now.duration_since(*at) < RECENT);
        let mut starts = BTreeMap::new();
        for (_, image) in &state.starts {
            *starts.entry(image.as_str()).or_default() += 1;
        }
        let free = state.slots.values().filter(|slot| slot.is_free()).map(|slot| {
            let usage = cgroup::usage(cgroups, &format!("{}/{}", config.cgroup_root(), slot.uid));
            let is_good = forms.get(&slot.image).is_some_and(|form| form.digest() == slot.form)
                && self.slots.is_waiting(&state, slot);
            Free {
                uid: &slot.uid,
                image: &slot.image,
                size: usage.map_or(0, |usage| usage.working_set),
                is_good,
            }
        });
        let seen = Seen {
            wanted: forms.keys().map(String::as_str).collect(),
            free: free.collect(),
            starts,
            node_memory: machine.memory,
            is_short,
        };
        let plan = plan(&seen);
        let make = plan.make.map(str::to_owned);
        let destroy: Vec<String> = plan.destroy.into_iter().map(str::to_owned).collect();
        for uid in &destroy {
            // Under the lock under which they are taken.
            state.slots.remove(uid);
            state.doors.remove(uid);
            state.spoiled.push(uid.clone());
        }
        (make, !destroy.is_empty())
    }

    async fn make(&self, form: &Form) -> Result<String, (String, String)> {
        let uid = format!("{PREFIX}{}", uuid::Uuid::new_v4());
        match self.start(&uid, form).await {
            Ok(()) => Ok(uid),
            Err(error) => Err((uid, error)),
        }
    }

    async fn start(&self, uid: &str, form: &Form) -> Result<(), String> {
        let NodeContext { config, cgroups, .. } = self.context.as_ref();
        let dir = self.slots.dir.join(uid);
        let mut record = SlotRecord {
            uid: uid.to_owned(),
            image: form.image.clone(),
            form: form.digest(),
            ..SlotRecord::default()
        };
        let cgroup = format!("{}/{uid}", config.cgroup_root());
        let prepare = || {
            std::fs::create_dir_all(dir.join("log").join("function"))?;
            door::make(&dir)?;
            record.write(&self.slots.dir)?;
            let limits = PodLimits { cpu_shares: CPU_SHARES, pids: config.pod_pids, ..PodLimits::default() };
            cgroup::apply(cgroups, &cgroup, &limits)
        };
        prepare().map_err(|error: std::io::Error| error.to_string())?;
        let _leave = self.context.starts.acquire().await;
        let failed = |error: RuntimeError| error.to_string();
        let sandbox = form.sandbox_config(uid, &dir, &cgroup);
        record.sandbox = self.runtime.run_sandbox(sandbox.clone(), "").await.map_err(failed)?;
        // As long as it is nobody's it may send with its own addresses alone, and has nothing to send.
        guard_port(&self.context, &record.sandbox).await?;
        let container = form.container_config(uid, &dir);
        record.container =
            self.runtime.create_container(&record.sandbox, container, sandbox).await.map_err(failed)?;
        self.runtime.start_container(&record.container).await.map_err(failed)?;
        let deadline = Instant::now() + START_TIMEOUT;
        let door = loop {
            match door::open(&dir) {
                Ok(door) => break door,
                Err(error) if Instant::now() > deadline => {
                    return Err(format!("its program does not wait: {error}"));
                }
                Err(_) => tokio::time::sleep(START_POLL).await,
            }
        };
        record.write(&self.slots.dir).map_err(|error| error.to_string())?;
        let mut state = self.slots.state.lock();
        state.doors.insert(uid.to_owned(), door);
        state.slots.insert(uid.to_owned(), record);
        Ok(())
    }

    async fn destroy_spoiled(&self) {
        let spoiled = std::mem::take(&mut self.slots.state.lock().spoiled);
        for uid in spoiled {
            if let Err(error) = self.destroy(&uid).await {
                tell_failure(&uid, &error);
                self.slots.state.lock().spoiled.push(uid);
            }
        }
    }

    /// All of it, however far its making came.
    async fn destroy(&self, uid: &str) -> Result<(), String> {
        let failed = |error: RuntimeError| error.to_string();
        let record = self.runtime.pod(uid).await.map_err(failed)?;
        for container in &record.containers {
            self.runtime.remove_container(&container.id).await.map_err(failed)?;
        }
        for sandbox in &record.sandboxes {
            self.runtime.stop_sandbox(&sandbox.id).await.map_err(failed)?;
            self.runtime.remove_sandbox(&sandbox.id).await.map_err(failed)?;
        }
        let (dir, name) = (self.slots.dir.clone(), uid.to_owned());
        let cgroup = format!("{}/{uid}", self.context.config.cgroup_root());
        let removed = tokio::task::spawn_blocking(move || {
            cgroup::remove_tree(&cgroup);
            if dir.join(&name).exists() { remove_tree(&dir, &name) } else { Ok(()) }
        });
        removed.await.map_err(|e| e.to_string())?.map_err(|e| e.to_string())
    }
}

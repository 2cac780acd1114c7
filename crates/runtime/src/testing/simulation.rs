//! Controllers and actors taking turns in a [`World`].

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::jiff::{SignedDuration, Timestamp};
use parking_lot::Mutex;

use super::{Random, World};
use crate::{Controller, Plan, Watches};

/// Something outside that reacts to the world; true if it changed anything.
pub type Actor = Box<dyn Fn(&mut World) -> bool>;

/// No honest control loop needs more turns than this to settle a test world.
const MOST_TURNS: usize = 5_000;
/// Nobody in these tests waits longer than this.
const HORIZON: SignedDuration = SignedDuration::from_hours(7 * 24);

pub struct Simulation {
    pub world: World,
    controllers: Vec<Box<dyn Driven>>,
    actors: Vec<Actor>,
    random: Option<Random>,
    /// How many more actions may be carried out before everything crashes.
    fuse: Option<usize>,
    appointments: BTreeMap<(Timestamp, usize, usize), ()>,
    start: Timestamp,
    horizon: SignedDuration,
}

impl Simulation {
    pub fn new(world: World) -> Self {
        let start = world.now();
        Simulation {
            world,
            controllers: Vec::new(),
            actors: Vec::new(),
            random: None,
            fuse: None,
            appointments: BTreeMap::new(),
            start,
            horizon: HORIZON,
        }
    }

    #[must_use]
    pub fn with<C: Controller>(mut self, controller: C) -> Self {
        self.controllers.push(Box::new(Driver::new(controller, &self.world)));
        self.world.refill();
        self
    }

    #[must_use]
    pub fn with_actor(mut self, actor: Actor) -> Self {
        self.actors.push(actor);
        self
    }

    /// Takes turns in random order and lets some plans be cut short.
    pub fn shuffle(&mut self, seed: u64) {
        self.random = Some(Random::new(seed));
    }

    /// The clock stops this long after the start.
    pub fn stop_at(&mut self, since_start: SignedDuration) {
        self.horizon = since_start;
    }

    /// After this many actions everything stops in the middle of whatever it does, and starts anew.
    pub fn crash_after(&mut self, actions: usize) {
        self.fuse = Some(actions);
    }

    /// Runs until nobody has anything to do, then demands that planning again finds nothing.
    pub fn settle(&mut self) -> Result<(), String> {
        for _ in 0..MOST_TURNS {
            if !self.take_turn() && !self.wait() {
                return self.check_quiet();
            }
        }
        let log = &self.world.log;
        let tail = &log[log.len().saturating_sub(20)..];
        Err(format!("does not settle in {MOST_TURNS} turns; last actions: {tail:#?}"))
    }

    fn take_turn(&mut self) -> bool {
        let busy: Vec<usize> =
            (0..self.controllers.len()).filter(|&i| self.controllers[i].has_work()).collect();
        let prefers_actor = self.random.as_mut().is_some_and(|r| r.below(3) == 0);
        if busy.is_empty() || prefers_actor {
            let acted = self.actors.iter().any(|actor| actor(&mut self.world));
            if acted || busy.is_empty() {
                return acted;
            }
        }
        let pick = self.random.as_mut().map_or(0, |r| r.below(busy.len()));
        let which = self.random.as_mut().map_or(0, |r| r.draw() as usize);
        self.run_key(busy[pick], which);
        true
    }

    fn run_key(&mut self, controller: usize, which: usize) {
        let (key, plan) = self.controllers[controller].take(&self.world, which);
        if let Some(delay) = plan.again_after {
            self.appointments.insert((self.world.now() + delay, controller, key), ());
        }
        // A request may fail at any point; the rest of the plan is then left undone and retried.
        let cut = self.random.as_mut().map_or(0, |r| if r.below(4) == 0 { r.below(3) } else { 0 });
        let allowed = plan.actions.len().saturating_sub(cut);
        for (i, action) in plan.actions.iter().enumerate() {
            if self.fuse == Some(0) {
                return self.crash();
            }
            if i >= allowed || self.world.apply(action).is_err() {
                self.controllers[controller].want(key);
                return;
            }
            self.fuse = self.fuse.map(|left| left - 1);
        }
    }

    /// All memory of the controllers is lost.
    fn crash(&mut self) {
        self.fuse = None;
        self.appointments.clear();
        for controller in &self.controllers {
            controller.want_all();
        }
    }

    /// Moves the clock to the next appointment.
    fn wait(&mut self) -> bool {
        let Some(((at, controller, key), ())) = self.appointments.pop_first() else { return false };
        if at.duration_since(self.start) > self.horizon {
            self.appointments.insert((at, controller, key), ());
            return false;
        }
        self.world.advance_to(at);
        self.actors.iter().for_each(|actor| {
            actor(&mut self.world);
        });
        self.controllers[controller].want(key);
        true
    }

    fn check_quiet(&self) -> Result<(), String> {
        for controller in &self.controllers {
            controller.check_quiet(&self.world)?;
        }
        Ok(())
    }
}

/// A controller without its types. Keys are numbered.
trait Driven {
    fn has_work(&self) -> bool;
    /// Takes one waiting key and plans it.
    fn take(&self, world: &World, which: usize) -> (usize, Plan);
    fn want(&self, key: usize);
    fn want_all(&self);
    fn check_quiet(&self, world: &World) -> Result<(), String>;
}

struct Driver<C: Controller> {
    controller: C,
    keys: Arc<Mutex<Keys<C::Key>>>,
}

struct Keys<K> {
    known: Vec<K>,
    waiting: Vec<usize>,
}

impl<K: Eq + Clone> Keys<K> {
    fn add(&mut self, key: K) {
        let index = self.known.iter().position(|k| *k == key).unwrap_or_else(|| {
            self.known.push(key);
            self.known.len() - 1
        });
        self.want(index);
    }

    fn want(&mut self, index: usize) {
        if !self.waiting.contains(&index) {
            self.waiting.push(index);
        }
    }
}

impl<C: Controller> Driver<C> {
    fn new(controller: C, world: &World) -> Self {
        let keys = Arc::new(Mutex::new(Keys { known: Vec::new(), waiting: Vec::new() }));
        let sink = {
            let keys = keys.clone();
            Arc::new(move |key| keys.lock().add(key))
        };
        controller.watch(&Watches::new(world.caches().clone(), sink));
        Driver { controller, keys }
    }

    fn plan(&self, world: &World, key: &C::Key) -> Plan {
        let seen = self.controller.observe(world.caches(), key);
        seen.map(|seen| self.controller.plan(&seen, world.now())).unwrap_or_default()
    }
}

impl<C: Controller> Driven for Driver<C> {
    fn has_work(&self) -> bool {
        !self.keys.lock().waiting.is_empty()
    }

    fn take(&self, world: &World, which: usize) -> (usize, Plan) {
        let (index, key) = {
            let mut keys = self.keys.lock();
            let position = which % keys.waiting.len();
            let index = keys.waiting.remove(position);
            (index, keys.known[index].clone())
        };
        (index, self.plan(world, &key))
    }

    fn want(&self, key: usize) {
        self.keys.lock().want(key);
    }

    fn want_all(&self) {
        let mut keys = self.keys.lock();
        keys.waiting = (0..keys.known.len()).collect();
    }

    fn check_quiet(&self, world: &World) -> Result<(), String> {
        let known = self.keys.lock().known.clone();
        for key in known {
            let plan = self.plan(world, &key);
            if !plan.actions.is_empty() {
                let name = self.controller.name();
                return Err(format!("{name} has settled but still wants, for {key:?}: {:#?}", plan.actions));
            }
        }
        Ok(())
    }
}

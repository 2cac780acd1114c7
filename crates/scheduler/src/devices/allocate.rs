//! Chooses devices for all claims of a pod at once, on one node: all or none.
//!
//! A depth-first search over requests in their order and devices in theirs: what is found is found again. It goes back
//! when constraints, counters or shares leave no way on, and gives up after so many steps, so that no claim can hold up
//! the scheduler.

use std::collections::HashMap;
use std::sync::Arc;

use minik8s_meta::Quantity;

use super::pool::{Counters, Device, Offer};
use super::request::{Alternative, Mode, Wanted};
use super::shortage::{Cause, Shortage};
use super::usage::{Capacity, Usage};
use super::{consumption, taint};

/// A few milliseconds, for each node.
const MOST_STEPS: usize = 10_000;
/// As many devices as one claim may have.
const MOST_RESULTS: usize = 32;

/// One device for one request.
#[derive(Debug, Clone)]
pub struct Choice {
    pub claim: usize,
    pub request: usize,
    pub alternative: usize,
    pub device: Arc<Device>,
    /// Of a device that several may share.
    pub consumed: Option<Capacity>,
}

pub fn allocate(wanted: &[Wanted], offer: &Offer, usage: &Usage) -> Result<Vec<Choice>, Box<Shortage>> {
    let places: Vec<(usize, usize)> = wanted
        .iter()
        .enumerate()
        .flat_map(|(claim, wanted)| (0..wanted.requests.len()).map(move |request| (claim, request)))
        .collect();
    let mut search = Search {
        wanted,
        offer,
        places,
        usage: usage.clone(),
        counters: offer.counters.clone(),
        matching: HashMap::new(),
        chosen: Vec::new(),
        steps: 0,
        furthest: None,
    };
    if search.fill(0) {
        return Ok(search.chosen);
    }
    Err(Box::new(search.shortage(usage)))
}

/// Places of devices in the offer, or why that cannot be said.
type Matching = Result<Arc<Vec<usize>>, Cause>;

struct Search<'a> {
    wanted: &'a [Wanted],
    offer: &'a Offer,
    /// Claim and request, in the order in which they are filled.
    places: Vec<(usize, usize)>,
    usage: Usage,
    counters: Counters,
    /// By place and alternative: which of the offered devices are of the kind that is asked for.
    matching: HashMap<(usize, usize), Matching>,
    chosen: Vec<Choice>,
    steps: usize,
    /// The last place and alternative that could not be filled, of those furthest on.
    furthest: Option<(usize, usize)>,
}

impl Search<'_> {
    /// Fills this place and all after it.
    fn fill(&mut self, place: usize) -> bool {
        let Some(&(claim, request)) = self.places.get(place) else { return true };
        for alternative in 0..self.wanted[claim].requests[request].alternatives.len() {
            let mode = self.alternative(place, alternative).mode;
            let filled = match (self.matching(place, alternative), mode) {
                (Err(_), _) => false,
                (Ok(devices), Mode::Exactly(count)) => self.pick(place, alternative, &devices, count),
                (Ok(devices), Mode::All) => self.take_all(place, alternative, &devices),
            };
            if filled {
                return true;
            }
            if self.furthest.is_none_or(|(known, _)| known <= place) {
                self.furthest = Some((place, alternative));
            }
        }
        false
    }

    fn pick(&mut self, place: usize, alternative: usize, devices: &[usize], count: usize) -> bool {
        if count == 0 {
            return self.fill(place + 1);
        }
        for (at, &device) in devices.iter().enumerate() {
            self.steps += 1;
            if self.steps > MOST_STEPS {
                return false;
            }
            if !self.take(place, alternative, device) {
                continue;
            }
            if self.pick(place, alternative, &devices[at + 1..], count - 1) {
                return true;
            }
            self.give_back();
        }
        false
    }

    fn take_all(&mut self, place: usize, alternative: usize, devices: &[usize]) -> bool {
        let before = self.chosen.len();
        let all = !devices.is_empty()
            && self.offer.incomplete.is_empty()
            && devices.iter().all(|&device| self.take(place, alternative, device));
        if all && self.fill(place + 1) {
            return true;
        }
        while self.chosen.len() > before {
            self.give_back();
        }
        false
    }

    fn take(&mut self, place: usize, alternative: usize, offered: usize) -> bool {
        let (claim, request) = self.places[place];
        let wanted = &self.wanted[claim];
        let asked = &wanted.requests[request].alternatives[alternative];
        let device = &self.offer.devices[offered].device;
        let chosen = self.chosen.iter().filter(|choice| choice.claim == claim);
        let is_shared = device.api.allow_multiple_allocations == Some(true) && !asked.admin;
        let has_it = chosen
            .clone()
            .any(|choice| choice.device.id == device.id && (!is_shared || choice.request == request));
        let others = || {
            chosen.clone().map(|choice| {
                let request = &wanted.requests[choice.request].alternatives[choice.alternative];
                (request.name.as_str(), &*choice.device)
            })
        };
        let fits =
            wanted.constraints.iter().all(|constraint| constraint.admits(&asked.name, device, others()));
        if has_it || !fits || chosen.count() >= MOST_RESULTS {
            return false;
        }
        let Some(consumed) = self.available(asked, device) else { return false };
        let device = device.clone();
        if !asked.admin {
            if !self.usage.has(&device.id) {
                self.count(&device, false);
            }
            self.usage.take(device.id.clone(), consumed.as_ref());
        }
        self.chosen.push(Choice { claim, request, alternative, device, consumed });
        true
    }

    /// What taking it would consume, inside: of a device that is shared.
    fn available(&self, asked: &Alternative, device: &Device) -> Option<Option<Capacity>> {
        if asked.admin {
            return Some(None);
        }
        let is_new = !self.usage.has(&device.id);
        let counted = !is_new
            || device
                .consumes()
                .iter()
                .all(|(counter, amount)| self.counters.get(counter).is_some_and(|left| *left >= *amount));
        if !counted {
            return None;
        }
        if device.api.allow_multiple_allocations != Some(true) {
            return (is_new && consumption::suffices(device, &asked.capacity)).then_some(None);
        }
        let share = consumption::share(device, &asked.capacity)?;
        let is_left = |(name, amount): (&String, &Quantity)| {
            let total = consumption::total(device, name);
            total.is_some_and(|total| self.usage.consumed(&device.id, name) + *amount <= total)
        };
        (!self.usage.is_taken(&device.id) && share.iter().all(is_left)).then_some(Some(share))
    }

    fn give_back(&mut self) {
        let Some(choice) = self.chosen.pop() else { return };
        if self.wanted[choice.claim].requests[choice.request].alternatives[choice.alternative].admin {
            return;
        }
        self.usage.give_back(&choice.device.id, choice.consumed.as_ref());
        if !self.usage.has(&choice.device.id) {
            self.count(&choice.device, true);
        }
    }

    fn count(&mut self, device: &Device, is_given_back: bool) {
        for (counter, amount) in device.consumes() {
            if let Some(left) = self.counters.get_mut(&counter) {
                *left = if is_given_back { *left + amount } else { *left - amount };
            }
        }
    }

    fn alternative(&self, place: usize, alternative: usize) -> &Alternative {
        let (claim, request) = self.places[place];
        &self.wanted[claim].requests[request].alternatives[alternative]
    }

    /// Devices of the kind that is asked for and whose taints are tolerated.
    fn matching(&mut self, place: usize, alternative: usize) -> Matching {
        if let Some(known) = self.matching.get(&(place, alternative)) {
            return known.clone();
        }
        let asked = self.alternative(place, alternative);
        let found = self.of_kind(asked).map(|all| {
            let bears = |&at: &usize| {
                taint::untolerated(&self.offer.devices[at].taints, &asked.tolerations).is_none()
            };
            Arc::new(all.into_iter().filter(bears).collect::<Vec<_>>())
        });
        self.matching.insert((place, alternative), found.clone());
        found
    }

    fn of_kind(&self, asked: &Alternative) -> Result<Vec<usize>, Cause> {
        let mut all = Vec::new();
        for (at, offered) in self.offer.devices.iter().enumerate() {
            let device = &offered.device;
            match asked.matches(device) {
                Ok(true) => all.push(at),
                Ok(false) => {}
                Err(problem) => {
                    return Err(Cause::Selector { device: device.id.device.clone(), problem });
                }
            }
        }
        // Those that have to be made ready first are taken when there are no others.
        all.sort_by_key(|at| {
            let conditions = &self.offer.devices[*at].device.api.binding_conditions;
            conditions.as_ref().is_some_and(|conditions| !conditions.is_empty())
        });
        Ok(all)
    }

    /// What is told is the request that came last in the furthest attempt.
    fn shortage(&mut self, usage: &Usage) -> Shortage {
        let (place, alternative) = self.furthest.unwrap_or((0, 0));
        let (claim, _) = self.places[place];
        let asked = self.alternative(place, alternative);
        let (all, mut cause) = match self.of_kind(asked) {
            Ok(all) => (all, None),
            Err(cause) => (Vec::new(), Some(cause)),
        };
        let bears =
            |at: &&usize| taint::untolerated(&self.offer.devices[**at].taints, &asked.tolerations).is_none();
        let free = all.iter().filter(bears).filter(|&&at| {
            let device = &self.offer.devices[at].device;
            asked.admin || device.api.allow_multiple_allocations == Some(true) || !usage.has(&device.id)
        });
        let free = free.count();
        let tainted = all.iter().find_map(|&at| {
            let taint = taint::untolerated(&self.offer.devices[at].taints, &asked.tolerations)?;
            let value = taint.value.as_deref().filter(|value| !value.is_empty());
            let value = value.map_or(String::new(), |value| format!("={value}"));
            Some(Cause::Tainted(format!("{}{value}:{}", taint.key, taint.effect)))
        });
        let enough = match asked.mode {
            Mode::Exactly(count) => free >= count,
            Mode::All => free == all.len() && free > 0,
        };
        if cause.is_none() {
            cause = match self.offer.incomplete.first() {
                _ if self.steps > MOST_STEPS => Some(Cause::TooManyWays),
                Some(driver) if !enough || asked.mode == Mode::All => Some(Cause::Incomplete(driver.clone())),
                _ if enough => Some(Cause::Together),
                _ => tainted,
            };
        }
        Shortage {
            claim: self.wanted[claim].name().to_owned(),
            request: asked.name.clone(),
            class: asked.class_name().to_owned(),
            wanted: asked.mode,
            here: self.offer.devices.len(),
            matching: all.len(),
            free,
            cause,
        }
    }
}

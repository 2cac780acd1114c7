//! How fast and how soon: `spec.behavior`. Pure.

use k8s_openapi::api::autoscaling::v2::{HPAScalingPolicy, HPAScalingRules, HorizontalPodAutoscalerSpec};
use k8s_openapi::jiff::{SignedDuration, Timestamp};

/// Where nothing is said: down only by the highest wish of this long.
const DOWN_WINDOW: i32 = 300;
/// And at most double, or four more, in this long.
const DEFAULT_PERIOD: i32 = 15;
/// What is remembered of the past; validation allows no longer window and no longer period.
const LONGEST: SignedDuration = SignedDuration::from_hours(1);

/// What an autoscaler remembers.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Memory {
    /// What was wished for, before it was paced.
    wishes: Vec<(Timestamp, i32)>,
    /// How many replicas were added (or, negative, removed).
    changes: Vec<(Timestamp, i32)>,
    /// Something changed then, but how much is not known: it was before this memory began.
    unknown_change: Option<Timestamp>,
}

impl Memory {
    /// The memory of an autoscaler that decided before, when nobody remembers what; its status tells when it last
    /// changed its target.
    pub fn resumed(last_change: Option<Timestamp>) -> Self {
        Memory { unknown_change: last_change, ..Memory::default() }
    }

    /// The last change was not made after all.
    pub fn unchanged(&mut self) {
        self.changes.pop();
    }

    pub fn changed(&mut self, now: Timestamp, by: i32) {
        self.changes.push((now, by));
    }

    fn forget(&mut self, now: Timestamp) {
        let recent = |at: &Timestamp| now.duration_since(*at) < LONGEST;
        self.wishes.retain(|(at, _)| recent(at));
        self.changes.retain(|(at, _)| recent(at));
    }

    /// Of equal wishes in a row the first and the last tell all, for a window sees one or the other.
    fn wish(&mut self, now: Timestamp, replicas: i32) {
        if let [.., (_, before), (at, last)] = self.wishes.as_mut_slice()
            && *before == replicas
            && *last == replicas
        {
            *at = now;
            return;
        }
        self.wishes.push((now, replicas));
    }

    fn wishes_since(&self, since: Timestamp) -> impl Iterator<Item = i32> {
        let first = self.wishes.partition_point(|(at, _)| *at <= since);
        self.wishes[first..].iter().map(|(_, replicas)| *replicas)
    }

    fn changed_since(&self, since: Timestamp) -> (i32, i32) {
        let recent = self.changes.iter().filter(|(at, _)| *at > since).map(|(_, by)| *by);
        recent.fold((0, 0), |(added, removed), by| (added + by.max(0), removed + (-by).max(0)))
    }
}

/// What becomes of a wish, and why it is not granted in full.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Paced {
    pub replicas: i32,
    /// Reason and message for `AbleToScale`, if recent wishes held it back.
    pub held: Option<(&'static str, &'static str)>,
    /// Reason and message for `ScalingLimited`.
    pub limited: Option<(&'static str, &'static str)>,
}

/// Grants a wish as far as the behavior and the bounds allow now.
pub fn pace(
    spec: &HorizontalPodAutoscalerSpec,
    memory: &mut Memory,
    current: i32,
    wish: i32,
    now: Timestamp,
) -> Paced {
    let behavior = spec.behavior.as_ref();
    let up = behavior.and_then(|behavior| behavior.scale_up.as_ref());
    let down = behavior.and_then(|behavior| behavior.scale_down.as_ref());
    memory.forget(now);
    if memory.wishes.is_empty() {
        // After a start what runs is taken for what was wished for: nothing shrinks before its time.
        memory.wish(now, current);
    }
    memory.wish(now, wish);
    let window = |rules: Option<&HPAScalingRules>, default: i32| {
        let seconds = rules.and_then(|rules| rules.stabilization_window_seconds).unwrap_or(default);
        now - SignedDuration::from_secs(i64::from(seconds.max(0)))
    };
    let lowest = memory.wishes_since(window(up, 0)).min().unwrap_or(wish).min(wish);
    let highest = memory.wishes_since(window(down, DOWN_WINDOW)).max().unwrap_or(wish).max(wish);
    let stable = current.max(lowest).min(highest);
    let held = match stable {
        _ if stable == wish => None,
        _ if stable > wish => Some((
            "ScaleDownStabilized",
            "recent recommendations were higher than current one, applying the highest recent recommendation",
        )),
        _ => Some((
            "ScaleUpStabilized",
            "recent recommendations were lower than current one, applying the lowest recent recommendation",
        )),
    };
    let (replicas, limited) = limit(spec, memory, current, stable, (up, down), now);
    Paced { replicas, held, limited }
}

type Limited = Option<(&'static str, &'static str)>;

fn limit(
    spec: &HorizontalPodAutoscalerSpec,
    memory: &Memory,
    current: i32,
    wanted: i32,
    (up, down): (Option<&HPAScalingRules>, Option<&HPAScalingRules>),
    now: Timestamp,
) -> (i32, Limited) {
    let (least, most) = bounds(spec);
    if wanted > current {
        let fastest = furthest(memory, current, up, &default_up(), Direction::Up, now).max(current);
        if wanted > fastest.min(most) {
            return match fastest < most {
                true => (
                    fastest,
                    Some((
                        "ScaleUpLimit",
                        "the desired replica count is increasing faster than the maximum scale rate",
                    )),
                ),
                false => (most, Some(TOO_MANY)),
            };
        }
    } else if wanted < current {
        let fastest = furthest(memory, current, down, &default_down(), Direction::Down, now).min(current);
        if wanted < fastest.max(least) {
            return match fastest > least {
                true => (
                    fastest,
                    Some((
                        "ScaleDownLimit",
                        "the desired replica count is decreasing faster than the maximum scale rate",
                    )),
                ),
                false => (least, Some(TOO_FEW)),
            };
        }
    }
    match wanted {
        _ if wanted > most => (most, Some(TOO_MANY)),
        _ if wanted < least => (least, Some(TOO_FEW)),
        _ => (wanted, None),
    }
}

const TOO_MANY: (&str, &str) =
    ("TooManyReplicas", "the desired replica count is more than the maximum replica count");
const TOO_FEW: (&str, &str) =
    ("TooFewReplicas", "the desired replica count is less than the minimum replica count");

/// The least and the most replicas that the autoscaler may ask for.
pub fn bounds(spec: &HorizontalPodAutoscalerSpec) -> (i32, i32) {
    let least = spec.min_replicas.unwrap_or(1).max(0);
    (least, spec.max_replicas.max(least))
}

#[derive(Clone, Copy, PartialEq)]
enum Direction {
    Up,
    Down,
}

/// How far the policies let it go now.
fn furthest(
    memory: &Memory,
    current: i32,
    rules: Option<&HPAScalingRules>,
    defaults: &[HPAScalingPolicy],
    direction: Direction,
    now: Timestamp,
) -> i32 {
    let select = rules.and_then(|rules| rules.select_policy.as_deref()).unwrap_or("Max");
    if select == "Disabled" {
        return current;
    }
    let given = rules.and_then(|rules| rules.policies.as_deref()).filter(|policies| !policies.is_empty());
    let reached = given.unwrap_or(defaults).iter().map(|policy| {
        let period = SignedDuration::from_secs(i64::from(policy.period_seconds));
        if memory.unknown_change.is_some_and(|at| at > now - period) {
            // It may have used up all that the policy allows.
            return current;
        }
        let (added, removed) = memory.changed_since(now - period);
        // What there was when the period began.
        let base = current - added + removed;
        match (direction, policy.type_.as_str()) {
            (Direction::Up, "Pods") => base.saturating_add(policy.value),
            (Direction::Down, "Pods") => base.saturating_sub(policy.value),
            (Direction::Up, _) => part(base, 100 + i64::from(policy.value), true),
            (Direction::Down, _) => part(base, 100 - i64::from(policy.value), false),
        }
    });
    let most_change = select != "Min";
    let furthest = if (direction == Direction::Up) == most_change { reached.max() } else { reached.min() };
    furthest.unwrap_or(current)
}

fn part(base: i32, percent: i64, round_up: bool) -> i32 {
    let hundredfold = i64::from(base) * percent.max(0);
    let replicas = if round_up { (hundredfold + 99) / 100 } else { hundredfold / 100 };
    i32::try_from(replicas).unwrap_or(i32::MAX)
}

fn policy(kind: &str, value: i32) -> HPAScalingPolicy {
    HPAScalingPolicy { type_: kind.to_owned(), value, period_seconds: DEFAULT_PERIOD }
}

fn default_up() -> [HPAScalingPolicy; 2] {
    [policy("Percent", 100), policy("Pods", 4)]
}

fn default_down() -> [HPAScalingPolicy; 1] {
    [policy("Percent", 100)]
}

//! What a run waits for: the commands that were given and neither ended nor called off. Pure.

use std::collections::{BTreeMap, BTreeSet};

use minik8s_asl::engine::{Command, Event, Execution, TaskRequest, Waiting};

#[derive(Debug, Default, Clone, PartialEq)]
pub struct Outstanding {
    pub tasks: BTreeMap<u64, TaskRequest>,
    /// Tasks that run elsewhere already; only their end is awaited.
    pub submitted: BTreeSet<u64>,
    pub timers: BTreeMap<u64, i64>,
}

impl Outstanding {
    /// After an event: what it asked for, and what it made needless.
    pub fn follow(&mut self, event: Option<&Event>, commands: &[Command], execution: &Execution) {
        match event {
            Some(Event::TimerFired { timer }) => {
                self.timers.remove(timer);
            }
            Some(Event::TaskSubmitted { task, .. }) => {
                self.submitted.insert(*task);
            }
            _ => {}
        }
        for command in commands {
            match command {
                Command::ScheduleTask(request) => {
                    self.tasks.insert(request.task, (**request).clone());
                }
                Command::CancelTask { task } => {
                    self.tasks.remove(task);
                }
                Command::StartTimer { timer, at } => {
                    self.timers.insert(*timer, *at);
                }
                Command::CancelTimer { timer } => {
                    self.timers.remove(timer);
                }
                Command::Complete(_) => {
                    self.tasks.clear();
                    self.timers.clear();
                }
            }
        }
        let awaited: BTreeSet<u64> = execution
            .waits()
            .into_iter()
            .filter_map(|waiting| match waiting {
                Waiting::Task { task, .. } => Some(*task),
                _ => None,
            })
            .collect();
        self.tasks.retain(|task, _| awaited.contains(task));
        self.submitted.retain(|task| self.tasks.contains_key(task));
    }

    /// The next timer, and when.
    pub fn next_timer(&self) -> Option<(u64, i64)> {
        self.timers.iter().map(|(&timer, &at)| (timer, at)).min_by_key(|&(timer, at)| (at, timer))
    }

    /// Whether an event can still change anything.
    pub fn awaits(&self, event: &Event) -> bool {
        match event {
            Event::TaskSucceeded { task, .. }
            | Event::TaskFailed { task, .. }
            | Event::TaskHeartbeat { task } => self.tasks.contains_key(task),
            Event::TaskSubmitted { task, .. } => {
                self.tasks.contains_key(task) && !self.submitted.contains(task)
            }
            Event::TimerFired { timer } => self.timers.contains_key(timer),
            Event::Stopped { .. } | Event::Redriven => true,
        }
    }
}

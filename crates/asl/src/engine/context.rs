//! What a thread's expressions see: its data, the context object, the variables of all scopes around it.

use std::cell::OnceCell;

use serde_json::{Map, Value, json};

use super::{Execution, Thread};
use crate::definition::{Kind, Machine, MachineType, State};
use crate::evaluate::{Scope, Variables};
use crate::random::Random;
use crate::timestamp;

impl Execution {
    pub(super) fn machine(&self, thread: &Thread) -> Option<&Machine> {
        let mut machine = &self.definition.machine;
        for place in &thread.place {
            machine = match &machine.states.get(&place.state)?.kind {
                Kind::Parallel { branches } => branches.get(place.branch)?,
                Kind::Map(map) => &map.processor,
                _ => return None,
            };
        }
        Some(machine)
    }

    /// Runs `work` with what `thread`'s expressions see. `data` is what paths look at and `$states.input` is.
    pub(super) fn scoped<T>(
        &mut self,
        thread: u64,
        data: &Value,
        extra: Extra<'_>,
        work: impl FnOnce(&mut Scope<'_>, &State) -> T,
    ) -> Option<T> {
        let mut random = std::mem::replace(&mut self.state.random, Random::new(0));
        let done = self.look(thread, data, &extra, &mut random, work);
        self.state.random = random;
        done
    }

    fn look<T>(
        &self,
        id: u64,
        data: &Value,
        extra: &Extra<'_>,
        random: &mut Random,
        work: impl FnOnce(&mut Scope<'_>, &State) -> T,
    ) -> Option<T> {
        let thread = self.state.threads.get(&id)?;
        let state = self.machine(thread)?.states.get(&thread.state)?;
        let mut scope = Scope {
            data,
            variables: self.variables(thread),
            context: OnceCell::new(),
            make_context: Box::new(|| self.context(thread, state, extra)),
            random,
            now: self.now,
            result: extra.result,
            error_output: extra.error_output,
            states: OnceCell::new(),
        };
        Some(work(&mut scope, state))
    }

    fn variables<'a>(&'a self, thread: &'a Thread) -> Vec<&'a Variables> {
        let mut all = vec![&thread.variables];
        let mut here = thread;
        while !here.detached
            && let Some(outer) = here.parent.and_then(|parent| self.state.threads.get(&parent))
        {
            all.push(&outer.variables);
            here = outer;
        }
        all
    }

    fn context(&self, thread: &Thread, state: &State, extra: &Extra<'_>) -> Value {
        if let Some(given) = self.inspection.as_ref().and_then(|inspection| inspection.context.clone()) {
            return given;
        }
        let identity = &self.state.identity;
        let mut execution = json!({
            "Id": identity.execution_id,
            "Input": self.state.input,
            "StartTime": timestamp::format(self.state.start_time),
            "Name": identity.execution_name,
            "RoleArn": identity.role_arn,
        });
        if self.inspection.is_none() && self.definition.machine_type == MachineType::Standard {
            execution["RedriveCount"] = self.state.redrives.into();
        }
        let mut current = Map::new();
        current.insert("Name".into(), thread.state.clone().into());
        current.insert("EnteredTime".into(), timestamp::format(thread.entered_time).into());
        if matches!(state.kind, Kind::Task(_) | Kind::Parallel { .. } | Kind::Map(_)) {
            current.insert("RetryCount".into(), thread.retry_count.into());
        }
        let mut context = json!({
            "Execution": execution,
            "StateMachine": {"Id": identity.machine_id, "Name": identity.machine_name},
            "State": current,
        });
        if let Some(token) = extra.token {
            context["Task"] = json!({"Token": token});
        }
        let mut here = Some(thread);
        let mut item = extra.item.cloned();
        while let Some(thread) = here.filter(|_| item.is_none()) {
            item = thread.item.clone();
            here = thread.parent.and_then(|parent| self.state.threads.get(&parent));
        }
        if let Some(item) = item {
            context["Map"] = json!({"Item": item});
        }
        context
    }
}

/// What some fields see beyond the others.
#[derive(Default)]
pub(super) struct Extra<'a> {
    pub(super) result: Option<&'a Value>,
    pub(super) error_output: Option<&'a Value>,
    pub(super) token: Option<&'a str>,
    pub(super) item: Option<&'a Value>,
}

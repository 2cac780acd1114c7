//! Tasks: asking for them, and what their answers mean.

use serde_json::{Map, Value, json};

use super::context::Extra;
use super::run::Notes;
use super::thread::Waiting;
use super::{Command, Execution, LARGEST_PAYLOAD, TaskRequest, history, seconds_to_milliseconds};
use crate::definition::{Integration, Kind, Language, Pattern, Resource, State};
use crate::evaluate::Scope;
use crate::failure::{self, Failure};
use crate::values;

impl TaskRequest {
    /// The function that the task calls, and with what: by its own ARN, as `function:NAME`, or by `lambda:invoke`,
    /// where a payload that is a text is JSON itself and none is an empty object.
    pub fn function(&self) -> Option<(String, Value)> {
        let resource = Resource::parse(&self.resource).ok()?;
        if let Integration::Function { name } = &resource.integration {
            return Some((name.clone(), self.parameters.clone()));
        }
        if !resource.is_lambda_invoke() {
            return None;
        }
        let name = self.parameters.get("FunctionName")?.as_str()?;
        let name = match name.split_once(":function:") {
            Some((_, name)) => name.split(':').next().unwrap_or(name),
            None => name.split(':').next().unwrap_or(name),
        };
        let payload = match self.parameters.get("Payload") {
            None | Some(Value::Null) => json!({}),
            Some(Value::String(text)) => serde_json::from_str(text).unwrap_or_else(|_| text.clone().into()),
            Some(payload) => payload.clone(),
        };
        Some((name.to_owned(), payload))
    }
}

/// A task's fields, computed.
struct Prepared {
    parameters: Value,
    credentials: Option<Value>,
    timeout: Option<i64>,
    heartbeat: Option<i64>,
    resource: Resource,
    notes: Notes,
}

impl Execution {
    pub(super) fn schedule_task(&mut self, id: u64, input: &Value) -> Result<(), Failure> {
        let task = self.id();
        let token = self.state.identity.token(task);
        let extra = Extra { token: Some(&token), ..Extra::default() };
        let prepared = self.scoped(id, input, extra, |scope, state| prepare(scope, state, input));
        let Some(prepared) = prepared else { return Ok(()) };
        let Prepared { parameters, credentials, timeout, heartbeat, resource, notes } = prepared?;
        self.note(notes);
        self.tell_scheduled(id, &resource, &parameters, timeout, heartbeat);
        let now = self.now;
        let mut timer = |seconds: Option<i64>| {
            seconds
                .map(|seconds| self.start_timer(now.saturating_add(seconds_to_milliseconds(seconds as f64))))
        };
        let waiting = Waiting::Task {
            task,
            timeout: timer(timeout),
            heartbeat: timer(heartbeat),
            heartbeat_seconds: heartbeat,
        };
        self.wait(id, waiting);
        let Some(thread) = self.state.threads.get(&id) else { return Ok(()) };
        let request = TaskRequest {
            task,
            state: thread.state.clone(),
            attempt: thread.retry_count,
            token: (resource.pattern() == Pattern::WaitForTaskToken).then_some(token),
            resource: resource.text,
            parameters,
            credentials,
            timeout_seconds: timeout,
            heartbeat_seconds: heartbeat,
        };
        self.commands.push(Command::ScheduleTask(Box::new(request)));
        Ok(())
    }

    fn tell_scheduled(
        &mut self,
        id: u64,
        resource: &Resource,
        parameters: &Value,
        timeout: Option<i64>,
        heartbeat: Option<i64>,
    ) {
        if resource.is_function() {
            self.tell(id, "LambdaFunctionScheduled", |details, _| {
                details.insert("input".into(), parameters.clone());
                details.insert("resource".into(), resource.text.clone().into());
                number(details, "timeoutInSeconds", timeout);
            });
            self.tell(id, "LambdaFunctionStarted", |_, _| {});
            return;
        }
        let named = |details: &mut Map<String, Value>| name_resource(details, resource);
        self.tell(id, "TaskScheduled", |details, _| {
            details.insert("parameters".into(), parameters.clone());
            named(details);
            number(details, "timeoutInSeconds", timeout);
            number(details, "heartbeatInSeconds", heartbeat);
        });
        self.tell(id, "TaskStarted", |details, _| named(details));
    }

    pub(super) fn task_submitted(&mut self, task: u64, output: &Value) {
        let Some((id, resource)) = self.task(task) else { return };
        self.tell(id, "TaskSubmitted", |details, _| {
            details.insert("output".into(), output.clone());
            name_resource(details, &resource);
        });
    }

    pub(super) fn task_succeeded(&mut self, task: u64, output: &Value) {
        if let Some((map, iteration)) = self.run_of(task) {
            return self.child_succeeded(map, iteration, output.clone());
        }
        let Some((id, resource)) = self.task(task) else { return };
        self.release(id);
        let mocked = self.inspection.as_ref().is_some_and(|inspection| inspection.mocked);
        let result = answer(&resource, output, mocked);
        if values::size(&result) > LARGEST_PAYLOAD {
            let name = match &resource.integration {
                Integration::Service { service, .. } => service.clone(),
                _ => resource.text.clone(),
            };
            let failure = Failure::new(
                failure::DATA_LIMIT_EXCEEDED,
                format!(
                    "The state/task '{name}' returned a result with a size exceeding the maximum number of bytes service limit."
                ),
            );
            self.tell_failed(id, &resource, &failure, "Failed");
            self.state_failed(id, failure);
            return;
        }
        let kind = if resource.is_function() { "LambdaFunctionSucceeded" } else { "TaskSucceeded" };
        self.tell(id, kind, |details, _| {
            details.insert("output".into(), result.clone());
            if !resource.is_function() {
                name_resource(details, &resource);
            }
        });
        self.note(vec![("result", result.clone())]);
        if let Err(failure) = self.state_succeeded(id, result) {
            self.state_failed(id, failure);
        }
    }

    pub(super) fn task_failed(&mut self, task: u64, failure: Failure) {
        if let Some((map, iteration)) = self.run_of(task) {
            return self.child_failed(map, iteration, failure);
        }
        let Some((id, resource)) = self.task(task) else { return };
        self.release(id);
        self.tell_failed(id, &resource, &failure, "Failed");
        self.state_failed(id, failure);
    }

    pub(super) fn task_timed_out(&mut self, id: u64, heartbeat: bool) {
        let Some((task, resource)) = self
            .state
            .threads
            .get(&id)
            .and_then(|thread| match thread.waiting {
                Waiting::Task { task, .. } => Some(task),
                _ => None,
            })
            .and_then(|task| self.task(task).map(|(_, resource)| (task, resource)))
        else {
            return;
        };
        self.commands.push(Command::CancelTask { task });
        self.release(id);
        let error = if heartbeat { failure::HEARTBEAT_TIMEOUT } else { failure::TIMEOUT };
        let failure = Failure::reported(Some(error.to_owned()), None);
        self.tell_failed(id, &resource, &failure, "TimedOut");
        self.state_failed(id, failure);
    }

    pub(super) fn task_heartbeat(&mut self, task: u64) {
        let Some((id, _)) = self.task(task) else { return };
        let now = self.now;
        let Some(Waiting::Task { heartbeat: Some(timer), heartbeat_seconds: Some(seconds), .. }) =
            self.state.threads.get(&id).map(|thread| &thread.waiting)
        else {
            return;
        };
        let (old, seconds) = (*timer, *seconds);
        self.cancel_timer(old);
        let new = self.start_timer(now.saturating_add(seconds_to_milliseconds(seconds as f64)));
        if let Some(Waiting::Task { heartbeat, .. }) =
            self.state.threads.get_mut(&id).map(|thread| &mut thread.waiting)
        {
            *heartbeat = Some(new);
        }
    }

    fn tell_failed(&mut self, id: u64, resource: &Resource, failure: &Failure, how: &str) {
        let stem = if resource.is_function() { "LambdaFunction" } else { "Task" };
        self.tell(id, &format!("{stem}{how}"), |details, _| {
            history::put(details, "error", failure.error.clone());
            history::put(details, "cause", failure.cause.clone());
            if !resource.is_function() {
                name_resource(details, resource);
            }
        });
    }

    /// The thread that waits for a task, and the task's resource.
    fn task(&self, wanted: u64) -> Option<(u64, Resource)> {
        let (&id, thread) = self
            .state
            .threads
            .iter()
            .find(|(_, thread)| matches!(thread.waiting, Waiting::Task { task, .. } if task == wanted))
            .filter(|(_, thread)| !thread.elsewhere)?;
        match &self.machine(thread)?.states.get(&thread.state)?.kind {
            Kind::Task(task) => Some((id, task.resource.clone())),
            _ => None,
        }
    }
}

fn prepare(scope: &mut Scope<'_>, state: &State, input: &Value) -> Result<Prepared, Failure> {
    let Kind::Task(task) = &state.kind else { return Err(Failure::runtime("The state is no Task.")) };
    let effective = scope.select(&state.input_path, input.clone())?;
    let mut notes = Notes::new();
    let parameters = match &state.parameters {
        Some(parameters) => scope.template(parameters, &effective)?,
        None => effective.clone(),
    };
    match state.language {
        Language::JsonPath => notes.push(("afterParameters", parameters.clone())),
        Language::Jsonata if state.parameters.is_some() => notes.push(("afterArguments", parameters.clone())),
        Language::Jsonata => {}
    }
    let mut seconds = |field: &Option<crate::definition::NumberField>, name: &str| {
        field.as_ref().map(|field| scope.integer(field, name, &effective)).transpose()
    };
    let timeout = seconds(&task.timeout, "TimeoutSeconds")?;
    let heartbeat = seconds(&task.heartbeat, "HeartbeatSeconds")?;
    let credentials =
        task.credentials.as_ref().map(|credentials| scope.template(credentials, &effective)).transpose()?;
    Ok(Prepared { parameters, credentials, timeout, heartbeat, resource: task.resource.clone(), notes })
}

/// What a resource's raw answer is to the state.
fn answer(resource: &Resource, output: &Value, mocked: bool) -> Value {
    if !mocked && resource.is_lambda_invoke() && resource.pattern() == Pattern::RequestResponse {
        return lambda_invoke_output(output);
    }
    output.clone()
}

/// The answer of `lambda:invoke`: the function's payload among what an SDK tells. One that has this shape already (a
/// recorded or mocked answer) stays as it is.
pub fn lambda_invoke_output(payload: &Value) -> Value {
    if payload.get("StatusCode").is_some() && payload.get("Payload").is_some() {
        return payload.clone();
    }
    json!({
        "ExecutedVersion": "$LATEST",
        "Payload": payload,
        "SdkHttpMetadata": {
            "AllHttpHeaders": {},
            "HttpHeaders": {},
            "HttpStatusCode": 200,
        },
        "SdkResponseMetadata": {"RequestId": ""},
        "StatusCode": 200,
    })
}

fn name_resource(details: &mut Map<String, Value>, resource: &Resource) {
    if let Integration::Service { service, action, pattern } = &resource.integration {
        let suffix = match pattern {
            Pattern::RequestResponse => "",
            Pattern::Sync { decoded: false } => ".sync",
            Pattern::Sync { decoded: true } => ".sync:2",
            Pattern::WaitForTaskToken => ".waitForTaskToken",
        };
        details.insert("resourceType".into(), service.clone().into());
        details.insert("resource".into(), format!("{action}{suffix}").into());
    } else {
        details.insert("resource".into(), resource.text.clone().into());
    }
}

fn number(details: &mut Map<String, Value>, key: &str, value: Option<i64>) {
    if let Some(value) = value {
        details.insert(key.into(), value.into());
    }
}

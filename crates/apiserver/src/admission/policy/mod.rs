//! Admission policies: expressions about writes, which change or refuse them without asking anyone.
//!
//! Mutating ones run after every built-in rule and before webhooks, validating ones before validating webhooks. They
//! never apply to policies, bindings and webhook configurations. Where no policy is bound, nothing happens.

mod definition;
mod invocation;
mod metrics;
mod mutating;
mod params;
mod set;
mod validating;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use async_trait::async_trait;
use minik8s_store::Store;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

pub use metrics::PolicyMetrics;

use self::invocation::{Invocation, Misconfigured, meet};
use self::metrics::Action;
use self::mutating::{Input, MutatingPolicy};
use self::set::{Policy, Set};
use self::validating::{Failure, Judgement, ValidatingPolicy};
use super::variables::Variables;
use super::{Admission, Operation, Request};
use crate::authorizer::Authorizer;
use crate::error::{ApiError, Result};
use crate::registry::Registry;

/// No more of the failures of one request are told in the audit log.
const MOST_AUDITED: usize = 50;

/// The policies of the cluster with their bindings.
#[derive(Default)]
pub struct PolicySets {
    validating: Set<ValidatingPolicy>,
    mutating: Set<MutatingPolicy>,
}

impl PolicySets {
    /// Reads all of them, so that the first write is judged rightly.
    pub async fn load(&self, store: &dyn Store) -> Result<()> {
        self.validating.load(store).await?;
        self.mutating.load(store).await
    }

    /// Follows them until `stop`.
    pub async fn run(self: Arc<Self>, store: Arc<dyn Store>, stop: CancellationToken) {
        tokio::select! {
            () = self.validating.follow(&*store) => {}
            () = self.mutating.follow(&*store) => {}
            () = stop.cancelled() => {}
        }
    }
}

/// The policies and how they are evaluated.
pub struct Policies {
    pub sets: Arc<PolicySets>,
    pub metrics: PolicyMetrics,
    /// Answers what expressions ask about the user's rights.
    pub authorizer: Arc<Authorizer>,
}

/// What the mutating policies did: those that ran, each with the object as it left it.
#[derive(Default)]
pub struct Mutation {
    ran: Vec<(Invocation<MutatingPolicy>, Value)>,
    namespace: Value,
    pub is_changed: bool,
}

impl Policies {
    pub fn is_empty(&self) -> bool {
        self.sets.validating.is_empty() && self.sets.mutating.is_empty()
    }

    /// Evaluates the validating ones. All of them are, and warn, before the first refusal counts.
    pub async fn validate(&self, registry: &Registry, request: &Request<'_>) -> Result<()> {
        let bound = self.sets.validating.bound();
        let Some(met) = meet(&bound, registry, request).await? else { return Ok(()) };
        let mut refusals: Vec<Refusal> = Vec::new();
        let (mut audited, mut annotations) = (Vec::new(), Annotations::default());
        for Misconfigured { policy, binding, why } in met.misconfigured {
            let definition = policy.definition();
            if !definition.is_ignored_when_failing {
                let failure = Failure { index: None, message: why, reason: "Invalid" };
                refusals.push(Refusal::new(&definition.name, &binding.name, failure));
            }
        }
        for invocation in &met.invocations {
            let begun = Instant::now();
            let question = invocation.subject.question(registry, "", request).await?;
            let variables = Variables::new(&question, request.call, &self.authorizer);
            let judgement = invocation.policy.judge(&variables, invocation.param.as_ref(), &met.namespace);
            let (names, actions) = (Names::of(invocation), self.act(invocation, judgement, request));
            self.metrics.observe(names.policy, names.binding, actions.strongest, begun.elapsed());
            refusals.extend(actions.refusals);
            audited.extend(actions.audited);
            actions.annotations.into_iter().for_each(|(key, value)| annotations.add(key, value));
        }
        for (key, values) in annotations.0 {
            request.call.audit(request.name(), &key, values.join(", "));
        }
        if !audited.is_empty() {
            audited.truncate(MOST_AUDITED);
            let failures = Value::from(audited).to_string();
            let key = "validation.policy.admission.k8s.io/validation_failure";
            request.call.audit(request.name(), key, failures);
        }
        match refusals.into_iter().next() {
            Some(refusal) => Err(refusal.into_error(request)),
            None => Ok(()),
        }
    }

    /// What the binding wants done about what the policy said.
    fn act(
        &self,
        invocation: &Invocation<ValidatingPolicy>,
        judgement: Judgement,
        request: &Request<'_>,
    ) -> Actions {
        let Names { policy, binding } = Names::of(invocation);
        let mut actions = Actions::default();
        for failure in judgement.failures {
            for action in &invocation.binding.actions {
                match action.as_str() {
                    "Deny" => actions.refusals.push(Refusal::new(policy, binding, failure.clone())),
                    "Warn" => request.call.warn(format!(
                        "Validation failed for ValidatingAdmissionPolicy '{policy}' with binding '{binding}': {}",
                        failure.message
                    )),
                    _ => actions.audited.push(json!({
                        "message": failure.message, "policy": policy, "binding": binding,
                        "expressionIndex": failure.index.unwrap_or_default(),
                        "validationActions": invocation.binding.actions,
                    })),
                }
                actions.strongest = actions.strongest.max(Action::of(action));
            }
        }
        for why in judgement.broken_annotations {
            let failure = Failure { index: None, message: why, reason: "Invalid" };
            actions.refusals.push(Refusal::new(policy, binding, failure));
            actions.strongest = Action::Deny;
        }
        for (key, value) in judgement.annotations {
            actions.annotations.push((format!("{policy}/{key}"), value));
        }
        actions
    }

    /// Lets the mutating ones change the object, one after the other.
    pub async fn mutate(&self, registry: &Registry, request: &mut Request<'_>) -> Result<Mutation> {
        let bound = self.sets.mutating.bound();
        if bound.is_empty() || !is_mutable(request) {
            return Ok(Mutation::default());
        }
        let Some(met) = meet(&bound, registry, request).await? else { return Ok(Mutation::default()) };
        let mut refusals = Refusals::default();
        for Misconfigured { policy, binding, why } in met.misconfigured {
            refusals.add(policy.definition(), &binding.name, "Forbidden", why);
        }
        let before = request.object.clone();
        let mut ran = Vec::new();
        for invocation in met.invocations {
            if self.invoke(&invocation, &met.namespace, registry, request, &mut refusals).await? {
                ran.push((invocation, request.object.clone()));
            }
        }
        refusals.finish(request)?;
        Ok(Mutation { ran, namespace: met.namespace, is_changed: before != *request.object })
    }

    /// Runs those once more that want it, if the object is no longer as they left it.
    pub async fn mutate_again(
        &self,
        mutation: Mutation,
        registry: &Registry,
        request: &mut Request<'_>,
    ) -> Result<()> {
        let mut refusals = Refusals::default();
        for (invocation, left) in mutation.ran {
            if invocation.policy.is_reinvoked && *request.object != left {
                self.invoke(&invocation, &mutation.namespace, registry, request, &mut refusals).await?;
            }
        }
        refusals.finish(request)
    }

    /// True if its conditions hold.
    async fn invoke(
        &self,
        invocation: &Invocation<MutatingPolicy>,
        namespace: &Value,
        registry: &Registry,
        request: &mut Request<'_>,
        refusals: &mut Refusals,
    ) -> Result<bool> {
        let Invocation { policy, binding, subject, param } = invocation;
        let begun = Instant::now();
        let (definition, call) = (policy.definition(), request.call);
        let question = subject.question(registry, "", request).await?;
        let (null, schema) = (Value::Null, subject.served(request).schema().clone());
        let param = param.as_ref().unwrap_or(&null);
        let mut object = question["object"].clone();
        // What expressions see is made for each of them: it does not outlive a conversion.
        let concerned = {
            let variables = Variables::new(&question, call, &self.authorizer);
            policy.concerns(&Input { variables: &variables, object: &object, param, namespace })
        };
        match concerned {
            Ok(true) => {}
            Ok(false) => return Ok(false),
            Err(why) => {
                refusals.add(definition, &binding.name, "Invalid", why);
                return Ok(false);
            }
        }
        for mutation in &policy.mutations {
            let changed = {
                let variables = Variables::new(&question, call, &self.authorizer);
                let input = Input { variables: &variables, object: &object, param, namespace };
                policy.mutate(mutation, &input, &schema)
            };
            match changed {
                Ok(Some(changed)) => {
                    let replaced = subject.replace(registry, request, changed).await;
                    object = replaced.map_err(|why| {
                        let name = &definition.name;
                        ApiError::internal(format_args!("policy '{name}': its patch failed: {why}"))
                    })?;
                }
                Ok(None) => {}
                Err(why) => refusals.add(definition, &binding.name, "Invalid", why),
            }
        }
        self.metrics.observe_mutation(&definition.name, &binding.name, begun.elapsed());
        Ok(true)
    }
}

/// Only what is stored itself can be changed.
fn is_mutable(request: &Request<'_>) -> bool {
    matches!(request.operation, Operation::Create | Operation::Update) && request.is_about_itself()
}

struct Names<'a> {
    policy: &'a str,
    binding: &'a str,
}

impl<'a> Names<'a> {
    fn of<P: Policy>(invocation: &'a Invocation<P>) -> Self {
        Names { policy: &invocation.policy.definition().name, binding: &invocation.binding.name }
    }
}

#[derive(Default)]
struct Actions {
    refusals: Vec<Refusal>,
    audited: Vec<Value>,
    annotations: Vec<(String, String)>,
    strongest: Action,
}

/// For the audit log: a policy that is evaluated for several bindings and parameters may say several things.
#[derive(Default)]
struct Annotations(BTreeMap<String, Vec<String>>);

impl Annotations {
    fn add(&mut self, key: String, value: String) {
        let values = self.0.entry(key).or_default();
        if !values.contains(&value) {
            values.push(value);
        }
    }
}

/// Why a validating policy refuses a request.
struct Refusal {
    message: String,
    reason: &'static str,
}

impl Refusal {
    fn new(policy: &str, binding: &str, failure: Failure) -> Self {
        let Failure { message, reason, .. } = failure;
        let message = format!(
            "ValidatingAdmissionPolicy '{policy}' with binding '{binding}' denied request: {message}"
        );
        Refusal { message, reason }
    }

    fn into_error(self, request: &Request<'_>) -> ApiError {
        let resource = request.call.served.resource();
        let mut error = ApiError::forbidden(Some(resource), request.name(), &self.message);
        (error.code, error.reason) = match self.reason {
            "Unauthorized" => (401, self.reason),
            "Forbidden" => (403, self.reason),
            "RequestEntityTooLarge" => (413, self.reason),
            _ => (422, "Invalid"),
        };
        error.caused_by("", &self.message, "")
    }
}

/// Why mutating policies refuse a request: the first says it, all are causes.
#[derive(Default)]
struct Refusals(Vec<(&'static str, String)>);

impl Refusals {
    fn add(&mut self, policy: &definition::Definition, binding: &str, reason: &'static str, why: String) {
        if policy.is_ignored_when_failing {
            tracing::debug!(policy = policy.name, binding, why, "failing open");
            return;
        }
        let message = format!("policy '{}' with binding '{binding}' denied request: {why}", policy.name);
        self.0.push((reason, message));
    }

    fn finish(self, request: &Request<'_>) -> Result<()> {
        let Some((reason, message)) = self.0.first() else { return Ok(()) };
        let served = &request.call.served;
        let error = ApiError::new(403, reason, message).about(&served.group, &served.plural, request.name());
        Err(self.0.iter().fold(error, |error, (_, message)| error.caused_by("", message, "")))
    }
}

#[async_trait]
impl Admission for Arc<Policies> {
    async fn review(&self, registry: &Registry, request: &mut Request<'_>) -> Result<()> {
        self.validate(registry, request).await
    }
}

//! What a claim asks for, with its classes looked up and its selectors compiled.

use std::collections::HashMap;
use std::sync::Arc;

use k8s_openapi::api::resource::v1::{
    CapacityRequirements, DeviceClass, DeviceRequest, DeviceSelector as ApiSelector, DeviceToleration,
    ResourceClaim,
};
use minik8s_cel::device::DeviceSelector;
use minik8s_meta::Quantity;

use super::constraint::Constraint;
use super::pool::Device;
use super::usage::Capacity;

/// One claim that has nothing yet.
#[derive(Debug)]
pub struct Wanted {
    pub claim: Arc<ResourceClaim>,
    pub requests: Vec<Request>,
    pub constraints: Vec<Constraint>,
}

/// Of its alternatives the first that can be had is taken.
#[derive(Debug)]
pub struct Request {
    pub alternatives: Vec<Alternative>,
}

#[derive(Debug)]
pub struct Alternative {
    /// `REQUEST`, or `REQUEST/ALTERNATIVE`.
    pub name: String,
    pub class: Arc<DeviceClass>,
    selectors: Vec<DeviceSelector>,
    pub mode: Mode,
    pub admin: bool,
    pub tolerations: Vec<DeviceToleration>,
    pub capacity: Capacity,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    Exactly(usize),
    All,
}

/// What both forms of a request have.
struct Form<'a> {
    class: &'a str,
    selectors: Option<&'a Vec<ApiSelector>>,
    mode: Option<&'a str>,
    count: Option<i64>,
    admin: bool,
    tolerations: Option<&'a Vec<DeviceToleration>>,
    capacity: Option<&'a CapacityRequirements>,
}

type Classes = HashMap<String, Arc<DeviceClass>>;

impl Wanted {
    /// Else why nobody can give it.
    pub fn new(claim: Arc<ResourceClaim>, classes: &Classes) -> Result<Self, String> {
        let name = claim.metadata.name.as_deref().unwrap_or("");
        let devices = || claim.spec.iter().flat_map(|spec| spec.devices.iter());
        let requests = devices().flat_map(|devices| devices.requests.iter().flatten());
        let requests: Result<Vec<Request>, String> = requests
            .map(|request| {
                compile(request, classes).map_err(|why| format!("resourceclaim \"{name}\": {why}"))
            })
            .collect();
        let constraints = devices().flat_map(|devices| devices.constraints.iter().flatten());
        let constraints = constraints.map(Constraint::new).collect();
        Ok(Wanted { requests: requests?, constraints, claim })
    }

    pub fn name(&self) -> &str {
        self.claim.metadata.name.as_deref().unwrap_or("")
    }
}

fn compile(request: &DeviceRequest, classes: &Classes) -> Result<Request, String> {
    let name = &request.name;
    let mut alternatives = Vec::new();
    if let Some(exactly) = &request.exactly {
        let form = Form {
            class: &exactly.device_class_name,
            selectors: exactly.selectors.as_ref(),
            mode: exactly.allocation_mode.as_deref(),
            count: exactly.count,
            admin: exactly.admin_access == Some(true),
            tolerations: exactly.tolerations.as_ref(),
            capacity: exactly.capacity.as_ref(),
        };
        alternatives.push(alternative(name.clone(), &form, classes)?);
    }
    for one in request.first_available.iter().flatten() {
        let form = Form {
            class: &one.device_class_name,
            selectors: one.selectors.as_ref(),
            mode: one.allocation_mode.as_deref(),
            count: one.count,
            admin: false,
            tolerations: one.tolerations.as_ref(),
            capacity: one.capacity.as_ref(),
        };
        alternatives.push(alternative(format!("{name}/{}", one.name), &form, classes)?);
    }
    match alternatives.is_empty() {
        true => Err(format!("request {name}: it is of a form that this scheduler does not know")),
        false => Ok(Request { alternatives }),
    }
}

fn alternative(name: String, form: &Form<'_>, classes: &Classes) -> Result<Alternative, String> {
    let class = classes.get(form.class);
    let class = class.ok_or_else(|| format!("request {name}: device class {} does not exist", form.class))?;
    let mode = match form.mode {
        None | Some("ExactCount") => Mode::Exactly(usize::try_from(form.count.unwrap_or(1)).unwrap_or(1)),
        Some("All") => Mode::All,
        Some(other) => return Err(format!("request {name}: unsupported allocation mode {other:?}")),
    };
    let of_class = class.spec.iter().flat_map(|spec| spec.selectors.iter().flatten());
    let expressions = of_class.chain(form.selectors.into_iter().flatten());
    let selectors: Result<Vec<DeviceSelector>, String> = expressions
        .map(|selector| {
            let expression = selector.cel.as_ref().map_or("false", |cel| cel.expression.as_str());
            DeviceSelector::compile(expression)
                .map_err(|why| format!("request {name}: selector {expression:?}: {why}"))
        })
        .collect();
    let asked = form.capacity.and_then(|capacity| capacity.requests.as_ref()).into_iter().flatten();
    Ok(Alternative {
        selectors: selectors?,
        class: class.clone(),
        mode,
        admin: form.admin,
        tolerations: form.tolerations.cloned().unwrap_or_default(),
        capacity: asked
            .filter_map(|(name, amount)| Some((name.clone(), Quantity::try_from(amount).ok()?)))
            .collect(),
        name,
    })
}

impl Alternative {
    pub fn class_name(&self) -> &str {
        self.class.metadata.name.as_deref().unwrap_or("")
    }

    /// Whether a device is of the kind that is asked for.
    pub fn matches(&self, device: &Device) -> Result<bool, String> {
        for selector in &self.selectors {
            if !selector.matches(&device.facts)? {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

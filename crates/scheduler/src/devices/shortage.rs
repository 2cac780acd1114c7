//! Why a node cannot give a claim its devices: in one line for events, and with what would help for `why`.

use std::fmt;

use super::request::Mode;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shortage {
    pub claim: String,
    pub request: String,
    pub class: String,
    pub wanted: Mode,
    /// How many devices the node can use, of all drivers.
    pub here: usize,
    /// How many of those are of the kind that is asked for.
    pub matching: usize,
    /// How many of those nobody has.
    pub free: usize,
    /// What else is in the way.
    pub cause: Option<Cause>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Cause {
    /// A selector came to no answer for a device.
    Selector { device: String, problem: String },
    /// A driver is just publishing.
    Incomplete(String),
    /// `KEY=VALUE:EFFECT`.
    Tainted(String),
    /// More ways to choose than can be tried.
    TooManyWays,
    /// There are enough, but not together with what the rest asks for.
    Together,
}

impl Mode {
    fn fits(self, count: usize) -> bool {
        match self {
            Mode::Exactly(wanted) => count >= wanted,
            Mode::All => count > 0,
        }
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Mode::Exactly(1) => f.write_str("a device"),
            Mode::Exactly(count) => write!(f, "{count} devices"),
            Mode::All => f.write_str("all devices"),
        }
    }
}

impl fmt::Display for Shortage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Shortage { claim, request, class, wanted, here, matching, free, cause } = self;
        write!(
            f,
            "cannot allocate all claims: request {request} of {claim} wants {wanted} of class {class}: "
        )?;
        match cause {
            Some(Cause::Selector { device, problem }) => {
                write!(f, "a selector has no answer for {device}: {problem}")
            }
            Some(Cause::Incomplete(driver)) => write!(f, "the devices of {driver} are not all published yet"),
            Some(Cause::TooManyWays) => {
                write!(f, "there are too many ways to choose among {matching} devices")
            }
            _ if *here == 0 => f.write_str("the node has no devices"),
            _ if *matching == 0 => write!(f, "none of the {here} devices here matches"),
            Some(Cause::Tainted(taint)) => {
                write!(f, "{matching} match, {free} free, untolerated taint {{{taint}}}")
            }
            Some(Cause::Together) => {
                write!(
                    f,
                    "{free} of {matching} that match are free, but constraints, counters or capacity leave no way"
                )
            }
            None => write!(f, "{free} of {matching} that match are free"),
        }
    }
}

impl Shortage {
    /// The smallest change that would help.
    pub fn remedy(&self) -> String {
        let Shortage { request, class, wanted, here, matching, cause, .. } = self;
        match cause {
            Some(Cause::Selector { .. }) => format!(
                "guard the selector of request {request}, e.g. \"NAME\" in device.attributes[\"DOMAIN\"] && ..."
            ),
            Some(Cause::Incomplete(driver)) => {
                format!("wait for {driver} to publish all of its ResourceSlices")
            }
            Some(Cause::Tainted(taint)) => format!("add a toleration of {taint} to request {request}"),
            Some(Cause::TooManyWays) => format!("make the selectors of request {request} narrower"),
            _ if *here == 0 => "run a DRA driver on this node that publishes ResourceSlices".to_owned(),
            _ if !wanted.fits(*matching) => format!(
                "ask for at most {matching} in request {request}, or loosen its selectors and those of class {class}"
            ),
            Some(Cause::Together) => "loosen the constraints, or ask for fewer devices".to_owned(),
            None => format!("wait for another claim to give devices of class {class} back, or ask for fewer"),
        }
    }
}

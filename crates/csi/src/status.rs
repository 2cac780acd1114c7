//! Why a call failed.

use thiserror::Error;

/// gRPC's codes, of which CSI gives some a meaning of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Code(pub u32);

impl Code {
    pub const OK: Code = Code(0);
    pub const UNKNOWN: Code = Code(2);
    pub const INVALID_ARGUMENT: Code = Code(3);
    pub const NOT_FOUND: Code = Code(5);
    pub const ALREADY_EXISTS: Code = Code(6);
    pub const RESOURCE_EXHAUSTED: Code = Code(8);
    pub const FAILED_PRECONDITION: Code = Code(9);
    pub const ABORTED: Code = Code(10);
    pub const UNIMPLEMENTED: Code = Code(12);
    pub const INTERNAL: Code = Code(13);
    pub const UNAVAILABLE: Code = Code(14);

    /// As people and logs know it.
    pub fn name(self) -> &'static str {
        const NAMES: [&str; 17] = [
            "OK",
            "Canceled",
            "Unknown",
            "InvalidArgument",
            "DeadlineExceeded",
            "NotFound",
            "AlreadyExists",
            "PermissionDenied",
            "ResourceExhausted",
            "FailedPrecondition",
            "Aborted",
            "OutOfRange",
            "Unimplemented",
            "Internal",
            "Unavailable",
            "DataLoss",
            "Unauthenticated",
        ];
        NAMES.get(self.0 as usize).copied().unwrap_or("Unknown")
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum CallError {
    /// The driver said no.
    #[error("{method}: rpc error: code = {} desc = {message}", code.name())]
    Refused { method: String, code: Code, message: String },
    /// It did not say anything: nobody knows whether it did it.
    #[error("{method}: cannot reach the driver: {message}")]
    Unreachable { method: String, message: String },
    #[error("{method}: the driver's answer is not understood: {message}")]
    Answer { method: String, message: String },
}

impl CallError {
    pub fn code(&self) -> Option<Code> {
        match self {
            CallError::Refused { code, .. } => Some(*code),
            _ => None,
        }
    }
}

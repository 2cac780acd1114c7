//! Why a request of the distribution protocol is not done: the protocol's codes, each with its HTTP status.

use http::StatusCode;
use thiserror::Error;

pub type Result<T, E = RegistryError> = std::result::Result<T, E>;

#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{message}")]
pub struct RegistryError {
    pub code: ErrorCode,
    pub message: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorCode {
    BlobUnknown,
    UploadInvalid,
    UploadUnknown,
    /// A chunk that does not begin where the last one ended.
    RangeInvalid,
    DigestInvalid,
    ManifestInvalid,
    ManifestBlobUnknown,
    ManifestUnknown,
    NameInvalid,
    NameUnknown,
    SizeInvalid,
    Unauthorized,
    Denied,
    Unsupported,
    TooManyRequests,
    /// No room on the disk, or no disk.
    Unavailable,
}

impl ErrorCode {
    pub fn name(self) -> &'static str {
        match self {
            ErrorCode::BlobUnknown => "BLOB_UNKNOWN",
            ErrorCode::UploadInvalid | ErrorCode::RangeInvalid => "BLOB_UPLOAD_INVALID",
            ErrorCode::UploadUnknown => "BLOB_UPLOAD_UNKNOWN",
            ErrorCode::DigestInvalid => "DIGEST_INVALID",
            ErrorCode::ManifestInvalid => "MANIFEST_INVALID",
            ErrorCode::ManifestBlobUnknown => "MANIFEST_BLOB_UNKNOWN",
            ErrorCode::ManifestUnknown => "MANIFEST_UNKNOWN",
            ErrorCode::NameInvalid => "NAME_INVALID",
            ErrorCode::NameUnknown => "NAME_UNKNOWN",
            ErrorCode::SizeInvalid => "SIZE_INVALID",
            ErrorCode::Unauthorized => "UNAUTHORIZED",
            ErrorCode::Denied => "DENIED",
            ErrorCode::Unsupported => "UNSUPPORTED",
            ErrorCode::TooManyRequests => "TOOMANYREQUESTS",
            ErrorCode::Unavailable => "UNAVAILABLE",
        }
    }

    pub fn status(self) -> StatusCode {
        match self {
            ErrorCode::BlobUnknown
            | ErrorCode::UploadUnknown
            | ErrorCode::ManifestUnknown
            | ErrorCode::NameUnknown => StatusCode::NOT_FOUND,
            ErrorCode::RangeInvalid => StatusCode::RANGE_NOT_SATISFIABLE,
            ErrorCode::SizeInvalid => StatusCode::PAYLOAD_TOO_LARGE,
            ErrorCode::Unauthorized => StatusCode::UNAUTHORIZED,
            ErrorCode::Denied => StatusCode::FORBIDDEN,
            ErrorCode::Unsupported => StatusCode::METHOD_NOT_ALLOWED,
            ErrorCode::TooManyRequests => StatusCode::TOO_MANY_REQUESTS,
            ErrorCode::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
            _ => StatusCode::BAD_REQUEST,
        }
    }
}

impl RegistryError {
    pub fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        RegistryError { code, message: message.into() }
    }
}

/// What the disk refuses. The path is for the log: clients need not know it.
impl From<std::io::Error> for RegistryError {
    fn from(error: std::io::Error) -> Self {
        tracing::warn!(%error, "the registry's files");
        RegistryError::new(
            ErrorCode::Unavailable,
            format!("the server cannot use its files: {}", error.kind()),
        )
    }
}

//! What services answer, as far as mocked results are held against it. Services that are not listed answer anything.

use serde_json::Value;

use crate::definition::{Integration, Resource};

/// The shape of an answer, or of a part of it.
enum Shape {
    Any,
    Text,
    /// At least so many characters.
    Blob(usize),
    Number,
    Between(f64, f64),
    Boolean,
    OneOf(&'static [&'static str]),
    List(&'static Shape),
    Structure(&'static [Field]),
}

struct Field {
    name: &'static str,
    shape: Shape,
    required: bool,
}

const fn field(name: &'static str, shape: Shape) -> Field {
    Field { name, shape, required: false }
}

const fn required(name: &'static str, shape: Shape) -> Field {
    Field { name, shape, required: true }
}

const LAMBDA_INVOKE: &[Field] = &[
    field("StatusCode", Shape::Number),
    field("FunctionError", Shape::Text),
    field("LogResult", Shape::Text),
    field("Payload", Shape::Any),
    field("ExecutedVersion", Shape::Text),
];
const LAMBDA_GET_FUNCTION: &[Field] = &[
    field(
        "Configuration",
        Shape::Structure(&[
            field("FunctionName", Shape::Text),
            field("FunctionArn", Shape::Text),
            field("Runtime", Shape::Text),
            field("Role", Shape::Text),
            field("Handler", Shape::Text),
            field("Description", Shape::Text),
            field("CodeSize", Shape::Number),
            field("Timeout", Shape::Between(1.0, f64::MAX)),
            field("MemorySize", Shape::Between(128.0, 10240.0)),
            field("LastModified", Shape::Text),
            field("Version", Shape::Text),
            field("State", Shape::OneOf(&["Pending", "Active", "Inactive", "Failed"])),
        ]),
    ),
    field("Code", Shape::Structure(&[field("RepositoryType", Shape::Text), field("Location", Shape::Text)])),
];
const START_EXECUTION: &[Field] =
    &[required("ExecutionArn", Shape::Text), required("StartDate", Shape::Text)];
const PUT_EVENTS: &[Field] = &[
    field("FailedEntryCount", Shape::Number),
    field(
        "Entries",
        Shape::List(&Shape::Structure(&[
            field("EventId", Shape::Text),
            field("ErrorCode", Shape::Text),
            field("ErrorMessage", Shape::Text),
        ])),
    ),
];
const DYNAMODB_ITEM: &[Field] = &[
    field(
        "ConsumedCapacity",
        Shape::Structure(&[
            field("TableName", Shape::Text),
            field("CapacityUnits", Shape::Number),
            field("ReadCapacityUnits", Shape::Number),
            field("WriteCapacityUnits", Shape::Number),
        ]),
    ),
    field("Attributes", Shape::Structure(&[])),
    field("ItemCollectionMetrics", Shape::Structure(&[])),
];
const S3_GET_OBJECT: &[Field] = &[
    field("ContentLength", Shape::Number),
    field("ContentType", Shape::Text),
    field("ETag", Shape::Text),
    field("LastModified", Shape::Text),
    field("DeleteMarker", Shape::Boolean),
    field("PartsCount", Shape::Number),
    field("TagCount", Shape::Number),
    field("Metadata", Shape::Structure(&[])),
    field(
        "StorageClass",
        Shape::OneOf(&[
            "STANDARD",
            "REDUCED_REDUNDANCY",
            "STANDARD_IA",
            "ONEZONE_IA",
            "INTELLIGENT_TIERING",
            "GLACIER",
            "DEEP_ARCHIVE",
            "OUTPOSTS",
            "GLACIER_IR",
            "SNOW",
            "EXPRESS_ONEZONE",
        ]),
    ),
];
const KMS_ENCRYPT: &[Field] = &[
    field("CiphertextBlob", Shape::Blob(1)),
    field("KeyId", Shape::Blob(1)),
    field(
        "EncryptionAlgorithm",
        Shape::OneOf(&["SYMMETRIC_DEFAULT", "RSAES_OAEP_SHA_1", "RSAES_OAEP_SHA_256", "SM2PKE"]),
    ),
];
const SQS_SEND_MESSAGE: &[Field] = &[
    field("MD5OfMessageBody", Shape::Text),
    field("MD5OfMessageAttributes", Shape::Text),
    field("MD5OfMessageSystemAttributes", Shape::Text),
    field("MessageId", Shape::Text),
    field("SequenceNumber", Shape::Text),
];

/// Checks a mocked answer; `strict` wants required fields.
pub(super) fn check(resource: &Resource, result: &Value, strict: bool) -> Result<(), String> {
    let Integration::Service { service, action, .. } = &resource.integration else { return Ok(()) };
    let name = match service.as_str() {
        "aws-sdk" => action.clone(),
        service => format!("{service}:{action}"),
    };
    let fields = match name.as_str() {
        "lambda:invoke" => LAMBDA_INVOKE,
        "lambda:getFunction" => LAMBDA_GET_FUNCTION,
        "states:startExecution" | "sfn:startExecution" => START_EXECUTION,
        "events:putEvents" | "eventbridge:putEvents" => PUT_EVENTS,
        "dynamodb:putItem" | "dynamodb:updateItem" | "dynamodb:deleteItem" | "dynamodb:getItem" => {
            DYNAMODB_ITEM
        }
        "s3:getObject" => S3_GET_OBJECT,
        "kms:encrypt" => KMS_ENCRYPT,
        "sqs:sendMessage" => SQS_SEND_MESSAGE,
        _ => return Ok(()),
    };
    structure(fields, result, strict, None)
}

fn structure(fields: &[Field], value: &Value, strict: bool, name: Option<&str>) -> Result<(), String> {
    let Value::Object(object) = value else {
        return Err(match name {
            Some(name) => format!("Field '{name}' must be an object"),
            None => "Mock result must be an object".into(),
        });
    };
    for field in fields {
        match object.get(field.name) {
            Some(value) => matches(&field.shape, value, strict, field.name)?,
            None if field.required && strict => {
                return Err(format!("Required field '{}' is missing", field.name));
            }
            None => {}
        }
    }
    Ok(())
}

fn matches(shape: &Shape, value: &Value, strict: bool, name: &str) -> Result<(), String> {
    let wants =
        |good: bool, what: &str| if good { Ok(()) } else { Err(format!("Field '{name}' must be {what}")) };
    match shape {
        Shape::Any => Ok(()),
        Shape::Text => wants(value.is_string(), "a string"),
        Shape::Blob(least) => {
            wants(value.is_string(), "a string")?;
            if value.as_str().is_some_and(|text| text.chars().count() < *least) {
                return Err(format!("Field '{name}' is smaller than the minimum length"));
            }
            Ok(())
        }
        Shape::Number => wants(value.is_number(), "a number"),
        Shape::Between(least, most) => {
            wants(value.is_number(), "a number")?;
            let number = value.as_f64().unwrap_or_default();
            if number < *least {
                return Err(format!("Field '{name}' is less than the minimum value"));
            }
            if number > *most {
                return Err(format!("Field '{name}' exceeds the maximum value"));
            }
            Ok(())
        }
        Shape::Boolean => wants(value.is_boolean(), "a boolean"),
        Shape::OneOf(known) => {
            wants(value.is_string(), "a string")?;
            if value.as_str().is_some_and(|text| known.contains(&text)) {
                return Ok(());
            }
            Err(format!("Field '{name}' is not an expected value"))
        }
        Shape::List(item) => {
            wants(value.is_array(), "an array")?;
            value.as_array().into_iter().flatten().try_for_each(|value| matches(item, value, strict, name))
        }
        Shape::Structure(fields) => structure(fields, value, strict, Some(name)),
    }
}

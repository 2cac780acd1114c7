//! The table cells that all workloads share: which containers, which images, which pods.

use jiff::Timestamp;
use serde_json::Value;

use crate::{Cell, Column};

use super::containers::{self, MAIN};
use crate::table;

/// Headings of [`wide_cells`].
pub(crate) fn wide_columns(names: &[&str]) -> impl Iterator<Item = Column> {
    names.iter().map(|name| Column::wide(name, "string"))
}

/// Names of the containers and their images, each joined by commas.
pub(crate) fn containers_and_images(spec: &Value) -> [Cell; 2] {
    ["name", "image"].map(|field| {
        let texts = containers::of(spec, MAIN).iter().map(|c| c[field].as_str().unwrap_or_default());
        texts.collect::<Vec<_>>().join(",").into()
    })
}

/// Containers, images and the selector of a workload.
pub(crate) fn wide_cells(spec: &Value) -> [Cell; 3] {
    let [names, images] = containers_and_images(&spec["template"]["spec"]);
    [names, images, table::selector(&spec["selector"]).into()]
}

/// A count in a status; 0 where the controller has not yet written one.
pub(crate) fn number(value: &Value) -> Cell {
    value.as_i64().unwrap_or(0).into()
}

/// Columns of ReplicaSet and ReplicationController.
pub(crate) fn replica_columns() -> Vec<Column> {
    let numbers = ["Desired", "Current", "Ready"].map(|name| Column::new(name, "integer"));
    let mut columns = vec![Column::new("Name", "string")];
    columns.extend(numbers);
    columns.push(Column::new("Age", "string"));
    columns.extend(wide_columns(&["Containers", "Images", "Selector"]));
    columns
}

/// Cells of ReplicaSet and ReplicationController.
pub(crate) fn replica_cells(object: &Value, selector: String, now: Timestamp) -> Vec<Cell> {
    let [names, images] = containers_and_images(&object["spec"]["template"]["spec"]);
    vec![
        table::name(object),
        number(&object["spec"]["replicas"]),
        number(&object["status"]["replicas"]),
        number(&object["status"]["readyReplicas"]),
        table::age(object, now),
        names,
        images,
        selector.into(),
    ]
}

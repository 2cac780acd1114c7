//! CronJob: starts Jobs by the clock.

mod validation;

use jiff::Timestamp;
use k8s_openapi::api::batch::v1::CronJob;
use serde_json::Value;

use crate::At;
use crate::batch::job;
use crate::pod_spec::{cells, template, warnings};
use crate::{Cell, Column, FieldErrors, Resource, Strategy};
use crate::{fill, table};

pub(crate) fn resource() -> Resource {
    Resource::of::<CronJob>(CronJobs).short(&["cj"]).in_all().counted().status()
}

struct CronJobs;

impl Strategy for CronJobs {
    fn default(&self, object: &mut Value) {
        let Some(spec) = object.get_mut("spec").filter(|spec| spec.is_object()) else { return };
        fill::field(spec, "concurrencyPolicy", "Allow");
        fill::field(spec, "suspend", false);
        fill::field(spec, "successfulJobsHistoryLimit", 3);
        fill::field(spec, "failedJobsHistoryLimit", 1);
        if let Some(job_template) = spec.get_mut("jobTemplate") {
            template::drop_creation_time(job_template);
            if let Some(spec) = job_template.get_mut("spec").filter(|spec| spec.is_object()) {
                job::fill_in_nested(spec);
            }
        }
    }

    fn validate(&self, object: &Value, errors: &mut FieldErrors) {
        validation::validate(object, errors);
    }

    fn warnings(&self, object: &Value) -> Vec<String> {
        let object = At::root(object);
        let job = object.field("spec").field("jobTemplate").field("spec");
        let mut all = warnings::name(&object, "Pod names and hostnames");
        all.extend(warnings::of(&job.field("template")));
        all
    }

    fn columns(&self) -> Option<Vec<Column>> {
        let mut columns = table::texts_and_wide(
            &["Name", "Schedule", "Timezone", "Suspend", "Active", "Last Schedule", "Age"],
            &["Containers", "Images", "Selector"],
        );
        columns[4].ty = "integer".to_owned();
        Some(columns)
    }

    fn row(&self, object: &Value, now: Timestamp) -> Vec<Cell> {
        let (spec, status) = (&object["spec"], &object["status"]);
        let suspend = match spec["suspend"].as_bool() {
            Some(true) => "True",
            Some(false) => "False",
            None => table::UNSET,
        };
        let last = match &status["lastScheduleTime"] {
            Value::Null => table::NONE.to_owned(),
            time => table::since(time, now),
        };
        let mut row = vec![
            table::name(object),
            spec["schedule"].clone(),
            table::text_or(&spec["timeZone"], table::NONE).into(),
            suspend.into(),
            table::count(&status["active"]).into(),
            last.into(),
            table::age(object, now),
        ];
        row.extend(cells::wide_cells(&spec["jobTemplate"]["spec"]));
        row
    }
}

//! Functions of PromQL: what they take and give. Those of Prometheus 2.42 to 3, and none of an engine alone.

use super::ValueType::{self, Matrix, Scalar, String, Vector};

/// What a call must look like.
pub struct Signature {
    pub name: &'static str,
    pub takes: &'static [ValueType],
    /// So many of the last ones may be left out; -1: the last may be repeated.
    pub optional: i8,
    pub gives: ValueType,
}

const fn of(name: &'static str, takes: &'static [ValueType], optional: i8, gives: ValueType) -> Signature {
    Signature { name, takes, optional, gives }
}

pub fn find(name: &str) -> Option<&'static Signature> {
    ALL.iter().find(|known| known.name == name)
}

const V: &[ValueType] = &[Vector];
const M: &[ValueType] = &[Matrix];

const ALL: &[Signature] = &[
    of("abs", V, 0, Vector),
    of("absent", V, 0, Vector),
    of("absent_over_time", M, 0, Vector),
    of("acos", V, 0, Vector),
    of("acosh", V, 0, Vector),
    of("asin", V, 0, Vector),
    of("asinh", V, 0, Vector),
    of("atan", V, 0, Vector),
    of("atanh", V, 0, Vector),
    of("avg_over_time", M, 0, Vector),
    of("ceil", V, 0, Vector),
    of("changes", M, 0, Vector),
    of("clamp", &[Vector, Scalar, Scalar], 0, Vector),
    of("clamp_max", &[Vector, Scalar], 0, Vector),
    of("clamp_min", &[Vector, Scalar], 0, Vector),
    of("cos", V, 0, Vector),
    of("cosh", V, 0, Vector),
    of("count_over_time", M, 0, Vector),
    of("day_of_month", V, 1, Vector),
    of("day_of_week", V, 1, Vector),
    of("day_of_year", V, 1, Vector),
    of("days_in_month", V, 1, Vector),
    of("deg", V, 0, Vector),
    of("delta", M, 0, Vector),
    of("deriv", M, 0, Vector),
    of("exp", V, 0, Vector),
    of("floor", V, 0, Vector),
    of("histogram_avg", V, 0, Vector),
    of("histogram_count", V, 0, Vector),
    of("histogram_fraction", &[Scalar, Scalar, Vector], 0, Vector),
    of("histogram_quantile", &[Scalar, Vector], 0, Vector),
    of("histogram_sum", V, 0, Vector),
    of("holt_winters", &[Matrix, Scalar, Scalar], 0, Vector),
    of("hour", V, 1, Vector),
    of("idelta", M, 0, Vector),
    of("increase", M, 0, Vector),
    of("irate", M, 0, Vector),
    of("label_join", &[Vector, String, String, String], -1, Vector),
    of("label_replace", &[Vector, String, String, String, String], 0, Vector),
    of("last_over_time", M, 0, Vector),
    of("ln", V, 0, Vector),
    of("log10", V, 0, Vector),
    of("log2", V, 0, Vector),
    of("max_over_time", M, 0, Vector),
    of("min_over_time", M, 0, Vector),
    of("minute", V, 1, Vector),
    of("month", V, 1, Vector),
    of("pi", &[], 0, Scalar),
    of("predict_linear", &[Matrix, Scalar], 0, Vector),
    of("present_over_time", M, 0, Vector),
    of("quantile_over_time", &[Scalar, Matrix], 0, Vector),
    of("rad", V, 0, Vector),
    of("rate", M, 0, Vector),
    of("resets", M, 0, Vector),
    of("round", &[Vector, Scalar], 1, Vector),
    of("scalar", V, 0, Scalar),
    of("sgn", V, 0, Vector),
    of("sin", V, 0, Vector),
    of("sinh", V, 0, Vector),
    of("sort", V, 0, Vector),
    of("sort_desc", V, 0, Vector),
    of("sqrt", V, 0, Vector),
    of("stddev_over_time", M, 0, Vector),
    of("stdvar_over_time", M, 0, Vector),
    of("sum_over_time", M, 0, Vector),
    of("tan", V, 0, Vector),
    of("tanh", V, 0, Vector),
    of("time", &[], 0, Scalar),
    of("timestamp", V, 0, Vector),
    of("vector", &[Scalar], 0, Vector),
    of("year", V, 1, Vector),
];

/// Aggregations, and whether they take a parameter first, and of which type.
pub const AGGREGATIONS: &[(&str, Option<ValueType>)] = &[
    ("sum", None),
    ("avg", None),
    ("count", None),
    ("min", None),
    ("max", None),
    ("group", None),
    ("stddev", None),
    ("stdvar", None),
    ("topk", Some(Scalar)),
    ("bottomk", Some(Scalar)),
    ("quantile", Some(Scalar)),
    ("count_values", Some(String)),
];

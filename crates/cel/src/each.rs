//! The loops that macros are, run. What a round costs is what upstream's expansion of the macro would.

use std::cmp::Ordering;
use std::sync::Arc;

use indexmap::IndexMap;

use crate::ast::Loop;
use crate::cost::{CREATE_LIST, self_compare};
use crate::equality::compare;
use crate::error::EvalError;
use crate::evaluate::{Evaluator, Local, insert};
use crate::library::Evaluated;
use crate::plan::{Each, Node};
use crate::value::{List, MadeMap, Map, Value};

/// What is gone through.
enum Range<'a> {
    List(List<'a>),
    Map(Map<'a>, Vec<Value<'a>>),
}

impl<'a> Range<'a> {
    fn of(value: Value<'a>) -> Result<Self, EvalError> {
        match value {
            Value::List(list) => Ok(Range::List(list)),
            Value::Map(map) => {
                let keys = map.keys();
                Ok(Range::Map(map, keys))
            }
            _ => Err(EvalError::no_such_overload()),
        }
    }

    fn len(&self) -> usize {
        match self {
            Range::List(list) => list.len(),
            Range::Map(_, keys) => keys.len(),
        }
    }

    /// The values of one variable or of two.
    fn variables(&self, at: usize, two: bool) -> (Value<'a>, Option<Value<'a>>) {
        match self {
            Range::List(list) => {
                let value = list.get(at).unwrap_or(Value::Null);
                if two { (Value::Int(at as i64), Some(value)) } else { (value, None) }
            }
            Range::Map(map, keys) => {
                let key = keys[at].clone();
                let value = two.then(|| map.get(&key).unwrap_or(Value::Null));
                (key, value)
            }
        }
    }
}

impl<'e, 'a> Evaluator<'e, 'a> {
    pub(crate) fn each(&mut self, each: &'e Each) -> Evaluated<'a> {
        let range = self.evaluate(&each.range)?;
        let source = if each.kind == Loop::SortBy { Some(range.clone()) } else { None };
        let range = Range::of(range)?;
        match each.kind {
            Loop::All => self.quantifier(each, &range, false),
            Loop::Exists => self.quantifier(each, &range, true),
            Loop::ExistsOne => self.exists_one(each, &range),
            Loop::Map | Loop::Filter => self.collect(each, &range).map(Value::list),
            Loop::TransformMap | Loop::TransformMapEntry => self.transform_map(each, &range),
            Loop::SortBy => {
                let keys = self.collect(each, &range)?;
                self.sort_by(source, keys)
            }
        }
    }

    fn enter(&mut self, each: &Each, range: &Range<'a>, at: usize) {
        let (first, second) = range.variables(at, each.two);
        self.set(each.slot, Local::Known(Ok(first)));
        if let Some(second) = second {
            self.set(each.slot + 1, Local::Known(Ok(second)));
        }
    }

    fn condition(&mut self, each: &'e Each) -> Result<bool, EvalError> {
        match &each.condition {
            None => Ok(true),
            Some(condition) => match self.evaluate(condition)? {
                Value::Bool(value) => Ok(value),
                _ => Err(EvalError::no_such_overload()),
            },
        }
    }

    /// `all` ends with the first false, `exists` with the first true; errors count only if neither comes.
    fn quantifier(&mut self, each: &'e Each, range: &Range<'a>, deciding: bool) -> Evaluated<'a> {
        let look = if deciding { 3 } else { 2 };
        let mut failed = None;
        let mut decided = false;
        for at in 0..range.len() {
            self.budget.charge(look)?;
            if decided {
                break;
            }
            self.budget.charge(1)?;
            self.enter(each, range, at);
            match self.condition(each) {
                Ok(value) => decided = value == deciding,
                Err(EvalError::CostLimit) => return Err(EvalError::CostLimit),
                Err(error) => failed = failed.or(Some(error)),
            }
        }
        self.budget.charge(1)?;
        match failed {
            Some(error) if !decided => Err(error),
            _ => Ok(Value::Bool(decided == deciding)),
        }
    }

    fn exists_one(&mut self, each: &'e Each, range: &Range<'a>) -> Evaluated<'a> {
        let mut count = 0_u64;
        for at in 0..range.len() {
            self.enter(each, range, at);
            if self.condition(each)? {
                self.budget.charge(2)?;
                count += 1;
            }
        }
        self.budget.charge(2)?;
        Ok(Value::Bool(count == 1))
    }

    fn collect(&mut self, each: &'e Each, range: &Range<'a>) -> Result<Vec<Value<'a>>, EvalError> {
        let mut found = Vec::new();
        for at in 0..range.len() {
            self.enter(each, range, at);
            if !self.condition(each)? {
                continue;
            }
            let is_constant = matches!(each.transform, Some(Node::Constant(_)));
            found.push(match &each.transform {
                Some(transform) => self.evaluate(transform)?,
                None => {
                    self.budget.charge(1)?;
                    range.variables(at, each.two).0
                }
            });
            self.budget.charge(2 + if is_constant { 0 } else { CREATE_LIST })?;
        }
        self.budget.charge(1)?;
        Ok(found)
    }

    fn transform_map(&mut self, each: &'e Each, range: &Range<'a>) -> Evaluated<'a> {
        let mut entries = IndexMap::new();
        let Some(transform) = &each.transform else { return Err(EvalError::no_such_overload()) };
        for at in 0..range.len() {
            self.enter(each, range, at);
            if !self.condition(each)? {
                continue;
            }
            let value = self.evaluate(transform)?;
            if each.kind == Loop::TransformMap {
                self.budget.charge(3)?;
                insert(&mut entries, range.variables(at, true).0, value)?;
                continue;
            }
            self.budget.charge(2)?;
            let Value::Map(made) = value else { return Err(EvalError::no_such_overload()) };
            for (key, value) in made.iter() {
                insert(&mut entries, key, value)?;
            }
        }
        self.budget.charge(1)?;
        Ok(Value::Map(Map::Made(Arc::new(MadeMap { entries, ..MadeMap::default() }))))
    }

    fn sort_by(&mut self, source: Option<Value<'a>>, keys: Vec<Value<'a>>) -> Evaluated<'a> {
        let Some(Value::List(list)) = source else { return Err(EvalError::no_such_overload()) };
        let keys = Value::list(keys);
        self.budget.charge(2 + self_compare(Some(&keys)))?;
        let Value::List(keys) = keys else { return Err(EvalError::no_such_overload()) };
        let mut pairs: Vec<(Value<'a>, Value<'a>)> = keys.iter().zip(list.iter()).collect();
        pairs.sort_by(|one, two| compare(&one.0, &two.0).unwrap_or(Ordering::Equal));
        Ok(Value::list(pairs.into_iter().map(|(_, value)| value).collect()))
    }
}

//! From the raw tree to the one that is evaluated: paths become lists of steps, parent operators find the step they
//! mean, and calls that are the last thing a function does are marked.

use std::sync::Arc;

use crate::ast::{Group, Kind, Node, Operator, Stage, Transform};
use crate::error::Error;

/// Parent slots while a tree is processed.
#[derive(Default)]
pub struct Processor {
    levels: Vec<i32>,
    /// The label of each slot; slots of one step share it.
    pub labels: Vec<usize>,
}

impl Processor {
    pub fn process(&mut self, node: Node) -> Result<Node, Error> {
        stacker::maybe_grow(128 * 1024, 1024 * 1024, || self.step(node))
    }

    fn step(&mut self, mut node: Node) -> Result<Node, Error> {
        let (position, keep_array) = (node.position, node.keep_array);
        if let Some(group) = node.group.take() {
            return self.group(node, *group, position, keep_array);
        }
        let mut result = match node.kind {
            Kind::Binary { operator: Operator::Dot, left, right } => self.path(*left, *right, position)?,
            Kind::Binary { operator: Operator::Filter, left, right } => self.filter(*left, *right)?,
            Kind::Binary { operator: Operator::Focus, left, right } => {
                self.focus(*left, &right, keep_array)?
            }
            Kind::Binary { operator: Operator::Index, left, right } => self.index(*left, &right)?,
            Kind::Binary { operator, left, right } => {
                let (left, right) = (self.process(*left)?, self.process(*right)?);
                let seeking = seeking(&[&left, &right]);
                with(
                    Kind::Binary { operator, left: Box::new(left), right: Box::new(right) },
                    position,
                    seeking,
                )
            }
            Kind::Bind { name, value } => {
                let value = self.process(*value)?;
                let seeking = seeking(&[&value]);
                with(Kind::Bind { name, value: Box::new(value) }, position, seeking)
            }
            Kind::Apply { left, right } => {
                let (left, right) = (self.process(*left)?, self.process(*right)?);
                let keep = left.keep_array || right.keep_array;
                let mut node =
                    Node::new(Kind::Apply { left: Box::new(left), right: Box::new(right) }, position);
                node.keep_array = keep;
                node
            }
            Kind::Negate(inner) => {
                let inner = self.process(*inner)?;
                match inner.kind {
                    Kind::Number(number) => Node { kind: Kind::Number(-number), ..inner },
                    _ => {
                        let seeking = seeking(&[&inner]);
                        with(Kind::Negate(Box::new(inner)), position, seeking)
                    }
                }
            }
            kind @ (Kind::Array(_)
            | Kind::Object(_)
            | Kind::Block(_)
            | Kind::Condition { .. }
            | Kind::Default { .. }
            | Kind::Call { .. }
            | Kind::Partial { .. }) => self.compound(kind, position)?,
            Kind::Lambda { parameters, body, signature } => {
                let body = self.process(Arc::unwrap_or_clone(body))?;
                let body = Arc::new(mark_tail(body));
                Node::new(Kind::Lambda { parameters, body, signature }, position)
            }
            Kind::Transform(transform) => self.transform(Arc::unwrap_or_clone(transform), position)?,
            Kind::Name(name) => self.name(name, position, keep_array),
            Kind::Word(word) => self.name(word, position, keep_array),
            Kind::Parent(_) => {
                let slot = self.levels.len();
                self.levels.push(1);
                self.labels.push(slot);
                Node::new(Kind::Parent(slot), position)
            }
            Kind::Sort(terms) => {
                let mut seen = Vec::new();
                let mut processed = Vec::with_capacity(terms.len());
                for (term, descending) in terms {
                    let term = self.process(term)?;
                    seen.extend(seeking(&[&term]));
                    processed.push((term, descending));
                }
                with(Kind::Sort(processed), position, seen)
            }
            kind => Node::new(kind, position),
        };
        result.keep_array |= keep_array;
        Ok(result)
    }

    /// What is made of several expressions.
    fn compound(&mut self, kind: Kind, position: usize) -> Result<Node, Error> {
        Ok(match kind {
            Kind::Array(items) => {
                let items = self.all(items)?;
                let seeking = seeking(&items.iter().collect::<Vec<_>>());
                with(Kind::Array(items), position, seeking)
            }
            Kind::Object(pairs) => {
                let pairs = self.pairs(pairs)?;
                let all: Vec<&Node> = pairs.iter().flat_map(|(key, value)| [key, value]).collect();
                let seeking = seeking(&all);
                with(Kind::Object(pairs), position, seeking)
            }
            Kind::Block(expressions) => {
                let expressions = self.all(expressions)?;
                let seeking = seeking(&expressions.iter().collect::<Vec<_>>());
                let cons = expressions.iter().any(|part| {
                    part.cons_array || matches!(&part.kind, Kind::Path(steps) if steps[0].cons_array)
                });
                let mut node = with(Kind::Block(expressions), position, seeking);
                node.cons_array = cons;
                node
            }
            Kind::Condition { condition, then, otherwise } => {
                let condition = self.process(*condition)?;
                let then = self.process(*then)?;
                let otherwise = otherwise.map(|otherwise| self.process(*otherwise)).transpose()?;
                let mut all = vec![&condition, &then];
                all.extend(otherwise.as_ref());
                let seeking = seeking(&all);
                let kind = Kind::Condition {
                    condition: Box::new(condition),
                    then: Box::new(then),
                    otherwise: otherwise.map(Box::new),
                };
                with(kind, position, seeking)
            }
            Kind::Call { procedure, arguments, .. } => {
                let arguments = self.all(arguments)?;
                let seeking = seeking(&arguments.iter().collect::<Vec<_>>());
                let procedure = Box::new(self.process(*procedure)?);
                with(Kind::Call { procedure, arguments, tail: false }, position, seeking)
            }
            Kind::Partial { procedure, arguments } => {
                let arguments = self.all(arguments)?;
                let seeking = seeking(&arguments.iter().collect::<Vec<_>>());
                let procedure = Box::new(self.process(*procedure)?);
                with(Kind::Partial { procedure, arguments }, position, seeking)
            }
            Kind::Default { left, right, coalesce } => {
                let (left, right) = (self.process(*left)?, self.process(*right)?);
                let seeking = seeking(&[&left, &right]);
                with(
                    Kind::Default { left: Box::new(left), right: Box::new(right), coalesce },
                    position,
                    seeking,
                )
            }
            kind => Node::new(kind, position),
        })
    }

    fn transform(&mut self, transform: Transform, position: usize) -> Result<Node, Error> {
        let transform = Transform {
            pattern: self.process(transform.pattern)?,
            update: self.process(transform.update)?,
            delete: transform.delete.map(|delete| self.process(delete)).transpose()?,
        };
        Ok(Node::new(Kind::Transform(Arc::new(transform)), position))
    }

    fn name(&mut self, name: Arc<str>, position: usize, keep_array: bool) -> Node {
        let mut step = Node::new(Kind::Name(name), position);
        step.keep_array = keep_array;
        let mut path = Node::new(Kind::Path(vec![step]), position);
        path.keep_singleton = keep_array;
        path
    }

    fn all(&mut self, nodes: Vec<Node>) -> Result<Vec<Node>, Error> {
        nodes.into_iter().map(|node| self.process(node)).collect()
    }

    fn pairs(&mut self, pairs: Vec<(Node, Node)>) -> Result<Vec<(Node, Node)>, Error> {
        pairs.into_iter().map(|(key, value)| Ok((self.process(key)?, self.process(value)?))).collect()
    }

    /// `left{…}`, which the parser wraps in a block.
    fn group(&mut self, node: Node, group: Group, position: usize, keep_array: bool) -> Result<Node, Error> {
        let Kind::Block(mut inner) = node.kind else { return Ok(node) };
        let Some(left) = inner.pop() else { return Err(Error::at("S0201", position, "Syntax error: {")) };
        let mut result = self.process(left)?;
        if result.group.is_some() {
            return Err(Error::at("S0210", position, "Each step can only have one grouping expression"));
        }
        result.group = Some(Box::new(Group { pairs: self.pairs(group.pairs)? }));
        result.keep_array |= keep_array;
        Ok(result)
    }

    fn path(&mut self, left: Node, right: Node, position: usize) -> Result<Node, Error> {
        let sorts = matches!(right.kind, Kind::Sort(_));
        let left = self.process(left)?;
        let mut path = into_path(left, position);
        let mut rest = self.process(right)?;
        let Kind::Path(steps) = &mut path.kind else { return Ok(path) };
        match rest.kind {
            Kind::Path(more) if rest.group.is_none() && rest.predicate.is_empty() => {
                path.keep_singleton |= rest.keep_singleton;
                path.seeking.extend(rest.seeking);
                steps.extend(more);
            }
            kind => {
                rest.kind = kind;
                rest.stages.append(&mut rest.predicate);
                // A grouped path on the right groups the whole.
                if let Kind::Path(more) = rest.kind {
                    steps.extend(more);
                    path.group = rest.group;
                } else {
                    steps.push(rest);
                }
            }
        }
        if !sorts {
            for step in steps.iter_mut() {
                match &step.kind {
                    literal @ (Kind::Number(_) | Kind::Boolean(_) | Kind::Null) => {
                        let value = match literal {
                            Kind::Number(number) => number.to_string(),
                            Kind::Boolean(value) => value.to_string(),
                            _ => "null".to_owned(),
                        };
                        let message = format!(
                            "The literal value {value} cannot be used as a step within a path expression"
                        );
                        return Err(Error::at("S0213", step.position, message));
                    }
                    Kind::String(text) => step.kind = Kind::Name(text.clone()),
                    _ => {}
                }
            }
            if steps.iter().any(|step| step.keep_array) {
                path.keep_singleton = true;
            }
            let last = steps.len() - 1;
            for at in [0, last] {
                if matches!(steps[at].kind, Kind::Array(_)) {
                    steps[at].cons_array = true;
                }
            }
        }
        self.resolve(&mut path)?;
        Ok(path)
    }

    fn filter(&mut self, left: Node, right: Node) -> Result<Node, Error> {
        let mut result = self.process(left)?;
        let predicate = self.process(right)?;
        let is_path = matches!(result.kind, Kind::Path(_));
        let grouped = result.group.is_some();
        let step = last_step(&mut result);
        if step.group.is_some() || (grouped && is_path) {
            return Err(Error::at(
                "S0209",
                step.position,
                "A predicate cannot follow a grouping expression in a step",
            ));
        }
        let mut left = Vec::new();
        for slot in seeking(&[&predicate]) {
            if self.levels[slot] == 1 {
                self.seek(step, slot)?;
            } else {
                self.levels[slot] -= 1;
            }
            left.push(slot);
        }
        step.seeking.extend(left);
        if is_path {
            step.stages.push(Stage::Filter(predicate));
        } else {
            step.predicate.push(Stage::Filter(predicate));
        }
        Ok(result)
    }

    fn focus(&mut self, left: Node, right: &Node, keep_array: bool) -> Result<Node, Error> {
        let mut result = self.process(left)?;
        let step = last_step(&mut result);
        if !step.stages.is_empty() || !step.predicate.is_empty() {
            return Err(Error::at(
                "S0215",
                right.position,
                "A context variable binding must precede any predicates on a step",
            ));
        }
        if matches!(step.kind, Kind::Sort(_)) {
            return Err(Error::at(
                "S0216",
                right.position,
                "A context variable binding must precede the 'order-by' clause on a step",
            ));
        }
        step.keep_array |= keep_array;
        if let Kind::Variable(name) = &right.kind {
            step.focus = Some(name.clone());
        }
        step.tuple = true;
        Ok(result)
    }

    fn index(&mut self, left: Node, right: &Node) -> Result<Node, Error> {
        let left = self.process(left)?;
        let position = left.position;
        let mut result = into_path(left, position);
        let step = last_step(&mut result);
        step.stages.append(&mut step.predicate);
        if let Kind::Variable(name) = &right.kind {
            if step.stages.is_empty() {
                step.index = Some(name.clone());
            } else {
                step.stages.push(Stage::Index(name.clone()));
            }
        }
        step.tuple = true;
        Ok(result)
    }

    /// Finds the step that a parent operator at the end of a path means.
    fn resolve(&mut self, path: &mut Node) -> Result<(), Error> {
        let Kind::Path(steps) = &mut path.kind else { return Ok(()) };
        let last = steps.len() - 1;
        let mut unresolved = Vec::new();
        for slot in seeking(&[&steps[last]]) {
            let mut at = last as isize - 1;
            while self.levels[slot] > 0 {
                if at < 0 {
                    unresolved.push(slot);
                    break;
                }
                let mut step = at as usize;
                at -= 1;
                while at >= 0 && steps[step].focus.is_some() && steps[at as usize].focus.is_some() {
                    step = at as usize;
                    at -= 1;
                }
                self.seek(&mut steps[step], slot)?;
            }
        }
        path.seeking.extend(unresolved);
        Ok(())
    }

    fn seek(&mut self, node: &mut Node, slot: usize) -> Result<(), Error> {
        let position = node.position;
        match &mut node.kind {
            Kind::Name(_) | Kind::Wildcard => {
                self.levels[slot] -= 1;
                if self.levels[slot] == 0 {
                    if let Some(other) = node.ancestor {
                        self.labels[slot] = self.labels[other];
                    }
                    node.ancestor = Some(slot);
                    node.tuple = true;
                }
                Ok(())
            }
            Kind::Parent(_) => {
                self.levels[slot] += 1;
                Ok(())
            }
            Kind::Block(expressions) => {
                node.tuple = true;
                match expressions.last_mut() {
                    Some(last) => self.seek(last, slot),
                    None => Ok(()),
                }
            }
            Kind::Path(steps) => {
                node.tuple = true;
                let mut at = steps.len();
                while at > 0 {
                    at -= 1;
                    self.seek(&mut steps[at], slot)?;
                    if self.levels[slot] <= 0 {
                        break;
                    }
                }
                Ok(())
            }
            _ => Err(Error::at(
                "S0217",
                position,
                "The object representing the 'parent' cannot be derived from this expression",
            )),
        }
    }
}

fn with(kind: Kind, position: usize, seeking: Vec<usize>) -> Node {
    Node { seeking, ..Node::new(kind, position) }
}

/// The slots that `nodes` leave open.
fn seeking(nodes: &[&Node]) -> Vec<usize> {
    let mut slots = Vec::new();
    for node in nodes {
        slots.extend(&node.seeking);
        if let Kind::Parent(slot) = node.kind {
            slots.push(slot);
        }
    }
    slots
}

fn into_path(node: Node, position: usize) -> Node {
    if matches!(node.kind, Kind::Path(_)) {
        return node;
    }
    let mut seeking = Vec::new();
    if let Kind::Parent(slot) = node.kind {
        seeking.push(slot);
    }
    let mut path = Node::new(Kind::Path(vec![node]), position);
    path.seeking = seeking;
    path
}

fn last_step(node: &mut Node) -> &mut Node {
    if !matches!(node.kind, Kind::Path(_)) {
        return node;
    }
    let Node { kind: Kind::Path(steps), .. } = node else { unreachable!("it is a path") };
    let last = steps.len() - 1;
    &mut steps[last]
}

fn mark_tail(mut node: Node) -> Node {
    match &mut node.kind {
        Kind::Call { tail, .. } if node.predicate.is_empty() => *tail = true,
        Kind::Condition { then, otherwise, .. } => {
            **then = mark_tail(std::mem::replace(&mut **then, Node::new(Kind::Null, 0)));
            if let Some(otherwise) = otherwise {
                **otherwise = mark_tail(std::mem::replace(&mut **otherwise, Node::new(Kind::Null, 0)));
            }
        }
        Kind::Block(expressions) => {
            if let Some(last) = expressions.pop() {
                expressions.push(mark_tail(last));
            }
        }
        _ => {}
    }
    node
}

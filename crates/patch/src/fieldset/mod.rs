//! Sets of field paths: what a manager owns, what a change touched.
//!
//! A set is a tree of sorted nodes, so union, intersection and difference are one merge of two sorted
//! lists per level. Membership of a container and of its children are independent: owning
//! `.metadata.labels` says nothing about `.metadata.labels.app`.

mod element;
mod v1;

#[cfg(test)]
mod tests;

use std::cmp::Ordering;
use std::fmt;

pub use element::PathElement;
pub use v1::FieldsV1Error;

/// A set of paths. No node is empty: it is a member, or it has children.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FieldSet {
    nodes: Vec<Node>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Node {
    pub element: PathElement,
    /// Whether the path that ends here is in the set.
    pub member: bool,
    pub children: FieldSet,
}

impl Node {
    fn is_empty(&self) -> bool {
        !self.member && self.children.is_empty()
    }
}

/// A path in upstream's form: `.spec.containers[name="a"].image`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FieldPath(pub Vec<PathElement>);

impl fmt::Display for FieldPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|element| write!(f, "{element}"))
    }
}

impl FieldSet {
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// Where its paths begin.
    pub(crate) fn roots(&self) -> impl Iterator<Item = &PathElement> {
        self.nodes.iter().map(|node| &node.element)
    }

    pub fn contains(&self, path: &FieldPath) -> bool {
        let Some((last, way)) = path.0.split_last() else { return false };
        let mut set = self;
        for element in way {
            match set.get(element) {
                Some(node) => set = &node.children,
                None => return false,
            }
        }
        set.get(last).is_some_and(|node| node.member)
    }

    /// Every member, parents before children, in order.
    pub fn paths(&self) -> Vec<FieldPath> {
        let mut found = Vec::new();
        self.collect_paths(&mut Vec::new(), &mut found);
        found
    }

    fn collect_paths(&self, prefix: &mut Vec<PathElement>, found: &mut Vec<FieldPath>) {
        for node in &self.nodes {
            prefix.push(node.element.clone());
            if node.member {
                found.push(FieldPath(prefix.clone()));
            }
            node.children.collect_paths(prefix, found);
            prefix.pop();
        }
    }

    pub fn union(&self, other: &FieldSet) -> FieldSet {
        let mut nodes = Vec::with_capacity(self.nodes.len().max(other.nodes.len()));
        join(&self.nodes, &other.nodes, |mine, theirs| match (mine, theirs) {
            (Some(a), Some(b)) => nodes.push(Node {
                element: a.element.clone(),
                member: a.member || b.member,
                children: a.children.union(&b.children),
            }),
            (Some(node), None) | (None, Some(node)) => nodes.push(node.clone()),
            (None, None) => {}
        });
        FieldSet { nodes }
    }

    pub fn intersection(&self, other: &FieldSet) -> FieldSet {
        let mut result = FieldSet::default();
        join(&self.nodes, &other.nodes, |mine, theirs| {
            if let (Some(a), Some(b)) = (mine, theirs) {
                result.push(&a.element, a.member && b.member, a.children.intersection(&b.children));
            }
        });
        result
    }

    /// The members of this set that are not members of `other`.
    pub fn difference(&self, other: &FieldSet) -> FieldSet {
        let mut rest = self.clone();
        rest.subtract(other);
        rest
    }

    pub fn is_subset(&self, other: &FieldSet) -> bool {
        self.nodes.iter().all(|own| {
            let theirs = other.get(&own.element);
            theirs.is_some_and(|node| (node.member || !own.member) && own.children.is_subset(&node.children))
        })
    }

    /// Takes out the members of `other`; whether there were any.
    pub fn subtract(&mut self, other: &FieldSet) -> bool {
        let (mut taken, mut emptied) = (false, false);
        for theirs in &other.nodes {
            let Ok(index) = self.find(&theirs.element) else { continue };
            let own = &mut self.nodes[index];
            taken |= own.member && theirs.member;
            own.member &= !theirs.member;
            taken |= own.children.subtract(&theirs.children);
            emptied |= own.is_empty();
        }
        if emptied {
            self.nodes.retain(|node| !node.is_empty());
        }
        taken
    }

    pub(crate) fn get(&self, element: &PathElement) -> Option<&Node> {
        self.find(element).ok().map(|index| &self.nodes[index])
    }

    fn find(&self, element: &PathElement) -> Result<usize, usize> {
        self.nodes.binary_search_by(|node| node.element.cmp(element))
    }

    pub(crate) fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// Adds a node that is not there yet, unless it would be empty. Call [`FieldSet::sort`] when the
    /// elements did not come in order.
    pub(crate) fn push(&mut self, element: &PathElement, member: bool, children: FieldSet) {
        if member || !children.is_empty() {
            self.nodes.push(Node { element: element.clone(), member, children });
        }
    }

    pub(crate) fn push_owned(&mut self, element: PathElement, member: bool, children: FieldSet) {
        if member || !children.is_empty() {
            self.nodes.push(Node { element, member, children });
        }
    }

    /// Makes the last node a plain member.
    pub(crate) fn clear_last(&mut self) {
        if let Some(last) = self.nodes.last_mut() {
            last.member = true;
            last.children = FieldSet::default();
        }
    }

    pub(crate) fn sort(&mut self) {
        if !self.nodes.is_sorted_by(|a, b| a.element <= b.element) {
            self.nodes.sort_by(|a, b| a.element.cmp(&b.element));
        }
    }

    /// Keeps the nodes that `keep` accepts, drops the ones it leaves empty.
    pub(crate) fn retain(&mut self, mut keep: impl FnMut(&mut Node) -> bool) {
        self.nodes.retain_mut(|node| keep(node) && !node.is_empty());
    }
}

/// Walks two sorted lists side by side.
fn join<'a>(a: &'a [Node], b: &'a [Node], mut visit: impl FnMut(Option<&'a Node>, Option<&'a Node>)) {
    let (mut i, mut j) = (0, 0);
    loop {
        match (a.get(i), b.get(j)) {
            (None, None) => return,
            (Some(x), Some(y)) => match x.element.cmp(&y.element) {
                Ordering::Less => {
                    visit(Some(x), None);
                    i += 1;
                }
                Ordering::Greater => {
                    visit(None, Some(y));
                    j += 1;
                }
                Ordering::Equal => {
                    visit(Some(x), Some(y));
                    i += 1;
                    j += 1;
                }
            },
            (x, y) => {
                visit(x, y);
                i += 1;
                j += 1;
            }
        }
    }
}

// SPDX-License-Identifier: GPL-3.0-or-later
//! All objects of one program, from the program's own AT-SPI cache: one call returns as much as hundreds of calls to
//! the single objects.
//!
//! GTK has only those objects in its cache that were asked for once, so that a tree is walked only where it has grown.

use std::collections::{HashMap, HashSet};

use anyhow::Result;
use futures_util::{StreamExt, stream};
use zbus::Connection;
use zbus::OwnedObjectPath;

use tandem_stage::node::{Node, Within};

/// Calls that are under way at the same time: the program and the bus answer them together, and none waits for another.
const TOGETHER: usize = 32;

type Reference = (String, OwnedObjectPath);
/// An entry of the cache on the bus: object, program, parent, index in the parent, number of children, interfaces,
/// name, role, description, states.
type Entry = (
    Reference,
    Reference,
    Reference,
    i32,
    i32,
    Vec<String>,
    String,
    u32,
    String,
    Vec<u32>,
);

/// One object.
#[derive(Debug)]
pub struct Item {
    /// The object.
    pub node: Node,
    /// The object that contains this one.
    pub parent: OwnedObjectPath,
    /// Name of the object as a screen reader says it.
    pub name: String,
    /// State bits of the object.
    pub states: u64,
    /// Depth below the program's windows, which have 0.
    pub depth: usize,
    /// Name of the window that it is in.
    pub window: String,
    index: i32,
    children: usize,
}

/// A program whose objects are followed.
pub struct Tree {
    program: Node,
    /// How many children an object had, and how many of them were in the cache, when the object was last walked.
    walked: HashMap<OwnedObjectPath, (usize, usize)>,
}

impl Tree {
    /// Begins to follow a program.
    pub fn new(program: Node) -> Self {
        Self {
            program,
            walked: HashMap::new(),
        }
    }

    /// Every object in the program's windows: the newest window first, each object before the objects in it.
    pub async fn read(&mut self, bus: &Connection) -> Result<Vec<Item>> {
        let mut unshown = HashSet::new();
        loop {
            let items = self.items(bus).await?;
            // A hidden object stays in the cache, with the same index as the object that follows it. Indexes are
            // counted, so that a hidden object does not stand for the one that is shown in its place.
            let mut cached: HashMap<&OwnedObjectPath, HashSet<i32>> = HashMap::new();
            for item in &items {
                cached.entry(&item.parent).or_default().insert(item.index);
            }
            let mut grown = Vec::new();
            for item in &items {
                let path = &item.node.path;
                let inside =
                    |index: &&i32| usize::try_from(**index).is_ok_and(|at| at < item.children);
                let places = cached
                    .get(path)
                    .map_or(0, |all| all.iter().filter(inside).count());
                let now = (item.children, places);
                if now.0 <= now.1 {
                    // Children that replace the old ones are new, even if their number is the same.
                    self.walked.remove(path);
                } else if self.walked.get(path) != Some(&now) && !unshown.contains(path) {
                    self.walked.insert(path.clone(), now);
                    grown.push((item.node.clone(), item.parent == self.program.path));
                }
            }
            if grown.is_empty() {
                // An object that is shown later is walked then.
                self.walked.retain(|path, _| !unshown.contains(path));
                return Ok(self.in_order(items));
            }
            let known: HashSet<_> = items.iter().map(|item| item.node.path.clone()).collect();
            if !walk(bus, grown, &known, &mut unshown).await {
                // Another reading would return the same.
                self.walked.retain(|path, _| !unshown.contains(path));
                return Ok(self.in_order(items));
            }
        }
    }

    async fn items(&self, bus: &Connection) -> Result<Vec<Item>> {
        let cache = Node {
            path: OwnedObjectPath::try_from("/org/a11y/atspi/cache")?,
            ..self.program.clone()
        };
        let reply = cache
            .call(bus, "org.a11y.atspi.Cache", "GetItems", &())
            .await?;
        let entries: Vec<Entry> = reply.body().deserialize()?;
        let items = entries.into_iter().map(
            |((bus, path), _, (_, parent), index, children, _, name, _, _, states)| Item {
                node: Node { bus, path },
                parent,
                name,
                states: tandem_stage::node::bits(&states),
                depth: 0,
                window: String::new(),
                index,
                children: usize::try_from(children).unwrap_or(0),
            },
        );
        Ok(items.collect())
    }

    fn in_order(&self, items: Vec<Item>) -> Vec<Item> {
        let mut below: HashMap<OwnedObjectPath, Vec<Item>> = HashMap::new();
        for item in items {
            below.entry(item.parent.clone()).or_default().push(item);
        }
        for children in below.values_mut() {
            children.sort_by_key(|item| std::cmp::Reverse(item.index));
        }
        let mut ordered = Vec::new();
        let mut next = below.remove(&self.program.path).unwrap_or_default();
        // The last window in the program's list is the newest.
        next.reverse();
        while let Some(mut item) = next.pop() {
            if item.depth == 0 {
                item.window.clone_from(&item.name);
            }
            for mut child in below.remove(&item.node.path).unwrap_or_default() {
                child.depth = item.depth + 1;
                child.window.clone_from(&item.window);
                next.push(child);
            }
            ordered.push(item);
        }
        ordered
    }
}

/// Asks for every object below `nodes`, which brings it into the program's cache; each node comes with whether it is a
/// window. Returns whether there was an object that is not `known`.
async fn walk(
    bus: &Connection,
    nodes: Vec<(Node, bool)>,
    known: &HashSet<OwnedObjectPath>,
    unshown: &mut HashSet<OwnedObjectPath>,
) -> bool {
    let mut found = false;
    let mut level = nodes;
    while !level.is_empty() {
        let asked = stream::iter(level)
            .map(|(node, window)| async move {
                // An object on a page that was never shown has no size; a program as a whole has no place.
                let shown = window
                    || node
                        .place(bus, Within::Window)
                        .await
                        .map_or(true, |place| place.width > 0 && place.height > 0);
                if !shown {
                    return Err(node.path);
                }
                // An object that goes away meanwhile has no children.
                Ok(node.children(bus).await.unwrap_or_default())
            })
            .buffered(TOGETHER)
            .collect::<Vec<_>>()
            .await;
        level = Vec::new();
        for answer in asked {
            match answer {
                Ok(children) => level.extend(
                    children
                        .into_iter()
                        .filter(|child| !known.contains(&child.path))
                        .map(|child| (child, false)),
                ),
                Err(path) => {
                    unshown.insert(path);
                }
            }
        }
        found |= !level.is_empty();
    }
    found
}

//! Which slots were written and which keys deleted, per block and cut: what an increment will have to contain.
//!
//! Marks made since a block was last preserved stand in the block itself (written bits) and in a node for
//! deleted keys. When the block is preserved they belong to the first cut it was owed to, and move to a node
//! that is labelled with that cut's epoch. A node is dropped once its cut, or a later one, is complete. The
//! marks of an aborted cut need no merging back: they keep their epoch, which lies above the base of whatever
//! increment comes next, and are folded into the block's next node so that a block never has more nodes than
//! there are undecided cuts, plus two.
//!
//! Marks are exact about live entries and may name deleted keys that the base never had. A block with too many
//! deleted keys is *replaced*: an increment contains all of it, and its hashes start from nothing.
//!
//! Owns: nodes and their life. Does not own: written bits of the current epoch (`blocks`), the fate of cuts
//! (`cuts`).

/// No node.
pub(crate) const NONE: u32 = u32::MAX;
/// The label of marks that belong to no cut yet. Epochs count cuts and never get there.
pub(super) const CURRENT: u32 = u32::MAX;
/// Deleted keys that one node remembers before its block counts as replaced: bounds memory to a fraction of the
/// table.
const MAX_DELETED: usize = 32;

/// What is known about the cut that a node is labelled with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fate {
    /// It, or a later one, is complete.
    Complete,
    /// Not decided.
    Pending,
    /// Never complete.
    Aborted {
        /// The next undecided cut's epoch.
        next: Option<u32>,
    },
}

/// The marks of one block for one cut.
#[derive(Debug)]
pub(crate) struct Node<K> {
    /// The epoch that the cut began.
    pub(crate) epoch: u32,
    /// Slots that may have been written.
    pub(crate) written: u128,
    /// Whether the block counts as replaced.
    pub(crate) replaced: bool,
    /// Keys that were deleted; may have come back.
    pub(crate) deleted: Vec<K>,
    next: u32,
}

/// The nodes of a table. A block holds the index of its newest.
#[derive(Debug)]
pub(crate) struct Marks<K> {
    nodes: Vec<Node<K>>,
    free: u32,
}

impl<K> Marks<K> {
    pub(crate) fn new() -> Self {
        Self {
            nodes: Vec::new(),
            free: NONE,
        }
    }

    /// Memory held by nodes.
    pub(crate) fn memory_bytes(&self) -> u64 {
        (self.nodes.capacity() * size_of::<Node<K>>()) as u64
    }

    /// The nodes of a block, newest first.
    pub(crate) fn of(&self, head: u32) -> impl Iterator<Item = &Node<K>> {
        let mut at = head;
        std::iter::from_fn(move || {
            let node = (at != NONE).then(|| &self.nodes[at as usize])?;
            at = node.next;
            Some(node)
        })
    }

    fn add(&mut self, node: Node<K>) -> u32 {
        if self.free == NONE {
            self.nodes.push(node);
            return (self.nodes.len() - 1) as u32;
        }
        let at = self.free;
        let slot = &mut self.nodes[at as usize];
        self.free = slot.next;
        *slot = node;
        at
    }

    fn release(&mut self, at: u32) -> Node<K> {
        let empty = Node {
            epoch: 0,
            written: 0,
            replaced: false,
            deleted: Vec::new(),
            next: self.free,
        };
        self.free = at;
        std::mem::replace(&mut self.nodes[at as usize], empty)
    }

    /// Remembers that `key` was deleted from the block since it was last preserved.
    pub(crate) fn deleted(&mut self, head: &mut u32, key: K) {
        if *head == NONE || self.nodes[*head as usize].epoch != CURRENT {
            let node = Node {
                epoch: CURRENT,
                written: 0,
                replaced: false,
                deleted: Vec::new(),
                next: *head,
            };
            *head = self.add(node);
        }
        let node = &mut self.nodes[*head as usize];
        if node.replaced {
            return;
        }
        node.deleted.push(key);
        if node.deleted.len() > MAX_DELETED {
            node.replaced = true;
            node.deleted = Vec::new();
        }
    }

    /// The block is preserved: its marks, `written` and what was deleted, belong to the cut that began `epoch`.
    pub(crate) fn moved(&mut self, head: &mut u32, written: u128, epoch: u32, fate: impl Fn(u32) -> Fate) {
        let current = *head != NONE && self.nodes[*head as usize].epoch == CURRENT;
        match current {
            true => {
                let node = &mut self.nodes[*head as usize];
                (node.epoch, node.written) = (epoch, written);
            }
            false if written != 0 => {
                let node = Node {
                    epoch,
                    written,
                    replaced: false,
                    deleted: Vec::new(),
                    next: *head,
                };
                *head = self.add(node);
            }
            false => {}
        }
        self.settle(head, fate);
    }

    /// Drops what is complete; what was aborted belongs to the next cut that isn't, or else to the next newer
    /// node.
    fn settle(&mut self, head: &mut u32, fate: impl Fn(u32) -> Fate) {
        let mut newer = NONE;
        let mut at = *head;
        while at != NONE {
            let (next, epoch) = (self.nodes[at as usize].next, self.nodes[at as usize].epoch);
            match fate(epoch) {
                Fate::Complete => {
                    // Older ones are complete too.
                    self.release_list(at);
                    self.link(head, newer, NONE);
                    return;
                }
                Fate::Aborted { next: Some(cut) }
                    if newer == NONE || cut < self.nodes[newer as usize].epoch =>
                {
                    self.nodes[at as usize].epoch = cut;
                    newer = at;
                }
                Fate::Aborted { .. } if newer != NONE => {
                    let node = self.release(at);
                    self.fold(newer, node);
                    self.link(head, newer, next);
                }
                Fate::Aborted { .. } | Fate::Pending => newer = at,
            }
            at = next;
        }
    }

    fn link(&mut self, head: &mut u32, newer: u32, to: u32) {
        match newer {
            NONE => *head = to,
            _ => self.nodes[newer as usize].next = to,
        }
    }

    fn fold(&mut self, into: u32, node: Node<K>) {
        let into = &mut self.nodes[into as usize];
        into.written |= node.written;
        into.replaced |= node.replaced;
        into.deleted.extend(node.deleted);
        if into.replaced || into.deleted.len() > 2 * MAX_DELETED {
            into.replaced = true;
            into.deleted = Vec::new();
        }
    }

    fn release_list(&mut self, head: u32) {
        let mut at = head;
        while at != NONE {
            at = self.release(at).next;
        }
    }

    /// Takes all nodes of a block, newest first, for it to be split.
    pub(crate) fn take(&mut self, head: &mut u32) -> Vec<Node<K>> {
        let mut nodes = Vec::new();
        let mut at = std::mem::replace(head, NONE);
        while at != NONE {
            let node = self.release(at);
            at = node.next;
            nodes.push(node);
        }
        nodes
    }

    /// Gives nodes to a block, newest first.
    pub(crate) fn give(&mut self, head: &mut u32, nodes: Vec<Node<K>>) {
        for mut node in nodes.into_iter().rev() {
            if node.written != 0 || node.replaced || !node.deleted.is_empty() {
                node.next = *head;
                *head = self.add(node);
            }
        }
    }
}

impl<K> Node<K> {
    /// The part of this node that goes to another block: `written` there, and these deleted keys.
    pub(crate) fn part(&self, written: u128, deleted: Vec<K>) -> Self {
        Self {
            epoch: self.epoch,
            written,
            replaced: self.replaced,
            deleted,
            next: NONE,
        }
    }
}

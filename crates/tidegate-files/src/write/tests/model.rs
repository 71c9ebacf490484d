//! A file system in memory that counts steps, dies at one, and forgets after a power cut what nobody made durable.

use std::collections::BTreeMap;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};

use super::super::disk::{Disk, Staged, Stat};

/// What a restart finds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Loss {
    /// The process died; the machine didn't.
    Nothing,
    /// The power failed, and nothing survived that wasn't made durable.
    Everything,
    /// The power failed; what wasn't made durable survived or not, each name and content by a coin's fall.
    Some(u64),
}

#[derive(Debug, Default)]
struct Inode {
    content: Vec<u8>,
    durable: usize,
}

#[derive(Debug, Clone)]
enum Change {
    Add(PathBuf, usize),
    Remove(PathBuf),
    Rename(PathBuf, PathBuf),
}

type Names = BTreeMap<PathBuf, usize>;

fn apply(names: &mut Names, change: &Change) {
    match change {
        Change::Add(path, inode) => {
            names.insert(path.clone(), *inode);
        }
        Change::Remove(path) => {
            names.remove(path);
        }
        Change::Rename(from, to) => {
            if let Some(inode) = names.remove(from) {
                names.insert(to.clone(), inode);
            }
        }
    }
}

#[derive(Debug, Default)]
struct State {
    inodes: Vec<Inode>,
    names: Names,
    durable: Names,
    pending: Vec<Change>,
    steps: u64,
    dies_at: Option<u64>,
    dead: bool,
    no_links: bool,
    space: Option<usize>,
}

impl State {
    /// A step of whoever uses the disk; the one at which it dies isn't done any more.
    fn step(&mut self) -> io::Result<()> {
        self.steps += 1;
        self.dead |= self.dies_at == Some(self.steps);
        if self.dead {
            Err(io::Error::other("the machine is off"))
        } else {
            Ok(())
        }
    }

    fn change(&mut self, change: Change) {
        apply(&mut self.names, &change);
        self.pending.push(change);
    }

    fn inode(&self, path: &Path) -> io::Result<usize> {
        self.names
            .get(path)
            .copied()
            .ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn used(&self) -> usize {
        let mut inodes: Vec<usize> = self.names.values().copied().collect();
        inodes.sort_unstable();
        inodes.dedup();
        inodes.iter().map(|i| self.inodes[*i].content.len()).sum()
    }
}

/// The disk; clones are the same one.
#[derive(Debug, Clone, Default)]
pub(super) struct ModelDisk(Arc<Mutex<State>>);

impl ModelDisk {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap()
    }

    pub(super) fn without_links(self) -> Self {
        self.state().no_links = true;
        self
    }

    /// Limits what all files together may hold.
    pub(super) fn set_space(&self, bytes: Option<usize>) {
        self.state().space = bytes;
    }

    pub(super) fn steps(&self) -> u64 {
        self.state().steps
    }

    /// Dies at this step, counted from now on.
    pub(super) fn die_after(&self, steps: u64) {
        let mut state = self.state();
        state.dies_at = Some(state.steps + steps);
    }

    /// Starts again.
    pub(super) fn restart(&self, loss: Loss) {
        let mut state = self.state();
        (state.dead, state.dies_at) = (false, None);
        let mut coin = match loss {
            Loss::Nothing => return,
            Loss::Everything => None,
            Loss::Some(seed) => Some(seed),
        };
        // splitmix64; no coin always falls on "lost".
        let mut survives = || {
            coin.as_mut().is_some_and(|seed| {
                *seed = seed.wrapping_add(0x9E37_79B9_7F4A_7C15);
                let mut z = (*seed ^ (*seed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
                z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
                (z ^ (z >> 31)) & 1 == 1
            })
        };
        for change in std::mem::take(&mut state.pending) {
            if survives() {
                apply(&mut state.durable, &change);
            }
        }
        state.names = state.durable.clone();
        for inode in &mut state.inodes {
            if !survives() {
                inode.content.truncate(inode.durable);
            }
            inode.durable = inode.content.len();
        }
    }

    /// All files, with their contents as text.
    pub(super) fn files(&self) -> BTreeMap<String, String> {
        let state = self.state();
        let text = |(path, inode): (&PathBuf, &usize)| {
            let name = path.file_name().unwrap().to_str().unwrap().to_owned();
            (
                name,
                String::from_utf8(state.inodes[*inode].content.clone()).unwrap(),
            )
        };
        state.names.iter().map(text).collect()
    }
}

struct Open {
    disk: ModelDisk,
    inode: usize,
}

impl Staged for Open {
    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        let mut state = self.disk.state();
        state.step()?;
        if state
            .space
            .is_some_and(|space| state.used() + bytes.len() > space)
        {
            return Err(io::ErrorKind::StorageFull.into());
        }
        state.inodes[self.inode].content.extend_from_slice(bytes);
        Ok(())
    }

    fn sync(&mut self) -> io::Result<()> {
        let mut state = self.disk.state();
        state.step()?;
        let inode = &mut state.inodes[self.inode];
        inode.durable = inode.content.len();
        Ok(())
    }
}

impl Disk for ModelDisk {
    fn make_dir(&self, _: &Path) -> io::Result<()> {
        self.state().step()
    }

    fn create(&self, path: &Path) -> io::Result<Box<dyn Staged>> {
        let mut state = self.state();
        state.step()?;
        if state.names.contains_key(path) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        state.inodes.push(Inode::default());
        let inode = state.inodes.len() - 1;
        state.change(Change::Add(path.to_owned(), inode));
        Ok(Box::new(Open {
            disk: self.clone(),
            inode,
        }))
    }

    fn open(&self, path: &Path) -> io::Result<Box<dyn Read>> {
        let mut state = self.state();
        state.step()?;
        let inode = state.inode(path)?;
        Ok(Box::new(io::Cursor::new(state.inodes[inode].content.clone())))
    }

    fn stat(&self, path: &Path) -> io::Result<Option<Stat>> {
        let mut state = self.state();
        state.step()?;
        Ok(state.inode(path).ok().map(|inode| Stat {
            bytes: state.inodes[inode].content.len() as u64,
            is_file: true,
            id: Some((0, inode as u64)),
        }))
    }

    fn link(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut state = self.state();
        state.step()?;
        if state.no_links {
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        if state.names.contains_key(to) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        let inode = state.inode(from)?;
        state.change(Change::Add(to.to_owned(), inode));
        Ok(())
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut state = self.state();
        state.step()?;
        state.inode(from)?;
        state.change(Change::Rename(from.to_owned(), to.to_owned()));
        Ok(())
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        let mut state = self.state();
        state.step()?;
        if state.names.contains_key(path) {
            state.change(Change::Remove(path.to_owned()));
        }
        Ok(())
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        let mut state = self.state();
        state.step()?;
        let inside = state.names.keys().filter(|path| path.parent() == Some(dir));
        Ok(inside
            .map(|path| path.file_name().unwrap().to_str().unwrap().to_owned())
            .collect())
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        let mut state = self.state();
        state.step()?;
        let here = |change: &Change| match change {
            Change::Add(path, _) | Change::Remove(path) | Change::Rename(_, path) => {
                path.parent() == Some(dir)
            }
        };
        let (now, later): (Vec<_>, Vec<_>) = std::mem::take(&mut state.pending).into_iter().partition(here);
        state.pending = later;
        now.iter().for_each(|change| apply(&mut state.durable, change));
        Ok(())
    }
}

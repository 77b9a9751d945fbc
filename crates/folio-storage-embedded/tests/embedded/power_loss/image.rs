//! The files that a loss of power leaves.
//!
//! | change | is durable after |
//! |---|---|
//! | data and length of a file | a sync of the file that started later |
//! | an entry of a folder: created, renamed or removed | a sync of the folder that started later |
//!
//! Of the changes that are not durable, each write of a file survives, is lost, or survives in part, independently of
//! others. The changes of the entries of one folder survive up to one of them, because file systems log them in order.

use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use rand::Rng as _;
use rand::rngs::StdRng;

use super::recorder::Change;

/// Size of the unit in which a disk writes, in bytes.
const SECTOR: u64 = 512;

enum Data<'a> {
    Write(u64, &'a [u8]),
    Truncate(u64),
}

enum Entry {
    /// The name refers to this node. Contains the folder and the name from which the node was moved.
    Link(String, usize, Option<(usize, String)>),
    Unlink(String),
}

/// A file or a folder, with its changes by their number.
#[derive(Default)]
struct Node<'a> {
    is_folder: bool,
    data: Vec<(usize, Data<'a>)>,
    entries: Vec<(usize, Entry)>,
    /// Number of the first change that may not be durable.
    synced: usize,
}

struct Tree<'a> {
    nodes: Vec<Node<'a>>,
    /// Nodes by their current path.
    paths: BTreeMap<PathBuf, usize>,
}

impl<'a> Tree<'a> {
    /// Returns the tree after changes in a folder that was empty before.
    fn after(changes: &'a [Change]) -> Self {
        let root = Node { is_folder: true, ..Node::default() };
        let mut tree = Self { nodes: vec![root], paths: [(PathBuf::new(), 0)].into() };
        for (number, change) in changes.iter().enumerate() {
            match change {
                Change::CreateFile(path) => tree.create(number, path, false),
                Change::CreateFolder(path) => tree.create(number, path, true),
                Change::Write { path, offset, data } => {
                    tree.node(path).data.push((number, Data::Write(*offset, data)));
                }
                Change::Truncate { path, length } => tree.node(path).data.push((number, Data::Truncate(*length))),
                Change::Rename { from, to } => tree.rename(number, from, to),
                Change::Remove(path) => {
                    tree.paths.remove(path);
                    let (folder, name) = tree.position(path);
                    tree.nodes[folder].entries.push((number, Entry::Unlink(name)));
                }
                Change::Sync { path, began } => {
                    let node = tree.node(path);
                    node.synced = node.synced.max(*began);
                }
                Change::Acknowledged(_) => {}
            }
        }
        tree
    }

    fn node(&mut self, path: &Path) -> &mut Node<'a> {
        let node = *self.paths.get(path).unwrap_or_else(|| panic!("{} was never created", path.display()));
        &mut self.nodes[node]
    }

    /// Returns the folder that contains a path, and the name in it.
    fn position(&self, path: &Path) -> (usize, String) {
        (self.paths[path.parent().unwrap()], path.file_name().unwrap().to_str().unwrap().to_owned())
    }

    fn create(&mut self, number: usize, path: &Path, is_folder: bool) {
        let node = self.nodes.len();
        self.nodes.push(Node { is_folder, ..Node::default() });
        self.paths.insert(path.to_owned(), node);
        let (folder, name) = self.position(path);
        self.nodes[folder].entries.push((number, Entry::Link(name, node, None)));
    }

    fn rename(&mut self, number: usize, from: &Path, to: &Path) {
        let moved: Vec<PathBuf> = self.paths.keys().filter(|path| path.starts_with(from)).cloned().collect();
        let (source, target) = (self.position(from), self.position(to));
        let node = self.paths[from];
        for path in moved {
            let node = self.paths.remove(&path).unwrap();
            let below = path.strip_prefix(from).unwrap();
            let path = if below.as_os_str().is_empty() { to.to_owned() } else { to.join(below) };
            self.paths.insert(path, node);
        }
        self.nodes[target.0].entries.push((number, Entry::Link(target.1, node, Some(source))));
    }

    /// Returns the entries of each folder. `random`: None if nothing survives that is not durable.
    fn entries(&self, random: &mut Option<StdRng>) -> Vec<BTreeMap<String, usize>> {
        let mut surviving = Vec::new();
        for (folder, node) in self.nodes.iter().enumerate() {
            let durable = node.entries.iter().filter(|(number, _)| *number < node.synced).count();
            let lost = node.entries.len() - durable;
            let more = random.as_mut().map_or(0, |random| random.random_range(0..=lost));
            surviving.extend(node.entries.iter().take(durable + more).map(|(number, entry)| (*number, folder, entry)));
        }
        surviving.sort_by_key(|(number, ..)| *number);
        let mut entries: Vec<BTreeMap<String, usize>> = self.nodes.iter().map(|_| BTreeMap::new()).collect();
        for (_, folder, entry) in surviving {
            match entry {
                Entry::Link(name, node, source) => {
                    if let Some((source, name)) = source
                        && entries[*source].get(name) == Some(node)
                    {
                        entries[*source].remove(name);
                    }
                    entries[folder].insert(name.clone(), *node);
                }
                Entry::Unlink(name) => {
                    entries[folder].remove(name);
                }
            }
        }
        entries
    }

    fn write(&self, folder: usize, path: &Path, entries: &[BTreeMap<String, usize>], random: &mut Option<StdRng>) {
        std::fs::create_dir_all(path).unwrap();
        for (name, node) in &entries[folder] {
            let path = path.join(name);
            if self.nodes[*node].is_folder {
                self.write(*node, &path, entries, random);
            } else {
                self.write_file(&self.nodes[*node], &File::create(&path).unwrap(), random);
            }
        }
    }

    fn write_file(&self, node: &Node<'_>, file: &File, random: &mut Option<StdRng>) {
        for (number, data) in &node.data {
            let fate = match random {
                _ if *number < node.synced => Fate::Survives,
                None => Fate::Lost,
                Some(random) => Fate::random(random, data),
            };
            match (fate, data) {
                (Fate::Lost, _) => {}
                (_, Data::Truncate(length)) => file.set_len(*length).unwrap(),
                (Fate::Survives, Data::Write(offset, bytes)) => file.write_all_at(bytes, *offset).unwrap(),
                (Fate::Part(from, to), Data::Write(offset, bytes)) => {
                    file.write_all_at(&bytes[from..to], *offset + from as u64).unwrap();
                }
                (Fate::LengthOnly, Data::Write(offset, bytes)) => {
                    let length = file.metadata().unwrap().len();
                    file.set_len(length.max(*offset + bytes.len() as u64)).unwrap();
                }
            }
        }
    }
}

/// Effect of a loss of power on a write that is not durable.
enum Fate {
    Survives,
    Lost,
    /// Only these bytes of the data survive.
    Part(usize, usize),
    /// The file has the length after the write, but the data is lost.
    LengthOnly,
}

impl Fate {
    fn random(random: &mut StdRng, data: &Data<'_>) -> Self {
        let Data::Write(offset, bytes) = data else {
            return if random.random() { Self::Survives } else { Self::Lost };
        };
        match random.random_range(0..6) {
            0 | 1 => Self::Survives,
            2 => Self::Lost,
            3 => Self::LengthOnly,
            4 => Self::Part(0, random.random_range(0..=bytes.len())),
            // Only the sectors after some sector.
            _ => {
                let sectors = bytes.len() as u64 / SECTOR;
                let skipped = random.random_range(0..=sectors) * SECTOR;
                let from = skipped.saturating_sub(*offset % SECTOR);
                Self::Part(usize::try_from(from).unwrap().min(bytes.len()), bytes.len())
            }
        }
    }
}

/// Writes the files that a loss of power after these changes leaves. `random`: decides about the changes that are not
/// durable. None: they are lost.
pub(super) fn write_image(changes: &[Change], into: &Path, mut random: Option<StdRng>) {
    let tree = Tree::after(changes);
    let entries = tree.entries(&mut random);
    tree.write(0, into, &entries, &mut random);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(path: &str, offset: u64, data: &[u8]) -> Change {
        Change::Write { path: path.into(), offset, data: data.to_vec() }
    }

    fn sync(path: &str, began: usize) -> Change {
        Change::Sync { path: path.into(), began }
    }

    /// Returns the names and contents of the files after a loss of power that nothing survives which is not durable.
    fn left(changes: &[Change]) -> Vec<(String, Vec<u8>)> {
        let folder = tempfile::tempdir().unwrap();
        write_image(changes, folder.path(), None);
        let files = std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().path());
        let content =
            |path: PathBuf| (path.file_name().unwrap().to_str().unwrap().to_owned(), std::fs::read(path).unwrap());
        let mut files: Vec<_> = files.map(content).collect();
        files.sort();
        files
    }

    #[test]
    fn only_synced_data_and_entries_of_synced_folders_are_durable() {
        let mut changes = vec![Change::CreateFile("a".into()), write("a", 0, b"one"), sync("a", 2)];
        assert_eq!(left(&changes), [], "the folder was not synced");
        changes.extend([sync("", 3), write("a", 3, b"two")]);
        assert_eq!(left(&changes), [("a".to_owned(), b"one".to_vec())]);
        changes.extend([sync("a", 4), Change::Rename { from: "a".into(), to: "b".into() }]);
        assert_eq!(left(&changes), [("a".to_owned(), b"one".to_vec())], "the sync began before the write");
        changes.extend([sync("b", 7), sync("", 7)]);
        assert_eq!(left(&changes), [("b".to_owned(), b"onetwo".to_vec())]);
        changes.extend([Change::Remove("b".into()), sync("", 9)]);
        assert_eq!(left(&changes), [("b".to_owned(), b"onetwo".to_vec())]);
        changes.push(sync("", 10));
        assert_eq!(left(&changes), []);
    }
}

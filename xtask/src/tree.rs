//! The files of the project as the rules see them, read once; in unit tests made of literals.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::error::Error;
use crate::mask::Masked;
use crate::metadata::Workspace;
use crate::run;

/// The workspace's root directory.
pub fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent()
        .expect("xtask is a directory of the workspace")
        .to_owned()
}

/// The project's text files by path relative to the root, and its crates.
#[derive(Debug, Default)]
pub struct Tree {
    pub files: BTreeMap<String, File>,
    pub workspace: Workspace,
}

/// One text file.
#[derive(Debug)]
pub struct File {
    pub text: String,
    /// Code, comments and test lines told apart; of Rust files only.
    pub rust: Option<Masked>,
}

impl Tree {
    /// What git tracks or would track, without what isn't UTF-8 text.
    pub fn read() -> Result<Self, Error> {
        let list = ["ls-files", "-z", "--cached", "--others", "--exclude-standard"];
        let names = run::output(Command::new("git").args(list))?;
        let mut tree = Self {
            workspace: Workspace::read()?,
            ..Self::default()
        };
        for name in names.split(|byte| *byte == 0).filter(|name| !name.is_empty()) {
            let name = String::from_utf8_lossy(name).into_owned();
            let path = root().join(&name);
            // A tracked file may be deleted in the work tree, and a link may lead out of it.
            if !path.symlink_metadata().is_ok_and(|meta| meta.is_file()) {
                continue;
            }
            let bytes = std::fs::read(&path).map_err(|source| Error::File { path, source })?;
            if let Ok(text) = String::from_utf8(bytes) {
                tree.insert(name, text);
            }
        }
        Ok(tree)
    }

    fn insert(&mut self, name: String, text: String) {
        let rust = name.ends_with(".rs").then(|| Masked::new(&name, &text));
        self.files.insert(name, File { text, rust });
    }

    /// A tree of literals.
    #[cfg(test)]
    pub fn of(files: &[(&str, &str)]) -> Self {
        let mut tree = Self::default();
        for (name, text) in files {
            tree.insert((*name).to_owned(), (*text).to_owned());
        }
        tree
    }

    /// The Rust files with their masks.
    pub fn rust(&self) -> impl Iterator<Item = (&str, &File, &Masked)> {
        self.files
            .iter()
            .filter_map(|(name, file)| Some((name.as_str(), file, file.rust.as_ref()?)))
    }

    /// The files whose names end so.
    pub fn ending(&self, end: &str) -> impl Iterator<Item = (&str, &File)> {
        self.files
            .iter()
            .filter(move |(name, _)| name.ends_with(end))
            .map(|(name, file)| (name.as_str(), file))
    }

    /// Whether a path is a file or a directory with files.
    pub fn exists(&self, path: &str) -> bool {
        let path = path.trim_end_matches('/');
        let inside = format!("{path}/");
        path.is_empty()
            || self.files.contains_key(path)
            || self
                .files
                .range(inside.clone()..)
                .next()
                .is_some_and(|(name, _)| name.starts_with(&inside))
    }
}

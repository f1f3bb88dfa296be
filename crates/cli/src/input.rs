//! Reading files, folders and standard input.

use std::collections::BTreeSet;
use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use clap::Args;

/// In a folder, what can hold objects.
const SUFFIXES: [&str; 3] = ["yaml", "yml", "json"];

/// Where to read objects from.
#[derive(Debug, Args)]
pub(crate) struct Input {
    /// Files or folders with YAML or JSON; `-` is standard input. Folders are read with all folders in them, and there only `.yaml`,
    /// `.yml` and `.json`.
    #[arg(short = 'f', long = "filename", value_name = "PATH", num_args = 1.., required = true)]
    paths: Vec<PathBuf>,
}

/// A file, or why there is none.
pub(crate) struct File {
    /// As the user knows it.
    pub(crate) name: String,
    pub(crate) bytes: io::Result<Vec<u8>>,
}

impl Input {
    /// Reads one file after the other, each once.
    pub(crate) fn read(&self, mut each: impl FnMut(File)) {
        let mut seen = BTreeSet::new();
        for path in &self.paths {
            if path.as_os_str() == "-" {
                if seen.insert(path.clone()) {
                    let mut bytes = Vec::new();
                    let bytes = io::stdin().lock().read_to_end(&mut bytes).map(|_| bytes);
                    each(File {
                        name: "stdin".to_owned(),
                        bytes,
                    });
                }
            } else {
                walk(path, true, &mut seen, &mut each);
            }
        }
    }
}

/// `named`: the user named this very path.
fn walk(path: &Path, named: bool, seen: &mut BTreeSet<PathBuf>, each: &mut impl FnMut(File)) {
    if !named && !path.is_dir() && !is_known(path) {
        return;
    }
    let mut give = |bytes| {
        each(File {
            name: path.display().to_string(),
            bytes,
        });
    };
    // A file may be named twice, or lie in two folders that are; a link may lead back into its own folder.
    match fs::canonicalize(path) {
        Ok(real) if seen.contains(&real) => return,
        Ok(real) => seen.insert(real),
        Err(error) => return give(Err(error)),
    };
    if path.is_dir() {
        match entries(path) {
            Ok(entries) => entries.iter().for_each(|entry| walk(entry, false, seen, each)),
            Err(error) => give(Err(error)),
        }
    } else {
        give(fs::read(path));
    }
}

fn is_known(path: &Path) -> bool {
    path.extension()
        .is_some_and(|suffix| SUFFIXES.iter().any(|known| suffix.eq_ignore_ascii_case(known)))
}

/// What is in a folder, in order.
fn entries(folder: &Path) -> io::Result<BTreeSet<PathBuf>> {
    fs::read_dir(folder)?.map(|entry| Ok(entry?.path())).collect()
}

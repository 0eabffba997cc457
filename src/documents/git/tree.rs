//! Git trees: a commit's trees on the way to a path, and the same with one file replaced.

use crate::base::{BlobId, Result, SourcePath};
use crate::documents::git::failure::damaged;
use crate::documents::git::{Repo, hash_object, hex};

/// A file in a commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TreeEntry {
    /// Its content.
    pub blob: BlobId,
    /// Its mode in git's notation: `100644`, `100755`, `120000` (a link), `160000` (a submodule).
    pub mode: String,
}

/// A commit's trees on the way to a path, topmost first; the deepest may be missing.
#[derive(Clone, Debug)]
pub(in crate::documents) struct Grove {
    names: Vec<String>,
    trees: Vec<Vec<Leaf>>,
}

/// An entry of a tree as stored.
#[derive(Clone, Debug)]
struct Leaf {
    mode: String,
    name: Vec<u8>,
    id: BlobId,
}

impl Grove {
    /// Returns the entry at the path; `None` if there is no file.
    pub(in crate::documents) fn entry(&self) -> Option<TreeEntry> {
        let leaf = self.leaf(self.names.len() - 1)?;
        let is_tree = leaf.mode == "40000";
        (!is_tree).then(|| TreeEntry { blob: leaf.id.clone(), mode: leaf.mode.clone() })
    }

    /// Returns whether a file can be created at the path: neither a file nor a folder exists there,
    /// and no file is in place of a parent folder.
    pub(in crate::documents) fn is_free(&self) -> bool {
        let last = self.trees.len() - 1;
        self.leaf(last).is_none()
    }

    fn leaf(&self, level: usize) -> Option<&Leaf> {
        let name = self.names.get(level)?.as_bytes();
        self.trees.get(level)?.iter().find(|it| it.name == name)
    }
}

impl Repo {
    /// Returns a commit's entry at a path; `None` if there is no file.
    ///
    /// # Errors
    /// `unavailable` with code `repository_damaged` if the commit does not exist.
    pub async fn blob_at(&self, commit: &BlobId, path: &SourcePath) -> Result<Option<TreeEntry>> {
        if let Some(papers) = self.papers() {
            return Ok(papers.entry(self, path));
        }
        Ok(self.grove(commit, path).await?.entry())
    }

    /// Reads a commit's trees on the way to a path in one call, and proves them.
    ///
    /// # Errors
    /// Same as [`Repo::blob_at`]; `unavailable` with code `object_mismatch`.
    pub(in crate::documents) async fn grove(
        &self,
        commit: &BlobId,
        path: &SourcePath,
    ) -> Result<Grove> {
        let names: Vec<String> = self.git_path(path).split('/').map(str::to_owned).collect();
        // `COMMIT:` instead of `COMMIT^{tree}`: for the latter git returns the tree without
        // examining it, and problems are to be found here.
        let folders =
            (0..names.len()).map(|depth| format!("{commit}:{}", names[..depth].join("/")));
        let asked: Vec<String> = std::iter::once(commit.to_string()).chain(folders).collect();
        let mut found = self.objects_named(&asked).await?.into_iter();
        // The base's entries are carried over into the new commit: a tree under a wrong id would
        // add other files than those checked out.
        if let Some(object) = found.next().flatten() {
            self.prove(&object)?;
        }
        let mut trees = Vec::new();
        for (depth, object) in found.enumerate() {
            let Some(object) = object else {
                match depth {
                    0 => return Err(damaged(format!("the tree of commit {commit} is not there"))),
                    // No such folder, or its tree is missing.
                    _ => break,
                }
            };
            if object.kind != "tree" {
                break;
            }
            self.prove(&object)?;
            trees.push(self.leaves(&object.bytes)?);
        }
        let grove = Grove { names, trees };
        let level = grove.trees.len();
        let is_lost = level < grove.names.len()
            && grove.leaf(level - 1).is_some_and(|leaf| leaf.mode == "40000");
        match is_lost {
            true => Err(damaged(format!("a tree of commit {commit} is not there"))),
            false => Ok(grove),
        }
    }

    /// Stores the trees of a commit with one file replaced or added; the last id returned is the
    /// topmost. Other entries need not be present: the clone may be partial.
    pub(in crate::documents) async fn write_trees(
        &self,
        grove: &Grove,
        blob: &BlobId,
    ) -> Result<Vec<BlobId>> {
        let mut id = blob.clone();
        let mut written = Vec::new();
        let mut ids = Vec::new();
        for level in (0..grove.names.len()).rev() {
            let name = grove.names[level].as_bytes();
            let mut leaves = grove.trees.get(level).cloned().unwrap_or_default();
            let is_file = level + 1 == grove.names.len();
            match leaves.iter_mut().find(|it| it.name == name) {
                Some(leaf) => leaf.id = id,
                None => {
                    let mode = if is_file { "100644" } else { "40000" };
                    let leaf = Leaf { mode: mode.to_owned(), name: name.to_vec(), id };
                    let place = leaves.partition_point(|it| sort_key(it) < sort_key(&leaf));
                    leaves.insert(place, leaf);
                }
            }
            for leaf in &leaves {
                written.extend_from_slice(&listed(leaf));
            }
            // An empty record ends a tree.
            written.push(0);
            id = self.tree_id(&leaves);
            ids.push(id.clone());
        }
        let call = self.git().call(&["mktree", "-z", "--batch", "--missing"]).writing();
        let told = call.stdin(written).line().await?;
        let is_same = told.lines().eq(ids.iter().map(BlobId::as_str));
        // Refuse a tree that git would serialize differently: it is malformed.
        match is_same {
            true => Ok(ids),
            false => Err(damaged("git would write the folders of the last commit otherwise")),
        }
    }

    fn leaves(&self, tree: &[u8]) -> Result<Vec<Leaf>> {
        let id_bytes = self.shared.format.id_bytes();
        let mut rest = tree;
        let mut leaves = Vec::new();
        while !rest.is_empty() {
            let leaf = || {
                let space = rest.iter().position(|it| *it == b' ')?;
                let nul = rest.iter().position(|it| *it == 0)?;
                let (mode, name) = (rest.get(..space)?, rest.get(space + 1..nul)?);
                let id = rest.get(nul + 1..nul + 1 + id_bytes)?;
                let mode = String::from_utf8(mode.to_vec()).ok()?;
                let leaf = Leaf { mode, name: name.to_vec(), id: hex(id).parse().ok()? };
                Some((leaf, nul + 1 + id_bytes))
            };
            let Some((leaf, length)) = leaf() else {
                return Err(damaged("a tree of the last commit is not well made"));
            };
            leaves.push(leaf);
            rest = &rest[length..];
        }
        Ok(leaves)
    }

    fn tree_id(&self, leaves: &[Leaf]) -> BlobId {
        let mut bytes = Vec::new();
        for leaf in leaves {
            bytes.extend_from_slice(leaf.mode.as_bytes());
            bytes.push(b' ');
            bytes.extend_from_slice(&leaf.name);
            bytes.push(0);
            bytes.extend(raw(leaf.id.as_str()));
        }
        hash_object(self.shared.format, "tree", &bytes)
    }
}

/// Returns the sort key of an entry: folders sort as if their names ended in a slash.
fn sort_key(leaf: &Leaf) -> Vec<u8> {
    let mut key = leaf.name.clone();
    if leaf.mode == "40000" {
        key.push(b'/');
    }
    key
}

/// Formats an entry for `git mktree -z`.
fn listed(leaf: &Leaf) -> Vec<u8> {
    let kind = match leaf.mode.as_str() {
        "40000" => "tree",
        "160000" => "commit",
        _ => "blob",
    };
    let mut record = format!("{:0>6} {kind} {}\t", leaf.mode, leaf.id).into_bytes();
    record.extend_from_slice(&leaf.name);
    record.push(0);
    record
}

/// Decodes hexadecimal digits.
fn raw(hex: &str) -> impl Iterator<Item = u8> + '_ {
    let digit = |it: u8| char::from(it).to_digit(16).unwrap_or(0) as u8;
    hex.as_bytes().chunks_exact(2).map(move |pair| digit(pair[0]) * 16 + digit(pair[1]))
}

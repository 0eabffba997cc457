//! How far a call of git opens files, which tells where to look before it is started.

/// Commands that open nothing in the working tree.
const IN_FOLDER: &[&str] = &[
    "commit-tree",
    "for-each-ref",
    "ls-tree",
    "merge-base",
    "mktree",
    "rev-list",
    "rev-parse",
    "symbolic-ref",
    "update-ref",
];
/// Options of `git ls-files` with which it reads nothing but the index.
const LISTS_INDEX: &[&str] = &["-s", "-v", "-z"];

/// How far a call of git opens files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reach {
    /// The configuration and the index: what a server needs to start.
    Index,
    /// Any file in git's own folder.
    Folder,
    /// The working tree, too, with the attributes of each folder.
    Tree,
}

impl Reach {
    /// Returns how far a call with these arguments reaches: to the working tree, unless it is known
    /// not to.
    pub(super) fn of(args: &[String]) -> Reach {
        let mut words = args.iter().map(String::as_str);
        // Settings come in front, each after its `-c`.
        let command = loop {
            match words.next() {
                Some("-c") => drop(words.next()),
                word => break word.unwrap_or_default(),
            }
        };
        let rest: Vec<&str> = words.take_while(|it| *it != "--").collect();
        let has = |names: &[&str]| rest.iter().any(|it| names.contains(it));
        match command {
            "config" => Reach::Index,
            "ls-files" if rest.iter().all(|it| LISTS_INDEX.contains(it)) => Reach::Index,
            "cat-file" if !has(&["--filters", "--textconv"]) => Reach::Folder,
            "hash-object" if has(&["--no-filters"]) => Reach::Folder,
            _ if IN_FOLDER.contains(&command) => Reach::Folder,
            _ => Reach::Tree,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_calls_that_are_known_open_nothing_in_the_tree() {
        let reach = |line: &str| Reach::of(&line.split(' ').map(str::to_owned).collect::<Vec<_>>());
        assert_eq!(reach("-c core.sparseCheckout=false ls-files -z -- a --others"), Reach::Index);
        assert_eq!(reach("config --null --list"), Reach::Index);
        assert_eq!(reach("ls-files -z --others"), Reach::Tree);
        assert_eq!(reach("-c a=b cat-file blob 1234"), Reach::Folder);
        assert_eq!(reach("cat-file --filters HEAD:a"), Reach::Tree);
        assert_eq!(reach("hash-object --stdin --no-filters"), Reach::Folder);
        assert_eq!(reach("hash-object --stdin a.md"), Reach::Tree);
        assert_eq!(reach("status"), Reach::Tree);
        assert_eq!(reach(""), Reach::Tree);
    }
}

//! The checkout: made with git, verified without git's index.

use std::path::Path;

use crate::environments::files::{self, Tree};
use crate::environments::program::{self, Program};
use crate::environments::release::Release;
use crate::environments::{Error, Layout, io, lock, remove, replace};

/// Settings of git that a user's own would change the files with, or run programs by.
const PLAIN: [&str; 8] = [
    "-c", "core.autocrlf=false", "-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=false", "-c",
    "advice.detachedHead=false",
];

impl Release {
    /// The commands that make the checkout, as a shell takes them.
    pub(crate) fn checkout_commands(&self, layout: &Layout) -> Vec<String> {
        let part = layout.checkout().with_added_extension("part");
        self.fetches(&self.url, &part).iter().map(|(_, program)| program.line()).collect()
    }

    /// Makes the checkout and the copies, or verifies those that are there. `note` is given what is being done.
    ///
    /// # Errors
    /// No git, a repository that cannot be fetched, another commit or tree, a file of the checkout that is not the
    /// release's.
    pub fn check_out(&self, layout: &Layout, note: &mut dyn FnMut(&str)) -> Result<(), Error> {
        program::find("git", "install it with the system's packages")?;
        let folder = layout.checkout();
        let _lock = lock(&folder)?;
        if !folder.exists() {
            note("fetching the release");
            self.fetch(layout)?;
        }
        let tree = self.verify(&folder)?;
        for (from, name) in &self.copies {
            let (source, target) = (folder.join(from), layout.engines().join(name));
            let tree = below(&tree, from);
            if tree.is_empty() {
                return Err(damaged(&folder, format!("the release has no folder {from}")));
            }
            if target.is_dir() && files::difference(&target, &tree)?.is_none() {
                continue;
            }
            note(&format!("copying {from}"));
            let part = target.with_added_extension("part");
            remove(&part)?;
            files::copy(&source, &part, &tree)?;
            replace(&part, &target)?;
        }
        Ok(())
    }

    /// Verifies the checkout and the copies that are there.
    ///
    /// # Errors
    /// One that is missing or is not the release's.
    pub(crate) fn is_checked_out(&self, layout: &Layout) -> Result<(), Error> {
        let tree = self.verify(&layout.checkout())?;
        for (from, name) in &self.copies {
            let copy = layout.engines().join(name);
            let finding = match copy.is_dir() {
                true => files::difference(&copy, &below(&tree, from))?,
                false => Some("missing".to_owned()),
            };
            if let Some(finding) = finding {
                return Err(damaged(&copy, finding));
            }
        }
        Ok(())
    }

    /// The steps of a checkout in words, and their commands.
    fn fetches(&self, url: &str, part: &Path) -> Vec<(&'static str, Program)> {
        let part = part.display().to_string();
        let git = |words: &[&str]| Program::new(["git"]).args(PLAIN).args(["-C", &part]).args(words.to_vec());
        // Nobody is there to type a password.
        let quiet = |program: Program| program.env("GIT_TERMINAL_PROMPT", "0");
        vec![
            ("git init", Program::new(["git"]).args(PLAIN).args(["init", "--quiet", &part])),
            ("git remote", git(&["remote", "add", "origin", url])),
            ("git sparse-checkout", git(&["sparse-checkout", "set", "--cone"]).args(&self.folders)),
            // The commit and no branch, which may have moved; its files come with the checkout.
            (
                "git fetch",
                quiet(git(&[
                    "fetch", "--filter=blob:none", "--depth=1", "--no-tags", "origin", &self.commit,
                ])),
            ),
            ("git checkout", quiet(git(&["checkout", "--quiet", "--detach", &self.commit]))),
        ]
    }

    /// Fetches the release beside its name and renames it when it is verified.
    fn fetch(&self, layout: &Layout) -> Result<(), Error> {
        let (folder, logs) = (layout.checkout(), layout.environments());
        let part = folder.with_added_extension("part");
        remove(&part)?;
        // git would look for a relative path below the new repository.
        let url = match Path::new(&self.url) {
            local if local.is_dir() => {
                std::fs::canonicalize(local).map_err(io("read", local))?.display().to_string()
            }
            _ => self.url.clone(),
        };
        for (what, program) in self.fetches(&url, &part) {
            program.run(what, "checkout", &logs, None)?;
        }
        self.verify(&part)?;
        replace(&part, &folder)
    }

    /// The tree of a checkout that is the release, whole and unchanged.
    fn verify(&self, folder: &Path) -> Result<Tree, Error> {
        let git = |words: &[&str]| {
            let (top, inner) = (folder.display().to_string(), folder.join(".git").display().to_string());
            let git = Program::new(["git"]).args(PLAIN).args(["--git-dir", &inner, "--work-tree", &top]);
            git.args(words.to_vec()).answer().map_err(|message| damaged(folder, message))
        };
        let id = |name: &str| -> Result<String, Error> {
            Ok(String::from_utf8_lossy(&git(&["rev-parse", "--verify", name])?).trim().to_owned())
        };
        for (kind, name, wanted) in [("commit", "HEAD", &self.commit), ("tree", "HEAD^{tree}", &self.tree)] {
            let found = id(name)?;
            if !found.eq_ignore_ascii_case(wanted) {
                return Err(damaged(folder, format!("{kind} {found} instead of {wanted}")));
            }
        }
        let listing = git(&["ls-tree", "-r", "-z", "--full-tree", &self.commit])?;
        let tree = files::parse(&listing).map_err(|message| damaged(folder, message))?;
        let tree: Tree = tree.into_iter().filter(|(path, _)| self.has(path)).collect();
        match files::difference(folder, &tree)? {
            None => Ok(tree),
            Some(finding) => Err(Error::Checkout {
                folder: folder.to_owned(),
                finding,
                remedy: "move your changes elsewhere and remove the folder; it is then made again".to_owned(),
            }),
        }
    }
}

fn damaged(folder: &Path, finding: String) -> Error {
    let remedy = "remove the folder and run the command again".to_owned();
    Error::Checkout { folder: folder.to_owned(), finding, remedy }
}

/// The part of a tree below a folder of it, by the paths from there.
fn below(tree: &Tree, folder: &str) -> Tree {
    let inner = |path: &String| Some(path.strip_prefix(folder)?.strip_prefix('/')?.to_owned());
    tree.iter().filter_map(|(path, id)| Some((inner(path)?, id.clone()))).collect()
}

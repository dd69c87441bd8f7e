//! The release in a folder of its own, all of it stood in for: programs that write what the real ones write.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

/// Makes the folders of the checkout and of the environment, unless they are there.
pub(crate) fn release(root: &Path) {
    let checkout = ["checkout/paravt/sft/lmms-engine/src/lmms_engine", "checkout/paravt/rl/configs"];
    for folder in ["env/bin", "engines/areal"].into_iter().chain(checkout) {
        std::fs::create_dir_all(root.join(folder)).unwrap();
    }
    std::fs::write(root.join("checkout/paravt/rl/configs/paragrpo_8b.yaml"), "").unwrap();
    let paths = std::env::var_os("PATH").unwrap();
    let mut found = std::env::split_paths(&paths).map(|folder| folder.join("python3"));
    let python = found.find(|path| path.is_file()).expect("python3 is on PATH").display().to_string();
    let (torchrun, interpreter) = (include_str!("torchrun"), include_str!("python3"));
    for (name, text) in [("torchrun", torchrun), ("python", interpreter), ("python3", interpreter)] {
        let program = root.join("env/bin").join(name);
        if !program.exists() {
            // The environment's own `python3` is a stand-in: the first line names the real one.
            std::fs::write(&program, text.replacen("/usr/bin/env python3", &python, 1)).unwrap();
            std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
        }
    }
}

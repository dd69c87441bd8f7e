//! Lists the splits of every benchmark that `Cargo.toml` names, in its order.

use std::path::Path;

fn main() {
    println!("cargo::rerun-if-changed=Cargo.toml");
    let manifest = std::fs::read_to_string("Cargo.toml").expect("the manifest of a crate can be read");
    let names = manifest.lines().filter_map(|line| line.strip_prefix("paravt-task-")?.split_once(' '));
    let splits = names.map(|(name, _)| format!("paravt_task_{}::SPLITS,\n", name.replace('-', "_")));
    let list = format!("&[\n{}]\n", splits.collect::<String>());
    let folder = std::env::var_os("OUT_DIR").expect("cargo names a folder for what a build script makes");
    std::fs::write(Path::new(&folder).join("splits.rs"), list).expect("cargo's folder can be written");
}

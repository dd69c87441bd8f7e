//! Compiled kernels are kept: by NVRTC, which needs no GPU, and by a stand-in where it is not at hand.
#![allow(clippy::unwrap_used)]

use std::cell::Cell;
use std::ffi::{CString, c_char, c_int, c_void};
use std::path::{Path, PathBuf};
use std::ptr::{null, null_mut};

use candle_core::{Error, Result};
use libloading::Library;
use paravt_backend_candle::fused::{KernelCache, Module, Source};

fn files(folder: &Path) -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> =
        std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files
}

#[test]
fn a_text_is_compiled_once_for_each_compiler_and_architecture() {
    let root = tempfile::tempdir().unwrap();
    let folder = root.path().join("new/kernels");
    let cache = KernelCache::new(Some(folder.clone()));
    let compiled = Cell::new(0);
    let get = |text: &str, capability, compiler| {
        let options = Module::options(capability);
        let source = Source { text, options: &options, compiler };
        let compile = || {
            compiled.set(compiled.get() + 1);
            Ok(format!("{text} {capability:?} {compiler:?}\n"))
        };
        assert_eq!(cache.get(source, compile).unwrap(), format!("{text} {capability:?} {compiler:?}\n"));
        compiled.get()
    };
    assert_eq!(get("a", (9, 0), (13, 0)), 1);
    assert_eq!(get("a", (9, 0), (13, 0)), 1, "kept");
    assert_eq!(get("a", (8, 0), (13, 0)), 2, "another architecture");
    assert_eq!(get("a", (9, 0), (12, 8)), 3, "another compiler");
    assert_eq!(get("b", (9, 0), (13, 0)), 4, "another text");
    assert_eq!(files(&folder).len(), 4, "nothing lies beside them");

    for damage in [&b"short"[..], b"", b"\xff\xfe\n", b"0000\na (9, 0) (13, 0)\n"] {
        for file in files(&folder) {
            std::fs::write(file, damage).unwrap();
        }
        let before = compiled.get();
        assert_eq!(get("a", (9, 0), (13, 0)), before + 1, "{damage:?}");
        assert_eq!(get("a", (9, 0), (13, 0)), before + 1, "written again after {damage:?}");
    }

    let failed =
        cache.get(Source { text: "c", options: &[], compiler: (13, 0) }, || Err(Error::msg("syntax")));
    assert!(failed.is_err() && files(&folder).len() == 4, "what does not compile is not kept");
    // A folder that cannot be made: compiled all the same.
    let blocked = KernelCache::new(Some(files(&folder)[0].join("below a file")));
    let source = Source { text: "d", options: &[], compiler: (13, 0) };
    assert_eq!(blocked.get(source, || Ok("d".to_owned())).unwrap(), "d");
}

/// NVRTC, loaded from a file.
struct Nvrtc(Library);

impl Nvrtc {
    /// Calls a function that answers 0 for success.
    #[allow(unsafe_code)]
    fn call<A>(&self, name: &str, call: impl FnOnce(&libloading::Symbol<'_, A>) -> c_int) {
        // SAFETY: the callers below give the functions' types as `nvrtc.h` has them.
        let function = unsafe { self.0.get::<A>(name.as_bytes()) }.unwrap();
        assert_eq!(call(&function), 0, "{name}");
    }

    #[allow(unsafe_code)]
    fn version(&self) -> (i32, i32) {
        let (mut major, mut minor) = (0, 0);
        self.call::<unsafe extern "C" fn(*mut c_int, *mut c_int) -> c_int>("nvrtcVersion", |f| unsafe {
            f(&raw mut major, &raw mut minor)
        });
        (major, minor)
    }

    #[allow(unsafe_code)]
    fn compile(&self, text: &str, options: &[String]) -> Result<String> {
        type Create = unsafe extern "C" fn(
            *mut *mut c_void,
            *const c_char,
            *const c_char,
            c_int,
            *const *const c_char,
            *const *const c_char,
        ) -> c_int;
        type Compile = unsafe extern "C" fn(*mut c_void, c_int, *const *const c_char) -> c_int;
        type Size = unsafe extern "C" fn(*mut c_void, *mut usize) -> c_int;
        type Text = unsafe extern "C" fn(*mut c_void, *mut c_char) -> c_int;
        let (mut program, mut size) = (null_mut(), 0);
        let text = CString::new(text).unwrap();
        let options: Vec<CString> =
            options.iter().map(|option| CString::new(option.as_str()).unwrap()).collect();
        let options: Vec<*const c_char> = options.iter().map(|option| option.as_ptr()).collect();
        self.call::<Create>("nvrtcCreateProgram", |f| unsafe {
            f(&raw mut program, text.as_ptr(), null(), 0, null(), null())
        });
        self.call::<Compile>("nvrtcCompileProgram", |f| unsafe {
            f(program, c_int::try_from(options.len()).unwrap(), options.as_ptr())
        });
        self.call::<Size>("nvrtcGetPTXSize", |f| unsafe { f(program, &raw mut size) });
        let mut ptx = vec![0u8; size];
        self.call::<Text>("nvrtcGetPTX", |f| unsafe { f(program, ptx.as_mut_ptr().cast()) });
        self.call::<unsafe extern "C" fn(*mut *mut c_void) -> c_int>("nvrtcDestroyProgram", |f| unsafe {
            f(&raw mut program)
        });
        ptx.pop();
        String::from_utf8(ptx).map_err(Error::wrap)
    }
}

mod nvrtc {
    use super::*;

    #[test]
    #[ignore = "needs NVRTC: run by ci/gpu/check-cuda"]
    #[allow(unsafe_code)]
    fn kernels_that_nvrtc_compiled_are_read_back_as_they_were() {
        let path = std::env::var_os("PARAVT_NVRTC").expect("PARAVT_NVRTC: the path of libnvrtc.so");
        // SAFETY: NVRTC's start-up code has no precondition. It asks for its builtins by name, where the loader may not look.
        let load = |path: &Path| unsafe { Library::new(path) }.unwrap();
        let beside = files(Path::new(&path).parent().unwrap());
        let builtins = beside.iter().filter(|file| file.to_string_lossy().contains("libnvrtc-builtins.so."));
        let _builtins: Vec<Library> = builtins.map(|file| load(file)).collect();
        let nvrtc = Nvrtc(load(Path::new(&path)));
        let folder = tempfile::tempdir().unwrap();
        let cache = KernelCache::new(Some(folder.path().to_owned()));
        for capability in [(8, 0), (9, 0)] {
            for module in [Module::Rows, Module::Sampling, Module::Attention(72), Module::Attention(128)] {
                let (text, options) = (Module::PTX.to_owned() + &module.text(), Module::options(capability));
                let source = Source { text: &text, options: &options, compiler: nvrtc.version() };
                let started = std::time::Instant::now();
                let compiled = cache.get(source, || nvrtc.compile(&text, &options)).unwrap();
                let (took, again) = (started.elapsed(), std::time::Instant::now());
                assert!(
                    compiled.contains(".visible .entry")
                        && compiled.contains(&format!("sm_{}{}", capability.0, capability.1))
                );
                assert_eq!(cache.get(source, || Err(Error::msg("compiled twice"))).unwrap(), compiled);
                println!(
                    "{module:?} {capability:?}: {} bytes in {took:.1?}, kept {:.1?}",
                    compiled.len(),
                    again.elapsed()
                );
            }
        }
    }
}

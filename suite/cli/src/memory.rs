//! What becomes of memory that is freed.

/// Has the allocator keep it, for a process that trains.
///
/// A step makes and drops thousands of tensors of a megabyte or more. By default glibc hands each back to
/// the kernel and gets it again page by page: a sixth of the step. Inference makes few of them, and its
/// peak would grow.
pub fn keep() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    {
        const LARGEST: libc::c_int = 1 << 30;
        // SAFETY: both only change thresholds of the allocator, which it takes at any time.
        #[allow(unsafe_code)]
        unsafe {
            libc::mallopt(libc::M_MMAP_THRESHOLD, LARGEST);
            libc::mallopt(libc::M_TRIM_THRESHOLD, libc::c_int::MAX);
        }
    }
}

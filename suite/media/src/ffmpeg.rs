//! FFmpeg's libraries, loaded when the first video is opened.
//!
//! A program that is linked with them loads them, and the more than a hundred libraries that they need, before its
//! first line: most of the time of `--help`, and an error of the dynamic loader where they are missing. So every
//! function of FFmpeg that `ffmpeg-next` or this workspace calls is defined here once more, as a jump to the address
//! that [`load`] finds. The linker then drops the libraries, of which nothing is missing any more. A function that
//! is not in the list is linked as ever: the libraries come back as dependencies of the program, and a test of the
//! command fails.
//!
//! Linux on x86-64 and AArch64 only; elsewhere FFmpeg is linked.

use std::sync::OnceLock;

use ffmpeg_next as ff;

/// Loads FFmpeg's libraries once and silences their log: failures come back as errors.
///
/// # Errors
/// The libraries are missing, or of another major version than the ones that this program was built with.
pub fn load() -> Result<(), String> {
    static ONCE: OnceLock<Result<(), String>> = OnceLock::new();
    ONCE.get_or_init(|| {
        #[cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")))]
        jumps::fill()?;
        ff::init().map_err(|error| error.to_string())?;
        ff::log::set_level(ff::log::Level::Quiet);
        Ok(())
    })
    .clone()
}

#[cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")))]
mod jumps {
    use std::error::Error as _;
    use std::ffi::{CString, c_void};
    use std::sync::atomic::{AtomicPtr, Ordering};

    use ffmpeg_next::ffi;
    use libloading::os::unix::{Library, RTLD_LAZY, RTLD_LOCAL};

    /// A library's name without its version, the version, and its functions with their addresses.
    type Functions = (&'static str, u32, &'static [(&'static str, &'static AtomicPtr<c_void>)]);

    /// Loads the libraries and takes down the functions' addresses.
    pub(super) fn fill() -> Result<(), String> {
        for (name, version, functions) in LIBRARIES {
            let file = format!("{name}.so.{version}");
            // SAFETY: the initialisers of FFmpeg's libraries ask nothing of the program that loads them.
            let library = unsafe { Library::open(Some(&file), RTLD_LAZY | RTLD_LOCAL) };
            let library = library.map_err(|error| {
                let cause = error.source().map_or_else(|| error.to_string(), ToString::to_string);
                format!("FFmpeg's libraries cannot be loaded: {cause}; install FFmpeg, e.g. `apt-get install ffmpeg`")
            })?;
            for (function, slot) in *functions {
                let symbol = CString::new(*function).map_err(|error| error.to_string())?;
                // SAFETY: only the address is taken; the declaration that callers see is that of the headers that
                // this program was built with, of the same major version.
                let address = unsafe { library.get::<*mut c_void>(symbol.as_bytes_with_nul()) };
                // A function that this version lacks is not called by code that was built for it.
                if let Ok(address) = address {
                    slot.store(address.as_raw_ptr(), Ordering::Release);
                }
            }
            // Never unloaded: the addresses stay in use.
            let _ = library.into_raw();
        }
        Ok(())
    }

    extern "C" fn not_loaded() {
        eprintln!("error: a function of FFmpeg was called that is not loaded");
        std::process::abort();
    }

    macro_rules! libraries {
        ($($library:literal $version:ident { $($function:ident)* })*) => {
            $($(
                #[allow(non_snake_case, reason = "the functions' own names")]
                mod $function {
                    use super::*;

                    pub(super) static ADDRESS: AtomicPtr<c_void> = AtomicPtr::new(not_loaded as *mut c_void);

                    // SAFETY (of the exported name): the function is FFmpeg's own, a jump away; nothing but the
                    // instruction pointer changes (x16 is the linker's scratch register).
                    #[unsafe(naked)]
                    #[unsafe(no_mangle)]
                    unsafe extern "C" fn $function() {
                        #[cfg(target_arch = "x86_64")]
                        std::arch::naked_asm!("jmp qword ptr [rip + {address}]", address = sym ADDRESS);
                        #[cfg(target_arch = "aarch64")]
                        std::arch::naked_asm!(
                            "adrp x16, {address}",
                            "ldr x16, [x16, :lo12:{address}]",
                            "br x16",
                            address = sym ADDRESS
                        );
                    }
                }
            )*)*
            const LIBRARIES: &[Functions] = &[$(
                ($library, ffi::$version as u32, &[$((stringify!($function), &$function::ADDRESS)),*]),
            )*];
        };
    }

    // In the order in which they need each other.
    libraries! {
        "libavutil" LIBAVUTIL_VERSION_MAJOR {
            av_color_primaries_name av_color_range_name av_color_space_name av_color_transfer_name
            av_dict_copy av_dict_free av_dict_get av_dict_set av_display_rotation_get av_frame_alloc
            av_frame_copy av_frame_copy_props av_frame_free av_frame_get_buffer av_freep
            av_get_bits_per_pixel av_get_channel_layout_nb_channels av_get_default_channel_layout
            av_log_get_flags av_log_get_level av_log_set_flags av_log_set_level av_mallocz
            av_pix_fmt_desc_get av_realloc av_reduce av_strdup av_strerror
        }
        "libavcodec" LIBAVCODEC_VERSION_MAJOR {
            av_codec_is_decoder av_codec_is_encoder av_init_packet av_packet_rescale_ts
            av_packet_unref avcodec_alloc_context3 avcodec_close avcodec_configuration
            avcodec_encode_subtitle avcodec_find_decoder avcodec_find_decoder_by_name
            avcodec_find_encoder avcodec_find_encoder_by_name avcodec_flush_buffers
            avcodec_free_context avcodec_get_name avcodec_get_type avcodec_license avcodec_open2
            avcodec_parameters_alloc avcodec_parameters_copy avcodec_parameters_free
            avcodec_parameters_from_context avcodec_parameters_to_context avcodec_receive_frame
            avcodec_receive_packet avcodec_send_frame avcodec_send_packet avcodec_version
        }
        "libavformat" LIBAVFORMAT_VERSION_MAJOR {
            av_dump_format av_find_best_stream av_interleaved_write_frame av_read_frame
            av_read_pause av_read_play av_seek_frame av_write_trailer avformat_alloc_context
            avformat_alloc_output_context2 avformat_close_input avformat_configuration
            avformat_find_stream_info avformat_free_context avformat_index_get_entries_count
            avformat_index_get_entry avformat_license avformat_network_deinit avformat_network_init
            avformat_new_stream avformat_open_input avformat_version avformat_write_header
            avio_close avio_context_free avio_flush avio_open avio_size
        }
        "libswscale" LIBSWSCALE_VERSION_MAJOR {
            sws_allocVec sws_freeContext sws_freeFilter sws_freeVec sws_getCachedContext
            sws_getCoefficients sws_getContext sws_getDefaultFilter sws_getGaussianVec
            sws_isSupportedEndiannessConversion sws_isSupportedInput sws_isSupportedOutput
            sws_normalizeVec sws_scale sws_scaleVec sws_setColorspaceDetails swscale_configuration
            swscale_license swscale_version
        }
    }
}

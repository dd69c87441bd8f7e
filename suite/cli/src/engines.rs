//! Models that a recipe trains, examines or serves, behind backends.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{bail, ensure};
use paravt_backend_candle as candle;
use paravt_backends::Flags;
use paravt_qwen_vl::engine::Options;
use paravt_qwen_vl::flags::{EngineFlags, free_memory};
use paravt_qwen_vl::ops::Precision;
use paravt_suite::backend::{Backend, CallId, ErrorClass, Generation, Request};
use paravt_suite::message::{Image, Message, Part, Role};
use paravt_train::Compute;

use crate::launch::note;

/// Time that a server gets to answer a probe; the first answer may compile kernels.
const PROBE_TIMEOUT: Duration = Duration::from_secs(300);

/// Where and in what to train.
pub(crate) fn compute(flags: &EngineFlags) -> anyhow::Result<Compute> {
    let device = flags.device()?;
    let precision = flags.precision(device);
    ensure!(precision != Precision::F16, "--dtype f16: gradients would vanish; bf16 or f32 train");
    Ok(Compute::new(device, precision)?)
}

/// A model folder on candle, where its trainer computes.
pub(crate) fn start_candle(
    model: &Path,
    batch: usize,
    compute: &Compute,
) -> anyhow::Result<Arc<dyn Backend>> {
    let device = compute.device();
    let options = Options {
        device: device.kind().to_owned(),
        precision: compute.precision(),
        memory: if device.is_cpu() { free_memory(device) } else { u64::MAX },
        batch,
        ..Options::new(model.to_owned())
    };
    Ok(Arc::new(candle::start(options, device)?))
}

/// Asks a server one question in text and one about an image. A model that ends at once has answered.
pub(crate) async fn probe(flags: &Flags, base_url: &str, model: &str) -> anyhow::Result<()> {
    let flags = flags.on_servers(&[base_url.to_owned()], model);
    let fetch = |_: &str, _: &str| bail!("a server loads its model itself");
    let backend = flags.open(fetch, note).trying_once_within(PROBE_TIMEOUT).build("probe", None).await?;
    for (step, part) in [("text", None), ("image", Some(Part::Image(gray_image())))] {
        let text = Part::Text("Answer with one word: what is this?".to_owned());
        let message = Message::parts(Role::User, part.into_iter().chain([text]).collect());
        let id = CallId::new("probe", step);
        match backend.complete(&Request::new(id, vec![message], Generation::greedy(8))).await {
            Ok(_) => {}
            Err(error) if error.class == ErrorClass::EmptyReply => {}
            Err(error) => bail!("{step} request: {error}"),
        }
    }
    Ok(())
}

/// A gray picture of 64 by 64 pixels.
fn gray_image() -> Arc<Image> {
    let mut bytes = Vec::new();
    let mut encoder = png::Encoder::new(&mut bytes, 64, 64);
    encoder.set_color(png::ColorType::Rgb);
    let written = encoder.write_header().and_then(|mut writer| writer.write_image_data(&[128; 64 * 64 * 3]));
    written.expect("writing into memory does not fail");
    Arc::new(Image::new("image/png", bytes, 64, 64, None))
}

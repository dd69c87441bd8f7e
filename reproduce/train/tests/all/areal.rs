//! The first steps of the release's own trainer (AReaL on a CPU), and the same steps by this one: same weights, same
//! rollouts. `ci/target8/train` makes the former and runs this.

use std::path::{Path, PathBuf};

use candle_core::{Device, Tensor};
use paravt_qwen_vl::processor::Pixels;
use paravt_qwen_vl::prompt::{Medium, Prompt};
use paravt_train::Compute;
use paravt_train::example::Example;
use paravt_train::learner::Learner;
use paravt_train::objective::{Knobs, Sequence, advantages, pack, policy_loss, token_logprobs, token_losses};
use paravt_train::optimizer::{AdamW, AdamWConfig, Gradients};

/// Samples of a prompt in `ci/target8/train.toml`.
const GROUP: usize = 4;
/// Temperature of the release's reference, whose configuration names none.
const REFERENCE_TEMPERATURE: f64 = 1.0;

fn given(name: &str) -> PathBuf {
    std::env::var_os(name).unwrap_or_else(|| panic!("{name} is set by ci/target8/train")).into()
}

/// One rollout as the release's actor was given it, and its advantages.
struct Rollout {
    example: Example,
    behaviour: Vec<f64>,
    reference: Vec<f64>,
    prox: Vec<f64>,
    advantages: Vec<f64>,
    reward: f64,
    group: usize,
}

impl Rollout {
    fn sequence<'a>(&'a self, reference: &'a [f64]) -> Sequence<'a> {
        Sequence {
            loss_mask: &self.example.trained,
            behaviour: &self.behaviour,
            reference: Some(reference),
            reward: self.reward,
            group: self.group,
        }
    }

    /// Values of the positions that predict a trained token.
    fn at<'a>(&'a self, values: &'a [f64]) -> impl Iterator<Item = f64> + 'a {
        self.example.rows().map(|row| values[row])
    }
}

/// A step of all ranks.
#[derive(Default)]
struct Step {
    rollouts: Vec<Rollout>,
    /// Mean loss of all trained tokens.
    loss: f64,
    grad_norm: f64,
    learning_rate: f64,
}

impl Step {
    fn read(folder: &Path, step: usize, learner: &Learner) -> Option<Self> {
        let (mut made, mut weights) = (Self::default(), 0.0);
        for rank in 0.. {
            let path = folder.join(format!("step-{step}-rank-{rank}.safetensors"));
            if !path.exists() {
                break;
            }
            let file = candle_core::safetensors::load(&path, &Device::Cpu).unwrap();
            let row = |name: &str, row: usize| -> Vec<f64> {
                let values = file[name].get(row).unwrap().flatten_all().unwrap();
                values.to_vec1::<f32>().unwrap().into_iter().map(f64::from).collect()
            };
            let rows = file["rewards"].dims()[0];
            for number in 0..rows {
                let cut = |name: &str| {
                    let length = row("attention_mask", number).iter().sum::<f64>() as usize;
                    row(name, number)[..length].to_vec()
                };
                let positions = file["positions"].get(number).unwrap().to_vec2::<i64>().unwrap();
                let ids: Vec<u32> = cut("input_ids").iter().map(|&id| id as u32).collect();
                let prompt = Prompt {
                    text: String::new(),
                    positions: positions
                        .iter()
                        .map(|at| [at[0] as u32, at[1] as u32, at[2] as u32])
                        .take(ids.len())
                        .collect(),
                    next_position: 0,
                    media: media(&file[&format!("pictures.{number}")], &ids, learner),
                    ids,
                };
                let trained = cut("loss_mask").iter().map(|&mask| mask > 0.0).collect();
                made.rollouts.push(Rollout {
                    example: Example::of_prompt(prompt, trained),
                    behaviour: cut("logprobs"),
                    reference: cut("ref_logp"),
                    prox: cut("prox_logp"),
                    advantages: cut("advantages"),
                    reward: row("rewards", number)[0],
                    group: rank * rows + number / GROUP,
                });
            }
            for part in file["losses"].to_vec2::<f32>().unwrap() {
                made.loss += f64::from(part[0]) * f64::from(part[1]);
                weights += f64::from(part[1]);
            }
            made.grad_norm = row("grad_norm", 0)[0];
            made.learning_rate = row("lr", 0)[0];
        }
        made.loss /= weights;
        (weights > 0.0).then_some(made)
    }
}

/// The frames of a rollout, (number, row, column, channel) of bytes, at their runs of placeholders.
fn media(pictures: &Tensor, ids: &[u32], learner: &Learner) -> Vec<Medium> {
    let prompter = learner.prompter();
    let placeholder = prompter.tokenizer().token_to_id("<|image_pad|>").unwrap();
    let (_, height, width, _) = pictures.dims4().unwrap();
    let mut starts = (0..ids.len()).filter(|&at| ids[at] == placeholder && ids[at - 1] != placeholder);
    let medium = |picture: Tensor| {
        let rgb = picture.flatten_all().unwrap().to_vec1::<u8>().unwrap();
        let key = rgb.iter().fold(0u64, |key, &byte| key.wrapping_mul(31).wrapping_add(byte.into()));
        let pixels = Pixels { width: width as u32, height: height as u32, rgb };
        let start = starts.next().unwrap();
        let length = ids[start..].iter().take_while(|&&id| id == placeholder).count();
        let patches = prompter.processor().image.image(&pixels).unwrap();
        Medium { patches: patches.into(), key, runs: vec![(start, length)], is_video: false }
    };
    (0..pictures.dims()[0]).map(|number| pictures.get(number).unwrap()).map(medium).collect()
}

/// Largest difference of two lists.
fn apart(one: impl Iterator<Item = f64>, other: impl Iterator<Item = f64>) -> f64 {
    one.zip(other).map(|(one, other)| (one - other).abs()).fold(0.0, f64::max)
}

/// Advantages and loss from the release's own log-probabilities.
fn same_objective(step: &Step) -> (f64, f64) {
    let knobs = Knobs::paragrpo();
    let batch: Vec<Sequence<'_>> = step.rollouts.iter().map(|one| one.sequence(&one.reference)).collect();
    let made = advantages(&batch, &knobs).unwrap();
    let different = step
        .rollouts
        .iter()
        .zip(&made.tokens)
        .map(|(one, tokens)| apart(one.at(tokens), one.at(&one.advantages)));
    let packed = pack(&batch, &made, &(0..batch.len()).collect::<Vec<_>>());
    let prox: Vec<f64> = step.rollouts.iter().flat_map(|one| one.at(&one.prox)).collect();
    let sums = token_losses(&prox, &packed.with_prox(&prox), &knobs).0;
    (different.fold(0.0, f64::max), sums.mean(sums.sum))
}

#[test]
#[ignore = "needs the release: run by ci/target8/train"]
fn the_released_trainers_steps_are_those_of_this_one() {
    compare(&given("PARAVT_AREAL_DUMP"), |example| Ok(example.clone()));
}

#[test]
#[ignore = "needs the release: run by ci/target8/train"]
fn without_its_mend_the_released_trainer_reads_what_follows_the_last_frame() {
    compare(&given("PARAVT_AREAL_BLIND_DUMP"), Example::last_sequence);
}

/// Steps of the release beside those of this trainer, whose models read `read` of each rollout.
fn compare(folder: &Path, read: impl Fn(&Example) -> paravt_train::Result<Example>) {
    let model = given("PARAVT_AREAL_MODEL");
    let learner = Learner::load(&model, &Compute::cpu()).unwrap();
    let first = Learner::load(&model, &Compute::cpu()).unwrap().scorer().unwrap();
    let (weights, knobs) = (learner.parameters().all(), Knobs::paragrpo());
    let mut optimizer: Option<AdamW> = None;
    println!(
        "| step | rollouts, tokens | advantages apart | loss: release | here, from its log-probabilities | here | log-probabilities apart, from the server's | gradient norm: release | here |\n|---|---|---|---|---|---|---|---|---|"
    );
    for number in 0.. {
        let Some(step) = Step::read(folder, number, &learner) else {
            assert!(number >= 3, "{number} steps in {}", folder.display());
            break;
        };
        let (different, loss) = same_objective(&step);
        // All of it by this trainer, from the ids and the pictures.
        let seen: Vec<Example> = step.rollouts.iter().map(|one| read(&one.example).unwrap()).collect();
        let scored = |(one, seen): (&Rollout, &Example)| {
            let mut values = vec![0.0; one.example.ids.len()];
            let found = first.logprobs(&[seen], REFERENCE_TEMPERATURE).unwrap();
            one.example.rows().zip(found).for_each(|(row, value)| values[row] = value.into());
            values
        };
        let reference: Vec<Vec<f64>> = step.rollouts.iter().zip(&seen).map(scored).collect();
        let batch: Vec<Sequence<'_>> =
            step.rollouts.iter().zip(&reference).map(|(one, reference)| one.sequence(reference)).collect();
        let made = advantages(&batch, &knobs).unwrap();
        let (mut gradients, mut whole, mut logprobs) = (Gradients::default(), 0.0, 0.0f64);
        let mut from_server = 0.0;
        for (place, (one, seen)) in step.rollouts.iter().zip(&seen).enumerate() {
            let targets: Vec<u32> = seen.targets().collect();
            let (new, _) =
                token_logprobs(&learner.logits(&[seen]).unwrap(), &targets, knobs.temperature).unwrap();
            let prox: Vec<f64> = new.to_vec1::<f32>().unwrap().into_iter().map(f64::from).collect();
            logprobs = logprobs.max(apart(prox.iter().copied(), one.at(&one.prox)));
            // The server's stand at the token, the trainer's at the row before it.
            let server = one.example.rows().map(|row| one.behaviour[row + 1]);
            from_server += prox.iter().zip(server).map(|(one, other)| (one - other).abs()).sum::<f64>();
            let packed = pack(&batch, &made, &[place]);
            let (loss, _) = policy_loss(&new, &packed.with_prox(&prox), &knobs).unwrap();
            let loss = (loss * knobs.scale(prox.len(), made.trained, step.rollouts.len())).unwrap();
            whole += f64::from(loss.to_scalar::<f32>().unwrap());
            gradients.add(Gradients::of(&weights, loss.backward().unwrap()).unwrap()).unwrap();
        }
        let config = AdamWConfig { learning_rate: step.learning_rate, ..AdamWConfig::default() };
        let norm = optimizer
            .get_or_insert_with(|| AdamW::new(config, weights.clone()))
            .step(&gradients, 1.0)
            .unwrap();
        println!(
            "| {number} | {}, {} | {different:.1e} | {:.6} | {loss:.6} | {whole:.6} | {logprobs:.1e}, {:.2} | {:.5} | {norm:.5} |",
            step.rollouts.len(),
            made.trained,
            step.loss,
            from_server / made.trained as f64,
            step.grad_norm
        );
        assert!(different < 1e-3, "step {number}: advantages are {different} apart");
        assert!(logprobs < 1e-3, "step {number}: log-probabilities are {logprobs} apart");
        assert!((loss - step.loss).abs() < 1e-4, "step {number}: {loss} here, {} there", step.loss);
        assert!(
            (norm / step.grad_norm - 1.0).abs() < 1e-2,
            "step {number}: {norm} here, {} there",
            step.grad_norm
        );
    }
}

//! Images in the place of a video: what the code has, what is shown, and files that are not what they seem.

use std::path::{Path, PathBuf};
use std::process::Command;

use paravt_jail::{Error, Limits, Medium, Outcome};

use crate::{jail, limits, stdout};

/// Makes files by a script of Python with Pillow; `FOLDER` is where.
fn made(script: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let python =
        std::env::var("PARAVT_PYTHON").expect("PARAVT_PYTHON is not set: run ci/setup, then ci/test");
    let script = format!("import os, zlib, struct\nfrom PIL import Image\nos.chdir('FOLDER')\n{script}")
        .replace("FOLDER", folder.path().to_str().unwrap());
    assert!(Command::new(python).args(["-c", &script]).status().unwrap().success());
    folder
}

fn images(files: &[&Path], shown: Option<[u32; 2]>) -> Medium {
    let files = files.iter().map(|file| PathBuf::from(*file)).collect();
    Medium::Images { files, variable: "image_clue".to_owned(), shown }
}

#[test]
#[ignore = "needs bubblewrap and the Python of ci/setup"]
fn images_are_variables_and_what_is_shown_is_resized() {
    let folder =
        made("Image.new('RGB', (301, 200), (9, 8, 7)).save('a.png'); Image.new('L', (40, 30)).save('b.jpg')");
    let [a, b] = ["a.png", "b.jpg"].map(|name| folder.path().join(name));
    let mut episode = jail(limits()).start(images(&[&a, &b], Some([3136, 20_000]))).unwrap();
    let opened = episode.opened().unwrap().clone();
    assert_eq!((opened.frames, opened.width, opened.height), (2, 301, 200));
    let sizes: Vec<_> = opened.pictures.iter().map(|picture| (picture.width, picture.height)).collect();
    assert_eq!(sizes, [(168, 112), (84, 56)]);
    let code =
        "print(image_clue_0.size, image_clue_1.size, image_clue_1.mode, image_clue_0.getpixel((5, 5)))";
    assert_eq!(stdout(&mut episode, code), "(301, 200) (40, 30) RGB (9, 8, 7)");
    // As in the release, which counts the images that the model is shown, and opens no videos here.
    let output = episode.run("plt.plot([1]); plt.show()").unwrap();
    assert_eq!((output.figures.len(), output.figures_total), (1, 3));
    assert!(matches!(episode.run("VideoReader").unwrap().outcome, Outcome::Raised(_)));
    let files = "import os; print(sorted(os.listdir('/image')), os.path.exists('/video'))";
    assert_eq!(stdout(&mut episode, files), "['0', '1'] False");

    let mut unseen = jail(limits()).start(images(&[&a], None)).unwrap();
    assert!(unseen.opened().unwrap().pictures.is_empty());
    let output = unseen.run("plt.plot([1]); plt.show()").unwrap();
    assert_eq!(output.figures_total, 1);
}

#[test]
#[ignore = "needs bubblewrap and the Python of ci/setup"]
fn depths_orientations_and_animations_are_read_as_pillow_reads_them() {
    let folder = made(
        "Image.new('I;16', (60, 40), 40000).save('deep.png')\n\
         picture = Image.new('RGB', (60, 40)); exif = picture.getexif(); exif[0x0112] = 6\n\
         picture.save('turned.jpg', exif=exif)\n\
         frames = [Image.new('RGB', (60, 40), (v, 0, 0)) for v in (200, 100)]\n\
         frames[0].save('moving.gif', save_all=True, append_images=frames[1:])\n\
         Image.new('RGBA', (60, 40), (10, 20, 30, 0)).save('clear.png')\n\
         Image.new('CMYK', (60, 40)).save('print.jpg')",
    );
    for (name, pixel) in [
        ("deep.png", None),
        // The orientation is not applied, in the release neither.
        ("turned.jpg", Some("(0, 0, 0)")),
        ("moving.gif", Some("(200, 0, 0)")),
        ("clear.png", Some("(10, 20, 30)")),
        ("print.jpg", None),
    ] {
        let file = folder.path().join(name);
        let mut episode = jail(limits()).start(images(&[&file], Some([1, 10_000]))).unwrap();
        let opened = episode.opened().unwrap();
        assert_eq!((opened.width, opened.height, opened.pictures.len()), (60, 40, 1), "{name}");
        let found = stdout(&mut episode, "print(image_clue_0.mode, image_clue_0.getpixel((1, 1)))");
        assert!(found.starts_with("RGB ("), "{name}: {found}");
        assert!(pixel.is_none_or(|pixel| found == format!("RGB {pixel}")), "{name}: {found}");
    }
}

#[test]
#[ignore = "needs bubblewrap and the Python of ci/setup"]
fn bombs_and_broken_files_do_not_start_and_hurt_nobody() {
    let folder = made(
        "def chunk(kind, data):\n    \
             return struct.pack('>I', len(data)) + kind + data + struct.pack('>I', zlib.crc32(kind + data))\n\
         def png(width, height, data):\n    \
             head = struct.pack('>IIBBBBB', width, height, 8, 2, 0, 0, 0)\n    \
             return b'\\x89PNG\\r\\n\\x1a\\n' + chunk(b'IHDR', head) + chunk(b'IDAT', zlib.compress(data)) + chunk(b'IEND', b'')\n\
         open('bomb.png', 'wb').write(png(60000, 60000, bytes(1000)))\n\
         open('line.png', 'wb').write(png(30000, 10, bytes(10 * (3 * 30000 + 1))))\n\
         Image.effect_noise((300, 300), 90).save('whole.png')\n\
         data = open('whole.png', 'rb').read(); open('cut.png', 'wb').write(data[:len(data) // 2])\n\
         open('text.png', 'w').write('not an image'); open('empty.png', 'w').close()",
    );
    let few = Limits { memory: 2 << 30, ..limits() };
    for (name, words) in [
        ("bomb.png", "DecompressionBomb"),
        ("line.png", "too long"),
        ("cut.png", "truncated"),
        ("text.png", "cannot identify"),
        ("empty.png", "cannot identify"),
    ] {
        let file = folder.path().join(name);
        let error =
            jail(few.clone()).start(images(&[&file], Some([1, 10_000]))).unwrap().run("1").unwrap_err();
        assert!(matches!(&error, Error::Start { message, .. } if message.contains(words)), "{name}: {error}");
    }
    let missing =
        jail(limits()).start(images(&[&folder.path().join("none.png")], None)).unwrap_err().to_string();
    assert!(missing.contains("cannot find the image"), "{missing}");
    let pipe = folder.path().join("pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let waits = Limits { start: std::time::Duration::from_secs(5), ..limits() };
    let error = jail(waits).start(images(&[&pipe], None)).unwrap().run("1").unwrap_err();
    assert!(error.to_string().contains("not ready in time"), "{error}");
}

/// Code that overwrites its image, or fills memory with copies, changes its own variables alone.
#[test]
#[ignore = "needs bubblewrap and the Python of ci/setup"]
fn an_image_cannot_be_changed_and_its_copies_are_bounded() {
    let folder = made("Image.new('RGB', (400, 300), (1, 2, 3)).save('a.png')");
    let file = folder.path().join("a.png");
    let before = std::fs::read(&file).unwrap();
    let mut episode = jail(limits()).start(images(&[&file], Some([1, 10_000]))).unwrap();
    let code = "try:\n    image_clue_0.save('/image/0', format='PNG')\nexcept OSError as error:\n    print(type(error).__name__)";
    let said = stdout(&mut episode, code);
    assert!(["OSError", "PermissionError"].contains(&&*said), "{said}");
    let grown = episode.run("pictures = [image_clue_0.resize((20000, 20000)) for _ in range(9)]").unwrap();
    assert_ne!(grown.outcome, Outcome::Done);
    assert_eq!(stdout(&mut episode, "print(image_clue_0.getpixel((0, 0)))"), "(1, 2, 3)");
    assert_eq!(std::fs::read(&file).unwrap(), before);
}

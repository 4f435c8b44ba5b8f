//! The discrete cosine transform of an image, as JPEG uses it.
//!
//! Each block of 8 x 8 pixels is transformed, its coefficients are rounded to multiples that the
//! quality decides, and they are transformed back. Each process has some rows of blocks.

use std::fs::File;
use std::io::{BufReader, BufWriter};
use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::json;
use suci::Bytes;

use crate::args::whole;
use crate::process::{Process, part};
use crate::program::{Program, Told};
use crate::progress::Progress;
use crate::transport::{Result, Tag};

const STRIP: Tag = Tag(50);

/// Pixels in a row or column of a block.
const SIDE: usize = 8;

/// Pixels of an image at most.
const MOST_PIXELS: usize = 32 << 20;

/// Pixels in a row of the image that is made if none is given.
const MADE: usize = 512;

/// Steps of the coefficients at quality 50 (ITU-T T.81, table K.1).
const STEPS: [u16; 64] = [
    16, 11, 10, 16, 24, 40, 51, 61, 12, 12, 14, 19, 26, 58, 60, 55, 14, 13, 16, 24, 40, 57, 69, 56,
    14, 17, 22, 29, 51, 87, 80, 62, 18, 22, 37, 56, 68, 109, 103, 77, 24, 35, 55, 64, 81, 104, 113,
    92, 49, 64, 78, 87, 103, 121, 120, 101, 72, 92, 95, 98, 112, 100, 103, 99,
];

/// Transforms an image by blocks, rounds the coefficients, and transforms them back
#[derive(Args)]
pub(crate) struct Dct {
    /// The image, a PNG file; without it a test image is made. Colours become grey
    input: Option<PathBuf>,
    /// Write the resulting image to this PNG file
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// From 1, the smallest, to 100, the best
    #[arg(long, default_value = "50", value_name = "N", value_parser = whole(1, 100),
          allow_negative_numbers = true)]
    quality: u32,
}

/// A grey image.
#[derive(Clone, PartialEq)]
struct Image {
    width: usize,
    pixels: Vec<u8>,
}

#[derive(PartialEq)]
pub(crate) struct Transformed {
    width: usize,
    pixels: Vec<u8>,
    /// Coefficients that are not zero after rounding.
    kept: u64,
    /// The sum of the squared differences of the pixels.
    error: u64,
}

impl Image {
    /// Soft waves with a disc that has sharp edges.
    fn made() -> Self {
        let pixel = |at: usize| {
            let (x, y) = ((at % MADE) as f64, (at / MADE) as f64);
            let half = MADE as f64 / 2.0;
            let wave = (x / 23.0).sin() * (y / 37.0).cos() * 60.0 + 128.0;
            let is_in_disc = (x - half).hypot(y - half) < half / 2.0;
            (wave + if is_in_disc { 60.0 } else { 0.0 }) as u8
        };
        Self {
            width: MADE,
            pixels: (0..MADE * MADE).map(pixel).collect(),
        }
    }

    fn read(path: &Path) -> Result<Self> {
        let name = |error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
        let file = File::open(path).map_err(|error| name(&error))?;
        let mut decoder = png::Decoder::new(BufReader::new(file));
        decoder.set_transformations(png::Transformations::normalize_to_color8());
        let mut reader = decoder.read_info().map_err(|error| name(&error))?;
        let (width, height) = reader.info().size();
        let (width, height) = (width as usize, height as usize);
        if width.saturating_mul(height) > MOST_PIXELS {
            return Err(name(&"the image has more than 32 Mi pixels").into());
        }
        let length = reader
            .output_buffer_size()
            .ok_or_else(|| name(&"too large"))?;
        let mut bytes = vec![0; length];
        let frame = reader
            .next_frame(&mut bytes)
            .map_err(|error| name(&error))?;
        bytes.truncate(frame.buffer_size());
        let channels = frame.color_type.samples();
        let pixels = bytes.chunks(channels).map(grey).collect();
        Ok(Self { width, pixels })
    }

    fn write(&self, path: &Path) -> Result<()> {
        let name = |error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
        let file = File::create(path).map_err(|error| name(&error))?;
        let width = u32::try_from(self.width)?;
        let height = u32::try_from(self.height())?;
        let mut encoder = png::Encoder::new(BufWriter::new(file), width, height);
        encoder.set_color(png::ColorType::Grayscale);
        encoder.set_depth(png::BitDepth::Eight);
        let mut writer = encoder.write_header().map_err(|error| name(&error))?;
        let written = writer.write_image_data(&self.pixels);
        written
            .and_then(|()| writer.finish())
            .map_err(|error| name(&error))?;
        Ok(())
    }

    fn height(&self) -> usize {
        self.pixels.len() / self.width
    }
}

/// The brightness of a pixel (ITU-R BT.601).
fn grey(pixel: &[u8]) -> u8 {
    match *pixel {
        [red, green, blue, ..] => {
            let sum = 299 * u32::from(red) + 587 * u32::from(green) + 114 * u32::from(blue);
            u8::try_from((sum + 500) / 1000).unwrap_or(u8::MAX)
        }
        [grey, ..] => grey,
        [] => 0,
    }
}

type Block = [f32; SIDE * SIDE];

/// The transform and its steps.
struct Transform {
    /// The cosines, scaled so that the matrix's transpose is its inverse.
    cosines: Block,
    steps: Block,
}

impl Transform {
    fn new(quality: u32) -> Self {
        let cosine = |at: usize| {
            let (row, column) = ((at / SIDE) as f64, (at % SIDE) as f64);
            let scale = if at < SIDE { 0.125_f64.sqrt() } else { 0.5 };
            let angle = (2.0 * column + 1.0) * row * std::f64::consts::PI / 16.0;
            (scale * angle.cos()) as f32
        };
        // The usual scale, of the Independent JPEG Group.
        let percent = match quality {
            0..50 => 5000 / quality.max(1),
            _ => 200 - 2 * quality,
        };
        let step = |at: usize| {
            let step = (u32::from(STEPS[at]) * percent + 50) / 100;
            step.clamp(1, 255) as f32
        };
        Self {
            cosines: std::array::from_fn(cosine),
            steps: std::array::from_fn(step),
        }
    }

    /// Transforms rows and columns.
    fn forward(&self, block: &Block) -> Block {
        let transposed = transpose(&self.cosines);
        multiply(&multiply(&self.cosines, block), &transposed)
    }

    fn back(&self, block: &Block) -> Block {
        let transposed = transpose(&self.cosines);
        multiply(&multiply(&transposed, block), &self.cosines)
    }

    /// Rounds the coefficients. Returns how many are not zero.
    fn round(&self, block: &mut Block) -> u64 {
        let mut kept = 0;
        for (coefficient, step) in block.iter_mut().zip(&self.steps) {
            let multiple = (*coefficient / step).round();
            kept += u64::from(multiple != 0.0);
            *coefficient = multiple * step;
        }
        kept
    }

    /// Transforms an image, or some rows of blocks of one.
    fn apply(&self, image: &Image, progress: &mut Progress) -> Transformed {
        let (width, height) = (image.width, image.height());
        let mut pixels = vec![0; image.pixels.len()];
        let mut kept = 0;
        for top in (0..height).step_by(SIDE) {
            for left in (0..width).step_by(SIDE) {
                let place = |at: usize| {
                    // Pixels at the edge continue beyond it.
                    let row = (top + at / SIDE).min(height - 1);
                    row * width + (left + at % SIDE).min(width - 1)
                };
                let block = std::array::from_fn(|at| f32::from(image.pixels[place(at)]) - 128.0);
                let mut block = self.forward(&block);
                kept += self.round(&mut block);
                let block = self.back(&block);
                // Backwards, so that a pixel of the image is written after those beyond the edge.
                for at in (0..block.len()).rev() {
                    pixels[place(at)] = (block[at] + 128.0).round() as u8;
                }
            }
            progress.show(top as u64, height as u64);
        }
        let differences = pixels.iter().zip(&image.pixels);
        let error = differences.map(|(one, other)| u64::from(one.abs_diff(*other)).pow(2));
        Transformed {
            width,
            error: error.sum(),
            pixels,
            kept,
        }
    }
}

fn transpose(block: &Block) -> Block {
    std::array::from_fn(|at| block[at % SIDE * SIDE + at / SIDE])
}

fn multiply(left: &Block, right: &Block) -> Block {
    std::array::from_fn(|at| {
        let products = (0..SIDE).map(|k| left[at / SIDE * SIDE + k] * right[k * SIDE + at % SIDE]);
        products.sum()
    })
}

impl Dct {
    fn image(&self) -> Result<Image> {
        self.input
            .as_deref()
            .map_or_else(|| Ok(Image::made()), Image::read)
    }
}

/// A strip of an image: the width, and the pixels.
fn encode(width: usize, pixels: &[u8]) -> Bytes {
    [&(width as u64).to_le_bytes(), pixels].concat().into()
}

fn decode(bytes: &[u8]) -> Result<Image> {
    let (width, pixels) = bytes.split_first_chunk().ok_or("not a strip")?;
    let width = usize::try_from(u64::from_le_bytes(*width))?;
    match width {
        0 => Err("a strip without a width".into()),
        _ => Ok(Image {
            width,
            pixels: pixels.to_vec(),
        }),
    }
}

impl Program for Dct {
    type Found = Transformed;

    fn check(&self, _: usize) -> Result<()> {
        Ok(())
    }

    fn parallel(
        &self,
        process: &mut Process,
        progress: &mut Progress,
    ) -> Result<Option<Transformed>> {
        let size = process.size();
        let transform = Transform::new(self.quality);
        if !process.is_root() {
            let strip = decode(&process.recv_from(0, STRIP)?)?;
            let done = transform.apply(&strip, progress);
            let sums = [done.kept.to_le_bytes(), done.error.to_le_bytes()].concat();
            process.gather([&sums, &done.pixels[..]].concat().into())?;
            return Ok(None);
        }
        let image = self.image()?;
        let strip = |rank| {
            let blocks = part(image.height().div_ceil(SIDE), rank, size);
            let row = image.width * SIDE;
            let end = (blocks.end * row).min(image.pixels.len());
            image
                .pixels
                .get(blocks.start * row..end)
                .unwrap_or_default()
        };
        for to in 1..size {
            process.send(to, STRIP, encode(image.width, strip(to)))?;
        }
        let first = Image {
            width: image.width,
            pixels: strip(0).to_vec(),
        };
        let mut whole = transform.apply(&first, progress);
        for part in process.gather(Bytes::new())?.iter().skip(1) {
            let (kept, rest) = part.split_first_chunk().ok_or("not a result")?;
            let (error, pixels) = rest.split_first_chunk().ok_or("not a result")?;
            whole.kept += u64::from_le_bytes(*kept);
            whole.error += u64::from_le_bytes(*error);
            whole.pixels.extend(pixels);
        }
        Ok(Some(whole))
    }

    fn sequential(&self, progress: &mut Progress) -> Result<Transformed> {
        Ok(Transform::new(self.quality).apply(&self.image()?, progress))
    }

    fn tell(&self, found: &Transformed) -> Result<Told> {
        let image = Image {
            width: found.width,
            pixels: found.pixels.clone(),
        };
        if let Some(path) = &self.output {
            image.write(path)?;
        }
        let (width, height, count) = (image.width, image.height(), image.pixels.len() as f64);
        let blocks = width.div_ceil(SIDE) * height.div_ceil(SIDE);
        let kept = found.kept as f64 / (blocks * SIDE * SIDE) as f64;
        let mean = found.error as f64 / count;
        let psnr = 10.0 * (255.0 * 255.0 / mean).log10();
        let (quality, percent) = (self.quality, kept * 100.0);
        Ok(Told {
            text: format!(
                "{width} x {height} pixels, quality {quality}: {percent:.1} % of the \
                 coefficients are not zero, PSNR {psnr:.1} dB"
            ),
            json: json!({
                "width": width, "height": height, "quality": quality, "kept": kept,
                "mean_squared_error": mean
            }),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_transform_is_inverted() {
        let transform = Transform::new(50);
        let block: Block = std::array::from_fn(|at| (at * at % 97) as f32);
        let again = transform.back(&transform.forward(&block));
        assert!(
            block
                .iter()
                .zip(again)
                .all(|(one, other)| (one - other).abs() < 1e-3)
        );
        // A flat block has one coefficient.
        let flat = transform.forward(&[10.0; 64]);
        assert!((flat[0] - 80.0).abs() < 1e-3);
        assert!(flat[1..].iter().all(|coefficient| coefficient.abs() < 1e-3));
    }

    #[test]
    fn images_survive_a_file_and_odd_sizes() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("image.png");
        let image = Image {
            width: 13,
            pixels: (0..13 * 9).map(|at| (at * 2) as u8).collect(),
        };
        image.write(&path).unwrap();
        assert!(Image::read(&path).unwrap() == image);
        let best = Transform::new(100).apply(&image, &mut Progress::new(false));
        let near = |(one, other): (&u8, &u8)| one.abs_diff(*other) <= 2;
        assert!(best.pixels.iter().zip(&image.pixels).all(near));
    }

    #[test]
    fn colours_become_grey() {
        assert_eq!(grey(&[255, 255, 255]), 255);
        assert_eq!(grey(&[0, 255, 0, 9]), 150);
        assert_eq!(grey(&[7, 200]), 7);
    }
}
